// needs: kern/loader/params.c kern/base/string.c kern/base/strerror.c -DKERNEL_NAMES
// needs: -Ikern/ftrace/tests/host -Ikern/tests
/* A module's parameters: what is stored, and which tables are refused before anything is stored. */
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "said.h"
extern "C" {
#define export export_ /* a structure's name in C */
#define private private_
#include "loader/loader.h"
#undef export
#undef private
}

/* A module's memory: a page each of text, rodata and data. */
alignas(4096) static u8 memory[3 * 4096];
static module_param table[1]; /* elsewhere, so that the test may store any table */
static size_t table_size;

extern "C" unsigned long module_elf_section(const struct module_elf *elf, const char *name,
					    size_t *size)
{
	*size = std::string(name) == ".table.module_param" ? table_size : 0;
	return *size ? (unsigned long)table : 0;
}

extern "C" void *kmalloc(size_t size)
{
	return malloc(size);
}

static u8 *const data = memory + 2 * 4096, *const end = memory + 3 * 4096;

static struct module a_module()
{
	struct module m = {};
	strcpy(m.name, "m");
	m.base = (unsigned long)memory;
	for (int i = 0; i < MODULE_REGIONS; i++)
		m.end[i] = (unsigned long)memory + 4096 * (i + 1);
	return m;
}

static char *kept; /* the words of the last module */

/* Load a module with one parameter, and set it by these words. */
static int set(const char *name, void *variable, module_param_type type,
	       std::vector<std::string> words)
{
	struct module m = a_module();
	module_elf elf = {};
	std::vector<char *> params;
	for (std::string &w : words)
		params.push_back(w.data());
	elf.name = m.name;
	table[0] = {name, variable, type};
	table_size = sizeof(table);
	said.clear();
	free(kept);
	int err = module_set_params(&m, &elf, params.size(), params.data());
	kept = m.words;
	return err;
}

/* The string @s in the module's rodata. */
static const char *in_module(const char *s)
{
	return (char *)memcpy(memory + 4096, s, strlen(s) + 1);
}

TEST(params, numbers_keep_their_sign)
{
	const char *x = in_module("x");
	long &value = *(long *)data;
	struct { const char *word; long value;
	} good[] = {{"x=5", 5},
		    {"x=-5", -5},
		    {"x=0", 0},
		    {"x=-0", 0},
		    {"x=0x7fffffffffffffff", INT64_MAX},
		    {"x=-0x8000000000000000", INT64_MIN}};
	for (auto &g : good) {
		value = 1;
		EXPECT_EQ(0, set(x, data, MODULE_PARAM_long, {g.word})) << g.word << said;
		EXPECT_EQ(g.value, value) << g.word;
	}
	for (const char *word :
	     {"x=", "x=-", "x=--1", "x=1y", "x=0x8000000000000000", "x=-0x8000000000000001", "x"})
		EXPECT_EQ(word == std::string("x") ? 0 : -EINVAL,
			  set(x, data, MODULE_PARAM_long, {word}))
			<< word;
	EXPECT_EQ(-EINVAL, set(x, data, MODULE_PARAM_int, {"x=0x80000000"}));
	EXPECT_EQ(-EINVAL, set(x, data, MODULE_PARAM_int, {"y=1"}));
}

TEST(params, a_table_whose_pointers_leave_the_module_is_refused)
{
	static char outside[] = "x";
	const char *x = in_module("x");
	memset(end - 8, 'x', 8); /* a string without its end */
	struct { const char *name; void *variable;
	} bad[] = {{nullptr, data},
		   {outside, data},
		   {(char *)memory - 1, data},
		   {(char *)end - 8, data},
		   {(char *)end, data},
		   {x, nullptr},
		   {x, outside},
		   {x, memory - 8},
		   {x, end - 4},
		   {x, end},
		   {x, (void *)-8},
		   {x, data + 4}};
	for (auto &b : bad)
		for (const std::vector<std::string> &words :
		     {std::vector<std::string>{"x=1"}, {}}) {
			EXPECT_EQ(-ENOEXEC, set(b.name, b.variable, MODULE_PARAM_long, words))
				<< (void *)b.name << " " << b.variable;
			EXPECT_EQ("module m: a pointer in section .table.module_param leads out of "
				  "the module\n",
				  said);
		}
	EXPECT_EQ(0, set(x, end - 8, MODULE_PARAM_long, {"x=1"})) << said;
	EXPECT_EQ(0, set(x, end - 4, MODULE_PARAM_int, {"x=1"})) << said;
	EXPECT_EQ(0, set(x, end - 1, MODULE_PARAM_bool, {"x=1"})) << said;
}

TEST(params, a_string_is_the_modules_own)
{
	const char *&word = *(const char **)data;
	/* set() has freed the caller's words */
	EXPECT_EQ(0, set(in_module("x"), data, MODULE_PARAM_charp, {"x=first", "x=", "x=last"}))
		<< said;
	EXPECT_STREQ("last", word);
	EXPECT_EQ(kept + strlen("x=first") + 1 + strlen("x=") + 1 + 2, word)
		<< "it is in the module's words";
	EXPECT_EQ(0, set(in_module("x"), data, MODULE_PARAM_charp, {"x"})) << said;
	EXPECT_STREQ("1", word);
	free(kept);
	kept = nullptr;
}
