/* The options of a trace array: trace_options, options/<name>. */
#include "errno.h"
#include "string.h"
#include "trace.h"
#include "tracefs.h"

static const char *const trace_option_names[] = {
#define OPTION_NAME(id, name) name,
	TRACE_OPTIONS(OPTION_NAME) TRACE_FUNCTION_OPTIONS(OPTION_NAME)
	TRACE_GRAPH_OPTIONS(OPTION_NAME) TRACE_LATENCY_OPTIONS(OPTION_NAME)
};

/* Does the option exist now? It is a general option, or an option of the current tracer. */
static bool option_exists(const struct trace_array *tr, int option)
{
	return (TRACE_ITER_GENERAL | tr->tracer->options) >> option & 1;
}

static int option_find(const struct trace_array *tr, const char *name)
{
	for (int i = 0; i < TRACE_OPTION_COUNT; i++)
		if (option_exists(tr, i) && !strcmp(trace_option_names[i], name))
			return i;
	return -EINVAL;
}

static int trace_options_show(struct seq *s, u64 item)
{
	const struct trace_array *tr = trace_array_of(s->file);

	if (item >= TRACE_OPTION_COUNT)
		return 1;
	if (option_exists(tr, item))
		seq_printf(s, "%s%s\n", tr->options & 1u << item ? "" : "no",
			   trace_option_names[item]);
	return 0;
}

static int trace_options_set(struct file *f, const char *name)
{
	struct trace_array *tr = trace_array_of(f);
	bool no = !strncmp(name, "no", 2);
	int option = option_find(tr, name + (no ? 2 : 0));

	if (option < 0)
		return tracefs_refuse(f, option, "'%s' is no option while %s is the tracer", name,
				      tr->tracer->name);
	tracing_set_option(tr, option, !no);
	return 0;
}
TRACEFS_CONTROL(trace_options, "trace_options", TRACEFS_INSTANCE, trace_options_show, word,
		trace_options_set);

u64 trace_option_get(const struct file *f)
{
	return trace_array_of(f)->options >> tracefs_value(f)->arg & 1;
}

int trace_option_set(struct file *f, u64 on)
{
	if (on > 1)
		return tracefs_refuse(f, -EINVAL, "neither 0 nor 1");
	tracing_set_option(trace_array_of(f), tracefs_value(f)->arg, on);
	return 0;
}

TRACE_OPTIONS(TRACEFS_OPTION)
