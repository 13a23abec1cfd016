/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: build failure
 */
ELF not C at all
