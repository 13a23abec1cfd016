/*
 * The files of probe events: kprobe_events, dynamic_events, kprobe_profile, and those of each event
 * and group.
 */
#include "errno.h"
#include "print.h"
#include "trace_probe.h"
#include "string.h"
#include "tracefs.h"

#define LINE_MAX 4094

void events_lock_all(void)
{
	mutex_lock(&trace_lock);
	mutex_lock(&events_lock);
}

void events_unlock_all(void)
{
	mutex_unlock(&events_lock);
	mutex_unlock(&trace_lock);
}

/* ---- kprobe_events, dynamic_events: the file's data is not NULL for the latter ---- */

static void show_probe(struct seq *s, const struct trace_probe *p)
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
	seq_printf(s, "%c%s:%s/%s%s\n",
		   def->kind == 'f' ? 'f'
		   : def->is_return ? 'r'
				    : 'p',
		   count, def->group, def->event, text);
	kfree(text);
}

static void show_hits(struct seq *s, const struct trace_probe *p)
{
	seq_printf(s, "  %-44s %15llu %15llu\n", p->def->event, (unsigned long long)p->hits,
		   (unsigned long long)probe_missed(p));
}

/* Show number @item of the probes that the file lists. */
static int show_nth(struct seq *s, u64 item, bool dynamic,
		    void (*show)(struct seq *s, const struct trace_probe *p))
{
	struct trace_probe *p;

	mutex_lock(&events_lock);
	for (p = trace_probes; p; p = p->next)
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
		events_lock_all();
		err = probe_events_clear(f->node->data);
		events_unlock_all();
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
	events_lock_all();
	err = probe_events_command(line, dynamic);
	events_unlock_all();
	kfree(line);
	return err;
}

/* Each line is one command. The commands before a refused one have taken effect. */
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

struct trace_event_file *event_file_of(struct trace_probe_event *e, const struct trace_array *tr)
{
	struct trace_event_file *f = &e->top;

	while (f->tr != tr)
		f = f->next;
	return f;
}

/* Does a probe of @e run, because another trace array needs it? */
static bool is_armed(const struct trace_probe_event *e)
{
	const struct trace_probe *p = e->first;

	while (p && !p->armed)
		p = p->sibling;
	return p;
}

int event_set_enabled(struct trace_event_file *f, bool on)
{
	int err;

	if (f->enabled == on) {
		f->chosen = on;
		return 0;
	}
	if (on) /* the buffers get their full size, as when a tracer is chosen */
		tracing_expand(f->tr);
	smp_wmb(); /* first its filter */
	WRITE_ONCE(f->enabled, on);
	err = probe_event_update(f->event);
	if (err) {
		WRITE_ONCE(f->enabled, !on);
		probe_event_update(f->event);
	}
	f->chosen = f->enabled;
	f->was_enabled |= f->enabled;
	if (!on && is_armed(f->event))
		synchronize_sched(); /* for a hit that began before: the probes were not stopped */
	return err;
}

static int enable_show(struct seq *s, u64 item)
{
	const struct trace_event_file *f = s->arg;

	seq_printf(s, "%d%s\n", f->enabled, f->aims ? "*" : "");
	return 1;
}

/* trace_lock is held. */
static int enable_set(struct file *f, u64 on)
{
	int err;

	if (on > 1)
		return -EINVAL;
	mutex_lock(&events_lock);
	err = event_set_enabled(f->node->data, on);
	mutex_unlock(&events_lock);
	return err;
}
CONTROL_OPS(enable_ops, enable_show, number, enable_set);

/* Does @file enable @e? events/enable does, and so does the file `enable` of the event's group. */
static bool is_of(const struct trace_probe_event *e, const struct file *file)
{
	return file->node->data || !strcmp(e->def->group, file->node->parent->name);
}

static int group_show(struct seq *s, u64 item)
{
	unsigned on = 0, off = 0;

	mutex_lock(&events_lock);
	for (struct trace_probe_event *e = events_by_id; e; e = e->next)
		if (is_of(e, s->file))
			event_file_of(e, trace_array_of(s->file))->enabled ? on++ : off++;
	mutex_unlock(&events_lock);
	seq_printf(s, "%c\n", on && off ? 'X' : on ? '1' : off ? '0' : '?');
	return 1;
}

static int group_set(struct file *f, u64 on)
{
	int err = on > 1 ? -EINVAL : 0;

	mutex_lock(&events_lock);
	for (struct trace_probe_event *e = events_by_id; e && !err; e = e->next)
		if (is_of(e, f))
			err = event_set_enabled(event_file_of(e, trace_array_of(f)), on);
	mutex_unlock(&events_lock);
	return err;
}
CONTROL_OPS(group_ops, group_show, number, group_set);
TRACEFS_INSTANCE_FILE(events_enable, "events/enable", 0644, &group_ops, (void *)1);

/*
 * ---- available_events lists all events, set_event the enabled ones. [!]GROUP:EVENT enables
 * (disables); '*' or nothing is any; [!]NAME is either ----
 */

static int list_events(struct seq *s, u64 item, bool all)
{
	struct trace_probe_event *e;

	mutex_lock(&events_lock);
	for (e = events_by_id; e; e = e->next)
		if ((event_file_of(e, trace_array_of(s->file))->enabled || all) && !item--)
			break;
	if (e)
		seq_printf(s, "%s:%s\n", e->def->group, e->def->event);
	mutex_unlock(&events_lock);
	return !e;
}

static int available_show(struct seq *s, u64 item)
{
	return list_events(s, item, true);
}
TRACEFS_TEXT(available_events, "available_events", TRACEFS_TOP, available_show);

static int set_event_show(struct seq *s, u64 item)
{
	return list_events(s, item, false);
}

static bool is_name(const char *word, const char *name)
{
	return !*word || !strcmp(word, "*") || !strcmp(word, name);
}

static int set_event_word(const struct trace_array *tr, char *word, bool on)
{
	char *event = strchr(word, ':');
	int err = -EINVAL;

	if (event)
		*event++ = 0;
	for (struct trace_probe_event *e = events_by_id; e; e = e->next) {
		const char *group = e->def->group, *name = e->def->event;

		if (event ? is_name(word, group) && is_name(event, name)
			  : !strcmp(word, group) || !strcmp(word, name))
			err = event_set_enabled(event_file_of(e, tr), on)
				      ?: err == -EINVAL ? 0 : err;
	}
	return err;
}

static int set_event_open(struct file *f)
{
	char all[] = "*:*";

	if (f->flags & O_TRUNC && (f->flags & O_ACCMODE) != O_RDONLY) {
		events_lock_all();
		set_event_word(trace_array_of(f), all, false);
		events_unlock_all();
	}
	return seq_open(f, set_event_show, NULL);
}

static ssize_t set_event_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	char *words[16], *line = kmalloc(n + 1);
	unsigned count;
	int err = 0;

	if (!line)
		return -ENOMEM;
	memcpy(line, buf, n);
	line[n] = 0;
	count = probe_split(line, words, ARRAY_SIZE(words) - 1);
	events_lock_all();
	for (unsigned i = 0; i < count && !err; i++)
		err = i == ARRAY_SIZE(words) - 1
			      ? -E2BIG
			      : set_event_word(trace_array_of(f), words[i] + (*words[i] == '!'),
					       *words[i] != '!');
	events_unlock_all();
	kfree(line);
	return err ?: (ssize_t)n;
}
static const struct file_ops set_event_ops = {set_event_open, seq_read, set_event_write,
					      seq_release};
TRACEFS_INSTANCE_FILE(set_event, "set_event", 0644, &set_event_ops, NULL);

/* ---- filter, id, format ---- */

char *event_trimmed(const char *buf, size_t n)
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
	const struct trace_event_file *f = s->arg;

	mutex_lock(&events_lock);
	seq_printf(s, "%s\n", f->filter ? event_filter_text(f->filter) : "none");
	mutex_unlock(&events_lock);
	return 1;
}

int event_make_filter(const struct trace_event_file *f, char *text, struct event_filter **filter)
{
	struct probe_error error = {.subsystem = "event filter parse error", .command = text};
	int err =
		event_filter_parse(text, f->event->def, filter, &error.text, &error.column);

	if (err == -EINVAL)
		error_log_add(f->tr, &error);
	else
		kfree(text);
	return err;
}

/* events_lock is held. */
static void set_filter(struct trace_event_file *f, struct event_filter *filter)
{
	struct event_filter *old = f->filter;

	smp_wmb();
	WRITE_ONCE(f->filter, filter);
	probe_event_update(f->event);
	if (old)
		synchronize_sched();
	kfree(old);
}

/* "0" removes it. A refused filter changes nothing. */
static ssize_t filter_write(struct file *file, const char *buf, size_t n, u64 *pos)
{
	struct trace_event_file *f = file->node->data;
	struct event_filter *filter = NULL;
	char *text = event_trimmed(buf, n);
	int err = text ? 0 : -ENOMEM;

	mutex_lock(&events_lock);
	if (text && !strcmp(text, "0"))
		kfree(text);
	else if (text)
		err = event_make_filter(f, text, &filter);
	if (!err)
		set_filter(f, filter);
	mutex_unlock(&events_lock);
	return err ?: (ssize_t)n;
}
TEXT_OPS(filter_ops, filter_show, filter_write);

static int group_filter_show(struct seq *s, u64 item)
{
	seq_printf(s, "### global filter ###\n"
		      "# Use this to set filters for multiple events.\n"
		      "# Only events with the given fields will be affected.\n"
		      "# If no events are modified, an error message will be displayed here\n");
	return 1;
}

/* Each event of the group that has the fields gets the filter; the others keep theirs. */
static ssize_t group_filter_write(struct file *file, const char *buf, size_t n, u64 *pos)
{
	struct probe_error error = {.subsystem = "event filter parse error",
				    .command = event_trimmed(buf, n)};
	int err = error.command ? -EINVAL : -ENOMEM, refused = 0;
	const char *why;
	unsigned column;

	mutex_lock(&events_lock);
	for (struct trace_probe_event *e = events_by_id; e && err != -ENOMEM; e = e->next) {
		struct event_filter *filter = NULL;

		if (!is_of(e, file))
			continue;
		if (strcmp(error.command, "0"))
			refused = event_filter_parse(error.command, e->def, &filter, &why,
						     &column);
		if (!refused)
			set_filter(event_file_of(e, trace_array_of(file)), filter);
		if (refused == -EINVAL)
			error.text = "Couldn't find or set field in one of a subsystem's events";
		else
			err = refused;
	}
	mutex_unlock(&events_lock);
	if (error.text)
		error_log_add(trace_array_of(file), &error);
	else
		kfree(error.command);
	return err ?: (ssize_t)n;
}
TEXT_OPS(group_filter_ops, group_filter_show, group_filter_write);

static int id_show(struct seq *s, u64 item)
{
	const struct trace_event_file *f = s->arg;

	seq_printf(s, "%u\n", f->event->id);
	return 1;
}
TEXT_OPS(id_ops, id_show, NULL);

static int format_show(struct seq *s, u64 item)
{
	mutex_lock(&events_lock);
	probe_format_show(s, item);
	mutex_unlock(&events_lock);
	return 1;
}
TEXT_OPS(format_ops, format_show, NULL);

/* ---- Directories ---- */

static const struct {
	const char *name;
	u16 mode;
	const struct file_ops *ops;
} event_files[] = {{"enable", 0644, &enable_ops},
		   {"filter", 0644, &filter_ops},
		   {"trigger", 0644, &event_trigger_ops},
		   {"format", 0444, &format_ops},
		   {"id", 0444, &id_ops}};

/* events/<group>, with its enable and its filter. */
static struct node *group_dir(const struct trace_array *tr, const char *group, int *err)
{
	struct node *events = file_lookup(tr->dir, tr->dir ? "events" : TRACEFS "events");
	struct node *dir = events ? file_lookup(events, group) : NULL;
	char enable[PROBE_EVENT_NAME + 8], filter[PROBE_EVENT_NAME + 8];

	*err = -EEXIST;
	if (dir)
		return dir->mode & S_DIR ? dir : NULL;
	*err = -ENOMEM;
	snprintf(enable, sizeof(enable), "%s/enable", group);
	snprintf(filter, sizeof(filter), "%s/filter", group);
	return events && file_make_at(events, enable, 0644, &group_ops, NULL) &&
			       file_make_at(events, filter, 0644, &group_filter_ops, NULL)
		       ? file_lookup(events, group)
		       : NULL;
}

/*
 * Take out the directory and its two files in one step. If one is in use (a thread's cwd, an open
 * file), all stay, for the group's next event.
 */
static void remove_empty_group(struct node *dir)
{
	struct node *tree;

	for (const struct node *n = dir->child; n; n = n->sibling)
		if (n->ops != &group_ops && n->ops != &group_filter_ops)
			return;
	if (!file_detach(dir->parent, dir->name, &tree))
		file_tree_free(tree);
}

/* The event's directory, with its files; not yet attached to its parent. */
static int make_dir(struct trace_event_file *f)
{
	const struct probe_def *def = f->event->def;
	int err;
	struct node *group = group_dir(f->tr, def->group, &err),
		    *tree = group ? file_tree_new(def->event, S_DIR | 0555) : NULL;
	bool made = tree;

	if (!group)
		return err;
	for (unsigned i = 0; made && i < ARRAY_SIZE(event_files); i++)
		made = file_make_at(tree, event_files[i].name, event_files[i].mode,
				    event_files[i].ops, f);
	if (!made) {
		if (tree)
			file_tree_free(tree);
		remove_empty_group(group);
		return -ENOMEM;
	}
	tree->parent = group;
	f->dir = tree;
	return 0;
}

static int attach(struct trace_event_file *f)
{
	return file_attach(f->dir->parent, f->dir);
}

static void free_dir(struct trace_event_file *f)
{
	struct node *group = f->dir->parent;

	file_tree_free(f->dir);
	remove_empty_group(group);
}

static int add_file(struct trace_probe_event *e, struct trace_array *tr)
{
	struct trace_event_file *f = kzalloc(sizeof(*f));
	int err;

	if (!f)
		return -ENOMEM;
	*f = (struct trace_event_file){.next = e->top.next, .event = e, .tr = tr};
	err = make_dir(f);
	if (err) {
		kfree(f);
		return err;
	}
	smp_wmb();
	WRITE_ONCE(e->top.next, f);
	return 0;
}

/*
 * Make all directories, then attach them. Only the first attach() can fail: a name that is free in
 * TRACEFS is free in every instance.
 */
int probe_event_files(struct trace_probe_event *e)
{
	int err;

	e->top = (struct trace_event_file){.event = e, .tr = &global_trace};
	err = make_dir(&e->top);
	if (err)
		return err;
	for (struct trace_array *tr = global_trace.next; tr && !err; tr = tr->next)
		err = add_file(e, tr);
	err = err ?: attach(&e->top);
	for_each_event_file(f, e)
		if (err)
			free_dir(f);
		else if (f != &e->top)
			attach(f);
	return err;
}

int probe_event_remove_files(struct trace_probe_event *e)
{
	struct trace_event_file *file = &e->top;
	struct node *tree;
	int err = 0;

	while (file && !(err = file_detach(file->dir->parent, file->dir->name, &tree)))
		file = file->next;
	for (struct trace_event_file *f = &e->top; f != file; f = f->next)
		if (err)
			attach(f);
		else
			free_dir(f);
	return err;
}

static void free_file(struct trace_event_file *f)
{
	kfree(f->filter);
	event_free_triggers(f);
	if (f != &f->event->top)
		kfree(f);
}

void probe_event_free(struct trace_probe_event *e)
{
	for (struct trace_event_file *f = &e->top, *next; f; f = next) {
		next = f->next;
		free_file(f);
	}
	kfree(e);
}

/* ---- Instances ---- */

static int instance_made(struct trace_array *tr)
{
	int err = 0;

	mutex_lock(&events_lock);
	tr->next = global_trace.next;
	global_trace.next = tr;
	for (struct trace_probe_event *e = events_by_id; e && !err; e = e->next)
		err = add_file(e, tr) ?: attach(e->top.next);
	mutex_unlock(&events_lock);
	return err;
}

/*
 * End what @e does in @tr. Return: its file there, out of the list, to be freed after a grace
 * period; NULL: it has none.
 */
static struct trace_event_file *end_in(struct trace_probe_event *e, const struct trace_array *tr)
{
	struct trace_event_file **link = &e->top.next, *f;

	while (*link && (*link)->tr != tr)
		link = &(*link)->next;
	f = *link;
	if (!f)
		return NULL;
	WRITE_ONCE(f->enabled, false);
	WRITE_ONCE(*link, f->next);
	probe_event_update(e);
	return f;
}

static void instance_gone(struct trace_array *tr)
{
	struct trace_event_file *gone = NULL, *f;
	struct trace_array **link = &global_trace.next;

	function_commands_gone(tr);
	mutex_lock(&events_lock);
	while (*link && *link != tr)
		link = &(*link)->next;
	if (*link)
		*link = tr->next;
	for (struct trace_probe_event *e = events_by_id; e; e = e->next) {
		f = end_in(e, tr);
		if (!f)
			continue;
		f->freed_next = gone;
		gone = f;
	}
	if (gone)
		synchronize_sched();
	while ((f = gone)) {
		gone = f->freed_next;
		free_file(f);
	}
	mutex_unlock(&events_lock);
	error_log_clear(tr);
}
INSTANCE_HOOK(instance_made, instance_gone);
