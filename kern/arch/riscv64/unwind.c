/*
 * One step along the frame records, riscv64. A frame pointer points to the end of
 * its record: the return address is at fp-8, the caller's fp at fp-16.
 *
 * An interrupted function may not have made its record yet, or have undone it,
 * and a leaf that GCC compiled never stores ra. So the unwinder decodes the
 * function's instructions up to the interrupted one: registers that they stored
 * are read from memory, the others from the trap frame.
 */
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "unwind.h"

#define OPCODE(i) ((i) & 0x7f)
#define RD(i) ((i) >> 7 & 31)
#define FUNCT3(i) ((i) >> 12 & 7)
#define RS1(i) ((i) >> 15 & 31)
#define RS2(i) ((i) >> 20 & 31)
#define IMM_I(i) ((s32)(i) >> 20)
#define IMM_S(i) (((s32)(i) >> 25) * 32 + (s32)RD(i))
#define JAL_T0 0x2ef /* opcode and rd */
enum { RA = 1, SP = 2, T0 = 5, S0 = 8 };
enum { LOAD = 0x03, OP_IMM = 0x13, STORE = 0x23, BRANCH = 0x63, JALR = 0x67, JAL = 0x6f };

static notrace enum flow flow_of(u32 i, long *to)
{
	if (OPCODE(i) == BRANCH) {
		*to = -(long)(i >> 31) * 0x1000 + ((i & 0x80) << 4) + (i >> 20 & 0x7e0) +
		      (i >> 7 & 0x1e);
		return FLOW_BRANCH;
	}
	if (OPCODE(i) == JAL && RD(i) == 0) {
		*to = -(long)(i >> 31) * 0x100000 + (i & 0xff000) + (i >> 9 & 0x800) +
		      (i >> 20 & 0x7fe);
		return FLOW_JUMP;
	}
	if (OPCODE(i) == JALR && RD(i) == 0)
		return RS1(i) == RA ? FLOW_RETURN : FLOW_AWAY;
	return FLOW_ON;
}

notrace enum flow unwind_track(struct frame_state *s, u32 i, long *to)
{
	unsigned op = OPCODE(i);

	if (RS1(i) == SP && op == STORE && FUNCT3(i) == 3 && (RS2(i) == RA || RS2(i) == S0)) {
		unwind_moved(s, RS2(i) == S0, IMM_S(i), false);
	} else if (RS1(i) == SP && op == LOAD && (RD(i) == RA || RD(i) == S0)) {
		unwind_moved(s, RD(i) == S0, IMM_I(i), true);
	} else if (RS1(i) == SP && op == OP_IMM && FUNCT3(i) == 0 && RD(i) == SP) {
		s->depth -= IMM_I(i);
	} else if (RS1(i) == SP && op == OP_IMM && FUNCT3(i) == 0 && RD(i) == S0) {
		s->fp_set = true;
		s->fp_from_sp = IMM_I(i);
		s->fp_is = IMM_I(i) - s->depth;
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
	return unwind_by_code(u, &s, regs_link(regs));
}
