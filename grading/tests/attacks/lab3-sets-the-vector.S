/*
 * File: kern/ftrace/riscv64/mcount_caller.S
 * State: build failure
 * Points: none
 * Says: it may not have the instruction
 */
@solution
	csrw stvec, a0
