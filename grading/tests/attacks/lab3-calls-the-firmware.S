/*
 * File: kern/ftrace/riscv64/mcount_caller.S
 * State: graded
 * Points: half
 * Says: it may not have the instruction
 */
@solution
	ecall
