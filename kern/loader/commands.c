/*
 * Modules at the shell: insmod, rmmod, lsmod; and the files /proc/modules and
 * /proc/kallsyms, in Linux's format.
 */
#include "file.h"
#include "ksyms.h"
#include "module.h"
#include "shell.h"
#include "string.h"

#define MODULE_DIR "/lib/modules/" ARCH_NAME "/"
#define FILE_MAX MiB(1)

/* ---- insmod NAME [at=..] [name=value ...] ---- */

/* NAME is a file's path if it has a slash; else it is a file of the initrd. */
static void path_of(const char *word, char *path, size_t size)
{
	bool is_path = strchr(word, '/');

	snprintf(path, size, "%s%s%s", is_path ? "" : MODULE_DIR, word, is_path ? "" : ".ko");
}

/* The file's name without its directory and ".ko"; '-' becomes '_', as on Linux. */
static void name_of(const char *path, char *name, size_t size)
{
	const char *last = path;
	size_t len;

	for (const char *p = path; *p; p++)
		if (*p == '/')
			last = p + 1;
	strlcpy(name, last, size);
	len = strlen(name);
	if (len > 3 && !strcmp(name + len - 3, ".ko"))
		name[len - 3] = '\0';
	for (char *p = name; *p; p++)
		if (*p == '-')
			*p = '_';
}

static int parse_at(const char *text, unsigned long *at)
{
	u64 value;

	if (!strcmp(text, "near"))
		*at = MODULE_NEAR;
	else if (!strcmp(text, "far"))
		*at = MODULE_FAR;
	else if (!kstrtou64(text, 0, &value) && value > MODULE_FAR)
		*at = value;
	else
		return -EINVAL;
	return 0;
}

/* The whole file, in memory that the caller frees. Return: its size, or -errno. */
static ssize_t read_all(const char *path, void **data)
{
	struct node copy;
	struct file *f;
	ssize_t n;
	int err = file_stat(shell_cwd(), path, &copy);

	err = err
		      ?: (copy.mode & S_DIR) ? -EISDIR
		 : copy.size > FILE_MAX	     ? -EFBIG
					     : file_open(shell_cwd(), path, O_RDONLY, &f);
	if (err)
		return err;
	*data = kmalloc(copy.size + 1);
	n = *data ? file_read(f, *data, copy.size) : -ENOMEM;
	file_close(f);
	return n;
}

/* Take `at=` out of @words. Return: how many are left, or -EINVAL. */
static int take_at(int count, char **words, unsigned long *at)
{
	int left = 0;

	for (int i = 0; i < count; i++) {
		if (strncmp(words[i], "at=", 3))
			words[left++] = words[i];
		else if (parse_at(words[i] + 3, at))
			return -EINVAL;
	}
	return left;
}

static int insmod_main(int argc, char **argv)
{
	unsigned long at = MODULE_NEAR;
	char path[128], name[128];
	void *data = NULL;
	ssize_t size;
	int params, err;

	if (argc < 2)
		return complain("insmod", "name a module of " MODULE_DIR, EINVAL);
	params = take_at(argc - 2, argv + 2, &at);
	if (params < 0)
		return complain("insmod", "at= takes near, far or an address", EINVAL);
	path_of(argv[1], path, sizeof(path));
	name_of(path, name, sizeof(name));
	size = read_all(path, &data);
	err = size < 0 ? size : module_load(name, data, size, at, params, argv + 2);
	kfree(data);
	return err ? complain("insmod", size < 0 ? path : name, -err) : 0;
}
SHELL_COMMAND("insmod", insmod_main, "module [at=..] ..",
	      "load a module; at=near|far|ADDRESS; other words are its parameters");

static int rmmod_main(int argc, char **argv)
{
	char name[128];
	int err;

	if (argc != 2)
		return complain("rmmod", "name one loaded module", EINVAL);
	name_of(argv[1], name, sizeof(name));
	err = module_unload(name);
	return err ? complain("rmmod", name, -err) : 0;
}
SHELL_COMMAND("rmmod", rmmod_main, "module", "remove a module");

/* ---- /proc/modules, lsmod ---- */

static bool uses(const struct module *m, const struct module *other)
{
	for (u32 i = 0; i < ARRAY_SIZE(m->uses); i++)
		if (m->uses[i] == other)
			return true;
	return false;
}

/*
 * The names of the modules that use @m, each with @end after it; the last comma stays, as on Linux.
 */
static void show_users(struct seq *s, const struct module *m)
{
	for (const struct module *other = modules; other; other = other->next)
		if (uses(other, m))
			seq_printf(s, "%s,", other->name);
}

static const struct module *module_number(u64 item)
{
	const struct module *m = modules;

	while (m && item--)
		m = m->next;
	return m;
}

static const char *const states[] = {"Loading", "Live", "Unloading"};

static int show_module(struct seq *s, u64 item)
{
	const struct module *m;

	mutex_lock(&module_lock);
	m = module_number(item);
	if (m) {
		seq_printf(s, "%s %lu %u ", m->name, m->end[MODULE_DATA] - m->base, m->users);
		show_users(s, m);
		seq_printf(s, "%s %s 0x%016lx\n", m->users ? "" : "-", states[m->state], m->base);
	}
	mutex_unlock(&module_lock);
	return !m;
}

TEXT_OPS(modules_ops, show_module, NULL);

/*
 * A row of lsmod; one more character, a blank or a comma, is at its end. A module that is not live
 * has no users; its row has its state.
 */
static int show_row(struct seq *s, u64 item)
{
	const struct module *m;

	mutex_lock(&module_lock);
	m = module_number(item);
	if (m) {
		seq_printf(s, "%-20s %8lu  %u ", m->name, m->end[MODULE_DATA] - m->base, m->users);
		show_users(s, m);
		if (m->state != MODULE_LIVE)
			seq_printf(s, "(%s) ", states[m->state]);
	}
	mutex_unlock(&module_lock);
	return !m;
}

/*
 * Each row is written without module_lock: the output may be a special file whose write takes it.
 */
static int lsmod_main(int argc, char **argv)
{
	struct seq row = {0};

	out_printf("%-20s %8s  %s\n", "Module", "Size", "Used by");
	for (u64 item = 0; !show_row(&row, item) && !row.lost; item++, row.len = 0)
		out_printf("%.*s\n", (int)row.len - 1, row.buf);
	kfree(row.buf);
	return row.lost ? complain("lsmod", "list", ENOMEM) : 0;
}
SHELL_COMMAND("lsmod", lsmod_main, "", "list the loaded modules");

/* ---- /proc/kallsyms ---- */

/* Item n: the n-th function of the kernel, then of each module. */
static int show_symbol(struct seq *s, u64 item)
{
	const char *name, *module;
	unsigned long addr;
	int end;

	mutex_lock(&module_lock);
	end = !ksym_number(item, &addr, &name, &module);
	if (!end)
		seq_printf(s, module ? "%016lx t %s\t[%s]\n" : "%016lx t %s\n", addr, name, module);
	mutex_unlock(&module_lock);
	return end;
}
TEXT_OPS(kallsyms_ops, show_symbol, NULL);

static int proc_init(void)
{
	return file_make("/proc/modules", 0444, &modules_ops, NULL) &&
			       file_make("/proc/kallsyms", 0444, &kallsyms_ops, NULL)
		       ? 0
		       : -ENOMEM;
}
INITCALL(proc_init);
