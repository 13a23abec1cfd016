/*
 * frames: calls a traced function repeatedly. A timer interrupt comes at a
 * different instruction each time: before the call, at each instruction of the
 * tracer's entry and exit code, and after the call.
 *
 * The order of the shadow stack's stores matters only at a few instructions, which
 * an interrupt rarely hits. Here the timer fires at a fixed time, and each call
 * starts one instruction later than the one before (with -icount each instruction
 * takes the same time). The interrupt overwrites the shadow stack above `free`,
 * which an interrupt may use, with the address of frames_lost: a function whose
 * frame was popped too early returns there.
 *
 * The program checks nothing. It passes the shadow stack to frames_call() and
 * frames_stack() in registers, for an observer of the processor. It needs one CPU,
 * and runs once at a time, while no other thread has a shadow stack.
 */
#include "app.h"

APP("", "interrupt a traced call at each of the tracer's instructions, for grading");

#if STAGE >= 5
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "errno.h"
#include "fgraph.h"
#include "irq.h"
#include "lib/pattern.h"
#include "shadow.h"
#include "ftrace_internal.h"
#include "unwind.h"

#ifdef __riscv
#define RESULTS 2 /* registers of a result */
#define SOON 20 /* ticks: longer than setting the timer and making a traced call */
#else
#define RESULTS 8
#define SOON 120
#endif
#define COARSE 64 /* instructions */
#define MOST 4096
#define OUTSIDE 8 /* the sweep ends when so many interrupts in a row came before the call */

/* The entry handler's answer, or that there is no room for a frame, or no shadow stack. */
enum answer { WANTED, REFUSED, FULL, NO_STACK };

/*
 * Wait for @wait instructions, then call frames_traced. It returns to @home, or, if
 * @home is NULL, to its link register, with a value in each result register.
 */
void frames_call(struct shadow_frame *top, unsigned long *free, unsigned long depth,
		 enum answer answer, unsigned long wait, void (*home)(void));
void frames_home(void), frames_lost(void), frames_traced(void);

/* The words of a frame that the observer reads. */
_Static_assert(offsetof(struct shadow_frame, ret) == 0 &&
		       offsetof(struct shadow_frame, func) == 8 &&
		       offsetof(struct shadow_frame, sp) == 16 &&
		       offsetof(struct shadow_frame, fp) == 24 &&
		       offsetof(struct shadow_frame, below) == 40 &&
		       offsetof(struct shadow_frame, data_end) == 56 &&
		       sizeof(struct shadow_frame) == 64,
	       "struct shadow_frame has changed: change frames_lost below and the observer too");

static enum answer answer;
static struct thread *volatile armed; /* whose call the next timer interrupt is for */
enum { CALLS, CALLED, HOME };
volatile uint64_t frames_progress; /* of frames_call */
static volatile uint64_t interrupted_at; /* frames_progress when the interrupt came */

/* WAIT: executes @wait instructions. BODY: the code of frames_traced after its call site. */
#ifdef __riscv
#define WAIT \
	"	andi t0, a4, 1\n	beqz t0, 1f\n	nop\n" \
	"1:	srli a4, a4, 1\n	addi a4, a4, 1\n" \
	"2:	addi a4, a4, -1\n	bnez a4, 2b\n"
#define PROGRESS(n) "	lla t2, frames_progress\n	li t0, " n "\n	sd t0, 0(t2)\n"
#define BODY \
	"	beqz a5, 1f\n	mv ra, a5\n" \
	"1:	addi a0, ra, 1\n	addi a1, ra, 2\n	ret\n"
#else
#define WAIT \
	"	tbz x4, #0, 1f\n	nop\n" \
	"1:	lsr x4, x4, #1\n	add x4, x4, #1\n" \
	"2:	subs x4, x4, #1\n	b.ne 2b\n"
#define PROGRESS(n) \
	"	adrp x10, frames_progress\n	mov x9, #" n "\n" \
	"	str x9, [x10, #:lo12:frames_progress]\n"
#define BODY \
	"	cbz x5, 1f\n	mov x30, x5\n" \
	"1:	.irp reg, 0,1,2,3,4,5,6,7\n	add x\\reg, x30, #\\reg + 1\n	.endr\n	ret\n"
#endif

/* The code at frames_lost, read as a frame, has below = 0: no frame below it. */
__asm__(
"	.text\n	.balign 8\n"
"	.type frames_call, %function\nframes_call:\n"
ENTER
WAIT
PROGRESS("1")
CALL "frames_traced\n"
"frames_home:\n"
PROGRESS("2")
"	.balign 8\n"
"frames_lost:\n"
LEAVE
"	.org frames_lost + 40\n	.8byte 0\n"
"	.size frames_call, . - frames_call\n"
TRACED("frames_traced")
BODY
"	.size frames_traced, . - frames_traced\n");

/* @found: in an interrupt, the result of walk(); after the call, ftrace_graph_dead, not_shown. */
__attribute__((noipa)) static notrace void frames_stack(struct shadow_frame *top,
							unsigned long *free, unsigned long depth,
							unsigned long found)
{
	barrier();
}

/* Overwrite the free part of the shadow stack. */
static notrace void overwrite(struct shadow_stack *s)
{
	for (unsigned long *word = s->free; word < s->free + 32 && word < (unsigned long *)(s + 1);
	     word++)
		*word = (uint64_t)frames_lost;
}

/* Walk the stack up to frames_home, if the walk reaches it. */
static notrace unsigned long walk(void)
{
	struct unwind u;

	unwind_start_here(&u);
	while (unwind_entry(&u) != (uint64_t)frames_home && unwind_next(&u))
		;
	return unwind_entry(&u);
}

CALLBACK static void frames_interrupt(unsigned long ip, unsigned long parent_ip,
				      struct ftrace_ops *op, struct ftrace_regs *regs)
{
	struct shadow_stack *s = shadow_of(current);

	if (armed != current)
		return;
	armed = NULL;
	interrupted_at = frames_progress;
	frames_stack(s->top, s->free, s->depth, walk());
	overwrite(s);
}

static notrace int frames_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
				struct ftrace_regs *regs)
{
	return answer != REFUSED;
}

/*
 * Which of the result registers are not in regs->arg: frames_traced has set number n to its link
 * register + n + 1. Not before the interrupt, so that it comes at no more instructions.
 */
static unsigned long not_shown;

static notrace void frames_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
				  struct ftrace_regs *regs)
{
	for (unsigned long n = 0; n < RESULTS && !armed; n++)
		if (regs->arg[n] != (uint64_t)return_to_handler + n + 1)
			not_shown |= 1ul << n;
}

/* One call. The shadow stack is restored, so that an error in one call does not affect the next. */
static notrace void call(enum answer says, unsigned long wait)
{
	struct shadow_stack *s = shadow_of(current);
	struct shadow_frame *top = s->top;
	unsigned long *free = s->free, depth = s->depth;

	answer = says;
	not_shown = 0;
	frames_progress = CALLS;
	if (says == FULL)
		s->free = s->last + 1;
	overwrite(s);
	if (says == NO_STACK) /* as a thread that was created when there was no memory */
		WRITE_ONCE(current->ftrace, NULL);
	frames_call(top, s->free, depth, says, wait, says == WANTED ? NULL : frames_home);
	WRITE_ONCE(current->ftrace, s);
	frames_stack(s->top, s->free, s->depth, ftrace_graph_dead | not_shown << 1);
	s->top = top;
	s->free = free;
	s->depth = depth;
}

/*
 * Wait for the start of a clock tick and return it. The time between the timer and the call must
 * not depend on where in a tick this loop ends: *@wait is increased by the number of instructions
 * executed since the tick began.
 */
#ifdef __riscv
/* QEMU's timer fires whole ticks after the instruction that sets it. */
static inline uint64_t wait_for_tick(unsigned long *wait)
{
	uint64_t now = arch_counter(), tick;

	do
		tick = arch_counter();
	while (tick == now);
	return tick;
}
#else
/*
 * The timer fires when a tick begins. A tick is 16 instructions: read the clock 16 times and count
 * the reads of the first value.
 */
static inline uint64_t wait_for_tick(unsigned long *wait)
{
	uint64_t at[16], before = 0;

	__asm__ volatile(
		"	.irp reg, %0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15\n	"
		"mrs \\reg, cntvct_el0\n	.endr\n"
		: "=&r"(at[0]), "=&r"(at[1]), "=&r"(at[2]), "=&r"(at[3]), "=&r"(at[4]),
		  "=&r"(at[5]), "=&r"(at[6]), "=&r"(at[7]), "=&r"(at[8]), "=&r"(at[9]),
		  "=&r"(at[10]), "=&r"(at[11]), "=&r"(at[12]), "=&r"(at[13]), "=&r"(at[14]),
		  "=&r"(at[15]));
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++)
		before += at[i] == at[0];
	*wait += before % 16; /* if all 16 are equal, at[0] was the tick's first instruction */
	return at[15];
}
#endif

/* Make one call and return its progress (CALLS, CALLED, HOME) when the interrupt came. */
static notrace uint64_t call_interrupted(enum answer says, unsigned long wait)
{
	uint64_t tick = wait_for_tick(&wait);

	armed = current;
	timer_set(tick + SOON);
	call(says, wait);
	while (armed && arch_counter() < tick + 100 * SOON)
		;
	armed = NULL; /* a late interrupt is not for the next call */
	return interrupted_at;
}

/*
 * At first the interrupt comes after the call. Then each call starts later, until the interrupt
 * comes before it.
 */
static notrace void sweep(enum answer says)
{
	unsigned long wait = 0;

	while (wait < MOST && !ftrace_graph_dead && call_interrupted(says, wait + COARSE) == HOME)
		wait += COARSE;
	for (int before = 0; wait < MOST && before < OUTSIDE && !ftrace_graph_dead; wait++)
		before = call_interrupted(says, wait) == CALLS ? before + 1 : 0;
}

static struct ftrace_ops interrupts = {
	.func = frames_interrupt, .flags = FTRACE_OPS_FL_RECURSION, .slot = -1};
static struct ftrace_filter filters[2];
static struct fgraph_ops users[2];

static int begin(int user, trace_func_graph_ent_t entry, const char *name)
{
	int err;

	users[user] = (struct fgraph_ops){
		.entryfunc = entry, .retfunc = frames_return, .filter = &filters[user], .idx = -1};
	err = ftrace_filter_edit(&filters[user], name, strlen(name), true, false);
	return err ? err : register_ftrace_graph(&users[user]);
}

static void end(int user)
{
	unregister_ftrace_graph(&users[user]);
	ftrace_filter_free(&filters[user]);
}

#if STAGE >= 6
/* A second user that reserves entry data and then returns 0 (not wanted). */
static notrace int frames_keep(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			       struct ftrace_regs *regs)
{
	fgraph_reserve_data(gops->idx, 8);
	return 0;
}

__attribute__((noipa)) static void frames_look(void)
{
	struct shadow_stack *s = shadow_of(current);

	frames_stack(s->top, s->free, s->depth, 0);
}

static int keeps_and_refuses(void)
{
	int err = begin(0, frames_entry, "frames_look") ?: begin(1, frames_keep, "frames_look");

	answer = WANTED;
	if (!err)
		frames_look();
	end(1);
	end(0);
	return err;
}
#endif

static int calls(void)
{
	int err = begin(0, frames_entry, "frames_traced")
		  ?: ftrace_set_filter(&interrupts, "sched_tick", 10, true, false)
							 ?: register_ftrace_function(&interrupts);

	if (!err) {
		sweep(WANTED);
		sweep(REFUSED);
		if (!ftrace_graph_dead) {
			call(FULL, 0);
			call(NO_STACK, 0);
		}
	}
	unregister_ftrace_function(&interrupts);
	ftrace_filter_free(&interrupts.filter);
	end(0);
#if STAGE >= 6
	return err ?: keeps_and_refuses();
#else
	return err;
#endif
}

int main(int argc, char **argv)
{
	static struct mutex alone;
	int err;

	mutex_lock(&alone);
	err = shadow_of(current) ? -EBUSY : calls();
	mutex_unlock(&alone);
	return err ? complain(argv[0],
			      err == -EBUSY ? "function_graph is in use" : "register_ftrace_graph",
			      -err)
		   : 0;
}
#else
int main(int argc, char **argv)
{
	printf("%s: this kernel has no function_graph\n", argv[0]);
	return 1;
}
#endif
