/*
 * riscv64: the instructions of call sites, encoded and decoded. Pure
 * functions; the host tests compare them with the assembler.
 *
 * A call site has room for one aligned word, and `jal` is the only call that
 * fits. Its immediate is scattered: imm[20|10:1|11|19:12] << 12.
 */
#ifndef FTRACE_INSN_H
#define FTRACE_INSN_H

#include "errno.h"
#include "types.h"

#define INSN_NOP   0x00000013u
#define INSN_BREAK 0x00100073u
#define INSN_JAL   0x0000006fu /* the link register from bit 7 on, the offset above */
#define INSN_REACH MiB(1)
#define REG_RA	   1u
#define REG_T0	   5u

/* The fields that most formats have in the same place. */
#define INSN_OPCODE(insn) ((insn) & 0x7f)
#define INSN_RD(insn)	  ((insn) >> 7 & 31)
#define INSN_FUNCT3(insn) ((insn) >> 12 & 7)
#define INSN_RS1(insn)	  ((insn) >> 15 & 31)
#define INSN_RS2(insn)	  ((insn) >> 20 & 31)
#define INSN_IMM_I(insn)  ((s32)(insn) >> 20)
enum {
	OP_LOAD = 0x03,
	OP_FENCE = 0x0f,
	OP_IMM = 0x13,
	OP_AUIPC = 0x17,
	OP_IMM_32 = 0x1b,
	OP_STORE = 0x23,
	OP_AMO = 0x2f,
	OP_OP = 0x33,
	OP_LUI = 0x37,
	OP_OP_32 = 0x3b,
	OP_BRANCH = 0x63,
	OP_JALR = 0x67,
	OP_JAL = 0x6f,
	OP_SYSTEM = 0x73
};

/* How far the jump `jal`, and a branch, go. */
static inline long insn_jal_offset(u32 insn)
{
	return -(long)(insn >> 31) * 0x100000 + (insn & 0xff000) + (insn >> 9 & 0x800) +
	       (insn >> 20 & 0x7fe);
}
static inline long insn_branch_offset(u32 insn)
{
	return -(long)(insn >> 31) * 0x1000 + (insn << 4 & 0x800) + (insn >> 20 & 0x7e0) +
	       (insn >> 7 & 0x1e);
}

/* Where the call @insn at @ip goes; false: it is not `jal link`. */
static inline bool insn_call_target(unsigned long ip, u32 insn, unsigned link,
				    unsigned long *target)
{
	if ((insn & 0xfff) != (link << 7 | INSN_JAL))
		return false;
	*target = ip + insn_jal_offset(insn);
	return true;
}

/* The jump that goes where the call @call goes, and leaves no return address. */
static inline u32 insn_jump_of(u32 call)
{
	return call & ~(31u << 7);
}

/* Where `auipc ra, hi; jalr ra, lo(ra)` at @ip goes, as -pg leaves it; false: not that. */
static inline bool insn_far_call_target(unsigned long ip, u32 hi, u32 lo, unsigned long *target)
{
	if ((hi & 0xfff) != (REG_RA << 7 | 0x17) || (lo & 0xfffff) != 0x80e7)
		return false;
	*target = ip + (long)(s32)(hi & ~0xfffu) + ((s32)lo >> 20);
	return true;
}

#endif
