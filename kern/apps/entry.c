/*
 * entry: a traced function, called with a pattern in every register, and an op
 * that looks at its struct ftrace_regs and at the stack.
 *
 * No C program can see all of that: a compiled function has few arguments and
 * does not know where sp was when it was called. The op overwrites all that a
 * callback may overwrite. It runs twice: the first time it only looks; the
 * second time it changes every argument and the return address.
 *
 * Then two ops trace the function together: the first that is called lets it
 * return at once, the second takes the return. And an op that may change pc
 * changes its own filter.
 *
 * Then two ops trace what every batch calls at its end, when the sites that it
 * wrote are there already: they must be told of it, before they are registered.
 *
 * An observer outside learns what was right from the addresses that
 * entry_show() loads from. One run at a time: the ops are there once.
 */
#include "app.h"

const char *const program_help[] = {"", "is traced with a pattern in every register, for grading"};

#if STAGE >= 4
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "errno.h"
#include "tracer.h"

/* The registers that a call must find as they were, the frame pointer last, then the link. */
#ifdef __riscv
#define PATTERN "a0,a1,a2,a3,a4,a5,a6,a7,s1,s2,s3,s4,s5,s6,s7,s8,s9,s10,s11"
#define FRAME "s0"
#define LINK "ra"
#else
#define PATTERN "x0,x1,x2,x3,x4,x5,x6,x7,x8,x19,x20,x21,x22,x23,x24,x25,x26,x27,x28"
#define FRAME "x29"
#define LINK "x30"
#endif
#define KEPT 20

enum item {
	LINKED = KEPT, STACK, /* in the function: after what it finds in the others */
	IP, PARENT, OP, SEES_ARGUMENTS, SEES_SP, SEES_PC, SEES_FP, SEES_LINK, /* in the callback */
	RECORD_OF_FUNCTION, RECORD_OF_CALLER,
	READY_ALONE, READY_IN_LIST, /* when sites call it */
	RETURN_TAKEN, OWN_FILTER,
	ITEMS
};

/* What the assembly below reads and writes. */
struct entry {
	uint64_t out[KEPT + 2]; /* as the function found them; link, sp */
	uint64_t in[KEPT];	/* before the call; the last, the frame pointer, is as it is */
	uint64_t sp, through;
};

extern struct entry entry_now;
struct entry entry_now;
void entry_traced(void), entry_site(void), entry_back(void), entry_elsewhere(void), entry_through(void);

/* What the callback was given, and the records that it found: where to go on, and the frame below. */
#define RECORDS 6
static struct {
	uint64_t ip, parent, op;
	struct ftrace_regs regs;
	uint64_t record[RECORDS][2];
} told;

static bool changing;
/*
 * Whose call is out: no other thread's function is returned from elsewhere, nor
 * an interrupt's, which waits. QEMU 7.2 may run a word that was replaced, so
 * that another function comes to the callbacks (grading/stale.py).
 */
static struct thread *calling;
static volatile char entry_seen[2][2 * ITEMS]; /* only looked at; changed */

#ifdef __riscv
__asm__(
"	.text\n"
"	.globl entry_traced, entry_site\n"
"	.type entry_traced, @function\n"
"entry_traced:\n"
"	.section __patchable_function_entries, \"awo\", @progbits, entry_traced\n"
"	.balign 8\n	.8byte entry_site\n"
"	.text\n"
"entry_site:\n	nop\n"
"	lla t2, entry_now\n"
"	.set .Lat, 0\n"
"	.irp reg, " PATTERN "," FRAME "," LINK ",sp\n	sd \\reg, .Lat(t2)\n	.set .Lat, .Lat + 8\n	.endr\n"
"	j entry_back\n"
"	.size entry_traced, . - entry_traced\n"
"	.globl entry_through\n"
"entry_through:\n	lla t2, entry_now + 344\n	sd t2, (t2)\n	j entry_back\n");

/* With the pattern in every register, and back from wherever it went, with sp as it was. */
__attribute__((noipa)) static void call_with_pattern(void)
{
	__asm__ volatile(
	"	lla t2, entry_now\n"
	"	sd sp, %[sp](t2)\n"
	"	.set .Lat, %[in]\n"
	"	.irp reg, " PATTERN "\n	ld \\reg, .Lat(t2)\n	.set .Lat, .Lat + 8\n	.endr\n"
	"	sd s0, .Lat(t2)\n"
	"	.globl entry_back, entry_elsewhere\n"
	"	call entry_traced\n"
	"entry_back:\n"
	"	lla t2, entry_now\n"
	"entry_elsewhere:\n"
	"	ld sp, %[sp](t2)\n"
	"	.set .Lat, %[in] + 8 * 19\n"
	"	ld s0, .Lat(t2)\n"
	: : [in] "i"(offsetof(struct entry, in)), [sp] "i"(offsetof(struct entry, sp))
	: "memory", "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
	  "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11");
}

#define OVERWRITE() __asm__ volatile( \
	"	.set .Lvalue, -1\n" \
	"	.irp reg, a0,a1,a2,a3,a4,a5,a6,a7,t0,t1,t2,t3,t4,t5,t6,ra\n	li \\reg, .Lvalue\n	.set .Lvalue, .Lvalue - 1\n	.endr\n" \
	: : : "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7")
#define RECORD(fp) ((const uint64_t *)(fp) - 2) /* frame below, where to go on */
#else
__asm__(
"	.text\n"
"	.globl entry_traced, entry_site\n"
"	.type entry_traced, %function\n"
"entry_traced:\n"
"	.section __patchable_function_entries, \"awo\", %progbits, entry_traced\n"
"	.balign 8\n	.8byte entry_traced\n"
"	.text\n"
"	nop\n"
"entry_site:\n	nop\n"
"	adrp x10, entry_now\n	add x10, x10, #:lo12:entry_now\n"
"	.set .Lat, 0\n"
"	.irp reg, " PATTERN "," FRAME "," LINK "\n	str \\reg, [x10, .Lat]\n	.set .Lat, .Lat + 8\n	.endr\n"
"	mov x9, sp\n	str x9, [x10, .Lat]\n"
"	b entry_back\n"
"	.size entry_traced, . - entry_traced\n"
"	.globl entry_through\n"
"entry_through:\n	adrp x10, entry_now\n	add x10, x10, #:lo12:entry_now\n	str x10, [x10, 344]\n	b entry_back\n");

/* With the pattern in every register, and back from wherever it went, with sp as it was. */
__attribute__((noipa)) static void call_with_pattern(void)
{
	__asm__ volatile(
	"	adrp x10, entry_now\n	add x10, x10, #:lo12:entry_now\n"
	"	mov x9, sp\n	str x9, [x10, %[sp]]\n"
	"	.set .Lat, %[in]\n"
	"	.irp reg, " PATTERN "\n	ldr \\reg, [x10, .Lat]\n	.set .Lat, .Lat + 8\n	.endr\n"
	"	str x29, [x10, .Lat]\n"
	"	.globl entry_back, entry_elsewhere\n"
	"	bl entry_traced\n"
	"entry_back:\n"
	"	adrp x10, entry_now\n	add x10, x10, #:lo12:entry_now\n"
	"entry_elsewhere:\n"
	"	ldr x9, [x10, %[sp]]\n	mov sp, x9\n"
	"	.set .Lat, %[in] + 8 * 19\n"
	"	ldr x29, [x10, .Lat]\n"
	: : [in] "i"(offsetof(struct entry, in)), [sp] "i"(offsetof(struct entry, sp))
	: "memory", "x30", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
	  "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28");
}

#define OVERWRITE() __asm__ volatile( \
	"	.set .Lvalue, -1\n" \
	"	.irp reg, x0,x1,x2,x3,x4,x5,x6,x7,x8,x9,x10,x11,x12,x13,x14,x15,x16,x17,x30\n	mov \\reg, .Lvalue\n	.set .Lvalue, .Lvalue - 1\n	.endr\n" \
	: : : "x30", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17")
#define RECORD(fp) ((const uint64_t *)(fp))
#endif

/* Those between the callback's frame and the function's caller. */
static inline void walk(uint64_t fp)
{
	for (int i = 0; i < RECORDS && fp % 8 == 0 && fp >= (uint64_t)__builtin_frame_address(0) && fp <= entry_now.sp; i++) {
		told.record[i][0] = RECORD(fp)[1];
		told.record[i][1] = RECORD(fp)[0];
		fp = RECORD(fp)[0];
	}
}

__attribute__((noipa)) static notrace void
entry_tracer(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	if (current != calling)
		return;
	told.ip = ip;
	told.parent = parent_ip;
	told.op = (uint64_t)op;
	told.regs = *regs;
	walk((uint64_t)__builtin_frame_address(0));
	for (int i = 0; i < 8 && changing; i++)
		regs->arg[i] = ~regs->arg[i];
	if (changing)
		regs->link = (unsigned long)entry_elsewhere;
	OVERWRITE();
}

__attribute__((noipa)) static notrace void
entry_counter(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	op->private = (char *)op->private + 1;
}

_Static_assert(offsetof(struct entry, through) == 344, "entry_through() has it as a number");

/* The one that is called first returns at once; the one after it takes the return. */
__attribute__((noipa)) static notrace void
entry_skipper(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	if (current != calling)
		return;
	if (told.op)
		regs->link = (unsigned long)entry_through;
	else
		regs->pc = parent_ip;
	told.op = (uint64_t)op;
}

/* One thing was as it must be, or was not: an address says which. */
__attribute__((noipa)) static void entry_show(unsigned item, bool right)
{
	(void)entry_seen[changing][2 * item + right];
}

/* What the function found: the first eight are its arguments. */
static void show_function(const struct entry *e)
{
	for (unsigned i = 0; i < KEPT; i++)
		entry_show(i, e->out[i] == (changing && i < 8 ? ~e->in[i] : e->in[i]));
	entry_show(LINKED, e->out[LINKED] == (uint64_t)(changing ? entry_elsewhere : entry_back));
	entry_show(STACK, e->out[STACK] == e->sp);
}

static bool sees_arguments(const struct entry *e)
{
	bool right = true;

	for (unsigned i = 0; i < 8; i++)
		right &= told.regs.arg[i] == e->in[i];
#ifdef __aarch64__
	right &= told.regs.x8 == e->in[8];
#endif
	return right;
}

static void show_callback(const struct entry *e, const struct ftrace_ops *op)
{
	uint64_t site = (uint64_t)entry_site, back = (uint64_t)entry_back;
	int i = 0;

	while (i < RECORDS - 2 && told.record[i][0] != site + 4)
		i++;
	entry_show(IP, told.ip == site);
	entry_show(PARENT, told.parent == back);
	entry_show(OP, told.op == (uint64_t)op);
	entry_show(SEES_ARGUMENTS, sees_arguments(e));
	entry_show(SEES_SP, told.regs.sp == e->sp);
	entry_show(SEES_PC, told.regs.pc == site + 4);
	entry_show(SEES_FP, told.regs.fp == e->in[KEPT - 1]);
	entry_show(SEES_LINK, told.regs.link == back);
	entry_show(RECORD_OF_FUNCTION, told.record[i][0] == site + 4);
	entry_show(RECORD_OF_CALLER, told.record[i + 1][0] == back && told.record[i + 1][1] == e->in[KEPT - 1]);
}

/* -EBUSY: function_graph would wait for a return that the callbacks take. Until the lock is free no user comes. */
static int fresh_call(struct entry *e)
{
	unsigned long flags;
	int err = -EBUSY;

	memset(&told, 0, sizeof(told));
	memset(e, 0, sizeof(*e));
	for (unsigned i = 0; i < KEPT; i++)
		e->in[i] = 0x5ca1ab1e00000000 + 0x10001 * (i + 1);
	mutex_lock(&ftrace_lock);
	if (!current->ftrace) {
		flags = irq_save();
		calling = current;
		call_with_pattern();
		calling = NULL;
		irq_restore(flags);
		err = 0;
	}
	mutex_unlock(&ftrace_lock);
	return err;
}

static int traced_call(bool change, const struct ftrace_ops *op)
{
	struct entry *e = &entry_now;
	int err;

	changing = change;
	err = fresh_call(e);
	if (!err) {
		show_function(e);
		show_callback(e, op);
	}
	return err;
}

/* Only @op gets the function: 0, or -errno. */
static int start(struct ftrace_ops *op, ftrace_func_t func, const char *name, uint32_t flags)
{
	int err;

	*op = (struct ftrace_ops){.func = func, .flags = FTRACE_OPS_FL_RECURSION | flags, .slot = -1};
	err = ftrace_set_filter(op, name, strlen(name), true, false);
	return err ? err : register_ftrace_function(op);
}

static void end(struct ftrace_ops *op)
{
	unregister_ftrace_function(op);
	ftrace_free_filter(op);
}

static int with_pattern(void)
{
	static struct ftrace_ops op;
	int err = start(&op, entry_tracer, "entry_traced", 0);

	if (!err)
		err = traced_call(false, &op);
	if (!err)
		err = traced_call(true, &op);
	end(&op);
	return err;
}

static int skipped(void)
{
	static struct ftrace_ops one, other;
	int err = start(&one, entry_skipper, "entry_traced", 0);

	if (!err)
		err = start(&other, entry_skipper, "entry_traced", 0);
	if (!err)
		err = fresh_call(&entry_now);
	if (!err)
		entry_show(RETURN_TAKEN, entry_now.through && !entry_now.out[STACK]);
	end(&other);
	end(&one);
	return err;
}

/* An op that may change pc has the functions that it keeps already. */
static int own_filter(void)
{
	static struct ftrace_ops op;
	int err = start(&op, entry_counter, "entry_traced", FTRACE_OPS_FL_IPMODIFY);

	if (!err)
		entry_show(OWN_FILTER, !ftrace_set_filter(&op, "text_alias_close", 16, false, false));
	end(&op);
	return err;
}

/* One op, then another one too, on a function that runs between the store to its site and the end of the batch. */
static int ready(void)
{
	static struct ftrace_ops first, second;
	int err = start(&first, entry_counter, "text_alias_close", 0);

	if (!err) {
		entry_show(READY_ALONE, first.private == (void *)1);
		err = start(&second, entry_counter, "text_alias_close", 0);
	}
	if (!err)
		entry_show(READY_IN_LIST, first.private == (void *)2 && second.private == (void *)1);
	end(&second);
	end(&first);
	return err;
}

static int run(void)
{
	int err = with_pattern();

	if (!err)
		err = ready();
	if (!err)
		err = skipped();
	if (!err)
		err = own_filter();
	return err;
}

int main(int argc, char **argv)
{
	static struct mutex alone;
	int err;

	if (!mutex_trylock(&alone))
		return complain(argv[0], "it runs already", EBUSY);
	err = run();
	mutex_unlock(&alone);
	return err ? complain(argv[0], err == -EBUSY ? "function_graph is in use" : "register_ftrace_function", -err) : 0;
}
#else
int main(int argc, char **argv)
{
	printf("%s: this kernel's callbacks see no registers\n", argv[0]);
	return 1;
}
#endif
