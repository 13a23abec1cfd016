/*
 * fgraph_op: makes and removes users of function_graph, more than there are slots.
 * Each has a filter of its own.
 *
 *	fgraph_op 0 see wl_leaf_*	both handlers are called
 *	fgraph_op 1 keep wl_pick_*	the same; the entry handler keeps the second argument as
 *					entry data
 *	fgraph_op 2 skip wl_*		the entry handler returns 0: the return handler is not
 *					called
 *	fgraph_op 1 off
 *
 * Each return handler looks for the entry data of its call and of the calling call.
 */
#include "app.h"

APP("0..19 see|keep|skip|off ..", "users of function_graph: see calls, keep data, say no");

#if STAGE >= 6
#include "asm-ftrace/regs.h"
#include "errno.h"
#include "fgraph.h"
#include "lib/pattern.h"
#include "string.h"

/* Changed under user_lock, while not registered. */
static struct hand_user {
	struct fgraph_ops gops;
	struct ftrace_filter filter;
	bool used, keeps, skips;
} hand_users[FGRAPH_USERS + 4];

static mutex_t user_lock;

CALLBACK static int
hand_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops, struct ftrace_regs *regs)
{
	struct hand_user *user = gops->private;
	unsigned long *kept = user->keeps ? fgraph_reserve_data(gops->idx, sizeof(*kept)) : NULL;

	if (kept)
		*kept = regs->arg[1];
	return user->skips ? 0 : user->keeps ? 2 : -1; /* each value but 0 is a yes */
}

CALLBACK static void
hand_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops, struct ftrace_regs *regs)
{
	fgraph_retrieve_data(gops->idx, NULL);
	fgraph_retrieve_parent_data(gops->idx, NULL, 1);
	barrier(); /* so that the second call is no tail call, and returns to here */
}

/* @user is not registered: make it unused. Returns @err. */
static int hand_forget(struct hand_user *user, int err)
{
	ftrace_filter_edit(&user->filter, "", 0, true, false);
	user->used = false;
	return err;
}

/* Make @words the user's filter and register it; on an error it stays unused. */
static int hand_start(struct hand_user *user, int count, char **words)
{
	int err = 0;

	for (int i = 0; i < count && !err; i++)
		err = ftrace_filter_edit(&user->filter, words[i], strlen(words[i]), !i, false);
	if (!err)
		err = register_ftrace_graph(&user->gops);
	return err ? hand_forget(user, err) : 0;
}

/* Return: 0, -errno, or 1 if the words after the number are not valid. */
static int hand_change(struct hand_user *user, int argc, char **argv)
{
	bool keeps = !strcmp(argv[0], "keep"), skips = !strcmp(argv[0], "skip");

	if (argc == 1 && !strcmp(argv[0], "off"))
		return user->used ? hand_forget(user, unregister_ftrace_graph(&user->gops))
				  : -ENOENT;
	if (argc == 1 || !(keeps || skips || !strcmp(argv[0], "see")))
		return 1;
	if (user->used)
		return -EBUSY;
	*user = (struct hand_user){
		.gops = {hand_entry, hand_return, &user->filter, user, .idx = -1},
		.used = true,
		.keeps = keeps,
		.skips = skips,
	};
	return hand_start(user, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	u64 number;
	int err = 1;

	if (argc > 2 && !kstrtou64(argv[1], 10, &number) && number < ARRAY_SIZE(hand_users)) {
		mutex_acquire(&user_lock);
		err = hand_change(&hand_users[number], argc - 2, argv + 2);
		mutex_release(&user_lock);
	}
	if (err < 0)
		return complain(argv[0], argv[1], -err);
	if (err)
		printf("usage: fgraph_op 0..19 see|keep|skip FUNCTION.. | off\n");
	return err;
}
#else
int main(int argc, char **argv)
{
	printf("%s: this kernel's function_graph has one user at most\n", argv[0]);
	return 1;
}
#endif
