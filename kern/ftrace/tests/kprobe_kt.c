/*
 * Kprobes: tests the promises of kprobes.h. `kt_kprobe`.
 */
#include "kt.h"
#include "asm-ftrace/hook.h"
#include "breakpoint.h"
#include "cpu.h"
#include "errno.h"
#include "kprobe_point.h"
#include "ksyms.h"
#include "sched.h"
#include "string.h"
#include "trace.h"
#include "trap.h"
#include "unwind.h"

#define FIRST_IN_BODY (HOOK_ENTRY_OFFSET + 4)
#ifdef __riscv
#define LINK_REGISTER	1
#define BREAK_CAUSE	.cause = 3
#define IRQ_PENDING()	(csr_read(sip) & csr_read(sie))
#define INSN_IRQ_ENABLE 0x10016073 /* csrsi sstatus, 2 */
#define INSN_RETURN	0x00008067
#else
#define LINK_REGISTER	30
#define BREAK_CAUSE	.esr = 0xf2000000 | BREAK_NUMBER
#define IRQ_PENDING()	sysreg_read(isr_el1)
#define INSN_IRQ_ENABLE 0xd50342ff /* msr daifclr, #2 */
#define INSN_RETURN	0xd65f03c0
#endif
#define SLOTS_START   ((unsigned long)kprobe_slots)

/* ---- The functions that are probed. ---- */

long kt_probe_leaf(long x);
long kt_probe_plain(long x);
long kt_probe_branches(long x);
long kt_probe_atomics(long x);
long kt_probe_calls(long x);
long kt_probe_many(long x);
void kt_probe_enable(void);

__noinline long kt_probe_leaf(long x)
{
	barrier();
	return 3 * x + 1;
}

/* Loads, stores, arithmetic, a loop. */
__noinline long kt_probe_plain(long x)
{
	volatile u8 bytes[16];
	volatile short shorts[4];
	volatile int ints[4];
	volatile long sum = x;

	for (int i = 0; i < 16; i++)
		bytes[i] = x >> i;
	for (int i = 0; i < 4; i++) {
		shorts[i] = bytes[i] * 257 - x;
		ints[i] = shorts[i] ^ (int)(x << i);
		sum += (long)ints[i] * x + (s8)bytes[4 + i] + (u16)shorts[i] % 7 +
		       (x / (i + 3)) % (i + 2);
	}
	return sum ^ ((u64)x >> 3) ^ (x < 4) ^ ((u64)x < 9) << 1;
}

/* The two ways of a branch give different sums. */
#define TWO_WAYS(branch) branch " 1f\n\tadd %0, %0, %0\n1:\tadd %0, %0, %1\n\t"
#ifdef __riscv
static inline __attribute__((always_inline)) long each_branch(long r, long x, long y)
{
	__asm__ volatile(TWO_WAYS("beq %1, %2,") TWO_WAYS("bne %1, %2,") TWO_WAYS("blt %1, %2,")
			 TWO_WAYS("bge %1, %2,")
			 TWO_WAYS("bltu %1, %2,") TWO_WAYS("bgeu %1, %2,")
			 "auipc t0, 0\n\t"
			 "jalr t1, 12(t0)\n\t" /* over the next one */
			 "add %0, %0, %0\n\t"
			 "sub t1, t1, t0\n\t"
			 "add %0, %0, t1\n\t"
			 "auipc t2, 1\n\t"
			 "sub t2, t2, t0\n\t"
			 "add %0, %0, t2\n\t"
			 "j 2f\n\t"
			 "add %0, %0, %0\n"
			 "2:\tjal t0, 3f\n\t"
			 "j 4f\n"
			 "3:\taddi %0, %0, 5\n\t"
			 "jr t0\n"
			 "4:\n"
			 : "+r"(r) : "r"(x), "r"(y) : "t0", "t1", "t2");
	return r;
}
#else
static inline __attribute__((always_inline)) long each_branch(long r, long x, long y)
{
	__asm__ volatile("cmp %1, %2\n\t"
			 TWO_WAYS("b.eq") TWO_WAYS("b.ne") TWO_WAYS("b.hs") TWO_WAYS("b.lo")
			 TWO_WAYS("b.mi") TWO_WAYS("b.pl")
			 TWO_WAYS("b.vs") TWO_WAYS("b.vc") TWO_WAYS("b.hi") TWO_WAYS("b.ls")
			 TWO_WAYS("b.ge") TWO_WAYS("b.lt")
			 TWO_WAYS("b.gt") TWO_WAYS("b.le") TWO_WAYS("b.al")
			 TWO_WAYS("cbz %2,") TWO_WAYS("cbnz %2,") TWO_WAYS("cbz %w1,")
			 TWO_WAYS("tbz %2, #0,") TWO_WAYS("tbnz %2, #63,")
			 TWO_WAYS("tbz %1, #1,")
			 "adr x9, .\n\t"
			 "adr x10, . + 8\n\t"
			 "sub x10, x10, x9\n\t"
			 "add %0, %0, x10\n\t"
			 "adrp x10, .\n\t"
			 "and x9, x9, #~0xfff\n\t"
			 "sub x10, x10, x9\n\t"
			 "add %0, %0, x10\n\t"
			 ".subsection 1\n\t" /* after the last function of this file */
			 ".balign 8\n"
			 "5:\t.quad 0xfedcba9876543210\n\t"
			 ".previous\n\t"
			 "ldr x9, 5b\n\t"
			 "ldr w10, 5b\n\t"
			 "ldrsw x11, 5b + 4\n\t"
			 "add %0, %0, x9\n\t"
			 "eor %0, %0, x10\n\t"
			 "add %0, %0, x11\n\t"
			 "prfm pldl1keep, 5b\n\t"
			 "adr x9, 3f\n\t"
			 "adr x10, 4f\n\t"
			 "br x9\n\t"
			 "3:\tadd %0, %0, #3\n\t"
			 "ret x10\n\t"
			 "add %0, %0, %0\n"
			 "4:\tb 6f\n\t"
			 "add %0, %0, %0\n"
			 "6:\n"
			 : "+r"(r) : "r"(x), "r"(y) : "x9", "x10", "x11", "cc");
	return r;
}
#endif

__noinline long kt_probe_branches(long x)
{
	long r = 1;

	for (long y = x - 2; y < x + 3; y++)
		r = each_branch(r, x, y);
	return r;
}

/* Atomics, fences, and masking interrupts. */
__noinline long kt_probe_atomics(long x)
{
	static long word, other;
	unsigned long flags = irq_save();
	long old = 5;

	word = x;
	__atomic_fetch_add(&word, 3, __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&word, 0x40, __ATOMIC_ACQ_REL);
	__atomic_compare_exchange_n(&word, &old, 7, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	__atomic_store_n(&other, word, __ATOMIC_RELEASE);
	smp_mb();
	old += __atomic_load_n(&other, __ATOMIC_ACQUIRE) +
	       __atomic_exchange_n(&word, 1, __ATOMIC_SEQ_CST);
	irq_restore(flags);
	return old + (irqs_disabled() ? 1000 : 0);
}

/* Calls, direct and through a pointer, and a tail call. */
__noinline long kt_probe_calls(long x)
{
	long (*volatile leaf)(long) = kt_probe_leaf;

	x = kt_probe_leaf(x) + leaf(x);
	x += kt_probe_plain(x);
	return x & 1 ? leaf(x) : kt_probe_leaf(x + 1);
}

/* More instructions than slots. */
__noinline long kt_probe_many(long x)
{
	__asm__ volatile(".rept 300\n\tadd %0, %0, %1\n\t.endr" : "+r"(x) : "r"(x));
	return x;
}

__noinline void kt_probe_enable(void)
{
	barrier();
	irq_enable();
	barrier();
}

/* The last one has static words: only one thread may call it. */
static long (*const functions[])(long) = {kt_probe_leaf, kt_probe_plain, kt_probe_branches,
					  kt_probe_calls, kt_probe_atomics};
#define SHARED 4 /* functions */
static const long inputs[] = {0, 1, -1, 2, 5, 69, 1000000007, ~(~0ul >> 1), 0x123456789abcdef};

static unsigned long size_of(const void *function)
{
	unsigned long offset, size;

	return ksym_lookup((unsigned long)function, &offset, &size) ? size : 0;
}

/* ---- Handlers. ---- */

static unsigned long hits, posts, unlike;
static unsigned long walked_to; /* the callers that a handler must find */

static bool count(struct kprobe *p, struct kprobe_regs *regs)
{
	__atomic_add_fetch(&hits, 1, __ATOMIC_RELAXED);
	return false;
}
static void count_post(struct kprobe *p, struct kprobe_regs *regs)
{
	__atomic_add_fetch(&posts, 1, __ATOMIC_RELAXED);
}

/* Counts a walk that does not find the probed instruction, and then the function @walked_to. */
static bool walk(struct kprobe *p, struct kprobe_regs *regs)
{
	bool here = regs->entry, caller = false;
	struct unwind u;

	hits++;
	unwind_start_here(&u);
	do {
		unsigned long offset;

		here |= u.pc == p->addr;
		if (here && ksym_lookup(u.pc, &offset, NULL))
			caller |= u.pc - offset == walked_to;
	} while (unwind_next(&u));
	unlike += !here || !caller;
	return false;
}

/* ---- The promises. ---- */

static long expected[ARRAY_SIZE(functions)][ARRAY_SIZE(inputs)];

/* Compare all results; return how many differ. The walks of handlers end here. */
static __noinline unsigned run_all(void)
{
	unsigned wrong = 0;

	for (unsigned f = 0; f < ARRAY_SIZE(functions); f++)
		for (unsigned i = 0; i < ARRAY_SIZE(inputs); i++)
			wrong += functions[f](inputs[i]) != expected[f][i];
	return wrong;
}

struct tally {
	unsigned probed, refused, other, wrong, unhit;
};

/* Probe each instruction of @f alone; with more CPUs, for which each write waits, every third. */
static void probe_each(unsigned long f, struct kprobe model, struct tally *t)
{
	for (unsigned long at = FIRST_IN_BODY; at<size_of((void *)f); at += nr_cpus> 1 ? 12 : 4) {
		struct kprobe p = model;
		int err;

		p.addr = f + at;
		err = register_kprobe(&p);
		t->probed += !err;
		t->refused += err == -EOPNOTSUPP;
		t->other += err && err != -EOPNOTSUPP;
		if (err)
			continue;
		t->wrong += run_all();
		t->wrong += p.nmissed;
		unregister_kprobe(&p);
	}
}

static void every_instruction(void)
{
	static const struct kprobe models[] = {{.pre_handler = count},
					       {.pre_handler = walk, .post_handler = count_post}};

	for (unsigned f = 0; f < ARRAY_SIZE(functions); f++)
		for (unsigned i = 0; i < ARRAY_SIZE(inputs); i++)
			expected[f][i] = functions[f](inputs[i]);
	walked_to = (unsigned long)run_all;
	for (unsigned m = 0; m < ARRAY_SIZE(models); m++) {
		struct tally t = {0};

		hits = posts = unlike = 0;
		for (unsigned f = 0; f < ARRAY_SIZE(functions); f++)
			probe_each((unsigned long)functions[f], models[m], &t);
		kt_promise(t.probed > 50 && !t.wrong && !t.other,
			   "%u instructions are probed, %u refused, %u with another error; %u "
			   "results differ",
			   t.probed, t.refused, t.other, t.wrong);
		if (models[m].post_handler)
			kt_promise(posts == hits, "%lu pre_handlers, %lu post_handlers", hits,
				   posts);
		kt_promise(hits > t.probed && !unlike,
			   "%lu hits, %lu walks do not find the instruction and its caller", hits,
			   unlike);
	}
}

static void all_at_once(void)
{
	static struct kprobe probes[200];
	unsigned count_of = 0, wrong, want = nr_cpus > 1 ? 60 : ARRAY_SIZE(probes);

	for (unsigned f = 0; f < ARRAY_SIZE(functions); f++)
		for (unsigned long at = 0; at < size_of(functions[f]) && count_of < want; at += 4) {
			struct kprobe *p = &probes[count_of];

			*p = (struct kprobe){.addr = (unsigned long)functions[f] + at,
					     .pre_handler = walk};
			if (count_of % 3)
				p->post_handler = count_post;
			count_of += !register_kprobe(p);
		}
	hits = unlike = 0;
	wrong = run_all();
	kt_promise(count_of == want && !wrong && hits > count_of,
		   "%u instructions at once: %u results differ, %lu hits", count_of, wrong, hits);
	kt_promise(!unlike,
		   "%lu walks through probed functions do not find the instruction and its caller",
		   unlike);
	while (count_of)
		unregister_kprobe(&probes[--count_of]);
	hits = 0;
	kt_promise(!run_all() && !hits, "afterwards no handler is called");
}

static bool add_hundred(struct kprobe *p, struct kprobe_regs *regs)
{
	hits++;
	*kprobe_arg(regs, 0) += 100;
	return false;
}
static bool skip(struct kprobe *p, struct kprobe_regs *regs)
{
	hits++;
	*kprobe_arg(regs, 0) = 4711;
	kprobe_set_pc(regs, *kprobe_reg(regs, LINK_REGISTER));
	return true;
}

static void at_an_entry(void)
{
	struct kprobe p = {.symbol_name = "kt_probe_leaf", .pre_handler = add_hundred}, q = p,
		      r = p, s = p;

	hits = posts = 0;
	q.pre_handler = count;
	q.post_handler = count_post;
	kt_promise(!register_kprobe(&p) && !register_kprobe(&q), "two probes at one entry");
	kt_promise(kt_probe_leaf(1) == 304 && hits == 2 && posts == 1,
		   "both are called, and a changed argument is seen (%lu, %lu)", hits, posts);
	unregister_kprobe(&p);
	kt_promise(kt_probe_leaf(1) == 4 && hits == 3, "one of them is left");
	r.pre_handler = s.pre_handler = skip;
	kt_promise(!register_kprobe(&r), "a probe without KPROBE_FLAG_IPMODIFY");
	hits = 0;
	kt_promise(kt_probe_leaf(1) == 3 * 4711 + 1 && hits == 2, "does not change pc (%lu)", hits);
	unregister_kprobe(&r);
	r.flags = s.flags = KPROBE_FLAG_IPMODIFY;
	kt_promise(!register_kprobe(&r), "one with it is registered");
	kt_promise(register_kprobe(&s) == -EBUSY, "a second one clashes");
	hits = 0;
	kt_promise(kt_probe_leaf(1) == 4711 && hits == 2,
		   "the first one changes pc, beside one that does not (%lu)", hits);
	unregister_kprobe(&r);
	unregister_kprobe(&q);
	hits = 0;
	kt_promise(kt_probe_leaf(1) == 4 && !hits, "nothing is left");
}

/* In the first instruction of the body: nothing has been saved yet. */
static void in_a_body(void)
{
	unsigned long at = (unsigned long)kt_probe_leaf + FIRST_IN_BODY;
	struct kprobe p = {.addr = at, .pre_handler = add_hundred},
		      q = {.addr = at, .pre_handler = count}, r = {.addr = at, .pre_handler = skip},
		      s;

	hits = posts = 0;
	kt_promise(!register_kprobe(&p) && !register_kprobe(&q), "two probes at one instruction");
	kt_promise(kt_probe_leaf(1) == 304 && hits == 2,
		   "both are called, and a changed register is seen");
	unregister_kprobe(&p);
	kt_promise(kt_probe_leaf(1) == 4 && hits == 3, "one of them is left");
	p = (struct kprobe){.addr = at, .post_handler = count_post};
	kt_promise(!register_kprobe(&p) && kt_probe_leaf(1) == 4 && posts == 1,
		   "a post_handler joins");
	disable_kprobe(&q);
	kt_promise(kt_probe_leaf(1) == 4 && hits == 4 && posts == 2,
		   "a disabled one is not called");
	disable_kprobe(&p);
	kt_promise(*(u32 *)at != INSN_BREAK, "nobody is called: the instruction is back");
	enable_kprobe(&q);
	kt_promise(kt_probe_leaf(1) == 4 && hits == 5 && posts == 2,
		   "and is called when it is enabled");
	r.flags = KPROBE_FLAG_IPMODIFY;
	s = r;
	kt_promise(!register_kprobe(&r) && register_kprobe(&s) == -EBUSY,
		   "one probe may change pc");
	hits = 0;
	kt_promise(kt_probe_leaf(1) == 4711 && hits == 2, "and does, beside one that does not");
	unregister_kprobe(&p);
	unregister_kprobe(&q);
	unregister_kprobe(&r);
	kt_promise(*(u32 *)at != INSN_BREAK && disable_kprobe(&p) == -ENOENT, "nothing is left");
}

static int refusal(unsigned long addr)
{
	struct kprobe p = {.addr = addr, .pre_handler = count};
	int err = register_kprobe(&p);

	unregister_kprobe(&p);
	return err;
}

/* How many instructions of exclusive sequences are not refused; 1000: there are none. */
static unsigned exclusive_and_probed(const void *f)
{
	unsigned probed = 1000;
	int inside = 0;

	for (unsigned long at = FIRST_IN_BODY; at < size_of(f); at += 4) {
		int kind = probe_exclusive(*(const u32 *)((unsigned long)f + at));

		if (kind > 0 && probed == 1000)
			probed = 0;
		inside |= kind > 0;
		probed += inside && refusal((unsigned long)f + at) != -EOPNOTSUPP;
		inside &= kind >= 0;
	}
	return probed;
}

/*
 * kprobe_within() keeps rmmod from removing the record of a probed function. Here the
 * point is moved to where there is none.
 */
static void without_a_record(void)
{
	struct kprobe p = {.symbol_name = "kt_probe_leaf", .pre_handler = count};
	int refused = 0, err = register_kprobe(&p);
	bool armed = true;

	if (!err) {
		mutex_lock(&ftrace_lock);
		p.point->key += 4;
		refused = kprobe_arm_entry(p.point, true);
		p.point->key -= 4;
		armed = p.point->armed;
		err = kprobe_arm_entry(p.point, true);
		mutex_unlock(&ftrace_lock);
		unregister_kprobe(&p);
	}
	kt_promise(refused == -ENOENT && !armed && !err,
		   "refused: a function that has no record any more (%d, then %d)", refused, err);
}

static void refusals(void)
{
	struct kprobe p = {.symbol_name = "kt_probe_leaf",
			   .offset = FIRST_IN_BODY,
			   .pre_handler = count},
		      unknown = {.symbol_name = "kt_no_such", .pre_handler = count},
		      nothing = {.symbol_name = "kt_probe_leaf"};
	unsigned long leaf = (unsigned long)kt_probe_leaf, pages;

	kt_promise(refusal(leaf + FIRST_IN_BODY + 2) == -EINVAL &&
			   refusal(leaf + FIRST_IN_BODY + 1) == -EINVAL,
		   "refused: inside an instruction");
	kt_promise(refusal(8) == -EINVAL && refusal((unsigned long)&p) == -EINVAL &&
			   refusal((unsigned long)_data) == -EINVAL &&
			   refusal((unsigned long)_rodata) == -EINVAL,
		   "refused: not text");
	kt_promise(refusal((unsigned long)function_trace_call + 8) == -EINVAL &&
			   refusal(SLOTS_START) == -EINVAL &&
			   refusal((unsigned long)register_kprobe) == -EINVAL,
		   "refused: the tracer, and a slot");
	kt_promise(refusal((unsigned long)exception_vector + 8) == -EINVAL &&
			   refusal((unsigned long)trap_exception + 8) == -EINVAL &&
			   refusal((unsigned long)unwind_next + 8) == -EINVAL &&
			   refusal((unsigned long)irq_exit) == -EINVAL,
		   "refused: the breakpoint's own path");
	kt_promise(refusal((unsigned long)panic + 16) == -EINVAL &&
			   refusal((unsigned long)panic_regs) == -EINVAL,
		   "refused: panic()");
	kt_promise(register_kprobe(&unknown) == -ENOENT && register_kprobe(&nothing) == -EINVAL,
		   "refused: no such function, no handler");
	kt_promise(!register_kprobe(&p) && register_kprobe(&p) == -EEXIST,
		   "refused: the same one twice");
	unregister_kprobe(&p);
	kt_promise(!exclusive_and_probed(kt_probe_atomics),
		   "refused: exclusive pairs, and what is between");
	without_a_record();
	synchronize_sched();
	pages = pages_free_count();
	for (int i = 0; i < 1000; i++) {
		refusal(leaf + 2);
		refusal(8);
		refusal((unsigned long)&p);
		refusal(SLOTS_START);
		refusal((unsigned long)trap_exception + 8);
		register_kprobe(&unknown);
		register_kprobe(&nothing);
		if (i % 100 == 0) {
			refusal(leaf + FIRST_IN_BODY);
			refusal(leaf);
		}
	}
	kt_promise(pages_free_count() >= pages,
		   "7 refusals, 1000 times, and 20 probes later no memory is lost: %lu pages, then "
		   "%lu",
		   pages, pages_free_count());
}

static void too_many(void)
{
	static struct kprobe probes[KPROBE_SLOTS + 1];
	unsigned long start = (unsigned long)kt_probe_many + FIRST_IN_BODY + 16;
	long before = kt_probe_many(3);
	unsigned n = 0;
	int err = 0;

	for (; n < ARRAY_SIZE(probes) && !err; n++) {
		probes[n] = (struct kprobe){.addr = start + 4 * n, .pre_handler = count};
		err = register_kprobe(&probes[n]);
	}
	hits = 0;
	kt_promise(err == -ENOSPC && n == KPROBE_SLOTS + 1,
		   "probe %u of the slots' %u gets error %d", n, KPROBE_SLOTS, err);
	kt_promise(kt_probe_many(3) == before && hits == KPROBE_SLOTS,
		   "and the others are called: %lu", hits);
	while (n)
		unregister_kprobe(&probes[--n]);
}

/* ---- Contexts. ---- */

static bool calls_leaf(struct kprobe *p, struct kprobe_regs *regs)
{
	hits++;
	unlike += kt_probe_leaf(1) != 4 || !irqs_disabled() || kprobe_irqs_off(regs);
	return false;
}

static unsigned long traced;
static notrace void kprobe_kt_callback(unsigned long ip, unsigned long parent_ip,
				       struct ftrace_ops *op, struct ftrace_regs *regs)
{
	traced++;
}

/* The handler of @outer calls a function that has a probe @inner. */
static void nested(struct kprobe outer, struct kprobe inner)
{
	unsigned long all = hits = posts = unlike = 0;

	outer.pre_handler = calls_leaf;
	kt_promise(!register_kprobe(&inner) && !register_kprobe(&outer),
		   "a probe whose handler calls a probed function");
	kt_probe_calls(1);
	all = inner.nmissed;
	kt_promise(
		hits > 1 && all == 1 && posts == hits - 1 && !unlike,
		"in a handler a hit is missed, and its instruction executed (%lu hits, %lu missed)",
		hits, all);
	unregister_kprobe(&outer);
	unregister_kprobe(&inner);
}

static void in_a_handler(void)
{
	struct kprobe entry = {.symbol_name = "kt_probe_calls"}, body = entry,
		      leaf = {.symbol_name = "kt_probe_leaf",
			      .pre_handler = count,
			      .post_handler = count_post},
		      in_leaf = leaf, last = leaf;
	unsigned long alone;
	struct ftrace_ops op = {.func = kprobe_kt_callback, .flags = 0, .slot = -1};

	body.offset = in_leaf.offset = FIRST_IN_BODY;
	while (*(u32 *)((unsigned long)kt_probe_leaf + last.offset) != INSN_RETURN)
		last.offset += 4; /* emulated */
	nested(entry, leaf);
	nested(entry, in_leaf);
	nested(entry, last);
	nested(body, leaf);
	nested(body, in_leaf);
	nested(body, last);
	ftrace_set_filter(&op, "kt_probe_leaf", 13, true, false);
	register_ftrace_function(&op);
	traced = 0;
	kt_probe_calls(1);
	alone = traced;
	traced = 0;
	entry.pre_handler = body.pre_handler = calls_leaf;
	register_kprobe(&entry);
	register_kprobe(&body);
	kt_probe_calls(1);
	kt_promise(traced == alone && traced > 1, "what handlers call is not traced: %lu calls",
		   traced);
	unregister_kprobe(&entry);
	unregister_kprobe(&body);
	unregister_ftrace_function(&op);
	ftrace_set_filter(&op, "", 0, true, false);
}

/*
 * In the timer's interrupt: was the interrupted pc found, the instruction after kt_probe_enable()'s
 * probed one?
 */
static unsigned long enabled_at;
static bool look_for_enabled(struct kprobe *p, struct kprobe_regs *regs)
{
	struct unwind u;

	hits++;
	unwind_start_here(&u);
	do {
		unlike += u.regs && u.pc == enabled_at + 4 && in_tracer(u.regs->pc);
	} while (unwind_next(&u));
	return false;
}

/*
 * Interrupts are enabled by an instruction in a slot, and one is pending: it is taken in the slot.
 */
static void in_an_interrupt(void)
{
	struct kprobe tick = {.symbol_name = "sched_tick",
			      .offset = FIRST_IN_BODY,
			      .pre_handler = look_for_enabled},
		      enable = {.pre_handler = count};
	u64 until;

	for (enabled_at = (unsigned long)kt_probe_enable; *(u32 *)enabled_at != INSN_IRQ_ENABLE;)
		enabled_at += 4;
	enable.addr = enabled_at;
	hits = unlike = 0;
	kt_promise(!register_kprobe(&tick) && !register_kprobe(&enable),
		   "probes in an interrupt handler, and on what enables interrupts");
	for (int i = 0; i < 5; i++) {
		irq_disable();
		for (until = clock_ns() + 25000000; clock_ns() < until || !IRQ_PENDING();)
			cpu_relax();
		kt_probe_enable();
	}
	unregister_kprobe(&enable);
	kt_promise(hits >= 10, "both are hit (%lu)", hits);
	kt_promise(unlike >= 5,
		   "an interrupt in a slot finds the instruction after the probed one (%lu times)",
		   unlike);
	hits = 0;
	/* of any CPU; even a slow host does not reach this limit */
	for (until = clock_ns() + 60000000000; READ_ONCE(hits) < 2 && clock_ns() < until;)
		cpu_relax();
	unregister_kprobe(&tick);
	kt_promise(hits >= 2, "the timer's interrupt is probed alone (%lu)", hits);
	kt_promise(in_tracer(SLOTS_START) && in_tracer(SLOTS_START + sizeof(kprobe_slots) - 4),
		   "irq_exit() does not preempt in a slot");
}

#define FIRE_NS 1500000000
/* A breakpoint was hit just before its instruction was written back. */
static void taken_away(void)
{
	static const u32 foreign = INSN_BREAK;
	struct trap_frame frame = {BREAK_CAUSE, .pc = (unsigned long)kt_probe_leaf + FIRST_IN_BODY};

	kt_promise(break_hook->hit(&frame, 1) &&
			   frame.pc == (unsigned long)kt_probe_leaf + FIRST_IN_BODY,
		   "a breakpoint that is gone: its instruction is executed");
	frame.pc = (unsigned long)&foreign;
	kt_promise(!break_hook->hit(&frame, 1), "another one's breakpoint is left alone");
}

/* On another CPU a handler runs for a while. */
static volatile bool inside, other_stops;
static bool stays(struct kprobe *p, struct kprobe_regs *regs)
{
	u64 until = clock_ns() + 20000000;

	if (this_cpu()->index == 0)
		return false;
	inside = true;
	while (clock_ns() < until)
		cpu_relax();
	inside = false;
	return false;
}
static int call_leaf(void *unused)
{
	while (!other_stops)
		kt_probe_leaf(1);
	return 0;
}

static bool is_inside_after(struct kprobe *p, int (*end)(struct kprobe *))
{
	struct thread *t;
	int err = register_kprobe(p);

	other_stops = inside = false;
	t = kthread_run(call_leaf, NULL, nr_cpus - 1, "caller");
	while (!err && !inside)
		yield();
	end(p);
	err |= inside;
	other_stops = true;
	thread_join(t);
	unregister_kprobe(p);
	return err;
}
static int unregister(struct kprobe *p)
{
	unregister_kprobe(p);
	return 0;
}

static void leaving(void)
{
	struct kprobe entry = {.symbol_name = "kt_probe_leaf", .pre_handler = stays}, body = entry;

	body.offset = FIRST_IN_BODY;
	if (nr_cpus == 1)
		return;
	kt_promise(!is_inside_after(&entry, unregister) && !is_inside_after(&body, unregister),
		   "after unregister_kprobe() no CPU is in a handler");
	kt_promise(!is_inside_after(&entry, disable_kprobe) &&
			   !is_inside_after(&body, disable_kprobe),
		   "nor after disable_kprobe()");
}

static volatile bool stop;
static unsigned long wrong_results, rounds;

static int hammer(void *unused)
{
	u64 x = current->pid;

	while (!stop) {
		x = x * 6364136223846793005 + 1442695040888963407;
		unsigned f = (x >> 33) % SHARED, i = (x >> 40) % ARRAY_SIZE(inputs);

		if (functions[f](inputs[i]) != expected[f][i])
			__atomic_add_fetch(&wrong_results, 1, __ATOMIC_RELAXED);
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	}
	return 0;
}

/*
 * A thread on each CPU calls the functions while probes are registered and unregistered; this
 * thread preempts the first.
 */
static void under_fire(void)
{
	struct thread *threads[NR_CPUS] = {NULL};
	unsigned bad = 0, late = 0, changes = 0;
	u64 dice = 1, until = clock_ns() + FIRE_NS;

	stop = false;
	wrong_results = rounds = hits = posts = 0;
	for (unsigned i = 0; i < nr_cpus; i++)
		threads[i] = kthread_run(hammer, NULL, i, "hammer");
	for (; changes < 12 || clock_ns() < until; changes++) {
		struct kprobe p = {.pre_handler = count}, q;
		unsigned f = (dice >> 40) % SHARED;
		int err;

		dice = dice * 6364136223846793005 + 1442695040888963407;
		p.addr = (unsigned long)functions[f] +
			 (dice >> 33) % (size_of(functions[f]) / 4) * 4;
		q = p;
		q.post_handler = count_post;
		err = register_kprobe(&p);
		bad += err != 0;
		if (changes & 1)
			bad += register_kprobe(&q) != err;
		if (changes & 2)
			sleep_ns(200000);
		unregister_kprobe(&p);
		unregister_kprobe(&q);
		memset(&p, 0x5a, sizeof(p)); /* no code may read it any more */
		memset(&q, 0x5a, sizeof(q));
	}
	hits = 0;
	sleep_ns(5000000);
	late = hits;
	stop = true;
	for (unsigned i = 0; i < nr_cpus; i++)
		if (threads[i])
			thread_join(threads[i]);
	kt_promise(rounds && changes && !wrong_results && !bad,
		   "%lu calls while %u probes come and go: %lu wrong, %u probes refused", rounds,
		   changes, wrong_results, bad);
	kt_promise(posts, "post_handlers are called (%lu)", posts);
	kt_promise(!late, "after the last one has gone no handler is called");
}

/* All of text, without the slots. */
static notrace u64 hash_text(void)
{
	u64 hash = 1;

	for (unsigned long at = (unsigned long)_text; at < (unsigned long)_etext; at += 4)
		if (at - SLOTS_START >= sizeof(kprobe_slots))
			hash = (hash ^ *(const u32 *)at) * 0x100000001b3;
	return hash;
}

static int kprobe_command(int argc, char **argv)
{
	u64 text = hash_text();

	kt_begin();
	every_instruction();
	all_at_once();
	at_an_entry();
	in_a_body();
	refusals();
	if (nr_cpus == 1)
		too_many(); /* each write waits for all CPUs */
	in_a_handler();
	set_cpu_affinity(0);
	in_an_interrupt();
	leaving();
	taken_away();
	under_fire();
	set_cpu_affinity(-1);
	kt_promise(hash_text() == text && !ftrace_disabled, "text at the end is text at the start");
	return kt_end();
}
SHELL_COMMAND("kt_kprobe", kprobe_command, "", "kprobes keep their promises");
