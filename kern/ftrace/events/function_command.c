/*
 * Commands in set_ftrace_filter, as on Linux:
 *
 *	glob:traceon[:count]		each call of these functions switches recording on
 *	glob:traceoff[:count]		... off
 *	glob:stacktrace[:count]		... writes a stack trace
 *	glob:snapshot[:count]		... takes a snapshot
 *	glob:enable_event:SYSTEM:EVENT[:count]
 *					... switches an event on: it is recorded from then on
 *	glob:disable_event:SYSTEM:EVENT[:count]
 *					... off
 *	!glob:command			not at these functions any more
 *	!glob:command:0			the same, of a command with a count
 *
 * No glob is "*".
 *
 * A command belongs to the trace array of its file. It is no part of the filter: writing
 * with `>` does not remove it, and it acts whatever the filter selects and whatever the
 * tracer is. Each function counts for itself. At a function where the command is set
 * already nothing changes.
 *
 * Each command of a trace array, with its event if it names one, is one op if it has
 * counts, and another one if it has none. An op is registered while it has a function. A
 * hit runs on any CPU, in any context, and takes no lock. It finds its count in the op's
 * lists of counts, one for each word that was written. The order of stores, with
 * ftrace_lock held:
 *
 * - Add: (1) fill the list; (2) smp_wmb(), link it before the others, so that a function
 *   that was removed and is added again has the new count; (3) the op's hash and the
 *   sites (ftrace_set_hash(), ftrace_startup()). A function whose site calls the op
 *   therefore has a count.
 * - Count down: compare and exchange, so that two CPUs do not take the same one.
 * - Remove: (1) the hash and the sites; lists stay as long as the op has a function;
 *   (2) after the last function ftrace_shutdown(), after which no CPU is inside the
 *   callback; (3) free the lists and the op. So does a module that is removed, with its
 *   functions.
 */
#include "asm-ftrace/regs.h"
#include "errno.h"
#include "event_write.h"
#include "filter.h"
#include "hash.h"
#include "module.h"
#include "print.h"
#include "string.h"
#include "trace.h"
#include "tracefs.h"

struct place {
	unsigned long ip;
	long left;
};

struct counts {
	struct counts *next;
	u32 count;
	struct place at[]; /* sorted by ip */
};

enum act { TRACEOFF, TRACEON, STACKTRACE, SNAPSHOT, ENABLE_EVENT, DISABLE_EVENT };
static const char *const names[] = {"traceoff", "traceon", "stacktrace", "snapshot",
				    "enable_event", "disable_event"};

struct function_command {
	struct function_command *next;
	struct trace_array *tr;
	enum act act;
	/* the event to enable or disable, which event_aim() knows of; or NULL */
	struct trace_event_file *target;
	bool counted;
	struct counts *counts;
	struct ftrace_ops op; /* its private is this structure */
};
static struct function_command *commands; /* in the order in which they were made; ftrace_lock */

/* ---- A hit ---- */

static struct place *find_in(struct counts *c, unsigned long ip)
{
	u32 low = 0, high = c->count;

	while (low < high) {
		u32 middle = (low + high) / 2;

		if (c->at[middle].ip < ip)
			low = middle + 1;
		else
			high = middle;
	}
	return low < c->count && c->at[low].ip == ip ? &c->at[low] : NULL;
}

static struct place *find_place(const struct function_command *f, unsigned long ip)
{
	struct place *place = NULL;

	for (struct counts *c = READ_ONCE(f->counts); c && !place; c = c->next)
		place = find_in(c, ip);
	return place;
}

/* Take one of the function's count. False: none is left. */
static bool take(const struct function_command *f, unsigned long ip)
{
	struct place *place = f->counted ? find_place(f, ip) : NULL;
	long left = place ? READ_ONCE(place->left) : 0;

	while (left && !__atomic_compare_exchange_n(&place->left, &left, left - 1, false,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return left || !f->counted;
}

/* Is recording on, or off, already, or the event? Such a call is not counted. */
static bool has_no_effect(const struct function_command *f)
{
	if (f->target)
		return READ_ONCE(f->target->enabled) == (f->act == ENABLE_EVENT);
	return f->act <= TRACEON && tracing_is_on(f->tr) == (f->act == TRACEON);
}

static void command_hit(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			struct ftrace_regs *regs)
{
	const struct function_command *f = op->private;

	if (has_no_effect(f) || !take(f, ip))
		return;
	if (f->target)
		WRITE_ONCE(f->target->enabled, f->act == ENABLE_EVENT);
	else if (f->act <= TRACEON)
		tracing_slow(f->tr, RB_OFF, f->act == TRACEOFF);
	else if (f->act == SNAPSHOT)
		tracing_snapshot(f->tr, -1);
	else
		trace_write_stack(f->tr, ip, parent_ip, regs);
}

/* ---- A word is written: ftrace_lock held ---- */

struct word {
	const char *glob;
	size_t glob_len;
	enum act act;
	struct trace_event_file *target;
	bool out, counted;
	u64 count;
};

/* -ENOENT: there is no such command. @text is cut into its parts. events_lock held. */
static int parse(struct word *w, char *text, const struct trace_array *tr)
{
	char *rest = text + (*text == '!'), *name, *group;
	struct trace_probe_event *event;

	*w = (struct word){.glob = rest, .out = *text == '!'};
	w->glob = *event_part(&rest) ? w->glob : "*";
	w->glob_len = strlen(w->glob);
	name = event_part(&rest);
	while (w->act < ARRAY_SIZE(names) && strcmp(names[w->act], name))
		w->act++;
	if (w->act == ARRAY_SIZE(names))
		return -ENOENT;
	if (w->act >= ENABLE_EVENT) {
		group = event_part(&rest);
		name = event_part(&rest);
		event = name ? event_find(group, name) : NULL;
		if (!event)
			return -EINVAL;
		w->target = event_file_of(event, tr);
	}
	if (w->target && rest && !*rest)
		return -EINVAL;
	w->counted = rest && (w->out || *rest);
	if (!w->counted || w->out)
		return 0;
	return kstrtou64(rest, 0, &w->count) || w->count > INT32_MAX ? -EINVAL : 0;
}

static bool is_at(const struct function_command *f, const struct dyn_ftrace *rec)
{
	return f->op.slot >= 0 && ftrace_filter_has(&f->op.filter, rec, false);
}

/* Does @w change whether the command is set at @rec? */
static bool changes(const struct word *w, const struct function_command *f,
		    const struct dyn_ftrace *rec)
{
	return is_at(f, rec) == w->out && (w->out || !(rec->flags & FTRACE_FL_DISABLED)) &&
	       glob_match(w->glob, w->glob_len, ftrace_name(rec));
}

static void free_command(struct function_command *f)
{
	struct function_command **link = &commands;

	while (*link && *link != f)
		link = &(*link)->next;
	if (*link)
		*link = f->next;
	ftrace_hash_free(f->op.filter.filter_hash);
	for (struct counts *c = f->counts, *next; c; c = next) {
		next = c->next;
		kfree(c);
	}
	kfree(f);
}

/* Make @set the functions of the command; without one, free it. */
static int set_functions(struct function_command *f, const struct ftrace_set *set)
{
	int err;

	if (!set->count) {
		err = ftrace_shutdown(&f->op);
		free_command(f);
		return err;
	}
	err = ftrace_set_hash(&f->op.filter, set, false);
	return err || f->op.slot >= 0 ? err : ftrace_startup(&f->op);
}

/* The counts of the functions at which @w adds the command. NULL: no memory. */
static struct counts *make_counts(const struct function_command *f, const struct word *w, u32 count)
{
	struct counts *c = kzalloc(sizeof(*c) + count * sizeof(c->at[0]));

	if (!c)
		return NULL;
	for_each_ftrace_rec(rec)
		if (changes(w, f, rec))
			c->at[c->count++] = (struct place){ftrace_ip(rec), w->count};
	return c;
}

static int add(struct function_command *f, const struct word *w, const struct ftrace_set *set,
	       u32 count)
{
	struct counts *c = w->counted ? make_counts(f, w, count) : NULL;
	int err;

	if (w->counted && !c)
		return -ENOMEM;
	if (c) {
		c->next = f->counts;
		smp_wmb();
		WRITE_ONCE(f->counts, c);
	}
	err = set_functions(f, set);
	if (err && c) {
		WRITE_ONCE(f->counts, c->next);
		synchronize_sched();
		kfree(c);
	}
	return err;
}

static struct function_command *find(const struct trace_array *tr, const struct word *w)
{
	struct function_command *f = commands;

	while (f && (f->tr != tr || f->act != w->act || f->target != w->target ||
		     f->counted != w->counted))
		f = f->next;
	return f;
}

static struct function_command *make(struct trace_array *tr, const struct word *w)
{
	struct function_command *f = kzalloc(sizeof(*f)), **link = &commands;

	if (!f)
		return NULL;
	*f = (struct function_command){
		.tr = tr, .act = w->act, .target = w->target, .counted = w->counted};
	f->op = (struct ftrace_ops){.func = command_hit, .slot = -1, .private = f};
	while (*link)
		link = &(*link)->next;
	*link = f;
	return f;
}

/* @set: empty. -EINVAL: there is no such function, or for "!" none with the command. */
static int change(struct function_command *f, const struct word *w, struct ftrace_set *set)
{
	bool found = false;
	u32 changed = 0;

	for_each_ftrace_rec(rec) {
		bool now = is_at(f, rec), other = changes(w, f, rec);

		ftrace_set_put(set, rec, now != other);
		changed += other;
		found |= other || (now && glob_match(w->glob, w->glob_len, ftrace_name(rec)));
	}
	if (!changed)
		return found && !w->out ? 0 : -EINVAL;
	return w->out ? set_functions(f, set) : add(f, w, set, changed);
}

static int carry_out(struct trace_array *tr, const struct word *w)
{
	struct function_command *f = find(tr, w);
	struct ftrace_set *set;
	int err = -ENOMEM;

	if (!f && w->out)
		return -EINVAL;
	f = f ?: make(tr, w);
	set = ftrace_set_new();
	if (f && set)
		err = change(f, w, set);
	ftrace_set_free(set);
	if (f && err && f->op.slot < 0)
		free_command(f);
	return err;
}

/*
 * Carry out a word of a command with an event. The event knows how many commands may enable it:
 * one more before the first call can do so, one less after the last one.
 */
static int carry_out_event(struct trace_array *tr, const struct word *w)
{
	bool was = find(tr, w);
	int err = w->out ? 0 : event_aim(w->target, 1);

	if (!err) {
		mutex_lock(&ftrace_lock);
		err = carry_out(tr, w);
		mutex_unlock(&ftrace_lock);
	}
	if (w->out ? was && !find(tr, w) : was || !find(tr, w))
		event_aim(w->target, -1);
	return err;
}

/* trace_lock and events_lock are held. */
static int apply_locked(struct trace_array *tr, char *text)
{
	struct word w;
	int err = parse(&w, text, tr);

	if (err)
		return err;
	if (!w.out) /* the buffers get their full size, as when a tracer is chosen */
		tracing_expand(tr);
	if (!w.out && w.act == SNAPSHOT)
		err = tracing_alloc_snapshot(tr);
	if (err)
		return err;
	if (w.target)
		return carry_out_event(tr, &w);
	mutex_lock(&ftrace_lock);
	err = carry_out(tr, &w);
	mutex_unlock(&ftrace_lock);
	return err;
}

static int command_apply(const struct file *file, const char *word)
{
	char *text = event_trimmed(word, strlen(word));
	int err;

	if (!text)
		return -ENOMEM;
	events_lock_all();
	err = apply_locked(trace_array_of(file), text);
	events_unlock_all();
	kfree(text);
	return err;
}

/* ---- Listed after the filter: ftrace_lock held ---- */

static void show_at(struct seq *s, const struct function_command *f, const struct dyn_ftrace *rec)
{
	const struct place *place = find_place(f, ftrace_ip(rec));

	ftrace_show_name(s, rec, "");
	seq_printf(s, ":%s:", names[f->act]);
	if (f->target)
		seq_printf(s, "%s:%s:", f->target->event->def->group, f->target->event->def->event);
	if (place)
		seq_printf(s, "count=%ld\n", READ_ONCE(place->left));
	else
		seq_printf(s, "unlimited\n");
}

static void command_show(struct seq *s)
{
	for (const struct function_command *f = commands; f; f = f->next)
		for_each_ftrace_rec(rec)
			if (f->tr == trace_array_of(s->file) && is_at(f, rec))
				show_at(s, f, rec);
}
FILTER_COMMANDS(command_apply, command_show,
		" (a command: traceon, traceoff, stacktrace or snapshot, or enable_event or "
		"disable_event and :SYSTEM:EVENT; and perhaps a count)");

/* ---- Instances ---- */

/* The command ends at the functions of @m. Return: it had no others, and is freed. */
static bool leave_module(struct function_command *f, const struct module *m)
{
	struct ftrace_set *set = ftrace_set_new();
	bool freed = false, is_in = false;

	if (!set)
		return false;
	for_each_ftrace_rec(rec) {
		bool in = module_has_text(m, ftrace_ip(rec));

		ftrace_set_put(set, rec, is_at(f, rec) && !in);
		is_in |= in && is_at(f, rec);
	}
	freed = is_in && !set->count;
	if (is_in)
		set_functions(f, set);
	ftrace_set_free(set);
	return freed;
}

/*
 * Without commands no lock is taken, so that no other thread waits. A command that another thread
 * adds at a function of @m after this stays set, without a function.
 */
static void commands_module(const struct module *m, bool coming)
{
	if (coming || !READ_ONCE(commands))
		return;
	events_lock_all();
	for (struct function_command *f = commands, *next; f; f = next) {
		struct trace_event_file *target = f->target;
		bool freed;

		next = f->next;
		mutex_lock(&ftrace_lock);
		freed = leave_module(f, m);
		mutex_unlock(&ftrace_lock);
		if (freed && target)
			event_aim(target, -1);
	}
	events_unlock_all();
}
MODULE_HOOK(commands_module);

void function_commands_gone(struct trace_array *tr)
{
	mutex_lock(&ftrace_lock);
	for (struct function_command *f = commands, *next; f; f = next) {
		next = f->next;
		if (f->tr == tr) {
			ftrace_shutdown(&f->op);
			free_command(f);
		}
	}
	mutex_unlock(&ftrace_lock);
}
