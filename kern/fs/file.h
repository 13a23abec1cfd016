/*
 * The room fs/: files.
 *
 *	file.c	the tree of names: open, read, write, make, remove
 *	seq.c	files whose text is generated item by item
 *	cpio.c	unpacks the initrd into the tree
 *
 * The shell, programs, the tracer's files and modules call it. A special file's reads and writes
 * go to its operations, struct file_ops, of whichever room made it. This room calls base/, mm/
 * and sched/.
 */

/*
 * Files: a tree of names in memory. The initrd's files are at /. They are read
 * in place and copied when written (up to 16 MiB each). /tmp exists; tracefs is
 * a set of nodes with operations of their own at /sys/kernel/tracing.
 *
 * tree_lock (mutex) guards names; each open file has its own position and is
 * used by one thread at a time.
 */
#ifndef FS_FILE_H
#define FS_FILE_H

#include "thread.h"

#define O_RDONLY 0
#define O_WRONLY 1
#define O_RDWR 2
#define O_ACCMODE 3
#define O_CREAT 0100
#define O_TRUNC 01000
#define O_APPEND 02000
#define O_NONBLOCK 04000

struct file;

/*
 * The operations of a special file. Any may be NULL: open and release then do
 * nothing, read and write give -EINVAL. read and write return bytes or
 * -errno and move *pos themselves. open sees f->flags (O_TRUNC for `>`).
 * Each call of write gets the data of one write(2): the shell's echo writes once.
 */
struct file_ops {
	int (*open)(struct file *f);
	ssize_t (*read)(struct file *f, char *buf, size_t n, u64 *pos);
	ssize_t (*write)(struct file *f, const char *buf, size_t n, u64 *pos);
	int (*release)(struct file *f); /* close() returns its errno */
	/*
	 * Of a directory: called when a file or a directory is made in it, and when either is
	 * removed.
	 */
	int (*create)(struct node *dir, const char *name);
	int (*mkdir)(struct node *dir, const char *name);
	int (*rmdir)(struct node *dir, const char *name);
};

struct node {
	const char *name;
	u16 mode; /* permission bits; | S_DIR for a directory */
	const struct file_ops *ops;
	void *data;  /* the file's contents, or ops' own argument */
	u64 size;
	bool owned;  /* data was allocated, it is not in the initrd */
	u32 opens;   /* open files; while not 0, it cannot be removed */
	struct node *parent, *child, *sibling;
	struct node *link; /* file_link(): the directory that has this second name; or NULL */
};
#define S_DIR 0040000

struct file {
	struct node *node;
	int flags;
	u64 pos;
	void *private;
	/*
	 * references beyond the first; file_close() drops one, and releases the file with the last
	 */
	u32 more;
};

/* Each returns an errno negated on failure. Paths: absolute, or relative to @cwd. */
int file_open(struct node *cwd, const char *path, int flags, struct file **f);
ssize_t file_read(struct file *f, void *buf, size_t n);
ssize_t file_write(struct file *f, const void *buf, size_t n);
int file_close(struct file *f);
/* Set *cwd to the directory. A directory that is a thread's cwd cannot be removed. */
int file_chdir(struct node **cwd, const char *path);
struct node *file_lookup(struct node *cwd, const char *path);
struct node *file_root(void);
void file_path(struct node *n, char *buf, size_t size);

/*
 * Make /a/b/c with its parents; special when @ops is not NULL. NULL: no memory, or the name exists.
 */
struct node *file_make(const char *path, u16 mode, const struct file_ops *ops, void *data);
/* The same, with a path relative to @dir. */
struct node *file_make_at(struct node *dir, const char *path, u16 mode, const struct file_ops *ops,
			  void *data);
/* Make @path a second name of the directory @dir, which is never removed. 0 or -ENOMEM. */
int file_link(const char *path, struct node *dir);
int file_remove(struct node *cwd, const char *path); /* a file, or an empty directory */
int file_mkdir(struct node *cwd, const char *path);
int file_stat(struct node *cwd, const char *path, struct node *copy);
/*
 * Remove a file that file_make() made, special or not. Its directories stay. -EBUSY: it is open or
 * a thread's cwd; -ENOTEMPTY: a directory with names in it. Code that looked the node up before
 * must not use it any more.
 */
int file_unmake(struct node *n);
/*
 * For the removal of modules. A file is a module's if its ops or its data (a special file's
 * argument, contents that were not allocated) lie in the module's range. While the range is going,
 * open, chdir, and making or removing names there fail with -ENODEV. So a file that is not in use
 * stays so. Several ranges may be going at a time. The caller keeps *@r until file_ops_end().
 * Context: thread.
 */
struct file_range {
	unsigned long start, size;
	struct file_range *next; /* tree_lock */
};
/*
 * @r is going from now on. -EBUSY: it is not, because one of its files is open, one of its
 * directories is a thread's cwd, or a name is being made or removed there.
 */
int file_ops_going(struct file_range *r);
/* @r is going from now on, or was before. Remove its unused files. Return: one is left, in use. */
bool file_ops_forget(struct file_range *r);
void file_ops_end(struct file_range *r); /* @r is not going any more; nothing if it was not */
/*
 * file_tree_new() makes a directory outside of the tree. The caller fills it with
 * file_make_at(); then file_attach() makes it visible in one step (-EEXIST: @dir
 * has that name). file_detach() takes the directory and all below it out of the
 * tree again. -EBUSY: one of its files is open, or a directory is a thread's cwd.
 * The caller then frees it with file_tree_free().
 */
struct node *file_tree_new(const char *name, u16 mode); /* NULL: no memory */
int file_attach(struct node *dir, struct node *tree);
int file_detach(struct node *dir, const char *name, struct node **tree);
void file_tree_free(struct node *tree);
/*
 * Copy the open directory's next entry, in the order of names. Return: 1; 0 after the last;
 * -ENOTDIR.
 */
int file_entry(struct file *dir, struct node *copy, char *name, size_t size);

/*
 * Unpack a cpio newc archive into the tree. Errors are printed; complete files before an error are
 * kept.
 */
int cpio_unpack(const void *archive, size_t size);

/*
 * Files whose text is generated item by item. A file's open calls seq_open(),
 * which sets f->private to a struct seq. show is called with item 0, 1, 2, ...
 * and returns 0 to go on, 1 if no item follows (this one may have text or not), or
 * -errno. The text of an item is buffered, so that reads may be small.
 */
struct seq {
	char *buf;
	size_t len, size, sent;
	u64 item;
	int (*show)(struct seq *s, u64 item);
	void *arg;
	const struct file *file; /* the file of this text */
	bool lost;               /* no memory for a part of the text: the read returns -ENOMEM */
	bool ended;              /* show has returned 1 */
};
int seq_open(struct file *f, int (*show)(struct seq *, u64), void *arg);
ssize_t seq_read(struct file *f, char *buf, size_t n, u64 *pos);
int seq_release(struct file *f);
int seq_printf(struct seq *s, const char *fmt, ...) __printf(2, 3);
/* Operations of a file with such a text: show's s->arg is the file's data; write, or NULL. */
#define TEXT_OPS(name, show_fn, write_fn)                                                     \
	static int name##_open(struct file *f) { return seq_open(f, show_fn, f->node->data); } \
	static const struct file_ops name = {name##_open, seq_read, write_fn, seq_release}
int seq_room(struct seq *s, size_t more); /* make room for @more bytes: 0 or -ENOMEM */

#endif
