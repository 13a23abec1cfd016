/*
 * frames: a traced function is entered and returns while an interrupt comes at
 * each instruction of the tracer's, one after the other.
 *
 * Seldom does an interrupt meet one of the few instructions at which the order
 * of the shadow stack's stores shows. Here a timer is set, and then the call is
 * made one instruction later each time (-icount: an instruction is a time). The
 * interrupt writes the address of frames_lost all over what lies above `free`,
 * which is the interrupt's: there a function comes out whose frame was given
 * back too early. Nothing else is traced, so the stack must be as it was when
 * the call is over. An observer outside learns what was right from the
 * arguments of frames_show(). With one CPU.
 *
 * What it takes for its own is there once: the ops, and the shadow stack. So
 * it runs once at a time, and not when others have frames on that stack. They
 * may come while it runs: what puts the stack back is not traced.
 */
#include "app.h"

const char *const program_help[] = {"", "is interrupted at each of the tracer's instructions, for grading"};

#if STAGE >= 5
#include "cpu.h"
#include "errno.h"
#include "fgraph.h"
#include "irq.h"
#include "ksyms.h"
#include "shadow.h"
#include "tracer.h"
#include "unwind.h"

#ifdef __riscv
#define SOON 20 /* ticks: some instructions more than a traced call has */
#else
#define SOON 120
#endif
#define COARSE 64 /* instructions */
#define TIMES 2   /* where a tick is not seen at once, what the first sweep missed */
#define MOST 4096
#define OUTSIDE 8 /* so many in a row, and the call is behind us */

enum item {
	HOME_ENTERED, HOME_RETURNING, /* after an interrupt before, behind the function's own code */
	WHOLE, WALK, /* in an interrupt */
	PATCHED, NOT_ASKED_FOR, NO_ROOM, /* the return address, in the function */
	POPPED, POPPED_REFUSED, POPPED_FULL, /* afterwards */
	ALIVE, SWEPT, GIVEN_BACK, RESULTS, CALLERS, ITEMS
};
enum where { BEFORE, INSIDE, AFTER, NOWHERE };

/* What the assembly below reads and writes. */
struct frames {
	uint64_t sp, fp; /* of the caller */
	uint64_t link;	 /* what the function found */
	uint64_t by_link; /* it may go there; else it goes home by a plain jump */
	uint64_t home, out; /* it came home; the call is out */
	uint64_t results, callers; /* 0: registers with a result, sp and the frame pointer are as they must be */
};
extern struct frames frames_now;
struct frames frames_now;
void frames_call(unsigned long wait), frames_call_end(void), frames_home(void), frames_lost(void);
void frames_traced(void), frames_site(void);

static bool answer; /* of the user: does it want to hear of the return? */
static volatile bool armed;
static enum where where; /* the interrupt came */
static bool returning;
static bool searching; /* for where the sweep begins: the interrupt changes nothing */
static struct shadow_frame *top; /* as they are when nothing is traced */
static unsigned long *room, depth;

#ifdef __riscv
__asm__(
"	.text\n"
"	.globl frames_call, frames_call_end, frames_home, frames_lost, frames_traced, frames_site\n"
"	.type frames_call, @function\n"
"frames_call:\n"
"	addi sp, sp, -16\n	sd ra, 8(sp)\n	sd s0, 0(sp)\n	addi s0, sp, 16\n"
"	lla t2, frames_now\n	sd sp, 0(t2)\n	sd s0, 8(t2)\n	li t0, 1\n	sd t0, 40(t2)\n"
"	andi t0, a0, 1\n	beqz t0, 1f\n	nop\n"
"1:	srli a0, a0, 1\n	addi a0, a0, 1\n"
"2:	addi a0, a0, -1\n	bnez a0, 2b\n"
"	call frames_traced\n"
"frames_home:\n"
"	lla t2, frames_now\n	li t0, 1\n	sd t0, 32(t2)\n"
"	ld t0, 16(t2)\n	sub a0, a0, t0\n	addi a0, a0, -1\n	sub a1, a1, t0\n	addi a1, a1, -2\n	or a0, a0, a1\n	sd a0, 48(t2)\n"
"	ld t0, 0(t2)\n	xor t0, t0, sp\n	ld t1, 8(t2)\n	xor t1, t1, s0\n	or t0, t0, t1\n	sd t0, 56(t2)\n"
"frames_lost:\n"
"	lla t2, frames_now\n	sd zero, 40(t2)\n	ld sp, 0(t2)\n	ld ra, 8(sp)\n	ld s0, 0(sp)\n	addi sp, sp, 16\n	ret\n"
"frames_call_end:\n"
"	.size frames_call, . - frames_call\n"
"	.type frames_traced, @function\n"
"frames_traced:\n"
"	.section __patchable_function_entries, \"awo\", @progbits, frames_traced\n"
"	.balign 8\n	.8byte frames_site\n"
"	.text\n"
"frames_site:\n	nop\n"
"	lla t2, frames_now\n	sd ra, 16(t2)\n	addi a0, ra, 1\n	addi a1, ra, 2\n	ld t1, 24(t2)\n	beqz t1, 1f\n	ret\n"
"1:	j frames_home\n"
"	.size frames_traced, . - frames_traced\n");
#else
__asm__(
"	.text\n"
"	.globl frames_call, frames_call_end, frames_home, frames_lost, frames_traced, frames_site\n"
"	.type frames_call, %function\n"
"frames_call:\n"
"	stp x29, x30, [sp, #-16]!\n	mov x29, sp\n"
"	adrp x10, frames_now\n	add x10, x10, #:lo12:frames_now\n	mov x9, sp\n	stp x9, x29, [x10]\n	mov x9, #1\n	str x9, [x10, #40]\n"
"	tbz x0, #0, 1f\n	nop\n"
"1:	lsr x0, x0, #1\n	add x0, x0, #1\n"
"2:	subs x0, x0, #1\n	b.ne 2b\n"
"	bl frames_traced\n"
"frames_home:\n"
"	adrp x10, frames_now\n	add x10, x10, #:lo12:frames_now\n	mov x9, #1\n	str x9, [x10, #32]\n"
"	ldr x9, [x10, #16]\n	mov x11, #0\n	.irp reg, 0,1,2,3,4,5,6,7\n	sub x12, x\\reg, x9\n	sub x12, x12, #\\reg + 1\n	orr x11, x11, x12\n	.endr\n"
"	str x11, [x10, #48]\n	ldp x11, x12, [x10]\n	mov x9, sp\n	eor x11, x11, x9\n	eor x12, x12, x29\n	orr x11, x11, x12\n	str x11, [x10, #56]\n"
"frames_lost:\n"
"	adrp x10, frames_now\n	add x10, x10, #:lo12:frames_now\n	str xzr, [x10, #40]\n	ldr x9, [x10]\n	mov sp, x9\n	ldp x29, x30, [sp], #16\n	ret\n"
"frames_call_end:\n"
"	.size frames_call, . - frames_call\n"
"	.type frames_traced, %function\n"
"frames_traced:\n"
"	.section __patchable_function_entries, \"awo\", %progbits, frames_traced\n"
"	.balign 8\n	.8byte frames_traced\n"
"	.text\n"
"	nop\n"
"frames_site:\n	nop\n"
"	adrp x10, frames_now\n	add x10, x10, #:lo12:frames_now\n	str x30, [x10, #16]\n"
"	.irp reg, 0,1,2,3,4,5,6,7\n	add x\\reg, x30, #\\reg + 1\n	.endr\n	ldr x9, [x10, #24]\n	cbz x9, 1f\n	ret\n"
"1:	b frames_home\n"
"	.size frames_traced, . - frames_traced\n");
#endif

/* One thing was as it must be, or was not: the observer reads the arguments. */
__attribute__((noipa)) static notrace void frames_show(unsigned item, bool right)
{
	barrier();
}

/* ---- In the interrupt ---- */

/* What is shown is a whole frame, of the only call that is out. */
static notrace bool is_whole(const struct shadow_frame *f)
{
	return f == top || (f->ret == (uint64_t)frames_home && f->func == (uint64_t)frames_site && f->sp == frames_now.sp &&
			    f->fp == frames_now.fp && f->below == top);
}

/* There a walk goes by the order in which registers are stored and loaded, which is anybody's own. */
static notrace bool in_assembly(unsigned long pc)
{
	const char *name = ksym_lookup(pc, NULL, NULL);

	return unwind_in_tracer_entry(name) || (name && (!strcmp(name, "return_to_handler") || !strcmp(name, "ftrace_graph_stub") ||
							 !strcmp(name, "ftrace_graph_caller")));
}

/* A walk out of C finds where the call was made: in the link register, on the stack, or in a frame. */
static notrace enum where walk(void)
{
	unsigned long at, interrupted_at = 0;
	struct unwind u;

	if (!frames_now.out)
		return frames_now.link ? AFTER : BEFORE;
	unwind_start_here(&u);
	do {
		at = unwind_entry(&u);
		if (at > (uint64_t)frames_call && at <= (uint64_t)frames_call_end)
			return at < (uint64_t)frames_home ? BEFORE : at == (uint64_t)frames_home ? INSIDE : AFTER;
		if (u.regs && !u.link_pending)
			interrupted_at = u.pc;
	} while (unwind_next(&u));
	return in_assembly(interrupted_at) ? INSIDE : NOWHERE;
}

/* All that is not the thread's. */
static notrace void overwrite(struct shadow_stack *s)
{
	for (unsigned long *word = s->free; word < s->free + 32 && word < (unsigned long *)(s + 1); word++)
		*word = (uint64_t)frames_lost;
}

__attribute__((noipa)) static notrace void
frames_interrupt(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	struct shadow_stack *s = shadow_of(current);

	if (!armed)
		return;
	armed = false;
	where = walk();
	returning = frames_now.link;
	frames_show(WALK, where != NOWHERE);
	frames_show(WHOLE, is_whole(s->top));
	if (!searching)
		overwrite(s);
}

/* ---- The calls ---- */

static notrace int frames_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops, struct ftrace_regs *regs)
{
	return answer;
}

static notrace void frames_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops, struct ftrace_regs *regs)
{
}

/* The stack is as it was before the call; it is made so if it is not. */
static notrace bool is_popped(struct shadow_stack *s)
{
	bool right = s->top == top && s->free == room && s->depth == depth;

	s->top = top;
	s->free = room;
	s->depth = depth;
	return right;
}

/* One call, @wait instructions later than it could be: is it over as it must be? None, once tracing is off for good. */
static notrace void call(unsigned long wait, enum item link, uint64_t must_be, enum item popped)
{
	if (ftrace_graph_dead)
		return;
	frames_now.home = frames_now.link = 0;
	frames_now.by_link = must_be != (uint64_t)frames_home;
	overwrite(shadow_of(current));
	frames_call(wait);
	frames_show(link, frames_now.link == must_be);
	frames_show(returning ? HOME_RETURNING : HOME_ENTERED, frames_now.home);
	if (frames_now.home) {
		frames_show(RESULTS, !frames_now.results);
		frames_show(CALLERS, !frames_now.callers);
	}
	frames_show(popped, is_popped(shadow_of(current)));
	frames_show(ALIVE, !ftrace_graph_dead);
}

/* A tick has begun: which, and how many instructions ago, so that the call does not wait these. */
#ifdef __riscv
static inline uint64_t begun(unsigned long *wait)
{
	uint64_t now = arch_counter(), tick;

	do
		tick = arch_counter();
	while (tick == now);
	return tick;
}
#else
/* A tick is 16 instructions, and a loop would be in step with it. */
static inline uint64_t begun(unsigned long *wait)
{
	uint64_t at[16], before = 0;

	__asm__ volatile(
	"	.irp reg, %0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15\n	mrs \\reg, cntvct_el0\n	.endr\n"
	: "=&r"(at[0]), "=&r"(at[1]), "=&r"(at[2]), "=&r"(at[3]), "=&r"(at[4]), "=&r"(at[5]), "=&r"(at[6]), "=&r"(at[7]),
	  "=&r"(at[8]), "=&r"(at[9]), "=&r"(at[10]), "=&r"(at[11]), "=&r"(at[12]), "=&r"(at[13]), "=&r"(at[14]), "=&r"(at[15]));
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++)
		before += at[i] == at[0];
	*wait += before % 16; /* 16: at[0] was the tick's first instruction */
	return at[15];
}
#endif

static notrace enum where call_interrupted(unsigned long wait)
{
	uint64_t tick = begun(&wait);

	where = NOWHERE;
	armed = true;
	timer_set(tick + SOON);
	if (answer)
		call(wait, PATCHED, (uint64_t)return_to_handler, POPPED);
	else
		call(wait, NOT_ASKED_FOR, (uint64_t)frames_home, POPPED_REFUSED);
	while (armed && arch_counter() < tick + 100 * SOON)
		;
	return where;
}

/* First so late that the interrupt comes before the call; then earlier and earlier, until it comes after it. */
static notrace void sweep(bool says)
{
	unsigned long wait = 0, inside = 0, outside = 0;

	answer = says;
	searching = true;
	while (wait < MOST && call_interrupted(wait) != BEFORE)
		wait += COARSE;
	searching = false;
	for (wait += COARSE; wait > 0 && outside < OUTSIDE && !ftrace_graph_dead; wait--) {
		enum where at = call_interrupted(wait);

		inside += at == INSIDE;
		outside = at == AFTER ? outside + 1 : 0;
	}
	frames_show(SWEPT, inside > OUTSIDE && outside == OUTSIDE);
}

/* No frame more: the return address stays where it is. */
static notrace void full(void)
{
	struct shadow_stack *s = shadow_of(current);

	answer = true;
	s->free = room = s->last + 1;
	call(0, NO_ROOM, (uint64_t)frames_home, POPPED_FULL);
}

#if STAGE >= 6
/* Of two users one keeps something and says no: what the other one's frame needs is left. */
static notrace int frames_keep(struct ftrace_graph_ent *trace, struct fgraph_ops *gops, struct ftrace_regs *regs)
{
	fgraph_reserve_data(gops->idx, 8);
	return 0;
}

__attribute__((noipa)) static void frames_look(void)
{
	struct shadow_stack *s = shadow_of(current);

	frames_show(GIVEN_BACK, s->free == (unsigned long *)(s->top + 1) && s->top->data_end == s->free);
}
#endif

/* ---- */

static struct ftrace_ops interrupts;
static struct ftrace_ops filters[2];
static struct fgraph_ops users[2];

static int begin(int user, trace_func_graph_ent_t entry, const char *name)
{
	int err;

	filters[user] = (struct ftrace_ops){.func = ftrace_stub, .slot = -1};
	users[user] = (struct fgraph_ops){.entryfunc = entry, .retfunc = frames_return, .filter = &filters[user], .idx = -1};
	err = ftrace_set_filter(&filters[user], name, strlen(name), true, false);
	return err ? err : register_ftrace_graph(&users[user]);
}

static void end(int user)
{
	unregister_ftrace_graph(&users[user]);
	ftrace_free_filter(&filters[user]);
}

static int with_interrupts(void)
{
	int err = ftrace_set_filter(&interrupts, "sched_tick", 10, true, false);

	return err ? err : register_ftrace_function(&interrupts);
}

static notrace void as_they_are(void)
{
	struct shadow_stack *s = shadow_of(current);

	top = s->top;
	room = s->free;
	depth = s->depth;
}

static int calls(void)
{
	unsigned long *free;
	int err = begin(0, frames_entry, "frames_traced");

	if (!err)
		err = with_interrupts();
	if (!err) {
		as_they_are();
		for (int i = 0; i < TIMES; i++) {
			sweep(true);
			sweep(false);
		}
		free = room;
		full();
		shadow_of(current)->free = free;
	}
	unregister_ftrace_function(&interrupts);
	ftrace_free_filter(&interrupts);
	end(0);
	return err;
}

static int run(const char *name)
{
	int err;

	if (shadow_of(current))
		return complain(name, "function_graph is in use", EBUSY);
	interrupts = (struct ftrace_ops){.func = frames_interrupt, .flags = FTRACE_OPS_FL_RECURSION, .slot = -1};
	err = calls();
#if STAGE >= 6
	answer = true;
	if (!err && !(err = begin(0, frames_entry, "frames_look")) && !(err = begin(1, frames_keep, "frames_look")))
		frames_look();
	end(1);
	end(0);
#endif
	return err ? complain(name, "register_ftrace_graph", -err) : 0;
}

int main(int argc, char **argv)
{
	static struct mutex alone;
	int status;

	if (!mutex_trylock(&alone))
		return complain(argv[0], "it runs already", EBUSY);
	status = run(argv[0]);
	mutex_unlock(&alone);
	return status;
}
#else
int main(int argc, char **argv)
{
	printf("%s: this kernel patches no returns\n", argv[0]);
	return 1;
}
#endif
