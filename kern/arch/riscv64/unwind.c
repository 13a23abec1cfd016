/*
 * One step along the frame records, riscv64. A frame pointer points to the end of
 * its record: the return address is at fp-8, the caller's fp at fp-16.
 *
 * An interrupted function may not have made its record yet, or have undone it,
 * and a leaf that GCC compiled never stores ra. So the unwinder decodes the
 * function's instructions up to the interrupted one: registers that they stored
 * are read from memory, the others from the trap frame.
 */
#include "asm-ftrace/insn.h"
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "unwind.h"

#define IMM_S(i) (((s32)(i) >> 25) * 32 + (s32)INSN_RD(i))
#define JAL_T0 0x2ef /* opcode and rd */
enum { RA = 1, SP = 2, T0 = 5, S0 = 8 };

static notrace enum flow flow_of(u32 i, long *to)
{
	if (INSN_OPCODE(i) == OP_BRANCH) {
		*to = insn_branch_offset(i);
		return FLOW_BRANCH;
	}
	if (INSN_OPCODE(i) == OP_JAL && INSN_RD(i) == 0) {
		*to = insn_jal_offset(i);
		return FLOW_JUMP;
	}
	if (INSN_OPCODE(i) == OP_JALR && INSN_RD(i) == 0)
		return INSN_RS1(i) == RA ? FLOW_RETURN : FLOW_AWAY;
	return FLOW_ON;
}

notrace enum flow unwind_track(struct frame_state *s, u32 i, long *to)
{
	unsigned op = INSN_OPCODE(i), f = INSN_FUNCT3(i), rd = INSN_RD(i), rs2 = INSN_RS2(i);
	bool by_sp = INSN_RS1(i) == SP;

	if (by_sp && op == OP_STORE && f == 3 && (rs2 == RA || rs2 == S0)) {
		unwind_moved(s, rs2 == S0, IMM_S(i), false);
	} else if (by_sp && op == OP_LOAD && (rd == RA || rd == S0)) {
		unwind_moved(s, rd == S0, INSN_IMM_I(i), true);
	} else if (by_sp && op == OP_IMM && f == 0 && rd == SP) {
		s->depth -= INSN_IMM_I(i);
	} else if (by_sp && op == OP_IMM && f == 0 && rd == S0) {
		s->fp_set = true;
		s->fp_from_sp = INSN_IMM_I(i);
		s->fp_is = INSN_IMM_I(i) - s->depth;
	}
	return flow_of(i, to);
}

/*
 * In an island, a stub or ftrace_caller, while the traced function has no frame record: t0 holds
 * its address.
 */
static notrace bool in_entry(const char *name, const struct frame_state *s, unsigned long t0)
{
	if (!unwind_in_tracer_entry(name) || !in_text(t0 - 4))
		return false;
	return (*(u32 *)(t0 - 4) & 0xfff) == JAL_T0 &&
	       !(s->fp_set && s->fp_from_sp == offsetof(struct ftrace_regs, fp));
}

notrace bool unwind_record(struct unwind *u)
{
	unsigned long fp = u->fp;

	if (fp % 8 || fp < u->sp || !unwind_read(u, fp - 8, &u->pc) ||
	    !unwind_read(u, fp - 16, &u->fp))
		return false;
	u->sp = fp;
	return in_text(u->pc);
}

/* From the tracer's entry or exit code, the first step leads to the traced function. */
notrace bool unwind_from_regs(struct unwind *u)
{
	struct trap_frame *regs = u->regs;
	const char *name;
	struct frame_state s = unwind_state(unwind_true_pc(regs), &name);

	u->link_pending = !u->link_pending && in_entry(name, &s, regs->x[T0]);
	if (u->link_pending) {
		u->pc = regs->x[T0];
		return true;
	}
	u->regs = NULL;
	if (s.fp_set && s.ra_stored)
		return unwind_record(u);
	return unwind_by_code(u, &s, regs->x[REG_LINK]);
}
