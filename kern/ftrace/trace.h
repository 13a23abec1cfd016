/*
 * Tracers, and what they write: the events and the per-CPU ring buffers.
 *
 * A tracer is named in available_tracers and chosen through current_tracer;
 * it joins by being linked (TRACER()).
 */
#ifndef FTRACE_TRACE_H
#define FTRACE_TRACE_H

#include "ftrace.h"
#include "ring_buffer.h"
#include "file.h"

/* Event types, Linux's numbers (the ID of events/ftrace/<name>/format). */
enum { TRACE_FN = 1, TRACE_PRINT = 5 };

struct trace_array; /* one set of buffers with its tracer and options: an instance */
extern struct trace_array global_trace;

struct tracer {
	const char *name;
	int (*init)(struct trace_array *tr);   /* start; 0 or -errno */
	void (*reset)(struct trace_array *tr); /* stop; nothing of it runs afterwards */
	/* One event as a line, without the context columns; NULL: the event's own form. */
	int (*print)(struct seq *s, struct trace_array *tr, const void *event);
};
#define TRACER(t) TABLE_ENTRY(const struct tracer *const, tracer, t##_tracer_entry) = &t

/* The function tracer's callback: one function event into @op->private's buffers. */
void function_trace_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			 struct ftrace_regs *regs);

#endif
