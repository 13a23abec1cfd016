/*
 * arm64: instructions under a probe; the contract is in probes/probe_insn.h. The
 * classes are those of the Arm ARM, C4.1.
 */
#ifndef FTRACE_PROBE_H
#define FTRACE_PROBE_H

#include "insn.h"
#include "probe_insn.h"

/* Arm ARM, B2.2.5: most instructions may not be exchanged while another CPU may execute them */
#define PROBE_STOPS_CPUS 1
#define PROBE_ARG0	 0

#define IS(mask, value) ((insn & (mask)) == (value))
/* The signed field of @insn that starts at bit @low and is @bits wide. */
#define FIELD(low, bits) ((long)((u64)insn << (64 - (low) - (bits))) >> (64 - (bits)))

#define IS_ADR	     IS(0x1f000000, 0x10000000) /* adrp too */
#define IS_B	     IS(0x7c000000, 0x14000000) /* bl too */
#define IS_CBZ	     IS(0x7e000000, 0x34000000) /* cbnz too */
#define IS_TBZ	     IS(0x7e000000, 0x36000000)
#define IS_B_COND    IS(0xff000010, 0x54000000)
#define IS_BR	     (IS(0xffdffc1f, 0xd61f0000) || IS(0xfffffc1f, 0xd65f0000)) /* br, blr; ret */
#define IS_LITERAL   IS(0x3f000000, 0x18000000)
#define IS_EXCLUSIVE IS(0x3f800000, 0x08000000) /* casp is encoded among them */
#define IS_CLREX     IS(0xfffff0ff, 0xd503305f)

/*
 * The registers of mrs and msr, bits 19:5. An exception overwrites elr, spsr, esr, far and (in
 * entry.S) tpidr_el0.
 */
#define SYSREG(insn) ((insn) & 0xfffe0)
#define SYSREG_(op0, op1, n, m, op2) \
	(((op0) - 2) << 19 | (op1) << 16 | (n) << 12 | (m) << 8 | (op2) << 5)

static inline enum probe_how probe_classify_system(u32 insn)
{
	u32 reg = SYSREG(insn);

	if (insn == INSN_NOP || insn == 0xd503203f) /* nop, yield */
		return PROBE_SLOT;
	/* dmb, dsb, isb */
	if (IS(0xfffff0ff, 0xd50330bf) || IS(0xfffff0ff, 0xd503309f) || IS(0xfffff0ff, 0xd50330df))
		return PROBE_SLOT;
	if (IS_CLREX)
		return PROBE_REFUSED_EXCLUSIVE;
	if (IS(0xfffff0df, 0xd50340df)) /* msr daifset or daifclr */
		return PROBE_SLOT;
	if (IS(0xfff00000, 0xd5100000)) /* msr */
		/* daif, nzcv */
		return reg == SYSREG_(3, 3, 4, 2, 1) || reg == SYSREG_(3, 3, 4, 2, 0)
			       ? PROBE_SLOT
			       : PROBE_REFUSED_SYSTEM;
	if (!IS(0xfff00000, 0xd5300000)) /* mrs */
		return PROBE_REFUSED_SYSTEM;
	if (reg == SYSREG_(3, 0, 4, 0, 0) || reg == SYSREG_(3, 0, 4, 0, 1) ||
	    reg == SYSREG_(3, 0, 5, 2, 0) || reg == SYSREG_(3, 0, 6, 0, 0) ||
	    reg == SYSREG_(3, 3, 13, 0, 2))
		return PROBE_REFUSED_SYSTEM;
	return PROBE_SLOT;
}

static inline enum probe_how probe_classify_branch(u32 insn)
{
	if (IS_B || IS_CBZ || IS_TBZ || IS_B_COND || IS_BR)
		return PROBE_EMULATED;
	return IS(0xff000000, 0xd5000000) ? probe_classify_system(insn) : PROBE_REFUSED_SYSTEM;
}

static inline enum probe_how probe_classify_memory(u32 insn)
{
	if (IS_EXCLUSIVE)
		return PROBE_REFUSED_EXCLUSIVE;
	if (IS(0x04000000, 0x04000000)) /* floating point and vectors */
		return PROBE_REFUSED_UNKNOWN;
	if (IS_LITERAL)
		return PROBE_EMULATED;
	if (IS(0xff200400, 0xf8200400)) /* ldraa, ldrab */
		return PROBE_REFUSED_SYSTEM;
	if (IS(0x3f000c00, 0x19000400) || IS(0xff200000, 0xd9200000)) /* memory copies; tags */
		return PROBE_REFUSED_UNKNOWN;
	return PROBE_SLOT;
}

/* Pointer authentication: with one source, and pacga. */
static inline bool probe_is_pac(u32 insn)
{
	return IS(0xffff0000, 0xdac10000) || IS(0xffe0fc00, 0x9ac03000);
}

static inline enum probe_how probe_classify(u32 insn)
{
	switch (insn >> 25 & 15) {
	case 8:
	case 9: /* data processing, immediate */
		return IS_ADR ? PROBE_EMULATED : PROBE_SLOT;
	case 10:
	case 11:
		return probe_classify_branch(insn);
	case 4:
	case 6:
	case 12:
	case 14:
		return probe_classify_memory(insn);
	case 5:
	case 13: /* data processing, register */
		return probe_is_pac(insn) ? PROBE_REFUSED_SYSTEM : PROBE_SLOT;
	}
	return PROBE_REFUSED_UNKNOWN;
}

static inline int probe_exclusive(u32 insn)
{
	if (IS_CLREX)
		return -1;
	return IS_EXCLUSIVE ? insn & 1 << 22 ? 1 : -1 : 0;
}

/*
 * Does @condition hold? An even number is a test, the odd number after it the opposite test; 14 and
 * 15 always hold.
 */
static inline bool probe_condition(unsigned condition, unsigned long pstate)
{
	bool n = pstate >> 31 & 1, z = pstate >> 30 & 1, c = pstate >> 29 & 1, v = pstate >> 28 & 1;
	const bool holds[8] = {z, c, n, v, c && !z, n == v, n == v && !z, true};

	return holds[condition >> 1] != ((condition & 1) && condition != 15);
}

static inline void probe_load_literal(u32 insn, unsigned long at, unsigned long *x)
{
	unsigned rt = insn & 31, size = insn >> 30;

	if (rt == 31 || size == 3) /* prfm only hints */
		return;
	x[rt] = size == 0 ? *(u32 *)at : size == 1 ? *(u64 *)at : (unsigned long)(long)*(s32 *)at;
}

/* br, blr, ret */
static inline unsigned long probe_branch_to(u32 insn, unsigned long pc, unsigned long *x)
{
	unsigned rn = insn >> 5 & 31;
	unsigned long to = rn == 31 ? 0 : x[rn];

	if (insn & 1 << 21)
		x[30] = pc + 4;
	return to;
}

static inline bool probe_test(u32 insn, unsigned long value)
{
	bool zero;

	if (IS_TBZ)
		zero = !(value >> ((insn >> 31 << 5) | (insn >> 19 & 31)) & 1);
	else
		zero = !(insn >> 31 ? value : (u32)value);
	return zero != (insn >> 24 & 1);
}

static inline unsigned long probe_emulate(u32 insn, unsigned long pc, unsigned long *x,
					  unsigned long pstate)
{
	unsigned rd = insn & 31;
	unsigned long value = rd == 31 ? 0 : x[rd];
	long imm = FIELD(5, 19) * 4;

	if (IS_B) {
		if (insn >> 31)
			x[30] = pc + 4;
		return pc + FIELD(0, 26) * 4;
	}
	if (IS_B_COND)
		return probe_condition(insn & 15, pstate) ? pc + imm : pc + 4;
	if (IS_CBZ)
		return probe_test(insn, value) ? pc + imm : pc + 4;
	if (IS_TBZ)
		return probe_test(insn, value) ? pc + FIELD(5, 14) * 4 : pc + 4;
	if (IS_BR)
		return probe_branch_to(insn, pc, x);
	if (IS_LITERAL)
		probe_load_literal(insn, pc + imm, x);
	else if (rd != 31) { /* adr, adrp */
		imm |= insn >> 29 & 3;
		x[rd] = insn >> 31 ? (pc & ~0xffful) + imm * 4096 : pc + imm;
	}
	return pc + 4;
}

static inline bool probe_jump(unsigned long from, unsigned long to, u32 *insn)
{
	unsigned long off = to - from;

	*insn = 0x14000000 | (off >> 2 & 0x03ffffff);
	return off + INSN_REACH < 2 * INSN_REACH;
}

/* Of a struct trap_frame. The syndrome's class is 0x3c, its lowest bits are the number in BRK. */
#define probe_is_break(trap) (((trap)->esr & 0xfc00ffff) == (0xf0000000 | BREAK_NUMBER))
#define probe_irq_flags(trap) ((trap)->pstate)
#define probe_flags(trap)    ((trap)->pstate)

#undef IS
#undef FIELD
#endif
