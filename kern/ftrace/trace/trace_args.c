/*
 * funcgraph-args: a function's arguments as Linux 6.15 prints them. trace_args.h says
 * where they are.
 */
#include "trace_args.h"

#include "ksyms.h"
#include "trace.h"

const char *trace_args_parameters(unsigned long func)
{
	const char *name = ksym_lookup(func, NULL, NULL);

	while (name && *name++)
		;
	return name ? name : "";
}

unsigned trace_args_count(unsigned long func)
{
	return trace_params_registers(trace_args_parameters(func));
}

/* Linux prints all integers as signed longs. */
static void print_integer(struct seq *s, unsigned kind, unsigned long value)
{
	unsigned shift = 64 - (8 << kind % 4);

	value <<= shift;
	seq_printf(s, "%ld", kind < 4 ? (long)value >> shift : (long)(value >> shift));
}

static void print_words(struct seq *s, const struct trace_param *p, const u32 (*word)[2])
{
	seq_printf(s, "(%s)[", strchr("uU", p->kind) ? "UNION" : "STRUCT");
	for (unsigned i = 0; i < p->words; i++)
		seq_printf(s, "%s0x%lx", i ? ":" : "", get_address(word[i]));
	seq_printf(s, "]");
}

static void print_value(struct seq *s, const struct trace_param *p, const u32 (*word)[2])
{
	static const char integers[] = "bhilBHIL";
	const char *integer = strchr(integers, p->kind);

	if (p->kind == '?')
		seq_printf(s, "?");
	else if (integer)
		print_integer(s, integer - integers, get_address(word[0]));
	else if (p->kind == 'p')
		seq_printf(s, "0x%lx", get_address(word[0]));
	else if (p->kind == 'q' || p->kind == 'Q')
		seq_printf(s, "0x%lx%016lx", get_address(word[1]), get_address(word[0]));
	else
		print_words(s, p, word);
}

void trace_print_args(struct seq *s, unsigned long func, const u32 (*args)[2])
{
	const char *parameters = trace_args_parameters(func), *at = trace_first_param(parameters);
	struct trace_param p = {0};

	while (trace_next_param(&at, &p)) {
		bool recorded = !p.words || p.place + p.words <= trace_params_registers(parameters);

		/* As on Linux, the arguments on the stack are not recorded. */
		seq_printf(s, "%.*s%s", recorded ? p.length : 0, p.name, recorded ? "=" : "...");
		if (!recorded)
			return;
		print_value(s, &p, args + p.place);
		seq_printf(s, "%s", *at ? ", " : "");
	}
}
