/*
 * arm64: the types, constants and inlines that kern/arch.h asks for.
 *
 * tpidr_el1 holds the running CPU's struct cpu and sp_el0 the running thread:
 * the kernel runs on sp_el1 and has no EL0, so sp_el0 is free. `current` is one
 * instruction, so a migration before or after it does not make it wrong.
 */
#ifndef ASM_ARCH_H
#define ASM_ARCH_H

#define ARCH_NAME "arm64"

/* Arm Architecture Reference Manual, chapter D8: descriptors of the 4 KiB granule. */
#define PTE_BLOCK 0x1
#define PTE_TABLE 0x3
#define PTE_PAGE 0x3
#define PTE_DEVICE (1 << 2) /* MAIR's attribute 1 */
#define PTE_RDONLY (1 << 7)
#define PTE_INNER (3 << 8)
#define PTE_AF (1 << 10)
#define PTE_PXN 0x20000000000000
#define PTE_UXN 0x40000000000000
/* Memory attributes: 0 normal, write-back; 1 device, nGnRE. */
#define MAIR 0x04ff
/* Both halves 39 bits, 4 KiB pages, walks cacheable and inner shareable. */
#define TCR (25 | 1 << 8 | 1 << 10 | 3 << 12 | 25 << 16 | 1 << 24 | 1 << 26 | 3 << 28 | 2 << 30)
#define TCR_EPD0 (1 << 7)
#define TCR_IPS_SHIFT 32
#define SCTLR_RES1 0x30d00800
/* M, C, SA, I; WXN: a writable page is never executable, whatever its entry says. */
#define SCTLR (SCTLR_RES1 | 1 << 0 | 1 << 2 | 1 << 3 | 1 << 12 | 1 << 19)
#define HCR_RW 0x80000000
#define CPTR_RES1 0x33ff
#define PSTATE_I (1 << 7)
#define PSTATE_EL1H_MASKED 0x3c5
#define ICC_SRE_SRE 1
#define ICC_SRE_ENABLE 8
#define MPIDR_AFFINITY_LOW 0xffffff
#define MPIDR_AFFINITY_HIGH 0xff00000000

#ifdef __ASSEMBLER__
	/* stp or ldp of registers, two by two: xN at [@base, #@x0 + 8 * N]. */
	.macro	pairs insn, base, x0, a, b, more:vararg
	\insn	x\a, x\b, [\base, #\x0 + 8 * \a]
	.ifnb	\more
	pairs	\insn, \base, \x0, \more
	.endif
	.endm
#else
#include "types.h"

/* @reg: a register's name, or a macro that expands to its number. */
#define sysreg_read(reg) sysreg_read_(reg)
#define sysreg_write(reg, v) sysreg_write_(reg, v)
#define sysreg_read_(reg)                                                                      \
	({                                                                                    \
		unsigned long v_;                                                             \
		__asm__ volatile("mrs %0, " #reg : "=r"(v_) : : "memory");                    \
		v_;                                                                           \
	})
#define sysreg_write_(reg, v)                                                                 \
	__asm__ volatile("msr " #reg ", %x0" : : "rZ"((unsigned long)(v)) : "memory")
#define isb() __asm__ volatile("isb" : : : "memory")
#define dsb(domain) __asm__ volatile("dsb " #domain : : : "memory")

static __always_inline void irq_enable(void)
{
	__asm__ volatile("msr daifclr, #2" : : : "memory");
}
static __always_inline void irq_disable(void)
{
	__asm__ volatile("msr daifset, #2" : : : "memory");
}
static __always_inline unsigned long irq_save(void)
{
	unsigned long flags = sysreg_read(daif);

	irq_disable();
	return flags;
}
static __always_inline void irq_restore(unsigned long flags)
{
	sysreg_write(daif, flags);
}
static __always_inline bool irqs_off(unsigned long flags)
{
	return flags & PSTATE_I;
}
static __always_inline bool irqs_disabled(void)
{
	return irqs_off(sysreg_read(daif));
}

/*
 * The new word was stored through the alias: clean its line from the data cache,
 * then invalidate it in every CPU's instruction cache.
 */
static __always_inline void arch_sync_line(unsigned long text_va, unsigned long alias_va)
{
	u32 word;

	__asm__ volatile("ldr %w0, [%2]\n\t"
			 "str %w0, [%2]\n\t"
			 "dc cvau, %2\n\t"
			 "dsb ish\n\t"
			 "ic ivau, %1"
			 : "=&r"(word) : "r"(text_va), "r"(alias_va) : "memory");
}

static __always_inline struct cpu *this_cpu(void)
{
	return (struct cpu *)sysreg_read(tpidr_el1);
}
/* Not volatile: the compiler may reuse the value, which is always the same in one thread. */
static __always_inline struct thread *get_current(void)
{
	struct thread *t;

	__asm__("mrs %0, sp_el0" : "=r"(t));
	return t;
}

/* MIDR_EL1: the implementer is Arm, the part 0xd03. */
static __always_inline bool cpu_is_cortex_a53(void)
{
	return (sysreg_read(midr_el1) & 0xff00fff0) == 0x4100d030;
}

static __always_inline u64 arch_counter(void)
{
	u64 ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}
static __always_inline void cpu_relax(void)
{
	__asm__ volatile("yield" : : : "memory");
}
static __always_inline void cpu_idle_wait(void)
{
	__asm__ volatile("wfi" : : : "memory");
}

#define dmb_(domain) __asm__ volatile("dmb " #domain : : : "memory")
#define smp_mb() dmb_(ish)
#define smp_rmb() dmb_(ishld)
#define smp_wmb() dmb_(ishst)
#define io_mb() dsb(sy)

/*
 * Device registers: accesses are ordered among themselves by the memory type, with
 * accesses to normal memory by the barriers. Each is one plain load or store, which
 * hypervisors can emulate.
 */
#define MMIO(bits, suffix, reg)                                                                    \
	static __always_inline u##bits read##bits(const volatile void *addr)                       \
	{                                                                                          \
		u##bits v;                                                                         \
                                                                                                   \
		__asm__ volatile("ldr" suffix " %" reg "0, [%1]"                                   \
				 : "=r"(v)                                                         \
				 : "r"(addr)                                                       \
				 : "memory");                                                      \
		dmb_(oshld);                                                                       \
		return v;                                                                          \
	}                                                                                          \
	static __always_inline void write##bits(u##bits v, volatile void *addr)                    \
	{                                                                                          \
		dmb_(oshst);                                                                       \
		__asm__ volatile("str" suffix " %" reg "0, [%1]"                                   \
				 :                                                                 \
				 : "rZ"(v), "r"(addr)                                              \
				 : "memory");                                                      \
	}
MMIO(8, "b", "w") MMIO(32, "", "w") MMIO(64, "", "x")
#undef MMIO

typedef u64 pte_t;
static __always_inline pte_t pte_table(unsigned long pa)
{
	return pa | PTE_TABLE;
}
static __always_inline pte_t pte_leaf(unsigned long pa, unsigned prot, int level)
{
	pte_t pte = pa | (level ? PTE_BLOCK : PTE_PAGE) | PTE_AF | PTE_INNER | PTE_UXN;

	if (!(prot & 2)) /* PROT_WRITE */
		pte |= PTE_RDONLY;
	if (!(prot & 4)) /* PROT_EXEC */
		pte |= PTE_PXN;
	return prot & 8 ? pte | PTE_DEVICE : pte; /* PROT_DEVICE */
}
static __always_inline bool pte_valid(pte_t pte)
{
	return pte & 1;
}
static __always_inline bool pte_is_leaf(pte_t pte, int level)
{
	return !level || !(pte & 2);
}
static __always_inline unsigned pte_prot(pte_t pte)
{
	return 1 | (pte & PTE_RDONLY ? 0 : 2) | (pte & PTE_PXN ? 0 : 4);
}
static __always_inline unsigned long pte_pa(pte_t pte)
{
	return pte << 16 >> 28 << 12;
}
void arch_tlb_flush(void);
void arch_tlb_flush_all(void);

/* The callee-saved registers. */
struct context {
	unsigned long x[10]; /* x19 to x28 */
	unsigned long fp, pc, sp;
};

/* fp - FRAME_RECORD is the frame's record, fp - TRAP_RECORD the trap frame. */
#define FRAME_RECORD 0
#define TRAP_RECORD offsetof(struct trap_frame, record_fp)
enum { REG_FP = 29, REG_LINK = 30, REG_SP = 31 };

/*
 * An interrupted context. The last two words are a frame record, so that a
 * walk along the frame pointers continues through it: x29 points at the record.
 */
struct trap_frame {
	unsigned long x[32]; /* x[31] is sp, as it is in most instructions */
	unsigned long pc, pstate;
	unsigned long esr, far; /* set by an exception, not by an interrupt */
	unsigned long record_fp, record_pc;
};
static __always_inline unsigned long regs_fault_address(const struct trap_frame *regs)
{
	return regs->far;
}
static __always_inline bool regs_irqs_on(const struct trap_frame *regs)
{
	return !irqs_off(regs->pstate);
}
static __always_inline void regs_complete(struct trap_frame *regs)
{
	regs->esr = sysreg_read(esr_el1);
	regs->far = sysreg_read(far_el1);
}

/* Shared by this architecture's files only. */
/* A PSCI call. Return: its result; -EOPNOTSUPP: there is no PSCI. */
long psci_call(unsigned long function, unsigned long arg1, unsigned long arg2, unsigned long arg3);
void handle_external(void); /* irqchip.c: acknowledge and handle all pending interrupts */
extern unsigned timer_irq;  /* timer.c */
/* bcm2836.c: irqchip.c calls these where there is no GIC. */
int bcm2836_init(const void *fdt);
void bcm2836_init_cpu(void);
/* as irqchip_map(): fdt_interrupt() has found these */
int bcm2836_map(int controller, const u32 cell[3], unsigned *irq);
void bcm2836_enable(unsigned irq);
void bcm2836_handle(void);
void bcm2836_send_ipi(unsigned long mask);
void trap_unexpected(struct trap_frame *regs, unsigned vector);
#endif

#endif
