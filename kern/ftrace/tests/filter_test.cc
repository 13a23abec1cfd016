// needs: kern/ftrace/filters/filter.c kern/ftrace/files/functions.c kern/ftrace/ops/ops.c
// needs: kern/ftrace/core/hash.c kern/base/glob.c kern/ftrace/core/dynamic.c
// needs: kern/ftrace/core/records.c kern/ftrace/core/patch.c kern/ftrace/tests/fake_kernel.c
// needs: kern/ftrace/tests/fake_list.c kern/ftrace/core/table.c kern/ftrace/core/set.c
// needs: kern/ftrace/core/ftrace.c -Ikern/ftrace/tests/host -Ikern/ftrace/tests/host/riscv64
// needs: -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul
/* Ops and filters, down to the words in text. */
#include "fake_kernel.h"
#include "asm-ftrace/hook.h"
#include "asm-ftrace/regs.h"
#include <cstring>

static void nothing(unsigned long, unsigned long, struct ftrace_ops *, struct ftrace_regs *)
{
}

struct filter : testing::Test {
	struct ftrace_ops a = op(), b = op();

	static struct ftrace_ops op(u32 flags = FTRACE_OPS_FL_RECURSION)
	{
		struct ftrace_ops o = {};
		o.func = nothing;
		o.flags = flags;
		o.slot = -1;
		return o;
	}
	void SetUp() override
	{
		fake_reset();
		for (const char *name :
		     {"schedule", "mutex_lock", "mutex_unlock", "twin", "twin", "last"})
			add(name);
	}
	void TearDown() override
	{
		for (struct ftrace_ops *o : {&a, &b, &global_ops}) {
			unregister_ftrace_function(o);
			ftrace_set_filter(o, "", 0, true, false);
			ftrace_set_filter(o, "", 0, true, true);
		}
		EXPECT_EQ("nnnnnn", text());
	}
	void add(const char *name)
	{
		static u32 at;
		at = ftrace_record_count ? at + 64 : 64;
		fake_scribble(KERNEL_BASE + at, INSN_NOP);
		fake_record(at, name);
	}
	/* Add a function at this offset in text. */
	static struct dyn_ftrace *add_far(const char *name, u32 offset)
	{
		fake_scribble(KERNEL_BASE + offset, INSN_NOP);
		return fake_record(offset, name);
	}
	/* Each site: n (nop), l (the list), 0.. (the stub of that slot), ? (something else). */
	static std::string text()
	{
		std::string s;
		for_each_ftrace_rec(rec) {
			unsigned long ip = ftrace_ip(rec), target, n;
			u32 word = fake_word(ip);
			if (word == INSN_NOP)
				s += 'n';
			else if (!insn_call_target(ip, word, HOOK_LINK, &target))
				s += '?';
			else if ((n = (target - (target < FAKE_ISLAND ? FAKE_STUBS
						 : target < FAKE_MORE ? FAKE_ISLAND
								      : FAKE_MORE_STUBS)) /
				      FTRACE_STUB_SIZE) == 0)
				s += 'l';
			else
				s += (char)('0' + n - 1);
		}
		return s;
	}
	static int set(struct ftrace_ops &o, const char *glob, bool reset = true,
		       bool notrace_list = false)
	{
		return ftrace_set_filter(&o, glob, strlen(glob), reset, notrace_list);
	}
};

TEST_F(filter, without_a_filter_everything_is_traced)
{
	EXPECT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ("000000", text());
	EXPECT_EQ(0, unregister_ftrace_function(&a));
	EXPECT_EQ("nnnnnn", text());
}

TEST_F(filter, names_globs_numbers_and_twins)
{
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ(0, set(a, "mutex_lock"));
	EXPECT_EQ("n0nnnn", text());
	EXPECT_EQ(0, set(a, "mutex*", false));
	EXPECT_EQ("n00nnn", text());
	EXPECT_EQ(0, set(a, "!mutex_lock", false));
	EXPECT_EQ("nn0nnn", text());
	EXPECT_EQ(0, set(a, "twin"));
	EXPECT_EQ("nnn00n", text());
	EXPECT_EQ(0, set(a, "6"));
	EXPECT_EQ("nnnnn0", text());
	EXPECT_EQ(0, set(a, "!6", false));
	EXPECT_EQ("000000", text()) << "an empty filter selects every function";
}

TEST_F(filter, who_goes_by_a_filter_may_refuse_a_change)
{
	ASSERT_EQ(0, set(a, "last"));
	a.filter.changed = [](struct ftrace_filter *) { return -ENOMEM; };
	EXPECT_EQ(-ENOMEM, set(a, "schedule"));
	a.filter.changed = [](struct ftrace_filter *) { return 0; };
	int graces = fake_graces;
	EXPECT_EQ(0, set(a, "last"));
	EXPECT_GT(fake_graces, graces) << "the old hash must be freed after a grace period";
	a.filter.changed = nullptr;
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ("nnnnn0", text());
}

TEST_F(filter, what_names_nothing_is_refused_and_changes_nothing)
{
	ASSERT_EQ(0, set(a, "last"));
	ASSERT_EQ(0, register_ftrace_function(&a));
	for (const char *word :
	     {"no_such", "0", "7", "99999999999999999999", "12x", "!", "!no_such", "last:traceoff"})
		EXPECT_EQ(-EINVAL, set(a, word)) << word;
	EXPECT_EQ("nnnnn0", text());
}

TEST_F(filter, notrace_wins)
{
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ(0, set(a, "mutex_*"));
	EXPECT_EQ(0, set(a, "*_lock", true, true));
	EXPECT_EQ("nn0nnn", text());
	EXPECT_EQ(2u, ftrace_filter_count(&a.filter, false));
	EXPECT_EQ(1u, ftrace_filter_count(&a.filter, true));
}

TEST_F(filter, ops_on_different_functions_keep_their_own_stubs)
{
	ASSERT_EQ(0, set(a, "schedule"));
	ASSERT_EQ(0, set(b, "last"));
	ASSERT_EQ(0, register_ftrace_function(&a));
	ASSERT_EQ(0, register_ftrace_function(&b));
	EXPECT_EQ("0nnnn1", text());
}

TEST_F(filter, a_function_of_two_ops_calls_the_list_and_then_the_one_that_stays)
{
	ASSERT_EQ(0, set(b, "twin"));
	ASSERT_EQ(0, register_ftrace_function(&a));
	ASSERT_EQ(0, register_ftrace_function(&b));
	EXPECT_EQ("000ll0", text());
	EXPECT_EQ(2, ftrace_records[3].count);
	ASSERT_EQ(0, unregister_ftrace_function(&a));
	EXPECT_EQ("nnn11n", text());
	EXPECT_EQ(1, ftrace_records[3].count);
}

TEST_F(filter, each_change_is_one_batch)
{
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ(1, fake_syncs);
	ASSERT_EQ(0, set(a, "mutex_*"));
	EXPECT_EQ(2, fake_syncs);
	ASSERT_EQ(0, unregister_ftrace_function(&a));
	EXPECT_EQ(3, fake_syncs);
	EXPECT_GE(fake_graces, 2);
}

TEST_F(filter, only_one_op_that_changes_pc_has_a_function)
{
	a = op(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	b = op(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	ASSERT_EQ(0, set(a, "mutex_*"));
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ(-EBUSY, register_ftrace_function(&b));
	EXPECT_EQ("n00nnn", text());
	ASSERT_EQ(0, set(b, "last"));
	EXPECT_EQ(0, register_ftrace_function(&b));
	EXPECT_EQ(-EBUSY, set(b, "mutex_lock", false));
	EXPECT_EQ("n00nn1", text());
	ASSERT_EQ(0, unregister_ftrace_function(&a));
	EXPECT_EQ(0, set(b, "mutex_lock", false));
	EXPECT_EQ("n1nnn1", text());
}

TEST_F(filter, a_function_of_the_notrace_list_clashes_when_it_leaves_that_list)
{
	a = op(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	b = op(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	ASSERT_EQ(0, set(a, "mutex_lock"));
	ASSERT_EQ(0, register_ftrace_function(&a));
	ASSERT_EQ(0, set(b, "mutex_*"));
	ASSERT_EQ(0, set(b, "mutex_lock", true, true));
	EXPECT_EQ(0, register_ftrace_function(&b))
		<< "mutex_lock is in the op's notrace list, so the op does not select it";
	EXPECT_EQ("n01nnn", text());
	EXPECT_EQ(-EBUSY, set(b, "", true, true))
		<< "without the notrace list the op would select mutex_lock, which another op has";
	EXPECT_EQ("n01nnn", text());
}

TEST_F(filter, a_disabled_record_stays_as_it_is)
{
	struct dyn_ftrace *rec = &ftrace_records[1];
	a = op(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	rec->flags = FTRACE_FL_DISABLED;
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ("0n0000", text());
	EXPECT_EQ(FTRACE_FL_DISABLED, rec->flags);
	EXPECT_EQ(0, rec->count);
	ASSERT_EQ(0, unregister_ftrace_function(&a));
	EXPECT_EQ(FTRACE_FL_DISABLED, rec->flags);
}

/* What the callbacks were given, in their order. */
struct given {
	unsigned long ip, parent_ip;
	struct ftrace_ops *op;
	struct ftrace_regs *regs;
};
static std::vector<given> callbacks;

static void replaces_link(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			  struct ftrace_regs *regs)
{
	callbacks.push_back({ip, parent_ip, op, regs});
	regs->link += 0x100;
}

TEST_F(filter, the_list_gives_every_op_the_same_arguments)
{
	struct ftrace_regs regs = {};
	unsigned long ip = ftrace_ip(&ftrace_records[1]), parent = KERNEL_BASE + 0x1234;
	a.func = b.func = replaces_link;
	ASSERT_EQ(0, register_ftrace_function(&a));
	ASSERT_EQ(0, register_ftrace_function(&b));
	regs.pc = ip + 4;
	regs.link = parent;
	callbacks.clear();
	ftrace_slots[0].func(ip, parent, nullptr, &regs);
	ASSERT_EQ(2u, callbacks.size());
	EXPECT_NE(callbacks[0].op, callbacks[1].op);
	for (const given &g : callbacks) {
		EXPECT_EQ(ip, g.ip);
		EXPECT_EQ(parent, g.parent_ip) << "the op before may have replaced regs->link";
		EXPECT_EQ(&regs, g.regs);
	}
	EXPECT_EQ(ip + 4, regs.pc);
}

static void calls_the_list(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			   struct ftrace_regs *regs)
{
	callbacks.push_back({ip, parent_ip, op, regs});
	if (callbacks.size() < 4)
		ftrace_slots[0].func(ip, parent_ip, nullptr, regs);
}

TEST_F(filter, the_list_guards_an_op_that_does_not_guard_itself)
{
	struct ftrace_regs regs = {};
	unsigned long ip = ftrace_ip(&ftrace_records[1]);
	a = op(0);
	a.func = calls_the_list;
	ASSERT_EQ(0, register_ftrace_function(&a));
	callbacks.clear();
	ftrace_slots[0].func(ip, ip, nullptr, &regs);
	EXPECT_EQ(1u, callbacks.size())
		<< "the callback made a traced call, and was called for it: ftrace_op_func(op)";
}

TEST_F(filter, one_function_is_added_and_removed)
{
	struct dyn_ftrace *rec = ftrace_records;
	ASSERT_EQ(0, ftrace_select_one(&a, &rec[1], true));
	EXPECT_EQ("n0nnnn", text());
	ASSERT_EQ(0, ftrace_select_one(&a, &rec[2], true));
	ASSERT_EQ(0, ftrace_select_one(&a, &rec[2], true)) << "it is selected already";
	EXPECT_EQ("n00nnn", text());
	EXPECT_EQ(2u, ftrace_filter_count(&a.filter, false));
	ASSERT_EQ(0, ftrace_select_one(&a, &rec[1], false));
	EXPECT_EQ("nn0nnn", text());
	ASSERT_EQ(0, ftrace_select_one(&a, &rec[2], false));
	EXPECT_EQ("nnnnnn", text());
	EXPECT_EQ(-1, a.slot) << "an op that selects nothing is not registered";
}

TEST_F(filter, one_function_that_is_refused_does_not_stay_in_the_filter)
{
	struct dyn_ftrace *rec = ftrace_records;
	a = op(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	b = op(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	ASSERT_EQ(0, set(b, "mutex_lock"));
	ASSERT_EQ(0, register_ftrace_function(&b));
	EXPECT_EQ(-EBUSY, ftrace_select_one(&a, &rec[1], true)) << "as the first";
	EXPECT_EQ(-1, a.slot);
	ASSERT_EQ(0, ftrace_select_one(&a, &rec[2], true));
	EXPECT_EQ(-EBUSY, ftrace_select_one(&a, &rec[1], true)) << "beside another";
	EXPECT_EQ("n01nnn", text());
}

TEST_F(filter, registering_twice_is_busy)
{
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ(-EBUSY, register_ftrace_function(&a));
	ASSERT_EQ(0, unregister_ftrace_function(&a));
	EXPECT_EQ(-ENOENT, unregister_ftrace_function(&a));
}

TEST_F(filter, one_op_more_than_there_are_stubs_is_refused)
{
	std::vector<struct ftrace_ops> many(FTRACE_OPS_MAX, op());
	for (auto &o : many)
		ASSERT_EQ(0, register_ftrace_function(&o));
	EXPECT_EQ(-ENOSPC, register_ftrace_function(&a));
	EXPECT_EQ(-1, a.slot) << "there is no slot for it";
	for (auto &o : many)
		ASSERT_EQ(0, unregister_ftrace_function(&o));
}

TEST_F(filter, a_corrupted_site_is_refused_named_and_ends_new_tracing)
{
	unsigned long ip = ftrace_ip(&ftrace_records[1]);
	fake_scribble(ip, 0x12345678);
	EXPECT_EQ(-ENODEV, register_ftrace_function(&a));
	EXPECT_EQ("n?nnnn", text());
	EXPECT_EQ(0x12345678u, fake_word(ip));
	EXPECT_NE(nullptr, strstr(fake_console, "expected 00000013")) << fake_console;
	EXPECT_NE(nullptr, strstr(fake_console, "found    12345678"));
	EXPECT_TRUE(ftrace_disabled);
	fake_scribble(ip, INSN_NOP);
	EXPECT_EQ(-ENODEV, register_ftrace_function(&a));
	EXPECT_EQ("nnnnnn", text());
}

TEST_F(filter, a_site_corrupted_while_traced_leaves_the_others_restored)
{
	unsigned long ip = ftrace_ip(&ftrace_records[1]);
	ASSERT_EQ(0, register_ftrace_function(&a));
	fake_scribble(ip, 0x12345678);
	EXPECT_EQ(0, unregister_ftrace_function(&a));
	EXPECT_EQ("n?nnnn", text());
	fake_scribble(ip, INSN_NOP);
}

TEST_F(filter, a_corrupted_site_of_two_ops_refuses_the_second)
{
	unsigned long ip = ftrace_ip(&ftrace_records[1]);
	ASSERT_EQ(0, register_ftrace_function(&a));
	fake_scribble(ip, 0x12345678);
	EXPECT_EQ(-ENODEV, register_ftrace_function(&b))
		<< "change_shared must return the error of ftrace_switch";
	EXPECT_EQ(-1, b.slot);
	EXPECT_EQ("0?0000", text());
	fake_scribble(ip, INSN_NOP);
}

TEST_F(filter, random_ops_and_filters_never_disagree_with_text)
{
	const char *globs[] = {"*", "mutex_*", "schedule", "!twin", "last", "!*", "twin", "3"};
	srand(11);
	std::vector<struct ftrace_ops> ops(4, op());
	std::vector<bool> on(4);
	for (int step = 0; step < 3000; step++) {
		int i = rand() % 4;
		if (rand() % 3) {
			ASSERT_EQ(0, set(ops[i], globs[rand() % 8], rand() % 2, rand() % 4 == 0));
		} else if (on[i]) {
			ASSERT_EQ(0, unregister_ftrace_function(&ops[i]));
			on[i] = false;
		} else {
			ASSERT_EQ(0, register_ftrace_function(&ops[i]));
			on[i] = true;
		}
		std::string want;
		for (u32 r = 0; r < ftrace_record_count; r++) {
			std::vector<int> who;
			for (int j = 0; j < 4; j++) {
				const struct dyn_ftrace *rec = &ftrace_records[r];
				bool in = !ftrace_filter_count(&ops[j].filter, false) ||
					  ftrace_filter_has(&ops[j].filter, rec, false);
				if (on[j] && in && !ftrace_filter_has(&ops[j].filter, rec, true))
					who.push_back(ops[j].slot);
			}
			want += who.empty() ? 'n' : who.size() > 1 ? 'l' : (char)('0' + who[0]);
		}
		ASSERT_EQ(want, text()) << "step " << step;
	}
	for (int i = 0; i < 4; i++) {
		if (on[i])
			ASSERT_EQ(0, unregister_ftrace_function(&ops[i]));
		set(ops[i], "", true);
		set(ops[i], "", true, true);
	}
}

/*
 * After six near functions there are two that only the island reaches, and one that is out of reach
 * of both.
 */
struct island : filter {
	struct dyn_ftrace *first, *second, *beyond;

	void SetUp() override
	{
		filter::SetUp();
		fake_island();
		first = add_far("far_first", 0x200000);
		second = add_far("far_second", 0x37f000);
		beyond = add_far("far_beyond", 0x390000);
		beyond->flags = FTRACE_FL_DISABLED; /* by recordmcount */
	}
	void TearDown() override
	{
		for (struct ftrace_ops *o : {&a, &b}) {
			unregister_ftrace_function(o);
			ftrace_set_filter(o, "", 0, true, false);
		}
		EXPECT_EQ("nnnnnnnnn", text());
		EXPECT_STREQ("", fake_console);
		fake_reset();
	}
	unsigned long target(const struct dyn_ftrace *rec)
	{
		unsigned long t = 0;
		insn_call_target(ftrace_ip(rec), fake_word(ftrace_ip(rec)), HOOK_LINK, &t);
		return t;
	}
};

TEST_F(island, far_sites_call_the_islands_stubs_and_near_ones_the_tracers)
{
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ("00000000n", text());
	EXPECT_EQ(FAKE_STUBS + 12, target(&ftrace_records[5]));
	EXPECT_EQ(FAKE_ISLAND + 12, target(first));
	EXPECT_EQ(FAKE_ISLAND + 12, target(second));
	EXPECT_EQ(fake_word(ftrace_ip(first)), ftrace_expected(first));
}

TEST_F(island, a_second_op_makes_it_the_islands_list_and_leaves_it_again)
{
	ASSERT_EQ(0, set(b, "*_first"));
	ASSERT_EQ(0, register_ftrace_function(&a));
	ASSERT_EQ(0, register_ftrace_function(&b));
	EXPECT_EQ("000000l0n", text());
	EXPECT_EQ(FAKE_ISLAND, target(first));
	EXPECT_EQ(fake_word(ftrace_ip(first)), ftrace_expected(first));
	EXPECT_EQ(0, unregister_ftrace_function(&a));
	EXPECT_EQ("nnnnnn1nn", text());
	EXPECT_EQ(FAKE_ISLAND + 24, target(first));
}

TEST_F(island, what_is_beyond_all_stubs_is_never_written)
{
	EXPECT_EQ(-EINVAL, set(a, "far_beyond"));
	EXPECT_EQ(0, set(a, "far_*"));
	EXPECT_EQ(2u, ftrace_filter_count(&a.filter, false));
	EXPECT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ("nnnnnn00n", text());
	EXPECT_EQ(0, set(a, ""));
	EXPECT_EQ("00000000n", text());
}

TEST_F(island, a_foreign_word_behind_an_island_is_refused_and_told)
{
	fake_scribble(ftrace_ip(second), 0x12345678);
	EXPECT_EQ(-ENODEV, register_ftrace_function(&a));
	EXPECT_NE(nullptr, strstr(fake_console, "found    12345678"));
	EXPECT_EQ("nnnnnnn?n", text());
	fake_scribble(ftrace_ip(second), INSN_NOP);
	fake_console[0] = 0;
}

/*
 * Text that was loaded after the kernel's, with stubs of its own and a name that the kernel has
 * too.
 */
struct more : filter {
	struct ftrace_table *table;

	void SetUp() override
	{
		filter::SetUp();
		table = fake_table();
		add_far("twin", FAKE_MORE - KERNEL_BASE + 64);
		add_far("newcomer", FAKE_MORE - KERNEL_BASE + 128);
	}
	void TearDown() override
	{
		for (struct ftrace_ops *o : {&a, &b}) {
			unregister_ftrace_function(o);
			ftrace_filter_free(&o->filter);
		}
		EXPECT_EQ("nnnnnnnn", text());
		EXPECT_STREQ("", fake_console);
		fake_reset();
	}
};

TEST_F(more, an_op_has_both_tables_sites_in_one_batch)
{
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ("00000000", text());
	EXPECT_EQ(1, fake_syncs);
	ASSERT_EQ(0, set(b, "newcomer"));
	ASSERT_EQ(0, register_ftrace_function(&b));
	EXPECT_EQ("0000000l", text());
	EXPECT_EQ(fake_word(ftrace_ip(&table->records[1])), ftrace_expected(&table->records[1]));
	ASSERT_EQ(0, unregister_ftrace_function(&a));
	EXPECT_EQ("nnnnnnn1", text());
}

TEST_F(more, names_globs_and_numbers_go_through_both)
{
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ(0, set(a, "twin"));
	EXPECT_EQ("nnn00n0n", text());
	EXPECT_EQ(0, set(a, "*e*"));
	EXPECT_EQ("000nnnn0", text());
	EXPECT_EQ(0, set(a, "8"));
	EXPECT_EQ("nnnnnnn0", text());
	EXPECT_EQ(-EINVAL, set(a, "9"));
	EXPECT_EQ(0, set(a, "new*", true, true));
	EXPECT_EQ("nnnnnnnn", text());
	EXPECT_EQ(0, set(a, "", true));
	EXPECT_EQ("0000000n", text());
}

TEST_F(more, a_filters_file_lists_both)
{
	ASSERT_EQ(0, set(a, "*t*"));
	fake_list(&a.filter);
	EXPECT_STREQ("mutex_lock\nmutex_unlock\ntwin\ntwin\nlast\ntwin\n", fake_console);
	fake_console[0] = 0;
}

TEST_F(more, what_comes_while_a_set_is_edited_is_not_in_it)
{
	fake_reset();
	add("schedule");
	struct ftrace_set *set = ftrace_set_new();
	fake_table();
	struct dyn_ftrace *rec = add_far("newcomer", FAKE_MORE - KERNEL_BASE + 64);
	ftrace_set_put(set, rec, true);
	EXPECT_FALSE(ftrace_set_has(set, rec));
	EXPECT_EQ(0u, set->count);
	ftrace_set_free(set);
	filter::SetUp();
	fake_table();
	add_far("twin", FAKE_MORE - KERNEL_BASE + 64);
	add_far("newcomer", FAKE_MORE - KERNEL_BASE + 128);
}

TEST_F(more, one_function_of_the_second_table_is_added_and_removed)
{
	struct dyn_ftrace *rec = lookup_rec(FAKE_MORE + 128);
	ASSERT_EQ(0, ftrace_select_one(&a, ftrace_records, true));
	ASSERT_EQ(0, ftrace_select_one(&a, rec, true));
	EXPECT_EQ("0nnnnnn0", text().substr(0, 8)) << text();
	ASSERT_EQ(0, ftrace_select_one(&a, rec, false));
	EXPECT_EQ("0nnnnnnn", text().substr(0, 8)) << text();
}

TEST_F(more, only_one_op_that_changes_pc_has_a_function_of_the_second_table)
{
	a = op(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	b = op(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	ASSERT_EQ(0, set(a, "newcomer"));
	ASSERT_EQ(0, set(b, "newcomer"));
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ(-EBUSY, register_ftrace_function(&b));
}
