// needs: kern/ftrace/events/event_filter.c kern/ftrace/events/probe_parse.c
// needs: kern/base/glob.c kern/base/string.c kern/base/print.c -DKERNEL_NAMES
// needs: -Ikern/ftrace/tests/host -Ikern/tests
/* Comparisons of the filter of an event: as in Linux, the number is cast to the field's type. */
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>

#include "host.h"
extern "C" {
#include "memory.h"
#include "errno.h"
#include "event_filter.h"
#include "probe_parse_host.h"
#include "thread.h"
static struct thread me;
__thread struct thread *host_current = &me;
}

namespace
{

struct Filter : testing::Test {
	probe_def *def = nullptr;
	u8 event[64] = {};

	void SetUp() override
	{
		char line[] = "p vfs_read s8=\\0:s8 u8=\\0:u8 s32=\\0:s32 x32=\\0:x32 s64=\\0:s64 "
			      "u64=\\0:u64";
		probe_error error{};

		ASSERT_EQ(probe_parse(line, &probe_host_names, &def, &error), 0);
		free(error.command);
		me.pid = 7;
		set(0, -2, 1);
		set(1, 'A', 1);
		set(2, -2, 4);
		set(3, 0xfffffff0, 4);
		set(4, -2, 8);
		set(5, -2, 8);
	}
	void TearDown() override { free(def); }
	void set(int arg, long value, size_t size)
	{
		memcpy(event + def->arg[arg].offset, &value, size);
	}
	/* 1: the event matches, 0: it does not, -1: the filter is refused. */
	int match(const char *text, const char **why, unsigned *column)
	{
		event_filter *filter;
		int err = event_filter_parse(text, def, &filter, why, column),
		    is = err ? -1 : event_filter_match(filter, event);

		free(filter);
		return is;
	}
};

TEST_F(Filter, a_number_is_cast_to_the_fields_type)
{
	const struct {
		const char *text;
		bool matches;
	} filters[] = {
		{"s32 == -2", true},
		{"s32 == 0xfffffffe", true},
		{"s32 == 0x1fffffffe", true},
		{"s32 < 0xfffffff0", false},
		{"s32 > 0xfffffff0", true},
		{"s32 & 0x100000000", false},
		{"s8 == 254", true},
		{"s8 < 0x80", false},
		{"s8 >= 0x80", true},
		{"u8 == 65", true},
		{"u8 == 0x141", true},
		{"u8 != 0x141", false},
		{"u8 < 0x100", false},
		{"u8 <= 255", true},
		{"x32 == 0x1fffffff0", true},
		{"x32 < 0xfffffff1", true},
		{"s64 == -2", true},
		{"s64 < 0", true},
		{"u64 == 0xfffffffffffffffe", true},
		{"u64 > 9", true},
		{"common_pid == 7", true},
		{"common_pid == 0x100000007", true},
	};
	const char *why;
	unsigned column;

	for (const auto &f : filters)
		EXPECT_EQ(match(f.text, &why, &column), f.matches) << f.text;
}

TEST_F(Filter, a_number_that_the_type_of_its_field_does_not_know_is_refused)
{
	const char *why;
	unsigned column;

	for (const char *text :
	     {"x32 == -1", "x32 < -1", " u8 != -1", "u64 == -2", "__probe_ip > -1",
	      "s64 == 0xffffffffffffffff", "s8 == 0x8000000000000000", "u64 == 0x10000000000000000",
	      "s8 == 1x"}) {
		why = "it is accepted";
		EXPECT_EQ(match(text, &why, &column), -1) << text;
		EXPECT_STREQ(why, "Illegal integer value") << text;
		EXPECT_EQ(column, (unsigned)(strpbrk(text + 4, "-0123456789") - text)) << text;
	}
}

} // namespace
