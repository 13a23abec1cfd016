/*
 * workload SEED: a tree of calls that nobody can predict before the seed is
 * known and everybody can afterwards. docs/workload.md is the description;
 * the grader's own generator is written from it, not from this file.
 *
 * Every function whose name begins with wl_ is part of the predicted trace,
 * and its name says its shape: leaf, step, fan, pick, tail, self, pair, ring,
 * wide.
 */
#include "app.h"

const char *const program_help[] = {"seed", "the tree of calls that follows from the seed, for grading"};

#define MAX_CPUS 8
#define GOLDEN 0x9e3779b97f4a7c15

/* noipa: each keeps its name, its arguments and its calls, whatever the compiler knows of it. */
#define NODE __attribute__((noipa)) static uint64_t
#define INLINE static inline __attribute__((always_inline))

/* One context: the thread on a CPU, or the interrupt on it. Nobody else touches it. */
struct workload {
	uint64_t random;
	uint64_t sum;  /* over every value, in call order */
	unsigned left; /* calls that may still be made */
	struct run *run;
};

/* All contexts of one run, and the line at which its threads start. */
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

/* A call has begun: take it from the budget; its value decides everything below. */
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

/* The next call's result joins @r so that order counts, and so that the call is not the last act. */
#define CALL(f, i) (r = r * 31 + (f)(w, v + (i), room - 1))
#define ARGS struct workload *w, uint64_t x, unsigned room

NODE wl_fan_amber(ARGS);
NODE wl_fan_coral(ARGS);
NODE wl_fan_topaz(ARGS);
NODE wl_pick_north(ARGS);
NODE wl_pick_east(ARGS);
NODE wl_pick_south(ARGS);
NODE wl_pick_west(ARGS);
NODE wl_ring_moon(ARGS);
NODE wl_ring_star(ARGS);
NODE wl_pair_pepper(ARGS);

NODE wl_leaf_ash(ARGS)
{
	return enter(w, 1, x) + room;
}

NODE wl_leaf_birch(ARGS)
{
	return enter(w, 2, x) + room;
}

NODE wl_leaf_cedar(ARGS)
{
	return enter(w, 3, x) + room;
}

NODE wl_leaf_elm(ARGS)
{
	return enter(w, 4, x) + room;
}

NODE wl_leaf_fir(ARGS)
{
	return enter(w, 5, x) + room;
}

NODE wl_leaf_holly(ARGS)
{
	return enter(w, 6, x) + room;
}

/* Themselves first, so that the depth is there whatever happens to the budget later. */
NODE wl_self_drum(ARGS)
{
	uint64_t v = enter(w, 7, x), r = v;

	if (more(w, room))
		CALL(wl_self_drum, 0);
	if (more(w, room) && byte(v, 0) & 1)
		CALL(wl_leaf_ash, 1);
	return r;
}

NODE wl_self_flute(ARGS)
{
	uint64_t v = enter(w, 8, x), r = v;

	if (more(w, room))
		CALL(wl_self_flute, 0);
	if (more(w, room) && byte(v, 0) & 1)
		CALL(wl_leaf_birch, 1);
	return r;
}

NODE wl_pair_salt(ARGS)
{
	uint64_t v = enter(w, 9, x), r = v;

	if (more(w, room))
		CALL(wl_pair_pepper, 0);
	if (more(w, room) && byte(v, 0) & 1)
		CALL(wl_leaf_cedar, 1);
	return r;
}

NODE wl_pair_pepper(ARGS)
{
	uint64_t v = enter(w, 10, x), r = v;

	if (more(w, room))
		CALL(wl_pair_salt, 0);
	if (more(w, room) && byte(v, 0) & 1)
		CALL(wl_leaf_elm, 1);
	return r;
}

NODE wl_ring_sun(ARGS)
{
	uint64_t v = enter(w, 11, x), r = v;

	if (more(w, room))
		CALL(wl_ring_moon, 0);
	if (more(w, room) && byte(v, 0) & 1)
		CALL(wl_leaf_fir, 1);
	return r;
}

NODE wl_ring_moon(ARGS)
{
	uint64_t v = enter(w, 12, x), r = v;

	if (more(w, room))
		CALL(wl_ring_star, 0);
	if (more(w, room) && byte(v, 0) & 1)
		CALL(wl_pick_north, 1);
	return r;
}

NODE wl_ring_star(ARGS)
{
	uint64_t v = enter(w, 13, x), r = v;

	if (more(w, room))
		CALL(wl_ring_sun, 0);
	if (more(w, room) && byte(v, 0) & 1)
		CALL(wl_leaf_holly, 1);
	return r;
}

NODE wl_step_brook(ARGS)
{
	uint64_t v = enter(w, 14, x), r = v;

	if (!more(w, room))
		return r;
	if (byte(v, 0) & 1)
		CALL(wl_pick_south, 0);
	else
		CALL(wl_leaf_ash, 0);
	return r;
}

NODE wl_step_creek(ARGS)
{
	uint64_t v = enter(w, 15, x), r = v;

	if (!more(w, room))
		return r;
	if (byte(v, 0) & 1)
		CALL(wl_fan_amber, 0);
	else
		CALL(wl_step_brook, 0);
	return r;
}

NODE wl_step_delta(ARGS)
{
	uint64_t v = enter(w, 16, x), r = v;

	if (!more(w, room))
		return r;
	if (byte(v, 0) & 1)
		CALL(wl_pick_east, 0);
	else
		CALL(wl_step_creek, 0);
	return r;
}

NODE wl_step_river(ARGS)
{
	uint64_t v = enter(w, 17, x), r = v;

	if (!more(w, room))
		return r;
	if (byte(v, 0) & 1)
		CALL(wl_ring_sun, 0);
	else
		CALL(wl_step_delta, 0);
	return r;
}

/*
 * The last act is a call in tail position: a jump, so that the function that
 * is jumped to returns to our caller and has our caller as its parent.
 */
NODE wl_tail_hawk(ARGS)
{
	uint64_t v = enter(w, 18, x);

	if (!more(w, room))
		return v;
	if (byte(v, 1) & 1)
		return wl_fan_coral(w, v + 1, room - 1);
	return wl_leaf_birch(w, v + 1, room - 1);
}

NODE wl_tail_kite(ARGS)
{
	uint64_t v = enter(w, 19, x), r = v;

	if (more(w, room) && byte(v, 0) & 1)
		CALL(wl_leaf_cedar, 0);
	if (!more(w, room))
		return r;
	if (byte(v, 1) & 1)
		return wl_leaf_fir(w, r + 1, room - 1);
	return wl_tail_hawk(w, r + 1, room - 1);
}

NODE wl_tail_lark(ARGS)
{
	uint64_t v = enter(w, 20, x), r = v;

	if (more(w, room) && byte(v, 0) & 1)
		CALL(wl_leaf_elm, 0);
	if (!more(w, room))
		return r;
	if (byte(v, 1) & 1)
		return wl_step_brook(w, r + 1, room - 1);
	return wl_leaf_holly(w, r + 1, room - 1);
}

NODE wl_tail_swan(ARGS)
{
	uint64_t v = enter(w, 21, x), r = v;

	if (more(w, room) && byte(v, 0) & 1)
		CALL(wl_leaf_ash, 0);
	if (!more(w, room))
		return r;
	if (byte(v, 1) & 1)
		return wl_tail_kite(w, r + 1, room - 1);
	return wl_tail_lark(w, r + 1, room - 1);
}

/* Three or four children. */
#define EACH_CHILD(n) for (unsigned i = 1; i <= (n) && more(w, room); i++)
#define CHILDREN (3 + (byte(v, 0) & 1))

NODE wl_fan_amber(ARGS)
{
	uint64_t v = enter(w, 22, x), r = v;

	EACH_CHILD(CHILDREN) {
		switch (byte(v, i) & 3) {
		case 0: CALL(wl_leaf_ash, i); break;
		case 1: CALL(wl_leaf_birch, i); break;
		case 2: CALL(wl_tail_swan, i); break;
		case 3: CALL(wl_pair_salt, i); break;
		}
	}
	return r;
}

NODE wl_fan_coral(ARGS)
{
	uint64_t v = enter(w, 23, x), r = v;

	EACH_CHILD(CHILDREN) {
		switch (byte(v, i) & 3) {
		case 0: CALL(wl_leaf_cedar, i); break;
		case 1: CALL(wl_leaf_elm, i); break;
		case 2: CALL(wl_tail_lark, i); break;
		case 3: CALL(wl_step_delta, i); break;
		}
	}
	return r;
}

NODE wl_fan_ivory(ARGS)
{
	uint64_t v = enter(w, 24, x), r = v;

	EACH_CHILD(CHILDREN) {
		switch (byte(v, i) & 3) {
		case 0: CALL(wl_leaf_fir, i); break;
		case 1: CALL(wl_leaf_holly, i); break;
		case 2: CALL(wl_fan_coral, i); break;
		case 3: CALL(wl_self_drum, i); break;
		}
	}
	return r;
}

NODE wl_fan_pearl(ARGS)
{
	uint64_t v = enter(w, 25, x), r = v;

	EACH_CHILD(CHILDREN) {
		switch (byte(v, i) & 3) {
		case 0: CALL(wl_leaf_ash, i); break;
		case 1: CALL(wl_tail_hawk, i); break;
		case 2: CALL(wl_step_river, i); break;
		case 3: CALL(wl_fan_ivory, i); break;
		}
	}
	return r;
}

NODE wl_fan_topaz(ARGS)
{
	uint64_t v = enter(w, 26, x), r = v;

	EACH_CHILD(CHILDREN) {
		switch (byte(v, i) & 3) {
		case 0: CALL(wl_leaf_elm, i); break;
		case 1: CALL(wl_tail_kite, i); break;
		case 2: CALL(wl_pick_west, i); break;
		case 3: CALL(wl_fan_pearl, i); break;
		}
	}
	return r;
}

/* One or two children, of many. */
#define PICKS (1 + (byte(v, 0) & 1))

NODE wl_pick_north(ARGS)
{
	uint64_t v = enter(w, 27, x), r = v;

	EACH_CHILD(PICKS) {
		switch (byte(v, i) & 7) {
		case 0: CALL(wl_leaf_ash, i); break;
		case 1: CALL(wl_leaf_fir, i); break;
		case 2: CALL(wl_step_brook, i); break;
		case 3: CALL(wl_step_delta, i); break;
		case 4: CALL(wl_tail_swan, i); break;
		case 5: CALL(wl_pair_salt, i); break;
		case 6: CALL(wl_fan_amber, i); break;
		case 7: CALL(wl_pick_south, i); break;
		}
	}
	return r;
}

NODE wl_pick_east(ARGS)
{
	uint64_t v = enter(w, 28, x), r = v;

	EACH_CHILD(PICKS) {
		switch (byte(v, i) & 7) {
		case 0: CALL(wl_leaf_birch, i); break;
		case 1: CALL(wl_leaf_holly, i); break;
		case 2: CALL(wl_self_flute, i); break;
		case 3: CALL(wl_ring_star, i); break;
		case 4: CALL(wl_tail_kite, i); break;
		case 5: CALL(wl_pair_pepper, i); break;
		case 6: CALL(wl_fan_coral, i); break;
		case 7: CALL(wl_pick_west, i); break;
		}
	}
	return r;
}

NODE wl_pick_south(ARGS)
{
	uint64_t v = enter(w, 29, x), r = v;

	EACH_CHILD(PICKS) {
		switch (byte(v, i) & 7) {
		case 0: CALL(wl_leaf_cedar, i); break;
		case 1: CALL(wl_step_creek, i); break;
		case 2: CALL(wl_step_river, i); break;
		case 3: CALL(wl_self_drum, i); break;
		case 4: CALL(wl_tail_lark, i); break;
		case 5: CALL(wl_ring_moon, i); break;
		case 6: CALL(wl_fan_ivory, i); break;
		case 7: CALL(wl_pick_east, i); break;
		}
	}
	return r;
}

NODE wl_pick_west(ARGS)
{
	uint64_t v = enter(w, 30, x), r = v;

	EACH_CHILD(PICKS) {
		switch (byte(v, i) & 7) {
		case 0: CALL(wl_leaf_elm, i); break;
		case 1: CALL(wl_step_delta, i); break;
		case 2: CALL(wl_self_flute, i); break;
		case 3: CALL(wl_ring_sun, i); break;
		case 4: CALL(wl_tail_hawk, i); break;
		case 5: CALL(wl_tail_swan, i); break;
		case 6: CALL(wl_fan_topaz, i); break;
		case 7: CALL(wl_pick_north, i); break;
		}
	}
	return r;
}

/* As many arguments as there are argument registers; each but w and room is seen from outside. */
NODE wl_wide_oak(ARGS, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
	uint64_t v = enter(w, 33, x);

	return v + room + d + 2 * e + 3 * f + 4 * g + 5 * h;
}

/* What every context has, whatever its seed: depth, both recursions, a fan, a tail call, all arguments. */
NODE wl_first(struct workload *w)
{
	uint64_t v = enter(w, 31, next(&w->random)), r = v;
	unsigned room = 9 + (byte(v, 1) & 3);

	if (byte(v, 0) & 1)
		CALL(wl_self_drum, 1);
	else
		CALL(wl_self_flute, 1);
	room = 4;
	if (byte(v, 2) & 1)
		CALL(wl_pair_salt, 2);
	else
		CALL(wl_pair_pepper, 2);
	room = 2;
	if (byte(v, 3) & 1)
		CALL(wl_fan_amber, 3);
	else
		CALL(wl_fan_topaz, 3);
	room = 3;
	if (byte(v, 4) & 1)
		CALL(wl_tail_hawk, 4);
	else
		CALL(wl_tail_swan, 4);
	return r * 31 + wl_wide_oak(w, v + 5, byte(v, 5), v >> 12, v >> 24, v >> 36, v >> 48, r);
}

/* Tree after tree until the budget is used up, to the call. */
NODE wl_rest(struct workload *w)
{
	uint64_t r = enter(w, 32, w->random);

	while (w->left) {
		uint64_t v = next(&w->random);
		unsigned room = 3 + byte(v, 1) % 7;

		switch (byte(v, 0) & 15) {
		case 0: CALL(wl_leaf_holly, 0); break;
		case 1: CALL(wl_self_drum, 0); break;
		case 2: CALL(wl_self_flute, 0); break;
		case 3: CALL(wl_pair_pepper, 0); break;
		case 4: CALL(wl_ring_sun, 0); break;
		case 5: CALL(wl_ring_star, 0); break;
		case 6: CALL(wl_step_river, 0); break;
		case 7: CALL(wl_tail_swan, 0); break;
		case 8: CALL(wl_fan_coral, 0); break;
		case 9: CALL(wl_fan_ivory, 0); break;
		case 10: CALL(wl_fan_pearl, 0); break;
		case 11: CALL(wl_fan_topaz, 0); break;
		case 12: CALL(wl_pick_north, 0); break;
		case 13: CALL(wl_pick_east, 0); break;
		case 14: CALL(wl_pick_south, 0); break;
		case 15: CALL(wl_pick_west, 0); break;
		}
	}
	return r;
}

/* The brackets: an observer counts from one to the other. */
__attribute__((noipa)) static void wl_begin(uint64_t seed, unsigned n)
{
	__asm__ volatile("" : : "r"(seed), "r"(n));
}

__attribute__((noipa)) static void wl_end(uint64_t result)
{
	__asm__ volatile("" : : "r"(result));
}

/* Nobody runs before everybody can: the CPUs shall meet inside the tracer. */
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

/* The thread on CPU k, and in its middle the interrupt on the next CPU. */
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

/* Budgets and generators of all contexts; the sum of the budgets. */
static unsigned prepare(struct run *r, uint64_t seed)
{
	unsigned total = 1200 + next(&seed) % 1201, rest = total, calls = 0;
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

/* One that does not start must not be waited for. */
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
