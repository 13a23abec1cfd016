/*
 * grep [-v] [-c] [-i] [-n] [-F] PATTERN [FILE...]: print the lines that the pattern matches.
 *
 * A pattern is a list of atoms: a letter, `.` for any, `[a-z]` or `[^a-z]`; after each of them `*`
 * may be, for any number of it. `^` and `$` are the ends of the line. A backslash takes the meaning
 * from the character after it. -F: all characters are letters.
 *
 * The search keeps the set of atoms that may come next, and reads the line once, so that no pattern
 * takes long.
 */
#include "lib/text.h"

#define ENOMEM 12

APP("[-vcinF] pattern [file ...]",
    "print lines that match; a pattern has . * ^ $ [a-z] and \\, -F: a fixed string");

enum { INVERT, COUNT, FOLD, NUMBER, FIXED, FLAGS };
enum kind { LETTER, ANY, CLASS };

struct atom {
	enum kind kind;
	bool star;
	const char *text; /* the letter, or what is between the brackets */
	size_t length;
};

struct grep {
	bool flag[FLAGS];
	bool at_start, at_end, several;
	size_t atoms;
	struct atom *atom;
	/* [atoms + 1]: the atom may come next; the last: the whole pattern has matched */
	bool *next, *now;
	bool found;
};

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c;
}

static bool in_class(const struct atom *a, char c)
{
	const char *p = a->text, *end = p + a->length;
	bool negated = *p == '^', found = false;

	for (p += negated; p < end; p++) {
		bool range = end - p > 2 && p[1] == '-';

		found |= range ? p[0] <= c && c <= p[2] : *p == c;
		p += range ? 2 : 0;
	}
	return found != negated;
}

static bool atom_matches(const struct grep *g, const struct atom *a, char c)
{
	bool fold = g->flag[FOLD];

	if (a->kind == ANY)
		return true;
	if (a->kind == LETTER)
		return fold ? lower(*a->text) == lower(c) : *a->text == c;
	if (fold && in_class(a, lower(c)))
		return true;
	return in_class(a, fold && c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
}

/* Read the atom at *@p, which becomes its end. Return: false: a '[' is not closed. */
static bool take_atom(const struct grep *g, const char **p, struct atom *a)
{
	*a = (struct atom){LETTER, false, *p, 1};
	if (g->flag[FIXED]) {
		++*p;
		return true;
	}
	if (**p == '[') {
		const char *end = *p + 1 + ((*p)[1] == '^');

		do
			end++;
		while (end[-1] && *end && *end != ']');
		if (!end[-1] || !*end)
			return false;
		*a = (struct atom){CLASS, false, *p + 1, end - *p - 1};
		*p = end;
	} else if (**p == '.') {
		a->kind = ANY;
	} else if (**p == '\\' && (*p)[1]) {
		a->text = ++*p;
	}
	++*p;
	a->star = **p == '*';
	*p += a->star;
	return true;
}

/* Return: NULL, or why not. */
static const char *compile(struct grep *g, const char *pattern)
{
	size_t most = strlen(pattern) + 1;

	g->atom = calloc(most, sizeof(*g->atom));
	g->next = calloc(most, 1);
	g->now = calloc(most, 1);
	if (!g->atom || !g->next || !g->now)
		return strerror(ENOMEM);
	g->at_start = !g->flag[FIXED] && *pattern == '^';
	pattern += g->at_start;
	while (*pattern) {
		g->at_end = !g->flag[FIXED] && !strcmp(pattern, "$");
		if (g->at_end)
			break;
		if (!take_atom(g, &pattern, &g->atom[g->atoms++]))
			return "a '[' of the pattern has no ']'";
	}
	return NULL;
}

/* Atom @i may come next; so may the one after it, if @i may come no times. */
static void add(const struct grep *g, bool *set, size_t i)
{
	set[i] = true;
	while (i < g->atoms && g->atom[i].star)
		set[++i] = true;
}

static bool matches(struct grep *g, const char *line, size_t length)
{
	memset(g->now, 0, g->atoms + 1);
	add(g, g->now, 0);
	for (size_t at = 0; at < length; at++) {
		bool *now = g->now, *next = g->next;

		if (now[g->atoms] && !g->at_end)
			return true;
		memset(next, 0, g->atoms + 1);
		if (!g->at_start)
			add(g, next, 0);
		for (size_t i = 0; i < g->atoms; i++)
			if (now[i] && atom_matches(g, &g->atom[i], line[at]))
				add(g, next, g->atom[i].star ? i : i + 1);
		g->now = next;
		g->next = now;
	}
	return g->now[g->atoms];
}

/* Return: false after an error. */
static bool put_match(const struct grep *g, const char *path, size_t number, struct input *in,
		      size_t length)
{
	if (g->several)
		printf("%s:", path);
	if (g->flag[NUMBER])
		printf("%zu:", number);
	return put_line(in, length);
}

static int search(const char *path, void *arg)
{
	struct grep *g = arg;
	size_t length, number = 0, count = 0;
	struct input in;
	int err = input_open(&in, path), more = err;

	while (!err && (more = input_line(&in, &length)) > 0) {
		number++;
		if (matches(g, in.line, length) == g->flag[INVERT])
			continue;
		count++;
		if (!g->flag[COUNT] && !put_match(g, path ? path : "input", number, &in, length))
			break;
	}
	input_close(&in);
	if (more < 0)
		return complain("grep", path ? path : "input", more) + 1;
	g->found |= count > 0;
	if (g->flag[COUNT])
		printf(g->several ? "%s:%zu\n" : "%.0s%zu\n", path ? path : "", count);
	return 0;
}

int main(int argc, char **argv)
{
	struct grep g = {0};
	int first = parse_options(argc, argv, "vcinF", g.flag, NULL, NULL), status = 2;
	const char *why;

	if (first < 0 || first == argc) {
		printf("Usage: grep [-v] [-c] [-i] [-n] [-F] pattern [file ...]\n"
		       "A pattern has . * ^ $ [a-z] [^a-z] and \\; "
		       "with -F it is a fixed string.\n");
		return 2;
	}
	why = compile(&g, argv[first]);
	g.several = argc - first > 2;
	if (why)
		printf("grep: %s: %s\n", argv[first], why);
	else
		status = for_each_input(argc, argv, first + 1, search, &g);
	free(g.atom);
	free(g.next);
	free(g.now);
	return status ? status : !g.found;
}
