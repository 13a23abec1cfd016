/*
 * Kprobes at a breakpoint: what happens at a hit, and in which order text is written
 * when a probe starts and stops. kprobes.h says how the parts work together.
 *
 * A hit keeps no state of its own: what is being executed can be read from pc,
 * which is in a function, or in the slot of one point. So hits may nest.
 */
#include "cpu.h"
#include "kprobe_point.h"

/* ---- A hit ---- */

/*
 * Continue after the handlers of a breakpoint: in the slot, or after the emulated
 * instruction. Return: there is no second breakpoint, so run_post() is due.
 */
static inline bool execute(const struct probe_point *pt, struct trap_frame *trap)
{
#if LAB_START == 8
	return false;
#else
	if (likely(pt->resume)) {
		trap->pc = pt->resume;
		return false;
	}
	trap->pc = probe_emulate(pt->insn, pt->key, trap->x, probe_flags(trap));
	return true;
#endif
}

/*
 * If a handler hits a probe, that is an exception inside an exception: its context is
 * EXCEPTION_BIT.
 */
static void hit_before(const struct probe_point *pt, struct kprobe_regs *regs, bool missed)
{
#if LAB_START != 8
	struct cpu *cpu = this_cpu();

	if (unlikely(missed)) {
		count_missed(pt);
		execute(pt, regs->trap);
		return;
	}
	cpu->recursion |= EXCEPTION_BIT;
	if (!run_pre(pt, regs) && execute(pt, regs->trap))
		run_post(pt, regs);
	cpu->recursion &= ~EXCEPTION_BIT;
#endif
}

/* A hit of the breakpoint after the copy in the slot. */
static void hit_after(const struct probe_point *pt, struct kprobe_regs *regs, bool missed)
{
#if LAB_START != 8
	struct cpu *cpu = this_cpu();

	regs->ip = pt->key;
	regs->trap->pc = pt->key + 4;
	if (missed)
		return;
	cpu->recursion |= EXCEPTION_BIT;
	run_post(pt, regs);
	cpu->recursion &= ~EXCEPTION_BIT;
#endif
}

/* break_hook.hit */
static bool kprobe_break(struct trap_frame *trap, u64 context)
{
#if LAB_START == 8
	return false;
#else
	struct kprobe_regs regs = {NULL, trap, trap->pc, probe_irq_flags(trap)};
	bool missed = this_cpu()->recursion & context;
	const struct probe_point *pt;

	if (!probe_is_break(trap))
		return false;
	pt = find_point(regs.ip);
	if (likely(pt)) {
		hit_before(pt, &regs, missed);
		return true;
	}
	pt = slot_point(regs.ip);
	if (!pt)
		/* it was taken away meanwhile */
		return *(const volatile u32 *)regs.ip != INSN_BREAK;
	hit_after(pt, &regs, missed);
	return true;
#endif
}

/* break_hook.pc */
static unsigned long kprobe_true_pc(unsigned long pc)
{
#if LAB_START == 8
	return pc;
#else
	const struct probe_point *pt = slot_point(pc);

	return pt ? pt->key + pc % sizeof(kprobe_slots[0]) : pc;
#endif
}

/* break_hook.insn */
static u32 kprobe_insn(unsigned long at)
{
#if LAB_START == 8
	return *(const volatile u32 *)at;
#else
	const struct probe_point *pt = find_point(at);

	return pt && !pt->entry ? pt->insn : *(const volatile u32 *)at;
#endif
}

const struct break_hook kprobe_hook = {kprobe_break, kprobe_true_pc, kprobe_insn};

/* ---- Writing: ftrace_lock is held ---- */

static int arm_break(struct probe_point *pt, bool on)
{
#if LAB_START == 8
	return -ENOSYS;
#else
	struct text_word word = {pt->key, on ? pt->insn : INSN_BREAK, on ? INSN_BREAK : pt->insn};
	int err = kprobe_write(&word, 1);

	if (!err)
		pt->armed = on;
	return err;
#endif
}

/*
 * Write the copy, and after it a jump back; or, if a handler must be called after the
 * instruction or the jump does not reach, a breakpoint. While a CPU may be in the slot, only
 * the second word changes, between jump and breakpoint: that is allowed on arm64, too.
 */
static int write_slot(const struct probe_point *pt)
{
#if LAB_START == 8
	return 0;
#else
	const volatile u32 *slot = (const u32 *)pt->resume;
	struct text_word words[2] = {{(unsigned long)&slot[0], slot[0], pt->insn},
				     {(unsigned long)&slot[1], slot[1], INSN_BREAK}};
	bool jumps = probe_jump(words[1].ip, pt->key + 4, &words[1].insn);

	for (const struct kprobe *p = pt->probes; p; p = p->next)
		jumps &= !p->post_handler;
	if (!jumps)
		words[1].insn = INSN_BREAK;
	if (words[0].expected == words[0].insn && words[1].expected == words[1].insn)
		return 0;
	return kprobe_write(words, 2);
#endif
}

int kprobe_update_point(struct probe_point *pt)
{
	bool on = false;
	int err = 0;

	for (const struct kprobe *p = pt->probes; p; p = p->next)
		on |= !(p->flags & KPROBE_FLAG_DISABLED);
#if LAB_START != 8
	if (on && pt->resume)
		err = write_slot(pt);
#endif
	if (err || on == pt->armed)
		return err;
	return pt->entry ? kprobe_arm_entry(pt, on) : arm_break(pt, on);
}

void kprobe_wait_and_free(struct probe_point *pt, bool unused)
{
#if LAB_START != 8
	struct probe_point **link = bucket_of(pt->key);

	if (unused) {
		while (*link != pt)
			link = &(*link)->next;
		WRITE_ONCE(*link, pt->next);
	}
	synchronize_sched();
	if (!unused)
		return;
	if (pt->resume)
		WRITE_ONCE(kprobe_slot_owner[(const u32 (*)[2])pt->resume - kprobe_slots], NULL);
	kfree(pt);
#endif
}
