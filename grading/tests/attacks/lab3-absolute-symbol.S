/*
 * File: kern/ftrace/riscv64/mcount_caller.S
 * State: graded
 * Points: half
 * Says: absolute
 */
@solution
.set entry_seen, 0xffffffff80000000
