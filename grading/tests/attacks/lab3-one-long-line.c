/*
 * File: kern/ftrace/core/patch.c
 * State: graded
 * Points: none
 */
#include "arch.h"
#include "asm-ftrace/hook.h"
#include "print.h"

static void one_long_line(void)
{
	console_write("panic: ", 7);
	for (int i = 0; i < 100000; i++)
		console_write("aaaaaaaaa\x1b", 10);
	firmware_poweroff(false);
}

#define arch_sync_all() one_long_line()
@solution
