/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: may not have a section
 */
@solution
asm(".section .init_array,\"aw\"; .8byte insn_call");
