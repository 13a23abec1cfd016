// needs: kern/loader/symbols.c kern/loader/names.c -Ikern/ftrace/tests/host
/* The names of a module's functions: their order, and the limits. */
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "said.h"
extern "C" {
#define export export_ /* a structure's name in C */
#define private private_
#include "ksyms.h"
#include "loader/loader.h"
#undef export
#undef private
#include "errno.h"
}

static int pages; /* in use */
static bool no_table;

extern "C" {
void *page_alloc(unsigned)
{
	pages++;
	return aligned_alloc(4096, 4096);
}
void page_free(void *page, unsigned)
{
	pages--;
	free(page);
}
struct ksym_table *ksym_table_new(u32 count)
{
	ksym_table *table =
		(ksym_table *)(no_table ? nullptr
					: calloc(1, sizeof(ksym_table) +
							    count * sizeof(table->symbol[0])));
	if (table)
		table->count = count;
	return table;
}
size_t ftrace_module_room(void)
{
	return 64;
}
int module_elf_refuse(const struct module_elf *elf, int err, const char *fmt, ...)
{
	char text[200];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	printk("module %s: %s\n", elf->name, text);
	return err;
}
}

#define BASE 0x10000ul

/* A module of one section of text, with these functions. */
struct Named {
	struct module m = {};
	std::string names;
	int err;
	std::vector<std::pair<unsigned long, std::string>> functions;

	explicit Named(std::vector<std::pair<unsigned long, std::string>> list)
	{
		std::vector<elf_symbol> symbols(1);
		unsigned long place[2] = {NOT_LOADED, 0};
		u8 region[2] = {MODULE_REGIONS, MODULE_TEXT};
		module_elf elf = {};
		names.push_back('\0');
		for (auto &[offset, name] : list) {
			symbols.push_back({(u32)names.size(), 2, 0, 1, BASE + offset, 0});
			names.append(name.c_str(), name.size() + 1);
		}
		strcpy(m.name, "m");
		m.base = BASE;
		m.end[MODULE_TEXT] = BASE + 0x100000;
		elf.name = m.name;
		elf.section_count = 2;
		elf.place = place;
		elf.region = region;
		elf.symbols = symbols.data();
		elf.symbol_count = symbols.size();
		elf.strings = names.data();
		said.clear();
		err = module_name_functions(&m, &elf, 0xff000);
		for (u32 i = 0; !err && i < m.symbols->count; i++)
			functions.push_back(
				{m.symbols->symbol[i].addr - BASE, m.symbols->symbol[i].name});
	}
	~Named()
	{
		free(m.symbols);
	}
};
using Functions = std::vector<std::pair<unsigned long, std::string>>;

/* @count functions, the last one first. */
static Functions many(unsigned count, const std::string &prefix)
{
	Functions f;
	for (unsigned i = count; i--;)
		f.push_back({8 * i, prefix + std::to_string(i)});
	return f;
}

TEST(symbols, are_sorted_and_of_several_names_for_an_address_the_first_stays)
{
	Named n({{32, "c"}, {0, "a"}, {16, "b"}, {16, "alias"}, {0, "alias"}});
	ASSERT_EQ(0, n.err) << said;
	EXPECT_EQ((Functions{{0, "a"}, {16, "b"}, {32, "c"}, {0xff000, "ftrace_island_m"}}),
		  n.functions);
}

TEST(symbols, too_many_functions_are_refused)
{
	Named most(many(2048, ""));
	EXPECT_EQ(0, most.err) << said;
	Named more(many(2049, ""));
	EXPECT_EQ(-ENOEXEC, more.err);
	EXPECT_EQ("module m: the file has 2049 functions; at most 2048 are allowed\n", said);
}

TEST(symbols, without_memory_a_message_says_so)
{
	no_table = true;
	Named n(many(3, ""));
	no_table = false;
	EXPECT_EQ(-ENOMEM, n.err);
	EXPECT_EQ("module m: no memory for the names of its 3 functions\n", said);
}

TEST(symbols, a_refused_module_leaves_no_names)
{
	const char *kept = ksym_name("kept");
	int before = pages;
	for (int i = 0; i < 3; i++) {
		struct ksym_names mark = ksym_names_mark();
		Named full(many(1000, std::string(200, 'a' + i)));
		EXPECT_EQ(-ENOMEM, full.err);
		EXPECT_EQ("module m: no memory for the names of its 1000 functions\n", said);
		ksym_names_forget(mark);
		EXPECT_EQ(before, pages);
		Named small({{0, "small" + std::to_string(i)}});
		EXPECT_EQ(0, small.err) << said;
	}
	EXPECT_EQ(kept, ksym_name("kept"));
	EXPECT_NE(nullptr, ksym_name("small2"));
}
