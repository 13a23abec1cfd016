/*
 * Stack walks: their start and end, and the analysis of an interrupted function's
 * code. <arch>/unwind.c knows the layout of a frame.
 */
#include "unwind.h"

#include "asm-ftrace/insn.h"
#include "breakpoint.h"
#include "cpu.h"
#include "ksyms.h"
#include "string.h"

__noinline notrace unsigned long unwind_true_caller(struct thread *t, unsigned long pc,
						    unsigned long fp)
{
	TABLE_FOR_EACH(const struct unwind_hook, unwind_hook, hook)
		pc = hook->fn(t, pc, fp);
	return pc;
}

__noinline notrace unsigned long unwind_true_pc(const struct trap_frame *regs)
{
	return break_hook ? break_hook->pc(regs->pc) : regs->pc;
}

/* From the trap vector to the interrupted function, by the trap frame. */
static notrace bool step_to_interrupted(struct unwind *u)
{
	unsigned long frame = u->fp - TRAP_RECORD;

	if (frame < u->low || frame > u->high - sizeof(struct trap_frame) || frame % 16)
		return false;
	u->regs = (struct trap_frame *)frame;
	u->pc = unwind_true_pc(u->regs);
	u->fp = u->regs->x[REG_FP];
	u->sp = u->regs->x[REG_SP];
	return in_text(u->pc);
}

/* Parts of the tracer are compiled without frame records. */
static notrace bool step_in_tracer(struct unwind *u)
{
	const char *name;
	struct frame_state s = unwind_state(u->pc - 4, &name);

	return s.fp_set ? unwind_record(u) : unwind_by_code(u, &s, 0);
}

/* Go to the caller, without the hooks. Reads only inside the stack and text. */
static notrace bool step(struct unwind *u)
{
	if (u->regs)
		return unwind_from_regs(u);
	if (unwind_in_vector(u->pc))
		return step_to_interrupted(u);
	return in_tracer(u->pc) ? step_in_tracer(u) : unwind_record(u);
}

/* Only a return address may be replaced by a tracer; an interrupted pc never is. */
static __noinline notrace bool to_caller(struct unwind *u)
{
	if (!step(u))
		return false;
	if (!u->regs)
		u->pc = unwind_true_caller(u->thread, u->pc, u->fp);
	return true;
}

__noinline notrace void unwind_start_here(struct unwind *u)
{
	unsigned long fp = (unsigned long)__builtin_frame_address(0);

	unwind_start_at(u, current, (unsigned long)unwind_start_here, fp, fp);
	to_caller(u);
	barrier(); /* no tail call: the step reads our own frame */
}

notrace void unwind_start_regs(struct unwind *u, struct trap_frame *regs)
{
	unwind_start_at(u, current, unwind_true_pc(regs), regs->x[REG_FP], regs->x[REG_SP]);
	u->regs = regs;
}

/* Each step must go up the stack; only the step out of an interrupted leaf may keep sp. */
notrace bool unwind_next(struct unwind *u)
{
	unsigned long sp = u->sp;
	bool exact = u->regs != NULL;

	return to_caller(u) && (u->sp > sp || (exact && u->sp == sp));
}

static inline notrace bool is_plain(unsigned long pc)
{
	return in_kernel_text(pc) && !unwind_in_vector(pc) && !in_kernel_tracer(pc);
}

/* A fast path for frames outside of traps, the tracer and modules: the frame records suffice. */
static notrace unsigned save_plain(struct unwind *u, unsigned long *entries, unsigned max)
{
	unsigned long least = MAX(u->sp, u->low + FRAME_RECORD), most = u->high - 16 + FRAME_RECORD,
		      fp = u->fp, *next = entries;

	if (u->regs || !is_plain(u->pc))
		return 0;
	while (next < entries + max && fp >= least && fp <= most && fp % 8 == 0) {
		const unsigned long *record = (void *)(fp - FRAME_RECORD);

		if (!is_plain(record[1]))
			break;
		least = fp + 1;
		fp = record[0];
		*next++ = record[1];
	}
	if (next > entries) {
		u->pc = next[-1];
		u->sp = least - 1;
		u->fp = fp;
	}
	return next - entries;
}

notrace unsigned unwind_save(struct unwind *u, unsigned long *entries, unsigned max)
{
	unsigned count = 0;

	do {
		entries[count++] = unwind_entry(u);
		count += save_plain(u, entries + count, max - count);
	} while (count < max && (u->fp || u->regs) && unwind_next(u)); /* fp 0: the outermost */
	return count;
}

notrace bool unwind_read(const struct unwind *u, unsigned long at, unsigned long *value)
{
	if (at < u->low || at > u->high - 8 || at % 8)
		return false;
	*value = *(unsigned long *)at;
	return true;
}

notrace void unwind_moved(struct frame_state *s, bool is_fp, s32 at, bool load)
{
	*(is_fp ? &s->fp_stored : &s->ra_stored) = !load;
	*(is_fp ? &s->fp_at : &s->ra_at) = at - s->depth;
	if (is_fp && load)
		s->fp_set = false;
}

notrace bool unwind_by_code(struct unwind *u, const struct frame_state *s, unsigned long link)
{
	u->sp = s->fp_set ? u->fp - s->fp_is : u->sp + s->depth;
	u->pc = link;
	return (!s->fp_stored || unwind_read(u, u->sp + s->fp_at, &u->fp)) &&
	       (!s->ra_stored || unwind_read(u, u->sp + s->ra_at, &u->pc)) && in_text(u->pc);
}

notrace bool unwind_in_tracer_entry(const char *name)
{
	return name && (!strncmp(name, "ftrace_stub_", 12) ||
			!strncmp(name, "ftrace_island_", 14) || !strcmp(name, "ftrace_caller"));
}

/* ---- the state of a frame at an instruction ---- */

/* A forward branch's target starts with the state at the branch. */
#define BRANCHES 64
static struct branch {
	unsigned long target;
	struct frame_state state;
} branches[NR_CPUS][BRANCHES];

/* The instruction at @at, also under a breakpoint. */
static __noinline notrace u32 insn_at(unsigned long at)
{
	u32 insn = *(u32 *)at;

	return insn == INSN_BREAK && break_hook ? break_hook->insn(at) : insn;
}

/*
 * Track the instructions from the function's start to @pc in the order of
 * addresses. A block after a jump starts with the state of a forward branch to
 * it; without one (a loop's body, a switch's case), with the jump's state.
 */
static notrace struct frame_state follow(unsigned long at, unsigned long pc)
{
	struct branch *b = branches[this_cpu()->index];
	struct frame_state s = {.known = true}, jumped = s;
	unsigned count = 0;

	for (;; at += 4) {
		enum flow flow;
		long to;

		for (unsigned n = 0; n < count; n++)
			if (b[n].target == at)
				s = b[n].state;
		if (at >= pc)
			return s.known ? s : jumped;
		if (!s.known)
			s = jumped;
		flow = unwind_track(&s, insn_at(at), &to);
		if ((flow == FLOW_BRANCH || flow == FLOW_JUMP) && to > 0 && count < BRANCHES)
			b[count++] = (struct branch){at + to, s};
		if (flow == FLOW_JUMP || flow == FLOW_AWAY)
			jumped = s;
		if (flow >= FLOW_JUMP)
			s.known = false;
	}
}

notrace struct frame_state unwind_state(unsigned long pc, const char **name)
{
	unsigned long offset = 0;

	*name = in_text(pc) ? ksym_lookup(pc, &offset, NULL) : NULL;
	return *name ? follow(pc - offset, pc) : (struct frame_state){};
}

/* ---- Any thread's stack ---- */

struct request {
	int pid;
	unsigned cpu; /* the CPU that runs the thread, or whose idle thread it is */
	bool running;
	unsigned long *entries;
	unsigned max, count;
};

static bool is_requested(const struct thread *t, const struct request *r)
{
	return r->pid ? t->pid == r->pid : t == cpu_of(r->cpu)->idle;
}

static void save_off_cpu(struct thread *t, void *arg)
{
	struct request *r = arg;
	struct unwind u;

	r->running = __atomic_load_n(&t->on_cpu, __ATOMIC_ACQUIRE);
	r->cpu = t->cpu;
	if (r->running)
		return;
	unwind_start_at(&u, t, t->context.pc, t->context.fp, t->context.sp);
	r->count = unwind_save(&u, r->entries, r->max);
}

static void find_and_save(struct thread *t, void *arg)
{
	if (is_requested(t, arg))
		task_call_func(t, save_off_cpu, arg);
}

/* In smp_call()'s interrupt: save the interrupted stack, without the tracer's frames at its top. */
static void save_interrupted(void *arg)
{
	struct request *r = arg;
	struct unwind u;

	if (!is_requested(current, r))
		return;
	r->running = false; /* found */
	unwind_start_here(&u);
	for (bool crossed = false; !crossed || in_tracer(u.pc); crossed |= u.regs != NULL)
		if (!unwind_next(&u))
			return;
	r->count = unwind_save(&u, r->entries, r->max);
}

/* A running thread may leave its CPU before the interrupt arrives: then try again. */
unsigned stack_trace_save_pid(int pid, unsigned cpu, unsigned long *entries, unsigned max)
{
	struct request r = {.pid = pid, .cpu = cpu, .entries = entries, .max = max};

	do {
		r.running = false;
		if (pid)
			threads_for_each(find_and_save, &r);
		else
			task_call_func(cpu_of(cpu)->idle, save_off_cpu, &r);
		if (r.running)
			smp_call(r.cpu, save_interrupted, &r);
	} while (r.running);
	return r.count;
}
