/*
 * app.h on the host, so that applications run there under sanitizers and,
 * compiled with -pg -mfentry, log each call as the kernel's tracer would:
 * function, parent (after tail calls too), second and third argument.
 *
 * The application is compiled with -Dopen=app_open and so on, and with
 * -Dmain=app_main. HOST_CPUS: the number of CPUs. HOST_LOG: the log's file.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int complain(const char *program, const char *what, int err);
int app_main(int argc, char **argv);

typedef struct thread *thread_t;
struct thread {
	pthread_t id;
	int (*fn)(void *);
	void *arg;
	int cpu, code;
};

struct event {
	char context[16];
	void *function, *parent;
	unsigned long x, room;
};

static struct event events[100000];
static unsigned event_count;
static __thread char context[16] = "main";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

void log_call(void *function, void *parent, unsigned long x, unsigned long room);
void log_call(void *function, void *parent, unsigned long x, unsigned long room)
{
	unsigned i = __atomic_fetch_add(&event_count, 1, __ATOMIC_RELAXED);
	struct event *e = &events[i];

	*e = (struct event){.function = function, .parent = parent, .x = x, .room = room};
	snprintf(e->context, sizeof(e->context), "%s", context);
}

/*
 * At a function's first instruction: its caller's return address lies under ours.
 * Eight registers are pushed, so that the stack is 16-byte aligned at the call.
 */
#ifdef __x86_64__
__asm__(".globl __fentry__\n"
	"__fentry__:\n"
	"	push %rax; push %rdi; push %rsi; push %rdx; push %rcx; push %r8\n"
	"	push %r9; push %r10\n"
	"	mov 64(%rsp), %rdi\n"
	"	mov %rsi, %r10; mov 72(%rsp), %rsi; mov %rdx, %rcx; mov %r10, %rdx\n"
	"	call log_call\n"
	"	pop %r10; pop %r9; pop %r8; pop %rcx; pop %rdx; pop %rsi; pop %rdi; pop %rax\n"
	"	ret\n");
#endif

int app_open(const char *path, int flags, ...)
{
	int fd = open(path, flags, 0666);

	return fd < 0 ? -errno : fd;
}

long app_read(int fd, void *buf, size_t n)
{
	long got = read(fd, buf, n);

	return got < 0 ? -errno : got;
}

long app_write(int fd, const void *buf, size_t n)
{
	long put = write(fd, buf, n);

	return put < 0 ? -errno : put;
}

uint64_t app_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int cpu_count(void)
{
	const char *n = getenv("HOST_CPUS");

	return n ? atoi(n) : 1;
}

int cpu_self(void)
{
	return 0;
}

static void *start(void *arg)
{
	thread_t t = arg;

	snprintf(context, sizeof(context), "thread %d", t->cpu);
	t->code = t->fn(t->arg);
	return NULL;
}

int thread_create_on(thread_t *t, int cpu, int (*fn)(void *), void *arg)
{
	*t = malloc(sizeof(**t));
	if (!*t)
		return -ENOMEM;
	**t = (struct thread){.fn = fn, .arg = arg, .cpu = cpu};
	return -pthread_create(&(*t)->id, NULL, start, *t);
}

int thread_create(thread_t *t, int (*fn)(void *), void *arg)
{
	return thread_create_on(t, -1, fn, arg);
}

int thread_join(thread_t t)
{
	int code;

	pthread_join(t->id, NULL);
	code = t->code;
	free(t);
	return code;
}

/* One lock and one condition stand for all: app.h promises no more than wake-ups. */
void mutex_acquire(void *m)
{
	uint32_t *held = (uint32_t *)m + 2;

	pthread_mutex_lock(&lock);
	while (*held)
		pthread_cond_wait(&cond, &lock);
	*held = 1;
	pthread_mutex_unlock(&lock);
}

void mutex_release(void *m)
{
	pthread_mutex_lock(&lock);
	((uint32_t *)m)[2] = 0;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&lock);
}

void cond_wait(void *c, void *m)
{
	pthread_mutex_lock(&lock);
	((uint32_t *)m)[2] = 0;
	pthread_cond_broadcast(&cond);
	pthread_cond_wait(&cond, &lock);
	pthread_mutex_unlock(&lock);
	mutex_acquire(m);
	(void)c;
}

void cond_broadcast(void *c)
{
	pthread_mutex_lock(&lock);
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&lock);
	(void)c;
}

void interrupt_call(int cpu, void (*fn)(void *), void *arg)
{
	char outer[sizeof(context)];

	snprintf(outer, sizeof(outer), "%s", context);
	snprintf(context, sizeof(context), "interrupt %d", cpu);
	fn(arg);
	snprintf(context, sizeof(context), "%s", outer);
}

int complain(const char *program, const char *what, int err)
{
	printf("%s: %s: %s\n", program, what, strerror(abs(err)));
	return 1;
}

static void write_log(const char *path)
{
	FILE *f = fopen(path, "w");

	for (unsigned i = 0; f && i < event_count; i++)
		fprintf(f, "%s|%lx|%lx|%lx|%lx\n", events[i].context,
			(unsigned long)events[i].function, (unsigned long)events[i].parent,
			events[i].x, events[i].room);
	if (f)
		fclose(f);
}

int main(int argc, char **argv)
{
	int code = app_main(argc, argv);

	fflush(stdout);
	if (getenv("HOST_LOG"))
		write_log(getenv("HOST_LOG"));
	return code & 0xff;
}
