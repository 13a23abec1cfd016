/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: build failure
 */
@solution
int common __attribute__((common));
