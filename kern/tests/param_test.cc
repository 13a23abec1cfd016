// needs: kern/param.c kern/string.c kern/shell/strerror.c -DKERNEL_NAMES -Ikern/ftrace/tests/host -Ikern/tests
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
static int take(const char *value)
{
	set.push_back(value);
	return std::string(value) == "bad" ? -EINVAL : 0;
}

/* What the linker script gathers in the kernel. */
extern "C" const struct param host_params[] = {{"trace", take}, {"verbose", take}};
asm(".globl __start_table_param, __stop_table_param\n"
    "__start_table_param = host_params\n"
    "__stop_table_param = host_params + 32\n");

static std::vector<std::string> parse(const std::string &line)
{
	set.clear();
	said.clear();
	param_parse(line.c_str());
	return set;
}

TEST(param, hands_each_value_to_its_handler)
{
	EXPECT_EQ((std::vector<std::string>{"function", "", "a=b"}), parse(" trace=function  verbose\ttrace=a=b\n"));
	EXPECT_EQ("", said);
}

TEST(param, quotes_keep_blanks_together)
{
	EXPECT_EQ((std::vector<std::string>{"two words"}), parse("trace=\"two words\""));
	EXPECT_EQ((std::vector<std::string>{"open end"}), parse("trace=\"open end"));
}

TEST(param, an_unknown_name_is_named_and_ignored)
{
	EXPECT_EQ((std::vector<std::string>{"x"}), parse("nonsense=1 trace=x"));
	EXPECT_NE(std::string::npos, said.find("'nonsense=1'")) << said;
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
