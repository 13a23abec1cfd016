/*
 * Line editing with Emacs keys, as in other shells, with a history.
 *
 * To change the screen, the editor rewrites the text right of the cursor and
 * moves the cursor back with backspaces. This works on every terminal as long as
 * the line fits its row.
 */
#include "line.h"
#include "console.h"
#include "string.h"

#define CTRL(c) ((c) & 0x1f)
enum { ESCAPE = 27, DELETE = 127 };
enum { TEXT, AFTER_ESCAPE, IN_SEQUENCE };

static void put(struct line *l, const char *s)
{
	l->write(s, strlen(s));
}

static void back(struct line *l, unsigned n)
{
	while (n--)
		l->write("\b", 1);
}

/* Redraw the text from the cursor on, and erase @blank characters after it. */
static void redraw_tail(struct line *l, unsigned blank)
{
	l->write(l->text + l->cursor, l->len - l->cursor);
	for (unsigned i = 0; i < blank; i++)
		l->write(" ", 1);
	back(l, l->len - l->cursor + blank);
}

static void move_to(struct line *l, unsigned cursor)
{
	if (cursor < l->cursor)
		back(l, l->cursor - cursor);
	else
		l->write(l->text + l->cursor, cursor - l->cursor);
	l->cursor = cursor;
}

static void insert(struct line *l, char c)
{
	if (l->len == LINE_MAX - 1) {
		if (!l->too_long)
			l->write("\a", 1);
		l->too_long = true;
		return;
	}
	memmove(l->text + l->cursor + 1, l->text + l->cursor, l->len - l->cursor + 1);
	l->text[l->cursor++] = c;
	l->len++;
	l->write(&c, 1);
	if (l->cursor < l->len)
		redraw_tail(l, 0);
}

static bool is_refused(const struct line *l)
{
	return l->too_long || l->damaged || l->noise;
}

static void forgive(struct line *l)
{
	l->too_long = l->damaged = false;
	l->noise = 0;
}

static void delete(struct line *l, unsigned from, unsigned to)
{
	move_to(l, from);
	memmove(l->text + from, l->text + to, l->len - to + 1);
	l->len -= to - from;
	redraw_tail(l, to - from);
	if (!l->len)
		forgive(l); /* that was the deleted line */
}

static unsigned word_start(const struct line *l)
{
	unsigned at = l->cursor;

	while (at && l->text[at - 1] == ' ')
		at--;
	while (at && l->text[at - 1] != ' ')
		at--;
	return at;
}

static void replace(struct line *l, const char *text)
{
	delete(l, 0, l->len);
	l->len = MIN(strlen(text), (size_t)LINE_MAX - 1);
	memmove(l->text, text, l->len);
	l->text[l->len] = 0;
	move_to(l, l->len);
}

static void look_back(struct line *l, int step)
{
	unsigned kept = MIN(l->lines, (unsigned)LINE_HISTORY);

	if ((step > 0 && l->back == kept) || (step < 0 && !l->back))
		return;
	if (!l->back) {
		memcpy(l->draft, l->text, l->len + 1);
		if (is_refused(l))
			l->draft[0] = 0; /* the text is incomplete: do not offer it again */
	}
	l->back += step;
	replace(l, l->back ? l->history[(l->lines - l->back) % LINE_HISTORY] : l->draft);
}

static void key(struct line *l, int c)
{
	switch (c) {
	case 'A':
		return look_back(l, 1);
	case 'B':
		return look_back(l, -1);
	case 'C':
		return move_to(l, MIN(l->cursor + 1, l->len));
	case 'D':
		return move_to(l, l->cursor ? l->cursor - 1 : 0);
	case 'H':
		return move_to(l, 0);
	case 'F':
		return move_to(l, l->len);
	}
}

static void numbered_key(struct line *l, unsigned number)
{
	if (number == 1 || number == 7)
		move_to(l, 0);
	else if (number == 4 || number == 8)
		move_to(l, l->len);
	else if (number == 3 && l->cursor < l->len)
		delete(l, l->cursor, l->cursor + 1);
}

/* ECMA-48: ESC [ parameters, then one final byte of @ to ~. ESC O is the same for some keys. */
static void escape(struct line *l, int c)
{
	if (l->escape == AFTER_ESCAPE) {
		l->escape = c == '[' || c == 'O' ? IN_SEQUENCE : TEXT;
		l->number = 0;
		return;
	}
	if (c >= '0' && c <= '9') {
		l->number = (l->number * 10 + c - '0') % 1000;
		return;
	}
	if (c >= ' ' && c < '@')
		return;
	l->escape = TEXT;
	if (c == '~')
		numbered_key(l, l->number);
	else
		key(l, c);
}

static void control(struct line *l, int c)
{
	switch (c) {
	case CTRL('a'):
		return key(l, 'H');
	case CTRL('e'):
		return key(l, 'F');
	case CTRL('b'):
		return key(l, 'D');
	case CTRL('f'):
		return key(l, 'C');
	case CTRL('p'):
		return key(l, 'A');
	case CTRL('n'):
		return key(l, 'B');
	case CTRL('d'):
		return numbered_key(l, 3);
	case CTRL('h'):
	case DELETE:
		if (l->cursor)
			delete(l, l->cursor - 1, l->cursor);
		return;
	case CTRL('u'):
		return delete(l, 0, l->cursor);
	case CTRL('k'):
		return delete(l, l->cursor, l->len);
	case CTRL('w'):
		return delete(l, word_start(l), l->cursor);
	case CTRL('l'):
		put(l, "\033[H\033[2J");
		put(l, l->prompt);
		l->write(l->text, l->cursor);
		return redraw_tail(l, 0);
	case '\t':
		return insert(l, ' ');
	case ESCAPE:
		l->escape = AFTER_ESCAPE;
		return;
	default:
		l->noise++;
	}
}

static enum line_result enter(struct line *l)
{
	put(l, "\n");
	if (l->too_long)
		return LINE_TOO_LONG;
	if (l->damaged)
		return LINE_DAMAGED;
	return l->noise ? LINE_NOISE : LINE_DONE;
}

enum line_result line_feed(struct line *l, int c)
{
	bool lost = c & INPUT_LOST, second_half;

	c = (u8)c;
	second_half = l->after_return && c == '\n';
	l->after_return = c == '\r';
	if (second_half)
		return LINE_MORE;
	l->damaged = l->damaged || lost;
	if (c == '\r' || c == '\n') {
		l->escape = TEXT;
		return enter(l);
	}
	if (c == CTRL('c')) {
		put(l, "^C\n");
		return LINE_CANCELLED;
	}
	if (l->escape)
		escape(l, c);
	else if (c >= ' ' && c < DELETE)
		insert(l, c);
	else
		control(l, c);
	return LINE_MORE;
}

void line_begin(struct line *l)
{
	l->text[0] = 0;
	l->len = l->cursor = l->escape = l->back = 0;
	forgive(l);
	put(l, l->prompt);
}

void line_remember(struct line *l)
{
	const char *last = l->history[(l->lines + LINE_HISTORY - 1) % LINE_HISTORY];

	if (!l->len || (l->lines && !strcmp(l->text, last)))
		return;
	memcpy(l->history[l->lines++ % LINE_HISTORY], l->text, l->len + 1);
}
