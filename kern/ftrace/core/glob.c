/*
 * Globs for filters: * ? [a-z] [!a-z] and backslash, as in a shell. A '['
 * without its ']' matches a '['.
 */
#include "ftrace_internal.h"

/*
 * Does the pattern character at *@p match @c? Moves *@p past it. A class counts as
 * one character. The caller has checked that the pattern is not at its end.
 */
static bool match_class(const char **p, const char *end, char c)
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

static bool match_one(const char **p, const char *end, char c)
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
bool glob_match(const char *pattern, size_t len, const char *name)
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
