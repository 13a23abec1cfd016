/* Lab 7: no probes. */
#include "kprobes.h"

bool kprobe_within(unsigned long start, unsigned long end)
{
	return false;
}
