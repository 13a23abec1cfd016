/*
 * Filters as files: how set_ftrace_filter and files like it are read and written.
 *
 * A write edits a copy of the filter; when the file is closed, the copy becomes the filter, in one
 * batch. `>` starts from an empty copy, `>>` from the present filter. A word is an exact name, a
 * glob, a line number of available_filter_functions, "glob:mod:glob" (mod_filter.c), or "!" and one
 * of these; a name selects every function of that name. A word may be split over several writes: it
 * ends at white space, or when the file is closed. '#' begins a comment.
 */
#include "filter.h"

#include "hash.h"
#include "print.h"
#include "strerror.h"
#include "string.h"
#include "tracefs.h"

static bool is_number(const char *word, size_t len)
{
	return len && word[0] >= '0' && word[0] <= '9';
}

/* A number n: the function in line n of available_filter_functions. */
static int apply_number(struct ftrace_set *set, const char *word, size_t len, bool in)
{
	u64 n = 0;

	for (size_t i = 0; i < len; i++) {
		if (word[i] < '0' || word[i] > '9' || n > UINT32_MAX)
			return -EINVAL;
		n = 10 * n + (word[i] - '0');
	}
	for_each_ftrace_rec(rec)
		if (!(rec->flags & FTRACE_FL_DISABLED) && n && !--n) {
			ftrace_set_put(set, rec, in);
			return 0;
		}
	return -EINVAL;
}

static int apply_glob(struct ftrace_set *set, const char *word, size_t len, bool in)
{
	bool found = false;

	for_each_ftrace_rec(rec) {
		bool never = in && rec->flags & FTRACE_FL_DISABLED;

		if (never || !glob_match(word, len, ftrace_name(rec)))
			continue;
		ftrace_set_put(set, rec, in);
		found = true;
	}
	return found ? 0 : -EINVAL;
}

int ftrace_set_apply(struct ftrace_set *set, const char *word, size_t len)
{
	bool in = !len || word[0] != '!';
	int err = -EINVAL;

	word += !in;
	len -= !in;
	mutex_lock(&ftrace_lock);
	if (len)
		err = (is_number(word, len) ? apply_number : apply_glob)(set, word, len, in);
	mutex_unlock(&ftrace_lock);
	return err;
}

static bool has_requests(const struct ftrace_filter *filter, bool notrace_list)
{
	return HAS_MODULES && ftrace_mod_requests(filter, notrace_list);
}

/*
 * The filter has no function, and selects none: its functions were those of a module that
 * was removed, or a request has found nothing.
 */
static bool selects_none(const struct ftrace_filter *filter, bool notrace_list)
{
	return !notrace_list && filter->filter_hash && !has_requests(filter, false);
}

/*
 * A copy of the filter; @reset: an empty one. *@none: it is empty because the filter
 * selects none. Any other empty copy becomes no filter.
 */
static struct ftrace_set *set_to_edit(const struct ftrace_filter *filter, bool reset,
				      bool notrace_list, bool *none)
{
	struct ftrace_set *set;

	mutex_lock(&ftrace_lock);
	set = ftrace_set_new();
	if (set && !reset) {
		for_each_ftrace_rec(rec)
			ftrace_set_put(set, rec, ftrace_filter_has(filter, rec, notrace_list));
		*none = !set->count && selects_none(filter, notrace_list);
		if (HAS_MODULES)
			ftrace_mod_hold(filter, notrace_list, set);
	}
	mutex_unlock(&ftrace_lock);
	return set;
}

int ftrace_filter_edit(struct ftrace_filter *filter, const char *glob, size_t len, bool reset,
		       bool notrace_list)
{
	bool none = false;
	struct ftrace_set *set = set_to_edit(filter, reset, notrace_list, &none);
	int err = -ENOMEM;

	if (!set)
		return err;
	err = len ? ftrace_set_apply(set, glob, len) : 0;
	if (!err)
		err = ftrace_filter_commit(filter, set->count || none ? set : NULL, notrace_list);
	if (HAS_MODULES)
		ftrace_mod_commit(set);
	ftrace_set_free(set);
	return err;
}

int ftrace_set_filter(struct ftrace_ops *op, const char *glob, size_t len, bool reset,
		      bool notrace_list)
{
	return ftrace_filter_edit(&op->filter, glob, len, reset, notrace_list);
}

/* An open filter file. */
struct edit {
	const struct file *file;
	const char *name;
	const struct filter_file *which;
	struct ftrace_filter *filter;
	bool comment, overlong, none; /* none: of set_to_edit() */
	struct ftrace_set *set; /* the copy; NULL: opened for reading */
	size_t len;		/* of the word so far */
	char word[128 + 1]; /* and room for a 0 */
};

/* A word with a ':'. */
static int apply_command(struct edit *e)
{
	int err = -ENOENT;

	if (e->which->strict || !HAS_MODULES)
		return -EINVAL;
	e->word[e->len] = 0;
	if (e->which->commands)
		TABLE_FOR_EACH(const struct filter_commands, filter_commands, commands)
			err = commands->apply(e->file, e->word);
	return err != -ENOENT ? err
			      : ftrace_mod_apply(e->filter, e->which->notrace_list, e->set,
						 e->word, e->len);
}

static int apply_word(struct edit *e)
{
	bool out = e->word[0] == '!';
	u32 before = e->set->count;
	int err;

	if (e->which->strict && is_number(e->word + out, e->len - out))
		return -EINVAL;
	if (memchr(e->word, ':', e->len))
		return apply_command(e);
	err = ftrace_set_apply(e->set, e->word, e->len);
	return err ?: e->which->strict && out && e->set->count == before ? -EINVAL : 0;
}

/* What may help with a word that matches no function. */
static const char *hint(const struct edit *e)
{
	if (e->overlong)
		return " (longer than any name)";
	if (e->which->commands && memchr(e->word, ':', e->len))
		TABLE_FOR_EACH(const struct filter_commands, filter_commands, commands)
			return commands->hint;
	return e->len == 4 && !memcmp(e->word, "main", 4)
		       ? " (main() of a program NAME is app_main_NAME)"
		       : "";
}

/* A word is complete. */
static int end_word(struct edit *e)
{
	int err = 0;

	if (e->overlong)
		err = -EINVAL;
	else if (e->len)
		err = apply_word(e);
	if (err == -EINVAL)
		printk("%s: no function matches '%.*s'%s\n", e->name, (int)e->len, e->word,
		       hint(e));
	else if (err)
		printk("%s: '%.*s': %s\n", e->name, (int)e->len, e->word,
		       err == -ENOSPC ? "no stub is free" : strerror(-err));
	e->len = 0;
	e->overlong = false;
	return err;
}

static int take_char(struct edit *e, char c)
{
	if (c == '\n')
		e->comment = false;
	if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\0')
		return end_word(e);
	if (c == '#' && !e->len)
		e->comment = true;
	if (e->comment)
		return 0;
	if (e->len == sizeof(e->word) - 1)
		e->overlong = true;
	else
		e->word[e->len++] = c;
	return 0;
}

static ssize_t filter_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	struct edit *e = f->private;

	for (size_t i = 0; i < n; i++) {
		int err = take_char(e, buf[i]);

		if (err)
			return err;
	}
	*pos += n;
	return n;
}

static int filter_show(struct seq *s, u64 item)
{
	const struct filter_file *which = s->arg;
	const struct ftrace_filter *filter = which->filter(s->file);
	const struct dyn_ftrace *rec;
	bool notrace_list = which->notrace_list;

	/* so that neither the filter nor a module is freed while it is read */
	mutex_lock(&ftrace_lock);
	rec = ftrace_record(item);
	if (!item && !ftrace_filter_count(filter, notrace_list) &&
	    !has_requests(filter, notrace_list) && !selects_none(filter, notrace_list))
		seq_printf(s, notrace_list ? "#### no functions disabled ####\n"
					   : "#### all functions enabled ####\n");
	if (rec && ftrace_filter_has(filter, rec, notrace_list))
		ftrace_show_name(s, rec, "\n");
	if (HAS_MODULES && !rec)
		ftrace_mod_show(s, filter, notrace_list);
	if (which->commands && !rec)
		TABLE_FOR_EACH(const struct filter_commands, filter_commands, commands)
			commands->show(s);
	mutex_unlock(&ftrace_lock);
	return !rec;
}

static int filter_open(struct file *f)
{
	const struct filter_file *which = f->node->data;
	struct edit *e;

	if ((f->flags & O_ACCMODE) == O_RDONLY)
		return seq_open(f, filter_show, f->node->data);
	e = kzalloc(sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->file = f;
	e->name = f->node->name;
	e->which = which;
	e->filter = which->filter(f);
	e->set = set_to_edit(e->filter, f->flags & O_TRUNC, which->notrace_list, &e->none);
	if (!e->set) {
		kfree(e);
		return -ENOMEM;
	}
	if (HAS_MODULES && f->flags & O_TRUNC)
		ftrace_mod_forget(e->filter, which->notrace_list);
	f->private = e;
	return 0;
}

static ssize_t filter_read(struct file *f, char *buf, size_t n, u64 *pos)
{
	return (f->flags & O_ACCMODE) == O_RDONLY ? seq_read(f, buf, n, pos) : -EBADF;
}

static int filter_release(struct file *f)
{
	struct edit *e = f->private;
	int err, commit_err;

	if ((f->flags & O_ACCMODE) == O_RDONLY)
		return seq_release(f);
	err = end_word(e);
	mutex_lock(&ftrace_lock);
	e->none |= has_requests(e->filter, e->which->notrace_list);
	mutex_unlock(&ftrace_lock);
	commit_err = ftrace_filter_commit(e->filter, e->set->count || e->none ? e->set : NULL,
					  e->which->notrace_list);
	/* after it: a module that was loaded meanwhile is not in the set */
	if (HAS_MODULES)
		ftrace_mod_commit(e->set);
	if (commit_err == -EBUSY)
		printk("%s: another tracer that may change pc has one of these functions\n",
		       e->name);
	ftrace_set_free(e->set);
	kfree(e);
	return err ? err : commit_err;
}

const struct file_ops filter_file_ops = {filter_open, filter_read, filter_write, filter_release};
