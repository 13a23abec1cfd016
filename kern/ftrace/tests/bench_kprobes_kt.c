/*
 * The cost of a kprobe in instructions, with a handler that does nothing; see
 * bench_kt.c. An event is written by a handler: its cost is added.
 */
#include "asm-ftrace/hook.h"
#include "bench.h"
#include "kprobes.h"

static bool bench_handler(struct kprobe *p, struct kprobe_regs *regs)
{
	return false;
}

static void bench_probe(const char *key, unsigned long offset, u64 nop)
{
	struct kprobe p = {
		.symbol_name = "kt_bench_traced", .offset = offset, .pre_handler = bench_handler};

	if (register_kprobe(&p))
		return;
	bench_report(key, bench_cost_of_events() - nop);
	unregister_kprobe(&p);
}

void bench_kprobes(u64 nop)
{
	bench_probe("kprobe_entry", 0, nop);
	bench_probe("kprobe_body", HOOK_ENTRY_OFFSET + 4, nop);
}
