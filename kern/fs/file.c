/*
 * The tree of names, and the contents of ordinary files.
 *
 * tree_lock guards names, `opens` and the contents of ordinary files; special
 * files are called without it.
 */
#include "file.h"
#include "errno.h"
#include "string.h"

#define NAME_MAX 255
#define FILE_MAX MiB(16)
#define CAPACITY_MIN 64

static struct mutex tree_lock;
static struct node root = {.name = "", .mode = S_DIR | 0755};
static struct file_range *going; /* file_ops_going(), file_ops_forget() */

struct node *file_root(void)
{
	return &root;
}

static bool is_dir(const struct node *n)
{
	return n->mode & S_DIR;
}

/* ---- names; tree_lock held ---- */

static struct node *find_child(struct node *dir, const char *name, size_t len)
{
	for (struct node *n = dir->child; n; n = n->sibling)
		if (*n->name == *name && !strncmp(n->name, name, len) && !n->name[len])
			return n;
	return NULL;
}

/* Skip slashes. Return: the length of the component at *path; 0 at the end. */
static size_t next_component(const char **path)
{
	size_t len = 0;

	while (**path == '/')
		(*path)++;
	while ((*path)[len] && (*path)[len] != '/')
		len++;
	return len;
}

static bool is_last(const char *rest)
{
	while (*rest == '/')
		rest++;
	return !*rest;
}

/*
 * The result of a path walk: the node, or, if only the last name is missing, its directory and that
 * name.
 */
struct place {
	struct node *node, *dir; /* NULL: not found */
	const char *name;
	size_t len;
};

static int walk(struct node *cwd, const char *path, struct place *at)
{
	struct node *n = *path == '/' || !cwd ? &root : cwd;
	size_t c;

	*at = (struct place){0};
	if (!*path)
		return -ENOENT;
	for (; (c = next_component(&path)); path += c) {
		struct node *child;

		if (!is_dir(n))
			return -ENOTDIR;
		if (c > NAME_MAX)
			return -ENAMETOOLONG;
		if (c == 1 && path[0] == '.')
			continue;
		child = c == 2 && path[0] == '.' && path[1] == '.' ? (n->parent ? n->parent : n)
								   : find_child(n, path, c);
		if (!child) {
			*at = (struct place){NULL, is_last(path + c) ? n : NULL, path, c};
			return -ENOENT;
		}
		n = child->link ?: child;
	}
	if (path[-1] == '/' && !is_dir(n))
		return -ENOTDIR;
	at->node = n;
	return 0;
}

/* Children are sorted by name. */
static void link_child(struct node *dir, struct node *n)
{
	struct node **at = &dir->child;

	/* most names differ in their first characters, so that nothing need be called */
	while (*at && (*(*at)->name < *n->name ||
		       (*(*at)->name == *n->name && strcmp((*at)->name, n->name) < 0)))
		at = &(*at)->sibling;
	n->sibling = *at;
	n->parent = dir;
	*at = n;
}

static struct node *alloc_node(const char *name, size_t len, u16 mode)
{
	struct node *n = kzalloc(sizeof(*n) + len + 1);

	if (!n)
		return NULL;
	memcpy(n + 1, name, len);
	n->name = (char *)(n + 1);
	n->mode = mode;
	return n;
}

static struct node *new_node(struct node *dir, const char *name, size_t len, u16 mode)
{
	struct node *n = alloc_node(name, len, mode);

	if (n)
		link_child(dir, n);
	return n;
}

struct node *file_lookup(struct node *cwd, const char *path)
{
	struct place at;

	mutex_lock(&tree_lock);
	walk(cwd, path, &at);
	mutex_unlock(&tree_lock);
	return at.node;
}

int file_stat(struct node *cwd, const char *path, struct node *copy)
{
	struct place at;
	int err;

	mutex_lock(&tree_lock);
	err = walk(cwd, path, &at);
	if (!err)
		*copy = *at.node;
	mutex_unlock(&tree_lock);
	return err;
}

/* Do @n's ops or its data lie in this range? */
static bool belongs_to(const struct node *n, const struct file_range *r)
{
	return (unsigned long)n->ops - r->start < r->size ||
	       (!n->owned && (unsigned long)n->data - r->start < r->size);
}

static bool is_going(const struct node *n)
{
	const struct file_range *r = going;

	while (r && !belongs_to(n, r))
		r = r->next;
	return r;
}

int file_chdir(struct node **cwd, const char *path)
{
	struct place at;
	int err;

	mutex_lock(&tree_lock);
	err = walk(*cwd, path, &at);
	if (!err && !is_dir(at.node))
		err = -ENOTDIR;
	if (!err && is_going(at.node))
		err = -ENODEV;
	if (!err)
		*cwd = at.node;
	mutex_unlock(&tree_lock);
	return err;
}

void file_path(struct node *n, char *buf, size_t size)
{
	size_t at = size - 1;

	buf[at] = 0;
	mutex_lock(&tree_lock);
	for (; n && n != &root; n = n->parent) {
		size_t len = strlen(n->name);

		if (len + 1 > at)
			break;
		at -= len;
		memcpy(buf + at, n->name, len);
		buf[--at] = '/';
	}
	mutex_unlock(&tree_lock);
	if (at == size - 1)
		buf[--at] = '/';
	memmove(buf, buf + at, size - at);
}

static struct node *make_path(struct node *dir, const char *path, u16 mode, bool special)
{
	struct node *n;
	size_t len;

	for (; (len = next_component(&path)); path += len, dir = n) {
		bool last = is_last(path + len);

		if (!is_dir(dir) || len > NAME_MAX)
			return NULL;
		n = find_child(dir, path, len);
		if (last && n && !(is_dir(n) && mode & S_DIR))
			return NULL;
		if (!n)
			n = new_node(dir, path, len, last ? mode : S_DIR | (special ? 0555 : 0755));
		if (!n || last)
			return n;
	}
	return mode & S_DIR ? dir : NULL;
}

struct node *file_make_at(struct node *dir, const char *path, u16 mode, const struct file_ops *ops,
			  void *data)
{
	struct node *n;

	mutex_lock(&tree_lock);
	n = make_path(dir, path, mode, ops);
	if (n && (ops || !is_dir(n))) {
		n->ops = ops;
		n->data = data;
	}
	mutex_unlock(&tree_lock);
	return n;
}

struct node *file_make(const char *path, u16 mode, const struct file_ops *ops, void *data)
{
	return file_make_at(&root, path, mode, ops, data);
}

int file_link(const char *path, struct node *dir)
{
	struct node *n = file_make(path, dir->mode, NULL, NULL);

	if (n)
		n->link = dir;
	return n ? 0 : -ENOMEM;
}

typedef int (*special_t)(struct node *dir, const char *name);

/*
 * The directory's own mkdir or rmdir, to be called by call_special(); it counts as open until then.
 */
static int prepare_special(struct node *dir, special_t fn, special_t *special)
{
	if (is_going(dir))
		return -ENODEV;
	*special = fn;
	dir->opens += fn != NULL;
	return -EPERM;
}

/* Context: without tree_lock. */
static int call_special(struct node *dir, special_t special, const char *name)
{
	int err = special(dir, name);

	mutex_lock(&tree_lock);
	dir->opens--;
	mutex_unlock(&tree_lock);
	return err;
}

/* Create the missing last name of a path; its directory must be writable. */
static int make_last(const struct place *at, u16 mode, struct node **n)
{
	if (!(at->dir->mode & 0200))
		return mode & S_DIR ? -EPERM : -EACCES;
	*n = new_node(at->dir, at->name, at->len, mode);
	return *n ? 0 : -ENOMEM;
}

int file_mkdir(struct node *cwd, const char *path)
{
	special_t special = NULL;
	char name[NAME_MAX + 1];
	struct place at;
	int err;

	mutex_lock(&tree_lock);
	err = walk(cwd, path, &at);
	if (!err) {
		err = -EEXIST;
	} else if (at.dir && at.dir->ops) {
		err = prepare_special(at.dir, at.dir->ops->mkdir, &special);
		strlcpy(name, at.name, at.len + 1);
	} else if (at.dir) {
		err = make_last(&at, S_DIR | 0755, &at.node);
	}
	mutex_unlock(&tree_lock);
	return special ? call_special(at.dir, special, name) : err;
}

struct search {
	struct node *node;
	bool found;
};

static void stands_in(struct thread *t, void *arg)
{
	struct search *s = arg;

	s->found |= t->cwd == s->node;
}

/* A file at or below @n is open, or a directory there is a thread's cwd. */
static bool in_use(struct node *n)
{
	struct search s = {n};

	for (struct node *child = n->child; child; child = child->sibling)
		if (in_use(child))
			return true;
	threads_for_each(stands_in, &s);
	return n->opens || s.found;
}

static int may_remove(struct node *n)
{
	if (n->ops || !n->parent || !(n->parent->mode & 0200))
		return -EPERM;
	if (n->child)
		return -ENOTEMPTY;
	return in_use(n) ? -EBUSY : 0;
}

static void unlink_node(struct node *n)
{
	struct node **at = &n->parent->child;

	while (*at != n)
		at = &(*at)->sibling;
	*at = n->sibling;
}

static void remove_node(struct node *n)
{
	unlink_node(n);
	if (n->owned)
		kfree(n->data);
	kfree(n);
}

int file_remove(struct node *cwd, const char *path)
{
	special_t special = NULL;
	char name[NAME_MAX + 1];
	struct place at;
	struct node *dir;
	int err;

	mutex_lock(&tree_lock);
	err = walk(cwd, path, &at);
	dir = err ? NULL : at.node->parent;
	if (dir && dir->ops) {
		err = prepare_special(dir, dir->ops->rmdir, &special);
		strlcpy(name, at.node->name, sizeof(name));
	} else {
		err = err ?: may_remove(at.node);
		if (!err)
			remove_node(at.node);
	}
	mutex_unlock(&tree_lock);
	return special ? call_special(dir, special, name) : err;
}

int file_unmake(struct node *n)
{
	int err = 0;

	mutex_lock(&tree_lock);
	if (n->child)
		err = -ENOTEMPTY;
	else if (in_use(n))
		err = -EBUSY;
	else
		remove_node(n);
	mutex_unlock(&tree_lock);
	return err;
}

/*
 * The node after @n, of all below the root: its first child, else the next one beside it or beside
 * what it is in.
 */
static struct node *next_node(struct node *n)
{
	if (n->child)
		return n->child;
	while (n && !n->sibling)
		n = n->parent;
	return n ? n->sibling : NULL;
}

/* The link to @r, or the last link. */
static struct file_range **link_of(const struct file_range *r)
{
	struct file_range **at = &going;

	while (*at && *at != r)
		at = &(*at)->next;
	return at;
}

static void add_range(struct file_range *r)
{
	if (*link_of(r))
		return;
	r->next = going;
	going = r;
}

int file_ops_going(struct file_range *r)
{
	int err = 0;

	mutex_lock(&tree_lock);
	for (struct node *n = &root; n && !err; n = next_node(n))
		if (belongs_to(n, r) && in_use(n))
			err = -EBUSY;
	if (!err)
		add_range(r);
	mutex_unlock(&tree_lock);
	return err;
}

static bool forget_below(struct node *dir, const struct file_range *r)
{
	struct node *next;
	bool left = false;

	for (struct node *n = dir->child; n; n = next) {
		next = n->sibling;
		left |= forget_below(n, r);
		if (!belongs_to(n, r))
			continue;
		if (n->child || in_use(n))
			left = true;
		else
			remove_node(n);
	}
	return left;
}

bool file_ops_forget(struct file_range *r)
{
	bool left;

	mutex_lock(&tree_lock);
	add_range(r);
	left = forget_below(&root, r);
	mutex_unlock(&tree_lock);
	return left;
}

void file_ops_end(struct file_range *r)
{
	struct file_range **at;

	mutex_lock(&tree_lock);
	at = link_of(r);
	if (*at)
		*at = r->next;
	mutex_unlock(&tree_lock);
}

struct node *file_tree_new(const char *name, u16 mode)
{
	return alloc_node(name, strlen(name), mode);
}

int file_attach(struct node *dir, struct node *tree)
{
	int err = 0;

	mutex_lock(&tree_lock);
	if (find_child(dir, tree->name, strlen(tree->name)))
		err = -EEXIST;
	else
		link_child(dir, tree);
	mutex_unlock(&tree_lock);
	return err;
}

int file_detach(struct node *dir, const char *name, struct node **tree)
{
	struct node *n;
	int err = 0;

	mutex_lock(&tree_lock);
	n = find_child(dir, name, strlen(name));
	if (!n)
		err = -ENOENT;
	else if (in_use(n))
		err = -EBUSY;
	else
		unlink_node(n);
	mutex_unlock(&tree_lock);
	*tree = n;
	return err;
}

void file_tree_free(struct node *tree)
{
	while (tree->child) {
		struct node *child = tree->child;

		tree->child = child->sibling;
		file_tree_free(child);
	}
	kfree(tree);
}

int file_entry(struct file *dir, struct node *copy, char *name, size_t size)
{
	struct node *n;
	u64 skip = dir->pos;

	if (!is_dir(dir->node))
		return -ENOTDIR;
	mutex_lock(&tree_lock);
	for (n = dir->node->child; n && skip; skip--)
		n = n->sibling;
	if (n) {
		*copy = *n;
		strlcpy(name, n->name, size);
		dir->pos++;
	}
	mutex_unlock(&tree_lock);
	return n ? 1 : 0;
}

/* ---- ordinary contents; tree_lock held ---- */

static size_t capacity_for(size_t size)
{
	size_t capacity = CAPACITY_MIN;

	while (capacity < size)
		capacity *= 2;
	return capacity;
}

static void truncate(struct node *n)
{
	if (n->owned)
		kfree(n->data);
	n->data = NULL;
	n->size = 0;
	n->owned = false;
}

/* Make room for @size bytes in allocated memory; contents in the initrd are copied first. */
static int grow(struct node *n, size_t size)
{
	char *data;

	if (size > FILE_MAX)
		return -EFBIG;
	if (n->owned && size <= capacity_for(n->size))
		return 0;
	data = kmalloc(capacity_for(MAX(size, n->size)));
	if (!data)
		return -ENOSPC;
	if (n->size)
		memcpy(data, n->data, n->size);
	if (n->owned)
		kfree(n->data);
	n->data = data;
	n->owned = true;
	return 0;
}

static ssize_t memory_read(struct node *n, char *buf, size_t size, u64 *pos)
{
	if (*pos >= n->size)
		return 0;
	size = MIN(size, n->size - *pos);
	memcpy(buf, (char *)n->data + *pos, size);
	*pos += size;
	return size;
}

static ssize_t memory_write(struct file *f, const char *buf, size_t size)
{
	struct node *n = f->node;
	int err;

	if (f->flags & O_APPEND)
		f->pos = n->size;
	err = size > FILE_MAX ? -EFBIG : grow(n, f->pos + size);
	if (err)
		return err;
	if (f->pos > n->size)
		memset((char *)n->data + n->size, 0, f->pos - n->size);
	memcpy((char *)n->data + f->pos, buf, size);
	f->pos += size;
	n->size = MAX(n->size, f->pos);
	return size;
}

/* ---- open files ---- */

static bool makes_its_own(const struct node *dir)
{
	return dir->ops && dir->ops->create;
}

static int find_or_make(struct node *cwd, const char *path, int flags, struct node **n)
{
	struct place at;
	int err = walk(cwd, path, &at);

	*n = at.node;
	/* create_special() has made the file there, but it was removed since */
	if (at.dir && flags & O_CREAT && !makes_its_own(at.dir))
		err = at.name[at.len] == '/' ? -EISDIR : make_last(&at, 0644, n);
	if (!err && is_dir(*n) && flags & (O_ACCMODE | O_TRUNC))
		err = -EISDIR;
	if (!err && is_going(*n))
		err = -ENODEV;
	return err;
}

/* A missing name in a special directory: the directory's own create makes it. */
static int create_special(struct node *cwd, const char *path)
{
	special_t special = NULL;
	char name[NAME_MAX + 1];
	struct place at;
	int err = 0;

	mutex_lock(&tree_lock);
	if (walk(cwd, path, &at) && at.dir && makes_its_own(at.dir)) {
		err = prepare_special(at.dir, at.dir->ops->create, &special);
		strlcpy(name, at.name, at.len + 1);
	}
	mutex_unlock(&tree_lock);
	return special ? call_special(at.dir, special, name) : err;
}

static void put_file(struct file *f)
{
	mutex_lock(&tree_lock);
	f->node->opens--;
	mutex_unlock(&tree_lock);
	kfree(f);
}

int file_open(struct node *cwd, const char *path, int flags, struct file **file)
{
	int err = flags & O_CREAT ? create_special(cwd, path) : 0;
	struct file *f = err ? NULL : kzalloc(sizeof(*f));

	if (!f)
		return err ?: -ENOMEM;
	f->flags = flags;
	mutex_lock(&tree_lock);
	err = find_or_make(cwd, path, flags, &f->node);
	if (!err) {
		f->node->opens++;
		if (flags & O_TRUNC && !f->node->ops)
			truncate(f->node);
	}
	mutex_unlock(&tree_lock);
	if (err) {
		kfree(f);
		return err;
	}
	if (f->node->ops && f->node->ops->open)
		err = f->node->ops->open(f);
	if (err)
		put_file(f);
	else
		*file = f;
	return err;
}

ssize_t file_read(struct file *f, void *buf, size_t n)
{
	const struct file_ops *ops = f->node->ops;
	ssize_t got;

	if ((f->flags & O_ACCMODE) == O_WRONLY)
		return -EBADF;
	if (is_dir(f->node))
		return -EISDIR;
	if (ops)
		return ops->read ? ops->read(f, buf, n, &f->pos) : -EINVAL;
	mutex_lock(&tree_lock);
	got = memory_read(f->node, buf, n, &f->pos);
	mutex_unlock(&tree_lock);
	return got;
}

ssize_t file_write(struct file *f, const void *buf, size_t n)
{
	const struct file_ops *ops = f->node->ops;
	ssize_t put;

	if ((f->flags & O_ACCMODE) == O_RDONLY)
		return -EBADF;
	if (ops)
		return ops->write ? ops->write(f, buf, n, &f->pos) : -EINVAL;
	mutex_lock(&tree_lock);
	put = memory_write(f, buf, n);
	mutex_unlock(&tree_lock);
	return put;
}

int file_close(struct file *f)
{
	const struct file_ops *ops = f->node->ops;
	int err;

	if (__atomic_fetch_sub(&f->more, 1, __ATOMIC_ACQ_REL))
		return 0;
	err = ops && ops->release ? ops->release(f) : 0;
	put_file(f);
	return err;
}
