/*
 * The kernel's interface for applications.
 *
 * Write `int main(int argc, char **argv)` in a file of its own; the file's
 * name is the command's name in the shell (kern/apps/sha256.c: `sha256`), and
 * `make APP=path/to/prog.c` links yours. It is traced like the kernel; its main()
 * has the name app_main_prog there, because every program has a main().
 * Integers only: a float or a double is a compile error. A program is part of
 * the kernel: static variables keep their values from one run to the next, and
 * two runs at the same time share them.
 */
#ifndef KERN_APP_H
#define KERN_APP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define O_RDONLY 0
#define O_WRONLY 1
#define O_RDWR 2
#define O_CREAT 0100
#define O_TRUNC 01000
#define O_APPEND 02000
#define O_NONBLOCK 04000
#define S_DIR 0040000

int main(int argc, char **argv);
/*
 * APP("file ...", "copy files"), in kern/apps/ only: the program's entry in the shell's table. For
 * `help`: its arguments, and what it does. The build supplies APP_NAME.
 */
struct app {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *arguments, *does;
};
#define APP(arguments, does)                                                                  \
	static const struct app app_entry                                                     \
		__attribute__((used, section(".table.app." APP_NAME), aligned(8))) = {        \
			APP_NAME, main, arguments, does}

int printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int vsnprintf(char *buf, size_t size, const char *fmt, va_list args);
int snprintf(char *buf, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/*
 * On failure those of files return a negative error number; strerror() takes the positive one.
 * Descriptors 0 to 2 are the console; 0 and 1: or a redirection or a pipe. A program ends when it
 * writes into a pipe that no one reads.
 */
int open(const char *path, int flags, ...);
long read(int fd, void *buf, size_t n);
long write(int fd, const void *buf, size_t n);
int close(int fd);
const char *strerror(int err);
/*
 * Print "cat: foo: No such file or directory (ENOENT)" on the console. Return: 1, an exit status.
 */
int complain(const char *program, const char *what, int err);

struct stat {
	unsigned mode; /* permission bits; | S_DIR for a directory */
	size_t size;
};
struct dirent {
	char name[256];
	struct stat stat;
};
int stat(const char *path, struct stat *st);
int readdir(int fd, struct dirent *entry); /* the next name; 1, or 0 after the last */
int remove(const char *path);              /* a file, or an empty directory */
int mkdir(const char *path);

/*
 * Read or write a whole file. read_file() returns the length of the file (NULL: of standard input)
 * and its contents in *data, which the caller frees, after a failure too. write_file()
 * creates or overwrites the file (NULL: standard output) and returns 0. Both
 * return -errno on failure.
 */
long read_file(const char *path, void **data);
long write_file(const char *path, const void *data, size_t size);

/* Memory that a program did not free is freed when its last thread has ended. */
void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t size);
void free(void *p);

void *memcpy(void *d, const void *s, size_t n);
void *memmove(void *d, const void *s, size_t n);
void *memset(void *d, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *s);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);
char *strchr(const char *s, int c);
unsigned long long strtoull(const char *s, char **end, int base);

/*
 * A program ends when all of its threads have ended. Ctrl-C and `kill` end all of
 * them, wherever they are: in a loop, asleep, at a mutex_release(). Only a thread
 * that holds a mutex goes on until it has released it.
 */
/* -EAGAIN: no memory, or there are 4,095 threads already. */
typedef struct thread *thread_t;
int thread_create(thread_t *t, int (*fn)(void *), void *arg);
int thread_create_on(thread_t *t, int cpu, int (*fn)(void *), void *arg);
int thread_join(thread_t t); /* returns its exit code */
int cpu_count(void);
int cpu_self(void);

/* A sleeping lock and a condition variable. */
typedef struct { void *owner; uint32_t lock; void *waiters; } mutex_t;
typedef struct { uint32_t lock; void *waiters; } cond_t;
void mutex_acquire(mutex_t *m);
void mutex_release(mutex_t *m);
void cond_wait(cond_t *c, mutex_t *m);
void cond_broadcast(cond_t *c);

/*
 * Run fn(arg) in interrupt context on @cpu and wait for it. fn must return soon,
 * and must not allocate or free memory, use a file, create or join a thread,
 * take a mutex or sleep. It may call printf only if the output is the console.
 */
void interrupt_call(int cpu, void (*fn)(void *), void *arg);

/* Nanoseconds since the machine's counter started. */
uint64_t clock(void);
void sleep_ns(uint64_t ns);

#define float _Pragma("GCC error \"a Callsite program uses integers only: no float\"") float
#define double _Pragma("GCC error \"a Callsite program uses integers only: no double\"") double

#endif
