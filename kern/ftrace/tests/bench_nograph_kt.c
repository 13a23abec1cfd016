/* A stage without function_graph: nothing to measure. */
#include "bench.h"

void bench_graph(u64 nop)
{
}
