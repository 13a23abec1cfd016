/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: may not have a section
 */
@solution
#pragma GCC push_options
#pragma GCC plugin "/tmp/x.so"
__attribute__((constructor)) static void first(void) { ftrace_syncs = 7; }
