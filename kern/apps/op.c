/*
 * op: makes and removes up to eight ops, each with a filter of its own, that watch
 * the workload's functions, change their arguments, or put another function in
 * their place.
 *
 *	op 0 see wl_leaf_*			watch
 *	op 1 add 31 wl_pick_* wl_wide_oak	add n * 31 to argument n, n = 1, 3 to 7
 *	op 2 patch wl_leaf_elm wl_step_*	wl_leaf_elm runs wherever one of these is called
 *	op 3 hold maple_*			watch, and let no other op change pc; any function
 *	op 3 hold !*				the same, all functions of modules that are loaded
 *						from now on
 *	op 1 off
 *
 * Each callback overwrites every register that a callback may overwrite. Ops
 * with an odd number rely on the core for the guard against recursion.
 */
#include "app.h"

APP("0..7 see|add|patch|hold|off ..", "ops on the workload: watch, change arguments, patch");

#if STAGE >= 4
#include "asm-ftrace/regs.h"
#include "errno.h"
#include "ksyms.h"
#include "lib/pattern.h"
#include "string.h"
#include "ftrace_internal.h"

#define OPS 8

/*
 * Changed under op_lock, while not registered. func: NULL if unused; private: the
 * number to add, or the address that op_patch() stores in pc.
 */
static struct ftrace_ops hand_ops[OPS];
static mutex_t op_lock;

CALLBACK static void
op_see(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	OVERWRITE();
}

/* Arguments 0 and 2 of the workload's functions stay: their context, and the depth that is left. */
CALLBACK static void
op_add(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	for (unsigned long n = 1; n < ARRAY_SIZE(regs->arg); n++)
		if (n != 2)
			regs->arg[n] += n * (unsigned long)op->private;
	OVERWRITE();
}

CALLBACK static void
op_patch(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	regs->pc = (unsigned long)op->private;
	OVERWRITE();
}

/* Only functions of the programs for grading: another function may belong to the shell itself. */
static bool op_is_workload(const char *word)
{
	return !strncmp(word, "wl_", 3) || !strncmp(word, "calls_", 6);
}

/* The address of the workload's function @name; NULL if there is no such function. */
static void *op_entry_of(const char *name)
{
	unsigned long offset;
	void *entry = NULL;

	mutex_lock(&ftrace_lock); /* so that no module is removed while its records are searched */
	for_each_ftrace_rec(rec) {
		const char *found = ksym_lookup(ftrace_ip(rec), &offset, NULL);

		if (found && op_is_workload(name) && !strcmp(found, name)) {
			entry = (void *)(ftrace_ip(rec) - offset);
			break; /* out of the kernel's table; no module has such a name */
		}
	}
	mutex_unlock(&ftrace_lock);
	return entry;
}

/* @op is not registered: make it unused. Returns @err. */
static int op_forget(struct ftrace_ops *op, int err)
{
	ftrace_set_filter(op, "", 0, true, false);
	if (op->filter.notrace_hash)
		ftrace_set_filter(op, "", 0, true, true);
	op->func = NULL;
	return err;
}

/*
 * Does @target lead back to a function of @op through the functions that ops replace? Without @op
 * there is no circle.
 */
static bool op_is_circle(const struct ftrace_ops *op, const void *target)
{
	const struct dyn_ftrace *rec =
		lookup_rec_range((unsigned long)target, (unsigned long)target + 8);

	for (const struct ftrace_ops *o = hand_ops; o < hand_ops + OPS; o++)
		if (o->func == op_patch && ftrace_filter_has(&o->filter, rec, false))
			return o == op || op_is_circle(op, o->private);
	return false;
}

/* May the op select these functions? */
static bool op_is_allowed(const struct ftrace_ops *op, const char *word)
{
	return op_is_workload(word) || (op->func == op_see && op->flags & FTRACE_OPS_FL_IPMODIFY);
}

/*
 * Make @words the op's filter and register it; on an error it stays unused. A word that begins with
 * ! excludes functions.
 */
static int op_start(struct ftrace_ops *op, int count, char **words)
{
	int err = 0;

	for (int i = 0; i < count && !err; i++) {
		bool exclude = words[i][0] == '!';

		err = op_is_allowed(op, words[i])
			      ? ftrace_set_filter(op, words[i] + exclude,
						  strlen(words[i] + exclude), !i, exclude)
			      : -EINVAL;
	}
	if (!err && op->func == op_patch && op_is_circle(op, op->private))
		err = -EINVAL;
	if (!err)
		err = register_ftrace_function(op);
	return err ? op_forget(op, err) : 0;
}

/* Set the op's action from the words. Return: the number of words used, 0 if they are not valid. */
static int op_parse(struct ftrace_ops *op, int argc, char **argv)
{
	u64 more;

	if (!strcmp(argv[0], "see")) {
		op->func = op_see;
		return 1;
	}
	if (!strcmp(argv[0], "hold")) {
		op->func = op_see;
		op->flags |= FTRACE_OPS_FL_IPMODIFY;
		return 1;
	}
	if (argc > 1 && !strcmp(argv[0], "add") && !kstrtou64(argv[1], 0, &more)) {
		op->func = op_add;
		op->private = (void *)more;
		return 2;
	}
	if (argc > 1 && !strcmp(argv[0], "patch")) {
		op->func = op_patch;
		op->flags |= FTRACE_OPS_FL_IPMODIFY;
		op->private = op_entry_of(argv[1]);
		return op->private ? 2 : 0;
	}
	return 0;
}

/* Return: 0, -errno, or 1 if the words after the number are not valid. */
static int op_change(struct ftrace_ops *op, int argc, char **argv)
{
	struct ftrace_ops wanted = {.flags = (op - hand_ops) % 2 ? 0 : FTRACE_OPS_FL_RECURSION,
				    .slot = -1};
	int words;

	if (argc == 1 && !strcmp(argv[0], "off"))
		return op->func ? op_forget(op, unregister_ftrace_function(op)) : -ENOENT;
	words = op_parse(&wanted, argc, argv);
	if (!words || words == argc)
		return 1;
	if (op->func)
		return -EBUSY;
	*op = wanted;
	return op_start(op, argc - words, argv + words);
}

int main(int argc, char **argv)
{
	int err = 1;

	if (argc > 2 && argv[1][0] >= '0' && argv[1][0] < '0' + OPS && !argv[1][1]) {
		mutex_acquire(&op_lock);
		err = op_change(&hand_ops[argv[1][0] - '0'], argc - 2, argv + 2);
		mutex_release(&op_lock);
	}
	if (err < 0)
		return complain(argv[0], argv[1], -err);
	if (err)
		printf("usage: op 0..7 see WL.. | add NUMBER WL.. | patch FUNCTION WL.. | hold "
		       "FUNCTION.. | off\n");
	return err;
}
#else
int main(int argc, char **argv)
{
	printf("%s: this kernel has no ops but the function tracer's\n", argv[0]);
	return 1;
}
#endif
