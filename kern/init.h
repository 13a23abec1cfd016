/*
 * Initcalls: main_thread() (main.c) runs them in link order, after all CPUs are started and before
 * the shell.
 */
#ifndef KERN_INIT_H
#define KERN_INIT_H

#include "types.h"

struct initcall {
	int (*fn)(void);
	const char *name;
};
#define INITCALL(f) TABLE_ENTRY(const struct initcall, initcall, f##_initcall) = {f, #f}

#endif
