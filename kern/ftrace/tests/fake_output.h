/*
 * The functions of the kernel that the printers of events need, and a file whose
 * text is a string. fake_symbols has the names of addresses.
 */
#ifndef TESTS_FAKE_OUTPUT_H
#define TESTS_FAKE_OUTPUT_H

#include <gtest/gtest.h>
#include <cstdarg>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
#define private private_ /* a field's name in C, a keyword here */
#include "trace.h"
#undef private

__thread struct cpu *host_cpu;
__thread struct thread *host_current;
unsigned nr_cpus = 2;
const struct file_ops trace_format_ops = {}; /* no test opens a format file */

int vsnprintf(char *buf, size_t size, const char *fmt, va_list args);

int seq_printf(struct seq *s, const char *fmt, ...)
{
	char line[2048];
	std::string &text = *(std::string *)s->arg;
	va_list args;
	va_start(args, fmt);
	int n = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	text.resize(std::min(text.size(), s->len)); /* it may have been made shorter */
	text.append(line, n);
	s->buf = text.data();
	s->len = text.size();
	return n;
}
size_t strlcpy(char *d, const char *s, size_t size)
{
	size_t n = strlen(s);
	if (size) {
		size_t m = n < size ? n : size - 1;
		memcpy(d, s, m);
		d[m] = 0;
	}
	return n;
}

struct fake_symbol {
	unsigned long start, size;
	const char *name;
};
static std::vector<fake_symbol> fake_symbols = {{0xffffffff80001000, 0x3ba, "vfs_write"},
						{0xffffffff80002000, 0xe8, "ksys_write"},
						{0xffffffff80003000, 0x40, "tracing_mark_write"},
						{0xffffffff80004000, 0x20, "fdget_pos"}};
const char *ksym_lookup(unsigned long addr, unsigned long *offset, unsigned long *size)
{
	for (auto &s : fake_symbols)
		if (addr >= s.start && addr < s.start + s.size) {
			if (offset)
				*offset = addr - s.start;
			if (size)
				*size = s.size;
			return s.name;
		}
	return nullptr;
}
static unsigned long fake_module_start = ~0ul; /* symbols from there on are a module's */
const char *ksym_module(unsigned long addr)
{
	return addr >= fake_module_start ? "hello" : nullptr;
}
extern const struct thread_hook comm_hook_hook;

/* Two rooms whose types, 1500 and 1502, are not in the table. */
static bool print_probe(const struct trace_line *l)
{
	if (l->ent->type == 1500)
		seq_printf(l->s, "o: (vfs_write+0x0/0x90)\n");
	return l->ent->type == 1500;
}
PRINT_HOOK(print_probe);
static bool print_second(const struct trace_line *l)
{
	if (l->ent->type == 1502)
		seq_printf(l->s, "the second room's text\n");
	return l->ent->type == 1502;
}
PRINT_HOOK(print_second);
}

struct Output : ::testing::Test {
	trace_array *tr = (trace_array *)aligned_alloc(64, sizeof(trace_array));
	std::string text;
	seq s{};
	trace_printer printer{};

	void SetUp() override
	{
		static const trace_clock local{"local", nullptr, true};
		memset((void *)tr, 0, sizeof(*tr));
		tr->clock = &local;
		tr->options = TRACE_ITER_DEFAULT;
		s.arg = &text;
		printer.tr = tr;
	}
	void TearDown() override
	{
		free(tr);
	}
};

#endif
