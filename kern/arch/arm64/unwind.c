/*
 * One step along the frame records, arm64. A frame pointer points at its
 * record: the caller's fp, then the return address.
 *
 * An interrupted function may not have made its record yet, have undone it,
 * or be a leaf that never makes one. Then its caller is in the link register,
 * and fp is the caller's. Which it is, the instructions from its start to the
 * interrupted one tell.
 */
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "unwind.h"

#define MOV_X9_X30 0xaa1e03e9
#define IS_BL(i) (((i) & 0xfc000000) == 0x94000000)
/* add x29, sp, #imm, which `mov x29, sp` is too: from here on fp is the function's own. */
#define SETS_FP(i) (((i) & 0xffc003ff) == 0x910003fd)
#define FP_OFFSET(i) ((i) >> 10 & 0xfff)
/* ldp x29, x30, [sp ...]: and from here on the caller's again. */
#define LOADS_FP(i) (((i) & 0xfe407fff) == 0xa8407bfd)
/* @bits wide, from bit @low of @i, signed, in instructions: in bytes. */
#define OFFSET(i, low, bits) ((long)((u64)(i) << (64 - (low) - (bits))) >> (64 - (bits)) << 2)

static notrace enum flow flow_of(u32 i, long *to)
{
	if ((i & 0xfc000000) == 0x14000000) { /* b */
		*to = OFFSET(i, 0, 26);
		return FLOW_JUMP;
	}
	if ((i & 0xff000010) == 0x54000000 || (i & 0x7e000000) == 0x34000000) { /* b.cond, cbz, cbnz */
		*to = OFFSET(i, 5, 19);
		return FLOW_BRANCH;
	}
	if ((i & 0x7e000000) == 0x36000000) { /* tbz, tbnz */
		*to = OFFSET(i, 5, 14);
		return FLOW_BRANCH;
	}
	if ((i & 0xfffffc1f) == 0xd61f0000) /* br */
		return FLOW_AWAY;
	return (i & 0xfffffc1f) == 0xd65f0000 ? FLOW_RETURN : FLOW_ON;
}

/* The record's two halves are stored and loaded together: fp_set says it all. */
notrace enum flow unwind_track(struct frame_state *s, u32 i, long *to)
{
	if (SETS_FP(i)) {
		s->fp_set = true;
		s->size = FP_OFFSET(i);
	} else if (LOADS_FP(i)) {
		s->fp_set = false;
	}
	return flow_of(i, to);
}

/* Does @pc follow a traced function's entry, `mov x9, x30; bl`? */
static notrace bool follows_entry(unsigned long pc)
{
	return in_text(pc - 8) && *(u32 *)(pc - 8) == MOV_X9_X30 && IS_BL(*(u32 *)(pc - 4));
}

static notrace bool step_to_interrupted(struct unwind *u)
{
	unsigned long frame = u->fp - offsetof(struct trap_frame, record_fp);

	if (frame < u->low || frame > u->high - sizeof(struct trap_frame) || frame % 16)
		return false;
	u->regs = (struct trap_frame *)frame;
	u->pc = regs_pc(u->regs);
	u->fp = regs_fp(u->regs);
	u->sp = regs_sp(u->regs);
	return in_text(u->pc);
}

/* The caller's record is where its frame begins, nearly always. */
static notrace bool step_record(struct unwind *u)
{
	unsigned long fp = u->fp;

	if (fp < u->sp || !unwind_read(u, fp, &u->fp) || !unwind_read(u, fp + 8, &u->pc))
		return false;
	u->sp = u->fp ?: fp + 16;
	return in_text(u->pc);
}

/*
 * From an interrupted function to its caller. In the stub and in ftrace_caller,
 * while the traced function has no place among the records, it comes first: on
 * the way in it is in x30 and its caller in x9, on the way out the other way round.
 */
static notrace bool step_from_regs(struct unwind *u)
{
	struct trap_frame *regs = u->regs;
	unsigned long link = regs_link(regs), x9 = regs->x[9];
	const char *name;
	struct frame_state s = unwind_state(regs_pc(regs), &name);
	bool entry = unwind_in_tracer_entry(name) &&
		     !(s.fp_set && s.size == offsetof(struct ftrace_regs, our_fp));
	bool in = entry && follows_entry(link), out = entry && follows_entry(x9);

	u->link_pending = !u->link_pending && (in || out);
	if (u->link_pending) {
		u->pc = in ? link : x9;
		return true;
	}
	u->regs = NULL;
	if (s.fp_set)
		return step_record(u);
	u->pc = in ? x9 : link;
	return in_text(u->pc);
}

notrace bool unwind_step(struct unwind *u)
{
	if (u->regs)
		return step_from_regs(u);
	if (u->pc >= (unsigned long)exception_vector && u->pc < (unsigned long)exception_vector_end)
		return step_to_interrupted(u);
	return step_record(u);
}
