/* The small kernel of the host tests; see fake_kernel.h. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#undef PROT_READ /* the kernel's own macros have the same values */
#undef PROT_WRITE
#undef PROT_EXEC

#include "cpu.h"
#include "fake_kernel.h"
#include "ksyms.h"

__asm__(".globl _text, _etext, ftrace_stubs, ftrace_call, _mcount\n"
	".set _text, 0x10000000\n.set _etext, 0x10400000\n"
	".set ftrace_stubs, 0x10080000\n.set ftrace_call, 0x10080200\n.set _mcount, 0x10080300\n"
	/* set_ftrace_filter has no commands */
	".globl __start_table_filter_commands, __stop_table_filter_commands\n"
	".set __start_table_filter_commands, 0\n.set __stop_table_filter_commands, 0");

#define MAX_RECORDS 4096
#define MAPPED	    MiB(8)

int fake_opens, fake_syncs, fake_graces;
bool fake_open_at_sync, fake_preemptible_at_sync;
static bool alias_is_open;
unsigned long fake_last_line;
char fake_console[4096];
static size_t console_length;
static struct thread thread_now;
static struct cpu cpu_now = {.context_bit = 1};
struct dyn_ftrace ftrace_records[MAX_RECORDS], ftrace_records_end[1];
static const char *names[MAX_RECORDS];
static u32 record_count;
extern const u32 ftrace_record_count __attribute__((alias("record_count")));
static struct ftrace_region regions[3], more_regions[2];
static struct ftrace_table more_table;
extern const struct ftrace_region ftrace_regions[3] __attribute__((alias("regions")));

/* Print what the kernel's panic would print; then the fault's own message. */
static void say_store(int sig, siginfo_t *info, void *context)
{
	unsigned long at = (unsigned long)info->si_addr;

	if (at - KERNEL_BASE < MAPPED)
		fprintf(stderr,
			"a store into text at %#lx: it is written through text_alias() alone\n",
			at);
	if (at - ALIAS_BASE < MAPPED)
		fprintf(stderr, "a store through text's alias at %#lx, while that is not open\n",
			at);
	signal(sig, SIG_DFL);
}

/* Map text from @offset on, and its alias. */
static void map_range(unsigned long offset, size_t size)
{
	void *text = (void *)(KERNEL_BASE + offset), *alias = (void *)(ALIAS_BASE + offset);
	int fd = memfd_create("text", 0);

	if (ftruncate(fd, size) ||
	    mmap(text, size, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) != text ||
	    mmap(alias, size, PROT_NONE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) != alias)
		abort();
}

static void map_text(void)
{
	const struct sigaction act = {.sa_sigaction = say_store, .sa_flags = SA_SIGINFO};
	static bool mapped;

	if (mapped)
		return;
	mapped = true;
	sigaction(SIGSEGV, &act, NULL);
	map_range(0, MAPPED);
	map_range(FAKE_FAR - KERNEL_BASE, FAKE_MORE_SIZE);
}

static void text_access(unsigned long base, int prot)
{
	if (mprotect((void *)base, MAPPED, prot) ||
	    mprotect((void *)(base + FAKE_FAR - KERNEL_BASE), FAKE_MORE_SIZE, prot))
		abort();
}

static void alias_access(int prot)
{
	text_access(ALIAS_BASE, prot);
}

void fake_text_writable(bool writable)
{
	text_access(KERNEL_BASE, PROT_READ | (writable ? PROT_WRITE : 0));
}

void fake_reset(void)
{
	map_text();
	ftrace_lock.owner = host_current = &thread_now;
	host_cpu = &cpu_now;
	alias_access(PROT_READ | PROT_WRITE);
	__builtin_memset((void *)ALIAS_BASE, 0, MAPPED);
	__builtin_memset((void *)(ALIAS_BASE + FAKE_FAR - KERNEL_BASE), 0, FAKE_MORE_SIZE);
	alias_access(PROT_NONE);
	fake_opens = fake_syncs = fake_graces = 0;
	fake_open_at_sync = fake_preemptible_at_sync = alias_is_open = false;
	record_count = 0;
	ftrace_kernel_table.end = ftrace_records;
	ftrace_kernel_table.next = NULL;
	ftrace_text_end = KERNEL_BASE + FAKE_TEXT_SIZE;
	regions[0] = (struct ftrace_region){0, FAKE_STUBS - KERNEL_BASE};
	regions[1] = (struct ftrace_region){0, 0};
	console_length = 0;
	fake_console[0] = 0;
	ftrace_disabled = false;
}

u32 fake_word(unsigned long ip)
{
	return *(const volatile u32 *)ip;
}

void fake_scribble(unsigned long ip, u32 insn)
{
	alias_access(PROT_READ | PROT_WRITE);
	*(u32 *)(ip - KERNEL_BASE + ALIAS_BASE) = insn;
	alias_access(PROT_NONE);
}

struct dyn_ftrace *fake_record(u32 offset, const char *name)
{
	names[record_count] = name;
	ftrace_records[record_count] = (struct dyn_ftrace){.offset = offset};
	if (ftrace_kernel_table.next) {
		more_table.end++;
		more_regions[1].first++;
	} else {
		ftrace_kernel_table.end++;
		regions[1 + !!regions[1].stubs].first = record_count + 1;
	}
	return &ftrace_records[record_count++];
}

/* Not the record after the kernel's last: tables lie anywhere. */
struct ftrace_table *fake_table(void)
{
	record_count++;
	more_regions[0] = (struct ftrace_region){0, FAKE_MORE_STUBS - KERNEL_BASE};
	more_regions[1] = (struct ftrace_region){0, 0};
	more_table =
		(struct ftrace_table){&ftrace_records[record_count], &ftrace_records[record_count],
				      more_regions, FAKE_MORE, FAKE_MORE + FAKE_MORE_SIZE};
	ftrace_kernel_table.next = &more_table;
	ftrace_text_end = more_table.text_end;
	return &more_table;
}

void fake_island(void)
{
	regions[1] = (struct ftrace_region){record_count, FAKE_ISLAND - KERNEL_BASE};
	regions[2] = (struct ftrace_region){record_count, 0};
}

const char *(*fake_name)(unsigned long addr);
const char *ksym_lookup(unsigned long addr, unsigned long *offset, unsigned long *size)
{
	for (u32 i = 0; i < record_count; i++)
		if (ftrace_ip(&ftrace_records[i]) == addr)
			return names[i];
	return fake_name ? fake_name(addr) : NULL;
}

__thread struct thread *host_current;
__thread struct cpu *host_cpu;
void preempt_disable(void)
{
	thread_now.ctx += CTX_PREEMPT;
}
void preempt_enable(void)
{
	thread_now.ctx -= CTX_PREEMPT;
}
void text_alias_open(void)
{
	fake_opens++;
	alias_is_open = true;
	alias_access(PROT_READ | PROT_WRITE);
}
void text_alias_close(void)
{
	alias_is_open = false;
	alias_access(PROT_NONE);
}
void arch_sync_line(unsigned long text_va, unsigned long alias_va)
{
	fake_last_line = text_va;
}
void arch_sync_all(void)
{
	fake_syncs++;
	fake_open_at_sync |= alias_is_open;
	fake_preemptible_at_sync |= thread_now.ctx < CTX_PREEMPT;
}
void __attribute__((weak)) panic(const char *fmt, ...)
{
	abort();
}
void (*fake_in_grace)(void);
void synchronize_sched(void)
{
	fake_graces++;
	if (fake_in_grace)
		fake_in_grace();
}
void (*fake_at_lock)(bool locked);
void mutex_lock(struct mutex *m)
{
	if (fake_at_lock && m == &ftrace_lock)
		fake_at_lock(true);
}
void mutex_unlock(struct mutex *m)
{
	if (fake_at_lock && m == &ftrace_lock)
		fake_at_lock(false);
}
void smp_call(unsigned index, void (*fn)(void *), void *arg)
{
	fn(arg);
}
static void print(const char *fmt, va_list args)
{
	console_length += vsnprintf(fake_console + console_length,
				    sizeof(fake_console) - console_length, fmt, args);
}
int printk(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print(fmt, args);
	va_end(args);
	return 0;
}
void *kmalloc(size_t size)
{
	return malloc(size);
}
void *kzalloc(size_t size)
{
	return calloc(1, size);
}
void kfree(void *p)
{
	free(p);
}
void *page_alloc(unsigned order)
{
	return malloc((size_t)PAGE_SIZE << order);
}
void page_free(void *p, unsigned order)
{
	free(p);
}

/* Files are tested in the kernel; these are only here so that the tracer's files link. */
struct file;
struct seq;
struct trace_array;
struct trace_array *trace_array_of(const struct file *f)
{
	return NULL;
}
int (*fake_show)(struct seq *s, u64 item);
int seq_open(struct file *f, int (*show)(struct seq *, u64), void *arg)
{
	fake_show = show;
	return 0;
}
ssize_t seq_read(struct file *f, char *buf, size_t n, u64 *pos)
{
	return 0;
}
int seq_release(struct file *f)
{
	return 0;
}
int seq_printf(struct seq *s, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print(fmt, args);
	va_end(args);
	return 0;
}
void ftrace_stub(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
		 struct ftrace_regs *regs)
{
}
