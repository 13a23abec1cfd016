/*
 * funcgraph-args: a function's arguments as Linux 6.15 prints them.
 * kern/ftrace/tools/mksyms.py reads their names and types from DWARF and writes them after
 * the function's name:
 *
 *	schedule\0 mutex_lock\0001plock, memcpy\0003pd,ps,Ln,
 *
 * The number of registers that carry them, as a digit, or as one of @ABC... if the
 * function returns nothing; then kind and name of each. Kinds:
 * p an address; b, h, i, l a signed integer of 1, 2, 4, 8 bytes and B, H, I, L
 * an unsigned one; s, S a structure in one or in two registers; u, U a union;
 * . more arguments than fit.
 */
#include "ksyms.h"
#include "string.h"
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
	return *trace_args_parameters(func) & 15;
}

/* The upper bits of a register with a narrow integer are undefined. Linux prints all integers as signed longs. */
static void print_integer(struct seq *s, unsigned kind, unsigned long value)
{
	unsigned shift = 64 - (8 << kind % 4);

	value <<= shift;
	seq_printf(s, "%ld", kind < 4 ? (long)value >> shift : (long)(value >> shift));
}

void trace_print_args(struct seq *s, unsigned long func, const u32 (*args)[2])
{
	static const char integers[] = "bhilBHIL";
	const char *p = trace_args_parameters(func), *end;

	for (p += *p != 0; *p; p = end + 1) {
		const char *integer = strchr(integers, *p);

		end = strchr(p, ',');
		seq_printf(s, "%.*s%s", (int)(end - p) - 1, p + 1, *p == '.' ? "..." : "=");
		if (integer)
			print_integer(s, integer - integers, get_address(*args++));
		else if (*p == 'p')
			seq_printf(s, "0x%lx", get_address(*args++));
		else if (*p != '.')
			seq_printf(s, "(%s)[0x%lx", (*p | 32) == 's' ? "STRUCT" : "UNION",
				   get_address(*args++));
		if (*p == 'S' || *p == 'U')
			seq_printf(s, ":0x%lx", get_address(*args++));
		seq_printf(s, "%s%s", strchr("sSuU", *p) ? "]" : "", end[1] ? ", " : "");
	}
}
