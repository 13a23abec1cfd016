/*
 * Tracers, the events that they write, and the text that `cat trace` prints.
 *
 * A tracer is listed in available_tracers and chosen through current_tracer.
 * The linker collects all tracers that are declared with TRACER(). Each instance
 * (struct trace_array) has one tracer and a ring buffer for each CPU.
 *
 * An event, in the order in which it runs:
 * 1. A callback (trace_function.c) or a handler of function_graph
 *    (trace_graph.c, trace_graph_direct.c) is called for a traced function.
 * 2. Short path: if this CPU's buffer has no reason to be slow, write the event
 *    in place and commit it (trace_event.h).
 * 3. Long path, for everything rare: trace_begin(), fill the entry, trace_end()
 *    (trace.c); it may begin a new page or drop the event.
 * 4. Later a reader (files/trace_files_buffer.c) finds the event in the buffer and
 *    calls trace_print_event() (trace_output.c). It finds the printer in the table of
 *    event types (event_type.h) or in the tracer (print_other). Events of probes are
 *    printed by events/ (PRINT_HOOK).
 * profile.c and trace_stack.c (the stack tracer) write no events: they have files of
 * their own.
 *
 * This room uses all rooms before it in stages.mk. files/ and events/ call it, and
 * modules/ calls profile_forget_modules().
 */
#ifndef FTRACE_TRACE_H
#define FTRACE_TRACE_H

#include "cpu.h"
#include "event_type.h"
#include "file.h"
#include "ftrace.h"
#include "ring_buffer.h"

/* Options: one bit each, named in trace_options and options/. */
#define TRACE_OPTIONS(option)                                                                 \
	option(PRINT_PARENT, "print-parent")                                                  \
	option(SYM_OFFSET, "sym-offset")                                                      \
	option(SYM_ADDR, "sym-addr")                                                          \
	option(ANNOTATE, "annotate")                                                          \
	option(CONTEXT_INFO, "context-info")                                                  \
	option(OVERWRITE, "overwrite")                                                        \
	option(IRQ_INFO, "irq-info")                                                          \
	option(MARKERS, "markers")                                                            \
	option(EVENT_FORK, "event-fork")                                                      \
	option(PAUSE_ON_TRACE, "pause-on-trace")                                              \
	option(FUNCTION_FORK, "function-fork")                                                \
	option(STACKTRACE, "stacktrace")
/*
 * Options of one kind of tracer (function, function_graph, those of latencies); they exist only
 * while such a tracer is the current one.
 */
#define TRACE_FUNCTION_OPTIONS(option) option(FUNC_STACK, "func_stack_trace")
#define TRACE_GRAPH_OPTIONS(option)                                                           \
	option(GRAPH_OVERRUN, "funcgraph-overrun")                                            \
	option(GRAPH_CPU, "funcgraph-cpu")                                                    \
	option(GRAPH_OVERHEAD, "funcgraph-overhead")                                          \
	option(GRAPH_PROC, "funcgraph-proc")                                                  \
	option(GRAPH_DURATION, "funcgraph-duration")                                          \
	option(GRAPH_ABSTIME, "funcgraph-abstime")                                            \
	option(GRAPH_IRQS, "funcgraph-irqs")                                                  \
	option(GRAPH_TAIL, "funcgraph-tail")                                                  \
	option(GRAPH_RETVAL, "funcgraph-retval")                                              \
	option(GRAPH_RETVAL_HEX, "funcgraph-retval-hex")                                      \
	option(GRAPH_RETADDR, "funcgraph-retaddr")                                            \
	option(GRAPH_ARGS, "funcgraph-args")                                                  \
	option(SLEEP_TIME, "sleep-time")                                                      \
	option(GRAPH_TIME, "graph-time")                                                      \
	option(LATENCY_FMT, "latency-format")
#define TRACE_LATENCY_OPTIONS(option) option(FUNCTION, "function-trace")
enum {
#define OPTION_NUMBER(id, name) TRACE_OPTION_##id,
	TRACE_OPTIONS(OPTION_NUMBER) TRACE_FUNCTION_OPTIONS(OPTION_NUMBER)
	TRACE_GRAPH_OPTIONS(OPTION_NUMBER) TRACE_LATENCY_OPTIONS(OPTION_NUMBER)
	TRACE_OPTION_COUNT,
#define OPTION_BIT(id, name) TRACE_ITER_##id = 1 << TRACE_OPTION_##id,
	TRACE_OPTIONS(OPTION_BIT) TRACE_FUNCTION_OPTIONS(OPTION_BIT)
	TRACE_GRAPH_OPTIONS(OPTION_BIT) TRACE_LATENCY_OPTIONS(OPTION_BIT)
#define OPTION_OR(id, name) TRACE_ITER_##id |
	TRACE_ITER_GENERAL = TRACE_OPTIONS(OPTION_OR) 0,
	TRACE_ITER_GRAPH = TRACE_GRAPH_OPTIONS(OPTION_OR) 0,
	/*
	 * Of instances/last_boot: no names of threads and of modules' functions are printed,
	 * because this boot's are different.
	 */
	TRACE_ITER_LAST_BOOT = 1 << 30,
	/* The options that are on after boot. */
	TRACE_ITER_DEFAULT = TRACE_ITER_PRINT_PARENT | TRACE_ITER_ANNOTATE |
			     TRACE_ITER_CONTEXT_INFO | TRACE_ITER_OVERWRITE | TRACE_ITER_IRQ_INFO |
			     TRACE_ITER_MARKERS | TRACE_ITER_GRAPH_CPU | TRACE_ITER_GRAPH_OVERHEAD |
			     TRACE_ITER_GRAPH_DURATION | TRACE_ITER_GRAPH_IRQS |
			     TRACE_ITER_SLEEP_TIME | TRACE_ITER_GRAPH_TIME | TRACE_ITER_FUNCTION,
};

/* An option's file: one for each entry of TRACE_OPTIONS and of the tracers' options. */
u64 trace_option_get(const struct file *f);
int trace_option_set(struct file *f, u64 on);
#define TRACEFS_OPTION(id, name)                                                              \
	TRACEFS_U64(option_##id, "options/" name, TRACEFS_INSTANCE, trace_option_get,         \
		    trace_option_set, TRACE_OPTION_##id);

struct trace_clock {
	const char *name;
	u64 (*read)(void); /* NULL: clock_ns(); the short path knows this one only */
	bool in_ns;
};
extern const struct trace_clock trace_clocks[];
extern const unsigned trace_clock_count;

struct tracer;

/*
 * The threads whose events are recorded (events/trace_pids.c): those in the first list, if it is in
 * use, and not those in the second one. An event is that of the thread that runs, in an interrupt
 * too. A list changes in place, one bit after the other.
 */
#define TRACE_PIDS 4096
enum { PIDS_ONLY, PIDS_NOT };
struct trace_array;
struct trace_pids {
	struct trace_pids *next;
	const struct trace_array *tr;
	u32 fork;     /* the option that adds a listed thread's children: TRACE_ITER_* */
	bool used[2]; /* PIDS_* */
	u64 list[2][TRACE_PIDS / 64];
};
static inline bool trace_pids_used(const struct trace_pids *p)
{
	return p && (READ_ONCE(p->used[PIDS_ONLY]) || READ_ONCE(p->used[PIDS_NOT]));
}
static inline bool trace_pids_has(const struct trace_pids *p, int list, unsigned pid)
{
	return READ_ONCE(p->list[list][pid / 64]) >> pid % 64 & 1;
}
static inline bool trace_pids_ignore(const struct trace_pids *p, unsigned pid)
{
	return p && ((READ_ONCE(p->used[PIDS_ONLY]) && !trace_pids_has(p, PIDS_ONLY, pid)) ||
		     (READ_ONCE(p->used[PIDS_NOT]) && trace_pids_has(p, PIDS_NOT, pid)));
}

/*
 * One set of buffers with its tracer and options: an instance. The buffers
 * are first: op->private + this_cpu()->ftrace is this CPU's buffer.
 */
struct trace_array {
	struct ring_buffer_cpu cpu[NR_CPUS];
	const struct tracer *tracer;
	const struct trace_clock *clock;
	struct ftrace_ops *ops; /* its filter and notrace list; the function tracer's op */
	void *graph;            /* function_graph's own state while it is the tracer */
	struct ftrace_filter graph_lists; /* set_graph_function and set_graph_notrace */
	u32 max_graph_depth;           /* 0: no limit */
	u32 thresh_us;		/* tracing_thresh: function_graph shows longer calls only; 0: all */
	struct trace_pids *function_pids, *event_pids; /* or NULL: all threads */
	u32 options;           /* TRACE_ITER_* */
	unsigned pipe_readers; /* a bit for each CPU whose events an open trace_pipe consumes */
	u32 pauses;	       /* open files `trace` that stop recording: pause-on-trace */
	bool expanded;         /* no longer the small buffers of the boot */
	/* where the next boot finds the clock's number (ring_region.h); or NULL */
	u32 *kept_clock;
	/* The spare buffers (events/snapshot.c); or NULL. ->expanded: they have their size. */
	struct trace_array *snapshot;
	u64 max_latency; /* ns: the longest section that a latency tracer has kept */
	/*
	 * Of spare buffers: if it is not 0, only events from this time on are shown, of one CPU or
	 * (-1) of all; and how many, in the file that was opened last.
	 */
	u64 since, shown;
	int since_cpu;
	struct node *dir;         /* of an instance; NULL: TRACEFS */
	struct trace_array *next; /* events/: the next instance */
};
extern struct trace_array global_trace; /* of the files in TRACEFS itself */

/*
 * The state that the reader of an open file keeps from one line to the next,
 * for each CPU; all zero at first. For the text of function_graph:
 */
#define TRACE_PRINT_DEPTH 50
struct trace_printer {
	struct trace_array *tr;
	const struct tracer *tracer; /* the tracer that printed the lines so far */
	struct trace_printer_cpu {
		bool seen;      /* an event was printed before, of the thread last_pid */
		s32 last_pid;
		s32 depth;	/* of the innermost open call: where comments belong */
		s32 irq_depth;	/* inside an interrupt that is not shown: its depth + 1 */
		/* the function (lowest bits) that is open at each depth */
		u32 open[TRACE_PRINT_DEPTH];
	} cpu[NR_CPUS];
};

/* An event that is being printed, and everything that its text depends on. */
struct trace_line {
	struct seq *s;
	struct trace_printer_cpu *state;
	const struct trace_entry *ent; /* ev->data */
	/* next: the event after ev in the same CPU's buffer, or NULL */
	const struct rb_event *ev, *next;
	u32 options;
	unsigned cpu;
	const struct trace_array *tr;
};

struct tracer {
	const char *name;
	int (*init)(struct trace_array *tr);   /* start; 0 or -errno */
	void (*reset)(struct trace_array *tr); /* stop; no callback of the tracer runs afterwards */
	/*
	 * Print an event of a type that is not this tracer's. False, or NULL: print it in the
	 * common form.
	 */
	bool (*print_other)(const struct trace_line *l);
	void (*print_header)(struct seq *s, struct trace_array *tr); /* NULL: the common columns */
	u32 options; /* TRACE_ITER_* that exist only while it is the current tracer */
	/* called after any option has changed; or NULL */
	void (*options_changed)(struct trace_array *tr);
	/* `trace` shows the spare buffers, which have the events of the longest section */
	bool print_max;
};
#define TRACER(t) TABLE_ENTRY(const struct tracer *const, tracer, t##_tracer_entry) = &t
extern const struct tracer nop_tracer; /* no tracer; not in the table, because it is listed last */

/*
 * The function tracer's callback: write a function event to the buffers of the trace array
 * @op->private.
 */
void function_trace_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			 struct ftrace_regs *regs);
/* Its long path: the rare cases, and the stack trace after the event (func_stack_trace). */
void function_trace_slow(struct ftrace_ops *op, unsigned long ip, unsigned long parent_ip,
			 struct ftrace_regs *regs);

/*
 * Write a stack event of its own: the traced function and its callers. For a callback, with the
 * recursion bit set.
 */
void trace_write_stack(struct trace_array *tr, unsigned long ip, unsigned long parent_ip,
		       const struct ftrace_regs *regs);

/*
 * Write an event on the long path. trace_begin() masks interrupts, sets the
 * recursion bit and reserves the entry. It returns the entry with its common
 * fields filled, or NULL if recording is off or there is no room. trace_end()
 * publishes the entry; call it in either case.
 */
struct trace_write {
	struct cpu *cpu;
	struct ring_buffer_cpu *rb;
	unsigned long irq;
	u64 recursion;
	struct rb_reserved reserved;
};
void *trace_begin(struct trace_array *tr, u16 type, size_t size, struct trace_write *w);
/* As trace_begin(), for a callback or a handler for which the recursion bit is set already. */
void *trace_reserve(struct trace_array *tr, u16 type, size_t size, struct trace_write *w);
void trace_end(struct trace_write *w, void *entry);

/*
 * Give @tr buffers of @bytes for each CPU, the nop tracer and the first clock.
 * The caller has set ->ops and ->options. 0 or -ENOMEM. trace_array_free():
 * the tracer must be nop, and no file of @tr open.
 */
int trace_array_init(struct trace_array *tr, unsigned long bytes);
void trace_array_free(struct trace_array *tr);

/* Context: thread, trace_lock (tracefs.h) held. cpu -1: all CPUs. */
#define TRACE_BUFFER_SIZE KiB(1408) /* for each CPU, from the first use of a tracer on */
/*
 * Give the buffers their real size, if they have not got it yet; without enough memory half of it,
 * or half of that, and so on.
 */
void tracing_expand(struct trace_array *tr);
int tracing_set_tracer(struct trace_array *tr, const char *name);
void profile_forget_modules(void); /* profile.c: a module is being removed; ftrace_lock held */
int tracing_set_clock(struct trace_array *tr, const char *name);
void tracing_set_option(struct trace_array *tr, int option, bool on);
void tracing_options_changed(struct trace_array *tr); /* or the pids */
int tracing_resize(struct trace_array *tr, int cpu, unsigned long bytes);
void tracing_reset(struct trace_array *tr, int cpu);
/* The spare buffers, ready to be shown. NULL: there are none. */
struct trace_array *tracing_spare(struct trace_array *tr);

/* Any context. */
/* set or clear RB_* on every CPU: RB_OFF is tracing_on 0 */
void tracing_slow(struct trace_array *tr, u64 reasons, bool on);
void tracing_slow_cpu(struct trace_array *tr, unsigned cpu, u64 reasons, bool on);
static inline bool tracing_is_on(const struct trace_array *tr)
{
	return !(__atomic_load_n(&tr->cpu[0].slow, __ATOMIC_ACQUIRE) & RB_OFF);
}

/* ---- trace.c ---- */

/* The trace array of an instance's file, or global_trace. Valid while the file is open. */
struct trace_array *trace_array_of(const struct file *f);

/* ---- trace_files_buffer.c ---- */

/*
 * Open @f as a file `trace` that shows @tr's events, of one CPU or (-1) of all. trace_lock held.
 * 0 or -errno.
 */
int trace_open_events(struct file *f, struct trace_array *tr, int cpu);
int trace_release(struct file *f);
/*
 * At a panic: print @p->tr's oldest event, of one CPU or (-1) of all, to @s, and consume it. The
 * buffer of @s is the caller's and has room for any line but of the longest events. False: there is
 * none. No lock is taken, because no other CPU runs.
 */
bool trace_dump_line(struct trace_printer *p, int cpu, struct seq *s);

/* ---- instances.c ---- */

/*
 * What another room does for an instance. made(tr): add to the directory of the new
 * instance @tr, before it is linked into the tree. 0 or -errno: then @tr is not made.
 * gone(tr): take that back, after the tracer is nop and before the buffers are freed; also
 * if made(tr) has failed or was not called. Context: thread, without trace_lock.
 */
struct instance_hook {
	int (*made)(struct trace_array *tr);
	void (*gone)(struct trace_array *tr);
};
#define INSTANCE_HOOK(m, g)                                                                   \
	TABLE_ENTRY(const struct instance_hook, instance_hook, m##_hook) = {m, g}

/* ---- trace_graph_output.c: print_other and print_header of function_graph ---- */

bool trace_graph_print_other(const struct trace_line *l);
char trace_mark(u64 ns); /* of a time that is long; or ' ' */
void trace_graph_print_header(struct seq *s, struct trace_array *tr);
/*
 * Print microseconds and " us " in twelve columns, with as many decimals as fit; a longer number
 * takes more columns.
 */
void trace_print_duration(struct seq *s, u64 ns);

/* ---- trace_args.c ---- */

/* The number of registers that carry the arguments of @func. Any context. */
unsigned trace_args_count(unsigned long func);
/* Print the arguments that were in these registers, without the parentheses. */
void trace_print_args(struct seq *s, unsigned long func, const u32 (*args)[2]);

/* ---- trace_output.c ---- */

/*
 * The name printed for @pid: "<idle>", the name of its thread or of the last thread with that pid,
 * or "<...>".
 */
void trace_find_comm(u32 options, int pid, char comm[16]);
void trace_print_header(struct seq *s, struct trace_array *tr);
/*
 * What the five flags mean, in lines with @width columns before the flags; @last ends the last
 * line.
 */
void trace_print_legend(struct seq *s, int width, const char *last);
/* Prints the text of an event whose type is not in the table. False: it is not this hook's type. */
struct print_hook {
	bool (*fn)(const struct trace_line *l);
};
#define PRINT_HOOK(f) TABLE_ENTRY(const struct print_hook, print_hook, f##_hook) = {f}
/* the text of an event of any type that has a .print, or that the type is not known */
void trace_print_text(const struct trace_line *l);
/*
 * Print @ev, or @ev and @next together, as whole lines. Return: the number of events printed, 1 or
 * 2.
 */
int trace_print_event(struct seq *s, struct trace_printer *p, unsigned cpu,
		      const struct rb_event *ev, const struct rb_event *next);
/*
 * Parts of a line: the time, in seconds (with a clock that is not in ns: a
 * number of @width columns); the five flags; a symbol, in the form that
 * sym-offset and sym-addr in @options select.
 */
void trace_print_time(struct seq *s, const struct trace_clock *clock, u64 ts, int width);
void trace_print_flags(struct seq *s, const struct trace_entry *e);
void trace_print_symbol(struct seq *s, u32 options, unsigned long addr);

#endif
