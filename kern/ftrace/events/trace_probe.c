/*
 * The list of probe events. Lines of kprobe_events and dynamic_events make and
 * remove events; their probes are registered here. trace_probe.h lists the locks.
 */
#include "trace_probe.h"

#include "errno.h"
#include "ftrace_internal.h"
#include "ksyms.h"
#include "module.h"
#include "print.h"
#include "static_event.h"
#include "string.h"
#include "tracefs.h"

#define FIRST_ID 1000 /* above those of event_type.h */
#define LAST_ID 65535

struct mutex events_lock = MUTEX_INIT, events_by_id_lock = MUTEX_INIT;
struct trace_probe *trace_probes;
struct trace_probe_event *events_by_id;

/* ---- What the parser asks ---- */

/* @name: FUNCTION, or MODULE:FUNCTION. */
static unsigned count_functions(const char *name, unsigned long *found)
{
	const char *colon = strchr(name, ':'), *symbol, *module;
	size_t owner = colon ? colon - name : 0;
	struct ksym_place at = {NULL};
	unsigned long addr;
	unsigned count = 0;

	preempt_disable();
	while (ksym_next(&at, &addr, &symbol, &module)) {
		if (strcmp(symbol, colon ? colon + 1 : name))
			continue;
		if (colon && (!module || strlen(module) != owner || strncmp(module, name, owner)))
			continue;
		*found = addr;
		count++;
	}
	preempt_enable();
	return count;
}

static const struct probe_names kernel_names = {count_functions, trace_args_parameters,
						probe_register};

/* ---- A probe: registered, and armed while its event is enabled or has a trigger ---- */

static bool is_kprobe(const struct trace_probe *p)
{
	return p->def->kind != 'f' && !p->def->is_return;
}

static int start_return(struct trace_probe *p)
{
	struct kretprobe *rp = &p->kretprobe;

	*rp = (struct kretprobe){.kp.addr = p->func,
				 .handler = probe_kretprobe_return,
				 .maxactive = p->def->maxactive};
	if (p->def->keeps_args) {
		rp->entry_handler = probe_kretprobe_entry;
		rp->data_size = TRACE_ARG_REGISTERS * sizeof(long);
	}
	return register_kretprobe(rp);
}

static int start_fprobe(struct trace_probe *p)
{
	struct fprobe *fp = &p->fprobe;

	*fp = (struct fprobe){NULL};
	if (!p->def->is_return || p->def->keeps_args)
		fp->entry_handler = probe_fprobe_entry;
	if (p->def->is_return)
		fp->exit_handler = probe_fprobe_exit;
	if (p->def->keeps_args)
		fp->entry_data_size = TRACE_ARG_REGISTERS * sizeof(long);
	return register_fprobe_ips(fp, &p->func, 1);
}

static u64 missed_now(const struct trace_probe *p)
{
	if (is_kprobe(p))
		return p->kprobe.nmissed;
	if (!p->armed)
		return 0;
	return p->def->kind == 'f' ? p->fprobe.nmissed
				   : p->kretprobe.nmissed + p->kretprobe.fp.nmissed;
}

u64 probe_missed(const struct trace_probe *p)
{
	return p->missed + missed_now(p);
}

static void stop(struct trace_probe *p)
{
	if (is_kprobe(p)) {
		disable_kprobe(&p->kprobe);
	} else {
		p->missed += missed_now(p);
		(void)(p->def->kind == 'f' ? unregister_fprobe(&p->fprobe)
					   : (unregister_kretprobe(&p->kretprobe), 0));
	}
	p->armed = false;
}

static int start(struct trace_probe *p)
{
	int err = is_kprobe(p)		? enable_kprobe(&p->kprobe)
		  : p->def->kind == 'f' ? start_fprobe(p)
					: start_return(p);

	p->armed = !err;
	return err;
}

/* From @f on. */
static bool is_busy(const struct trace_event_file *f)
{
	while (f && !f->enabled && !f->triggers && !f->aims)
		f = f->next;
	return f;
}

int probe_event_update(struct trace_probe_event *e)
{
	const struct trace_event_file *top = &e->top;
	bool on = is_busy(top);
	int err = 0;

	WRITE_ONCE(e->plain, top->enabled && !top->filter && !top->triggers && !top->aims &&
				     !is_busy(top->next) && !e->def->arg_count);
	if (e->fixed)
		return static_event_arm(e, on);
	for (struct trace_probe *p = e->first; p && !err; p = p->sibling)
		if (!on && p->armed)
			stop(p);
		else if (on && p->func && !p->armed)
			err = start(p);
	return err;
}

/*
 * The event of a probe that has none yet: the probe may be hit while register_probe() tries to
 * register it.
 */
static struct trace_probe_event no_event;

/*
 * Are the registers that the kprobe fetches saved? An address, or an offset in a function, may be
 * that of an entry.
 */
static bool has_registers(const struct trace_probe *p)
{
	enum probe_place place = kprobe_at_entry(p->func) ? PROBE_AT_ENTRY : PROBE_IN_BODY;

	for (const struct probe_arg *arg = p->def->arg; arg < p->def->arg + p->def->arg_count;
	     arg++)
		if (arg->base == PROBE_REG && !probe_has_register(arg->param, place))
			return false;
	return true;
}

/*
 * Find the function; check that the probe can be there. It is not armed. A module's function may be
 * missing.
 */
static int register_probe(struct trace_probe *p)
{
	struct probe_def *def = p->def;
	unsigned long addr = def->addr;
	unsigned count = *def->symbol ? count_functions(def->symbol, &addr) : 1;
	int err;

	if (count != 1)
		/* as when the event is made, a name of several functions is refused */
		return count ? -EINVAL : 0;
	p->func = addr + def->offset;
	if (is_kprobe(p)) {
		p->kprobe = (struct kprobe){.addr = p->func,
					    .pre_handler = probe_kprobe_hit,
					    .flags = KPROBE_FLAG_DISABLED};
		err = has_registers(p) ? register_kprobe(&p->kprobe) : -EINVAL;
	} else {
		err = start(p);
		if (!err)
			stop(p);
	}
	if (err)
		p->func = 0;
	else
		p->module = ksym_module(p->func);
	return err;
}

static void unregister_probe(struct trace_probe *p)
{
	if (p->armed)
		stop(p);
	if (p->func && is_kprobe(p)) {
		p->missed += p->kprobe.nmissed;
		unregister_kprobe(&p->kprobe);
		p->kprobe.nmissed = 0;
	}
	p->func = 0;
}

/* ---- Making an event ---- */

struct trace_probe_event *event_find(const char *group, const char *name)
{
	struct trace_probe_event *e = events_by_id;

	while (e && (strcmp(e->def->group, group) || strcmp(e->def->event, name)))
		e = e->next;
	return e;
}

/* The first argument, counted from 1, in which the two differ; 0: none. */
static unsigned differing_arg(const struct probe_def *a, const struct probe_def *b)
{
	if (a->arg_count != b->arg_count)
		return MIN(a->arg_count, b->arg_count) + 1;
	for (unsigned i = 0; i < a->arg_count; i++)
		if (a->arg[i].type != b->arg[i].type || a->arg[i].count != b->arg[i].count ||
		    strcmp(a->arg[i].name, b->arg[i].name))
			return i + 1;
	return 0;
}

static bool same_probe(const struct probe_def *a, const struct probe_def *b)
{
	bool same = !strcmp(a->symbol, b->symbol) && a->addr == b->addr && a->offset == b->offset;

	for (unsigned i = 0; i < a->arg_count; i++)
		same = same && !strcmp(a->arg[i].body, b->arg[i].body);
	return same;
}

static int refuse(struct probe_error *error, unsigned word, const char *text)
{
	probe_error_at(error, word, 0, text);
	return -EEXIST;
}

/* May @def be one more probe of @e? */
static int check_append(const struct trace_probe_event *e, const struct probe_def *def,
			struct probe_error *error)
{
	const struct probe_def *first = e->def;
	unsigned arg = differing_arg(def, first);

	if (e->fixed || (def->kind == 'f') != (first->kind == 'f'))
		return refuse(error, 0, "Given group/event name is already used by another event");
	if (def->is_return != first->is_return)
		return refuse(error, 0, "Probe type is different from existing probe");
	if (arg)
		return refuse(error, arg + 1,
			      "Argument type or name is different from existing probe");
	for (const struct trace_probe *p = e->first; p; p = p->sibling)
		if (same_probe(p->def, def))
			return refuse(error, 0, "There is already the exact same probe event");
	return 0;
}

/*
 * An id that was not used lately: a reader of `trace` may still print copies of a removed event's
 * records.
 */
static u16 free_id(struct trace_probe_event ***link)
{
	static u16 last = FIRST_ID - 1;

	do {
		last = last == LAST_ID ? FIRST_ID : last + 1;
		for (*link = &events_by_id; **link && (**link)->id < last; *link = &(**link)->next)
			;
	} while (**link && (**link)->id == last);
	return last;
}

static int new_event(struct trace_probe *p, struct probe_error *error)
{
	struct trace_probe_event *e = kzalloc(sizeof(*e)), **link;
	int err;

	if (!e)
		return -ENOMEM;
	p->event = e;
	e->first = p;
	e->def = p->def;
	e->id = free_id(&link);
	err = probe_event_files(e);
	if (err) {
		probe_event_free(e);
		return err == -EEXIST
			       ? refuse(error, 0,
					"Given group/event name is already used by another event")
			       : err;
	}
	mutex_lock(&events_by_id_lock);
	e->next = *link;
	*link = e;
	mutex_unlock(&events_by_id_lock);
	return 0;
}

static int append(struct trace_probe *p, struct trace_probe_event *e)
{
	struct trace_probe **link = &e->first;
	int err;

	while (*link)
		link = &(*link)->sibling;
	p->event = e;
	*link = p;
	err = probe_event_update(e);
	if (err)
		*link = NULL;
	return err;
}

static int add_to_event(struct trace_probe *p, struct probe_error *error)
{
	struct trace_probe_event *e = event_find(p->def->group, p->def->event);

	return e ? append(p, e) : new_event(p, error);
}

static int note_refusal(struct trace_probe *p, int err, struct probe_error *error)
{
	if (p->def->kind != 'f' && err == -ENOENT)
		err = -EINVAL; /* the function exists, but has no call site */
	if (err == -ENOENT)
		probe_error_at(error, 1, 0, "Invalid probed address or symbol");
	else if (err != -ENOMEM && err != -EEXIST)
		probe_error_at(error, 1, 0, "Failed to register probe event");
	return err;
}

static int add_probe(struct trace_probe *p, struct probe_error *error)
{
	const struct trace_probe_event *e = event_find(p->def->group, p->def->event);
	struct trace_probe **link = &trace_probes;
	int err = e ? check_append(e, p->def, error) : 0;

	if (err)
		return err;
	err = register_probe(p);
	if (err)
		return note_refusal(p, err, error);
	p->hits = p->missed = 0;
	err = add_to_event(p, error);
	if (err) {
		unregister_probe(p);
		return err;
	}
	while (*link)
		link = &(*link)->next;
	*link = p;
	return 0;
}

static int create(char *line, struct probe_error *error)
{
	struct trace_probe *p;
	struct probe_def *def;
	int err = probe_parse(line, &kernel_names, &def, error);

	if (err)
		return err == -ENODEV && !error->text ? 0 : err;
	p = kzalloc(sizeof(*p));
	if (p)
		*p = (struct trace_probe){.def = def, .event = &no_event};
	err = !p ? -ENOMEM : def->size > PROBE_EVENT_MAX - 256 ? -E2BIG : add_probe(p, error);
	if (err) {
		kfree(p);
		kfree(def);
	}
	return err;
}

/* ---- Removing ---- */

/*
 * Events of @e that are still in the buffers could not be printed. As on Linux, the buffers are
 * emptied if there may be some.
 */
static int remove_event(struct trace_probe_event *e)
{
	struct trace_probe_event **link = &events_by_id;
	int err = is_busy(&e->top) ? -EBUSY : probe_event_remove_files(e);

	if (err)
		return err;
	for_each_event_file(f, e)
		if (f->was_enabled)
			tracing_reset(f->tr, -1);
	mutex_lock(&events_by_id_lock);
	while (*link != e)
		link = &(*link)->next;
	*link = e->next;
	mutex_unlock(&events_by_id_lock);
	return 0;
}

static int remove_probe(struct trace_probe *p)
{
	struct trace_probe **link = &trace_probes, **sibling = &p->event->first;
	struct trace_probe_event *e = p->event;
	int err = e->first == p && !p->sibling ? remove_event(e) : 0;

	if (err)
		return err;
	unregister_probe(p);
	while (*link != p)
		link = &(*link)->next;
	*link = p->next;
	while (*sibling != p)
		sibling = &(*sibling)->sibling;
	mutex_lock(&events_by_id_lock);
	mutex_lock(&ftrace_lock); /* set_ftrace_filter may be listing a command with this event */
	*sibling = p->sibling;
	if (e->first)
		e->def = e->first->def;
	mutex_unlock(&ftrace_lock);
	mutex_unlock(&events_by_id_lock);
	if (!e->first)
		probe_event_free(e);
	kfree(p->def);
	kfree(p);
	return 0;
}

int probe_events_clear(bool dynamic)
{
	struct trace_probe *next;
	int err = 0;

	for_each_trace_probe(p)
		if ((dynamic || in_kprobe_events(p)) && is_busy(&p->event->top))
			return -EBUSY;
	for (struct trace_probe *p = trace_probes; p && !err; p = next) {
		next = p->next;
		if (dynamic || in_kprobe_events(p))
			err = remove_probe(p);
	}
	return err;
}

/* Does the probe match the words of a removal: its place, and its first arguments? */
static bool has_words(const struct probe_def *def, char **words, unsigned count)
{
	int size = probe_describe(NULL, 0, def) + 1, at = 0;
	char *text = kmalloc(size);
	bool same = text;

	if (text)
		probe_describe(text, size, def);
	for (unsigned i = 0; same && i < count; i++) {
		size_t n = strlen(words[i]);

		same = text[at] == ' ' && !strncmp(text + at + 1, words[i], n) &&
		       (text[at + 1 + n] == ' ' || !text[at + 1 + n]);
		at += n + 1;
	}
	kfree(text);
	return same;
}

/* -:[GROUP/][EVENT] [FUNCTION [ARG ...]], also with '!' and the letter of a probe */
static int remove_named(char *line, bool dynamic)
{
	char *words[16], *group = NULL, *name, *slash;
	unsigned count = probe_split(line, words, ARRAY_SIZE(words) - 1);
	struct trace_probe *next;
	int err = -ENOENT;

	name = strchr(words[0], ':');
	if (!name || (*words[0] == '-' && name != words[0] + 1))
		return -EINVAL;
	slash = strchr(++name, '/');
	if (slash) {
		group = name;
		*slash = 0;
		name = slash + 1;
	}
	if (!group && !*name)
		return -EINVAL;
	for (struct trace_probe *p = trace_probes; p && (!err || err == -ENOENT); p = next) {
		next = p->next;
		if ((!dynamic && !in_kprobe_events(p)) || (*name && strcmp(p->def->event, name)) ||
		    (group && strcmp(p->def->group, group)) ||
		    !has_words(p->def, words + 1, count - 1))
			continue;
		err = remove_probe(p);
	}
	return err;
}

int probe_events_command(char *line, bool dynamic)
{
	struct probe_error error = {NULL};
	const char *kind = line;
	int err;

	while (*kind == ' ' || *kind == '\t')
		kind++;
	if (*line == '-' || (dynamic && *line == '!'))
		return remove_named(line, dynamic);
	if (!dynamic && *kind && strchr("ftes", *kind))
		return -EINVAL;
	err = create(line, &error);
	if (error.text)
		error_log_add(&global_trace, &error);
	else
		kfree(error.command);
	return err;
}

/* ---- Modules ---- */

/*
 * May the probe be in @m, which is loaded? An address may be another module's now, so a probe comes
 * back only with the module that it was in.
 */
static bool may_be_in(const struct trace_probe *p, const struct module *m)
{
	return (!p->module || !strcmp(p->module, m->name)) &&
	       (*p->def->symbol || module_has_text(m, p->def->addr));
}

/*
 * A module is loaded or removed. As on Linux, its events stay listed; their probes are registered
 * while it is loaded.
 */
static void module_changed(const struct module *m, bool coming)
{
	mutex_lock(&events_lock);
	for_each_trace_probe(p) {
		if (!coming && p->func && module_has_text(m, p->func))
			unregister_probe(p);
		if (coming && !p->func && may_be_in(p, m) &&
		    (register_probe(p) || probe_event_update(p->event))) {
			printk("probe_events: %s/%s cannot be set in module %s\n", p->def->group,
			       p->def->event, m->name);
			unregister_probe(p);
		}
	}
	mutex_unlock(&events_lock);
}
MODULE_HOOK(module_changed);
