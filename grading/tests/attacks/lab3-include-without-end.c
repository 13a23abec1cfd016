/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: No such file|stopped|Permission
 */
#include "/dev/zero"
