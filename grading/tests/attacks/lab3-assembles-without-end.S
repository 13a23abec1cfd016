/*
 * File: kern/ftrace/riscv64/mcount_caller.S
 * State: graded
 * Points: half
 * Says: memory|stopped|larger
 */
@solution
.rept 100000000
	nop
.endr
