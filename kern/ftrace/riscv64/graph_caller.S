/*
 * void ftrace_graph_stub(ip, parent_ip, op, regs): the callback of lab 5's
 * graph op, called by ftrace_caller like any other. It is one call site: the word
 * at ftrace_graph_call is a nop while no user is registered, and else
 * `jal t0, ftrace_graph_caller`.
 *
 * void ftrace_graph_caller(void)
 *
 * Live: a0-a3 (ip, parent_ip, op, regs), ra (back into ftrace_caller), t0
 * (back into ftrace_graph_stub), sp, s0. Free: a4-a7, t1-t6.
 *
 * 1. Make a frame record, so that a stack walk goes on into ftrace_caller.
 * 2. prepare_ftrace_return(&regs->link, ip, regs).
 * 3. Return to ftrace_graph_stub. `jr t0` pops the entry that the site's
 *    `jal t0` pushed on the return-address predictor.
 */
#include "asm-offsets.h"

	.text
	.globl ftrace_graph_stub, ftrace_graph_call, ftrace_graph_caller

	.type ftrace_graph_stub, @function
ftrace_graph_stub:
ftrace_graph_call:
	nop
	ret
	.size ftrace_graph_stub, . - ftrace_graph_stub

	.type ftrace_graph_caller, @function
ftrace_graph_caller:
#if LAB_START == 5
	jr t0
#else
	/* 1. A frame record, and the address to return to. */
	addi sp, sp, -GRAPH_FRAME_SIZE
	sd ra, GRAPH_FRAME_LINK(sp)
	sd s0, GRAPH_FRAME_FP(sp)
	sd t0, GRAPH_FRAME_PC(sp)
	addi s0, sp, GRAPH_FRAME_SIZE

	/* 2. Call prepare_ftrace_return(&regs->link, ip, regs). */
	mv a1, a0
	addi a0, a3, FREGS_LINK
	mv a2, a3
	call prepare_ftrace_return

	/* 3. Return to ftrace_graph_stub. */
	ld t0, GRAPH_FRAME_PC(sp)
	ld s0, GRAPH_FRAME_FP(sp)
	ld ra, GRAPH_FRAME_LINK(sp)
	addi sp, sp, GRAPH_FRAME_SIZE
	jr t0
#endif
	.size ftrace_graph_caller, . - ftrace_graph_caller
