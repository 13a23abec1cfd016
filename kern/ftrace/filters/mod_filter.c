/*
 * Words of a filter that name modules, as on Linux:
 *
 *	glob:mod:glob		the functions of these modules; no glob is "*"
 *	glob:mod:!glob		the functions that are not in these modules
 *	!glob:mod:glob		not the functions of these modules
 *
 * If no such module is loaded, the word is kept as a request of its filter, and is
 * listed with it. When a module with a matching name is loaded, its functions are
 * added to the filter before its init runs, and the request is dropped. So the request
 * has no effect when the module is removed and loaded again. A request waits while the file
 * that it was written to is open. While a filter is open for `>>`, its earlier requests wait,
 * too. When the file is closed, and the module has been loaded by then, its functions are
 * added after the file's own words. (If two files are open for `>>`, the second one does not
 * hold the requests of the first: the file that is closed last decides.) A filter that has
 * requests and no functions selects no function. It still selects none if its requests were
 * carried out and added no function.
 */
#include "filter.h"

#include "file.h"
#include "print.h"
#include "string.h"

struct word {
	const char *glob, *module;
	size_t glob_len, module_len;
	bool out, others; /* "!" before the glob; "!" before the module */
};

struct request {
	struct request *next;
	const struct ftrace_filter *filter;
	bool notrace_list;
	/* it waits until the edit of this copy of the filter is over; NULL: it does not wait */
	const struct ftrace_set *set;
	bool held; /* it was there before that edit began */
	const char *module; /* in text, after the glob */
	char text[];
};
static struct request *requests; /* in the order in which they were written; ftrace_lock held */

static bool parse(struct word *w, const char *word, size_t len)
{
	const char *end = word + len, *colon = memchr(word, ':', len);

	*w = (struct word){.out = len && *word == '!'};
	word += w->out;
	if (!colon || end - colon < 5 || memcmp(colon, ":mod:", 5))
		return false;
	w->glob = colon > word ? word : "*";
	w->glob_len = colon > word ? colon - word : 1;
	w->module = colon + 5;
	w->others = w->module < end && *w->module == '!';
	w->module += w->others;
	w->module_len = end - w->module;
	if (!w->module_len) {
		w->module = "*";
		w->module_len = 1;
	}
	return !memchr(w->module, ':', w->module_len);
}

static bool names_table(const struct word *w, const struct ftrace_table *table)
{
	bool named = table->module && glob_match(w->module, w->module_len, table->module);

	return named != w->others;
}

/*
 * Put the functions of @table that @w names into @set, or take them out. Return: @w names at least
 * one.
 */
static bool apply_to(struct ftrace_set *set, const struct word *w, const struct ftrace_table *table)
{
	bool found = false;

	for (const struct dyn_ftrace *rec = table->records; rec < table->end; rec++) {
		bool never = !w->out && rec->flags & FTRACE_FL_DISABLED;

		if (never || !glob_match(w->glob, w->glob_len, ftrace_name(rec)))
			continue;
		ftrace_set_put(set, rec, !w->out);
		found = true;
	}
	return found;
}

/* ---- Requests ---- */

static void drop(struct request **link)
{
	struct request *r = *link;

	*link = r->next;
	kfree(r);
}

static int keep(const struct ftrace_filter *filter, bool notrace_list, const struct ftrace_set *set,
		const struct word *w)
{
	struct request *r = kzalloc(sizeof(*r) + w->glob_len + w->module_len + 2),
		       **link = &requests;

	if (!r)
		return -ENOMEM;
	r->filter = filter;
	r->notrace_list = notrace_list;
	r->set = set;
	r->module = r->text + w->glob_len + 1;
	memcpy(r->text, w->glob, w->glob_len);
	memcpy(r->text + w->glob_len + 1, w->module, w->module_len);
	while (*link)
		link = &(*link)->next;
	*link = r;
	return 0;
}

static bool is_text(const char *s, size_t len, const char *text)
{
	return strlen(text) == len && !memcmp(s, text, len);
}

/*
 * "!glob:mod:module": drop the requests of that module with that glob; a glob "*" drops all of
 * them.
 */
static int drop_named(const struct ftrace_filter *filter, bool notrace_list, const struct word *w)
{
	bool every = is_text(w->glob, w->glob_len, "*");
	int err = -EINVAL;

	for (struct request **link = &requests, *r; (r = *link);) {
		if (r->filter != filter || r->notrace_list != notrace_list ||
		    !is_text(w->module, w->module_len, r->module) ||
		    !(every || is_text(w->glob, w->glob_len, r->text))) {
			link = &r->next;
			continue;
		}
		drop(link);
		err = 0;
	}
	return err;
}

static int apply(struct ftrace_filter *filter, bool notrace_list, struct ftrace_set *set,
		 const struct word *w)
{
	bool loaded = false, found = false;

	for (const struct ftrace_table *t = ftrace_tables; t; t = t->next)
		if (names_table(w, t)) {
			loaded = true;
			found |= apply_to(set, w, t);
		}
	if (w->out && !w->others)
		return !drop_named(filter, notrace_list, w) || found ? 0 : -EINVAL;
	if (found)
		return 0;
	return loaded || w->others ? -EINVAL : keep(filter, notrace_list, set, w);
}

int ftrace_mod_apply(struct ftrace_filter *filter, bool notrace_list, struct ftrace_set *set,
		     const char *word, size_t len)
{
	struct word w;
	int err;

	if (!parse(&w, word, len))
		return -EINVAL;
	mutex_lock(&ftrace_lock);
	err = apply(filter, notrace_list, set, &w);
	mutex_unlock(&ftrace_lock);
	return err;
}

bool ftrace_mod_requests(const struct ftrace_filter *filter, bool notrace_list)
{
	const struct request *r = requests;

	while (r && (r->filter != filter || r->notrace_list != notrace_list))
		r = r->next;
	return r;
}

void ftrace_mod_forget(const struct ftrace_filter *filter, bool notrace_list)
{
	mutex_lock(&ftrace_lock);
	for (struct request **link = &requests; *link;)
		if ((*link)->filter == filter && (*link)->notrace_list == notrace_list &&
		    (!(*link)->set || (*link)->held))
			drop(link);
		else
			link = &(*link)->next;
	mutex_unlock(&ftrace_lock);
}

void ftrace_mod_show(struct seq *s, const struct ftrace_filter *filter, bool notrace_list)
{
	for (const struct request *r = requests; r; r = r->next)
		if (r->filter == filter && r->notrace_list == notrace_list)
			seq_printf(s, "%s:mod:%s\n", r->text, r->module);
}

/* ---- A module is loaded ---- */

/* @r is no longer in the list. */
static int carry_out(const struct request *r, const struct ftrace_table *table)
{
	struct ftrace_filter *filter = (struct ftrace_filter *)r->filter;
	struct word w = {r->text, r->module, strlen(r->text), strlen(r->module)};
	struct ftrace_set *set = ftrace_set_new();
	int err;

	if (!set)
		return -ENOMEM;
	for_each_ftrace_rec(rec)
		ftrace_set_put(set, rec, ftrace_filter_has(filter, rec, r->notrace_list));
	apply_to(set, &w, table);
	err = ftrace_set_hash(filter, set, r->notrace_list);
	ftrace_set_free(set);
	return err;
}

void ftrace_mod_coming(const struct ftrace_table *table)
{
	for (struct request **link = &requests, *r; (r = *link);) {
		int err;

		if (r->set || !glob_match(r->module, strlen(r->module), table->module)) {
			link = &r->next;
			continue;
		}
		*link = r->next;
		err = carry_out(r, table);
		if (err)
			printk("ftrace: %s:mod:%s is not applied (error %d)\n", r->text, r->module,
			       err);
		kfree(r);
	}
}

/* ---- A filter's file is opened, and closed ---- */

void ftrace_mod_hold(const struct ftrace_filter *filter, bool notrace_list,
		     const struct ftrace_set *set)
{
	for (struct request *r = requests; r; r = r->next)
		if (r->filter == filter && r->notrace_list == notrace_list && !r->set) {
			r->set = set;
			r->held = true;
		}
}

void ftrace_mod_commit(const struct ftrace_set *set)
{
	mutex_lock(&ftrace_lock);
	for (struct request *r = requests; r; r = r->next)
		if (r->set == set) {
			r->set = NULL;
			r->held = false;
		}
	for (const struct ftrace_table *t = ftrace_tables; t; t = t->next)
		if (t->module)
			ftrace_mod_coming(t);
	mutex_unlock(&ftrace_lock);
}
