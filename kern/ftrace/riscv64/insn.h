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

/* Where the call @insn at @ip goes; false: it is not `jal link`. */
static inline bool insn_call_target(unsigned long ip, u32 insn, unsigned link,
				    unsigned long *target)
{
	u32 off = (insn >> 20 & 0x7fe) | (insn >> 9 & 0x800) | (insn & 0xff000);

	if ((insn & 0xfff) != (link << 7 | INSN_JAL))
		return false;
	*target = ip + off - (insn >> 31 ? 0x100000 : 0);
	return true;
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
