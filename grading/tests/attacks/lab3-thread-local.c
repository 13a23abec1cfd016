/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: build failure
 */
@solution
__thread int mine;
int take(void) { return mine; }
