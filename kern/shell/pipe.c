/* Pipes: a ring of bytes with a file at each end. */
#include "pipe.h"
#include "errno.h"

struct pipe {
	struct mutex lock;
	struct wait_queue changed;
	unsigned long in, out;     /* bytes written, bytes read; under lock */
	bool no_reader, no_writer; /* the end is closed; under lock */
	u32 closed;                /* ends that are closed, and no longer use the pipe */
	char data[PIPE_SIZE];
};

static size_t take(struct pipe *p, char *buf, size_t n)
{
	n = MIN(n, p->in - p->out);
	for (size_t i = 0; i < n; i++)
		buf[i] = p->data[p->out++ % PIPE_SIZE];
	return n;
}

static ssize_t read_pipe(struct file *f, char *buf, size_t n, u64 *pos)
{
	struct pipe *p = f->private;
	bool ended = !n;
	size_t got = 0;

	while (!got && !ended) {
		wait_event(&p->changed, READ_ONCE(p->in) != READ_ONCE(p->out) ||
						READ_ONCE(p->no_writer) || interrupted());
		if (interrupted())
			return -EINTR;
		mutex_lock(&p->lock);
		ended = p->no_writer;
		got = take(p, buf, n);
		mutex_unlock(&p->lock);
	}
	wake_up(&p->changed);
	return got;
}

static bool has_room(const struct pipe *p, size_t n)
{
	return PIPE_SIZE - (READ_ONCE(p->in) - READ_ONCE(p->out)) >= n;
}

/* Return: @n; 0 if another writer took the room first. */
static size_t put(struct pipe *p, const char *buf, size_t n)
{
	mutex_lock(&p->lock);
	if (!has_room(p, n))
		n = 0;
	for (size_t i = 0; i < n; i++)
		p->data[p->in++ % PIPE_SIZE] = buf[i];
	mutex_unlock(&p->lock);
	wake_up(&p->changed);
	return n;
}

static ssize_t write_pipe(struct file *f, const char *buf, size_t n, u64 *pos)
{
	struct pipe *p = f->private;
	size_t done = 0;

	while (done < n) {
		size_t part = MIN(n - done, PIPE_ATOMIC);

		wait_event(&p->changed,
			   has_room(p, part) || READ_ONCE(p->no_reader) || interrupted());
		if (READ_ONCE(p->no_reader))
			return -EPIPE;
		if (interrupted())
			return done ? (ssize_t)done : -EINTR;
		done += put(p, buf + done, part);
	}
	return done;
}

static int close_pipe(struct file *f)
{
	struct pipe *p = f->private;

	mutex_lock(&p->lock);
	WRITE_ONCE(*(f->flags & O_WRONLY ? &p->no_writer : &p->no_reader), true);
	mutex_unlock(&p->lock);
	wake_up(&p->changed);
	if (__atomic_fetch_add(&p->closed, 1, __ATOMIC_ACQ_REL))
		kfree(p);
	return 0;
}

int pipe_make(struct file **reader, struct file **writer)
{
	static const struct file_ops ops = {NULL, read_pipe, write_pipe, close_pipe};
	/* In no directory: no one counts its open files. */
	static struct node node = {.name = "pipe", .mode = 0600, .ops = &ops};
	struct pipe *p = kzalloc(sizeof(*p));
	struct file *r = kzalloc(sizeof(*r)), *w = kzalloc(sizeof(*w));

	if (!p || !r || !w) {
		kfree(p);
		kfree(r);
		kfree(w);
		return -ENOMEM;
	}
	*r = (struct file){.node = &node, .flags = O_RDONLY, .private = p};
	*w = (struct file){.node = &node, .flags = O_WRONLY, .private = p};
	*reader = r;
	*writer = w;
	return 0;
}
