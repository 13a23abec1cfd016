// needs: kern/ftrace/core/records.c kern/ftrace/tests/fake_kernel.c kern/ftrace/core/table.c
// needs: kern/ftrace/core/set.c kern/ftrace/core/ftrace.c -Ikern/ftrace/tests/host
// needs: -Ikern/ftrace/tests/host/riscv64 -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul
/* Records: found by address, and compared with text at boot. */
#include <csignal>
#include <sys/mman.h>
static const int READ = PROT_READ, WRITE = PROT_WRITE, NONE = PROT_NONE;
#undef PROT_READ /* the kernel's own macros have the same values */
#undef PROT_WRITE
#undef PROT_EXEC
#include "fake_kernel.h"
#include "asm-ftrace/hook.h"
#include <cstring>
#include <sys/time.h>

struct records : testing::Test {
	void SetUp() override
	{
		/* seconds of a processor: a faulty search may never end */
		static const struct itimerval limit = {{}, {10, 0}};

		fake_reset();
		setitimer(ITIMER_VIRTUAL, &limit, nullptr);
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

TEST_F(records, an_address_far_from_text_is_compared_as_a_whole)
{
	struct dyn_ftrace *first = site(64);
	unsigned long ip = KERNEL_BASE + 64, far = 1ul << 32;

	site(128);
	for (unsigned long below : {0ul, KERNEL_BASE - 4}) {
		EXPECT_EQ(nullptr, lookup_rec(below));
		EXPECT_EQ(first, lookup_rec_range(below, ip + 1));
	}
	for (unsigned long above : {ip + far, ip + 3 * far, ip - far}) {
		EXPECT_EQ(nullptr, lookup_rec(above));
		EXPECT_EQ(nullptr, lookup_rec_range(above, ~0ul));
	}
}

/* Records that cannot be read, until a search reads one: then its whole page can be. */
static struct large {
	static const u32 COUNT = 1 << 20;
	static const size_t SIZE = COUNT * sizeof(struct dyn_ftrace), PAGE = 4096;
	char *start;
	size_t pages; /* that can be read now */
} large;

static void page_is_read(int sig, siginfo_t *info, void *)
{
	size_t at = (char *)info->si_addr - large.start;

	if (at < large.SIZE)
		mprotect(large.start + at / large.PAGE * large.PAGE, large.PAGE, READ);
	else
		signal(sig, SIG_DFL);
	large.pages++;
}

TEST_F(records, a_search_of_a_million_records_reads_few_of_them)
{
	struct sigaction act = {}, was;
	struct ftrace_table table = {};

	large.start =
		(char *)mmap(nullptr, large.SIZE, READ | WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)large.start);
	table.records = (struct dyn_ftrace *)large.start;
	table.end = table.records + large.COUNT;
	for (u32 i = 0; i < large.COUNT; i++)
		table.records[i].offset = 64 * (i + 1);
	ftrace_kernel_table.next = &table;
	act.sa_sigaction = page_is_read;
	act.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &act, &was);
	for (u32 i = 0; i < 64; i++) {
		u32 n = i * 0x9e3779b1 % large.COUNT;

		mprotect(large.start, large.SIZE, NONE);
		large.pages = 0;
		struct dyn_ftrace *found = lookup_rec(KERNEL_BASE + 64ul * (n + 1));
		EXPECT_EQ(table.records + n, found);
		ASSERT_GE(64u, large.pages) << "pages of records were read, to find record " << n;
	}
	sigaction(SIGSEGV, &was, nullptr);
	ftrace_kernel_table.next = nullptr;
	munmap(large.start, large.SIZE);
}

TEST_F(records, an_empty_table_has_nothing)
{
	EXPECT_EQ(nullptr, lookup_rec(KERNEL_BASE));
	EXPECT_EQ(nullptr, lookup_rec_range(0, ~0ul));
}

TEST_F(records, a_second_table_is_searched_and_numbered_after_the_first)
{
	struct dyn_ftrace *first = site(64), *last = site(128);
	struct ftrace_table *table = fake_table();
	struct dyn_ftrace *more = site(FAKE_MORE - KERNEL_BASE + 64),
			  *most = site(FAKE_MORE - KERNEL_BASE + 128);

	EXPECT_EQ(more, lookup_rec(FAKE_MORE + 64));
	EXPECT_EQ(nullptr, lookup_rec(FAKE_MORE + 68));
	EXPECT_EQ(last, lookup_rec_range(KERNEL_BASE + 65, ~0ul));
	EXPECT_EQ(more, lookup_rec_range(KERNEL_BASE + 129, ~0ul));
	EXPECT_EQ(4u, ftrace_total());
	struct dyn_ftrace *all[] = {first, last, more, most, nullptr};
	for (u32 i = 0; i < 5; i++)
		EXPECT_EQ(all[i], ftrace_record(i)) << i;
	for (u32 i = 0; i < 4; i++)
		EXPECT_EQ(i, ftrace_number(all[i]));
	u32 seen = 0;
	for_each_ftrace_rec(rec)
		EXPECT_EQ(all[seen++], rec);
	EXPECT_EQ(4u, seen);
	EXPECT_EQ(table, ftrace_table_of(most));
	EXPECT_EQ(&ftrace_kernel_table, ftrace_table_of(first));
}

TEST_F(records, what_is_no_record_has_no_table_and_no_number_and_goes_into_no_set)
{
	struct dyn_ftrace *first = site(64), *last = site(128), elsewhere = *first;
	struct ftrace_table *table = fake_table();
	struct dyn_ftrace *removed = site(FAKE_MORE - KERNEL_BASE + 64);
	struct ftrace_set *set = (struct ftrace_set *)calloc(1, sizeof(*set) + sizeof(u64));

	set->records = ftrace_total();
	EXPECT_EQ(table, ftrace_table_of(removed));
	ftrace_kernel_table.next = nullptr;
	struct dyn_ftrace *const nothing = nullptr;

	for (const struct dyn_ftrace *none : {nothing, &elsewhere, removed, last + 1}) {
		EXPECT_EQ(nullptr, ftrace_table_of(none));
		EXPECT_EQ(FTRACE_NO_NUMBER, ftrace_number(none));
		EXPECT_EQ(nullptr, ftrace_record(ftrace_number(none)));
		EXPECT_EQ(-ENOENT, ftrace_set_put(set, none, true));
		EXPECT_EQ(-ENOENT, ftrace_set_put(set, none, false));
		EXPECT_FALSE(ftrace_set_has(set, none));
	}
	EXPECT_EQ(0u, set->count);
	EXPECT_EQ(0, ftrace_set_put(set, last, true));
	EXPECT_TRUE(ftrace_set_has(set, last));
	EXPECT_EQ(1u, set->count);
	free(set);
}

TEST_F(records, a_record_must_lie_in_its_own_tables_text)
{
	struct ftrace_table *table = fake_table();
	struct dyn_ftrace *kernels = site(64), *own = site(FAKE_MORE - KERNEL_BASE + 64);

	ftrace_check_records(*table);
	EXPECT_EQ(FTRACE_FL_DISABLED, kernels->flags);
	EXPECT_EQ(0, own->flags);
}

TEST_F(records, a_sound_table_is_accepted)
{
	site(64), site(128);
	ftrace_check_records(ftrace_kernel_table);
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
	ftrace_check_records(ftrace_kernel_table);
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
