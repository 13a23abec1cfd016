/*
 * entry: a traced function that is called with a pattern in every register.
 *
 * A compiled function has few arguments. This one is called with a value in
 * each register, first with an op that overwrites all that a callback may
 * overwrite; then that op also changes every argument and the return address.
 * Then two ops trace the function together: the one that is called first lets
 * it return at once, the other one takes the return. Then two ops trace what
 * every batch calls at its end, when the sites that it wrote are there
 * already. Then an op that may change pc gets another function in its filter.
 *
 * One run at a time: the ops are there once.
 */
#include "app.h"

const char *const program_help[] = {"", "is traced with a pattern in every register, for grading"};

#if STAGE >= 4
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "errno.h"
#include "overwrite.h"
#include "tracer.h"

/* sp and the frame pointer before the call. */
extern uint64_t entry_kept[2];
uint64_t entry_kept[2];
void entry_traced(void), entry_back(void), entry_elsewhere(void), entry_through(void);

static bool changing, returned;

/*
 * entry_traced() has a call site and then jumps to where its caller goes on:
 * it ends well whatever the tracer did to the return address.
 */
#ifdef __riscv
__asm__(
"	.text\n"
"	.globl entry_traced, entry_site, entry_through\n"
"	.type entry_traced, @function\n"
"entry_traced:\n"
"	.section __patchable_function_entries, \"awo\", @progbits, entry_traced\n"
"	.balign 8\n	.8byte entry_site\n"
"	.text\n"
"entry_site:\n	nop\n"
"	j entry_back\n"
"	.size entry_traced, . - entry_traced\n"
"entry_through:\n	j entry_back\n");

/* With a pattern in every register, and back from wherever it went. */
__attribute__((noipa)) static void call_with_pattern(void)
{
	__asm__ volatile(
	"	lla t2, entry_kept\n	sd sp, 0(t2)\n	sd s0, 8(t2)\n"
	"	.set .Lvalue, 0x5ca1ab1e00010001\n"
	"	.irp reg, a0,a1,a2,a3,a4,a5,a6,a7,s1,s2,s3,s4,s5,s6,s7,s8,s9,s10,s11\n"
	"	li \\reg, .Lvalue\n	.set .Lvalue, .Lvalue + 0x10001\n	.endr\n"
	"	.globl entry_back, entry_elsewhere\n"
	"	call entry_traced\n"
	"entry_back:\n	nop\n"
	"entry_elsewhere:\n"
	"	lla t2, entry_kept\n	ld sp, 0(t2)\n	ld s0, 8(t2)\n"
	: : : "memory", "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
	  "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11");
}
#else
__asm__(
"	.text\n"
"	.globl entry_traced, entry_site, entry_through\n"
"	.type entry_traced, %function\n"
"entry_traced:\n"
"	.section __patchable_function_entries, \"awo\", %progbits, entry_traced\n"
"	.balign 8\n	.8byte entry_traced\n"
"	.text\n"
"	nop\n"
"entry_site:\n	nop\n"
"	b entry_back\n"
"	.size entry_traced, . - entry_traced\n"
"entry_through:\n	b entry_back\n");

/* With a pattern in every register, and back from wherever it went. */
__attribute__((noipa)) static void call_with_pattern(void)
{
	__asm__ volatile(
	"	adrp x10, entry_kept\n	add x10, x10, #:lo12:entry_kept\n	mov x9, sp\n	stp x9, x29, [x10]\n"
	"	.set .Lvalue, 1\n"
	"	.irp reg, x0,x1,x2,x3,x4,x5,x6,x7,x8,x19,x20,x21,x22,x23,x24,x25,x26,x27,x28\n"
	"	movz \\reg, #.Lvalue\n	movk \\reg, #.Lvalue, lsl #16\n	movk \\reg, #0xab1e, lsl #32\n	movk \\reg, #0x5ca1, lsl #48\n"
	"	.set .Lvalue, .Lvalue + 1\n	.endr\n"
	"	.globl entry_back, entry_elsewhere\n"
	"	bl entry_traced\n"
	"entry_back:\n	nop\n"
	"entry_elsewhere:\n"
	"	adrp x10, entry_kept\n	add x10, x10, #:lo12:entry_kept\n	ldp x9, x29, [x10]\n	mov sp, x9\n"
	: : : "memory", "x30", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
	  "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28");
}
#endif

__attribute__((noipa)) static notrace void
entry_tracer(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	for (int i = 0; i < 8 && changing; i++)
		regs->arg[i] = ~regs->arg[i];
	if (changing)
		regs->link = (unsigned long)entry_elsewhere;
	OVERWRITE();
}

__attribute__((noipa)) static notrace void
entry_counter(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	OVERWRITE();
}

/* The one that is called first returns at once; the one after it takes the return. */
__attribute__((noipa)) static notrace void
entry_skipper(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	if (returned)
		regs->link = (unsigned long)entry_through;
	else
		regs->pc = parent_ip;
	returned = true;
}

/* -EBUSY: function_graph would wait for a return that the callbacks take. Until the lock is free no user comes. */
static int call_traced(void)
{
	unsigned long flags;
	int err = -EBUSY;

	mutex_lock(&ftrace_lock);
	if (!current->ftrace) {
		flags = irq_save();
		call_with_pattern();
		irq_restore(flags);
		err = 0;
	}
	mutex_unlock(&ftrace_lock);
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

	changing = false;
	if (!err)
		err = call_traced();
	changing = true;
	if (!err)
		err = call_traced();
	end(&op);
	return err;
}

static int skipped(void)
{
	static struct ftrace_ops one, other;
	int err = start(&one, entry_skipper, "entry_traced", 0);

	returned = false;
	if (!err)
		err = start(&other, entry_skipper, "entry_traced", 0);
	if (!err)
		err = call_traced();
	end(&other);
	end(&one);
	return err;
}

/* An op that may change pc has the functions that it keeps already. */
__attribute__((noipa)) static void entry_own_filter(struct ftrace_ops *op)
{
	ftrace_set_filter(op, "text_alias_close", 16, false, false);
	barrier(); /* the call is not the last act: it returns to here */
}

static int own_filter(void)
{
	static struct ftrace_ops op;
	int err = start(&op, entry_counter, "entry_traced", FTRACE_OPS_FL_IPMODIFY);

	if (!err)
		entry_own_filter(&op);
	end(&op);
	return err;
}

/* One op, then another one too, on a function that runs between the store to its site and the end of the batch. */
static int ready(void)
{
	static struct ftrace_ops first, second;
	int err = start(&first, entry_counter, "text_alias_close", 0);

	if (!err)
		err = start(&second, entry_counter, "text_alias_close", 0);
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
