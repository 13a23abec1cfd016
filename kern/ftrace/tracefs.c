/*
 * The directory /sys/kernel/tracing: made once from the table of files that
 * the linker collected.
 */
#include "tracefs.h"
#include "errno.h"
#include "print.h"
#include "string.h"

int tracefs_make(const char *path, u16 mode, const struct file_ops *ops, void *data)
{
	char full[96];

	snprintf(full, sizeof(full), "%s%s", TRACEFS, path);
	if (file_make(full, mode, ops, data))
		return 0;
	printk("tracefs: cannot make %s\n", full);
	return -ENOMEM;
}

void tracefs_word(const char *buf, size_t n, char *word, size_t size)
{
	while (n && (buf[n - 1] == '\n' || buf[n - 1] == ' ' || buf[n - 1] == '\t'))
		n--;
	while (n && (*buf == ' ' || *buf == '\t')) {
		buf++;
		n--;
	}
	n = MIN(n, size - 1);
	memcpy(word, buf, n);
	word[n] = 0;
}

int tracefs_number(struct file *f, const char *buf, size_t n, u64 *value)
{
	char text[32];
	int err = -EINVAL;

	if (n < sizeof(text)) {
		memcpy(text, buf, n);
		text[n] = 0;
		err = kstrtou64(text, 10, value);
	}
	if (err)
		tracefs_refuse(f, err, err == -ERANGE ? "too large a number" : "not a number");
	return err;
}

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
	int err = 0;

	TABLE_FOR_EACH(const struct tracefs_file, tracefs_file, f)
		if (tracefs_make(f->path, f->mode, f->ops, f->data))
			err = -ENOMEM;
	return err;
}
INITCALL(tracefs_init);
