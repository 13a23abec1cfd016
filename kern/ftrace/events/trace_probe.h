/*
 * Trace events by probes: p, r and f lines of kprobe_events and dynamic_events. Static events
 * (static_event.h) have the same files, filters, triggers and instances.
 *
 *	a line -> probe_parse() -> struct probe_def -> trace_probe.c registers a kprobe,
 *	kretprobe or fprobe -> at a hit, probe_fetch.c makes the event in this CPU's
 *	scratch area; event_write.h asks the filter, and copies it into the ring buffer ->
 *	later probe_print.c prints it.
 *
 * probe_files.c has the files that lines are written to, event_filter.c the filters,
 * error_log.c the log of refused lines. This room is the last one (lab 8): it may use all
 * others, and no room includes its headers. It is called through tracefs's table, by its
 * probes' hits, and through the tables PRINT_HOOK (trace/), INSTANCE_HOOK (files/) and
 * MODULE_HOOK (kern/loader/).
 *
 * An event may have several probes, with the same types of arguments: a further line
 * with the event's name adds one. A probe on a module's function is registered while the
 * module is loaded.
 *
 * Locking: events_lock, a mutex, guards the lists and everything that the files change.
 * Handlers take no lock: they run with interrupts masked, and what they read is freed
 * only after a grace period. events_by_id_lock is taken inside events_lock; it is held
 * while an event is printed, and while one is removed.
 *
 * Instances. The definition of an event is global. Whether it is enabled, its filter and
 * its triggers belong to one trace array: each event has a list with one struct
 * trace_event_file for every trace array, and that of global_trace is the first. A thread
 * changes it through the instance's files, with events_lock held. A hit, on any CPU, makes
 * the event once, walks the list, and writes the event to each trace array that has it
 * enabled. The order of stores:
 *
 * - A new event or instance: (1) fill the file: its trace array is complete, nothing is
 *   enabled; (2) smp_wmb(), link the file. A hit sees the list with it or without it.
 * - Enable: (1) set ->enabled; (2) set ->plain, which a hit reads once: it either records
 *   in global_trace alone, or walks the list; (3) start the probes that are not started.
 *   The filter is stored before ->enabled, and a trigger's fields before the link to it; a
 *   hit reads them in the other order.
 * - Disable: (1) clear ->enabled; (2) set ->plain; (3) stop the probes, which includes a
 *   grace period; if another trace array needs the probes, only synchronize_sched().
 * - rmdir: (1) the directory is taken out of the tree; none of its files is open, so no
 *   thread can change its state any more; (2) for each event, clear ->enabled, and unlink
 *   the file. Its own ->next stays valid: a hit that has reached the
 *   file continues with the rest of the list; (3) stop the probes that no other trace
 *   array needs; (4) synchronize_sched(): every hit that began before (2) has ended;
 *   (5) free the files, and then the instance's buffers.
 *
 * An interrupt sees no other states than another CPU does: a hit masks interrupts, and
 * a hit in an interrupt that comes while a thread changes a file falls between two of
 * these stores.
 */
#ifndef FTRACE_TRACE_PROBE_H
#define FTRACE_TRACE_PROBE_H

#include "event_filter.h"
#include "fprobe.h"
#include "kprobes.h"
#include "kretprobe.h"
#include "probe_parse.h"
#include "thread.h"
#include "trace.h"
#include "trace_args.h"

struct trace_probe;
struct module;

/* What an event causes: event_trigger.c. All but @left stays as it is while it is in a list. */
struct event_trigger {
	struct event_trigger *next;
	enum event_trigger_kind {
		TRIGGER_TRACEON,
		TRIGGER_TRACEOFF,
		TRIGGER_SNAPSHOT,
		TRIGGER_STACKTRACE,
		TRIGGER_ENABLE_EVENT,
		TRIGGER_DISABLE_EVENT
	} kind;
	long left; /* -1: unlimited */
	/* NULL: it acts before each event; else after each event that matches */
	struct event_filter *filter;
	struct trace_event_file *target; /* the event to enable or disable; or NULL */
};

/* An event in one trace array. */
struct trace_event_file {
	struct trace_event_file *next; /* of the event */
	struct trace_probe_event *event;
	struct trace_array *tr;
	bool enabled; /* it is recorded; a trigger of another event may change that */
	bool chosen;  /* the same, as `enable` was last written */
	bool was_enabled;
	u32 aims; /* triggers and commands that enable or disable it */
	struct event_filter *filter; /* NULL: every event */
	struct event_trigger *triggers; /* the newest first */
	struct node *dir;
	/* in the list of files that the removal of an instance frees */
	struct trace_event_file *freed_next;
};

struct trace_probe_event {
	struct trace_probe_event *next; /* by id */
	const struct probe_def *def;	/* the layout; that of the first probe */
	struct trace_probe *first; /* all have the same layout */
	/* of a static event (static_event.h), which has no probes and stays for ever; or NULL */
	const struct static_event *fixed;
	bool armed; /* its sites jump */
	u16 id;
	/* enabled in global_trace and nowhere else, without arguments, filter and trigger */
	bool plain;
	struct trace_event_file top; /* of global_trace */
};

struct trace_probe {
	/* next: of all probes, in the order of the list; sibling: of the same event */
	struct trace_probe *next, *sibling;
	struct trace_probe_event *event;
	struct probe_def *def;
	unsigned long func; /* the probed address; 0: a module's function, not loaded */
	/* that it was in when it was last registered; NULL: it never was, or it is in the kernel */
	const char *module;
	bool armed;
	u64 hits, missed; /* missed: by earlier registrations */
	union {
		struct kprobe kprobe;
		struct kretprobe kretprobe;
		struct fprobe fprobe;
	};
};

extern struct mutex events_lock, events_by_id_lock;
extern struct trace_probe *trace_probes;
extern struct trace_probe_event *events_by_id;

#define for_each_event_file(f, e) for (struct trace_event_file *f = &(e)->top; f; f = f->next)
#define for_each_trace_probe(p) for (struct trace_probe *p = trace_probes; p; p = p->next)

/* The longest event, with its strings. */
#define PROBE_EVENT_MAX 4000

/* ---- probe_fetch.c: the handlers ---- */

bool probe_kprobe_hit(struct kprobe *kp, struct kprobe_regs *regs);
int probe_kretprobe_entry(struct kretprobe_instance *ri, struct ftrace_regs *regs);
int probe_kretprobe_return(struct kretprobe_instance *ri, struct ftrace_regs *regs);
int probe_fprobe_entry(struct fprobe *fp, unsigned long ip, unsigned long ret_ip,
		       struct ftrace_regs *regs, void *data);
void probe_fprobe_exit(struct fprobe *fp, unsigned long ip, unsigned long ret_ip,
		       struct ftrace_regs *regs, void *data);
/* struct probe_names' reg. */
int probe_register(const char *name, enum probe_place place);
/* Is register @n saved at @place? */
bool probe_has_register(unsigned n, enum probe_place place);

/* ---- probe_print.c ---- */

int probe_format_show(struct seq *s, u64 item);

/* ---- trace_probe.c; events_lock held ---- */

/*
 * Carry out one line of kprobe_events or, if @dynamic, of dynamic_events. Return: 0 or -errno.
 * @line is written to.
 */
int probe_events_command(char *line, bool dynamic);
/*
 * Remove all that kprobe_events (or dynamic_events) lists. -EBUSY: an event is enabled, and nothing
 * is removed; or a thread uses an event's directory or a file in it, and only the events before it
 * are removed.
 */
int probe_events_clear(bool dynamic);
/*
 * After enabled, the filter or a trigger has changed somewhere: start or stop the event's probes.
 * On an error a probe could not be started, and the others go on. The caller then removes that
 * probe, or undoes its change and calls again.
 */
int probe_event_update(struct trace_probe_event *e);
u64 probe_missed(const struct trace_probe *p);
/* Does kprobe_events list it? dynamic_events lists all probes. */
static inline bool in_kprobe_events(const struct trace_probe *p)
{
	return p->def->kind != 'f';
}

struct trace_probe_event *event_find(const char *group, const char *name); /* NULL: none */

/* ---- probe_files.c; events_lock held, but for the first three ---- */

void events_lock_all(void); /* trace_lock and events_lock: the buffers may be reset or enlarged */
void events_unlock_all(void);
char *event_trimmed(const char *buf, size_t n); /* without blanks around it: kmalloc()ed, or NULL */
/* the event in @tr; every trace array has one of every event */
struct trace_event_file *event_file_of(struct trace_probe_event *e, const struct trace_array *tr);
/*
 * Parse the filter @text, which was kmalloc()ed, and free it or give it to the error log. 0 or
 * -errno
 */
int event_make_filter(const struct trace_event_file *f, char *text, struct event_filter **filter);
/* Record the event in its trace array, or do so no longer. Both locks are held. */
int event_set_enabled(struct trace_event_file *f, bool on);
/* the event's directory in every trace array. -EEXIST, -ENOMEM */
int probe_event_files(struct trace_probe_event *e);
int probe_event_remove_files(struct trace_probe_event *e); /* -EBUSY: one of the files is open */
void probe_event_free(struct trace_probe_event *e);	     /* after a grace period */

/* ---- event_trigger.c ---- */

extern const struct file_ops event_trigger_ops;
/* The part of a word up to the next colon, which becomes its end. *@next: the rest, or NULL. */
char *event_part(char **next);
void event_free_triggers(struct trace_event_file *f); /* after a grace period */
/*
 * @change: 1, before a trigger or a command can enable or disable @target; -1, when it no longer
 * can. 0 or -errno of the event's probes or sites. trace_lock and events_lock held.
 */
int event_aim(struct trace_event_file *target, int change);

/* ---- function_command.c: the commands of @tr end, before its events' files. ---- */

void function_commands_gone(struct trace_array *tr);

/* ---- error_log.c ---- */

/* In the error_log of @tr. */
void error_log_add(struct trace_array *tr, const struct probe_error *e);
void error_log_clear(const struct trace_array *tr);

#endif
