/*
 * riscv64: the types, constants and inlines that kern/arch.h asks for.
 *
 * tp holds the running CPU's struct cpu, whose first word is `current`. So
 * `current` is one load, and a migration before or after it does not make it wrong.
 */
#ifndef ASM_ARCH_H
#define ASM_ARCH_H

#define ARCH_NAME "riscv64"

/* The privileged specification's names, volume II, "Supervisor-Level CSRs". */
#define SSTATUS_SIE (1 << 1)
#define SSTATUS_SPIE (1 << 5)
#define SSTATUS_FS_VS (3 << 13 | 3 << 9)
#define SIE_SOFTWARE (1 << 1)
#define SIE_TIMER (1 << 5)
#define SIE_EXTERNAL (1 << 9)
#define SATP_MODE_SHIFT 60
#define SATP_SV39 8

#define PTE_V (1 << 0)
#define PTE_R (1 << 1)
#define PTE_W (1 << 2)
#define PTE_X (1 << 3)
#define PTE_G (1 << 5)
#define PTE_A (1 << 6)
#define PTE_D (1 << 7)

/* SBI extension ids: each is the extension's name in ASCII. */
#define SBI_TIME 0x54494d45
#define SBI_IPI 0x735049
#define SBI_RFENCE 0x52464e43
#define SBI_HSM 0x48534d
#define SBI_RESET 0x53525354

#ifndef __ASSEMBLER__
#include "types.h"

#define SCAUSE_INTERRUPT (1ul << 63)

#define csr_read(csr)                                                                         \
	({                                                                                    \
		unsigned long v_;                                                             \
		__asm__ volatile("csrr %0, " #csr : "=r"(v_) : : "memory");                   \
		v_;                                                                           \
	})
#define csr_write(csr, v) __asm__ volatile("csrw " #csr ", %0" : : "rK"(v) : "memory")
#define csr_set(csr, v) __asm__ volatile("csrs " #csr ", %0" : : "rK"(v) : "memory")
#define csr_clear(csr, v) __asm__ volatile("csrc " #csr ", %0" : : "rK"(v) : "memory")

static __always_inline unsigned long irq_save(void)
{
	unsigned long flags;

	__asm__ volatile("csrrci %0, sstatus, 2" : "=r"(flags) : : "memory");
	return flags;
}
static __always_inline void irq_restore(unsigned long flags)
{
	csr_set(sstatus, flags & SSTATUS_SIE);
}
static __always_inline void irq_enable(void)
{
	csr_set(sstatus, 2);
}
static __always_inline void irq_disable(void)
{
	csr_clear(sstatus, 2);
}
static __always_inline bool irqs_off(unsigned long flags)
{
	return !(flags & SSTATUS_SIE);
}
static __always_inline bool irqs_disabled(void)
{
	return irqs_off(csr_read(sstatus));
}

register struct cpu *this_cpu_in_tp __asm__("tp");

static __always_inline struct cpu *this_cpu(void)
{
	return this_cpu_in_tp;
}
/* Not volatile: the compiler may reuse the value, which is always the same in one thread. */
static __always_inline struct thread *get_current(void)
{
	struct thread *t;

	__asm__("ld %0, 0(tp)" : "=r"(t));
	return t;
}

/* Nothing for the processor: arch_sync_all() synchronises all words of a batch. */
static __always_inline void arch_sync_line(unsigned long text_va, unsigned long alias_va)
{
	u32 word;

	__asm__ volatile("lw %0, (%1)\n\t"
			 "sw %0, (%1)"
			 : "=&r"(word) : "r"(alias_va) : "memory");
}

static __always_inline u64 arch_counter(void)
{
	u64 ticks;

	__asm__ volatile("rdtime %0" : "=r"(ticks));
	return ticks;
}
static __always_inline void cpu_relax(void)
{
	barrier();
}
static __always_inline void cpu_idle_wait(void)
{
	__asm__ volatile("wfi" : : : "memory");
}

#define fence_(from, to) __asm__ volatile("fence " #from ", " #to : : : "memory")
#define smp_mb() fence_(rw, rw)
#define smp_rmb() fence_(r, r)
#define smp_wmb() fence_(w, w)
#define io_mb() fence_(iorw, iorw)

/* Device registers: accesses are ordered among themselves and with accesses to memory. */
#define MMIO(bits)                                                                                 \
	static __always_inline u##bits read##bits(const volatile void *addr)                       \
	{                                                                                          \
		u##bits v = *(const volatile u##bits *)addr;                                       \
                                                                                                   \
		fence_(i, ir);                                                                     \
		return v;                                                                          \
	}                                                                                          \
	static __always_inline void write##bits(u##bits v, volatile void *addr)                    \
	{                                                                                          \
		fence_(ow, o);                                                                     \
		*(volatile u##bits *)addr = v;                                                     \
	}
MMIO(8) MMIO(32)
#undef MMIO

/* Sv39. The physical address determines the memory type, not the entry. */
typedef u64 pte_t;
static __always_inline pte_t pte_table(unsigned long pa)
{
	return pa >> 12 << 10 | PTE_V;
}
/* PROT_READ 1, _WRITE 2, _EXEC 4 have the order of the bits R, W and X. */
static __always_inline pte_t pte_leaf(unsigned long pa, unsigned prot, int level)
{
	return pa >> 12 << 10 | PTE_V | PTE_A | PTE_D | PTE_G | (prot & 7) << 1;
}
static __always_inline bool pte_valid(pte_t pte)
{
	return pte & PTE_V;
}
static __always_inline bool pte_is_leaf(pte_t pte, int level)
{
	return pte & (PTE_R | PTE_W | PTE_X);
}
static __always_inline unsigned pte_prot(pte_t pte)
{
	return pte >> 1 & 7;
}
static __always_inline unsigned long pte_pa(pte_t pte)
{
	return (pte << 10 >> 20) << 12;
}
void arch_tlb_flush(void);
void arch_tlb_flush_all(void);

/* The callee-saved registers. */
struct context {
	unsigned long pc, sp, fp, s[11]; /* fp is s0; s1 to s11 */
};

/* fp - FRAME_RECORD is the frame's record, fp - TRAP_RECORD the trap frame. */
#define FRAME_RECORD 16
#define TRAP_RECORD sizeof(struct trap_frame)
enum { REG_LINK = 1, REG_SP = 2, REG_FP = 8 };

/*
 * An interrupted context. The last two words are a frame record, so that a
 * walk along the frame pointers continues through it: s0 points to its end.
 */
struct trap_frame {
	unsigned long pc;
	unsigned long x[32]; /* x[0] is not a register: unused */
	unsigned long status, cause, tval;
	unsigned long record_fp, record_pc;
};
static __always_inline unsigned long regs_fault_address(const struct trap_frame *regs)
{
	return regs->tval;
}
static __always_inline bool regs_irqs_on(const struct trap_frame *regs)
{
	return regs->status & SSTATUS_SPIE;
}
static __always_inline void regs_complete(struct trap_frame *regs)
{
}

/* Shared by this architecture's files only. */
struct sbi_result {
	long error;
	unsigned long value;
};
struct sbi_result sbi_call(unsigned long ext, unsigned long fid, unsigned long a0,
			   unsigned long a1, unsigned long a2, unsigned long a3);
/* The same for all harts of @mask (bits: cpu->index), in as few calls as their ids allow. */
long sbi_call_harts(unsigned long ext, unsigned long fid, unsigned long mask);
/*
 * Make earlier stores visible, then let the other harts discard instructions or translations
 * (RFENCE's @fid).
 */
void sbi_fence_others(unsigned long fid);

void handle_external(void); /* irqchip.c: claim and handle all pending interrupts */
/*
 * irqchip.c: the place of hart @hwid's external interrupt for S-mode in @node's
 * interrupts-extended, or -ENOENT.
 */
int plic_context(const void *fdt, int node, u64 hwid);
/*
 * aia.c: irqchip.c calls these where there is no PLIC. *hart_list: the node, the APLIC's or the
 * IMSICs', whose interrupts-extended lists the harts. @index: the hart's place there.
 */
int aia_init(const void *fdt, int *hart_list);
void aia_init_cpu(int index);
/* as irqchip_map(): fdt_interrupt() has found these */
int aia_map(int controller, const u32 cell[3], unsigned *irq);
void aia_enable(unsigned irq, int index);
void aia_handle(int index);
#endif

#endif
