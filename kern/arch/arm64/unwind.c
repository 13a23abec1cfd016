/*
 * One step along the frame records, arm64. A frame pointer points at its
 * record: the caller's fp, then the return address.
 *
 * An interrupted function may not have made its record yet, have undone it,
 * or be a leaf that never makes one. Then its caller is in the link register,
 * and fp is the caller's. The function's instructions, up to the interrupted
 * one, show which case it is.
 */
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "unwind.h"

#define MOV_X9_X30 0xaa1e03e9
#define IS_BL(i) (((i) & 0xfc000000) == 0x94000000)
/* The signed field of @i that starts at bit @low and is @bits wide. */
#define FIELD(i, low, bits) ((long)((u64)(i) << (64 - (low) - (bits))) >> (64 - (bits)))
enum { FP = 29, LR = 30 };

static notrace enum flow flow_of(u32 i, long *to)
{
	if ((i & 0xfc000000) == 0x14000000) { /* b */
		*to = 4 * FIELD(i, 0, 26);
		return FLOW_JUMP;
	}
	/* b.cond, cbz, cbnz */
	if ((i & 0xff000010) == 0x54000000 || (i & 0x7e000000) == 0x34000000) {
		*to = 4 * FIELD(i, 5, 19);
		return FLOW_BRANCH;
	}
	if ((i & 0x7e000000) == 0x36000000) { /* tbz, tbnz */
		*to = 4 * FIELD(i, 5, 14);
		return FLOW_BRANCH;
	}
	if ((i & 0xfffffc1f) == 0xd61f0000) /* br */
		return FLOW_AWAY;
	return (i & 0xfffffc1f) == 0xd65f0000 ? FLOW_RETURN : FLOW_ON;
}

/* An stp, ldp, str or ldr of 8-byte registers with sp as the base. */
struct access {
	unsigned reg[2];
	long at;
	bool load, before, after; /* the offset is added to sp before or after the access */
};

static notrace bool decode_access(u32 i, struct access *a)
{
	unsigned second = i >> 10 & 31;

	*a = (struct access){{i & 31, 31}, .load = i & 1 << 22};
	if ((i & 0xfc0003e0) == 0xa80003e0) {
		a->reg[1] = second;
		a->at = 8 * FIELD(i, 15, 7);
		a->before = (i >> 23 & 3) == 3;
		a->after = (i >> 23 & 3) == 1;
		return true;
	}
	if ((i & 0xffa003e0) == 0xf80003e0) {
		a->at = FIELD(i, 12, 9);
		a->before = (i >> 10 & 3) == 3;
		a->after = (i >> 10 & 3) == 1;
		return true;
	}
	a->at = 8 * (i >> 10 & 0xfff);
	return (i & 0xff8003e0) == 0xf90003e0;
}

static notrace void track_access(struct frame_state *s, const struct access *a)
{
	if (a->before)
		s->depth -= a->at;
	for (unsigned n = 0; n < 2; n++)
		if (a->reg[n] == FP || a->reg[n] == LR)
			unwind_moved(s, a->reg[n] == FP,
				     a->before || a->after ? 8 * n : a->at + 8 * n, a->load);
	if (a->after)
		s->depth -= a->at;
}

notrace enum flow unwind_track(struct frame_state *s, u32 i, long *to)
{
	struct access a;
	long imm = (i >> 10 & 0xfff) << (i >> 22 & 1 ? 12 : 0);

	if (decode_access(i, &a)) {
		track_access(s, &a);
	} else if ((i & 0xff8003ff) == 0x910003fd) { /* add x29, sp, #imm; also `mov x29, sp` */
		s->fp_set = true;
		s->fp_from_sp = imm;
		s->fp_is = imm - s->depth;
	} else if ((i & 0xbf8003ff) == 0x910003ff) { /* add or sub sp, sp, #imm */
		s->depth += i & 1 << 30 ? imm : -imm;
	}
	return flow_of(i, to);
}

/* Does @pc follow a traced function's entry, `mov x9, x30; bl`? */
static notrace bool follows_entry(unsigned long pc)
{
	return in_text(pc - 8) && *(u32 *)(pc - 8) == MOV_X9_X30 && IS_BL(*(u32 *)(pc - 4));
}

/*
 * The caller's sp is nearly always the address of its record. Code of the tracer
 * may have no record: then the callee's instructions give the exact sp.
 */
notrace bool unwind_record(struct unwind *u)
{
	unsigned long fp = u->fp, pc = u->pc;
	struct frame_state s;
	const char *name;

	if (fp < u->sp || !unwind_read(u, fp, &u->fp) || !unwind_read(u, fp + 8, &u->pc))
		return false;
	u->sp = u->fp ?: fp + 16;
	if (unwind_in_vector(u->pc))
		u->sp -= TRAP_RECORD;
	if (in_tracer(unwind_true_caller(u->thread, u->pc, u->fp))) {
		s = unwind_state(pc, &name);
		/* the record that ftrace_caller made for it */
		u->sp = s.fp_set ? fp - s.fp_is : fp + 16;
	}
	return in_text(u->pc);
}

/*
 * From an interrupted function to its caller. In a stub and in ftrace_caller,
 * while the traced function has no frame record, the walk gives the traced
 * function first. On the way in, x30 holds its address and x9 its caller's; on
 * the way out it is the reverse.
 */
notrace bool unwind_from_regs(struct unwind *u)
{
	struct trap_frame *regs = u->regs;
	unsigned long link = regs->x[REG_LINK], x9 = regs->x[9];
	const char *name;
	struct frame_state s = unwind_state(unwind_true_pc(regs), &name);
	bool entry = unwind_in_tracer_entry(name) &&
		     !(s.fp_set && s.fp_from_sp == offsetof(struct ftrace_regs, our_fp));
	bool in = entry && follows_entry(link), out = entry && follows_entry(x9);

	u->link_pending = !u->link_pending && (in || out);
	if (u->link_pending) {
		u->pc = in ? link : x9;
		return true;
	}
	u->regs = NULL;
	if (s.fp_set)
		return unwind_record(u);
	/* lab 5's ftrace_graph_stub is also entered this way */
	return unwind_by_code(u, &s, follows_entry(link) ? x9 : link);
}
