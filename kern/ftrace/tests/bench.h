/*
 * Between the files of the bench: instructions of BENCH_CALLS calls of
 * kt_bench_traced(), the least of three, and a figure per call.
 */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include "types.h"

#define BENCH_CALLS 20000

u64 bench_cost_of_events(void);
void bench_report(const char *key, u64 instructions);

/* The stage's: kt_bench_traced is filtered, no tracer is on; @nop: what it then costs. */
void bench_graph(u64 nop);

#endif
