/*
 * For programs that read text: files named in the arguments, or standard input, line by line. A
 * line may have any length and any bytes.
 */
#ifndef APPS_TEXT_H
#define APPS_TEXT_H

#include "app.h"

struct input {
	int fd;
	bool ended;     /* the last read() returned no bytes, or an error */
	size_t at, len; /* in buf: what is not returned yet */
	char *line;     /* the last line, without its newline, and a NUL */
	size_t room;    /* of line */
	char buf[1024];
};

/* NULL or "-": standard input. Return: 0 or -errno. */
int input_open(struct input *in, const char *path);
/* Read the next line. Return: 1; 0 at the end; -errno. @length: of in->line. */
int input_line(struct input *in, size_t *length);
void input_close(struct input *in);
/* Write the line and a newline, in one write. Return: false after an error. */
bool put_line(struct input *in, size_t length);

/*
 * The arguments of a program: letters without a value in @flags ("vci"), with a value in @values
 * ("n:"): seen[] and value[] are indexed by the letter's place in these. Return: the index of the
 * first other argument; -1: an argument is wrong.
 */
int parse_options(int argc, char **argv, const char *flags, bool *seen, const char *values,
		  const char **value);
/* A decimal number. Return: false: it is none, or too large. */
bool parse_count(const char *text, size_t *count);
/* Of head and tail: -n COUNT or -COUNT; without one 10. Return: as parse_options(). */
int parse_lines(int argc, char **argv, size_t *count);
/*
 * Call @fn for each file of argv[first] to argv[argc - 1], or for standard input if there is none.
 * Return: the largest exit status of @fn.
 */
int for_each_input(int argc, char **argv, int first, int (*fn)(const char *path, void *arg),
		   void *arg);

#endif
