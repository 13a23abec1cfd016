/*
 * Each event is declared once, as a list of fields in this header.
 * TRACE_ENTRY() makes the structure from the list. TRACE_EVENT(), in the file
 * that prints the event and that includes tracefs.h, makes an entry of the table of
 * event types from the same list, and the file events/ftrace/<name>/format.
 * trace_print_event() finds the printer in that table:
 *
 *	#define FUNCTION_FIELDS(_) _(wide, unsigned long, ip) _(wide, unsigned long, parent_ip)
 *	TRACE_ENTRY(function_entry, FUNCTION_FIELDS);
 *	TRACE_EVENT(TRACE_FN, function, FUNCTION_FIELDS, NULL, .print = print_function,
 *		    .print_fmt = "...");
 *
 * The printers do not check an event's fields. So the declaration also says which events of an
 * earlier boot they may print (last_boot=): see accept below.
 *
 * Kinds of fields:
 *	field      at most four bytes
 *	wide       eight bytes, as two words: in a page they are aligned to 4 only
 *	rest, wide_rest
 *	           an array that takes the rest of the event. Two more arguments
 *	           are for the format file: the brackets after the name, and the
 *	           number of members that the size is computed from
 *	hole       a field that the format file does not show
 */
#ifndef FTRACE_EVENT_TYPE_H
#define FTRACE_EVENT_TYPE_H

#include "types.h"

/* Event types, Linux's numbers (the ID in the format file). */
enum {
	TRACE_FN = 1,
	TRACE_CTX = 2,
	TRACE_WAKE = 3,
	TRACE_STACK = 4,
	TRACE_PRINT = 5,
	TRACE_GRAPH_RET = 10,
	TRACE_GRAPH_ENT = 11,
	TRACE_GRAPH_RETADDR_ENT = 12,
};

static inline void put_address(u32 *p, unsigned long v)
{
	p[0] = v;
	p[1] = v >> 32;
}
static inline unsigned long get_address(const u32 *p)
{
	return p[0] | (u64)p[1] << 32;
}

#define TRACE_MEMBER_field(type, name) type name;
#define TRACE_MEMBER_wide(type, name) u32 name[2];
#define TRACE_MEMBER_rest(type, name, brackets, count) type name[];
#define TRACE_MEMBER_wide_rest(type, name, brackets, count) u32 name[][2];
#define TRACE_MEMBER_hole(type, name) type name;
#define TRACE_MEMBER(kind, ...) TRACE_MEMBER_##kind(__VA_ARGS__)

/* Every event begins with these. */
#define TRACE_COMMON_FIELDS(_)                                                                \
	_(field, unsigned short, type)                                                        \
	_(field, unsigned char, flags) /* TRACE_FLAG_* */                                     \
	_(field, unsigned char, preempt_count)                                                \
	_(field, int, pid)
struct trace_entry {
	TRACE_COMMON_FIELDS(TRACE_MEMBER)
};
#define TRACE_FLAG_IRQS_OFF 0x01
#define TRACE_FLAG_NEED_RESCHED 0x04
#define TRACE_FLAG_HARDIRQ 0x08
#define TRACE_FLAG_PREEMPT_RESCHED 0x20

#define TRACE_ENTRY(structure, FIELDS)                                                        \
	struct structure {                                                                    \
		struct trace_entry ent;                                                       \
		FIELDS(TRACE_MEMBER)                                                          \
	}

#define FUNCTION_FIELDS(_) _(wide, unsigned long, ip) _(wide, unsigned long, parent_ip)
TRACE_ENTRY(function_entry, FUNCTION_FIELDS);

#define PRINT_FIELDS(_) _(wide, unsigned long, ip) _(rest, char, buf, "[]", 0)
TRACE_ENTRY(print_entry, PRINT_FIELDS);

/*
 * Each caller is the address after an instruction: after a call, or after the interrupted
 * instruction.
 */
#define STACK_FIELDS(_)                                                                       \
	_(field, int, size) _(hole, int, unused) _(wide_rest, unsigned long, caller, "[8]", 8)
TRACE_ENTRY(stack_entry, STACK_FIELDS);

/*
 * args: with funcgraph-args, one for each argument register. With funcgraph-retaddr the next event
 * type is used.
 */
#define GRAPH_ENT_FIELDS(_)                                                                   \
	_(wide, unsigned long, func) _(field, int, depth) _(wide_rest, unsigned long, args, "[]", 0)
TRACE_ENTRY(ftrace_graph_ent_entry, GRAPH_ENT_FIELDS);

#define GRAPH_RETADDR_ENT_FIELDS(_)                                                           \
	_(wide, unsigned long, func) _(field, int, depth) _(wide, unsigned long, retaddr)
TRACE_ENTRY(fgraph_retaddr_ent_entry, GRAPH_RETADDR_ENT_FIELDS);

#define GRAPH_RET_FIELDS(_)                                                                   \
	_(wide, unsigned long, func) _(wide, unsigned long, retval) _(field, int, depth)      \
	_(field, unsigned int, overrun) _(wide, unsigned long long, calltime)                 \
	_(wide, unsigned long long, rettime)
TRACE_ENTRY(ftrace_graph_ret_entry, GRAPH_RET_FIELDS);

/* ---- The table ---- */

struct trace_field {
	const char *type, *name; /* no name: a hole. No type: the end of a list */
	u16 size;
	bool is_signed;
};
#define TRACE_FIELD_AS(type, text, size) {#type, text, size, (type)-1 < (type)1},
#define TRACE_FIELD_field(type, name) TRACE_FIELD_AS(type, #name, sizeof(type))
#define TRACE_FIELD_wide(type, name) TRACE_FIELD_AS(type, #name, sizeof(type))
#define TRACE_FIELD_rest(type, name, brackets, count)                                         \
	TRACE_FIELD_AS(type, #name brackets, (count) * sizeof(type))
#define TRACE_FIELD_wide_rest(type, name, brackets, count)                                    \
	TRACE_FIELD_AS(type, #name brackets, (count) * sizeof(type))
#define TRACE_FIELD_hole(type, name) TRACE_FIELD_AS(type, NULL, sizeof(type))
#define TRACE_FIELD(kind, ...) TRACE_FIELD_##kind(__VA_ARGS__)

/* Does the list of fields end with an array that takes the rest of the event? */
#define TRACE_RESTS_field
#define TRACE_RESTS_wide
#define TRACE_RESTS_rest +1
#define TRACE_RESTS_wide_rest +1
#define TRACE_RESTS_hole
#define TRACE_RESTS(kind, ...) TRACE_RESTS_##kind

struct trace_line; /* trace.h */

struct trace_event_type {
	u16 id;
	const char *name;
	const struct trace_field *fields; /* those after the common fields, without gaps */
	u32 size; /* of the event, without the array that takes the rest */
	/*
	 * @data: an event whose fields may have any values, @len >= size. Return: how many of its
	 * bytes may be printed; 0: none. NULL: any values are printable, and all events have the
	 * same size.
	 */
	u32 (*accept)(const void *data, u32 len);
	/* the format file's last line, for tools; `cat trace` does not use it */
	const char *print_fmt;
	/* Print the text after the columns that all events have. */
	void (*print)(const struct trace_line *l);
	/*
	 * Or print whole lines, perhaps of the next event too. Return: the number of events, 1 or
	 * 2. NULL: use print.
	 */
	int (*print_lines)(const struct trace_line *l);
};
#define TRACE_EVENT(id, name, FIELDS, accept, ...)                                            \
	_Static_assert(!(0 FIELDS(TRACE_RESTS)) ||                                            \
			       !__builtin_types_compatible_p(__typeof__(accept), void *),     \
		       "events of different sizes need accept()");                            \
	TABLE_ENTRY(const struct trace_event_type, trace_event_type, name##_event) = {        \
		id, #name,                                                                    \
		(const struct trace_field[]){FIELDS(TRACE_FIELD){NULL}},                      \
		sizeof(struct {                                                               \
			struct trace_entry ent;                                               \
			FIELDS(TRACE_MEMBER)                                                  \
		}),                                                                           \
		accept, __VA_ARGS__};                                                         \
	TRACEFS_INSTANCE_FILE(name##_format, "events/ftrace/" #name "/format", 0444,          \
			      &trace_format_ops, (void *)&name##_event)
struct file_ops;
extern const struct file_ops trace_format_ops; /* trace_formats.c */

/*
 * Of an event of an earlier boot: how many of its bytes can be printed, or 0. Only that boot knew
 * the events by probes.
 */
u32 trace_accept_event(const void *data, u32 len);

#endif
