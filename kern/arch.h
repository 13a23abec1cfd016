/*
 * The arch.h contract: everything that generic code needs from the machine.
 *
 * Each architecture implements it in kern/arch/<arch>/arch.h (types, constants
 * and inlines) and in the files beside it, which have the same names and the
 * same functions in both: entry.S, switch.S, trap.c, tlb.c, irqchip.c, timer.c,
 * firmware.c, unwind.c. Generic code never names an architecture.
 *
 * <arch>/arch.h must supply, besides the functions declared below:
 *
 *   Interrupt masking on this CPU, always inline, no call site:
 *     unsigned long irq_save(void); void irq_restore(unsigned long flags);
 *     void irq_enable(void); void irq_disable(void);
 *     bool irqs_off(unsigned long flags);	flags as irq_save() returned them
 *     bool irqs_disabled(void);
 *
 *   The running CPU and thread:
 *     struct cpu *this_cpu(void);	stable only with preemption off
 *     struct thread *get_current(void);	safe at any time: one instruction
 *   riscv64: tp = struct cpu, its first word is `current`.
 *   arm64: tpidr_el1 = struct cpu, sp_el0 = current thread.
 *
 *   Time and waiting:
 *     u64 arch_counter(void);		rdtime / cntvct_el0, no barrier
 *     void cpu_relax(void);		in spin loops (arm64: yield)
 *     void cpu_idle_wait(void);	wfi, interrupts masked; returns when one is pending. No
 *					barrier: while one stays pending, a loop around it is
 *					busy, and an observer logs each barrier executed
 *
 *   Memory barriers between CPUs: smp_mb() smp_rmb() smp_wmb(); for devices:
 *   io_mb(). MMIO: read8/32(addr), write8/32(value, addr).
 *
 *   Page tables, both 4 KiB pages, three levels of 512 entries, 39 bits:
 *     typedef u64 pte_t;
 *     pte_t pte_table(unsigned long pa);		points to the next level
 *     pte_t pte_leaf(unsigned long pa, unsigned prot, int level);
 *			prot: PROT_* of memory.h; level 2 = 1 GiB, 1 = 2 MiB, 0 = 4 KiB;
 *			accessed and dirty bits always preset
 *     bool pte_valid(pte_t); bool pte_is_leaf(pte_t, int level);
 *     unsigned long pte_pa(pte_t);
 *     void arch_tlb_flush(void);		all of this CPU's entries
 *     void arch_tlb_flush_all(void);		of every online CPU; waits
 *
 *   struct context: callee-saved registers, fp, sp and pc of a thread that is
 *   not running, saved by __switch_to().
 *   struct trap_frame: every general register and the exception state, on the
 *   interrupted stack: pc, and x[] by the registers' numbers, of which REG_LINK,
 *   REG_SP and REG_FP have names. regs_fault_address(frame);
 *   regs_irqs_on(frame): were interrupts on?
 *   regs_complete(frame): save there what entry.S did not, before another exception can be taken.
 *
 *   ARCH_NAME "riscv64" | "arm64".
 */
#ifndef KERN_ARCH_H
#define KERN_ARCH_H

#include "types.h"

struct cpu;
struct thread;
struct trap_frame;
struct fdt;

#include "asm/arch.h" /* build/<arch>/include/asm -> kern/arch/<arch> */

#define current get_current()

/*
 * Save prev's context, take next's, make next `current`, run on its stack.
 * Called with interrupts masked.
 * Return, on next's stack: the thread that ran before on this CPU.
 */
struct thread *__switch_to(struct thread *prev, struct thread *next);

/* head.S: the first instruction of a secondary CPU. */
extern char secondary_start[];
/* entry.S: trap entry and return. */
extern char exception_vector[], exception_vector_end[];
/* switch.S: a new thread's first instruction (interrupts masked; calls thread_start(prev)). */
extern char thread_start_asm[];
/* sched.c: finishes the switch, runs current->fn */
void __noreturn thread_start(struct thread *prev);

/*
 * head.S jumps to kernel_main() on the boot CPU: interrupts masked, this_cpu()
 * = &cpus[0], current = &boot_thread, stack = boot_stack. head.S has stored:
 */
void __noreturn kernel_main(void);
extern unsigned long boot_hwid;     /* this CPU's hardware id */
extern unsigned long boot_fdt_pa;   /* the device tree's address, from firmware */
extern unsigned long kernel_pgd_pa; /* root page table: _early_tables; secondary CPUs use it too */
extern char boot_stack[];           /* THREAD_SIZE, aligned to it */

void arch_show_regs(const struct trap_frame *regs);

/*
 * fault.c; entry.S calls these with interrupts masked: for an interrupt, for an
 * exception, for an exception without enough stack. The architecture's trap.c has
 * the rest: dispatch_interrupt() calls the source's handler; panic_exception()
 * describes the exception.
 */
void trap_interrupt(struct trap_frame *regs);
void trap_exception(struct trap_frame *regs);
void trap_overflow(struct trap_frame *regs);
void dispatch_interrupt(struct trap_frame *regs);
void __noreturn panic_exception(struct trap_frame *regs);
/*
 * For tests: called for an exception that is neither a breakpoint's nor a FIXUP's. Returns true
 * if it has handled the exception (and changed @regs); false if its test is not running. No call
 * site; any context.
 */
struct exception_hook {
	bool (*fn)(struct trap_frame *regs, unsigned long address);
};
#define EXCEPTION_HOOK(f) TABLE_ENTRY(const struct exception_hook, exception_hook, f##_hook) = {f}

/* An instruction at @pc that may fault: the exception goes on at @to. */
struct fixup {
	unsigned long pc, to;
};
#define FIXUP(function, target)                                                               \
	TABLE_ENTRY(const struct fixup, fixup, fixup_##function) =                           \
		{(unsigned long)function, (unsigned long)target}

/* Called on every CPU when it starts: vectors, interrupt enables, counters. */
void arch_init_cpu(void);

/* Find which firmware calls exist, and how they are made (SBI; PSCI by hvc or smc). */
void firmware_init(const void *fdt);
/* Start @cpu at the physical address @entry, which is head.S's secondary_start; 0 or -errno. */
int firmware_cpu_start(struct cpu *cpu, unsigned long entry);
/*
 * The firmware's console, for a machine whose UART is not known. getchar: a byte, or -1. (SBI; PSCI
 * has none.)
 */
bool firmware_has_console(void);
void firmware_putchar(u8 c);
int firmware_getchar(void);
/*
 * Turn the machine off, or reset it after a @failure: under -no-reboot QEMU then
 * ends, and qemu/run.py gives status 1. (OpenSBI 1.1 ends a shutdown with reason
 * "system failure" with status 0.) Does not return.
 */
void __noreturn firmware_poweroff(bool failure);

/* The interrupt controller (PLIC or APLIC; GICv2, GICv3 or the BCM2836's), from the device tree. */
int irqchip_init(const void *fdt);
void irqchip_init_cpu(void);
/* The number, for irqchip_enable(), of @node's first interrupt specifier. Return: 0 or -errno. */
int irqchip_map(const void *fdt, int node, unsigned *irq);
void irqchip_enable(unsigned irq);
/*
 * Raise the one IPI on every CPU of @mask (bits: cpu->index); irq.c knows its reasons.
 * Return: 0, or -EIO if the firmware refuses.
 */
int irqchip_send_ipi(unsigned long mask);

/* The per-CPU timer: frequency in Hz; fire at @deadline in counter ticks. */
u64 timer_frequency(const void *fdt);
void timer_init_cpu(void);
#define TIMER_NEVER (~0ul) /* no deadline */
void timer_set(u64 deadline);

/*
 * Instruction fetch after text was written through the text alias.
 *
 * arch_sync_line(text_va, alias_va): call it after each written word. In <arch>/arch.h,
 * always inline. (1) Load the word through its alias and store it again; (2) arm64: dc cvau,
 * dsb, ic ivau of the line's text address.
 * The second store is for QEMU with a thread for each CPU. A real processor needs one store.
 * QEMU first discards its translation of the old word, then stores the new one. Between the
 * two another CPU may translate the old word again, and it executes that until the next
 * store. Of the changes of a call site that a thread called in a tight loop (kt_fresh) 1 in
 * 100 was lost on riscv64 and 1 in 500 on arm64, and none of 19,000 with the second store.
 * arch_sync_all(): at the end of a batch. When it returns, every online CPU
 * executes the new words. Context: thread, interrupts on.
 */
void arch_sync_all(void);

#endif
