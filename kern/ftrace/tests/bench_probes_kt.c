/*
 * The cost of probes in instructions; see bench_kt.c. The handlers of the fprobes are
 * empty; the kretprobe's writes an event, as a probe in kprobe_events does.
 */
#include "bench.h"
#include "kretprobe.h"
#include "kt.h"
#include "livepatch.h"
#include "loader/loader.h"
#include "trace_event.h"

void kt_bench_patched(void);
__noinline notrace void kt_bench_patched(void)
{
	barrier();
}

static notrace int enter(struct fprobe *fp, unsigned long ip, unsigned long ret_ip,
			 struct ftrace_regs *regs, void *data)
{
	return 0;
}
static notrace void leave(struct fprobe *fp, unsigned long ip, unsigned long ret_ip,
			  struct ftrace_regs *regs, void *data)
{
}
static inline void fill(struct function_entry *e, const struct kretprobe_instance *ri)
{
	put_address(e->ip, (unsigned long)kt_bench_patched);
	put_address(e->parent_ip, ri->ret_addr);
}

static notrace __noinline int write_slowly(struct kretprobe_instance *ri)
{
	struct trace_write w;
	struct function_entry *e = trace_reserve(&global_trace, TRACE_FN, sizeof(*e), &w);

	if (e)
		fill(e, ri);
	trace_end(&w, e);
	return 0;
}

/* By the short path (trace_event.h), as an event of a fixed size can be written. */
static notrace int write_event(struct kretprobe_instance *ri, struct ftrace_regs *regs)
{
	struct ring_buffer_cpu *rb =
		(void *)((char *)&global_trace + (unsigned long)this_cpu()->ftrace);
	unsigned long flags = irq_save();
	u64 now = clock_ns(), delta = now - rb->last_ts,
	    end = event_end(rb->page, EVENT_WORDS(struct function_entry));
	struct function_entry *e;

	if (unlikely(rb->slow) || unlikely(!event_fits(delta, end))) {
		irq_restore(flags);
		return write_slowly(ri);
	}
	e = event_start(rb, rb->page, end, now, delta, TRACE_FN, EVENT_WORDS(struct function_entry),
			flags);
	fill(e, ri);
	event_commit(rb->page, end);
	irq_restore(flags);
	return 0;
}

static u64 cost_with(struct fprobe *fp, const char *function)
{
	u64 cost;

	register_fprobe(fp, function, NULL);
	cost = bench_cost_of_events();
	unregister_fprobe(fp);
	return cost;
}

/* The cost of the trace event of @line; its function is kt_bench_traced. */
static void report_event(const char *key, const char *line, u64 nop)
{
	kt_echo(line, "dynamic_events", true);
	kt_echo("1", "events/bench/enable", false);
	bench_report(key, bench_cost_of_events() - nop);
	kt_echo("0", "events/bench/enable", false);
	kt_echo("-:bench/", "dynamic_events", true);
}

#ifdef __riscv
#define BODY "kt_bench_traced+4"
#else
#define BODY "kt_bench_traced+8"
#endif

static void bench_probe_events(u64 nop)
{
	report_event("kprobe_event", "p:bench/e kt_bench_traced", nop);
	report_event("kprobe_event_args", "p:bench/e kt_bench_traced $arg1 $arg2 $arg3:u32", nop);
	report_event("kprobe_event_body", "p:bench/e " BODY, nop);
	report_event("kretprobe_event", "r:bench/e kt_bench_traced", nop);
	report_event("fprobe_event", "f:bench/e kt_bench_traced", nop);
}

/* The calls give all these functions an equal frame. */
static notrace __noinline void with_site(void)
{
	kt_bench_patched();
	TRACE(kfree, NULL, NULL);
	kt_bench_patched();
}

static notrace __noinline void with_two_sites(void)
{
	kt_bench_patched();
	TRACE(kfree, NULL, NULL);
	TRACE(module_free, "");
	kt_bench_patched();
}

static void bench_static_event(void)
{
	u64 off = bench_cost_of(with_site), on;

	bench_report("static_off", bench_cost_of(with_two_sites) - off);
	kt_echo("1", "events/kmem/kfree/enable", false);
	on = bench_cost_of(with_site);
	kt_echo("0", "events/kmem/kfree/enable", false);
	bench_report("static_event", on - off);
}

void bench_probes(u64 nop)
{
	static struct fprobe both = {enter, leave}, other = {enter, leave}, entry = {enter};
	static struct kretprobe rp = {{"kt_bench_traced"}, write_event};
	static struct klp_func funcs[] = {{"kt_bench_traced", .new_func = kt_bench_patched}, {}};
	static struct klp_patch patch = {funcs};
	u64 alone = cost_with(&both, "kt_bench_traced"), beside;

	register_fprobe(&other, "kt_bench_other", NULL);
	beside = cost_with(&both, "kt_bench_traced");
	unregister_fprobe(&other);
	bench_report("fprobe", alone - nop);
	bench_report("fprobe_other", beside > alone ? beside - alone : 0);
	bench_report("fprobe_entry", cost_with(&entry, "kt_bench_traced") - nop);
	register_kretprobe(&rp);
	bench_report("kretprobe", bench_cost_of_events() - nop);
	unregister_kretprobe(&rp);
	klp_enable_patch(&patch);
	bench_report("livepatch", bench_cost_of_events() - nop);
	klp_disable_patch(&patch);
	bench_probe_events(nop);
	bench_static_event();
}

static u64 event_of(void (*fn)(void))
{
	u64 off = bench_cost_of(fn), on;

	kt_echo("function", "current_tracer", false);
	on = bench_cost_of(fn);
	kt_echo("nop", "current_tracer", false);
	return on - off;
}

/*
 * bench_module KEY: mt_hello is loaded. What an event of its function costs more than one of the
 * kernel's.
 */
static int bench_module_command(int argc, char **argv)
{
	struct module *owner;
	void (*leaf)(void) = (void (*)(void))module_find_export("mt_leaf", &owner);
	u64 here, there;

	if (argc < 2 || !leaf)
		return 1;
	set_cpu_affinity(this_cpu()->index);
	kt_echo("mt_leaf kt_bench_traced", "set_ftrace_filter", false);
	here = event_of(kt_bench_traced);
	there = event_of(leaf);
	kt_echo("", "set_ftrace_filter", false);
	bench_report(argv[1], there > here ? there - here : 0);
	set_cpu_affinity(-1);
	return 0;
}
SHELL_COMMAND("bench_module", bench_module_command, "KEY",
	      "the cost of an event of a module's function");
