/*
 * workload SEED: a tree of calls that depends on the seed only, so that it can be
 * predicted with the seed and not without it. docs/workload.md describes it; the
 * harness's own generator is written from that description, not from this file.
 *
 * Every function whose name begins with wl_ is part of the predicted trace. Its
 * name contains its shape: leaf, step, fan, pick, tail, self, pair, ring, wide.
 */
#include "app.h"

APP("seed", "make a tree of calls that depends on the seed, for grading");

#define MAX_CPUS 8
#define GOLDEN 0x9e3779b97f4a7c15

/* noipa: the compiler keeps each function with its name, arguments and calls. */
#define NODE __attribute__((noipa)) static uint64_t
#define INLINE static inline __attribute__((always_inline))

/* One context: the thread on a CPU, or the interrupt on it. No other context accesses it. */
struct workload {
	uint64_t random;
	uint64_t sum;  /* over every value, in call order */
	unsigned left; /* calls that may still be made */
	struct run *run;
};

/* All contexts of one run, and the barrier at which its threads start. */
struct run {
	struct workload threads[MAX_CPUS], interrupts[MAX_CPUS];
	unsigned cpus, waiting;
	mutex_t lock;
	cond_t start;
};

INLINE uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

INLINE uint64_t next(uint64_t *random)
{
	return mix(*random += GOLDEN);
}

/*
 * Every call begins with this: count it in the budget and compute the value that determines its
 * children.
 */
INLINE uint64_t enter(struct workload *w, unsigned number, uint64_t x)
{
	uint64_t v = mix(x + number * GOLDEN);

	w->left--;
	w->sum = mix(w->sum + v);
	return v;
}

INLINE bool more(const struct workload *w, unsigned room)
{
	return room && w->left;
}

INLINE unsigned byte(uint64_t v, unsigned i)
{
	return v >> (8 * i) & 0xff;
}

/* The result goes into r, so that the order of calls matters and no call is a tail call. */
#define CALL(f, i) (r = r * 31 + (f)(w, v + (i), room - 1))
#define CALL_ONE_OF(odd, even, b, i) (byte(v, b) & 1 ? CALL(odd, i) : CALL(even, i))
#define CASE(n, f, i) case n: CALL(f, i); break
#define EACH_CHILD(n) for (unsigned i = 1; i <= (n) && more(w, room); i++)
#define ARGS struct workload *w, uint64_t x, unsigned room

/* The shapes. The table below them defines one function in each line. */
#define LEAF(number, name) \
	NODE name(ARGS) \
	{ \
		return enter(w, number, x) + room; \
	}

/* @always is called first, so that the depth is reached before the budget is used up. */
#define CHAIN(number, name, always, sometimes) \
	NODE name(ARGS) \
	{ \
		uint64_t v = enter(w, number, x), r = v; \
		if (more(w, room)) \
			CALL(always, 0); \
		if (more(w, room) && byte(v, 0) & 1) \
			CALL(sometimes, 1); \
		return r; \
	}

#define STEP(number, name, odd, even) \
	NODE name(ARGS) \
	{ \
		uint64_t v = enter(w, number, x), r = v; \
		if (!more(w, room)) \
			return r; \
		CALL_ONE_OF(odd, even, 0, 0); \
		return r; \
	}

/*
 * Ends with a tail call, which is a jump: the callee returns to this function's
 * caller, and that caller is the callee's parent.
 */
#define TAIL(number, name, before, odd, even) \
	NODE name(ARGS) \
	{ \
		uint64_t v = enter(w, number, x), r = v; \
		if (more(w, room) && byte(v, 0) & 1) \
			before; \
		if (!more(w, room)) \
			return r; \
		if (byte(v, 1) & 1) \
			return odd(w, r + 1, room - 1); \
		return even(w, r + 1, room - 1); \
	}
#define NOTHING ((void)0)

/* Three or four children. */
#define FAN(number, name, a, b, c, d) \
	NODE name(ARGS) \
	{ \
		uint64_t v = enter(w, number, x), r = v; \
		EACH_CHILD(3 + (byte(v, 0) & 1)) { \
			switch (byte(v, i) & 3) { \
			CASE(0, a, i); CASE(1, b, i); CASE(2, c, i); CASE(3, d, i); \
			} \
		} \
		return r; \
	}

/* One or two children, of many. */
#define PICK(number, name, a, b, c, d, e, f, g, h) \
	NODE name(ARGS) \
	{ \
		uint64_t v = enter(w, number, x), r = v; \
		EACH_CHILD(1 + (byte(v, 0) & 1)) { \
			switch (byte(v, i) & 7) { \
			CASE(0, a, i); CASE(1, b, i); CASE(2, c, i); CASE(3, d, i); \
			CASE(4, e, i); CASE(5, f, i); CASE(6, g, i); CASE(7, h, i); \
			} \
		} \
		return r; \
	}

NODE wl_fan_amber(ARGS), wl_fan_coral(ARGS), wl_fan_topaz(ARGS), wl_pair_pepper(ARGS),
	wl_ring_moon(ARGS), wl_ring_star(ARGS), wl_pick_north(ARGS), wl_pick_east(ARGS),
	wl_pick_south(ARGS), wl_pick_west(ARGS);

LEAF(1, wl_leaf_ash)
LEAF(2, wl_leaf_birch)
LEAF(3, wl_leaf_cedar)
LEAF(4, wl_leaf_elm)
LEAF(5, wl_leaf_fir)
LEAF(6, wl_leaf_holly)
CHAIN(7, wl_self_drum, wl_self_drum, wl_leaf_ash)
CHAIN(8, wl_self_flute, wl_self_flute, wl_leaf_birch)
CHAIN(9, wl_pair_salt, wl_pair_pepper, wl_leaf_cedar)
CHAIN(10, wl_pair_pepper, wl_pair_salt, wl_leaf_elm)
CHAIN(11, wl_ring_sun, wl_ring_moon, wl_leaf_fir)
CHAIN(12, wl_ring_moon, wl_ring_star, wl_pick_north)
CHAIN(13, wl_ring_star, wl_ring_sun, wl_leaf_holly)
STEP(14, wl_step_brook, wl_pick_south, wl_leaf_ash)
STEP(15, wl_step_creek, wl_fan_amber, wl_step_brook)
STEP(16, wl_step_delta, wl_pick_east, wl_step_creek)
STEP(17, wl_step_river, wl_ring_sun, wl_step_delta)
TAIL(18, wl_tail_hawk, NOTHING, wl_fan_coral, wl_leaf_birch)
TAIL(19, wl_tail_kite, CALL(wl_leaf_cedar, 0), wl_leaf_fir, wl_tail_hawk)
TAIL(20, wl_tail_lark, CALL(wl_leaf_elm, 0), wl_step_brook, wl_leaf_holly)
TAIL(21, wl_tail_swan, CALL(wl_leaf_ash, 0), wl_tail_kite, wl_tail_lark)
FAN(22, wl_fan_amber, wl_leaf_ash, wl_leaf_birch, wl_tail_swan, wl_pair_salt)
FAN(23, wl_fan_coral, wl_leaf_cedar, wl_leaf_elm, wl_tail_lark, wl_step_delta)
FAN(24, wl_fan_ivory, wl_leaf_fir, wl_leaf_holly, wl_fan_coral, wl_self_drum)
FAN(25, wl_fan_pearl, wl_leaf_ash, wl_tail_hawk, wl_step_river, wl_fan_ivory)
FAN(26, wl_fan_topaz, wl_leaf_elm, wl_tail_kite, wl_pick_west, wl_fan_pearl)
PICK(27, wl_pick_north, wl_leaf_ash, wl_leaf_fir, wl_step_brook, wl_step_delta,
     wl_tail_swan, wl_pair_salt, wl_fan_amber, wl_pick_south)
PICK(28, wl_pick_east, wl_leaf_birch, wl_leaf_holly, wl_self_flute, wl_ring_star,
     wl_tail_kite, wl_pair_pepper, wl_fan_coral, wl_pick_west)
PICK(29, wl_pick_south, wl_leaf_cedar, wl_step_creek, wl_step_river, wl_self_drum,
     wl_tail_lark, wl_ring_moon, wl_fan_ivory, wl_pick_east)
PICK(30, wl_pick_west, wl_leaf_elm, wl_step_delta, wl_self_flute, wl_ring_sun,
     wl_tail_hawk, wl_tail_swan, wl_fan_topaz, wl_pick_north)

/* An argument in each argument register; the observer reads each of them except w and room. */
NODE wl_wide_oak(ARGS, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
	uint64_t v = enter(w, 33, x);

	return v + room + d + 2 * e + 3 * f + 4 * g + 5 * h;
}

/*
 * The calls of every context, with any seed: depth, both recursions, a fan, a tail call, all
 * arguments.
 */
NODE wl_first(struct workload *w)
{
	uint64_t v = enter(w, 31, next(&w->random)), r = v;
	unsigned room = 9 + (byte(v, 1) & 3);

	CALL_ONE_OF(wl_self_drum, wl_self_flute, 0, 1);
	room = 4;
	CALL_ONE_OF(wl_pair_salt, wl_pair_pepper, 2, 2);
	room = 2;
	CALL_ONE_OF(wl_fan_amber, wl_fan_topaz, 3, 3);
	room = 3;
	CALL_ONE_OF(wl_tail_hawk, wl_tail_swan, 4, 4);
	return r * 31 + wl_wide_oak(w, v + 5, byte(v, 5), v >> 12, v >> 24, v >> 36, v >> 48, r);
}

/* Make trees until exactly the budget's number of calls has been made. */
NODE wl_rest(struct workload *w)
{
	uint64_t r = enter(w, 32, w->random);

	while (w->left) {
		uint64_t v = next(&w->random);
		unsigned room = 3 + byte(v, 1) % 7;

		switch (byte(v, 0) & 15) {
		CASE(0, wl_leaf_holly, 0); CASE(1, wl_self_drum, 0); CASE(2, wl_self_flute, 0);
		CASE(3, wl_pair_pepper, 0); CASE(4, wl_ring_sun, 0); CASE(5, wl_ring_star, 0);
		CASE(6, wl_step_river, 0); CASE(7, wl_tail_swan, 0); CASE(8, wl_fan_coral, 0);
		CASE(9, wl_fan_ivory, 0); CASE(10, wl_fan_pearl, 0); CASE(11, wl_fan_topaz, 0);
		CASE(12, wl_pick_north, 0); CASE(13, wl_pick_east, 0); CASE(14, wl_pick_south, 0);
		CASE(15, wl_pick_west, 0);
		}
	}
	return r;
}

/* Markers: an observer counts the calls between them. */
__attribute__((noipa)) static void wl_begin(uint64_t seed, unsigned n)
{
	__asm__ volatile("" : : "r"(seed), "r"(n));
}

__attribute__((noipa)) static void wl_end(uint64_t result)
{
	__asm__ volatile("" : : "r"(result));
}

/*
 * A barrier: all threads start together, so that the CPUs are inside the tracer at the same time.
 */
static void wait_for_all(struct run *r)
{
	mutex_acquire(&r->lock);
	if (++r->waiting == r->cpus)
		cond_broadcast(&r->start);
	while (r->waiting < r->cpus)
		cond_wait(&r->start, &r->lock);
	mutex_release(&r->lock);
}

static void workload_interrupt(void *arg)
{
	struct workload *w = arg;
	uint64_t r = wl_first(w);

	r = r * 31 + wl_rest(w);
	w->sum = mix(w->sum + r);
}

/* The thread on CPU k; halfway it calls the interrupt on the next CPU. */
static int workload_thread(void *arg)
{
	struct workload *w = arg;
	struct run *run = w->run;
	unsigned neighbour = (w - run->threads + 1) % run->cpus;
	uint64_t r;

	wait_for_all(run);
	r = wl_first(w);
	interrupt_call(neighbour, workload_interrupt, &run->interrupts[neighbour]);
	r = r * 31 + wl_rest(w);
	w->sum = mix(w->sum + r);
	return 0;
}

/* Set the budgets and generators of all contexts. Return: the sum of the budgets. */
static unsigned prepare(struct run *r, uint64_t seed)
{
	unsigned more = r->cpus > 4 ? 150 * (r->cpus - 4) : 0;
	unsigned rest = 600 + next(&seed) % 601 + more, calls = 0;
	unsigned weight[MAX_CPUS], weights = 0;

	for (unsigned k = 0; k < r->cpus; k++) {
		r->interrupts[k].left = 48 + next(&seed) % 17;
		rest -= r->interrupts[k].left;
	}
	for (unsigned k = 0; k < r->cpus; k++)
		weights += weight[k] = 2 + next(&seed) % 3;
	for (unsigned k = 0; k < r->cpus; k++) {
		r->threads[k].left = rest * weight[k] / weights;
		r->threads[k].random = next(&seed);
		r->interrupts[k].random = next(&seed);
		r->threads[k].run = r->interrupts[k].run = r;
		calls += r->threads[k].left + r->interrupts[k].left;
	}
	return calls;
}

static uint64_t result(const struct run *r)
{
	uint64_t sum = 0;

	for (unsigned k = 0; k < r->cpus; k++)
		sum = mix(sum + r->threads[k].sum);
	for (unsigned k = 0; k < r->cpus; k++)
		sum = mix(sum + r->interrupts[k].sum);
	return sum;
}

/* If a thread cannot be created, the others must not wait for it. */
static int run_threads(struct run *r)
{
	thread_t thread[MAX_CPUS];
	int err = 0;

	for (unsigned k = 0; k < r->cpus; k++) {
		err = thread_create_on(&thread[k], k, workload_thread, &r->threads[k]);
		if (err) {
			mutex_acquire(&r->lock);
			r->cpus = k;
			cond_broadcast(&r->start);
			mutex_release(&r->lock);
		}
	}
	for (unsigned k = 0; k < r->cpus; k++)
		thread_join(thread[k]);
	return err;
}

static bool is_seed(const char *word)
{
	unsigned n = 0;

	while (word[n] && strchr("0123456789abcdefABCDEF", word[n]))
		n++;
	return n == 16 && !word[n];
}

static int report(const struct run *r, uint64_t seed, unsigned calls, int err)
{
	if (err)
		printf("workload: no thread: %s\n", strerror(-err));
	else
		printf("workload %016llx: %u calls, result %016llx\n", (unsigned long long)seed,
		       calls, (unsigned long long)result(r));
	return err != 0;
}

int main(int argc, char **argv)
{
	struct run *r;
	uint64_t seed;
	unsigned calls;
	int status;

	if (argc != 2 || !is_seed(argv[1])) {
		printf("usage: workload SEED (16 hexadecimal digits)\n");
		return 2;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		printf("workload: no memory\n");
		return 1;
	}
	seed = strtoull(argv[1], NULL, 16);
	r->cpus = cpu_count() < MAX_CPUS ? cpu_count() : MAX_CPUS;
	calls = prepare(r, seed);
	wl_begin(seed, r->cpus);
	status = run_threads(r);
	wl_end(result(r));
	status = report(r, seed, calls + 2, status);
	free(r);
	return status;
}
