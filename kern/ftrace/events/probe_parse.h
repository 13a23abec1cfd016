/*
 * The language of kprobe_events and dynamic_events, as in Linux 6.12:
 *
 *	p[:[GROUP/][EVENT]] FUNCTION[+OFFSET]|ADDRESS [ARG ...]
 *	r[MAXACTIVE][:[GROUP/][EVENT]] FUNCTION [ARG ...]	(or p and FUNCTION%return)
 *	f[MAXACTIVE][:[GROUP/][EVENT]] FUNCTION[%return] [ARG ...]
 *
 *	ARG: [NAME=]FETCH[:TYPE[N]], FETCH: $argN $retval $stack $stackN $comm
 *	%register @address @function[+off] \number \"string" PARAMETER +off(FETCH)
 *
 * MAXACTIVE limits a kretprobe. An fprobe has no limit: there it is only checked and listed.
 *
 * The parser is pure: it asks the functions of a struct probe_names about the
 * kernel.
 */
#ifndef FTRACE_PROBE_PARSE_H
#define FTRACE_PROBE_PARSE_H

#include "types.h"

#define PROBE_ARGS_MAX 128
#define PROBE_EVENT_NAME 64 /* with the NUL, of a group too */
#define PROBE_ARG_NAME 33
#define PROBE_BODY_MAX 63
#define PROBE_DEREFS_MAX 14
#define PROBE_ARRAY_MAX 64

struct trace_field; /* event_type.h */

/* @print: the letter of its format: u, d, x, c a character, S a symbol, s a string. */
struct probe_type {
	const char *name, *field, *format; /* field, format: in the event's format file */
	u8 size;
	bool is_signed;
	char print;
};

/* PROBE_ARG: an argument register, at a return what it held at the entry. */
enum probe_base {
	PROBE_REG,
	PROBE_ARG,
	PROBE_RETVAL,
	PROBE_STACK,
	PROBE_STACKP,
	PROBE_COMM,
	PROBE_IMM,
	PROBE_TEXT
};

/* The value: base, then one read of memory for each offset, the last of them of the type's size. */
struct probe_arg {
	char name[PROBE_ARG_NAME];
	enum probe_base base;
	unsigned long param; /* register, number from 0, or value */
	u8 derefs;
	long deref[PROBE_DEREFS_MAX];
	const struct probe_type *type;
	u8 count;	 /* of an array; 0: none */
	u8 width, shift; /* of a bit field; width 0: none */
	u32 offset;	 /* in the event, from its first byte */
	char text[PROBE_BODY_MAX + 1]; /* of PROBE_TEXT */
	char body[PROBE_BODY_MAX + 1]; /* as it was written */
};

struct probe_def {
	char kind; /* p, r, f, s */
	bool is_return;
	/* at a return: the arguments that the function was called with are fetched */
	bool keeps_args;
	u32 maxactive;	 /* 0: not given */
	char group[PROBE_EVENT_NAME], event[PROBE_EVENT_NAME];
	char symbol[2 * PROBE_EVENT_NAME]; /* "": addr; may be MODULE:FUNCTION */
	unsigned long addr;
	u32 offset;
	u32 size; /* of an event without its strings */
	/* of a static event (kind s), not arguments; without gaps, after struct trace_entry */
	const struct trace_field *fields;
	u32 arg_count;
	struct probe_arg arg[];
};

/* As Linux's error_log has it: the error, and its column in the command. */
struct probe_error {
	const char *text; /* NULL: the write fails without an entry in error_log */
	const char *subsystem;
	char *command; /* the words with one space between: kmalloc()ed, or NULL */
	unsigned column;
};

/*
 * Where a probe is, as far as its line says it. At an entry not all registers are saved, and at a
 * return even fewer.
 */
enum probe_place { PROBE_IN_BODY, PROBE_AT_ENTRY, PROBE_AT_RETURN };

struct probe_names {
	/* how many functions have the name; @addr: one of them */
	unsigned (*functions)(const char *name, unsigned long *addr);
	const char *(*parameters)(unsigned long func);		      /* trace_args.h */
	/* its number; -1: there is none, or it is not saved at @place */
	int (*reg)(const char *name, enum probe_place place);
};

/*
 * 0, and *@def, kmalloc()ed; -EINVAL, -E2BIG, -ENOENT, -ENOMEM. -ENODEV: the line is empty, or
 * error->text says what is not there.
 * @line is written to. @def is freed by kfree(), and so is error->command.
 */
int probe_parse(char *line, const struct probe_names *names, struct probe_def **def,
		struct probe_error *error);

/*
 * Note @text for column @column of word @word of the command; after the last word, if there are
 * fewer.
 */
void probe_error_at(struct probe_error *e, unsigned word, unsigned column, const char *text);
/* Split @line at blanks, in place. Return: the number of words, at most @max + 1. */
unsigned probe_split(char *line, char **words, unsigned max);
/* What follows the name in a list of events: " schedule+4 arg1=$arg1". Return: as snprintf(). */
int probe_describe(char *buf, size_t size, const struct probe_def *def);
/* Is it a name: letters, digits and '_', and after the first character also @more? */
bool probe_good_name(const char *name, char more);

#endif
