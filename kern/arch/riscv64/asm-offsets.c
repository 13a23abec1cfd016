/* riscv64: the offsets of its own structures for the assembly; see kern/asm-offsets.c. */
#include "cpu.h"
#include "asm-ftrace/regs.h"

#define DEFINE(name, value) __asm__ volatile("\n->" #name " %0" : : "i"(value))

void asm_offsets(void);
void asm_offsets(void)
{
	DEFINE(CONTEXT_PC, offsetof(struct context, pc));
	DEFINE(CONTEXT_SP, offsetof(struct context, sp));
	DEFINE(CONTEXT_S, offsetof(struct context, fp));
	DEFINE(FRAME_PC, offsetof(struct trap_frame, pc));
	DEFINE(FRAME_X, offsetof(struct trap_frame, x));
	DEFINE(FRAME_STATUS, offsetof(struct trap_frame, status));
	DEFINE(FRAME_CAUSE, offsetof(struct trap_frame, cause));
	DEFINE(FRAME_TVAL, offsetof(struct trap_frame, tval));
	DEFINE(FRAME_RECORD, offsetof(struct trap_frame, record_fp));
	DEFINE(FRAME_SIZE, sizeof(struct trap_frame));
	DEFINE(FREGS_T, offsetof(struct ftrace_regs, t));
	DEFINE(MCOUNT_T2, offsetof(struct mcount_frame, t2));
}
