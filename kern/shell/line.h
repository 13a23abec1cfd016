/*
 * The line editor: a state machine whose input is bytes and whose only output is
 * write(), so that host tests can run it.
 */
#ifndef KERN_LINE_H
#define KERN_LINE_H

#include "types.h"

#define LINE_MAX 1024
#define LINE_HISTORY 32

enum line_result {
	LINE_MORE,      /* the line goes on */
	LINE_DONE,      /* text holds the line */
	LINE_CANCELLED, /* Ctrl-C */
	LINE_TOO_LONG,  /* Enter, but the line did not fit */
	LINE_DAMAGED,   /* Enter, but bytes of the line were lost */
	LINE_NOISE,     /* Enter, but some bytes were not text */
};

struct line {
	char text[LINE_MAX]; /* ends with NUL */
	unsigned len, cursor;
	unsigned noise;          /* bytes of this line that are not text */
	bool too_long, damaged;
	unsigned escape, number; /* inside an escape sequence: its state, its parameter */
	bool after_return;       /* "\r\n" is one Enter */
	char history[LINE_HISTORY][LINE_MAX];
	/* lines remembered so far; how many of them back the shown line is */
	unsigned lines, back;
	char draft[LINE_MAX];  /* the typed text, while an older line is shown */
	const char *prompt;
	void (*write)(const char *s, size_t n);
};

/* Start a new, empty line: write the prompt. */
void line_begin(struct line *l);
/* @c: a byte; with INPUT_LOST, bytes of the line were lost. */
enum line_result line_feed(struct line *l, int c);
/* Add text to the history, unless it is empty or the same as the last entry. */
void line_remember(struct line *l);

#endif
