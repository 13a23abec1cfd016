/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: bwrap is not installed
 */
#error No space left on device: bwrap is not installed
