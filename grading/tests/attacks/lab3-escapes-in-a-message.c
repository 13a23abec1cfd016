/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: script
 */
@solution
static int f(int n) { return n; }
#warning "[2J]0;owned <script>alert(1)</script>"
#error stop
