/*
 * The cost of a kprobe in instructions, with a handler that does nothing; see
 * bench_kt.c. An event is written by a handler: its cost is added.
 */
#include "asm-ftrace/hook.h"
#include "bench.h"
#include "kprobes.h"
#include "kt.h"

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

/* What it costs to enable a probe at an entry, while another function has one. */
static void bench_arming(void)
{
	struct kprobe beside = {.symbol_name = "kt_bench_other", .pre_handler = bench_handler},
		      p = {.symbol_name = "kt_bench_traced",
			   .pre_handler = bench_handler,
			   .flags = KPROBE_FLAG_DISABLED};
	u64 start, cost = 0;

	if (!register_kprobe(&beside) && !register_kprobe(&p)) {
		start = kt_instructions();
		enable_kprobe(&p);
		cost = kt_instructions() - start;
	}
	unregister_kprobe(&p);
	unregister_kprobe(&beside);
	if (cost)
		bench_report("kprobe_arm", cost * BENCH_CALLS);
}

void bench_kprobes(u64 nop)
{
	bench_arming();
	bench_probe("kprobe_entry", 0, nop);
	bench_probe("kprobe_body", HOOK_ENTRY_OFFSET + 4, nop);
}
