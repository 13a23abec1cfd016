// needs: kern/trap/stack_lines.c -Ikern/tests/host -Ikern/tests
/* A stack trace says once how often its lines repeat, and leaves nothing else out. */
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <gtest/gtest.h>
#include <sstream>
#include <string>

#include "host.h"
extern "C" {
#include "unwind.h"
}

static std::string text;

static void line(unsigned long pc, bool exact)
{
	text += std::string(1, (char)pc) + (exact ? "!" : "") + "\n";
}
static int print(const char *fmt, ...)
{
	char buf[100];
	va_list args;

	va_start(args, fmt);
	int n = vsnprintf(buf, sizeof(buf), fmt, args);
	va_end(args);
	text += buf;
	return n;
}

/* Each letter is an address; one with a '!' after it is exact. */
static std::string shown(const std::string &stack)
{
	struct stack_lines lines = {};
	lines.line = line;
	lines.print = print;
	lines.indent = "  ";
	text = "";
	for (size_t i = 0; i < stack.size(); i++)
		if (stack[i] != '!')
			stack_line(&lines, stack[i], i + 1 < stack.size() && stack[i + 1] == '!');
	stack_lines_end(&lines);
	EXPECT_EQ(lines.printed, (unsigned)std::count(text.begin(), text.end(), '\n'));
	return text;
}
static std::string one(int times)
{
	return "  ... the line above repeats " + std::to_string(times) + " times\n";
}
static std::string many(int n, int times)
{
	return "  ... the " + std::to_string(n) + " lines above repeat " + std::to_string(times) +
	       " times\n";
}
static std::string times(const std::string &s, int n)
{
	return n ? s + times(s, n - 1) : "";
}

TEST(stack_lines, a_line_that_repeats_is_printed_once)
{
	EXPECT_EQ("f\na\n" + one(999) + "m\n", shown("f" + times("a", 1000) + "m"));
	EXPECT_EQ("a\n" + one(2), shown("aaa"));
	EXPECT_EQ("a\n" + one(2) + "b\n" + one(3) + "c\n", shown("aaabbbbc"));
	EXPECT_EQ("a\n" + one(2) + "b\na\n" + many(2, 2), shown("aaabababa"))
		<< "the lines above are lines of the stack";
}

TEST(stack_lines, lines_that_repeat_together_are_printed_once)
{
	EXPECT_EQ("f\na\nb\n" + many(2, 499) + "m\n", shown("f" + times("ab", 500) + "m"));
	EXPECT_EQ("a\nb\nc\n" + many(3, 9) + "a\nb\nm\n", shown(times("abc", 10) + "abm"))
		<< "with the rest of the last one";
	EXPECT_EQ("a\nb\nc\nd\n" + many(4, 9), shown(times("abcd", 10)));
}

TEST(stack_lines, others_are_printed_as_they_are)
{
	for (const std::string &stack :
	     std::vector<std::string>{"a", "", "abcdefg", "aab", "aba", "abac", "abca", "abcad",
				      times("abcde", 5)}) {
		std::string all;
		for (char c : stack)
			all += std::string(1, c) + "\n";
		EXPECT_EQ(all, shown(stack)) << stack;
	}
}

TEST(stack_lines, an_interrupted_address_is_not_one_of_them)
{
	EXPECT_EQ("a\na!\na\n" + one(2), shown("aa!aaa"));
	EXPECT_EQ("a!\na\n" + one(2), shown("a!aaa"));
}

/* What is said stands for exactly the lines that are left out. */
TEST(stack_lines, any_stack_can_be_read_back)
{
	unsigned random = 1;

	for (int round = 0; round < 20000; round++) {
		std::string stack, read;
		for (int i = 0; i < 40; i++) {
			random = random * 1103515245 + 12345;
			stack += 'a' + (random >> 16) % (1 + round % 4);
		}
		std::istringstream in(shown(stack));
		for (std::string l; std::getline(in, l);) {
			unsigned n = 1, again;
			if (l.size() == 1)
				read += l;
			else if (sscanf(l.c_str(), "  ... the line above repeats %u", &again) ==
					 1 ||
				 sscanf(l.c_str(), "  ... the %u lines above repeat %u", &n,
					&again) == 2)
				read += times(read.substr(read.size() - n), again);
		}
		ASSERT_EQ(stack, read) << text;
	}
}
