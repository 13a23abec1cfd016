/*
 * File: kern/ftrace/riscv64/mcount_caller.S
 * State: build failure
 * Points: none
 * Says: wl_begin
 */
@solution
.globl wl_begin
wl_begin:
	ret
