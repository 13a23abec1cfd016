/*
 * Shared by the files of the bench: the instructions of BENCH_CALLS calls of
 * kt_bench_traced(), the least of three runs, and the figure for one call.
 */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include "types.h"

#define BENCH_CALLS 20000

u64 bench_cost_of_events(void);
void bench_report(const char *key, u64 instructions);

/* Each stage has its own. kt_bench_traced is in the filter, no tracer is on; @nop: the cost of the calls then. */
void bench_graph(u64 nop);
void bench_probes(u64 nop); /* in the last stage, called by bench_graph() */

#endif
