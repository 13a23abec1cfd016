/* What file.c needs of the kernel, for a host test; and nodes made from C. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errno.h"
#include "file.h"

bool host_no_memory;

void *kmalloc(size_t size)
{
	return host_no_memory ? NULL : malloc(size);
}
void *kzalloc(size_t size)
{
	return host_no_memory ? NULL : calloc(1, size);
}
void *krealloc(void *p, size_t size)
{
	return host_no_memory ? NULL : realloc(p, size);
}
void kfree(void *p)
{
	free(p);
}
size_t strlcpy(char *d, const char *s, size_t size)
{
	snprintf(d, size, "%s", s);
	return strlen(s);
}
void mutex_lock(struct mutex *m)
{
	if (m->owner)
		abort();
	m->owner = (void *)m;
}
void mutex_unlock(struct mutex *m)
{
	m->owner = NULL;
}
void threads_for_each(void (*fn)(struct thread *t, void *arg), void *arg)
{
}

struct node *host_make(const char *path, int mode, const char *contents);
struct node *host_make(const char *path, int mode, const char *contents)
{
	struct node *n = file_make(path, mode, NULL, (void *)contents);

	if (n && contents)
		n->size = strlen(contents);
	return n;
}

/* One in seven items prints nothing. 1 comes with the last item. */
static int show(struct seq *s, u64 item)
{
	static char dots[1001];

	memset(dots, '.', 1000);
	if (item % 7) {
		seq_printf(s, "item %d", (int)item);
		seq_printf(s, "%.*s\n", (int)item * 10, dots);
	}
	return item + 1 >= (u64)(long)s->arg;
}

static int open_items(struct file *f)
{
	return seq_open(f, show, f->node->data);
}
static const struct file_ops items_ops = {open_items, seq_read, NULL, seq_release};
extern const struct file_ops host_items_ops __attribute__((alias("items_ops")));

struct node *host_make_special(const char *path, int items);
struct node *host_make_special(const char *path, int items)
{
	return file_make(path, 0444, &items_ops, (void *)(long)items);
}

int (*host_in_special)(void); /* called while the directory's mkdir runs */

/* A directory whose names are made and removed by its ops: trees with one file. */
static int special_mkdir(struct node *dir, const char *name)
{
	struct node *tree = file_tree_new(name, S_DIR | 0555);
	int err = -ENOMEM;

	if (host_in_special && host_in_special())
		abort();

	if (tree && file_make_at(tree, "deep/er/items", 0444, &items_ops, (void *)1))
		err = file_attach(dir, tree);
	if (err && tree)
		file_tree_free(tree);
	return err;
}

static int special_rmdir(struct node *dir, const char *name)
{
	struct node *tree;
	int err = file_detach(dir, name, &tree);

	if (!err)
		file_tree_free(tree);
	return err;
}
static const struct file_ops dir_ops = {.mkdir = special_mkdir, .rmdir = special_rmdir};
extern const struct file_ops host_dir_ops __attribute__((alias("dir_ops")));

/* One that neither makes nor removes names. */
int host_make_closed_dir(const char *path);
int host_make_closed_dir(const char *path)
{
	struct node *dir = file_make(path, S_DIR | 0755, &items_ops, NULL);

	return dir && file_make_at(dir, "name", 0644, NULL, NULL) ? 0 : -ENOMEM;
}

int host_make_special_dir(const char *path);
int host_make_special_dir(const char *path)
{
	return file_make(path, S_DIR | 0555, &dir_ops, NULL) ? 0 : -ENOMEM;
}
