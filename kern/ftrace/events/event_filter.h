/*
 * The filter of an event: fields compared with values, joined by && || ! and parentheses.
 *
 *	field == != < <= > >= & number		of a number
 *	field == != ~ "text"			of a string; ~ with a glob
 *
 * Pure: an event is given as its struct probe_def and its bytes.
 */
#ifndef FTRACE_EVENT_FILTER_H
#define FTRACE_EVENT_FILTER_H

#include "probe_parse.h"

struct event_filter;

/*
 * 0; -ENOMEM; -EINVAL, with Linux's words in *error, and *column: where in @text.
 * Free the filter with kfree(). @def must stay as long as the filter is used.
 */
int event_filter_parse(const char *text, const struct probe_def *def, struct event_filter **filter,
		       const char **error, unsigned *column);
/*
 * Does the filter accept the event? @event: its first byte; the common fields are not set yet. Any
 * context.
 */
bool event_filter_match(const struct event_filter *filter, const u8 *event);
const char *event_filter_text(const struct event_filter *filter);

#endif
