/*
 * arm64: the instructions of call sites, encoded and decoded. Pure
 * functions; the host tests compare them with the assembler.
 *
 * NOP and BL are on the short list of instructions that may be
 * exchanged while other CPUs run them (Arm ARM, B2.2.5); MOV is not.
 */
#ifndef FTRACE_INSN_H
#define FTRACE_INSN_H

#include "errno.h"
#include "types.h"

#define INSN_NOP	0xd503201fu
#define INSN_BREAK	0xd420a000u /* brk #BREAK_NUMBER */
#define BREAK_NUMBER	0x500
#define INSN_MOV_X9_X30 0xaa1e03e9u
#define INSN_BL		0x94000000u /* and the offset, in words */
#define INSN_B		0x14000000u /* the same */
#define INSN_REACH	MiB(128)
#define REG_X30		30u

/* Where the call @insn at @ip goes; false: it is not BL. BL's link is always x30. */
static inline bool insn_call_target(unsigned long ip, u32 insn, unsigned link,
				    unsigned long *target)
{
	if (insn >> 26 != INSN_BL >> 26)
		return false;
	*target = ip + (long)((s32)(insn << 6) >> 4);
	return true;
}

/* The jump that goes where the call @call goes, and leaves no return address. */
static inline u32 insn_jump_of(u32 call)
{
	return INSN_B | (call & 0x03ffffff);
}

#endif
