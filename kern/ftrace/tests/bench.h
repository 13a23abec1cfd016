/*
 * Shared by the files of the bench: the instructions of BENCH_CALLS calls of
 * a function, or of kt_bench_traced(), the least of three runs, and the figure for one call.
 */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include "types.h"

#define BENCH_CALLS 20000

void kt_bench_traced(void);
u64 bench_cost_of(void (*fn)(void));
u64 bench_cost_of_events(void);
void bench_report(const char *key, u64 instructions);

/*
 * Each stage has its own. kt_bench_traced is in the filter, and no tracer is on. @nop: the cost of
 * the calls without a tracer.
 */
void bench_graph(u64 nop);
/* The last stage's, called by its bench_graph(). */
void bench_probes(u64 nop);
void bench_kprobes(u64 nop);

#endif
