/*
 * Islands: copies of ftrace_stubs for call sites that are more than 1 MiB, the
 * reach of `jal`, away from them. islands.py computes the number of islands and
 * their places in text; a small text has none.
 *
 * ftrace_island_<n>: a hop for each stub, of the same size. A site's `jal t0`
 * (lab 3: `jal ra`) jumps to a hop, and the hop jumps to its stub.
 *
 * Live: every register that is live at the stub. Free: t1, with every compiler;
 * the stub overwrites it.
 *
 * An island is text of the tracer: it is in the table ftrace_text, in whose
 * ranges an interrupt does not preempt (irq_exit(), thread.h).
 */
#include "asm-offsets.h"
#include "islands.h"

/* hop island, slot: FTRACE_STUB_SIZE bytes. `tail` is auipc t1; jr t1. */
	.macro hop island, slot
	.type ftrace_island_\island\()_stub_\slot, @function
ftrace_island_\island\()_stub_\slot:
	tail ftrace_stubs + FTRACE_STUB_SIZE * \slot
	ebreak
	.size ftrace_island_\island\()_stub_\slot, . - ftrace_island_\island\()_stub_\slot
	.endm

	.macro island number
	.section .ftrace.island.\number, "ax", @progbits
	.globl ftrace_island_\number, ftrace_island_\number\()_end
ftrace_island_\number:
	.set next, 0
	.rept FTRACE_STUBS
	hop \number, %next
	.set next, next + 1
	.endr
ftrace_island_\number\()_end:
	.section .table.ftrace_text, "a", @progbits
	.balign 8
	.quad ftrace_island_\number, ftrace_island_\number\()_end
	.endm

	.altmacro
	.set count, 0
	.rept FTRACE_ISLANDS
	.set count, count + 1
	island %count
	.endr
	.noaltmacro
