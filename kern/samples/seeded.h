/*
 * A module whose functions make calls that follow from a seed. maple.c and pine.c
 * include it: the same code under two names, so that both can be loaded at once.
 *
 *	echo 0123456789abcdef > /proc/maple	make the calls that follow from this seed, and print
 *						their result
 *	echo nap > /proc/maple			a thread of the module's sleeps until `echo wake`,
 *						or until the module is removed
 */
#include "file.h"
#include "module.h"
#include "string.h"

#define PASTE(a, b) a##_##b
#define NAME_OF(tree, part) PASTE(tree, part)
#define F(part) NAME_OF(TREE, part)
#define TEXT_OF(tree) #tree
#define TEXT(tree) TEXT_OF(tree)
#define OWN static __attribute__((noipa))

#define NAP 1000000000000000 /* ns: for ever */

static struct node *node;
static struct thread *napper; /* under nap_lock */
static struct mutex nap_lock;

static u64 mix(u64 z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* splitmix64 */
static u64 next(u64 *state)
{
	return mix(*state += 0x9e3779b97f4a7c15);
}

OWN u64 F(leaf)(u64 x)
{
	return mix(x);
}

OWN u64 F(twig)(u64 x)
{
	u64 left = F(leaf)(x);

	return left * 31 + F(leaf)(x + 1);
}

/* Both calls are tail calls. */
OWN u64 F(bough)(u64 x)
{
	return x & 1 ? F(leaf)(x + 2) : F(twig)(x + 3);
}

OWN u64 F(root)(u64 x)
{
	if (!(x & 7))
		return x;
	return F(leaf)(x) ^ F(root)((x & 7) - 1);
}

/* Make the calls that follow from the seed. Return: a sum of their results. */
static u64 grow(u64 seed, unsigned *calls)
{
	static u64 (*const function[])(u64) = {F(leaf), F(twig), F(bough), F(root)};
	u64 sum = 0;

	*calls = 60 + next(&seed) % 41;
	for (unsigned i = 0; i < *calls; i++) {
		u64 x = next(&seed);

		sum = mix(sum + function[x % ARRAY_SIZE(function)](x >> 8));
	}
	return sum;
}

OWN int F(nap)(void *unused)
{
	sleep_ns(NAP);
	return 0;
}

static void wake(void)
{
	mutex_lock(&nap_lock);
	if (napper) {
		thread_interrupt(napper);
		thread_join(napper);
		napper = NULL;
	}
	mutex_unlock(&nap_lock);
}

/* When this returns, the thread sleeps. */
static void nap(void)
{
	mutex_lock(&nap_lock);
	if (!napper) {
		napper = kthread_run(F(nap), NULL, -1, "nap");
		while (napper &&
		       (READ_ONCE(napper->state) != THREAD_SLEEPING || READ_ONCE(napper->on_cpu)))
			yield();
	}
	mutex_unlock(&nap_lock);
}

static bool parse_hex(const char *text, size_t n, u64 *value)
{
	*value = 0;
	for (; n; n--, text++) {
		unsigned digit = *text <= '9' ? *text - '0' : *text - 'a' + 10;

		if (digit > 15)
			return false;
		*value = *value << 4 | digit;
	}
	return true;
}

static bool is_word(const char *buf, size_t n, const char *word)
{
	return n == strlen(word) && !memcmp(buf, word, n);
}

OWN ssize_t F(write)(struct file *f, const char *buf, size_t n, u64 *pos)
{
	size_t length = n && buf[n - 1] == '\n' ? n - 1 : n;
	unsigned calls;
	u64 seed, sum;

	if (is_word(buf, length, "nap")) {
		nap();
	} else if (is_word(buf, length, "wake")) {
		wake();
	} else if (parse_hex(buf, length, &seed)) {
		sum = grow(seed, &calls);
		printk("%s %016llx: %u calls, result %016llx\n", TEXT(TREE),
		       (unsigned long long)seed, calls, (unsigned long long)sum);
	} else {
		return -EINVAL;
	}
	return n;
}
static const struct file_ops ops = {.write = F(write)};

OWN int F(init)(void)
{
	node = file_make("/proc/" TEXT(TREE), 0222, &ops, NULL);
	return node ? 0 : -EEXIST;
}
int init_module(void) __attribute__((alias(TEXT(F(init)))));

OWN void F(exit)(void)
{
	wake();
	file_unmake(node);
}
void cleanup_module(void) __attribute__((alias(TEXT(F(exit)))));
