/* Text that is generated item by item, through a buffer that holds one complete item. */
#include "errno.h"
#include "file.h"
#include "print.h"
#include "string.h"

#define SEQ_MIN 256

int seq_open(struct file *f, int (*show)(struct seq *, u64), void *arg)
{
	struct seq *s = kzalloc(sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->show = show;
	s->arg = arg;
	s->file = f;
	f->private = s;
	return 0;
}

/* Generate the next item that is not empty. Return: 0; 1: there is none; -errno. */
static int fill(struct seq *s)
{
	int err = s->ended;

	s->len = s->sent = 0;
	while (!err && !s->len)
		err = s->show(s, s->item++);
	if (s->lost)
		err = -ENOMEM;
	if (err < 0) {
		s->item--; /* so that the next call returns the same error, */
		s->len = 0; /* and no part of the item */
	}
	s->ended = err == 1;
	return s->ended && s->len ? 0 : err;
}

ssize_t seq_read(struct file *f, char *buf, size_t n, u64 *pos)
{
	struct seq *s = f->private;
	size_t done = 0;

	while (done < n) {
		int err = s->sent == s->len ? fill(s) : 0;
		size_t part = MIN(n - done, s->len - s->sent);

		if (err)
			return done || err == 1 ? (ssize_t)done : err;
		memcpy(buf + done, s->buf + s->sent, part);
		s->sent += part;
		done += part;
	}
	*pos += done;
	return done;
}

int seq_release(struct file *f)
{
	struct seq *s = f->private;

	kfree(s->buf);
	kfree(s);
	return 0;
}

static int grow(struct seq *s, size_t size)
{
	size_t want = MAX(s->size * 2, MAX(size, (size_t)SEQ_MIN));
	char *buf = krealloc(s->buf, want);

	if (!buf)
		return -ENOMEM;
	s->buf = buf;
	s->size = want;
	return 0;
}

int seq_printf(struct seq *s, const char *fmt, ...)
{
	va_list args;
	int n;

	for (;;) {
		size_t room = s->size - s->len;

		va_start(args, fmt);
		n = vsnprintf(room ? s->buf + s->len : NULL, room, fmt, args);
		va_end(args);
		if ((size_t)n < room)
			break;
		if (grow(s, s->len + n + 1)) {
			s->lost = true;
			return -ENOMEM;
		}
	}
	s->len += n;
	return 0;
}

int seq_room(struct seq *s, size_t more)
{
	return s->size - s->len > more ? 0 : grow(s, s->len + more + 1);
}
