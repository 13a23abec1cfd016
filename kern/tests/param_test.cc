// needs: kern/base/param.c kern/base/string.c kern/base/strerror.c -DKERNEL_NAMES
// needs: -Ikern/ftrace/tests/host -Ikern/tests
/* Boot arguments. */
#include <cstdio>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "said.h"
#include "host.h"
extern "C" {
#include "errno.h"
#include "fdt.h"
}

static std::vector<std::string> set;
static std::vector<std::string> set_early;
static int take_early(const char *value)
{
	set_early.push_back(value);
	return std::string(value) == "bad" ? -EINVAL : 0;
}
static int take(const char *value)
{
	set.push_back(value);
	return std::string(value) == "bad" ? -EINVAL : 0;
}

/* What the linker script gathers in the kernel. */
extern "C" const struct param host_params[] = {
	{"trace", take}, {"size", take_early, true}, {"verbose", take}, {"size", take}};
asm(".globl __start_table_param, __stop_table_param\n"
    "__start_table_param = host_params\n"
    "__stop_table_param = host_params + 96\n");

static std::vector<std::string> parse(const std::string &line, bool early = false)
{
	set.clear();
	said.clear();
	param_parse(line.c_str(), early);
	return set;
}

TEST(param, hands_each_value_to_its_handler)
{
	EXPECT_EQ((std::vector<std::string>{"function", "", "a=b"}),
		  parse(" trace=function  verbose\ttrace=a=b\n"));
	EXPECT_EQ("", said);
}

/* U-Boot passes on the CR of an `append` line that ends with CR LF. */
TEST(param, a_return_ends_an_argument)
{
	EXPECT_EQ(parse("trace=function\n"), parse("trace=function\r"));
	EXPECT_EQ(parse("trace=a verbose"), parse("trace=a\r\nverbose\r\n"));
}

TEST(param, quotes_keep_blanks_together)
{
	EXPECT_EQ((std::vector<std::string>{"two words"}), parse("trace=\"two words\""));
	EXPECT_EQ((std::vector<std::string>{"open end"}), parse("trace=\"open end"));
}

TEST(param, unknown_names_are_named_in_one_line_and_ignored)
{
	EXPECT_EQ((std::vector<std::string>{"x"}),
		  parse("nonsense=1 trace=x quiet 8250.nr_uarts=1"));
	EXPECT_EQ("boot arguments that are not known, ignored: nonsense=1 quiet 8250.nr_uarts=1\n",
		  said);
}

TEST(param, a_refused_value_is_named_and_ignored)
{
	EXPECT_EQ((std::vector<std::string>{"bad", "good"}), parse("trace=bad verbose=good"));
	EXPECT_NE(std::string::npos, said.find("'trace=bad' is refused (EINVAL)")) << said;
}

TEST(param, a_very_long_argument_is_cut_not_overrun)
{
	EXPECT_TRUE(parse(std::string(100000, 'x')).empty());
	EXPECT_NE("", said);
}

TEST(param, an_early_handler_is_called_before_the_others_and_alone)
{
	set_early.clear();
	EXPECT_TRUE(parse("trace=x size=1 nonsense", true).empty());
	EXPECT_EQ((std::vector<std::string>{"1"}), set_early);
	EXPECT_EQ("", said) << "what is not known is reported once, by the later call";
	EXPECT_EQ((std::vector<std::string>{"x", "1"}), parse("trace=x size=1"));
	EXPECT_EQ((std::vector<std::string>{"1"}), set_early);
	parse("size=bad", true);
	EXPECT_NE(std::string::npos, said.find("'size=bad' is refused (EINVAL)")) << said;
}
