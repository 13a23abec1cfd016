/*
 * Trace events by probes: p, r and f lines of kprobe_events and dynamic_events.
 *
 *	a line -> probe_parse() -> struct probe_def -> probe_events.c registers a kprobe,
 *	kretprobe or fprobe -> at a hit, probe_fetch.c makes the event in this CPU's
 *	scratch area, asks the filter, and copies it into the ring buffer -> later
 *	probe_print.c prints it.
 *
 * An event may have several probes, with the same types of arguments (a line with
 * the name of an event that exists). A probe on a module's function is registered
 * while the module is loaded.
 *
 * Locking: events_lock (mutex) for the lists and all that files change. Handlers read
 * without a lock, interrupts masked: what they read is freed after a grace period.
 * events_by_id_lock, inside, is held while an event is printed, and when one goes.
 */
#ifndef FTRACE_PROBE_EVENT_H
#define FTRACE_PROBE_EVENT_H

#include "event_filter.h"
#include "fprobe.h"
#include "kprobes.h"
#include "kretprobe.h"
#include "probe_parse.h"
#include "thread.h"
#include "trace.h"

struct event_probe;
struct module;

struct probe_event {
	struct probe_event *next; /* by id */
	struct event_probe *first; /* at least one; they give the layout */
	u16 id;
	bool enabled, was_enabled;
	bool plain; /* enabled, without arguments, filter and trigger */
	struct event_filter *filter; /* NULL: every event */
	struct event_trigger {
		bool set, on; /* traceon or traceoff */
		long left;    /* -1: unlimited */
	} trigger[2];
	struct node *dir;
};

struct event_probe {
	struct event_probe *next, *sibling; /* of all, in the order of the list; of its event */
	struct probe_event *event;
	struct probe_def *def;
	unsigned long func; /* the probed address; 0: a module's function, not loaded */
	bool armed;
	u64 hits, missed; /* missed: by registrations that are over */
	union {
		struct kprobe kprobe;
		struct kretprobe kretprobe;
		struct fprobe fprobe;
	};
};

extern struct mutex events_lock, events_by_id_lock;
extern struct event_probe *event_probes;
extern struct probe_event *events_by_id;

#define for_each_event_probe(p) for (struct event_probe *p = event_probes; p; p = p->next)

/* The longest event, with its strings. */
#define PROBE_EVENT_MAX 4000

/* ---- probe_fetch.c: the handlers ---- */

bool probe_kprobe_hit(struct kprobe *kp, struct kprobe_regs *regs);
int probe_kretprobe_entry(struct kretprobe_instance *ri, struct ftrace_regs *regs);
int probe_kretprobe_return(struct kretprobe_instance *ri, struct ftrace_regs *regs);
int probe_fprobe_entry(struct fprobe *fp, unsigned long ip, unsigned long ret_ip, struct ftrace_regs *regs, void *data);
void probe_fprobe_exit(struct fprobe *fp, unsigned long ip, unsigned long ret_ip, struct ftrace_regs *regs, void *data);
#define PROBE_KEPT_ARGS 8 /* arguments that an entry keeps for the return */
/* struct probe_names' reg. */
int probe_register(const char *name, bool only_some);

/* ---- probe_print.c ---- */

bool probe_print_event(const struct trace_line *l);
int probe_format_show(struct seq *s, u64 item);

/* ---- probe_events.c; events_lock held ---- */

/* One line of kprobe_events (@fprobes false) or dynamic_events. */
int probe_events_command(char *line, bool dynamic);
/* Remove all that kprobe_events (or dynamic_events) lists. -EBUSY: an event is enabled; nothing is removed. */
int probe_events_clear(bool dynamic);
/* After enabled, the filter or a trigger has changed: start or stop the event's probes. On an error they are as before. */
int probe_event_update(struct probe_event *e);
u64 probe_missed(const struct event_probe *p);
const char *probe_group(const struct probe_event *e);
/* Is it in kprobe_events? dynamic_events has all. */
static inline bool in_kprobe_events(const struct event_probe *p)
{
	return p->def->kind != 'f';
}

/* ---- probe_files.c ---- */

struct node *probe_event_files(struct probe_event *e, int *err); /* the event's directory with its files */
int probe_event_remove_files(struct probe_event *e);		 /* -EBUSY: one of them is open */

/* ---- error_log.c ---- */

void error_log_add(const struct probe_error *e);

#endif
