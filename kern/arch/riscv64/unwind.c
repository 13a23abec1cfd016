/*
 * One step along the frame records, riscv64. A frame pointer points behind its
 * record: the return address is at fp-8, the caller's fp at fp-16.
 *
 * An interrupted function may not have made its record yet, or have undone it,
 * and a leaf that GCC compiled never stores ra. So its instructions are read,
 * from its start to the interrupted one: what they stored is in memory, the
 * rest still in the registers.
 */
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "ksyms.h"
#include "string.h"
#include "unwind.h"

/* What an instruction stream has done to ra and s0, in offsets from sp as it was at the store. */
struct frame_state {
	bool known, ra_stored, fp_stored, fp_set;
	s32 ra_at, fp_at, size;
};
/* A forward branch takes its state along to where it lands. */
#define BRANCHES 32
struct branch {
	unsigned long target;
	struct frame_state state;
};

#define OPCODE(i) ((i) & 0x7f)
#define RD(i) ((i) >> 7 & 31)
#define FUNCT3(i) ((i) >> 12 & 7)
#define RS1(i) ((i) >> 15 & 31)
#define RS2(i) ((i) >> 20 & 31)
#define IMM_I(i) ((s32)(i) >> 20)
#define IMM_S(i) (((s32)(i) >> 25) * 32 + (s32)RD(i))
#define JAL_T0 0x2ef /* opcode and rd */
enum { RA = 1, SP = 2, S0 = 8 };
enum { LOAD = 0x03, OP_IMM = 0x13, STORE = 0x23, BRANCH = 0x63, JALR = 0x67, JAL = 0x6f };

static notrace long branch_offset(u32 i)
{
	if (OPCODE(i) == JAL)
		return -(long)(i >> 31) * 0x100000 + (i & 0xff000) + (i >> 9 & 0x800) + (i >> 20 & 0x7fe);
	return -(long)(i >> 31) * 0x1000 + ((i & 0x80) << 4) + (i >> 20 & 0x7e0) + (i >> 7 & 0x1e);
}

static notrace void track(struct frame_state *s, u32 i)
{
	bool on_stack = RS1(i) == SP;

	if (OPCODE(i) == STORE && FUNCT3(i) == 3 && on_stack && RS2(i) == RA) {
		s->ra_stored = true;
		s->ra_at = IMM_S(i);
	} else if (OPCODE(i) == STORE && FUNCT3(i) == 3 && on_stack && RS2(i) == S0) {
		s->fp_stored = true;
		s->fp_at = IMM_S(i);
	} else if (OPCODE(i) == LOAD && on_stack && RD(i) == RA) {
		s->ra_stored = false;
	} else if (OPCODE(i) == LOAD && on_stack && RD(i) == S0) {
		s->fp_stored = s->fp_set = false;
	} else if (OPCODE(i) == OP_IMM && FUNCT3(i) == 0 && on_stack && RD(i) == S0) {
		s->fp_set = true;
		s->size = IMM_I(i);
	}
}

/* Follow [start, pc) in the order of addresses; after a jump away, a branch that lands there knows. */
static notrace struct frame_state state_at(unsigned long start, unsigned long pc)
{
	static struct branch branches[NR_CPUS][BRANCHES];
	struct branch *b = branches[this_cpu()->index];
	struct frame_state s = {.known = true};
	unsigned count = 0;

	for (unsigned long at = start; at <= pc; at += 4) {
		u32 insn = *(u32 *)at;
		bool jump = OPCODE(insn) == JAL && RD(insn) == 0;

		for (unsigned n = 0; n < count && !s.known; n++)
			if (b[n].target == at)
				s = b[n].state;
		if (at == pc)
			break;
		if (!s.known)
			continue;
		track(&s, insn);
		if ((jump || OPCODE(insn) == BRANCH) && count < BRANCHES)
			b[count++] = (struct branch){at + branch_offset(insn), s};
		if (jump || (OPCODE(insn) == JALR && RD(insn) == 0))
			s.known = false;
	}
	return s;
}

static notrace bool read_stack(const struct unwind *u, unsigned long at, unsigned long *value)
{
	if (at < u->low || at > u->high - 8 || at % 8)
		return false;
	*value = *(unsigned long *)at;
	return true;
}

static notrace bool in_text(unsigned long pc)
{
	return pc >= (unsigned long)_text && pc < (unsigned long)_etext;
}

/* Where the interrupted function's ra and its caller's fp are: its record, sp, registers. */
static notrace bool read_frame(const struct unwind *u, const struct frame_state *s,
			       const struct trap_frame *regs, unsigned long *ra, unsigned long *fp)
{
	unsigned long record = regs_fp(regs);

	*ra = regs_link(regs);
	*fp = record;
	if (s->fp_set && s->ra_stored)
		return read_stack(u, record - 8, ra) && read_stack(u, record - 16, fp);
	if (s->fp_set && s->fp_stored)
		return read_stack(u, record - s->size + s->fp_at, fp);
	return !s->ra_stored || read_stack(u, regs_sp(regs) + s->ra_at, ra);
}

/* In the stub or in ftrace_caller, until that has made the traced function's record: t0 knows it. */
static notrace bool enters_tracer(const char *name, const struct frame_state *s, unsigned long t0)
{
	if (s->fp_set && s->size == offsetof(struct ftrace_regs, fp))
		return false;
	if (!in_text(t0 - 4) || (*(u32 *)(t0 - 4) & 0xfff) != JAL_T0)
		return false;
	return !strncmp(name, "ftrace_stub_", 12) || !strcmp(name, "ftrace_caller");
}

/* From an interrupted function to its caller; out of the tracer's entry first to the traced function. */
static notrace bool step_from_regs(struct unwind *u)
{
	struct trap_frame *regs = u->regs;
	unsigned long pc = regs_pc(regs), offset;
	const char *name = in_text(pc) ? ksym_lookup(pc, &offset, NULL) : NULL;
	struct frame_state s = {.known = true};

	if (name)
		s = state_at(pc - offset, pc);
	if (!s.known) /* reached by a way we did not see: in the middle, where the record stands */
		s = (struct frame_state){.ra_stored = true, .fp_set = true};
	u->link_pending = !u->link_pending && name && enters_tracer(name, &s, regs->x[5]);
	if (u->link_pending) {
		u->pc = regs->x[5];
		return true;
	}
	u->regs = NULL;
	u->sp = s.fp_set ? regs_fp(regs) : regs_sp(regs);
	return read_frame(u, &s, regs, &u->pc, &u->fp) && in_text(u->pc);
}

notrace bool unwind_step(struct unwind *u)
{
	unsigned long fp = u->fp;

	if (u->regs)
		return step_from_regs(u);
	if (u->pc >= (unsigned long)exception_vector && u->pc < (unsigned long)exception_vector_end) {
		u->regs = (struct trap_frame *)(fp - sizeof(struct trap_frame));
		if ((unsigned long)u->regs < u->low || fp > u->high || fp % 8)
			return false;
		u->pc = regs_pc(u->regs);
		u->fp = regs_fp(u->regs);
		u->sp = regs_sp(u->regs);
		return in_text(u->pc);
	}
	if (fp % 8 || fp < u->sp || !read_stack(u, fp - 8, &u->pc) || !read_stack(u, fp - 16, &u->fp))
		return false;
	u->sp = fp;
	return in_text(u->pc);
}
