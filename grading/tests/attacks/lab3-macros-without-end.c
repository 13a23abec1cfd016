/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: memory|stopped|larger
 */
@solution
#define A(x) x, x, x, x, x, x, x, x, x, x
int many[] = { A(A(A(A(A(A(A(A(1)))))))) };
