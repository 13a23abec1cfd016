/*
 * One step along the frame records, arm64. A frame pointer points at its
 * record: the caller's fp, then the return address.
 *
 * An interrupted function may not have made its record yet, have undone it,
 * or be a leaf that never makes one. Then its caller is in the link register,
 * and fp is the caller's. Which it is, the instructions before the interrupted
 * one and the link register tell together.
 */
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "ksyms.h"
#include "unwind.h"

#define RET 0xd65f03c0
#define MOV_X9_X30 0xaa1e03e9
#define IS_BL(i) (((i) & 0xfc000000) == 0x94000000)
#define IS_BLR(i) (((i) & 0xfffffc1f) == 0xd63f0000)
/* add x29, sp, #imm, which `mov x29, sp` is too: from here on fp is the function's own. */
#define SETS_FP(i) (((i) & 0xffc003ff) == 0x910003fd)

static notrace bool in_text(unsigned long pc)
{
	return pc >= (unsigned long)_text && pc < (unsigned long)_etext;
}

static notrace bool read_stack(const struct unwind *u, unsigned long at, unsigned long *value)
{
	if (at < u->low || at > u->high - 8 || at % 8)
		return false;
	*value = *(unsigned long *)at;
	return true;
}

static notrace bool sets_fp_before(unsigned long start, unsigned long pc)
{
	for (; start < pc; start += 4)
		if (SETS_FP(*(u32 *)start))
			return true;
	return false;
}

/* Did a call leave @link? If not, the compiler uses x30 for something else. */
static notrace bool follows_call(unsigned long link)
{
	u32 insn;

	if (!in_text(link - 4) || link % 4)
		return false;
	insn = *(u32 *)(link - 4);
	return IS_BL(insn) || IS_BLR(insn);
}

/*
 * Is the record at fp the interrupted function's own? Behind the prologue, in
 * the order of addresses, there may be blocks without it (before `ret`, or
 * where the compiler moved the prologue out of the way). With a record, the
 * link is the record's, or one that the function's own last call left; a
 * block without has its caller's.
 */
static notrace bool has_record(const struct unwind *u)
{
	unsigned long offset = 0, size = 0, start, link = regs_link(u->regs), stored;

	if (!in_text(u->pc) || !ksym_lookup(u->pc, &offset, &size))
		return false;
	start = u->pc - offset;
	if (*(u32 *)u->pc == RET || !sets_fp_before(start, u->pc))
		return false;
	if (link >= start && link < start + size)
		return true;
	return !follows_call(link) || (read_stack(u, u->fp + 8, &stored) && stored == link);
}

/* Was it a traced function's entry that called, `mov x9, x30; bl`? Then its own caller is in x9. */
static notrace bool follows_entry(unsigned long link)
{
	return in_text(link - 8) && *(u32 *)(link - 8) == MOV_X9_X30 && IS_BL(*(u32 *)(link - 4));
}

/*
 * From an interrupted function without a record of its own to its caller; on
 * the way into the tracer, first to the traced function, and from there to x9,
 * until the tracer has made the traced function's record.
 */
static notrace bool step_to_link(struct unwind *u)
{
	bool traced = !u->link_pending && follows_entry(regs_link(u->regs)) &&
		      u->fp != u->sp + offsetof(struct ftrace_regs, fp);

	u->pc = u->link_pending ? u->regs->x[9] : regs_link(u->regs);
	u->link_pending = traced;
	if (!traced)
		u->regs = NULL;
	return in_text(u->pc);
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

notrace bool unwind_step(struct unwind *u)
{
	unsigned long fp = u->fp, next;

	if (u->link_pending || (u->regs && !has_record(u)))
		return step_to_link(u);
	u->regs = NULL;
	if (u->pc >= (unsigned long)exception_vector && u->pc < (unsigned long)exception_vector_end)
		return step_to_interrupted(u);
	if (fp < u->sp || !read_stack(u, fp, &next) || !read_stack(u, fp + 8, &u->pc))
		return false;
	u->fp = next;
	u->sp = fp + 16;
	return next && in_text(u->pc);
}
