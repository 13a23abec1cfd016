/*
 * The line editor: a pure machine that is fed bytes and draws by writing.
 * Host tests feed it everything.
 */
#ifndef KERN_LINE_H
#define KERN_LINE_H

#include "types.h"

#define LINE_MAX 1024
#define LINE_HISTORY 32

enum line_result {
	LINE_MORE,      /* keep feeding */
	LINE_DONE,      /* text holds the line */
	LINE_CANCELLED, /* Ctrl-C */
	LINE_TOO_LONG,  /* Enter, but the line did not fit */
	LINE_NOISE,     /* Enter, but some bytes were no text */
};

struct line {
	char text[LINE_MAX]; /* always ended by NUL */
	unsigned len, cursor;
	unsigned refused, noise; /* bytes of this line that did not fit; that are no text */
	unsigned escape, number; /* inside an escape sequence: its state, its parameter */
	bool after_return;       /* "\r\n" is one Enter */
	char history[LINE_HISTORY][LINE_MAX];
	unsigned lines, back;  /* ever remembered; how far back we look */
	char draft[LINE_MAX];  /* what was being typed when we began to look back */
	const char *prompt;
	void (*write)(const char *s, size_t n);
};

/* A new line: forget the last one's text, write the prompt. */
void line_begin(struct line *l);
enum line_result line_feed(struct line *l, int c);
/* Remember text, unless it is empty or the same as the last. */
void line_remember(struct line *l);

#endif
