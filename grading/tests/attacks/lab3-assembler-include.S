/*
 * File: kern/ftrace/riscv64/mcount_caller.S
 * State: build failure
 * Points: none
 * Says: an.t open|No such file|not found
 */
@solution
.include "/etc/passwd"
