/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: may not have a section
 */
@solution
asm(".section .ftrace_records,\"aw\"; .8byte 0");
