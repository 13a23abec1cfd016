/*
 * Static events: those whose places in the kernel are tracepoints (tracepoint.h). Each is declared
 * once, in static_events.c:
 *
 *	#define IPI_FIELDS(_) _(value, const char *, reason)
 *	STATIC_EVENT(111, ipi, ipi_entry, IPI_FIELDS, "(%s)", REC->reason);
 *	static void ipi_entry_hit(int ipi)
 *	{
 *		struct ipi_entry_event e = {.reason = ...};
 *
 *		RECORD(ipi_entry, e);
 *	}
 *
 * 111 is its id, which stays the same. Then come its group, its name (that of the tracepoint, whose
 * arguments ipi_entry_hit() has), its fields, and its text as a format and arguments, which is also
 * the last line of its format file. Everything else is that of an event of probes (trace_probe.h).
 *
 * Kinds of fields; they must leave no gaps:
 *	value	a number or an address
 *	comm	a thread's name
 *	text	a text after the fields: put_text() copies it into the structure's array
 *
 * On and off. The tracepoint's sites are patched while any trace array needs the event
 * (probe_event_update()), with events_lock held, and inside it ftrace_lock:
 * - On: (1) the file's filter, trigger or ->enabled is stored; (2) one batch changes the nop of
 *   each site to a jump. A CPU that executes the new word sees (1): text is synchronised after it.
 * - Off: (1) ->enabled is cleared; (2) a batch puts the nops back; (3) synchronize_sched(): a hit
 *   that began before has ended, because it masks interrupts. A thread that was preempted between
 *   the jump and the hit calls it later. It finds the event disabled, and nothing that it uses is
 *   ever freed: the event, its function and the tracepoint's pointer stay.
 *
 * A hit inside the tracer, as of a kmalloc() in a probe's handler, is not recorded. It is counted
 * in `dropped events` of each trace array that has the event enabled.
 */
#ifndef FTRACE_STATIC_EVENT_H
#define FTRACE_STATIC_EVENT_H

#include "trace_probe.h"
#include "tracepoint.h"

struct static_event {
	const void *point;   /* &tracepoint_NAME */
	void (*hit)(void);   /* what that pointer is set to */
	void (*print)(struct seq *s, const void *event);
	const char *print_fmt;
	struct trace_probe_event *event;
};

/* No thread has a priority of its own: the number that Linux shows for an ordinary thread. */
#define PRIO 120

/* The longest static event, with its text. */
#define STATIC_EVENT_MAX 96

#define STATIC_MEMBER_value(type, name) type name;
#define STATIC_MEMBER_comm(name) char name[16];
#define STATIC_MEMBER_text(name) u32 name;
#define STATIC_MEMBER(kind, ...) STATIC_MEMBER_##kind(__VA_ARGS__)
#define STATIC_FIELD_value(type, name) TRACE_FIELD_AS(type, #name, sizeof(type))
#define STATIC_FIELD_comm(name) {"char", #name "[16]", 16, false},
#define STATIC_FIELD_text(name) {"__data_loc char[]", #name, sizeof(u32), false},
#define STATIC_FIELD(kind, ...) STATIC_FIELD_##kind(__VA_ARGS__)
#define STATIC_SIZE_value(type, name) +sizeof(type)
#define STATIC_SIZE_comm(name) +16
#define STATIC_SIZE_text(name) +sizeof(u32)
#define STATIC_SIZE(kind, ...) STATIC_SIZE_##kind(__VA_ARGS__)

#define STATIC_EVENT(number, system, name, FIELDS, fmt, ...)                                  \
	struct name##_event {                                                                 \
		struct trace_entry ent;                                                       \
		FIELDS(STATIC_MEMBER)                                                         \
	};                                                                                    \
	_Static_assert(sizeof(struct trace_entry) FIELDS(STATIC_SIZE) ==                      \
			       sizeof(struct name##_event),                                   \
		       #name " has a gap");                                                   \
	static void name##_print(struct seq *s, const void *event)                            \
	{                                                                                     \
		const struct name##_event *REC = event;                                       \
                                                                                              \
		seq_printf(s, fmt, __VA_ARGS__);                                              \
	}                                                                                     \
	static __typeof__(*tracepoint_##name) name##_hit;                                     \
	static struct trace_probe_event name##_state;                                         \
	TABLE_ENTRY(const struct static_event, static_event, name##_static) = {               \
		&tracepoint_##name, (void (*)(void))name##_hit, name##_print,                 \
		"\"" fmt "\", " #__VA_ARGS__, &name##_state};                                   \
	static struct trace_probe_event name##_state = {                                      \
		.def = &(const struct probe_def){                                             \
			.kind = 's', .group = #system, .event = #name,                        \
			.fields = (const struct trace_field[]){FIELDS(STATIC_FIELD){NULL}}},  \
		.fixed = &name##_static, .id = number};                                       \
	static __typeof__(*tracepoint_##name) name##_hit

/* Record the event @e, made of the fields after its struct trace_entry. Any context. */
#define RECORD(name, e) static_event_hit(&name##_state, &(e), sizeof(e))
/* @bytes: 8-aligned. */
void static_event_hit(struct trace_probe_event *event, void *bytes, u32 size);
/* The pid of the thread that the event switches to, or wakes; of any other event current's. */
int static_event_pid(u16 id, const void *bytes);
/* Patch the event's sites, if they are not yet so. events_lock held. 0 or -errno. */
int static_event_arm(struct trace_probe_event *event, bool on);
/*
 * Patch the tracepoint's sites: @point is &tracepoint_NAME. After `off` no hit runs that masks
 * interrupts from its first instruction on. Context: thread, without ftrace_lock. 0 or -errno.
 */
int tracepoint_arm(const void *point, bool on);

/*
 * ---- latency.c: for the tracer wakeup ----
 *
 * @t was woken, is being moved to the CPU @to, is about to run on this CPU; @ip: the tracepoint.
 * Interrupts are masked.
 */
void latency_wakeup(const struct thread *t, unsigned long ip);
void latency_migrate(const struct thread *t, unsigned to);
void latency_switch(const struct thread *t, unsigned long ip);

#endif
