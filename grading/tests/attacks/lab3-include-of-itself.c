/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: nested|redefinition|build failure
 */
@solution
#include __FILE__
