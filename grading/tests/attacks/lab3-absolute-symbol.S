/*
 * File: kern/ftrace/riscv64/mcount_caller.S
 * State: build failure
 * Points: none
 * Says: absolute
 */
@solution
.set entry_seen, 0xffffffff80000000
