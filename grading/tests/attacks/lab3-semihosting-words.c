/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: 
 */
@solution
asm(".option rvc");
asm("slli x0, x0, 0x1f; srai x0, x0, 7");
