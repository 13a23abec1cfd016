// needs: kern/base/print.c kern/base/string.c -DKERNEL_NAMES -Ikern/tests
/* Formatted text, held against the C library's. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>

static auto lib_snprintf = snprintf;

#include "host.h"
extern "C" {
#include "ksyms.h"
#include "print.h"
#include "string.h"

/* One function, [0x1000, 0x1080). */
const char *ksym_lookup(unsigned long addr, unsigned long *offset, unsigned long *size)
{
	if (addr < 0x1000 || addr >= 0x1080)
		return nullptr;
	*offset = addr - 0x1000;
	*size = 0x80;
	return "schedule";
}
/* A part of it is a module's. */
const char *ksym_module(unsigned long addr)
{
	return addr >= 0x1040 && addr < 0x1060 ? "hello" : nullptr;
}
}

template <typename... T> static void same(const std::string &fmt, T... args)
{
	char ours[600], theirs[600];
	int n = snprintf(ours, sizeof(ours), fmt.c_str(), args...);
	int m = lib_snprintf(theirs, sizeof(theirs), fmt.c_str(), args...);
	ASSERT_EQ(m, n) << fmt << ": '" << ours << "' '" << theirs << "'";
	ASSERT_STREQ(theirs, ours) << fmt;
}

static std::string pick(std::initializer_list<const char *> words)
{
	return words.begin()[rand() % words.size()];
}

static std::string flags()
{
	std::string s;
	for (char c : std::string("-0+ #"))
		if (rand() % 4 == 0)
			s += c;
	return s;
}

TEST(print, every_integer_conversion_is_the_librarys)
{
	srand(1);
	static const long values[] = {0,
				      1,
				      -1,
				      7,
				      8,
				      255,
				      -128,
				      32767,
				      65536,
				      2147483647,
				      -2147483648l,
				      4294967295l,
				      4294967296l,
				      9223372036854775807l,
				      -9223372036854775807l - 1};
	for (int i = 0; i < 200000; i++) {
		std::string fmt = "[%" + flags() + pick({"", "", "1", "5", "12", "23"}) +
				  pick({"", "", ".", ".0", ".1", ".5", ".20"});
		long v = values[rand() % 15] ^ (rand() % 2 ? rand() % 1000 : 0);
		std::string c = pick({"d", "i", "u", "x", "X", "o"});
		switch (rand() % 5) {
		case 0: same(fmt + c + "]", (int)v); break;
		case 1: same(fmt + "l" + c + "]", v); break;
		case 2: same(fmt + "ll" + c + "]", (long long)v); break;
		case 3: same(fmt + "h" + c + "]", (int)v); break;
		default: same(fmt + "z" + c + "]", (size_t)v); break;
		}
		if (HasFatalFailure())
			return;
	}
	for (int v = -300; v < 300; v++) {
		same("%hhd", v);
		same("%hhu", v);
	}
}

TEST(print, text_and_characters_are_the_librarys)
{
	for (const char *f :
	     {"[%s]", "[%10s]", "[%-10s]", "[%.2s]", "[%10.2s]", "[%.0s]", "[%3s]", "[%-3.9s]"})
		for (const char *s : {"", "a", "four", "a longer text"})
			same(f, s);
	same("[%c%5c%-5c]", 'x', 'y', 'z');
	same("[%*d|%-*d|%.*s|%*s]", 6, 42, 6, 42, 3, "abcdef", -8, "left");
	same("100%% of %d%s", 7, "");
	same("plain");
}

TEST(print, text_without_an_end_is_read_no_further_than_the_precision)
{
	char *three = (char *)malloc(3), out[8];
	memcpy(three, "abc", 3);
	EXPECT_EQ(3, snprintf(out, sizeof(out), "%.3s", three));
	EXPECT_STREQ("abc", out);
	free(three);
}

TEST(print, a_full_buffer_ends_with_nul_and_the_length_is_that_of_the_whole)
{
	for (size_t size = 0; size < 12; size++) {
		char ours[16], theirs[16];
		memset(ours, '#', sizeof(ours));
		memset(theirs, '#', sizeof(theirs));
		EXPECT_EQ(8, snprintf(ours, size, "%s-%d", "four", 123));
		lib_snprintf(theirs, size, "%s-%d", "four", 123);
		EXPECT_EQ(0, memcmp(ours, theirs, sizeof(ours))) << size;
		EXPECT_EQ(size ? std::min<int>(8, size - 1) : 0,
			  scnprintf(ours, size, "%s-%d", "four", 123));
	}
}

static std::string say(const char *fmt, unsigned long v)
{
	char out[100];
	snprintf(out, sizeof(out), fmt, (void *)v);
	return out;
}

TEST(print, addresses_have_their_symbols)
{
	EXPECT_EQ("schedule", say("%ps", 0x1010));
	EXPECT_EQ("schedule+0x10/0x80", say("%pS", 0x1010));
	EXPECT_EQ("schedule+0x0/0x80", say("%pS", 0x1000));
	EXPECT_EQ("schedule+0x80/0x80", say("%pB", 0x1080))
		<< "a return address after the last call of a function";
	EXPECT_EQ("0x5000", say("%pS", 0x5000));
	EXPECT_EQ("0x5000", say("%ps", 0x5000));
	EXPECT_EQ("schedule [hello]", say("%ps", 0x1050));
	EXPECT_EQ("schedule+0x50/0x80 [hello]", say("%pS", 0x1050));
	EXPECT_EQ("schedule+0x60/0x80 [hello]", say("%pB", 0x1060))
		<< "the call is the module's, not what follows it";
	EXPECT_EQ("schedule+0x40/0x80", say("%pB", 0x1040));
	EXPECT_EQ("[schedule  ]", say("[%-10ps]", 0x1000));
	EXPECT_EQ("00000000deadbeef", say("%p", 0xdeadbeef));
}

TEST(print, what_is_not_understood_is_shown)
{
	char out[32];
	const char *odd = "%q %", *null = nullptr;
	snprintf(out, sizeof(out), odd);
	EXPECT_STREQ("%q %", out);
	const char *fmt = "%s";
	snprintf(out, sizeof(out), fmt, null);
	EXPECT_STREQ("(null)", out);
}
