/* The files of probe events: kprobe_events, dynamic_events, kprobe_profile, and those of each event and group. */
#include "errno.h"
#include "print.h"
#include "probe_event.h"
#include "string.h"
#include "tracefs.h"

#define LINE_MAX 4094

/* A change of events: the buffers may be reset or enlarged. */
static void lock_events(void)
{
	mutex_lock(&trace_lock);
	mutex_lock(&events_lock);
}

static void unlock_events(void)
{
	mutex_unlock(&events_lock);
	mutex_unlock(&trace_lock);
}

/* ---- kprobe_events, dynamic_events: the file's data is not NULL for the latter ---- */

static void show_probe(struct seq *s, const struct event_probe *p)
{
	const struct probe_def *def = p->def;
	int size = probe_describe(NULL, 0, def) + 1;
	u32 maxactive = def->maxactive;
	char *text = kmalloc(size), count[16] = "";

	if (def->kind != 'f' && def->is_return && p->func)
		maxactive = p->kretprobe.maxactive;
	if (maxactive)
		snprintf(count, sizeof(count), "%u", maxactive);
	if (!text) {
		s->lost = true;
		return;
	}
	probe_describe(text, size, def);
	seq_printf(s, "%c%s:%s/%s%s\n", def->kind == 'f' ? 'f' : def->is_return ? 'r' : 'p', count, def->group, def->event, text);
	kfree(text);
}

static void show_hits(struct seq *s, const struct event_probe *p)
{
	seq_printf(s, "  %-44s %15llu %15llu\n", p->def->event, (unsigned long long)p->hits, (unsigned long long)probe_missed(p));
}

/* Show number @item of the probes that the file lists. */
static int show_nth(struct seq *s, u64 item, bool dynamic, void (*show)(struct seq *s, const struct event_probe *p))
{
	struct event_probe *p;

	mutex_lock(&events_lock);
	for (p = event_probes; p; p = p->next)
		if ((dynamic || in_kprobe_events(p)) && !item--)
			break;
	if (p)
		show(s, p);
	mutex_unlock(&events_lock);
	return !p;
}

static int events_show(struct seq *s, u64 item)
{
	return show_nth(s, item, s->arg, show_probe);
}

static int profile_show(struct seq *s, u64 item)
{
	return show_nth(s, item, false, show_hits);
}
TRACEFS_TEXT(kprobe_profile, "kprobe_profile", TRACEFS_TOP, profile_show);

static int events_open(struct file *f)
{
	int err = 0;

	if (f->flags & O_TRUNC && (f->flags & O_ACCMODE) != O_RDONLY) {
		lock_events();
		err = probe_events_clear(f->node->data);
		unlock_events();
	}
	return err ?: seq_open(f, events_show, f->node->data);
}

static int run_line(const char *text, size_t n, bool dynamic)
{
	char *line = n <= LINE_MAX ? kmalloc(n + 1) : NULL, *comment;
	int err;

	if (!line)
		return n <= LINE_MAX ? -ENOMEM : -EINVAL;
	memcpy(line, text, n);
	line[n] = 0;
	comment = strchr(line, '#');
	if (comment)
		*comment = 0;
	lock_events();
	err = probe_events_command(line, dynamic);
	unlock_events();
	kfree(line);
	return err;
}

/* One command for each line; those before a refused one were done. */
static ssize_t events_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	for (size_t at = 0; at < n;) {
		const char *end = memchr(buf + at, '\n', n - at);
		size_t length = end ? (size_t)(end - buf) - at : n - at;
		int err = run_line(buf + at, length, f->node->data);

		if (err)
			return err;
		at += length + 1;
	}
	return n;
}
static const struct file_ops events_ops = {events_open, seq_read, events_write, seq_release};
TRACEFS_FILE(kprobe_events, "kprobe_events", 0644, &events_ops, NULL);
TRACEFS_FILE(dynamic_events, "dynamic_events", 0644, &events_ops, (void *)1);

/* ---- enable ---- */

static int set_enabled(struct probe_event *e, bool on)
{
	int err;

	if (e->enabled == on)
		return 0;
	if (on) /* the buffers get their full size, as when a tracer is chosen */
		tracing_set_tracer(&global_trace, global_trace.tracer->name);
	WRITE_ONCE(e->enabled, on);
	err = probe_event_update(e);
	if (err) {
		WRITE_ONCE(e->enabled, !on);
		probe_event_update(e);
	}
	e->was_enabled |= e->enabled;
	return err;
}

static int enable_show(struct seq *s, u64 item)
{
	const struct probe_event *e = s->arg;

	seq_printf(s, "%d\n", e->enabled);
	return 1;
}

/* trace_lock is held. */
static int enable_set(struct file *f, u64 on)
{
	int err;

	if (on > 1)
		return -EINVAL;
	mutex_lock(&events_lock);
	err = set_enabled(f->node->data, on);
	mutex_unlock(&events_lock);
	return err;
}

static ssize_t enable_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	return tracefs_set_number(f, buf, n, enable_set);
}
TRACEFS_TEXT_OPS(enable_ops, enable_show, enable_write);

/* Does @file enable @e? events/enable does, and that of the group, whose directory has its name. */
static bool is_of(const struct probe_event *e, const struct file *file)
{
	return file->node->data || !strcmp(probe_group(e), file->node->parent->name);
}

static int group_show(struct seq *s, u64 item)
{
	unsigned on = 0, off = 0;

	mutex_lock(&events_lock);
	for (const struct probe_event *e = events_by_id; e; e = e->next)
		if (is_of(e, s->file))
			e->enabled ? on++ : off++;
	mutex_unlock(&events_lock);
	seq_printf(s, "%c\n", on && off ? 'X' : on ? '1' : off ? '0' : '?');
	return 1;
}

static int group_set(struct file *f, u64 on)
{
	int err = on > 1 ? -EINVAL : 0;

	mutex_lock(&events_lock);
	for (struct probe_event *e = events_by_id; e && !err; e = e->next)
		if (is_of(e, f))
			err = set_enabled(e, on);
	mutex_unlock(&events_lock);
	return err;
}

static ssize_t group_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	return tracefs_set_number(f, buf, n, group_set);
}
TRACEFS_TEXT_OPS(group_ops, group_show, group_write);
TRACEFS_FILE(events_enable, "events/enable", 0644, &group_ops, (void *)1);

/* ---- filter, trigger, id, format ---- */

/* A written text without the blanks around it, kmalloc()ed. */
static char *trimmed(const char *buf, size_t n)
{
	char *text;

	while (n && (buf[n - 1] == '\n' || buf[n - 1] == ' '))
		n--;
	while (n && *buf == ' ') {
		buf++;
		n--;
	}
	text = kmalloc(n + 1);
	if (text) {
		memcpy(text, buf, n);
		text[n] = 0;
	}
	return text;
}

static int filter_show(struct seq *s, u64 item)
{
	const struct probe_event *e = s->arg;

	mutex_lock(&events_lock);
	seq_printf(s, "%s\n", e->filter ? event_filter_text(e->filter) : "none");
	mutex_unlock(&events_lock);
	return 1;
}

/* Takes @text over if it is refused. */
static int make_filter(const struct probe_event *e, char *text, struct event_filter **filter)
{
	struct probe_error error = {.subsystem = "event filter parse error", .command = text};
	int err = event_filter_parse(text, e->first->def, filter, &error.text, &error.column);

	if (err == -EINVAL)
		error_log_add(&error);
	else
		kfree(text);
	return err;
}

/* "0" removes it. A refused filter changes nothing. */
static ssize_t filter_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	struct probe_event *e = f->node->data;
	struct event_filter *filter = NULL, *old = NULL;
	char *text = trimmed(buf, n);
	int err = text ? 0 : -ENOMEM;

	mutex_lock(&events_lock);
	if (text && !strcmp(text, "0"))
		kfree(text);
	else if (text)
		err = make_filter(e, text, &filter);
	if (!err) {
		old = e->filter;
		smp_wmb();
		WRITE_ONCE(e->filter, filter);
		probe_event_update(e);
	}
	mutex_unlock(&events_lock);
	if (old)
		synchronize_sched();
	kfree(old);
	return err ?: (ssize_t)n;
}
TRACEFS_TEXT_OPS(filter_ops, filter_show, filter_write);

static const char *const trigger_names[] = {"traceon", "traceoff"};

static int trigger_show(struct seq *s, u64 item)
{
	const struct probe_event *e = s->arg;
	bool any = false;

	for (int i = 0; i < 2; i++) {
		long left = e->trigger[i].left;

		if (!e->trigger[i].set)
			continue;
		any = true;
		if (left < 0)
			seq_printf(s, "%s:unlimited\n", trigger_names[i]);
		else
			seq_printf(s, "%s:count=%ld\n", trigger_names[i], left);
	}
	if (!any)
		seq_printf(s, "# Available triggers:\n# traceon traceoff\n");
	return 1;
}

/* [!]NAME[:COUNT]; -ENOENT: "!" and there is none, -EEXIST. */
static int set_trigger(struct probe_event *e, char *text)
{
	bool off = *text == '!';
	char *name = text + off, *colon = strchr(name, ':');
	struct event_trigger *t;
	u64 count = 0;
	int i = 0, err;

	if (colon)
		*colon++ = 0;
	while (i < 2 && strcmp(trigger_names[i], name))
		i++;
	if (i == 2 || (colon && !off && (kstrtou64(colon, 0, &count) || count > INT32_MAX)))
		return -EINVAL;
	t = &e->trigger[i];
	if (t->set != off)
		return off ? -ENOENT : -EEXIST;
	t->on = i == 0;
	t->left = colon ? (long)count : -1;
	smp_wmb();
	WRITE_ONCE(t->set, !off);
	err = probe_event_update(e);
	if (err)
		WRITE_ONCE(t->set, off);
	return err;
}

static ssize_t trigger_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	char *text = trimmed(buf, n);
	int err;

	if (!text)
		return -ENOMEM;
	lock_events();
	err = *text ? set_trigger(f->node->data, text) : 0;
	unlock_events();
	kfree(text);
	return err ?: (ssize_t)n;
}
TRACEFS_TEXT_OPS(trigger_ops, trigger_show, trigger_write);

static int id_show(struct seq *s, u64 item)
{
	const struct probe_event *e = s->arg;

	seq_printf(s, "%u\n", e->id);
	return 1;
}
TRACEFS_TEXT_OPS(id_ops, id_show, NULL);

static int format_show(struct seq *s, u64 item)
{
	mutex_lock(&events_lock);
	probe_format_show(s, item);
	mutex_unlock(&events_lock);
	return 1;
}
TRACEFS_TEXT_OPS(format_ops, format_show, NULL);

/* ---- Directories ---- */

static const struct event_file {
	const char *name;
	u16 mode;
	const struct file_ops *ops;
} event_files[] = {{"enable", 0644, &enable_ops}, {"filter", 0644, &filter_ops}, {"trigger", 0644, &trigger_ops},
		   {"format", 0444, &format_ops}, {"id", 0444, &id_ops}};

/* events/<group>, with its enable. */
static struct node *group_dir(const char *group, int *err)
{
	struct node *events = file_lookup(file_root(), TRACEFS "events");
	struct node *dir = events ? file_lookup(events, group) : NULL;
	char path[PROBE_EVENT_NAME + 8];

	*err = -EEXIST;
	if (dir)
		return dir->mode & S_DIR ? dir : NULL;
	*err = -ENOMEM;
	snprintf(path, sizeof(path), "%s/enable", group);
	return events && file_make_at(events, path, 0644, &group_ops, NULL) ? file_lookup(events, group) : NULL;
}

static void remove_empty_group(struct node *dir)
{
	struct node *enable = file_lookup(dir, "enable");

	if (dir->child == enable && enable && !enable->sibling && enable->ops == &group_ops && !file_unmake(enable))
		file_unmake(dir);
}

struct node *probe_event_files(struct probe_event *e, int *err)
{
	const struct probe_def *def = e->first->def;
	struct node *group = group_dir(def->group, err), *tree = group ? file_tree_new(def->event, S_DIR | 0555) : NULL;
	bool made = tree;

	if (!tree)
		return NULL;
	for (unsigned i = 0; made && i < ARRAY_SIZE(event_files); i++)
		made = file_make_at(tree, event_files[i].name, event_files[i].mode, event_files[i].ops, e);
	*err = made ? file_attach(group, tree) : -ENOMEM;
	if (!*err)
		return tree;
	file_tree_free(tree);
	remove_empty_group(group);
	return NULL;
}

int probe_event_remove_files(struct probe_event *e)
{
	struct node *group = e->dir->parent, *tree;
	int err = file_detach(group, e->first->def->event, &tree);

	if (err)
		return err;
	file_tree_free(tree);
	remove_empty_group(group);
	return 0;
}
