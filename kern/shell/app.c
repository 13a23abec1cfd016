/*
 * The implementation of app.h. An application is a function named main and the
 * threads that it creates; they share a process: the table of open files and the
 * list of allocated memory. The thread that called main() frees both when all
 * threads have ended, by themselves or by Ctrl-C (thread.h).
 */
#include "app.h"

#include "apprun.h"
#include "console.h"
#include "cpu.h"
#include "errno.h"
#include "file.h"
#include "irq.h"
#include "list.h"
#include "print.h"
#include "shell.h"
#include "string.h"

#define FIRST_FD 3
#define MAX_FDS 16

struct process {
	struct mutex lock; /* protects files[] */
	struct file *files[MAX_FDS];
	struct spinlock chunk_lock; /* protects chunks */
	/* one node before each object of malloc(); its link is NULL after free() */
	struct list_node *chunks;
	struct thread *main;
};

_Static_assert(sizeof(mutex_t) == sizeof(struct mutex), "app.h's mutex_t is struct mutex");
_Static_assert(sizeof(cond_t) == sizeof(struct wait_queue), "app.h's cond_t is a wait queue");

/* Panics in an interrupt: current is then an unrelated thread. */
static __always_inline struct process *this_process(void)
{
	if (unlikely(current->ctx & CTX_HARDIRQ))
		panic("interrupt_call: the function allocates or frees memory, uses a file or "
		      "creates a thread: not allowed in an interrupt");
	return current->process;
}

/* ---- processes and threads ---- */

/* Another reference to @f, which the caller drops with file_close(). */
static struct file *file_get(struct file *f)
{
	if (f)
		__atomic_fetch_add(&f->more, 1, __ATOMIC_RELAXED);
	return f;
}

/* Wait for the other threads; after Ctrl-C all of them are ended. Context: the main thread. */
static void process_end(struct process *p)
{
	if (!process_wait())
		process_interrupt();
	process_join();
	for (int fd = FIRST_FD; fd < MAX_FDS; fd++)
		if (p->files[fd])
			file_close(p->files[fd]);
	while (p->chunks) {
		struct list_node *c = p->chunks;

		p->chunks = c->next;
		kfree(c);
	}
	current->process = NULL;
	kfree(p);
}

static void end_thread(void)
{
	struct process *p = current->process;

	current->end = NULL;
	if (current == p->main) {
		process_end(p);
		shell_thread_ends();
	}
	thread_exit(130);
}

const struct app *app_find(const char *name)
{
	TABLE_FOR_EACH(const struct app, app, app)
		if (!strcmp(app->name, name))
			return app;
	return NULL;
}

int app_run(const struct app *app, int argc, char **argv)
{
	struct process *p = kzalloc(sizeof(*p));
	int status;

	if (!p)
		return -ENOMEM;
	p->main = current;
	current->process = p;
	current->end = end_thread;
	status = app->main(argc, argv) & 0xff;
	current->end = NULL;
	if (process_threads(p) > 1)
		thread_main_returned();
	process_end(p);
	return status;
}

int thread_create_on(thread_t *t, int cpu, int (*fn)(void *), void *arg)
{
	if (cpu < -1 || cpu >= (int)nr_cpus)
		return -EINVAL;
	this_process();
	*t = kthread_run(fn, arg, cpu, current->comm);
	return *t ? 0 : -EAGAIN;
}

int thread_create(thread_t *t, int (*fn)(void *), void *arg)
{
	return thread_create_on(t, -1, fn, arg);
}

int cpu_count(void)
{
	return nr_cpus;
}

int cpu_self(void)
{
	return READ_ONCE(current->cpu);
}

void mutex_acquire(mutex_t *m)
{
	mutex_lock((struct mutex *)m);
}

void mutex_release(mutex_t *m)
{
	mutex_unlock((struct mutex *)m);
	end_if_interrupted();
}

/* Joins the queue before it releases the mutex, so that no broadcast is lost. */
void cond_wait(cond_t *c, mutex_t *m)
{
	prepare_to_wait((struct wait_queue *)c);
	mutex_unlock((struct mutex *)m);
	if (!interrupted())
		schedule();
	finish_wait((struct wait_queue *)c);
	end_if_interrupted();
	mutex_acquire(m);
}

void cond_broadcast(cond_t *c)
{
	wake_up((struct wait_queue *)c);
}

void interrupt_call(int cpu, void (*fn)(void *), void *arg)
{
	if (cpu < 0 || cpu >= (int)nr_cpus || !cpu_of(cpu)->online)
		printk("interrupt_call: there is no CPU %d.\n", cpu);
	else
		smp_call(cpu, fn, arg);
}

uint64_t clock(void)
{
	return clock_ns();
}

/* ---- files ---- */

/* Context: p->lock held, else another thread may close the file. */
static struct file *file_of(int fd)
{
	struct process *p = this_process();

	return fd >= FIRST_FD && fd < MAX_FDS ? p->files[fd] : NULL;
}

/*
 * The open file @fd with a reference, so that another thread's close() does not free it;
 * done_with() drops it. NULL: @fd is not open.
 */
static struct file *file_hold(int fd)
{
	struct process *p = current->process;
	struct file *f;

	mutex_lock(&p->lock);
	f = file_get(file_of(fd));
	mutex_unlock(&p->lock);
	return f;
}

static long done_with(struct file *f, long result)
{
	if (!f)
		return -EBADF;
	file_close(f);
	return result;
}

static int fd_install(struct process *p, struct file *f)
{
	int fd;

	mutex_lock(&p->lock);
	for (fd = FIRST_FD; fd < MAX_FDS && p->files[fd]; fd++)
		;
	if (fd < MAX_FDS)
		p->files[fd] = f;
	mutex_unlock(&p->lock);
	return fd < MAX_FDS ? fd : -EMFILE;
}

int open(const char *path, int flags, ...)
{
	struct file *f;
	int fd = file_open(shell_cwd(), path, flags, &f);

	if (fd < 0)
		return fd;
	fd = fd_install(current->process, f);
	if (fd < 0)
		file_close(f);
	return fd;
}

int close(int fd)
{
	struct process *p = current->process;
	struct file *f;

	mutex_lock(&p->lock);
	f = file_of(fd);
	if (f)
		p->files[fd] = NULL;
	mutex_unlock(&p->lock);
	return f ? file_close(f) : -EBADF;
}

/* Read up to the end of a line, Ctrl-D, or @n bytes. */
static long read_console(char *buf, size_t n)
{
	size_t i = 0;

	while (i < n) {
		int c = console_getchar();

		if (c < 0)
			return -EINTR;
		if ((u8)c == 4)
			break;
		if (c & INPUT_LOST)
			console_report_loss();
		buf[i] = (char)c == '\r' ? '\n' : c;
		console_write(&buf[i], 1);
		if (buf[i++] == '\n')
			break;
	}
	return i;
}

long read(int fd, void *buf, size_t n)
{
	struct file *f;
	long got;

	end_if_interrupted();
	if (fd == 0) {
		got = current->in ? file_read(current->in, buf, n) : read_console(buf, n);
	} else {
		f = file_hold(fd);
		got = done_with(f, f ? file_read(f, buf, n) : 0);
	}
	end_if_interrupted();
	return got;
}

/* A program ends when no one reads its output any more. */
long write(int fd, const void *buf, size_t n)
{
	struct file *f;
	long put;

	end_if_interrupted();
	if (fd == 1) {
		put = out_write(buf, n);
		if (put == -EPIPE)
			thread_interrupt(this_process()->main);
		end_if_interrupted();
		return put;
	}
	if (fd == 2) {
		console_write(buf, n);
		return n;
	}
	f = file_hold(fd);
	return done_with(f, f ? file_write(f, buf, n) : 0);
}

int stat(const char *path, struct stat *st)
{
	struct node n;
	int err = file_stat(shell_cwd(), path, &n);

	if (!err)
		*st = (struct stat){n.mode, n.size};
	return err;
}

int readdir(int fd, struct dirent *entry)
{
	struct file *f = file_hold(fd);
	struct node n;
	int found = done_with(f, f ? file_entry(f, &n, entry->name, sizeof(entry->name)) : 0);

	if (found > 0)
		entry->stat = (struct stat){n.mode, n.size};
	return found;
}

int remove(const char *path)
{
	return file_remove(shell_cwd(), path);
}

int mkdir(const char *path)
{
	return file_mkdir(shell_cwd(), path);
}

/* ---- memory ---- */

static __always_inline void *own(struct list_node *c)
{
	struct process *p = this_process();
	unsigned long flags;

	if (!c)
		return NULL;
	flags = spin_lock_irqsave(&p->chunk_lock);
	list_add(&p->chunks, c);
	spin_unlock_irqrestore(&p->chunk_lock, flags);
	return c + 1;
}

static __always_inline struct list_node *disown(void *object)
{
	struct process *p = this_process();
	unsigned long flags;
	struct list_node *c;

	if (!object)
		return NULL;
	c = (struct list_node *)object - 1;
	if ((unsigned long)c - LINEAR_BASE >= MMIO_BASE - LINEAR_BASE || (unsigned long)c % 16)
		panic("free: malloc() did not return %p", object);
	if (!is_kmalloc_object(c))
		panic("free: malloc() did not return %p, or it was already freed", object);
	flags = spin_lock_irqsave(&p->chunk_lock);
	if (!c->link)
		panic("free: the object at %p was already freed", object);
	list_remove(c);
	c->link = NULL;
	spin_unlock_irqrestore(&p->chunk_lock, flags);
	return c;
}

static size_t with_chunk(size_t size)
{
	return size < SIZE_MAX - sizeof(struct list_node) ? sizeof(struct list_node) + size
							  : SIZE_MAX;
}

void *malloc(size_t size)
{
	return own(kmalloc(with_chunk(size)));
}

void *calloc(size_t n, size_t size)
{
	return size && n > SIZE_MAX / size ? NULL : own(kzalloc(with_chunk(n * size)));
}

/* Without memory the object is unchanged. */
void *realloc(void *p, size_t size)
{
	struct list_node *c = disown(p), *moved = krealloc(c, with_chunk(size));

	if (!moved)
		own(c);
	return own(moved);
}

void free(void *p)
{
	kfree(disown(p));
	end_if_interrupted();
}
