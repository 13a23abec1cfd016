/* Lab 1 has no records, so there is nothing to check. */
#include "tracer.h"

struct ftrace_table ftrace_kernel_table;

void ftrace_check_records(struct ftrace_table table)
{
}
