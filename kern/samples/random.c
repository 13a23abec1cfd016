/*
 * A generator of random bytes: `insmod random`, then read /dev/random. A write
 * stirs bytes into its state. `insmod random seed=5` makes it repeat.
 *
 * The state is 256 bits, stepped by xoshiro256++ (Blackman and Vigna, 2018). It is
 * for programs and tests; it is no source of secrets.
 */
#include "file.h"
#include "module.h"
#include "irq.h"

static long seed;
module_param(seed, long);

static struct mutex lock = MUTEX_INIT; /* protects state */
static u64 state[4];
static struct node *node;

static u64 rotate(u64 x, unsigned by)
{
	return x << by | x >> (64 - by);
}

static u64 next(void)
{
	u64 result = rotate(state[0] + state[3], 23) + state[0], t = state[1] << 17;

	state[2] ^= state[0];
	state[3] ^= state[1];
	state[1] ^= state[2];
	state[0] ^= state[3];
	state[2] ^= t;
	state[3] = rotate(state[3], 45);
	return result;
}

/* splitmix64, as the generator's authors advise, so that a small seed fills all bits. */
static void stir(u64 word)
{
	for (int i = 0; i < 4; i++) {
		u64 z = word += 0x9e3779b97f4a7c15;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
		z = (z ^ z >> 27) * 0x94d049bb133111eb;
		state[i] ^= z ^ z >> 31;
	}
}

static ssize_t random_read(struct file *f, char *buf, size_t n, u64 *pos)
{
	mutex_lock(&lock);
	for (size_t i = 0; i < n; i++) {
		static u64 word; /* under the lock, as the state */

		word = i % 8 ? word >> 8 : next();
		buf[i] = word;
	}
	mutex_unlock(&lock);
	*pos += n;
	return n;
}

static ssize_t random_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	mutex_lock(&lock);
	for (size_t i = 0; i < n; i++)
		stir(next() ^ (u8)buf[i]);
	mutex_unlock(&lock);
	*pos += n;
	return n;
}

static const struct file_ops ops = {.read = random_read, .write = random_write};

static int random_init(void)
{
	stir(seed ?: arch_counter());
	node = file_make("/dev/random", 0666, &ops, NULL);
	return node ? 0 : -EEXIST;
}
module_init(random_init);

static void random_exit(void)
{
	file_unmake(node);
}
module_exit(random_exit);
