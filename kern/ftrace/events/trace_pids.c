/*
 * Which threads are recorded, by their pids:
 *
 *	set_ftrace_pid		these threads' function calls, and no others
 *	set_ftrace_notrace_pid	all but these threads'
 *	set_event_pid, set_event_notrace_pid	the same for trace events
 *
 * A thread that a listed thread creates is listed too, and leaves the list when it ends, while
 * the option function-fork (of the first two files) or event-fork is on. As on Linux
 * sched_switch is recorded if one of its two threads is, and a wake-up if the woken thread is.
 *
 * struct trace_pids (trace.h) is made when a list is first written, and freed with its instance.
 * It changes with pids_lock held, in this order: (1) the bits; (2) ->used; (3) RB_ASK or
 * RB_ASK_EVENT, which send every call or event to the long path, where a hit looks at (1)
 * and (2) without a lock. The end of a list: ->used, then the bits. A hit on another CPU that
 * falls between two of these stores is decided by the one list or the other.
 */
#include "errno.h"
#include "string.h"
#include "thread.h"
#include "trace.h"
#include "tracefs.h"

static struct trace_pids *all;
static struct spinlock pids_lock; /* interrupts masked */

static void put(struct trace_pids *p, int list, unsigned pid, bool on)
{
	u64 *word = &p->list[list][pid / 64], bit = 1ul << pid % 64;

	WRITE_ONCE(*word, on ? *word | bit : *word & ~bit);
}

/* ---- A thread is created, or ends ---- */

/* @prev creates @next, or (NULL) has ended: its last switch is recorded already. */
static void follow(struct trace_pids *p, const struct thread *prev, const struct thread *next)
{
	for (int list = PIDS_ONLY; list <= PIDS_NOT; list++)
		if (trace_pids_has(p, list, prev->pid))
			put(p, list, next ? next->pid : prev->pid, next);
}

static void pids_hook(enum thread_event event, struct thread *prev, struct thread *next)
{
	bool ends = event == THREAD_SWITCH && prev->state == THREAD_DEAD;
	unsigned long flags;

	if (!READ_ONCE(all) || (event != THREAD_BORN && !ends))
		return;
	flags = spin_lock_irqsave(&pids_lock);
	for (struct trace_pids *p = all; p; p = p->next)
		if (p->tr->options & p->fork)
			follow(p, prev, ends ? NULL : next);
	spin_unlock_irqrestore(&pids_lock, flags);
}
THREAD_HOOK(pids_hook);

/* ---- The files ---- */

/* A file's data: which list it is. */
struct which {
	bool events;
	int list;
	const char *none; /* the text of a list that is not in use */
};

static struct trace_pids **pids_of(const struct file *f)
{
	const struct which *which = f->node->data;
	struct trace_array *tr = trace_array_of(f);

	return which->events ? &tr->event_pids : &tr->function_pids;
}

static int pids_show(struct seq *s, u64 item)
{
	const struct which *which = s->file->node->data;
	const struct trace_pids *p = *pids_of(s->file);

	if (!p || !p->used[which->list]) {
		seq_printf(s, "%s", which->none);
		return 1;
	}
	for (unsigned pid = 0; pid < TRACE_PIDS; pid++)
		if (trace_pids_has(p, which->list, pid))
			seq_printf(s, "%u\n", pid);
	return 1;
}

static int make(const struct file *f)
{
	const struct which *which = f->node->data;
	struct trace_pids *p = kzalloc(sizeof(*p));
	unsigned long flags;

	if (!p)
		return -ENOMEM;
	p->tr = trace_array_of(f);
	p->fork = which->events ? TRACE_ITER_EVENT_FORK : TRACE_ITER_FUNCTION_FORK;
	flags = spin_lock_irqsave(&pids_lock);
	p->next = all;
	WRITE_ONCE(all, p);
	spin_unlock_irqrestore(&pids_lock, flags);
	smp_wmb(); /* its fields before the pointer */
	WRITE_ONCE(*pids_of(f), p);
	return 0;
}

/* Add the threads in @add, or (NULL) end the list. trace_lock held. */
static int change(const struct file *f, const u64 *add)
{
	int list = ((const struct which *)f->node->data)->list;
	int err = *pids_of(f) || !add ? 0 : make(f);
	struct trace_pids *p = *pids_of(f);
	unsigned long flags;

	if (err || !p)
		return err;
	flags = spin_lock_irqsave(&pids_lock);
	if (!add)
		WRITE_ONCE(p->used[list], false);
	for (unsigned i = 0; i < TRACE_PIDS / 64; i++)
		WRITE_ONCE(p->list[list][i], add ? p->list[list][i] | add[i] : 0);
	if (add)
		WRITE_ONCE(p->used[list], true);
	spin_unlock_irqrestore(&pids_lock, flags);
	tracing_options_changed(trace_array_of(f));
	return 0;
}

static int pids_open(struct file *f)
{
	if (f->flags & O_TRUNC && (f->flags & O_ACCMODE) != O_RDONLY) {
		mutex_lock(&trace_lock);
		change(f, NULL);
		mutex_unlock(&trace_lock);
	}
	return seq_open(f, pids_show, NULL);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || !c;
}

/* Read the word at the start of @text into @pids. Return: its length, or -errno. */
static ssize_t parse_word(struct file *f, const char *text, size_t n, u64 *pids)
{
	char word[24];
	size_t length = 0;
	u64 pid;

	while (length < n && !is_blank(text[length]))
		length++;
	memcpy(word, text, MIN(length, sizeof(word) - 1));
	word[MIN(length, sizeof(word) - 1)] = 0;
	if (length >= sizeof(word) || kstrtou64(word, 0, &pid))
		return tracefs_refuse(f, -EINVAL, "'%s' is not a pid", word);
	if (pid >= TRACE_PIDS)
		return tracefs_refuse(f, -EPERM, "a pid is below %d", TRACE_PIDS);
	pids[pid / 64] |= 1ul << pid % 64;
	return length;
}

/* All words are added, or none. */
static ssize_t pids_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	u64 pids[TRACE_PIDS / 64] = {0};
	bool any = false;
	int err = 0;

	for (size_t at = 0; at < n; at++) {
		ssize_t length = is_blank(buf[at]) ? 0 : parse_word(f, buf + at, n - at, pids);

		if (length < 0)
			return length;
		any |= length;
		at += length;
	}
	mutex_lock(&trace_lock);
	if (any)
		err = change(f, pids);
	mutex_unlock(&trace_lock);
	return err ?: (ssize_t)n;
}

static const struct file_ops pids_ops = {pids_open, seq_read, pids_write, seq_release};
static const struct which only = {false, PIDS_ONLY, "no pid\n"};
static const struct which not = {false, PIDS_NOT, "no pid\n"};
static const struct which only_events = {true, PIDS_ONLY, ""};
static const struct which not_events = {true, PIDS_NOT, ""};
TRACEFS_INSTANCE_FILE(ftrace_pid, "set_ftrace_pid", 0644, &pids_ops, (void *)&only);
TRACEFS_INSTANCE_FILE(ftrace_notrace_pid, "set_ftrace_notrace_pid", 0644, &pids_ops, (void *)&not);
TRACEFS_INSTANCE_FILE(event_pid, "set_event_pid", 0644, &pids_ops, (void *)&only_events);
TRACEFS_INSTANCE_FILE(event_notrace_pid, "set_event_notrace_pid", 0644, &pids_ops,
		      (void *)&not_events);

/* ---- Instances ---- */

static int pids_made(struct trace_array *tr)
{
	return 0;
}

/* Its tracer may still run: trace_array_free() frees the lists. */
static void pids_gone(struct trace_array *tr)
{
	unsigned long flags = spin_lock_irqsave(&pids_lock);

	for (struct trace_pids **link = &all; *link;)
		if ((*link)->tr == tr)
			*link = (*link)->next;
		else
			link = &(*link)->next;
	spin_unlock_irqrestore(&pids_lock, flags);
}
INSTANCE_HOOK(pids_made, pids_gone);
