/*
 * Filters as words: of set_ftrace_filter and files like it, and of ftrace_set_filter().
 *
 * filter.c edits a copy of a filter (struct ftrace_set); ftrace_filter_commit() makes the
 * copy the filter. mod_filter.c has the words with ":mod:".
 *
 * trace/ and files/ declare files with TRACEFS_FILTER(), and modules/ calls
 * ftrace_mod_coming(). Modules and programs call ftrace_set_filter() and
 * ftrace_filter_edit(), which core/ftrace.h declares. This room calls core/, tracefs/,
 * and ops/.
 */
#ifndef FTRACE_FILTER_H
#define FTRACE_FILTER_H

#include "errno.h"
#include "ftrace_internal.h"

struct file;
struct file_ops;

/* Add the functions that @word names, or with "!" remove them. -EINVAL: it names none. */
int ftrace_set_apply(struct ftrace_set *set, const char *word, size_t len);

/*
 * A file with a filter: written and read like set_ftrace_filter, or like
 * set_ftrace_notrace, for another filter. TRACEFS_FILTER() needs tracefs.h.
 */
struct filter_file {
	struct ftrace_filter *(*filter)(const struct file *f);
	bool notrace_list;
	/* As in Linux's set_graph_*: numbers are refused, and so is a "!" that removes nothing. */
	bool strict;
	bool commands; /* it takes commands */
};
extern const struct file_ops filter_file_ops;
#define TRACEFS_FILTER(id, path, where, ...)                                                  \
	static const struct filter_file id##_file = {__VA_ARGS__};                            \
	TRACEFS_ENTRY(id, path, 0644, where, &filter_file_ops, (void *)&id##_file)

/*
 * Words with a ':' that are no requests of modules (below): commands, for a file that takes
 * them. apply(): carry out @word; -ENOENT: there is no such command; other errors: it is refused,
 * and nothing has changed. Context: thread, without ftrace_lock.
 * show(): list the commands of s->file; ftrace_lock held.
 */
struct filter_commands {
	int (*apply)(const struct file *file, const char *word);
	void (*show)(struct seq *s);
	const char *hint; /* in the message about a refused word */
};
#define FILTER_COMMANDS(a, s, n)                                                              \
	TABLE_ENTRY(const struct filter_commands, filter_commands, a##_commands) = {a, s, n}

/*
 * Requests "glob:mod:glob" of a filter, for modules that are not loaded yet. @word is a
 * request, perhaps with a "!" before it. If a matching module is loaded, its functions are
 * added to @set at once; otherwise the request is kept until such a module is loaded.
 * -EINVAL: @word is no request, or nothing matches.
 * ftrace_mod_hold(): @set is a copy of @filter to be edited, and the filter's requests wait
 * until its ftrace_mod_commit(). ftrace_lock held.
 * ftrace_mod_commit(): the edit of @set is over. Its own requests and those that were held no
 * longer wait; those whose module was loaded meanwhile are carried out.
 * ftrace_mod_requests(): are requests kept? ftrace_mod_forget(): drop all but those of a file
 * that is open. ftrace_mod_show(): list them; ftrace_lock held.
 * ftrace_mod_coming(): give filters that have a request for the module of @table its
 * functions; ftrace_lock held.
 */
int ftrace_mod_apply(struct ftrace_filter *filter, bool notrace_list, struct ftrace_set *set,
		     const char *word, size_t len);
void ftrace_mod_hold(const struct ftrace_filter *filter, bool notrace_list,
		     const struct ftrace_set *set);
void ftrace_mod_commit(const struct ftrace_set *set);
bool ftrace_mod_requests(const struct ftrace_filter *filter, bool notrace_list);
void ftrace_mod_forget(const struct ftrace_filter *filter, bool notrace_list);
void ftrace_mod_show(struct seq *s, const struct ftrace_filter *filter, bool notrace_list);
void ftrace_mod_coming(const struct ftrace_table *table);

#endif
