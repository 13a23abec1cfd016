/*
 * The shell's grammar. A line is a list of pipelines: `a | b && c; d &`. Uses nothing of the kernel
 * but text functions, and expand.c for globs, so host tests can call it.
 */
#ifndef KERN_PARSE_H
#define KERN_PARSE_H

#include "line.h"
#include "types.h"

#define WORDS_MAX 500
#define GLOBS_SIZE 16384 /* of the words that globs become */
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
	/*
	 * the words; without those of globs, a letter of the line gives at most two, and what
	 * separates words the NUL
	 */
	char text[GLOBS_SIZE + 2 * LINE_MAX];
	size_t len;
	unsigned special; /* the word has * ? or [: 1 not quoted, 2 quoted */
};

/*
 * Take the first command of @line, which comes after the operator @before: its words, without
 * quotes ('...', "..." and backslash), `<`, `>` and `>>` with their files. '#' begins a comment.
 * An argument with * ? or [ is a glob, unless one of these or a backslash is quoted in it. One that
 * matches no file stays as it is.
 * Return: 0, or -EINVAL and c->error.
 */
int shell_parse(const char *line, enum shell_operator before, struct shell_values values,
		struct command_line *c);
/*
 * expand.c: add the names of the files that @glob matches, as words. Return: how many, or -E2BIG.
 */
int shell_expand(struct command_line *c, const char *glob);

#endif
