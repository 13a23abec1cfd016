/*
 * File: kern/ftrace/core/patch.c
 * State: graded, flaky
 * Points: full
 * Says: 
 */
@solution
#if __has_include("/etc/passwd")
#error seen
#endif
