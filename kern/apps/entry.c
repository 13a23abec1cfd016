/*
 * entry: a traced function that is called with a pattern in every register.
 *
 * A compiled function has few arguments. This one is called with a value in
 * each register, first with an op that overwrites all that a callback may
 * overwrite; then that op also changes every argument and the return address.
 * Then two ops trace the function together: the one that is called first lets
 * it return at once, the other one takes the return. Then two ops trace what
 * every batch calls at its end, when the sites that it wrote are there
 * already. Then an op that may change pc gets another function in its filter;
 * two of them get the same function, the first and the last that there is; one
 * op more is registered than there are stubs; and an op gets a function whose
 * site is never to be written again.
 *
 * One run at a time: the ops are there once.
 */
#include "app.h"

const char *const program_help[] = {"", "is traced with a pattern in every register, for grading"};

#if STAGE == 4
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "errno.h"
#include "lib/pattern.h"
#include "overwrite.h"
#include "tracer.h"

void entry_elsewhere(void), entry_through(void);

static bool changing, returned;

/* sp and the frame pointer before the call. A tracer may lose them. */
static uint64_t entry_kept[2] __used;
#ifdef __riscv
#define KEEP_STACK "	lla t2, entry_kept\n	sd sp, 0(t2)\n	sd s0, 8(t2)\n"
#define TAKE_STACK "	lla t2, entry_kept\n	ld sp, 0(t2)\n	ld s0, 8(t2)\n"
#else
#define AT_KEPT "	adrp x10, entry_kept\n	add x10, x10, #:lo12:entry_kept\n"
#define KEEP_STACK AT_KEPT "	mov x9, sp\n	stp x9, x29, [x10]\n"
#define TAKE_STACK AT_KEPT "	ldp x9, x29, [x10]\n	mov sp, x9\n"
#endif

void entry_traced(void);

/* It jumps to where its caller goes on: it ends well whatever the tracer did to the return address. */
__asm__(
"	.text\n"
TRACED("entry_traced")
JUMP "entry_back\n"
"	.size entry_traced, . - entry_traced\n"
"entry_through:\n"
JUMP "entry_back\n");

/* And back from wherever it went. */
__attribute__((noipa)) static void call_traced(void)
{
	unsigned long flags = irq_save();

	__asm__ volatile(
	KEEP_STACK
	SET_PATTERN
	CALL "entry_traced\n"
	"entry_back:\n	nop\n"
	"entry_elsewhere:\n"
	TAKE_STACK
	: : : PATTERN_CLOBBERS);
	irq_restore(flags);
}

/* Of ops that guard themselves (FTRACE_OPS_FL_RECURSION). */
#define CALLBACK __attribute__((noipa, section(".ftrace.text"))) notrace

CALLBACK static void
entry_tracer(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	for (int i = 0; i < 8 && changing; i++)
		regs->arg[i] = ~regs->arg[i];
	if (changing)
		regs->link = (unsigned long)entry_elsewhere;
	OVERWRITE();
}

CALLBACK static void
entry_counter(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	OVERWRITE();
}

/* The one that is called first returns at once; the one after it takes the return. */
CALLBACK static void
entry_skipper(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	if (returned)
		regs->link = (unsigned long)entry_through;
	else
		regs->pc = parent_ip;
	returned = true;
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

	for (int i = 0; i < 2 && !err; i++) {
		changing = i;
		call_traced();
	}
	end(&op);
	return err;
}

static int skipped(void)
{
	static struct ftrace_ops one, other;
	int err = start(&one, entry_skipper, "entry_traced", 0) ?: start(&other, entry_skipper, "entry_traced", 0);

	returned = false;
	if (!err)
		call_traced();
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

/* Only one op that may change pc can have a function. */
__attribute__((noipa)) static void entry_clash(struct ftrace_ops *op)
{
	register_ftrace_function(op);
	barrier(); /* as above */
}

static int clash(void)
{
	static struct ftrace_ops first, second = {entry_counter, FTRACE_OPS_FL_RECURSION | FTRACE_OPS_FL_IPMODIFY, .slot = -1};
	const uint32_t numbers[] = {1, ftrace_record_count}; /* lines of available_filter_functions */
	int err = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(numbers) && !err; i++) {
		char number[12];

		snprintf(number, sizeof(number), "%u", numbers[i]);
		err = start(&first, entry_counter, number, FTRACE_OPS_FL_IPMODIFY) ?:
		      ftrace_set_filter(&second, number, strlen(number), true, false);
		if (!err)
			entry_clash(&second);
		end(&second);
		end(&first);
	}
	return err;
}

/* An op for each stub, and one more. */
__attribute__((noipa)) static int entry_fill(struct ftrace_ops *op)
{
	int err = register_ftrace_function(op);

	barrier(); /* as above */
	return err;
}

static int fill(void)
{
	static struct ftrace_ops ops[FTRACE_OPS_MAX + 1];
	unsigned count = 0;
	int err = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(ops) && !err; i++) {
		ops[i] = (struct ftrace_ops){.func = entry_counter, .slot = -1};
		err = ftrace_set_filter(&ops[i], "entry_traced", 12, true, false);
		count++;
		if (!err && entry_fill(&ops[i]))
			break;
	}
	while (count-- > 0)
		end(&ops[count]);
	return err;
}

/* The site of its only function is never to be written again: the op goes without. */
__attribute__((noipa)) static int entry_disabled(struct ftrace_ops *op)
{
	int err = register_ftrace_function(op);

	barrier(); /* as above */
	return err;
}

static int disabled(void)
{
	static struct ftrace_ops op = {entry_counter, FTRACE_OPS_FL_RECURSION, .slot = -1};
	unsigned long start = (unsigned long)entry_traced;
	struct dyn_ftrace *rec = lookup_rec_range(start, start + 8);
	int err = ftrace_set_filter(&op, "entry_traced", 12, true, false);

	rec->flags |= FTRACE_FL_DISABLED;
	err = err ?: entry_disabled(&op);
	end(&op);
	rec->flags &= ~FTRACE_FL_DISABLED;
	return err;
}

/* One op, then another one too, on a function that runs between the store to its site and the end of the batch. */
static int ready(void)
{
	static struct ftrace_ops first, second;
	int err = start(&first, entry_counter, "text_alias_close", 0) ?: start(&second, entry_counter, "text_alias_close", 0);

	end(&second);
	end(&first);
	return err;
}

int main(int argc, char **argv)
{
	static struct mutex alone;
	int err;

	mutex_lock(&alone);
	err = with_pattern() ?: ready() ?: skipped() ?: own_filter() ?: clash() ?: fill() ?: disabled();
	mutex_unlock(&alone);
	return err ? complain(argv[0], "register_ftrace_function", -err) : 0;
}
#else
int main(int argc, char **argv)
{
	printf("%s: only lab 4's kernel has this\n", argv[0]);
	return 1;
}
#endif
