/*
 * Applications as the kernel sees them: a table of names and entry points,
 * made by the build from kern/apps/ and APP=, and how one is run.
 */
#ifndef KERN_APPRUN_H
#define KERN_APPRUN_H

#include "types.h"

struct app {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *const *help; /* its arguments, what it does */
};
extern const struct app app_table[]; /* sorted by name */
extern const unsigned app_count;

const struct app *app_find(const char *name);

/*
 * Run it in the calling thread, whose standard output it has. Files that it
 * left open are closed. Ctrl-C may end the thread instead of returning, so the
 * caller keeps what must be freed where its joiner finds it. Context: thread.
 * Return: its exit status (0 to 255), or -ENOMEM.
 */
int app_run(const struct app *app, int argc, char **argv);

#endif
