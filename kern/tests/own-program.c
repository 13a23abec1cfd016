/*
 * A program as a user may write one, linked in by `make
 * APP=kern/tests/own-program.c`. It tests the promises of app.h, and prints
 * `ok` or `FAILED` for each.
 */
#include "app.h"

#define ENOENT 2
#define EBADF 9
#define EINVAL 22
#define EMFILE 24

static unsigned passed, failed;

static void promise(bool kept, const char *what)
{
	printf("%s %s\n", kept ? "ok" : "FAILED", what);
	if (kept)
		passed++;
	else
		failed++;
}

static void files(void)
{
	char buf[16] = "";
	int fd = open("/tmp/own", O_WRONLY | O_CREAT | O_TRUNC);

	promise(fd >= 3, "a new file's descriptor is 3 or more");
	promise(write(fd, "hello", 5) == 5 && close(fd) == 0, "what is written is counted");
	fd = open("/tmp/own", O_WRONLY | O_APPEND);
	promise(write(fd, "!", 1) == 1 && close(fd) == 0, "a file is appended to");
	fd = open("/tmp/own", O_RDONLY);
	promise(read(fd, buf, 3) == 3 && read(fd, buf + 3, 13) == 3 && !strcmp(buf, "hello!"),
		"read goes on where it stopped");
	promise(read(fd, buf, 1) == 0, "read gives 0 at the end");
	promise(close(fd) == 0 && close(fd) == -EBADF, "a descriptor is closed once");
	promise(read(fd, buf, 1) == -EBADF && write(99, buf, 1) == -EBADF &&
			read(-1, buf, 1) == -EBADF,
		"a descriptor that is not open is EBADF");
	promise(open("/tmp/none", O_RDONLY) == -ENOENT, "a missing file is ENOENT");
	promise(!strcmp(strerror(ENOENT), "No such file or directory"), "strerror has a sentence");
}

static void many_files(void)
{
	int fds[32], n = 0;

	while (n < 32 && (fds[n] = open("/LICENSE", O_RDONLY)) >= 0)
		n++;
	promise(n == 13 && fds[n] == -EMFILE, "the seventeenth descriptor is EMFILE");
	while (n)
		close(fds[--n]);
	promise(open("/LICENSE", O_RDONLY) == 3, "the lowest descriptor is used again");
}

static void memory(void)
{
	char *p = malloc(10), *zero = calloc(100, 10);
	bool clear = zero;

	for (int i = 0; clear && i < 1000; i++)
		clear = !zero[i];
	promise(clear, "calloc gives zeros");
	memset(p, 'x', 10);
	p = realloc(p, 100000);
	promise(p && p[0] == 'x' && p[9] == 'x', "realloc keeps what was there");
	promise(((uintptr_t)p & 15) == 0, "memory is aligned to 16 bytes");
	promise(!calloc((size_t)-1, 16) && !malloc((size_t)-1) && !malloc((size_t)1 << 40),
		"what cannot be is NULL");
	free(p);
	free(zero);
	free(NULL);
}

static int own_cpu(void *wanted)
{
	return cpu_self() == (int)(intptr_t)wanted ? 40 + cpu_self() : 0;
}

static void threads(void)
{
	bool right = true;
	thread_t t;

	for (int cpu = 0; cpu < cpu_count(); cpu++)
		right = right && !thread_create_on(&t, cpu, own_cpu, (void *)(intptr_t)cpu) &&
			thread_join(t) == 40 + cpu;
	promise(right, "a thread runs on the CPU that was asked for; join gives its result");
	promise(thread_create_on(&t, cpu_count(), own_cpu, NULL) == -EINVAL,
		"there is no CPU more");
	promise(!thread_create(&t, own_cpu, (void *)-1) && thread_join(t) == 0,
		"a thread may run anywhere");
}

static mutex_t lock;
static cond_t turned;
static unsigned long count, turn;

static int counts(void *rounds)
{
	for (unsigned long i = 0; i < (unsigned long)rounds; i++) {
		mutex_acquire(&lock);
		count++;
		mutex_release(&lock);
	}
	return 0;
}

static int takes_turns(void *mine)
{
	for (int i = 0; i < 100; i++) {
		mutex_acquire(&lock);
		while (turn % 2 != (unsigned long)mine)
			cond_wait(&turned, &lock);
		turn++;
		cond_broadcast(&turned);
		mutex_release(&lock);
	}
	return 0;
}

static void locks(void)
{
	thread_t t[4];

	for (int i = 0; i < 4; i++)
		thread_create_on(&t[i], i % cpu_count(), counts, (void *)20000);
	for (int i = 0; i < 4; i++)
		thread_join(t[i]);
	promise(count == 80000, "four threads count under one mutex");
	for (int i = 0; i < 2; i++)
		thread_create_on(&t[i], i % cpu_count(), takes_turns, (void *)(intptr_t)i);
	thread_join(t[0]);
	thread_join(t[1]);
	promise(turn == 200, "two threads take turns by a condition");
}

static void note_cpu(void *where)
{
	*(int *)where = cpu_self();
}

static void interrupts(void)
{
	bool right = true;

	for (int cpu = 0; cpu < cpu_count(); cpu++) {
		int where = -1;

		interrupt_call(cpu, note_cpu, &where);
		right = right && where == cpu;
	}
	promise(right, "interrupt_call runs on the CPU that was asked for, ours too");
}

static void numbers(void)
{
	uint64_t before = clock();
	char *end, text[16];

	promise(strtoull("0x1fz", &end, 0) == 31 && *end == 'z',
		"strtoull stops where the number does");
	promise(strtoull("18446744073709551616", NULL, 10) == ~0ull, "strtoull has a ceiling");
	promise(snprintf(text, 4, "%d", -12345) == 6 && !strcmp(text, "-12"),
		"snprintf cuts, and says");
	promise(clock() >= before && before > 0, "the clock goes on");
}

static void allocate(void *unused)
{
	free(malloc(16));
}

static int sleep_long(void *unused)
{
	sleep_ns(1000000000000);
	return 0;
}

/* Each must be named, in a panic or by an error. */
static int mistake(const char *kind)
{
	static long words[4];
	thread_t t;
	int err = 0;

	if (!strcmp(kind, "inside"))
		free((char *)malloc(32) + 8);
	if (!strcmp(kind, "within"))
		free((char *)memset(malloc(64), 0x55, 64) + 16);
	if (!strcmp(kind, "zeroed"))
		free((char *)calloc(64, 1) + 16);
	if (!strcmp(kind, "static"))
		free(words);
	if (!strcmp(kind, "local"))
		free(&err);
	if (!strcmp(kind, "nowhere"))
		free((void *)0x1234);
	if (!strcmp(kind, "twice") || !strcmp(kind, "large")) {
		void *p = malloc(kind[0] == 't' ? 32 : 100000);

		free(p);
		free(p);
	}
	if (!strcmp(kind, "interrupt"))
		interrupt_call(cpu_count() - 1, allocate, NULL);
	if (!strcmp(kind, "odd"))
		((void (*)(void))((char *)main + 2))();
	while (!strcmp(kind, "threads") && !err)
		err = thread_create(&t, sleep_long, NULL);
	printf("%s: %s\n", kind, strerror(-err));
	return 1;
}

/*
 * Runs until it is ended. Each thread counts its own turns, so that `ps` shows that all of them
 * run.
 */
static void own_spin(unsigned long *turns)
{
	for (;;)
		(*(volatile unsigned long *)turns)++;
}

static int spins(void *turns)
{
	own_spin(turns);
	return 0;
}

static int locks_and_naps(void *turns)
{
	while (turns) {
		mutex_acquire(&lock);
		++*(volatile unsigned long *)turns;
		mutex_release(&lock);
		sleep_ns(1000);
	}
	return 0;
}

static int allocates(void *turns)
{
	while (turns) {
		free(malloc(100));
		++*(volatile unsigned long *)turns;
	}
	return 0;
}

static int never_turned(void *turns)
{
	mutex_acquire(&lock);
	while (!turns)
		cond_wait(&turned, &lock);
	return 0;
}

static int joins(void *thread)
{
	return thread_join(thread);
}

static void keeps_the_lock(void)
{
	uint64_t end;

	mutex_acquire(&lock);
	printf("all run\n");
	for (end = clock() + 300000000; clock() < end;)
		;
	mutex_release(&lock);
}

/*
 * `outlive`: main() returns before its threads. `together`: it waits for one of them. Both leave
 * memory and a file.
 */
static int endless(const char *kind)
{
	static unsigned long turns[4];
	thread_t t[6];

	memset(turns, 0, sizeof(turns));
	if (!malloc(5000) || open("/tmp/own", O_WRONLY | O_CREAT | O_TRUNC) < 0)
		return 1;
	if (!strcmp(kind, "locked"))
		keeps_the_lock();
	if (!strcmp(kind, "locked") || !strcmp(kind, "alone"))
		own_spin(turns);
	thread_create(&t[0], spins, &turns[0]);
	thread_create(&t[1], locks_and_naps, &turns[1]);
	thread_create(&t[2], allocates, &turns[2]);
	thread_create(&t[3], never_turned, NULL);
	thread_create(&t[4], spins, &turns[3]);
	thread_create(&t[5], joins, t[4]);
	while (!turns[0] || !turns[1] || !turns[2] || !turns[3])
		sleep_ns(1000000);
	printf("all run\n");
	return strcmp(kind, "outlive") ? thread_join(t[5]) : 3;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "endless"))
		return endless(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "mistake"))
		return mistake(argv[2]);
	/* What is static is as the last run left it. */
	passed = failed = count = turn = 0;
	promise(argc == 3 && !strcmp(argv[1], "two words") && !argv[3], "the arguments arrive");
	files();
	many_files();
	memory();
	threads();
	locks();
	interrupts();
	numbers();
	printf("%u passed, %u failed\n", passed, failed);
	return failed ? 1 : 42;
}
