/*
 * Kprobes: handlers that run before (and after) one instruction of a traced function.
 *
 * At a function's entry the probe is a call from the function's call site: an
 * ftrace op. Elsewhere its instruction is replaced by a breakpoint. After the
 * handlers a copy of the instruction is executed in a slot, which then jumps back;
 * an instruction that depends on pc is emulated instead (probe_insn.h).
 *
 *	entry:	call site -> ftrace_caller -> kprobe_entry() -> handlers
 *	body:	breakpoint -> kprobe_break() -> handlers -> slot -> the next instruction
 *
 * What may be probed: an instruction of a function that has a call site. On its way to
 * a probe's handlers, from a call site or from the exception, a CPU runs no such
 * function: the build proves it (tools/proof.py). So it hits no other probe there.
 * NOKPROBE_SYMBOL (breakpoint.h) excludes further functions.
 *
 * Handlers run with interrupts masked and the recursion bit of their context set:
 * they are not preempted, and the functions that they call are not traced. They
 * must not sleep. A probe that is hit while the handlers of a probe run on this CPU
 * in this context is counted in nmissed; its instruction is executed.
 *
 * Locking, and the order of stores. All of it changes under ftrace_lock. To start:
 * (1) write the slot, and synchronise all CPUs; (2) smp_wmb(), link the point and its
 * probe, which the handlers find by address without a lock; (3) write the breakpoint,
 * or patch the call site. To stop: (1) write the instruction back, and synchronise;
 * (2) unlink; (3) a grace period: no CPU is in a handler (masked interrupts, or the
 * recursion bit) or in a slot (tracer's text: irq_exit() does not preempt there);
 * (4) free the slot. A CPU that finds no point for its breakpoint reads the word
 * again: the instruction was written back in the meantime, and is executed.
 *
 * No CPU executes a half-written word: on riscv64 it is one aligned store, on arm64
 * the other CPUs are stopped meanwhile. An interrupt between two steps finds one of
 * two states: nothing leads to the probe yet, or everything that the probe needs is
 * complete.
 */

/*
 * The folder probes/ (lab 8). What each kind of probe is made of:
 *
 *	kprobes.c at an entry	-> one of two ops: the second may change pc
 *	kprobes.c in a body	-> kprobe_hit.c -> kprobe_text.c -> core/: a breakpoint
 *	kretprobe.c		-> fprobe.c
 *	fprobe.c		-> sites.c -> one user of function_graph; without an exit
 *				   handler, one op
 *	livepatch.c		-> sites.c -> one op
 *
 * Probes are registered by events/, modules (probe_exports.c) and programs in
 * kern/apps/. Hits come from ftrace_caller, from graph/, or from the exception, through
 * break_hook (breakpoint.h). Before a module is removed, kern/loader/ asks the three
 * *_within() functions; in lab 7 no probe is anywhere.
 *
 * This room calls core/, ops/, graph/; of kern/base/ module_is_going() and, on arm64, of
 * kern/trap/ stop_machine().
 */
#ifndef FTRACE_KPROBES_H
#define FTRACE_KPROBES_H

#include "asm-ftrace/fetch.h"
#include "asm-ftrace/probe.h"
#include "asm-ftrace/regs.h"
#include "arch.h"
#include "types.h"

struct kprobe;
struct probe_point;

/* What a handler sees of the probed code: one of the two pointers is not NULL. */
struct kprobe_regs {
	struct ftrace_regs *entry; /* at a function's entry: arguments, sp, fp, link, pc */
	struct trap_frame *trap;   /* in a body: all registers */
	unsigned long ip;	   /* the probed instruction */
	unsigned long flags;	   /* of irq_save() in the probed code */
};

/*
 * Called before the instruction, with the registers that it will see. The probed code sees
 * every change of a register, except of sp. Return true after kprobe_set_pc(), in a probe
 * with KPROBE_FLAG_IPMODIFY: the instruction is not executed. Else the result is ignored.
 */
typedef bool (*kprobe_pre_handler_t)(struct kprobe *p, struct kprobe_regs *regs);
/* Called after the instruction, with the registers that it left. */
typedef void (*kprobe_post_handler_t)(struct kprobe *p, struct kprobe_regs *regs);

#define KPROBE_FLAG_DISABLED 1 /* registered, but its handlers are not called */
/* its pre_handler may change pc; one such probe at an instruction, or op at an entry */
#define KPROBE_FLAG_IPMODIFY 2

/* All zero at first, but for what its owner sets before register_kprobe(). */
struct kprobe {
	const char *symbol_name;	    /* of a traced function; NULL: addr */
	unsigned long offset;		    /* from it */
	unsigned long addr;		    /* with symbol_name: set by register_kprobe() */
	kprobe_pre_handler_t pre_handler;   /* or NULL */
	kprobe_post_handler_t post_handler; /* or NULL */
	/* KPROBE_FLAG_*; changed by enable_kprobe() and disable_kprobe() later */
	u32 flags;
	unsigned long nmissed;		    /* hits for which no handler was called; atomic */
	struct probe_point *point;	    /* NULL: not registered */
	/* at the same instruction, in the order of registration */
	struct kprobe *next;
};

/*
 * Start calling the handlers. When it returns 0, every CPU does. Context: thread.
 * Several probes may be at one instruction. Each refusal leaves nothing behind:
 * -EEXIST	@p is registered
 * -ENOENT	no traced function has that name
 * -EINVAL	addr is no instruction of a function that may be probed; or no handler
 * -EOPNOTSUPP	the instruction cannot be executed elsewhere (printed: why)
 * -EBUSY	another probe or op that may change pc is there
 * -ENOSPC	no slot is free; or no stub for the op
 * -ETIMEDOUT	arm64, in a body: a CPU could not be stopped (trap/stop.h)
 * -ENOMEM, -ENODEV (tracing was disabled by a bad site)
 */
int register_kprobe(struct kprobe *p);
/*
 * When it returns, no CPU is in a handler of @p, and @p may be freed. Does nothing if @p is not
 * registered. Context: thread. arm64: if a CPU cannot be stopped, the breakpoint stays. A hit of it
 * calls nothing, but kprobe_within() finds it, so its module cannot be removed. To remove it,
 * register a probe there again, and unregister that one.
 */
void unregister_kprobe(struct kprobe *p);
/*
 * When disable_kprobe() returns, no CPU is in a handler, whatever it returns. When enable_kprobe()
 * returns an error, @p is disabled. -ENOENT: not registered; or as register_kprobe(). Context:
 * thread.
 */
int disable_kprobe(struct kprobe *p);
int enable_kprobe(struct kprobe *p);

/*
 * Is @addr at the entry of a function that may be probed? A handler there has no trap frame.
 * Context: thread, without ftrace_lock.
 */
bool kprobe_at_entry(unsigned long addr);
/*
 * Is a probe registered at an instruction in [start, end)? @itself: or are a registered struct
 * kprobe or its handlers there? Context: thread, without ftrace_lock.
 */
bool kprobe_within(unsigned long start, unsigned long end, bool itself);

/* ---- For handlers ---- */

/* Argument @n, 0 to 7. */
static inline unsigned long *kprobe_arg(const struct kprobe_regs *regs, unsigned n)
{
	return regs->entry ? &regs->entry->arg[n] : &regs->trap->x[PROBE_ARG0 + n];
}
/*
 * Where the register with the architecture's number @n is (arm64: 31 is sp); NULL: not there, at an
 * entry.
 */
static inline unsigned long *kprobe_reg(const struct kprobe_regs *regs, unsigned n)
{
	return regs->entry ? ftrace_regs_reg(regs->entry, n) : trap_frame_reg(regs->trap, n);
}
/* Were interrupts masked in the probed code? */
static inline bool kprobe_irqs_off(const struct kprobe_regs *regs)
{
	return irqs_off(regs->flags);
}
/*
 * Set where the probed code continues. The pre_handler then returns true, and its probe has
 * KPROBE_FLAG_IPMODIFY. At an entry pc is at first that of the instruction after the call site.
 */
static inline void kprobe_set_pc(const struct kprobe_regs *regs, unsigned long pc)
{
	*(regs->entry ? &regs->entry->pc : &regs->trap->pc) = pc;
}

/* ---- kprobe_text.c, for kprobes.c and kprobe_hit.c ---- */

#define KPROBE_SLOTS 256
/* Two instructions each: the copy, and a jump back or a breakpoint. */
extern const u32 kprobe_slots[KPROBE_SLOTS][2];

/*
 * Replace instructions on all CPUs. -EINVAL: one of them is not the expected one;
 * -ETIMEDOUT: arm64, a CPU could not be stopped. After an error none is replaced.
 * Context: thread, ftrace_lock held.
 */
struct text_word;
int kprobe_write(const struct text_word *words, unsigned count);
/*
 * Find the function of @addr, and whether it may be probed: 0, with the number of
 * bytes from its start in *@offset and its call site in *@site; or -EINVAL.
 */
int kprobe_function(unsigned long addr, unsigned long *offset, unsigned long *site);
/* The address of the traced function @name; 0: there is none. */
unsigned long kprobe_lookup_name(const char *name);
/*
 * How the instruction at @addr, @offset bytes into its function, can be executed elsewhere; prints
 * why it cannot.
 */
enum probe_how kprobe_classify_at(unsigned long addr, unsigned long offset);

#endif
