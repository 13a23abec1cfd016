/*
 * probe: makes probes, live patches, and calls of these functions, for grading.
 *
 *	probe steps SEED	each instruction of probe_steps is probed in turn, then all of them,
 *				then one that is out of a slot's reach
 *	probe at N ADDR [post|disabled]
 *				probe N, at an instruction of any function (NAME+OFFSET, too); with
 *				a post handler, or disabled
 *	probe on N		enable it; only the observer is told of an error
 *	probe off N		unregister it
 *	probe turns N M		unregister and register probes N to M - 1, several times
 *	probe moves		a pre handler changes pc, at each instruction of probe_steps
 *	probe nested		a handler, a tracer's callback and an interrupt in it reach a probed
 *				instruction
 *	probe traps		interrupts and faults in a slot
 *	probe stale		a breakpoint that was removed after a CPU had hit it, and one
 *				that is no probe's
 *	probe returns SEED	kretprobes: values, callers, too many calls, calls that are not
 *				wanted
 *	probe patches		live patches, in either order
 *	probe patch on|off	a live patch of calls_traced and calls_second (calls.c)
 *
 * The program checks nothing. It passes data to probe_before(), probe_after() and
 * probe_said() in registers, for an observer of the processor.
 */
#include "app.h"

APP("steps|at|off|turns|moves|nested|traps|stale|returns|patches|patch ...",
    "make probes and live patches, for grading");

#if STAGE >= 8
#include "asm-ftrace/hook.h"
#include "breakpoint.h"
#include "cpu.h"
#include "errno.h"
#include "irq.h"
#include "kprobe_point.h"
#include "kretprobe.h"
#include "lib/pattern.h"
#include "livepatch.h"
#include "thread.h"
#include "unwind.h"

#define WATCHED __attribute__((noipa)) static

/* What a handler sees: the probe's number, the instruction, its register a0 or x0. */
WATCHED notrace void probe_before(long number, unsigned long ip, unsigned long value)
{
	barrier();
}
WATCHED notrace void probe_after(long number, unsigned long ip, unsigned long value)
{
	barrier();
}

enum said {
	/* a call of probe_steps: the instruction that is probed, 0: none, 1: all; how */
	SAID_CALL,
	SAID_RESULT,	/* of probe_steps: x0, x1 */
	SAID_COUNTS,	/* of a probe that was unregistered: hits, nmissed */
	SAID_STALE,	/* break_hook->hit(): its result, how far it moved pc */
	SAID_RETURN,	/* a kretprobe's handler: ret_addr, the value */
	SAID_KRETPROBE, /* one that was unregistered: nmissed, active */
	SAID_PATCH,	/* a step of `probe patches` is done: its number, its result */
	SAID_REFUSED,	/* a registration that is not allowed: its number, its result */
	SAID_NESTED,	/* `probe nested` tries another way to a hit within a hit: its number */
	SAID_TRAP,	/* a trap was taken: the interrupted pc, and unwind_true_pc() */
	SAID_TRAPPED,	/* a call of probe_trapped returned: the number of its trap, the result */
	/* break_hook->insn(): the address; its result, and the word that is there << 32 */
	SAID_INSN,
	/*
	 * a kretprobe's handler, before SAID_RETURN: ri->rp, the last word of its data (0: none);
	 * for an unregistered one: itself
	 */
	SAID_INSTANCE,
	/* in `probe traps`, by a pre handler: the probe's number, kprobe_irqs_off() */
	SAID_MASKED,
	/*
	 * a call that was in progress while a patch changed: the number of the change, the result
	 */
	SAID_LONG,
	SAID_NOBODYS, /* a breakpoint that is no probe's: break_hook->hit()'s result */
	/* a tracer's callback: cpu->recursion before and after an interrupt that hit a probe */
	SAID_CONTEXT,
	/*
	 * a kretprobe was registered: the addresses of its active and nmissed; until its
	 * SAID_KRETPROBE only its calls change them
	 */
	SAID_COUNTERS,
	SAID_LEFT, /* a live patch was refused: which, as SAID_REFUSED; klp_within(its functions) */
	SAID_ENABLED, /* `probe on`: the probe's number, the result */
	SAID_ENTERED, /* a kretprobe's entry handler: ri->rp, ri->ret_addr */
	SAID_NEXT,    /* in `probe traps`, by a post handler: the probe's number, pc */
	/* the slot of a point out of reach: its result, its two words */
	SAID_FAR,
};
WATCHED notrace void probe_said(enum said what, unsigned long x, unsigned long y)
{
	barrier();
}

/* ---- Probes with a number ---- */

#define PROBES 40
struct numbered {
	struct kprobe kp;
	unsigned long hits;
};
static struct numbered probes[PROBES];
static bool nesting, nesting_after, sending, telling;
static void reach_inner(void);

static notrace bool before(struct kprobe *p, struct kprobe_regs *regs)
{
	struct numbered *n = container_of(p, struct numbered, kp);

	__atomic_fetch_add(&n->hits, 1, __ATOMIC_RELAXED);
	probe_before(n - probes, regs->ip, *kprobe_arg(regs, 0));
	if (nesting)
		reach_inner();
	if (telling)
		probe_said(SAID_MASKED, n - probes, kprobe_irqs_off(regs));
	if (sending)
		ipi_send(this_cpu()->index, IPI_RESCHEDULE);
	return true; /* which is ignored: these probes may not change pc */
}

static notrace void after(struct kprobe *p, struct kprobe_regs *regs)
{
	struct numbered *n = container_of(p, struct numbered, kp);

	probe_after(n - probes, regs->ip, *kprobe_arg(regs, 0));
	if (telling)
		probe_said(SAID_NEXT, n - probes, regs->trap->pc);
	if (nesting_after)
		reach_inner();
}

static int begin_in(unsigned number, const char *name, unsigned long addr, bool post, u32 flags)
{
	struct numbered *n = &probes[number];

	if (n->kp.point)
		return -EEXIST;
	*n = (struct numbered){{.symbol_name = name,
				.pre_handler = before,
				.post_handler = post ? after : NULL,
				.flags = flags}};
	*(name ? &n->kp.offset : &n->kp.addr) = addr;
	return register_kprobe(&n->kp);
}

static int begin(unsigned number, unsigned long addr, bool post)
{
	return begin_in(number, NULL, addr, post, 0);
}

static void end(unsigned number)
{
	if (!probes[number].kp.point)
		return;
	unregister_kprobe(&probes[number].kp);
	probe_said(SAID_COUNTS, probes[number].hits, probes[number].kp.nmissed);
}

#define TURNS 6

static int take_turns(unsigned first, unsigned last)
{
	int err = 0;

	for (unsigned turn = 0; turn < TURNS; turn++)
		for (unsigned i = first; i < last && i < PROBES && !err; i++) {
			unsigned long addr = probes[i].kp.addr;
			bool post = probes[i].kp.post_handler;

			end(i);
			yield();
			err = begin(i, addr, post);
		}
	return err;
}

/* ---- steps ---- */

unsigned long probe_steps(unsigned long a, unsigned long b, unsigned long c, unsigned long *memory);
unsigned long probe_inner(unsigned long a);
extern const char probe_steps_first[], probe_steps_end[], probe_inner_first[];

/*
 * Instructions that a slot can execute, and instructions that depend on pc; they change only the
 * first three argument registers.
 */
__asm__(
"	.text\n"
TRACED("probe_steps")
"probe_steps_first:\n"
#ifdef __riscv
"	addi a0, a0, 5\n"
"	xor a1, a1, a0\n"
"	sd a0, 0(a3)\n"
"	ld a2, 0(a3)\n"
"	amoadd.d a1, a0, (a3)\n"
"	auipc a2, 0\n"
"	andi a2, a2, 0xff\n"
"	bltu a0, a1, 1f\n"
"	addi a1, a1, 3\n"
"1:	slli a2, a2, 3\n"
"	beq a0, a0, 2f\n"
"	addi a1, a1, 1\n"
"2:	add a0, a0, a2\n"
"	j 3f\n"
"	addi a0, a0, 1\n"
"3:	jal a2, 4f\n"
"	addi a0, a0, 9\n"
"4:	addi a0, a0, 7\n"
#else
"	add x0, x0, #5\n"
"	eor x1, x1, x0\n"
"	str x0, [x3]\n"
"	ldr x2, [x3]\n"
"	adds x1, x1, x2\n"
"	adr x2, .\n"
"	and x2, x2, #0xff\n"
"	b.ne 1f\n"
"	add x1, x1, #1\n"
"1:	b.lo 2f\n"
"	add x1, x1, #3\n"
"2:	cbnz x3, 3f\n"
"	lsl x2, x2, #3\n"
"3:	add x0, x0, x2\n"
"	tbz x0, #0, 4f\n"
"	add x1, x1, #2\n"
"4:	b 5f\n"
"	add x0, x0, #1\n"
"5:	add x0, x0, #7\n"
#endif
"	ret\n"
"probe_steps_end:\n"
"	.size probe_steps, . - probe_steps\n"
TRACED("probe_inner")
"probe_inner_first:\n"
#ifdef __riscv
"	addi a0, a0, 1\n"
#else
"	add x0, x0, #1\n"
#endif
"	ret\n"
"	.size probe_inner, . - probe_inner\n");

enum how { PRE, POST, TWO }; /* a probe without a post handler, one with it, or both probes */

static void call_steps(unsigned long seed, unsigned long probed, enum how how)
{
	unsigned long memory = 0, flags = irq_save(), result;

	probe_said(SAID_CALL, probed, how);
	result = probe_steps(seed, ~seed, seed >> 7, &memory);
	probe_said(SAID_RESULT, result, memory);
	irq_restore(flags);
}

#define STEPS ((unsigned)(probe_steps_end - probe_steps_first) / 4)

static int probe_one_step(unsigned long seed, unsigned long at, enum how how)
{
	int err = begin(0, at, how == POST);

	if (!err && how == TWO) {
		err = begin(1, at, true);
		if (!err)
			call_steps(seed, at, TWO);
		disable_kprobe(&probes[1].kp);
		if (!err)
			call_steps(seed, at, PRE);
		end(1);
	}
	if (!err)
		call_steps(seed, at, how == POST ? POST : PRE);
	end(0);
	return err;
}

static void say_insn(unsigned long at)
{
	probe_said(SAID_INSN, at, break_hook->insn(at) | (unsigned long)*(volatile u32 *)at << 32);
}

static int probe_all_steps(unsigned long seed)
{
	int err = 0;

	for (unsigned i = 0; i < STEPS && !err; i++)
		err = begin(i, (unsigned long)probe_steps_first + 4 * i, i % 2);
	if (!err)
		call_steps(seed, 1, POST);
	for (unsigned i = 0; i < STEPS && !err; i++)
		say_insn((unsigned long)probe_steps_first + 4 * i);
	for (unsigned i = 0; i < STEPS; i++)
		end(i);
	if (!err)
		err = begin(0, (unsigned long)probe_steps, false);
	if (!err)
		say_insn((unsigned long)probe_steps + HOOK_ENTRY_OFFSET);
	end(0);
	return err;
}

/*
 * Write the slot of a point that no jump reaches. It counts as armed, so its breakpoint is not
 * written. The offset has only zeros in the bits that fit into a jump.
 */
static void write_far(void)
{
	const volatile u32 *slot = kprobe_slots[KPROBE_SLOTS - 1];
	struct kprobe kp = {.pre_handler = before};
	struct probe_point pt = {.key = (unsigned long)probe_steps_first + (1ul << 30),
				 .probes = &kp,
				 .armed = true,
				 .insn = *(const volatile u32 *)probe_steps_first,
				 .resume = (unsigned long)slot};
	int err;

	mutex_lock(&ftrace_lock);
	err = kprobe_update_point(&pt);
	mutex_unlock(&ftrace_lock);
	probe_said(SAID_FAR, err, slot[0] | (unsigned long)slot[1] << 32);
}

static int steps(unsigned long seed)
{
	int err = 0;

	call_steps(seed, 0, PRE);
	for (enum how how = PRE; how <= TWO; how++)
		for (unsigned i = 0; i < STEPS && !err; i++)
			err = probe_one_step(seed, (unsigned long)probe_steps_first + 4 * i, how);
	err = err ?: probe_all_steps(seed);
	if (!err)
		write_far();
	return err;
}

/* ---- moves ---- */

/*
 * The handler of a probe that may change pc: the probed instruction and the next one are left out.
 */
static notrace bool move(struct kprobe *p, struct kprobe_regs *regs)
{
	before(p, regs);
	kprobe_set_pc(regs, regs->ip + 8);
	return true;
}

static int moves(void)
{
	int err = 0;

	for (unsigned i = 0; i + 2 < STEPS && !err; i++) {
		unsigned long at = (unsigned long)probe_steps_first + 4 * i;

		probes[0] = (struct numbered){{.addr = at,
					       .pre_handler = move,
					       .post_handler = after,
					       .flags = KPROBE_FLAG_IPMODIFY}};
		err = register_kprobe(&probes[0].kp);
		if (!err)
			call_steps(1, at, POST);
		end(0);
	}
	return err;
}

/* ---- nested, stale ---- */

static notrace void reach_inner(void)
{
	nesting = nesting_after = false;
	probe_inner(1);
}

/* The handler of a probe at @outer, or, if @post, its post handler calls probe_inner. */
static int nested_in(unsigned long outer, bool post)
{
	unsigned long memory = 0;
	int err = begin(0, outer, post) ?: begin(1, (unsigned long)probe_inner_first, !post);

	if (!err) {
		probe_inner(1);
		*(post ? &nesting_after : &nesting) = true;
		probe_steps(1, 2, 3, &memory);
		nesting = nesting_after = false;
		probe_inner(1);
	}
	end(0);
	end(1);
	return err;
}

static notrace void call_inner(void *unused)
{
	probe_inner(1);
}

/* The callback of a tracer, in a thread: an interrupt calls probe_inner, and then it does. */
static notrace void reach_inner_twice(unsigned long ip, unsigned long parent_ip,
				      struct ftrace_ops *op, struct ftrace_regs *regs)
{
	u64 recursion = this_cpu()->recursion;

	smp_call(this_cpu()->index, call_inner, NULL);
	probe_said(SAID_CONTEXT, recursion, this_cpu()->recursion);
	probe_inner(1);
}

static long probe_value(long x);

static int nested_in_callback(void)
{
	static struct ftrace_ops op = {.func = reach_inner_twice, .slot = -1};
	int err = begin(1, (unsigned long)probe_inner_first, true) ?:
		  ftrace_set_filter(&op, "probe_value", 11, true, false) ?:
		  register_ftrace_function(&op);

	if (!err) {
		probe_inner(1);
		probe_value(1);
		err = unregister_ftrace_function(&op);
	}
	ftrace_set_filter(&op, "", 0, true, false);
	end(1);
	return err;
}

static int nested(void)
{
	int err;

	probe_said(SAID_NESTED, 0, 0);
	err = nested_in((unsigned long)probe_steps_first, false);
	probe_said(SAID_NESTED, 1, 0);
	err = err ?: nested_in((unsigned long)probe_steps, false);
	probe_said(SAID_NESTED, 2, 0);
	err = err ?: nested_in_callback();
	probe_said(SAID_NESTED, 3, 0);
	return err ?: nested_in((unsigned long)probe_steps_first, true);
}

/* ---- traps ---- */

unsigned long probe_trapped(const unsigned long *word);
extern const char probe_trapped_first[];

__asm__(
"	.text\n"
TRACED("probe_trapped")
"probe_trapped_first:\n"
#ifdef __riscv
"	csrsi sstatus, 2\n" /* enable interrupts */
"	ld a0, 0(a0)\n"
#else
"	msr daifclr, #2\n"
"	ldr x0, [x0]\n"
#endif
"	ret\n"
"	.size probe_trapped, . - probe_trapped\n");

static const unsigned long trapped_word = 0x5a5a1234;

/* The handler of a probe at the entry of handle_ipi(), in an interrupt. */
static notrace bool say_interrupted(struct kprobe *p, struct kprobe_regs *regs)
{
	struct unwind u;

	unwind_start_here(&u);
	while (!u.regs && unwind_next(&u))
		;
	if (u.regs)
		probe_said(SAID_TRAP, u.regs->pc, u.pc);
	return false;
}

/* Handle the exception: change the address, so that the load finds a word. */
static notrace bool say_fault(struct trap_frame *regs, unsigned long address)
{
	if (!telling || address != 8)
		return false;
	probe_said(SAID_TRAP, regs->pc, unwind_true_pc(regs));
	probe_inner(1);
	regs->x[PROBE_ARG0] = (unsigned long)&trapped_word;
	return true;
}
EXCEPTION_HOOK(say_fault);

enum trap {
	SECOND_WORD,
	FIRST_WORD,
	FAULT,
	NO_TRAP,
	PLAIN_FAULT /* of an instruction that is not probed */,
	TRAPS
};

/*
 * One call of probe_trapped, with a probe on an instruction: enabling interrupts while one is
 * pending, or the load.
 */
static int trap_in(enum trap trap, bool post)
{
	int err =
		trap == PLAIN_FAULT
			? 0
			: begin(0,
				(unsigned long)probe_trapped_first + (trap == SECOND_WORD ? 0 : 4),
				post);
	unsigned long result;

	if (err)
		return err;
	sending = trap == FIRST_WORD;
	if (trap == SECOND_WORD) {
		irq_disable();
		ipi_send(this_cpu()->index, IPI_RESCHEDULE);
	}
	result = probe_trapped(trap == FAULT || trap == PLAIN_FAULT ? (unsigned long *)8
								    : &trapped_word);
	irq_enable();
	sending = false;
	probe_said(SAID_TRAPPED, trap, result);
	end(0);
	return 0;
}

static int traps(void)
{
	static struct kprobe ipi;
	int err;

	ipi = (struct kprobe){.symbol_name = "handle_ipi", .pre_handler = say_interrupted};
	err = register_kprobe(&ipi);
	err = err ?: begin(1, (unsigned long)probe_inner_first, false);
	telling = true;
	for (int i = 0; i < 2 * TRAPS && !err; i++)
		err = trap_in(i % TRAPS, i / TRAPS);
	telling = false;
	end(1);
	unregister_kprobe(&ipi);
	return err;
}

#ifdef __riscv
#define BREAK_CAUSE .cause = 3
#else
#define BREAK_CAUSE .esr = 0xf2000000 | BREAK_NUMBER
#endif

/*
 * Call hit() as if this CPU had taken the exception just before the breakpoint was removed; and for
 * a breakpoint that is no probe's.
 */
static int stale(void)
{
	static const u32 nobodys = INSN_BREAK;
	unsigned long at = (unsigned long)probe_steps_first;
	struct trap_frame frame = {BREAK_CAUSE, .pc = at};
	int err = begin(0, at, false);
	bool known;

	end(0);
	if (err)
		return err;
	known = break_hook->hit(&frame, 1);
	probe_said(SAID_STALE, known, frame.pc - at);
	frame.pc = (unsigned long)&nobodys;
	known = break_hook->hit(&frame, 1);
	probe_said(SAID_NOBODYS, known, 0);
	return 0;
}

static int is_number(const char *s)
{
	return *s >= '0' && *s <= '9';
}

/* NAME+OFFSET, or an address. */
static int begin_at(unsigned number, char *where, const char *how)
{
	u32 flags = strcmp(how, "disabled") ? 0 : KPROBE_FLAG_DISABLED;
	char *plus = strchr(where, '+');

	if (plus)
		*plus++ = '\0';
	return begin_in(number, plus ? where : NULL, strtoull(plus ?: where, NULL, 0),
			!strcmp(how, "post"), flags);
}

static int returns(unsigned long seed);
static int patches(void);
static int patch(bool on);

static int run(int argc, char **argv)
{
	unsigned long x = argc > 2 && is_number(argv[2]) ? strtoull(argv[2], NULL, 0) : 0;

	if (argc == 3 && !strcmp(argv[1], "steps"))
		return steps(x);
	if (argc >= 4 && !strcmp(argv[1], "at") && x < PROBES)
		return begin_at(x, argv[3], argc > 4 ? argv[4] : "");
	if (argc == 3 && !strcmp(argv[1], "on") && x < PROBES)
		return probe_said(SAID_ENABLED, x, enable_kprobe(&probes[x].kp)), 0;
	if (argc == 3 && !strcmp(argv[1], "off") && x < PROBES)
		return end(x), 0;
	if (argc == 4 && !strcmp(argv[1], "turns"))
		return take_turns(x, strtoull(argv[3], NULL, 0));
	if (argc == 2 && !strcmp(argv[1], "moves"))
		return moves();
	if (argc == 2 && !strcmp(argv[1], "nested"))
		return nested();
	if (argc == 2 && !strcmp(argv[1], "traps"))
		return traps();
	if (argc == 2 && !strcmp(argv[1], "stale"))
		return stale();
	if (argc == 3 && !strcmp(argv[1], "returns"))
		return returns(x);
	if (argc == 2 && !strcmp(argv[1], "patches"))
		return patches();
	if (argc == 3 && !strcmp(argv[1], "patch"))
		return patch(!strcmp(argv[2], "on"));
	return -EINVAL;
}

/* ---- returns ---- */

WATCHED long probe_value(long x)
{
	barrier();
	return 3 * x + 1;
}
WATCHED long probe_deep(long n)
{
	long below = n ? probe_deep(n - 1) : 0;

	barrier(); /* so that it is no tail call */
	return below + n;
}
WATCHED long probe_tail(long x)
{
	barrier();
	return x + 2;
}
WATCHED long probe_outer(long x)
{
	barrier();
	return probe_tail(x ^ 1);
}
WATCHED void probe_exits(void)
{
	thread_exit(0);
}

unsigned long probe_left(unsigned long sp);
void probe_leave(void);

/*
 * probe_leave calls probe_left with its own sp: as by longjmp(), that call is left, and probe_leave
 * returns. probe_left(0) returns 0.
 */
__asm__(
"	.text\n"
TRACED("probe_left")
#ifdef __riscv
"	beqz a0, 1f\n"
"	mv sp, a0\n"
#else
"	cbz x0, 1f\n"
"	mov sp, x0\n"
#endif
LEAVE
"1:	ret\n"
"	.size probe_left, . - probe_left\n"
"	.type probe_leave, %function\n"
"probe_leave:\n"
ENTER
#ifdef __riscv
"	mv a0, sp\n"
#else
"	mov x0, sp\n"
#endif
CALL "probe_left\n"
"	.size probe_leave, . - probe_leave\n");

static notrace int only_even(struct kretprobe_instance *ri, struct ftrace_regs *regs)
{
	probe_said(SAID_ENTERED, (unsigned long)ri->rp, ri->ret_addr);
	return regs->arg[0] & 1;
}

#define DATA 8 /* words */

static notrace int keep_argument(struct kretprobe_instance *ri, struct ftrace_regs *regs)
{
	unsigned long *data = (unsigned long *)ri->data;

	for (int i = 0; i < DATA; i++)
		data[i] = regs->arg[0];
	return 0;
}

static notrace int returned(struct kretprobe_instance *ri, struct ftrace_regs *regs)
{
	probe_said(SAID_INSTANCE, (unsigned long)ri->rp,
		   ri->rp->data_size ? ((unsigned long *)ri->data)[DATA - 1] : 0);
	probe_said(SAID_RETURN, ri->ret_addr, regs->arg[0]);
	ri->rp = NULL; /* the next call's instance is in the same place */
	ri->ret_addr = 0;
	return 0;
}

static int rp_begin(struct kretprobe *rp, void *function, int maxactive, kretprobe_handler_t entry)
{
	int err;

	*rp = (struct kretprobe){.kp.addr = (unsigned long)function,
				 .handler = returned,
				 .entry_handler = entry,
				 .maxactive = maxactive,
				 .data_size = entry == keep_argument ? 8 * DATA : 0,
				 .active = 5,
				 .nmissed = 7};
	if (!function)
		rp->kp.symbol_name = "schedule";
	err = register_kretprobe(rp);
	if (!err)
		probe_said(SAID_COUNTERS, (unsigned long)&rp->active, (unsigned long)&rp->nmissed);
	return err;
}

static void rp_end(struct kretprobe *rp)
{
	unregister_kretprobe(rp);
	probe_said(SAID_INSTANCE, (unsigned long)rp, 0);
	probe_said(SAID_KRETPROBE, rp->nmissed, rp->active);
}

static int exits(void *unused)
{
	probe_exits();
	return 0;
}

static notrace int only_exiting(struct kretprobe_instance *ri, struct ftrace_regs *regs)
{
	return current->state != THREAD_DEAD;
}

enum refused {
	NO_HANDLER,
	NO_FUNCTION,
	TWO_FUNCTIONS,
	TOO_MUCH_DATA,
	NEGATIVE_DATA,
	RETURNS_TWICE,
	NO_OLD_FUNCTION,
	NO_FUNCTIONS,
	NO_LIST,
	ENABLED_TWICE,
	NOT_ENABLED,
	PC_IS_TAKEN,
	MOST_DATA, /* is allowed */
	NO_HANDLER_AND_DATA,
	TWICE_AND_DATA
};

static void refuse(enum refused what, struct kretprobe rp)
{
	static struct kretprobe wrong;
	int err;

	wrong = rp;
	err = register_kretprobe(&wrong);
	probe_said(SAID_REFUSED, what, err);
	if (!err)
		unregister_kretprobe(&wrong);
}

static void refused_kretprobes(void)
{
	static struct kretprobe rp;
	const struct kretprobe right = {
		.kp.addr = (unsigned long)probe_value, .handler = returned, .maxactive = 1};
	struct kretprobe wrong = right;

	wrong.handler = NULL;
	refuse(NO_HANDLER, wrong);
	wrong = right;
	wrong.kp.addr = 0;
	refuse(NO_FUNCTION, wrong);
	wrong = right;
	wrong.kp.symbol_name = "probe_value";
	refuse(TWO_FUNCTIONS, wrong);
	wrong = right;
	wrong.data_size = KRETPROBE_DATA_MAX + 1;
	refuse(TOO_MUCH_DATA, wrong);
	wrong.data_size = KRETPROBE_DATA_MAX;
	refuse(MOST_DATA, wrong);
	wrong.data_size = -1;
	refuse(NEGATIVE_DATA, wrong);
	wrong.handler = NULL;
	refuse(NO_HANDLER_AND_DATA, wrong);
	rp = right;
	if (register_kretprobe(&rp))
		return;
	probe_said(SAID_REFUSED, RETURNS_TWICE, register_kretprobe(&rp));
	rp.data_size = -1;
	probe_said(SAID_REFUSED, TWICE_AND_DATA, register_kretprobe(&rp));
	unregister_kretprobe(&rp);
}

static int returns(unsigned long seed)
{
	static struct kretprobe rp, outer;
	static const int maxactive[] = {-1, 0, 1, 24};
	thread_t thread;
	int err;

	refused_kretprobes();
	err = rp_begin(&rp, probe_value, 2, NULL);

	for (int i = 0; i < 6 && !err; i++)
		probe_value(seed + i);
	rp_end(&rp);
	err = err ?: rp_begin(&rp, probe_deep, 3, NULL);
	for (int i = 0; i < 2 && !err; i++)
		probe_deep(4);
	rp_end(&rp);
	err = err ?: rp_begin(&rp, probe_value, 2, only_even);
	for (int i = 0; i < 10 && !err; i++)
		probe_value(i);
	rp_end(&rp);
	err = err ?: rp_begin(&rp, probe_tail, 4, NULL) ?: rp_begin(&outer, probe_outer, 4, NULL);
	if (!err)
		probe_outer(seed & 0xff);
	rp_end(&outer);
	rp_end(&rp);
	err = err ?: rp_begin(&rp, probe_exits, 1, NULL);
	for (int i = 0; i < 2 && !err; i++)
		err = thread_create_on(&thread, 0, exits, NULL) ?: (thread_join(thread), 0);
	rp_end(&rp);
	err = err ?: rp_begin(&rp, NULL, 100, only_exiting) ?:
	      thread_create_on(&thread, 0, exits, NULL) ?: (thread_join(thread), 0);
	rp_end(&rp);
	for (int i = 0; i < 4 && !err; i++) {
		err = rp_begin(&rp, probe_deep, maxactive[i], NULL);
		if (!err)
			probe_deep(30);
		rp_end(&rp);
	}
	err = err ?: rp_begin(&rp, probe_deep, 4, keep_argument);
	if (!err)
		probe_deep(3);
	rp_end(&rp);
	err = err ?: rp_begin(&rp, probe_left, 1, NULL);
	if (!err)
		probe_leave();
	for (int i = 0; i < 2 && !err; i++)
		probe_left(0);
	rp_end(&rp);
	return err;
}

/* ---- patches ---- */

WATCHED long probe_one(long x)
{
	barrier();
	return x;
}
WATCHED long probe_two(long x)
{
	barrier();
	return x;
}
WATCHED long probe_three(long x)
{
	barrier();
	return x;
}
WATCHED long probe_new_one(long x)
{
	barrier();
	return x + 10;
}
WATCHED long probe_new_two(long x)
{
	barrier();
	return x + 10;
}
WATCHED long probe_new_three(long x)
{
	barrier();
	return x + 10;
}
WATCHED long probe_newest_one(long x)
{
	barrier();
	return x + 20;
}

static struct klp_func all[] = {{.old_name = "probe_one", .new_func = probe_new_one},
				{.old_name = "probe_two", .new_func = probe_new_two},
				{.old_name = "probe_three", .new_func = probe_new_three},
				{}};
static struct klp_func one[] = {{.old_name = "probe_one", .new_func = probe_newest_one}, {}};
static struct klp_patch older = {all}, newer = {one};

static notrace int step(unsigned number, int err)
{
	probe_said(SAID_PATCH, number, err);
	probe_one(number);
	probe_two(number);
	probe_three(number);
	return err;
}

static volatile bool calling;
static unsigned long pairs;

/* Call the functions in their order, again and again. */
static int call_all(void *unused)
{
	while (calling) {
		probe_one(0);
		probe_two(0);
		probe_three(0);
		pairs++;
		yield();
	}
	return 0;
}

static int while_called(void)
{
	thread_t thread;
	int err;

	calling = true;
	err = thread_create_on(&thread, cpu_count() - 1, call_all, NULL);
	if (err)
		return err;
	for (int i = 0; i < 8 && !err; i++) {
		unsigned long seen = READ_ONCE(pairs);

		while (READ_ONCE(pairs) == seen)
			yield();
		err = klp_enable_patch(&older) ?: klp_disable_patch(&older);
	}
	calling = false;
	thread_join(thread);
	return err;
}

/* A call waits inside the function until the patch has changed. */
static volatile bool entered, may_leave;
static long wait_inside(long result)
{
	entered = true;
	while (!may_leave)
		yield();
	return result;
}
WATCHED long probe_long(long x)
{
	x = wait_inside(x);
	barrier();
	return x + 1;
}
WATCHED long probe_new_long(long x)
{
	x = wait_inside(x);
	barrier();
	return x + 2;
}

static int call_long(void *change)
{
	probe_said(SAID_LONG, (long)change, probe_long(10));
	return 0;
}

static int in_progress(void)
{
	static struct klp_func funcs[] = {{.old_name = "probe_long", .new_func = probe_new_long},
					  {}};
	static struct klp_patch patch = {funcs};
	thread_t thread;
	int err = 0;

	for (long change = 0; change < 2 && !err; change++) {
		entered = may_leave = false;
		err = thread_create_on(&thread, cpu_count() - 1, call_long, (void *)change);
		if (err)
			return err;
		while (!entered)
			yield();
		err = change ? klp_disable_patch(&patch) : klp_enable_patch(&patch);
		may_leave = true;
		thread_join(thread);
	}
	return err;
}

/*
 * @err: the result of an attempt that must fail. Return: it failed, and one of its @count functions
 * is in the table.
 */
static bool was_refused(enum refused what, int err, const struct klp_func *funcs, size_t count)
{
	const unsigned long start = (unsigned long)funcs;
	bool left = err && count && klp_within(start, (unsigned long)(funcs + count));

	probe_said(SAID_REFUSED, what, err);
	probe_said(SAID_LEFT, what, left);
	return left;
}

static bool refuse_patch(enum refused what, struct klp_func *funcs, size_t count)
{
	static struct klp_patch wrong;
	int err;

	wrong = (struct klp_patch){funcs};
	err = klp_enable_patch(&wrong);
	if (!err)
		klp_disable_patch(&wrong);
	return was_refused(what, err, funcs, count);
}

static notrace bool changes_nothing(struct kprobe *p, struct kprobe_regs *regs)
{
	return false;
}

/*
 * Return: each left the table as it was. If not, the next change of the table may never end.
 */
static bool refused_patches(void)
{
	static struct kprobe taken;
	static struct klp_func unknown[] = {{.old_name = "probe_one", .new_func = probe_new_one},
					    {.old_name = "probe_unknown",
					     .new_func = probe_new_two},
					    {}},
			       none[] = {{}};
	bool left;

	if (refuse_patch(NO_OLD_FUNCTION, unknown, ARRAY_SIZE(unknown)) ||
	    refuse_patch(NO_FUNCTIONS, none, ARRAY_SIZE(none)) || refuse_patch(NO_LIST, NULL, 0))
		return false;
	probe_said(SAID_REFUSED, NOT_ENABLED, klp_disable_patch(&older));
	taken = (struct kprobe){.symbol_name = "probe_two",
				.pre_handler = changes_nothing,
				.flags = KPROBE_FLAG_IPMODIFY};
	if (register_kprobe(&taken))
		return true;
	left = was_refused(PC_IS_TAKEN, klp_enable_patch(&older), all, ARRAY_SIZE(all));
	unregister_kprobe(&taken);
	if (left || klp_enable_patch(&older))
		return !left;
	probe_said(SAID_REFUSED, ENABLED_TWICE, klp_enable_patch(&older));
	klp_disable_patch(&older);
	return true;
}

static int patches(void)
{
	int err;

	if (!refused_patches())
		return 0;
	err = step(0, 0) ?: step(1, klp_enable_patch(&older)) ?:
	      step(2, klp_enable_patch(&newer)) ?: step(3, klp_disable_patch(&older)) ?:
	      step(4, klp_disable_patch(&newer)) ?:
	      step(5, klp_enable_patch(&older)) ?: step(6, klp_enable_patch(&newer)) ?:
	      step(7, klp_disable_patch(&newer)) ?: step(8, klp_disable_patch(&older));

	if (err)
		return err;
	probe_said(SAID_PATCH, 9, 0);
	err = while_called();
	probe_said(SAID_PATCH, 10, err);
	return err ?: in_progress();
}

WATCHED uint64_t probe_new_traced(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
				  uint64_t f, uint64_t g, uint64_t h)
{
	barrier();
	return a + 2 * b + 3 * c + h;
}
WATCHED uint64_t probe_new_second(uint64_t a)
{
	barrier();
	return a + 3;
}

static int patch(bool on)
{
	static struct klp_func traced[] = {
		{.old_name = "calls_traced", .new_func = probe_new_traced},
		{.old_name = "calls_second", .new_func = probe_new_second},
		{}};
	static struct klp_patch one = {traced};

	return on ? klp_enable_patch(&one) : klp_disable_patch(&one);
}

int main(int argc, char **argv)
{
	static struct mutex alone;
	int err;

	mutex_lock(&alone);
	err = run(argc, argv);
	mutex_unlock(&alone);
	return err ? complain(argv[0], argc > 1 ? argv[1] : "usage: probe steps SEED", -err) : 0;
}
#else
int main(int argc, char **argv)
{
	printf("%s: this kernel has no probes\n", argv[0]);
	return 1;
}
#endif
