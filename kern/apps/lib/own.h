/* Included before a program of your own (APP=): its entry in the shell's table. */
#include "app.h"

APP("...", "a program of your own");
/* In a copy of a program of kern/apps/: it has its entry. */
#undef APP
#define APP(...)
