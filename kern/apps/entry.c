/*
 * entry: calls a traced function, entry_traced, with a pattern in every register (a
 * compiled function has few arguments), and registers ops in unusual ways:
 *
 * 1. Functions that all belong into the last slot of a hash are put into it twice, and
 *    looked for.
 * 2. One op overwrites every register that a callback may overwrite.
 * 3. The same op also changes every argument and the return address.
 * 4. Two ops: the first one called sets pc to return at once, the second one
 *    replaces the link.
 * 5. Two ops trace text_alias_close(), which a batch calls after it has written its
 *    sites.
 * 6. The filter of an op that may change pc gets another function.
 * 7. Two ops that may change pc get the same function: the first record's, then the
 *    last record's.
 * 8. One op more is registered than there are stubs.
 * 9. An op gets a function whose record has FTRACE_FL_DISABLED.
 *
 * Only one run at a time: the ops are never freed.
 */
#include "app.h"

APP("", "call a traced function with a pattern in every register, for grading");

#if STAGE == 4
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "errno.h"
#include "hash.h"
#include "lib/pattern.h"
#include "ftrace_internal.h"

void entry_elsewhere(void), entry_through(void);

static bool changing, returned;

/* sp and the frame pointer before the call: a wrong tracer may not restore them. */
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

/* It jumps to entry_back in its caller, so that a wrong return address does no harm. */
__asm__(
"	.text\n"
TRACED("entry_traced")
JUMP "entry_back\n"
"	.size entry_traced, . - entry_traced\n"
"entry_through:\n"
JUMP "entry_back\n");

/* Call entry_traced; continue at entry_back, with sp and the frame pointer restored. */
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

CALLBACK static void entry_tracer(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				  struct ftrace_regs *regs)
{
	for (int i = 0; i < 8 && changing; i++)
		regs->arg[i] = ~regs->arg[i];
	if (changing)
		regs->link = (unsigned long)entry_elsewhere;
	OVERWRITE();
}

CALLBACK static void entry_counter(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				   struct ftrace_regs *regs)
{
	OVERWRITE();
}

/* Called first, it sets pc to return at once; called second, it replaces the link. */
CALLBACK static void entry_skipper(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				   struct ftrace_regs *regs)
{
	if (returned)
		regs->link = (unsigned long)entry_through;
	else
		regs->pc = parent_ip;
	returned = true;
}

/* Register @op for the function @name only. Return: 0 or -errno. */
__attribute__((noipa)) static int entry_start(struct ftrace_ops *op, ftrace_func_t func,
					      const char *name, uint32_t flags)
{
	int err;

	*op = (struct ftrace_ops){
		.func = func, .flags = FTRACE_OPS_FL_RECURSION | flags, .slot = -1};
	err = ftrace_set_filter(op, name, strlen(name), true, false)
		      ?: register_ftrace_function(op);
	barrier(); /* no tail call: the call returns to here */
	return err;
}

static void end(struct ftrace_ops *op)
{
	unregister_ftrace_function(op);
	ftrace_filter_free(&op->filter);
}

static int with_pattern(void)
{
	/* Its address is not the sign extension of its lower half, unlike that of a static op. */
	static struct ftrace_ops *op;
	int err;

	if (!op)
		op = kmalloc(sizeof(*op));
	if (!op)
		return -ENOMEM;
	err = entry_start(op, entry_tracer, "entry_traced", 0);
	for (int i = 0; i < 2 && !err; i++) {
		changing = i;
		call_traced();
	}
	end(op);
	return err;
}

static int skipped(void)
{
	static struct ftrace_ops one, other;
	int err = entry_start(&one, entry_skipper, "entry_traced", 0)
			  ?: entry_start(&other, entry_skipper, "entry_traced", 0);

	returned = false;
	if (!err)
		call_traced();
	end(&other);
	end(&one);
	return err;
}

/* Add a function to the filter of a registered op that may change pc. */
__attribute__((noipa)) static void entry_own_filter(struct ftrace_ops *op)
{
	ftrace_set_filter(op, "text_alias_close", 16, false, false);
	barrier(); /* as above */
}

static int own_filter(void)
{
	static struct ftrace_ops op;
	int err = entry_start(&op, entry_counter, "entry_traced", FTRACE_OPS_FL_IPMODIFY);

	if (!err)
		entry_own_filter(&op);
	end(&op);
	return err;
}

/* Must fail: only one op that may change pc can have a function. */
__attribute__((noipa)) static void entry_clash(struct ftrace_ops *op)
{
	register_ftrace_function(op);
	barrier(); /* as above */
}

static int clash(void)
{
	static struct ftrace_ops first,
		second = {entry_counter, FTRACE_OPS_FL_RECURSION | FTRACE_OPS_FL_IPMODIFY,
			  .slot = -1};
	/* lines of available_filter_functions */
	const uint32_t numbers[] = {1, ftrace_record_count};
	int err = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(numbers) && !err; i++) {
		char number[12];

		snprintf(number, sizeof(number), "%u", numbers[i]);
		err = entry_start(&first, entry_counter, number, FTRACE_OPS_FL_IPMODIFY)
			      ?: ftrace_set_filter(&second, number, strlen(number), true, false);
		if (!err)
			entry_clash(&second);
		end(&second);
		end(&first);
	}
	return err;
}

/* Called for one op more than there are stubs. */
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

/* The op's only function has FTRACE_FL_DISABLED: its site must not be written. */
__attribute__((noipa)) static int entry_disabled(struct ftrace_ops *op)
{
	int err = register_ftrace_function(op);

	barrier(); /* as above */
	return err;
}

/*
 * Does a registered op select the function of @rec, whose count may not include it? ftrace_lock
 * held.
 */
static bool is_selected(struct dyn_ftrace *rec)
{
	uint16_t count = rec->count;
	bool selected;

	rec->count = 1; /* with another count ftrace_only_op() does not search */
	selected = ftrace_only_op(rec);
	rec->count = count;
	return selected;
}

/*
 * Set or clear FTRACE_FL_DISABLED in the record of entry_traced. An op is not counted in a disabled
 * record, and not removed from it. So while another op selects the function the flag stays as it
 * is. Return: 0 or -EBUSY.
 */
static int set_disabled(bool on)
{
	unsigned long start = (unsigned long)entry_traced;
	struct dyn_ftrace *rec = lookup_rec_range(start, start + 8);
	int err = 0;

	mutex_lock(&ftrace_lock);
	if (is_selected(rec))
		err = -EBUSY;
	else if (on)
		rec->flags |= FTRACE_FL_DISABLED;
	else
		rec->flags &= ~FTRACE_FL_DISABLED;
	mutex_unlock(&ftrace_lock);
	return err;
}

static int disabled(void)
{
	static struct ftrace_ops op = {entry_counter, FTRACE_OPS_FL_RECURSION, .slot = -1};
	int err = ftrace_set_filter(&op, "entry_traced", 12, true, false) ?: set_disabled(true);

	err = err ?: entry_disabled(&op);
	end(&op);
	set_disabled(false);
	return err;
}

/* Two ops for a function that runs after its site was written and before the batch ends. */
static int ready(void)
{
	static struct ftrace_ops first, second;
	int err = entry_start(&first, entry_counter, "text_alias_close", 0)
			  ?: entry_start(&second, entry_counter, "text_alias_close", 0);

	end(&second);
	end(&first);
	return err;
}

__attribute__((noipa)) static void entry_counted(uint32_t count)
{
	__asm__ volatile("" : : "r"(count));
}

/* The first half of the functions is put into the hash. All search from its last slot on. */
__attribute__((noipa)) static void entry_hash(struct ftrace_hash *hash)
{
	uint32_t functions[8], offset = 0, last = (1u << (32 - hash->shift)) - 1;

	for (unsigned i = 0; i < ARRAY_SIZE(functions); i++) {
		do
			offset += 4;
		while (hash_slot(hash, offset) != last);
		functions[i] = offset;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(functions); i++)
		ftrace_hash_add(hash, functions[i % (ARRAY_SIZE(functions) / 2)]);
	entry_counted(hash->count);
	for (unsigned i = 0; i < ARRAY_SIZE(functions); i++)
		ftrace_hash_search(hash, functions[i]);
	barrier(); /* as above */
}

static int hashed(void)
{
	struct ftrace_hash *hash;

	mutex_lock(&ftrace_lock);
	hash = ftrace_hash_new(8);
	if (hash)
		entry_hash(hash);
	ftrace_hash_free(hash);
	mutex_unlock(&ftrace_lock);
	return hash ? 0 : -ENOMEM;
}

int main(int argc, char **argv)
{
	static struct mutex alone;
	int err;

	mutex_lock(&alone);
	set_disabled(false); /* if another op selected the function at the end of the last run */
	err = hashed() ?: with_pattern() ?: ready() ?: skipped() ?: own_filter() ?: clash() ?:
	      fill() ?: disabled();
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
