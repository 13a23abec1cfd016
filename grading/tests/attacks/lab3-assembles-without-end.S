/*
 * File: kern/ftrace/riscv64/mcount_caller.S
 * State: build failure
 * Points: none
 * Says: memory|stopped|larger
 */
@solution
.rept 100000000
	nop
.endr
