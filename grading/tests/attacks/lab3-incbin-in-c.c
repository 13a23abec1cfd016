/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: file not found|can.t open|No such file
 */
@solution
asm(".incbin \"/etc/passwd\"");
