// needs: kern/ftrace/core/records.c kern/ftrace/tests/fake_kernel.c kern/ftrace/core/ftrace.c -Ikern/ftrace/tests/host -Ikern/ftrace/tests/host/riscv64 -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul -fno-pie -no-pie
/* Records: found by address, and compared with text at boot. */
#include "fake_kernel.h"
#include "asm-ftrace/hook.h"
#include <cstring>
#include <unistd.h>

struct records : testing::Test {
	void SetUp() override
	{
		fake_reset();
		alarm(10); /* a faulty search may never end */
	}
	struct dyn_ftrace *site(u32 offset, u32 insn = INSN_NOP)
	{
		fake_scribble(KERNEL_BASE + offset, insn);
		return fake_record(offset, "f");
	}
};

TEST_F(records, a_record_is_eight_bytes)
{
	EXPECT_EQ(8u, sizeof(struct dyn_ftrace));
}

TEST_F(records, lookup_finds_each_site_and_nothing_between)
{
	std::vector<struct dyn_ftrace *> all;
	for (u32 i = 1; i <= 1000; i++)
		all.push_back(site(i * 64));
	for (u32 i = 0; i < 1000; i++) {
		unsigned long ip = KERNEL_BASE + (i + 1) * 64;
		ASSERT_EQ(all[i], lookup_rec(ip));
		ASSERT_EQ(nullptr, lookup_rec(ip - 4));
		ASSERT_EQ(nullptr, lookup_rec(ip + 4));
		ASSERT_EQ(all[i], lookup_rec_range(ip - 32, ip + 32));
		ASSERT_EQ(nullptr, lookup_rec_range(ip + 4, ip + 64));
	}
	EXPECT_EQ(nullptr, lookup_rec(0));
	EXPECT_EQ(nullptr, lookup_rec(~0ul));
}

TEST_F(records, an_empty_table_has_nothing)
{
	EXPECT_EQ(nullptr, lookup_rec(KERNEL_BASE));
	EXPECT_EQ(nullptr, lookup_rec_range(0, ~0ul));
}

TEST_F(records, a_sound_table_is_accepted)
{
	site(64), site(128);
	ftrace_check_records();
	EXPECT_EQ(0, ftrace_records[0].flags | ftrace_records[1].flags);
	EXPECT_NE(nullptr, strstr(fake_console, "2 call sites, 16 bytes"));
}

TEST_F(records, unsorted_twice_misaligned_outside_and_foreign_are_disabled_and_named)
{
	site(128);
	site(128);
	site(132);
	fake_record(142, "misaligned");
	site(256, 0x12345678);
	fake_record(FAKE_TEXT_SIZE + 64, "outside");
	ftrace_check_records();
	int want[] = {0,
		      FTRACE_FL_DISABLED,
		      0,
		      FTRACE_FL_DISABLED,
		      FTRACE_FL_DISABLED,
		      FTRACE_FL_DISABLED};
	for (int i = 0; i < 6; i++)
		EXPECT_EQ(want[i], ftrace_records[i].flags) << "record " << i;
	EXPECT_NE(nullptr, strstr(fake_console, "4 faulty"));
}
