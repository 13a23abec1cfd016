/*
 * pipeline FILE: count lines, words and bytes with a thread on every CPU.
 *
 *	producer (CPU 0) ->| chunks |-> workers (every CPU) ->| counts |-> consumer (the caller)
 *
 * The queues are bounded, so that a fast stage sleeps until a slow one wakes it.
 * At the end one pass over the whole file must give the same counts.
 */
#include "app.h"

APP("file", "count lines, words and bytes, with a thread on every CPU");

#define SLOTS 4
#define CHUNK 2048
#define MAX_WORKERS 8

struct counts {
	uint64_t lines, words, bytes;
	uint64_t hash; /* sum of the words' hashes, so that their order does not matter */
};

struct item {
	const char *text;
	size_t size;
	struct counts counts;
};

struct queue {
	mutex_t lock;
	cond_t changed;
	struct item slots[SLOTS];
	unsigned first, used;
	unsigned writers; /* 0: no more items will come */
};

struct pipeline {
	const char *text;
	size_t size;
	struct queue chunks, counted;
	struct counts total;
	unsigned items;
};

static __attribute__((noinline)) void queue_put(struct queue *q, const struct item *item)
{
	mutex_acquire(&q->lock);
	while (q->used == SLOTS)
		cond_wait(&q->changed, &q->lock);
	q->slots[(q->first + q->used++) % SLOTS] = *item;
	cond_broadcast(&q->changed);
	mutex_release(&q->lock);
}

/* Return: false if the queue is empty and has no writers. */
static __attribute__((noinline)) bool queue_take(struct queue *q, struct item *item)
{
	bool got;

	mutex_acquire(&q->lock);
	while (!q->used && q->writers)
		cond_wait(&q->changed, &q->lock);
	got = q->used;
	if (got) {
		*item = q->slots[q->first];
		q->first = (q->first + 1) % SLOTS;
		q->used--;
		cond_broadcast(&q->changed);
	}
	mutex_release(&q->lock);
	return got;
}

static __attribute__((noinline)) void queue_leave(struct queue *q)
{
	mutex_acquire(&q->lock);
	q->writers--;
	cond_broadcast(&q->changed);
	mutex_release(&q->lock);
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static __attribute__((noinline)) uint64_t hash_word(const char *word, size_t length)
{
	uint64_t hash = 0xcbf29ce484222325;

	while (length--)
		hash = (hash ^ (uint8_t)*word++) * 0x100000001b3;
	return hash;
}

static __attribute__((noinline)) void count_chunk(const char *text, size_t size, struct counts *c)
{
	size_t start = 0;

	for (size_t i = 0; i <= size; i++) {
		if (i < size && !is_space(text[i]))
			continue;
		if (i > start) {
			c->words++;
			c->hash += hash_word(text + start, i - start);
		}
		c->lines += i < size && text[i] == '\n';
		start = i + 1;
	}
	c->bytes += size;
}

static void add_counts(struct counts *total, const struct counts *c)
{
	total->lines += c->lines;
	total->words += c->words;
	total->bytes += c->bytes;
	total->hash += c->hash;
}

/* A chunk ends after a space, so that no word is cut. */
static __attribute__((noinline)) size_t chunk_size(const char *text, size_t left)
{
	size_t n = left < CHUNK ? left : CHUNK;

	while (n < left && !is_space(text[n - 1]))
		n++;
	return n;
}

static int produce(void *arg)
{
	struct pipeline *p = arg;

	for (size_t at = 0; at < p->size;) {
		struct item item = {.text = p->text + at};

		item.size = chunk_size(item.text, p->size - at);
		queue_put(&p->chunks, &item);
		at += item.size;
	}
	queue_leave(&p->chunks);
	return 0;
}

static int work(void *arg)
{
	struct pipeline *p = arg;
	struct item item;

	while (queue_take(&p->chunks, &item)) {
		count_chunk(item.text, item.size, &item.counts);
		queue_put(&p->counted, &item);
	}
	queue_leave(&p->counted);
	return 0;
}

static int consume(void *arg)
{
	struct pipeline *p = arg;
	struct item item;

	while (queue_take(&p->counted, &item)) {
		add_counts(&p->total, &item.counts);
		p->items++;
	}
	return 0;
}

/* If a thread cannot be started, its queue loses a writer, so that the others still finish. */
static unsigned run(struct pipeline *p, unsigned cpus, unsigned workers)
{
	thread_t threads[MAX_WORKERS + 1];
	unsigned started = 0;

	p->chunks.writers = 1;
	p->counted.writers = workers;
	for (unsigned i = 0; i < workers; i++) {
		if (thread_create_on(&threads[started], i % cpus, work, p))
			queue_leave(&p->counted);
		else
			started++;
	}
	workers = started;
	if (!workers)
		return 0;
	if (!thread_create_on(&threads[started], 0, produce, p))
		started++;
	else
		queue_leave(&p->chunks);
	consume(p);
	while (started)
		thread_join(threads[--started]);
	return workers;
}

static int report(const struct pipeline *p, const char *name, unsigned workers)
{
	struct counts once = {0};
	bool same;

	count_chunk(p->text, p->size, &once);
	same = !memcmp(&once, &p->total, sizeof(once));
	printf("%s: %lu lines, %lu words, %lu bytes; %u chunks, %u workers: %s\n", name,
	       (unsigned long)p->total.lines, (unsigned long)p->total.words,
	       (unsigned long)p->total.bytes, p->items, workers,
	       same ? "as in one pass" : "NOT as in one pass");
	return !same;
}

int main(int argc, char **argv)
{
	unsigned cpus = cpu_count();
	struct pipeline *p = calloc(1, sizeof(*p));
	void *text = NULL;
	long n = argc == 2 && p ? read_file(argv[1], &text) : -22;
	int status = 1;

	if (argc != 2) {
		printf("usage: pipeline FILE\n");
		status = 2;
	} else if (n < 0) {
		printf("pipeline: %s: %s\n", argv[1], strerror(-n));
	} else {
		p->text = text;
		p->size = n;
		status = report(p, argv[1], run(p, cpus, cpus < 2 ? 2 : cpus > 8 ? 8 : cpus));
	}
	free(text);
	free(p);
	return status;
}
