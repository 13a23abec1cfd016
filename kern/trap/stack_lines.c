/*
 * The lines of a stack trace. A recursion gives the same lines again and again; they are
 * printed once, and then how often they repeat.
 */
#include "unwind.h"

/* Lines from before this one are not compared any more; the @kept newest ones are. */
static void forget(struct stack_lines *l, unsigned kept)
{
	for (unsigned i = kept; i < STACK_PERIOD_MAX; i++)
		l->seen[i] = 0;
}

static void print_skipped(struct stack_lines *l)
{
	unsigned rest = l->skipped;

	if (l->skipped >= 2 && l->skipped >= l->period) {
		unsigned times = l->skipped / l->period;

		rest = l->skipped % l->period;
		if (l->period == 1)
			l->print("%s... the line above repeats %u times\n", l->indent, times);
		else
			l->print("%s... the %u lines above repeat %u times\n", l->indent, l->period,
				 times);
		l->printed++;
		forget(l, rest); /* so "the lines above" are lines of the stack */
	}
	for (unsigned i = rest; i--; l->printed++)
		l->line(l->seen[i], false);
	l->skipped = l->period = 0;
}

static bool repeats(struct stack_lines *l, unsigned long pc)
{
	for (unsigned p = 1; !l->period && p <= STACK_PERIOD_MAX; p++)
		if (l->seen[p - 1] == pc)
			l->period = p;
	return l->period && l->seen[l->period - 1] == pc;
}

void stack_line(struct stack_lines *l, unsigned long pc, bool exact)
{
	if (!exact && repeats(l, pc)) {
		l->skipped++;
	} else {
		print_skipped(l);
		l->line(pc, exact);
		l->printed++;
	}
	for (unsigned i = STACK_PERIOD_MAX - 1; i; i--)
		l->seen[i] = l->seen[i - 1];
	l->seen[0] = pc;
	if (exact)
		forget(l, 0);
}

void stack_lines_end(struct stack_lines *l)
{
	print_skipped(l);
}
