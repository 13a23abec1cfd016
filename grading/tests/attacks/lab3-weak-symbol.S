/*
 * File: kern/ftrace/riscv64/mcount_caller.S
 * State: build failure
 * Points: none
 * Says: schedule|weak
 */
@solution
	.data
	.weak schedule
	.8byte schedule
