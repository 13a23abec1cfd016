/*
 * A file system in memory: `insmod ramfs`, then /ram is a directory for files that
 * together have at most `limit` KiB (insmod ramfs limit=64). rmmod frees them all.
 *
 * A file's contents are a list of pages, so that a file grows without being copied.
 * One lock protects everything.
 */
#include "file.h"
#include "module.h"
#include "string.h"

static int limit = 1024;
module_param(limit, int);

struct page {
	struct page *next;
	char bytes[PAGE_SIZE - sizeof(struct page *)];
};
#define BYTES sizeof(((struct page *)0)->bytes)

static struct mutex lock = MUTEX_INIT;
static long pages_left;
static struct node *top;

static void drop_pages(struct node *n)
{
	for (struct page *p = n->data; p; pages_left++) {
		struct page *next = p->next;

		page_free(p, 0);
		p = next;
	}
	n->data = NULL;
	n->size = 0;
}

/* The page of the file's byte @pos. NULL: it has none, or, if @make, none could be added. */
static struct page *page_at(struct node *n, u64 pos, bool make)
{
	struct page **at = (struct page **)&n->data;

	for (;; at = &(*at)->next, pos -= BYTES) {
		if (!*at && make && pages_left > 0 && (*at = page_alloc(0))) {
			memset(*at, 0, PAGE_SIZE);
			pages_left--;
		}
		if (!*at || pos < BYTES)
			return *at;
	}
}

static ssize_t ram_read(struct file *f, char *buf, size_t n, u64 *pos)
{
	size_t done = 0;

	mutex_lock(&lock);
	while (done < n && *pos < f->node->size) {
		size_t part = MIN(MIN(n - done, BYTES - *pos % BYTES), f->node->size - *pos);

		memcpy(buf + done, page_at(f->node, *pos, false)->bytes + *pos % BYTES, part);
		done += part;
		*pos += part;
	}
	mutex_unlock(&lock);
	return done;
}

static ssize_t ram_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	size_t done = 0;
	struct page *p;

	mutex_lock(&lock);
	if (f->flags & O_APPEND)
		*pos = f->node->size;
	while (done < n && (p = page_at(f->node, *pos, true))) {
		size_t part = MIN(n - done, BYTES - *pos % BYTES);

		memcpy(p->bytes + *pos % BYTES, buf + done, part);
		done += part;
		*pos += part;
		f->node->size = MAX(f->node->size, *pos);
	}
	mutex_unlock(&lock);
	return n && !done ? -ENOSPC : done;
}

static int ram_open(struct file *f)
{
	mutex_lock(&lock);
	if (f->flags & O_TRUNC)
		drop_pages(f->node);
	mutex_unlock(&lock);
	return 0;
}

static const struct file_ops file_ops = {.open = ram_open, .read = ram_read, .write = ram_write};

static int ram_create(struct node *dir, const char *name)
{
	bool is_there = file_make_at(dir, name, 0644, &file_ops, NULL) || file_lookup(dir, name);

	return is_there ? 0 : -ENOMEM;
}

/* With the lock, so that no open empties the file between the two steps. */
static int remove_file(struct node *n)
{
	struct node copy = *n;
	int err = file_unmake(n);

	if (!err)
		drop_pages(&copy);
	return err;
}

/* The lock is taken before the file is looked up, so that no other thread frees it. */
static int ram_remove(struct node *dir, const char *name)
{
	struct node *n;
	int err;

	mutex_lock(&lock);
	n = file_lookup(dir, name);
	err = n ? remove_file(n) : -ENOENT;
	mutex_unlock(&lock);
	return err;
}

static const struct file_ops dir_ops = {.create = ram_create, .rmdir = ram_remove};

static int ramfs_init(void)
{
	if (limit < 4)
		return -EINVAL;
	pages_left = limit / (PAGE_SIZE / 1024);
	top = file_make("/ram", S_DIR | 0755, &dir_ops, NULL);
	return top ? 0 : -EEXIST;
}
module_init(ramfs_init);

static void ramfs_exit(void)
{
	mutex_lock(&lock);
	while (top->child)
		remove_file(top->child);
	mutex_unlock(&lock);
	file_unmake(top);
}
module_exit(ramfs_exit);
