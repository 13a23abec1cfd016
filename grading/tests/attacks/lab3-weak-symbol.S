/*
 * File: kern/ftrace/riscv64/mcount_caller.S
 * State: graded
 * Points: half
 * Says: schedule|weak
 */
@solution
	.data
	.weak schedule
	.8byte schedule
