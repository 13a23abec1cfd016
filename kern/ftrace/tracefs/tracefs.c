/*
 * The directory /sys/kernel/tracing, and that of each instance, are made from
 * the table of files that the linker collected.
 */
#include "tracefs.h"

#include "cpu.h"
#include "errno.h"
#include "print.h"
#include "string.h"

struct mutex trace_lock = MUTEX_INIT;

/* Make the node of @f, or one for each CPU. False: no memory. */
static bool make(struct node *dir, const struct tracefs_file *f)
{
	char path[48];

	if (!(f->where & TRACEFS_EACH_CPU))
		return file_make_at(*f->path == '/' ? file_root() : dir, f->path, f->mode, f->ops,
				    f->data);
	for (unsigned long cpu = 0; cpu < nr_cpus; cpu++) {
		snprintf(path, sizeof(path), f->path, (unsigned)cpu);
		if (!file_make_at(dir, path, f->mode, f->ops, (void *)cpu))
			return false;
	}
	return true;
}

int tracefs_populate(struct node *dir, bool instance)
{
	TABLE_FOR_EACH(const struct tracefs_file, tracefs_file, f)
		if ((!instance || f->where & TRACEFS_INSTANCE) && !make(dir, f))
			return -ENOMEM;
	return 0;
}

ssize_t tracefs_set_word(struct file *f, const char *buf, size_t n,
			 int (*set)(struct file *f, const char *word))
{
	ssize_t written = n;
	char word[100];
	int err;

	while (n && (buf[n - 1] == '\n' || buf[n - 1] == ' ' || buf[n - 1] == '\t'))
		n--;
	for (; n && (*buf == ' ' || *buf == '\t'); n--)
		buf++;
	n = MIN(n, sizeof(word) - 1);
	memcpy(word, buf, n);
	word[n] = 0;
	mutex_lock(&trace_lock);
	err = set(f, word);
	mutex_unlock(&trace_lock);
	return err ?: written;
}

ssize_t tracefs_set_number(struct file *f, const char *buf, size_t n,
			   int (*set)(struct file *f, u64 value))
{
	char text[128];
	int err = -EINVAL;
	u64 value;

	if (n < sizeof(text)) {
		memcpy(text, buf, n);
		text[n] = 0;
		err = kstrtou64(text, 10, &value);
	}
	if (err)
		return tracefs_refuse(f, err,
				      err == -ERANGE ? "too large a number" : "not a number");
	mutex_lock(&trace_lock);
	err = set(f, value);
	mutex_unlock(&trace_lock);
	return err ?: (ssize_t)n;
}

static int value_show(struct seq *s, u64 item)
{
	const struct tracefs_value *value = s->arg;

	seq_printf(s, "%lu\n", value->get(s->file));
	return 1;
}

static ssize_t value_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	return tracefs_set_number(f, buf, n, tracefs_value(f)->set);
}

static int value_open(struct file *f)
{
	return seq_open(f, value_show, f->node->data);
}
const struct file_ops tracefs_value_ops = {value_open, seq_read, value_write, seq_release};

int tracefs_refuse(struct file *f, int err, const char *fmt, ...)
{
	char why[128];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	printk("tracefs: %s: %s\n", f->node->name, why);
	return err;
}

static int tracefs_init(void)
{
	struct node *dir = file_make(TRACEFS, S_DIR | 0555, NULL, NULL);

	return dir ? tracefs_populate(dir, false) ?: file_link("/sys/kernel/debug/tracing", dir)
		   : -ENOMEM;
}
INITCALL(tracefs_init);
