/*
 * function_graph as text, byte for byte as Linux 6.12 prints it.
 *
 *	# CPU  DURATION                  FUNCTION CALLS
 *	# |     |   |                     |   |   |   |
 *	 0)               |  outer() {        an entry
 *	 0)   1.500 us    |    leaf();        an entry, and next to it its return
 *	 0) + 12.300 us   |  }                a return
 *
 * A line has the columns that the options select, then the call, indented by
 * two for each depth. Whether an entry and its return are printed on one line
 * depends on the next event, so the reader keeps for each CPU the list of open
 * calls (trace_printer).
 */
#include "print.h"
#include "string.h"
#include "trace.h"
#include "tracefs.h"
#include "unwind.h"

extern char __irqentry_text_start[], __irqentry_text_end[];

#define DEPTH_MAX 512 /* a shadow stack has room for fewer frames */

static bool has(const struct trace_line *l, u32 option)
{
	return l->options & option;
}

/* ---- Columns ---- */

/* CPUs have one digit: NR_CPUS is 8. */
static void print_cpu(const struct trace_line *l)
{
	seq_printf(l->s, " %u) ", l->cpu);
}

#define PROC_WIDTH 14

/* Seven characters of the name and the pid, in the middle of the column. */
static void print_proc(const struct trace_line *l, int pid)
{
	char comm[16], text[24];
	int spaces;

	trace_find_comm(l->options, pid, comm);
	spaces = PROC_WIDTH - scnprintf(text, sizeof(text), "%.7s-%d", comm, pid);
	spaces = MAX(spaces, 0);
	seq_printf(l->s, "%*s%s%*s", spaces / 2, "", text, spaces - spaces / 2, "");
}

static void print_columns(const struct trace_line *l)
{
	if (!has(l, TRACE_ITER_CONTEXT_INFO))
		return;
	if (has(l, TRACE_ITER_GRAPH_ABSTIME))
		seq_printf(l->s, "%5lu.%06lu |  ", (unsigned long)(l->ev->ts / 1000000000),
			   (unsigned long)(l->ev->ts / 1000 % 1000000));
	if (has(l, TRACE_ITER_GRAPH_CPU))
		print_cpu(l);
	if (has(l, TRACE_ITER_GRAPH_PROC)) {
		print_proc(l, l->ent->pid);
		seq_printf(l->s, " | ");
	}
	if (has(l, TRACE_ITER_LATENCY_FMT)) {
		seq_printf(l->s, " ");
		trace_print_flags(l->s, l->ent);
		seq_printf(l->s, " | ");
	}
}

char trace_mark(u64 ns)
{
	static const struct {
		u64 above;
		char mark;
	} marks[] = {{1000000000, '$'}, {100000000, '@'}, {10000000, '*'},
		     {1000000, '#'},	{100000, '!'},	  {10000, '+'}};

	for (unsigned i = 0; i < ARRAY_SIZE(marks); i++)
		if (ns > marks[i].above)
			return marks[i].mark;
	return ' ';
}

static bool has_duration(const struct trace_line *l)
{
	return has(l, TRACE_ITER_GRAPH_DURATION) && has(l, TRACE_ITER_CONTEXT_INFO);
}

void trace_print_duration(struct seq *s, u64 ns)
{
	char text[32];
	int width = snprintf(text, sizeof(text), "%lu", (unsigned long)(ns / 1000));
	if (width < 7) {
		snprintf(text + width, sizeof(text) - width, ".%03lu", (unsigned long)(ns % 1000));
		width = 8;
	}
	seq_printf(s, "%.*s us %*s", width, text, MAX(8 - (int)strnlen(text, width), 0), "");
}

static void print_duration(const struct trace_line *l, u64 ns)
{
	if (!has_duration(l))
		return;
	seq_printf(l->s, "%c ", has(l, TRACE_ITER_GRAPH_OVERHEAD) ? trace_mark(ns) : ' ');
	trace_print_duration(l->s, ns);
	seq_printf(l->s, "|  ");
}

/* Print the columns of a line without a duration, up to the call at @depth. */
static void print_indent(const struct trace_line *l, int depth)
{
	if (has_duration(l))
		seq_printf(l->s, "              |  ");
	seq_printf(l->s, "%*s", 2 * depth, "");
}

/* ---- Between the lines ---- */

#define RULE " ------------------------------------------\n"

/* Print a switch if the thread is not that of the CPU's last line. */
static void print_switch(const struct trace_line *l)
{
	int pid = l->ent->pid, last = l->state->last_pid;
	bool seen = l->state->seen;

	l->state->seen = true;
	l->state->last_pid = pid;
	if (!seen || pid == last)
		return;
	seq_printf(l->s, RULE);
	print_cpu(l);
	print_proc(l, last);
	seq_printf(l->s, " => ");
	print_proc(l, pid);
	seq_printf(l->s, "\n" RULE "\n");
}

static bool is_irq_entry(unsigned long func)
{
	return func >= (unsigned long)__irqentry_text_start &&
	       func < (unsigned long)__irqentry_text_end;
}

static void print_arrow(const struct trace_line *l, unsigned long func, const char *arrow)
{
	if (!is_irq_entry(func))
		return;
	print_columns(l);
	if (has_duration(l))
		seq_printf(l->s, "  %s |\n", arrow);
	else
		seq_printf(l->s, "%s\n", arrow);
}

/* ---- Calls and returns ---- */

/*
 * With funcgraph-irqs off, interrupts that were recorded before it was switched off are hidden,
 * too.
 */
static bool is_hidden_entry(const struct trace_line *l, const struct ftrace_graph_ent_entry *e)
{
	if (has(l, TRACE_ITER_GRAPH_IRQS))
		return false;
	if (!l->state->irq_depth && is_irq_entry(get_address(e->func)))
		l->state->irq_depth = e->depth + 1;
	return l->state->irq_depth;
}

static bool is_hidden_return(const struct trace_line *l, const struct ftrace_graph_ret_entry *e)
{
	s32 irq_depth = l->state->irq_depth;

	if (has(l, TRACE_ITER_GRAPH_IRQS) || !irq_depth)
		return false;
	if (e->depth < irq_depth) /* "<": the interrupt's own return may be lost */
		l->state->irq_depth = 0;
	return true;
}

/*
 * Store the open function at @depth; 0: none. From depth TRACE_PRINT_DEPTH on every return counts
 * as matching.
 */
static void set_open(const struct trace_line *l, s32 depth, u32 func)
{
	if (depth >= 0 && depth < TRACE_PRINT_DEPTH)
		l->state->open[depth] = func;
}

static bool is_open(const struct trace_line *l, s32 depth, u32 func)
{
	return depth < 0 || depth >= TRACE_PRINT_DEPTH || l->state->open[depth] == func;
}

static void print_name(const struct trace_line *l, unsigned long func)
{
	trace_print_symbol(l->s, l->options & TRACE_ITER_LAST_BOOT, func);
}

static void print_call(const struct trace_line *l, const struct ftrace_graph_ent_entry *e)
{
	unsigned long func = get_address(e->func);

	seq_printf(l->s, "%*s", 2 * e->depth, "");
	print_name(l, func);
	seq_printf(l->s, "(");
	if (e->ent.type == TRACE_GRAPH_ENT && l->ev->len > sizeof(*e))
		trace_print_args(l->s, func, e->args);
	seq_printf(l->s, ")");
}

static void print_retaddr(const struct trace_line *l)
{
	const struct fgraph_retaddr_ent_entry *e = (const void *)l->ent;

	seq_printf(l->s, " <-");
	trace_print_symbol(l->s, l->options | TRACE_ITER_SYM_OFFSET, get_address(e->retaddr));
}

/* An error is a small negative number, of 32 or of 64 bits. */
static void print_retval(const struct trace_line *l, unsigned long retval)
{
	long error = retval >> 31 == 1 ? (s32)retval : (long)retval;

	/* Linux prints "ret=" in the versions that can print the return address as well. */
	seq_printf(l->s, has(l, TRACE_ITER_GRAPH_RETADDR) ? " ret=" : " = ");
	if (error < 0 && error >= -4095 && !has(l, TRACE_ITER_GRAPH_RETVAL_HEX))
		seq_printf(l->s, "%ld", error);
	else
		seq_printf(l->s, "0x%lx", retval);
}

static u64 duration_of(const struct ftrace_graph_ret_entry *ret)
{
	return get_address(ret->rettime) - get_address(ret->calltime);
}

static void print_leaf(const struct trace_line *l, const struct ftrace_graph_ent_entry *e,
		       const struct ftrace_graph_ret_entry *ret)
{
	bool retaddr = e->ent.type == TRACE_GRAPH_RETADDR_ENT;
	bool comment = retaddr || has(l, TRACE_ITER_GRAPH_RETVAL);

	l->state->depth = e->depth - 1; /* a comment that follows has the depth of this call */
	set_open(l, e->depth, 0);
	print_duration(l, duration_of(ret));
	print_call(l, e);
	seq_printf(l->s, ";%s", comment ? " /*" : "");
	if (retaddr)
		print_retaddr(l);
	if (has(l, TRACE_ITER_GRAPH_RETVAL))
		print_retval(l, get_address(ret->retval));
	seq_printf(l->s, "%s\n", comment ? " */" : "");
	print_arrow(l, get_address(e->func), "<==========");
}

static void print_open(const struct trace_line *l, const struct ftrace_graph_ent_entry *e)
{
	l->state->depth = e->depth;
	set_open(l, e->depth, e->func[0]);
	print_indent(l, 0);
	print_call(l, e);
	seq_printf(l->s, " {");
	if (e->ent.type == TRACE_GRAPH_RETADDR_ENT) {
		seq_printf(l->s, " /*");
		print_retaddr(l);
		seq_printf(l->s, " */");
	}
	seq_printf(l->s, "\n");
}

/* Is @next the return event of the call @e, with no event lost between the two? */
static bool is_leaf(const struct ftrace_graph_ent_entry *e, const struct rb_event *next)
{
	const struct ftrace_graph_ret_entry *ret;

	if (!next || next->lost)
		return false;
	ret = next->data;
	return ret->ent.type == TRACE_GRAPH_RET && ret->ent.pid == e->ent.pid &&
	       ret->depth == e->depth && get_address(ret->func) == get_address(e->func);
}

static int print_entry(const struct trace_line *l)
{
	const struct ftrace_graph_ent_entry *e = (const void *)l->ent;

	if (is_hidden_entry(l, e))
		return 1;
	print_switch(l);
	print_arrow(l, get_address(e->func), "==========>");
	print_columns(l);
	if (is_leaf(e, l->next)) {
		print_leaf(l, e, l->next->data);
		return 2;
	}
	print_open(l, e);
	return 1;
}

static bool is_depth(int depth)
{
	return depth >= 0 && depth < DEPTH_MAX;
}

/* The arguments of a module's function are left out: they cannot be named. */
static u32 accept_entry(const void *data, u32 len)
{
	const struct ftrace_graph_ent_entry *e = data;
	unsigned long func = get_address(e->func);

	if (!is_depth(e->depth))
		return 0;
	if (!in_kernel_text(func))
		return sizeof(*e);
	return len == sizeof(*e) || len == sizeof(*e) + 8 * trace_args_count(func) ? len : 0;
}
TRACE_EVENT(TRACE_GRAPH_ENT, funcgraph_entry, GRAPH_ENT_FIELDS, accept_entry,
	    .print_lines = print_entry,
	    .print_fmt = "\"--> %ps (%d)\", (void *)REC->func, REC->depth");

static u32 accept_retaddr_entry(const void *data, u32 len)
{
	const struct fgraph_retaddr_ent_entry *e = data;

	return len == sizeof(*e) && is_depth(e->depth) ? len : 0;
}
TRACE_EVENT(TRACE_GRAPH_RETADDR_ENT, fgraph_retaddr_entry, GRAPH_RETADDR_ENT_FIELDS,
	    accept_retaddr_entry, .print_lines = print_entry,
	    .print_fmt =
		    "\"--> %ps (%d) <- %ps\", (void *)REC->func, REC->depth, (void *)REC->retaddr");

static int print_return(const struct trace_line *l)
{
	const struct ftrace_graph_ret_entry *e = (const void *)l->ent;
	unsigned long func = get_address(e->func);
	bool matches;

	if (is_hidden_return(l, e))
		return 1;
	l->state->depth = e->depth - 1;
	matches = is_open(l, e->depth, e->func[0]);
	set_open(l, e->depth, 0);
	print_switch(l);
	print_columns(l);
	print_duration(l, duration_of(e));
	seq_printf(l->s, "%*s}", 2 * e->depth, "");
	if (!matches || has(l, TRACE_ITER_GRAPH_TAIL | TRACE_ITER_GRAPH_RETVAL)) {
		seq_printf(l->s, " /* ");
		print_name(l, func);
		if (has(l, TRACE_ITER_GRAPH_RETVAL))
			print_retval(l, get_address(e->retval));
		seq_printf(l->s, " */");
	}
	seq_printf(l->s, "\n");
	if (has(l, TRACE_ITER_GRAPH_OVERRUN))
		seq_printf(l->s, " (Overruns: %u)\n", e->overrun);
	print_arrow(l, func, "<==========");
	return 1;
}

static u32 accept_return(const void *data, u32 len)
{
	const struct ftrace_graph_ret_entry *e = data;

	return len == sizeof(*e) && is_depth(e->depth) ? len : 0;
}
TRACE_EVENT(TRACE_GRAPH_RET, funcgraph_exit, GRAPH_RET_FIELDS, accept_return,
	    .print_lines = print_return,
	    .print_fmt = "\"<-- %ps (%d) (start: %llx  end: %llx) over: %u retval: %lx\", (void "
			 "*)REC->func, "
			 "REC->depth, REC->calltime, REC->rettime, REC->overrun, REC->retval");

/*
 * A comment: any event but a function's or a stack's. As on Linux, it is indented one deeper than
 * the call around it, but not inside a call of depth 0.
 */
bool trace_graph_print_other(const struct trace_line *l)
{
	const struct print_entry *e = (const void *)l->ent;
	struct seq *s = l->s;
	int depth = l->state->depth;

	if (e->ent.type == TRACE_FN || e->ent.type == TRACE_STACK)
		return false;
	print_switch(l);
	print_columns(l);
	print_indent(l, depth > 0 ? depth + 1 : 0);
	seq_printf(s, "/* ");
	if (e->ent.type == TRACE_PRINT)
		seq_printf(s, "%s", e->buf);
	else
		trace_print_text(l);
	if (s->len && s->buf[s->len - 1] == '\n')
		s->len--;
	seq_printf(s, " */\n");
	return true;
}

/* ---- The header ---- */

void trace_graph_print_header(struct seq *s, struct trace_array *tr)
{
	static const struct {
		u32 option;
		int width; /* before the flags */
		const char *name, *bars;
	} columns[] = {
		{TRACE_ITER_GRAPH_ABSTIME, 16, "     TIME       ", "      |         "},
		{TRACE_ITER_GRAPH_CPU, 4, " CPU", " |  "},
		{TRACE_ITER_GRAPH_PROC, 17, "  TASK/PID       ", "   |    |        "},
		{TRACE_ITER_LATENCY_FMT, 0, "|||||   ", "|||||   "},
		{TRACE_ITER_GRAPH_DURATION, 0, "  DURATION   ", "   |   |      "},
	};
	int width = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(columns); i++)
		width += tr->options & columns[i].option ? columns[i].width : 0;
	/*
	 * Linux explains only four of the five flags, so the columns after them are moved by one.
	 * Its lines about a latency are left out.
	 */
	if (tr->options & TRACE_ITER_LATENCY_FMT)
		trace_print_legend(s, width, "");
	seq_printf(s, "#");
	for (unsigned i = 0; i < ARRAY_SIZE(columns); i++)
		seq_printf(s, "%s", tr->options & columns[i].option ? columns[i].name : "");
	seq_printf(s, "               FUNCTION CALLS\n#");
	for (unsigned i = 0; i < ARRAY_SIZE(columns); i++)
		seq_printf(s, "%s", tr->options & columns[i].option ? columns[i].bars : "");
	seq_printf(s, "               |   |   |   |\n");
}
