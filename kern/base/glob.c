/*
 * Globs, for the shell and for filters: * ? [a-z] [!a-z] and backslash. A '[' without its ']'
 * matches a '['. The filters of events call this inside the tracer, so it has no call site.
 */
#include "string.h"

/*
 * Does the pattern character at *@p match @c? Moves *@p past it. A class counts as
 * one character. The caller has checked that the pattern is not at its end.
 */
static notrace bool match_class(const char **p, const char *end, char c)
{
	const char *q = *p + 1;
	bool negated = q < end && *q == '!', found = false;

	q += negated;
	for (const char *first = q; q < end && (*q != ']' || q == first); q++) {
		char low = *q, high = low;

		if (q + 2 < end && q[1] == '-' && q[2] != ']') {
			high = q[2];
			q += 2;
		}
		found |= low <= c && c <= high;
	}
	if (q == end) { /* no ']' follows: it is an ordinary '[' */
		++*p;
		return c == '[';
	}
	*p = q + 1;
	return found != negated;
}

static notrace bool match_one(const char **p, const char *end, char c)
{
	if (**p == '[')
		return match_class(p, end, c);
	if (**p == '\\' && *p + 1 < end)
		++*p;
	else if (**p == '?')
		return ++*p, true;
	return *(*p)++ == c;
}

/* After a mismatch only the last star is tried again: an earlier star cannot match more. */
notrace bool glob_match(const char *pattern, size_t len, const char *name)
{
	const char *p = pattern, *end = pattern + len, *star = NULL, *resume = NULL;

	while (*name) {
		if (p < end && *p == '*') {
			star = ++p;
			resume = name;
		} else if (p < end && match_one(&p, end, *name)) {
			name++;
		} else if (star) {
			p = star;
			name = ++resume;
		} else {
			return false;
		}
	}
	while (p < end && *p == '*')
		p++;
	return p == end;
}
