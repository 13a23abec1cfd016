/*
 * void ftrace_graph_stub(ip, parent_ip, op, regs): the callback of lab 5's
 * graph op, called by ftrace_caller like any other. It is one call site: the word
 * at ftrace_graph_call is a nop while no user is registered, and else
 * `bl ftrace_graph_caller`.
 *
 * void ftrace_graph_caller(void)
 *
 * Live: x0-x3 (ip, parent_ip, op, regs), x9 (back into ftrace_caller), x30
 * (back into ftrace_graph_stub), x18, sp, x29. Free: x4-x8, x10-x17.
 *
 * 1. Make a frame record, so that a stack walk goes on into ftrace_caller.
 * 2. prepare_ftrace_return(&regs->link, ip, regs).
 * 3. Return to ftrace_graph_stub. `ret x9`, not `br`: it pops the entry that
 *    the site's `bl` pushed on the return-address predictor.
 */
#include "asm-offsets.h"

	.text
	.globl ftrace_graph_stub, ftrace_graph_call, ftrace_graph_caller

	.type ftrace_graph_stub, @function
ftrace_graph_stub:
	mov x9, x30
ftrace_graph_call:
	nop
	ret
	.size ftrace_graph_stub, . - ftrace_graph_stub

	.type ftrace_graph_caller, @function
ftrace_graph_caller:
#if LAB_START == 5
	mov x10, x30
	mov x30, x9
	ret x10
#else
	/* 1. A frame record, and the address to return to. */
	stp x29, x9, [sp, #-GRAPH_FRAME_SIZE]!
	mov x29, sp
	str x30, [sp, #GRAPH_FRAME_PC]

	/* 2. Call prepare_ftrace_return(&regs->link, ip, regs). */
	mov x1, x0
	add x0, x3, #FREGS_LINK
	mov x2, x3
	bl prepare_ftrace_return

	/* 3. Return to ftrace_graph_stub. */
	ldr x9, [sp, #GRAPH_FRAME_PC]
	ldp x29, x30, [sp], #GRAPH_FRAME_SIZE
	ret x9
#endif
	.size ftrace_graph_caller, . - ftrace_graph_caller
