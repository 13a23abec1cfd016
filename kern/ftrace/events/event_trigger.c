/*
 * Triggers: what an event causes in its trace array.
 *
 *	traceon traceoff			recording starts, or stops
 *	snapshot				the buffers and their spare ones change places
 *	stacktrace				a stack trace follows the event
 *	enable_event:SYSTEM:EVENT		another event is recorded from now on
 *	disable_event:SYSTEM:EVENT		it is not
 *
 * each with [:COUNT] [if FILTER]. An event that a trigger may enable has its probes started, or
 * its sites patched, all the time: ->aims of its file. A hit only looks at ->enabled.
 */
#include "errno.h"
#include "event_write.h"
#include "print.h"
#include "string.h"
#include "tracefs.h"
#include "unwind.h"

static const char *const names[] = {[TRIGGER_TRACEON] = "traceon",
				    [TRIGGER_TRACEOFF] = "traceoff",
				    [TRIGGER_SNAPSHOT] = "snapshot",
				    [TRIGGER_STACKTRACE] = "stacktrace",
				    [TRIGGER_ENABLE_EVENT] = "enable_event",
				    [TRIGGER_DISABLE_EVENT] = "disable_event"};

/* ---- At a hit ---- */

#define STACK_MAX 64
static unsigned long stacks[NR_CPUS][STACK_MAX]; /* interrupts masked */

void event_write_stack(const struct made_event *m, struct trace_array *tr)
{
	unsigned long *entries = stacks[this_cpu()->index];
	struct stack_entry *e;
	struct trace_write w;
	struct unwind u;
	unsigned count;

	unwind_start_here(&u);
	while (in_tracer(u.pc))
		if (!unwind_next(&u))
			return;
	count = unwind_save(&u, entries, STACK_MAX);
	e = trace_reserve(tr, TRACE_STACK, sizeof(*e) + 8 * count, &w);
	if (e) {
		e->ent.flags &= ~TRACE_FLAG_IRQS_OFF;
		e->ent.flags |= irqs_off(m->flags) ? TRACE_FLAG_IRQS_OFF : 0;
		e->size = count;
		for (unsigned i = 0; i < count; i++)
			put_address(e->caller[i], entries[i]);
	}
	trace_end(&w, e);
}

/* Would the trigger change anything? If not, its count stays. */
static bool has_effect(const struct event_trigger *t, const struct trace_event_file *f)
{
	switch (t->kind) {
	case TRIGGER_TRACEON:
	case TRIGGER_TRACEOFF:
		return tracing_is_on(f->tr) != (t->kind == TRIGGER_TRACEON);
	case TRIGGER_ENABLE_EVENT:
	case TRIGGER_DISABLE_EVENT:
		return READ_ONCE(t->target->enabled) != (t->kind == TRIGGER_ENABLE_EVENT);
	default:
		return true;
	}
}

static void act(const struct event_trigger *t, struct trace_array *tr, const struct made_event *m)
{
	switch (t->kind) {
	case TRIGGER_TRACEON:
	case TRIGGER_TRACEOFF:
		tracing_slow(tr, RB_OFF, t->kind == TRIGGER_TRACEOFF);
		break;
	case TRIGGER_ENABLE_EVENT:
	case TRIGGER_DISABLE_EVENT:
		WRITE_ONCE(t->target->enabled, t->kind == TRIGGER_ENABLE_EVENT);
		break;
	case TRIGGER_SNAPSHOT:
		tracing_snapshot(tr, -1);
		break;
	default:
		event_write_stack(m, tr);
	}
}

/*
 * As on Linux, a trigger without a filter acts before the event, so the event at which traceoff
 * acts is not recorded. stacktrace, and a trigger with a filter, act after it. A count stops at 0.
 */
void event_pull_triggers(struct trace_event_file *f, const struct made_event *m, bool after)
{
	struct event_trigger *t = __atomic_load_n(&f->triggers, __ATOMIC_ACQUIRE);

	for (; t; t = READ_ONCE(t->next)) {
		long left = READ_ONCE(t->left);

		if (after != (t->filter || t->kind == TRIGGER_STACKTRACE) || !left)
			continue;
		if ((t->filter && !event_filter_match(t->filter, m->bytes)) || !has_effect(t, f))
			continue;
		if (left > 0 && !__atomic_compare_exchange_n(&t->left, &left, left - 1, false,
							     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			continue; /* another CPU does it */
		act(t, f->tr, m);
	}
}

/* ---- The file `trigger`: events_lock is held ---- */

static void show_one(struct seq *s, const struct event_trigger *t)
{
	seq_printf(s, "%s", names[t->kind]);
	if (t->target)
		seq_printf(s, ":%s:%s", t->target->event->def->group, t->target->event->def->event);
	if (t->left < 0)
		seq_printf(s, ":unlimited");
	else
		seq_printf(s, ":count=%ld", t->left);
	seq_printf(s, "%s%s\n", t->filter ? " if " : "",
		   t->filter ? event_filter_text(t->filter) : "");
}

static int trigger_show(struct seq *s, u64 item)
{
	const struct trace_event_file *f = s->arg;

	mutex_lock(&events_lock);
	for (const struct event_trigger *t = f->triggers; t; t = t->next)
		show_one(s, t);
	if (!f->triggers) {
		seq_printf(s, "# Available triggers:\n#");
		for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
			seq_printf(s, " %s", names[i]);
		seq_printf(s, "\n");
	}
	mutex_unlock(&events_lock);
	return 1;
}

static int trigger_open(struct file *f)
{
	return seq_open(f, trigger_show, f->node->data);
}

/* The place of a trigger like @t in the list: of its kind, and with its target. */
static struct event_trigger **find_like(struct trace_event_file *f, const struct event_trigger *t)
{
	struct event_trigger **link = &f->triggers;

	while (*link && ((*link)->kind != t->kind || (*link)->target != t->target))
		link = &(*link)->next;
	return link;
}

int event_aim(struct trace_event_file *target, int change)
{
	tracing_expand(target->tr);
	target->aims += change;
	target->was_enabled = true;
	if (!target->aims)
		WRITE_ONCE(target->enabled, target->chosen);
	return probe_event_update(target->event);
}

static void free_trigger(struct event_trigger *t)
{
	kfree(t->filter);
	kfree(t);
}

void event_free_triggers(struct trace_event_file *f)
{
	for (struct event_trigger *t = f->triggers, *next; t; t = next) {
		next = t->next;
		free_trigger(t);
	}
}

static void unlink_trigger(struct trace_event_file *f, struct event_trigger **link)
{
	struct event_trigger *t = *link;

	WRITE_ONCE(*link, t->next);
	probe_event_update(f->event);
	synchronize_sched();
	if (t->target)
		event_aim(t->target, -1);
	free_trigger(t);
}

static int link_trigger(struct trace_event_file *f, struct event_trigger *t)
{
	int err = 0;

	if (t->target)
		err = event_aim(t->target, 1);
	t->next = f->triggers;
	smp_wmb(); /* its fields before the link */
	WRITE_ONCE(f->triggers, t);
	return err ?: probe_event_update(f->event);
}

/* ---- Its language ---- */

struct trigger_words {
	struct trace_event_file *file;
	const char *text; /* as written */
	char *name, *condition;
};

static int refuse(const struct trigger_words *w, const char *at, const char *why)
{
	struct probe_error error = {why, "event trigger parse error"};
	size_t size = strlen(w->text) + 1;

	error.column = at - w->name;
	error.command = kmalloc(size);
	if (error.command)
		error_log_add(w->file->tr, (memcpy(error.command, w->text, size), &error));
	return error.command ? -EINVAL : -ENOMEM;
}

char *event_part(char **next)
{
	char *first = *next, *colon = first ? strchr(first, ':') : NULL;

	if (colon)
		*colon++ = 0;
	*next = colon;
	return first;
}

/* SYSTEM:EVENT */
static int parse_target(const struct trigger_words *w, char **rest, struct event_trigger *t)
{
	char *group = event_part(rest), *name = event_part(rest);
	struct trace_probe_event *e;

	if (!name)
		return refuse(w, w->name, "SYSTEM:EVENT is missing");
	e = event_find(group, name);
	if (!e)
		return refuse(w, group, "There is no such event");
	t->target = event_file_of(e, w->file->tr);
	return 0;
}

static int parse_condition(const struct trigger_words *w, struct event_trigger *t)
{
	const char *text = w->condition;
	char *copy;

	if (strncmp(text, "if ", 3))
		return refuse(w, text, "Only a filter can follow, after if");
	copy = event_trimmed(text + 3, strlen(text + 3));
	return copy ? event_make_filter(w->file, copy, &t->filter) : -ENOMEM;
}

/* NAME[:SYSTEM:EVENT][:COUNT] [if FILTER]; of a removal, the words from COUNT on do not matter. */
static int parse(const struct trigger_words *w, bool removes, struct event_trigger *t)
{
	char *rest = w->name, *name = event_part(&rest);
	u64 count;
	int err = 0;

	while (t->kind < ARRAY_SIZE(names) && strcmp(names[t->kind], name))
		t->kind++;
	if (t->kind == ARRAY_SIZE(names))
		return refuse(w, name,
			      strcmp(name, "hist") ? "There is no such trigger"
						   : "hist triggers are not part of this kernel");
	if (t->kind >= TRIGGER_ENABLE_EVENT)
		err = parse_target(w, &rest, t);
	if (err || removes)
		return err;
	t->left = -1;
	if (rest && (kstrtou64(rest, 0, &count) || count > INT32_MAX))
		return refuse(w, rest, "Invalid count");
	if (rest)
		t->left = count;
	return w->condition ? parse_condition(w, t) : 0;
}

static int add_trigger(const struct trigger_words *w)
{
	struct event_trigger *t = kzalloc(sizeof(*t));
	int err = t ? parse(w, false, t) : -ENOMEM;

	if (!err && *find_like(w->file, t))
		err = -EEXIST;
	if (!err && t->kind == TRIGGER_SNAPSHOT) /* before any hit can take one */
		err = tracing_alloc_snapshot(w->file->tr);
	if (err) {
		if (t)
			free_trigger(t);
		return err;
	}
	err = link_trigger(w->file, t);
	if (err)
		unlink_trigger(w->file, &w->file->triggers);
	return err;
}

static int remove_trigger(const struct trigger_words *w)
{
	struct event_trigger like = {0}, **link;
	int err = parse(w, true, &like);

	if (err)
		return err;
	link = find_like(w->file, &like);
	if (!*link)
		return -ENOENT;
	unlink_trigger(w->file, link);
	return 0;
}

/* [!]TRIGGER */
static int trigger_command(struct trace_event_file *f, char *text, const char *written)
{
	bool removes = *text == '!';
	struct trigger_words w = {f, written + removes, text + removes};

	w.condition = strchr(w.name, ' ');
	if (w.condition)
		*w.condition++ = 0;
	return removes ? remove_trigger(&w) : add_trigger(&w);
}

static ssize_t trigger_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	char *text = event_trimmed(buf, n), *written = event_trimmed(buf, n);
	int err = text && written ? 0 : -ENOMEM;

	events_lock_all();
	if (!err && *text)
		err = trigger_command(f->node->data, text, written);
	events_unlock_all();
	kfree(text);
	kfree(written);
	return err ?: (ssize_t)n;
}

const struct file_ops event_trigger_ops = {trigger_open, seq_read, trigger_write, seq_release};
