/*
 * riscv64: instructions under a probe; the contract is in probes/probe_insn.h.
 * The kernel has no compressed instructions: each is one aligned word.
 */
#ifndef FTRACE_PROBE_H
#define FTRACE_PROBE_H

#include "insn.h"
#include "probe_insn.h"

#define PROBE_STOPS_CPUS 0 /* one aligned store: old or new (Ziccif) */
#define PROBE_ARG0	 10 /* a0 is x10 */

#define AMO_KIND(insn) ((insn) >> 27)
enum { AMO_LR = 2, AMO_SC = 3 };

/*
 * Access to sstatus, sie, sip and the counters. A breakpoint overwrites sepc, scause, stval and (in
 * entry.S) sscratch.
 */
static inline enum probe_how probe_classify_csr(u32 insn)
{
	u32 csr = insn >> 20;

	if (!(INSN_FUNCT3(insn) & 3))
		return PROBE_REFUSED_SYSTEM; /* ecall, ebreak, sret, wfi, sfence.vma */
	if (csr == 0x100 || csr == 0x104 || csr == 0x144 || csr - 0xc00 < 3)
		return PROBE_SLOT;
	return PROBE_REFUSED_SYSTEM;
}

static inline enum probe_how probe_classify_amo(u32 insn)
{
	if (INSN_FUNCT3(insn) != 2 && INSN_FUNCT3(insn) != 3)
		return PROBE_REFUSED_UNKNOWN;
	return AMO_KIND(insn) == AMO_LR || AMO_KIND(insn) == AMO_SC ? PROBE_REFUSED_EXCLUSIVE
								    : PROBE_SLOT;
}

/*
 * The return from an exception restores neither sp nor tp from the frame: an emulated instruction
 * may not set them.
 */
static inline enum probe_how probe_classify_emulated(u32 insn)
{
	return INSN_RD(insn) == 2 || INSN_RD(insn) == 4 ? PROBE_REFUSED_SYSTEM : PROBE_EMULATED;
}

static inline enum probe_how probe_classify(u32 insn)
{
	u32 f = INSN_FUNCT3(insn);

	switch (INSN_OPCODE(insn)) {
	case OP_IMM:
	case OP_IMM_32:
	case OP_OP:
	case OP_OP_32:
	case OP_LUI:
		return PROBE_SLOT;
	case OP_LOAD:
		return f < 7 ? PROBE_SLOT : PROBE_REFUSED_UNKNOWN;
	case OP_STORE:
		return f < 4 ? PROBE_SLOT : PROBE_REFUSED_UNKNOWN;
	case OP_FENCE:
		return f == 0 ? PROBE_SLOT : f == 1 ? PROBE_REFUSED_SYSTEM : PROBE_REFUSED_UNKNOWN;
	case OP_AMO:
		return probe_classify_amo(insn);
	case OP_SYSTEM:
		return probe_classify_csr(insn);
	case OP_AUIPC:
	case OP_JAL:
		return probe_classify_emulated(insn);
	case OP_JALR:
		return f == 0 ? probe_classify_emulated(insn) : PROBE_REFUSED_UNKNOWN;
	case OP_BRANCH:
		return f != 2 && f != 3 ? PROBE_EMULATED : PROBE_REFUSED_UNKNOWN;
	}
	return PROBE_REFUSED_UNKNOWN;
}

static inline int probe_exclusive(u32 insn)
{
	if (INSN_OPCODE(insn) != OP_AMO)
		return 0;
	return AMO_KIND(insn) == AMO_LR ? 1 : AMO_KIND(insn) == AMO_SC ? -1 : 0;
}

/* blt is 4, bltu 6; the lowest bit inverts. */
static inline bool probe_branches(u32 insn, unsigned long a, unsigned long b)
{
	u32 f = INSN_FUNCT3(insn);
	bool holds = f < 2 ? a == b : f < 6 ? (long)a < (long)b : a < b;

	return holds != (f & 1);
}

static inline unsigned long probe_emulate(u32 insn, unsigned long pc, unsigned long *x,
					  unsigned long flags)
{
	unsigned rs1 = INSN_RS1(insn), rs2 = INSN_RS2(insn);
	unsigned long a = rs1 ? x[rs1] : 0, b = rs2 ? x[rs2] : 0;
	unsigned long after = pc + 4, next = after, value = after;

	switch (INSN_OPCODE(insn)) {
	case OP_AUIPC:
		value = pc + (long)(s32)(insn & ~0xfffu);
		break;
	case OP_JAL:
		next = pc + insn_jal_offset(insn);
		break;
	case OP_JALR:
		next = (a + INSN_IMM_I(insn)) & ~1ul;
		break;
	default: /* a branch has no destination register */
		return probe_branches(insn, a, b) ? pc + insn_branch_offset(insn) : next;
	}
	if (INSN_RD(insn))
		x[INSN_RD(insn)] = value;
	return next;
}

/* `j`: jal without a link. */
static inline bool probe_jump(unsigned long from, unsigned long to, u32 *insn)
{
	unsigned long off = to - from;

	*insn = off >> 63 << 31 | (off & 0x7fe) << 20 | (off & 0x800) << 9 | (off & 0xff000) |
		INSN_JAL;
	return off + INSN_REACH < 2 * INSN_REACH;
}

/* Of a struct trap_frame; SPIE, bit 5, was SIE, bit 1. */
#define probe_is_break(trap) ((trap)->cause == 3)
#define probe_irq_flags(trap) ((trap)->status >> 4)
#define probe_flags(trap)    ((trap)->status)

#undef AMO_KIND
#endif
