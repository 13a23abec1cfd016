/*
 * Kprobes: tests the promises of kprobes.h. `kt_kprobe`.
 */
#include "kt.h"
#include "cpu.h"
#include "errno.h"
#include "kprobes.h"

#define FIRST_IN_BODY (HOOK_ENTRY_OFFSET + 4)

long kt_probe_sum(long n);

__noinline long kt_probe_sum(long n)
{
	long sum = 0;

	for (long i = 1; i <= n; i++) {
		barrier();
		sum += i;
	}
	return sum;
}

static unsigned long hits;

static bool count(struct kprobe *p, struct kprobe_regs *regs)
{
	hits++;
	return false;
}

static void one_in_a_body(void)
{
	struct kprobe p = {.symbol_name = "kt_probe_sum", .offset = 8, .pre_handler = count};
	int err = register_kprobe(&p);

	hits = 0;
	kt_promise(!err, "a probe in a body is registered (%d)", err);
	kt_promise(kt_probe_sum(10) == 55, "the function's result is the same");
	kt_promise(hits, "its handler is called (%lu times)", hits);
	unregister_kprobe(&p);
}

static int kprobe_command(int argc, char **argv)
{
	kt_begin();
	one_in_a_body();
	return kt_end();
}
SHELL_COMMAND("kt_kprobe", kprobe_command, "", "kprobes keep their promises");
