/* arm64: the offsets of its own structures for the assembly; see kern/asm-offsets.c. */
#include "cpu.h"
#include "asm-ftrace/regs.h"

#define DEFINE(name, value) __asm__ volatile("\n->" #name " %0" : : "i"(value))

void asm_offsets(void);
void asm_offsets(void)
{
	DEFINE(CONTEXT_X, offsetof(struct context, x));
	DEFINE(CONTEXT_FP, offsetof(struct context, fp));
	DEFINE(CONTEXT_SP, offsetof(struct context, sp));
	DEFINE(FRAME_X, offsetof(struct trap_frame, x));
	DEFINE(FRAME_PC, offsetof(struct trap_frame, pc));
	DEFINE(FRAME_RECORD, offsetof(struct trap_frame, record_fp));
	DEFINE(FRAME_SIZE, sizeof(struct trap_frame));
	DEFINE(FREGS_X8, offsetof(struct ftrace_regs, x8));
	DEFINE(FREGS_OUR_FP, offsetof(struct ftrace_regs, our_fp));
	DEFINE(MCOUNT_X8, offsetof(struct mcount_frame, x8));
}
