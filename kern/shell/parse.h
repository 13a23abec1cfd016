/*
 * The shell's grammar. A line is a list of pipelines: `a | b && c; d &`. Uses nothing of the kernel
 * but text functions, so host tests can call it.
 */
#ifndef KERN_PARSE_H
#define KERN_PARSE_H

#include "line.h"
#include "types.h"

#define WORDS_MAX 63
#define VALUE_MAX 5 /* $? and $!, with a NUL: 0 to 4,095 */

/* What follows a command: `;` `&` `|` `&&` `||`, or nothing. */
enum shell_operator { LAST, SEQUENCE, BACKGROUND, PIPE, AND, OR };

struct shell_values {
	int status;     /* $? */
	int background; /* $!; 0: it stays as it is typed */
};

struct command_line {
	int argc;
	char *argv[WORDS_MAX + 1];
	char *in, *out; /* file of <, file of > or >> */
	bool append;
	enum shell_operator next;
	const char *end;   /* of the command, with `&` */
	const char *rest;  /* of the line, after the operator */
	const char *error; /* a message, or NULL */
	struct shell_values values;
	/* the words; a letter of the line gives at most two, and what separates words the NUL */
	char text[2 * LINE_MAX];
	size_t len;
};

/*
 * Take the first command of @line, which comes after the operator @before: its words, without
 * quotes ('...', "..." and backslash), `<`, `>` and `>>` with their files. '#' begins a comment.
 * Return: 0, or -EINVAL and c->error.
 */
int shell_parse(const char *line, enum shell_operator before, struct shell_values values,
		struct command_line *c);

#endif
