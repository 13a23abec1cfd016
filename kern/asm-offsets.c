/*
 * Offsets into structures for the assembly: compiled, never run. The build
 * turns each "->NAME value" line of the output into a #define of
 * asm-offsets.h; kern/arch/<arch>/asm-offsets.c adds its own.
 */
#include "cpu.h"
#include "asm-ftrace/regs.h"
#include "ftrace_internal.h"

#define DEFINE(name, value) __asm__ volatile("\n->" #name " %0" : : "i"(value))

void asm_offsets(void);
void asm_offsets(void)
{
	DEFINE(THREAD_CONTEXT, offsetof(struct thread, context));
	DEFINE(THREAD_STACK, offsetof(struct thread, stack));
	DEFINE(CPU_CURRENT, offsetof(struct cpu, running));
	DEFINE(CPU_BOOT_STACK, offsetof(struct cpu, boot_stack));
	DEFINE(CPU_HWID, offsetof(struct cpu, hwid));
	DEFINE(CPU_SIZE, sizeof(struct cpu));
	DEFINE(FREGS_ARG, offsetof(struct ftrace_regs, arg));
	DEFINE(FREGS_SP, offsetof(struct ftrace_regs, sp));
	DEFINE(FREGS_PC, offsetof(struct ftrace_regs, pc));
	DEFINE(FREGS_FP, offsetof(struct ftrace_regs, fp));
	DEFINE(FREGS_LINK, offsetof(struct ftrace_regs, link));
	DEFINE(FREGS_SIZE, sizeof(struct ftrace_regs));
	DEFINE(MCOUNT_ARG, offsetof(struct mcount_frame, arg));
	DEFINE(MCOUNT_FP, offsetof(struct mcount_frame, fp));
	DEFINE(MCOUNT_LINK, offsetof(struct mcount_frame, link));
	DEFINE(MCOUNT_SIZE, sizeof(struct mcount_frame));
	DEFINE(GRAPH_FRAME_FP, offsetof(struct graph_frame, fp));
	DEFINE(GRAPH_FRAME_LINK, offsetof(struct graph_frame, link));
	DEFINE(GRAPH_FRAME_PC, offsetof(struct graph_frame, pc));
	DEFINE(GRAPH_FRAME_SIZE, sizeof(struct graph_frame));
	DEFINE(FTRACE_STUBS, FTRACE_STUBS);
	DEFINE(FTRACE_STUB_SIZE, FTRACE_STUB_SIZE);
	DEFINE(FTRACE_SLOT_FUNC, offsetof(struct ftrace_slot, func));
	DEFINE(FTRACE_SLOT_OP, offsetof(struct ftrace_slot, op));
	DEFINE(FTRACE_SLOT_SIZE, sizeof(struct ftrace_slot));
}
