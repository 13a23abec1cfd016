/*
 * Events as text, byte for byte as Linux 6.12 prints them, and the names of
 * the threads that wrote them: a thread may be gone when its events are read.
 */
#include "ksyms.h"
#include "string.h"
#include "trace.h"
#include "tracefs.h"

/* ---- Names ---- */

static char saved_comms[TRACE_PIDS][16];

static void save_comm(const struct thread *t)
{
	if (t && t->pid > 0 && t->pid < TRACE_PIDS)
		strlcpy(saved_comms[t->pid], t->comm, sizeof(t->comm));
}

/*
 * The name is saved when the thread is created, and again when it dies, because it may have
 * changed.
 */
static void comm_hook(enum thread_event event, struct thread *prev, struct thread *next)
{
	if (event == THREAD_BORN)
		save_comm(next);
	else if (event == THREAD_DIES)
		save_comm(prev);
}
THREAD_HOOK(comm_hook);

void trace_find_comm(u32 options, int pid, char comm[16])
{
	if (!pid)
		strlcpy(comm, "<idle>", 16);
	else if (pid > 0 && pid < TRACE_PIDS && saved_comms[pid][0] &&
		 !(options & TRACE_ITER_LAST_BOOT))
		strlcpy(comm, saved_comms[pid], 16);
	else
		strlcpy(comm, "<...>", 16);
}

/* ---- The header ---- */

static void print_counts(struct seq *s, struct trace_array *tr)
{
	u64 entries = 0, written = 0;

	for (unsigned i = 0; i < nr_cpus; i++) {
		u64 n = rb_entries(&tr->cpu[i]);

		entries += n;
		written += n + tr->cpu[i].overrun;
	}
	seq_printf(s, "# entries-in-buffer/entries-written: %lu/%lu   #P:%u\n#\n",
		   entries, written, nr_cpus);
}

void trace_print_legend(struct seq *s, int width, const char *last)
{
	static const char *const lines[] = {
		"  _-----=> irqs-off/BH-disabled", " / _----=> need-resched",
		"| / _---=> hardirq/softirq",	   "|| / _--=> preempt-depth",
		"||| / _-=> migrate-disable",	   "|||| /"};

	for (unsigned i = 0; i < ARRAY_SIZE(lines); i++)
		seq_printf(s, "#%*s%s%s\n", width, "", lines[i],
			   i + 1 < ARRAY_SIZE(lines) ? "" : last);
}

static const char columns_with_flags[] =
	"#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n"
	"#              | |         |   |||||     |         |\n";
static const char columns[] =
	"#           TASK-PID     CPU#     TIMESTAMP  FUNCTION\n"
	"#              | |         |         |         |\n";

static void print_header(struct seq *s, struct trace_array *tr)
{
	print_counts(s, tr);
	if (tr->options & TRACE_ITER_IRQ_INFO)
		trace_print_legend(s, 30, "     delay");
	seq_printf(s, "%s", tr->options & TRACE_ITER_IRQ_INFO ? columns_with_flags : columns);
}

void trace_print_header(struct seq *s, struct trace_array *tr)
{
	seq_printf(s, "# tracer: %s\n#\n", tr->tracer->name);
	if (tr->options & TRACE_ITER_CONTEXT_INFO)
		(tr->tracer->print_header ?: print_header)(s, tr);
}

/* ---- The columns of a line ---- */

static char depth_char(unsigned depth)
{
	return depth ? "0123456789abcdef"[depth & 15] : '.';
}

void trace_print_flags(struct seq *s, const struct trace_entry *e)
{
	seq_printf(s, "%c%c%c%c%c", e->flags & TRACE_FLAG_IRQS_OFF ? 'd' : '.',
		   e->flags & TRACE_FLAG_NEED_RESCHED ? 'N' : '.',
		   e->flags & TRACE_FLAG_HARDIRQ ? 'h' : '.', depth_char(e->preempt_count & 15),
		   depth_char(e->preempt_count >> 4));
}

void trace_print_time(struct seq *s, const struct trace_clock *clock, u64 ts, int width)
{
	u64 us = (ts + 500) / 1000;

	if (clock->in_ns)
		seq_printf(s, " %5lu.%06lu", us / 1000000, us % 1000000);
	else
		seq_printf(s, " %*lu", width, ts);
}

static void print_context(struct seq *s, const struct trace_array *tr, unsigned cpu, u64 ts,
			  const struct trace_entry *e)
{
	char comm[16];

	trace_find_comm(tr->options, e->pid, comm);
	seq_printf(s, "%16s-%-7d [%03u] ", comm, e->pid, cpu);
	if (tr->options & TRACE_ITER_IRQ_INFO)
		trace_print_flags(s, e);
	trace_print_time(s, tr->clock, ts, 12);
	seq_printf(s, ": ");
}

/* ---- The event itself ---- */

void trace_print_symbol(struct seq *s, u32 options, unsigned long addr)
{
	if (options & TRACE_ITER_LAST_BOOT && ksym_module(addr))
		seq_printf(s, "%#lx", addr);
	else if (options & TRACE_ITER_SYM_OFFSET)
		seq_printf(s, "%pS", (void *)addr);
	else
		seq_printf(s, "%ps", (void *)addr);
	if (options & TRACE_ITER_SYM_ADDR)
		seq_printf(s, " <%016lx>", addr);
}

static void print_function(const struct trace_line *l)
{
	const struct function_entry *e = (const void *)l->ent;

	trace_print_symbol(l->s, l->options, get_address(e->ip));
	if (l->options & TRACE_ITER_PRINT_PARENT) {
		seq_printf(l->s, " <-");
		trace_print_symbol(l->s, l->options, get_address(e->parent_ip));
	}
	seq_printf(l->s, "\n");
}
TRACE_EVENT(TRACE_FN, function, FUNCTION_FIELDS, NULL, .print = print_function,
	    .print_fmt = "\" %ps <-- %ps\", (void *)REC->ip, (void *)REC->parent_ip");

static void print_print(const struct trace_line *l)
{
	const struct print_entry *e = (const void *)l->ent;

	trace_print_symbol(l->s, l->options, get_address(e->ip));
	seq_printf(l->s, ": %s", e->buf);
}

static u32 accept_print(const void *data, u32 len)
{
	const struct print_entry *e = data;
	u32 room = len - sizeof(*e);

	return strnlen(e->buf, room) < room ? len : 0;
}
TRACE_EVENT(TRACE_PRINT, print, PRINT_FIELDS, accept_print, .print = print_print,
	    .print_fmt = "\"%ps: %s\", (void *)REC->ip, REC->buf");

/*
 * Print @addr as a return address: it belongs to the call before it, even if that call ends its
 * function.
 */
static void print_caller(struct seq *s, u32 options, unsigned long addr)
{
	if (options & TRACE_ITER_LAST_BOOT && ksym_module(addr))
		seq_printf(s, " => %#lx", addr);
	else if (options & TRACE_ITER_SYM_OFFSET)
		seq_printf(s, " => %pB", (void *)addr);
	else
		seq_printf(s, " => %ps", (void *)(addr - 1));
	seq_printf(s, options & TRACE_ITER_SYM_ADDR ? " <%016lx>\n" : "\n", addr);
}

static void print_stack(const struct trace_line *l)
{
	const struct stack_entry *e = (const void *)l->ent;

	seq_printf(l->s, "<stack trace>\n");
	for (int i = 0; i < e->size; i++)
		print_caller(l->s, l->options, get_address(e->caller[i]));
}

static u32 accept_stack(const void *data, u32 len)
{
	const struct stack_entry *e = data;
	u32 room = len - sizeof(*e);

	return room % 8 == 0 && e->size == (int)room / 8 ? len : 0;
}
TRACE_EVENT(
	TRACE_STACK, kernel_stack, STACK_FIELDS, accept_stack, .print = print_stack,
	.print_fmt =
		"\"\\t=> %ps\\n\\t=> %ps\\n\\t=> %ps\\n\" \"\\t=> %ps\\n\\t=> %ps\\n\\t=> %ps\\n\" "
		"\"\\t=> %ps\\n\\t=> %ps\\n\", (void *)REC->caller[0], (void *)REC->caller[1], "
		"(void *)REC->caller[2], (void *)REC->caller[3], (void *)REC->caller[4], "
		"(void *)REC->caller[5], (void *)REC->caller[6], (void *)REC->caller[7]");

static const struct trace_event_type *find_type(unsigned id)
{
	TABLE_FOR_EACH(const struct trace_event_type, trace_event_type, type)
		if (type->id == id)
			return type;
	return NULL;
}

u32 trace_accept_event(const void *data, u32 len)
{
	const struct trace_entry *e = data;
	const struct trace_event_type *type = len < sizeof(*e) ? NULL : find_type(e->type);

	if (!type || len < type->size)
		return 0;
	if (type->accept)
		return type->accept(data, len);
	return len == type->size ? len : 0;
}

static bool print_by_hook(const struct trace_line *l)
{
	TABLE_FOR_EACH(const struct print_hook, print_hook, hook)
		if (hook->fn(l))
			return true;
	return false;
}

void trace_print_text(const struct trace_line *l)
{
	const struct trace_event_type *type = find_type(l->ent->type);

	if (type)
		type->print(l);
	else if (!print_by_hook(l))
		seq_printf(l->s, "Unknown type %d\n", l->ent->type);
}

static void print_common(const struct trace_line *l)
{
	if (l->options & TRACE_ITER_CONTEXT_INFO)
		print_context(l->s, l->tr, l->cpu, l->ev->ts, l->ent);
	trace_print_text(l);
}

int trace_print_event(struct seq *s, struct trace_printer *p, unsigned cpu,
		      const struct rb_event *ev, const struct rb_event *next)
{
	const struct trace_line l = {s,	   &p->cpu[cpu],    ev->data, ev,
				     next, p->tr->options, cpu,      p->tr};
	const struct trace_event_type *type = find_type(l.ent->type);
	const struct tracer *tracer = p->tr->tracer;

	if (p->tracer != tracer) {
		memset(p->cpu, 0, sizeof(p->cpu));
		p->tracer = tracer;
	}
	if (ev->lost)
		seq_printf(s, "CPU:%u [LOST %lu EVENTS]\n", cpu, ev->lost);
	if (type && type->print_lines)
		return type->print_lines(&l);
	if (!tracer->print_other || !tracer->print_other(&l))
		print_common(&l);
	return 1;
}
