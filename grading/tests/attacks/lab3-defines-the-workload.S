/*
 * File: kern/ftrace/riscv64/mcount_caller.S
 * State: graded
 * Points: half
 * Says: wl_begin
 */
@solution
.globl wl_begin
wl_begin:
	ret
