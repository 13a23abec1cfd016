/*
 * What a probe must know about an instruction. Each architecture has these
 * functions in <arch>/probe.h; they are pure, and the host tests compare them with
 * the assembler.
 *
 *	enum probe_how probe_classify(u32 insn)
 *		how a copy of @insn can be executed.
 *
 *	unsigned long probe_emulate(u32 insn, unsigned long pc, unsigned long *x,
 *				    unsigned long flags)
 *		execute @insn, which is PROBE_EMULATED, as if it were at @pc. @x: the
 *		general registers; @flags: arm64's PSTATE. Return: the next pc.
 *
 *	int probe_exclusive(u32 insn)
 *		1 if @insn begins an exclusive sequence (a reservation), -1 if it ends
 *		one, else 0.
 *
 *	bool probe_jump(unsigned long from, unsigned long to, u32 *insn)
 *		the jump from @from to @to; false if @to is out of reach.
 *
 *	probe_is_break(trap), probe_irq_flags(trap), probe_flags(trap)
 *		of a struct trap_frame: was it an INSN_BREAK; what irq_save() would have
 *		returned before; @flags for probe_emulate().
 *
 *	PROBE_ARG0	the number of the first argument's register
 *
 *	PROBE_STOPS_CPUS
 *		1 if an instruction and INSN_BREAK may not be exchanged while another
 *		CPU may execute them.
 */
#ifndef FTRACE_PROBE_INSN_H
#define FTRACE_PROBE_INSN_H

#include "types.h"

enum probe_how {
	PROBE_SLOT,		 /* the same anywhere: a copy is executed in a slot */
	PROBE_EMULATED,		 /* it depends on pc: probe_emulate() */
	/* an exception between a pair would make the second fail for ever */
	PROBE_REFUSED_EXCLUSIVE,
	/* traps, changes the machine's state, or reads what an exception overwrites */
	PROBE_REFUSED_SYSTEM,
	PROBE_REFUSED_UNKNOWN,	 /* no instruction that the kernel is compiled to */
};

#endif
