/*
 * Tests the promises of modules/ for both architectures: a module's call sites are
 * added and removed while ops trace; trampolines are followed. The including test
 * names the assembler to compare trampolines with.
 */
#include "fake_kernel.h"
#include "asm-ftrace/hook.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
extern "C" {
#define private private_ /* names in C, keywords here */
#define export export_
#include "cpu.h"
#include "ftrace_module.h"
#include "hash.h"
#include "module_records.h"
#include "shadow.h"
#include "trampoline.h"
#undef private
#undef export

unsigned nr_cpus = 1;
static struct thread idle_thread, other_thread;
struct cpu cpus[NR_CPUS];
void threads_for_each(void (*fn)(struct thread *t, void *arg), void *arg)
{
	fn(&other_thread, arg);
}
static int graph_told;
static int (*at_graph)(void); /* or NULL */
int ftrace_graph_new_table(void)
{
	return graph_told++, at_graph ? at_graph() : 0;
}
bool fgraph_user_within(unsigned long start, unsigned long end)
{
	return false;
}
static int profile_told;
void profile_forget_modules(void)
{
	profile_told++;
}
}

static std::map<unsigned long, const char *> names;
static const char *name_at(unsigned long addr)
{
	auto found = names.find(addr);
	return found == names.end() ? nullptr : found->second;
}

#define NEAR (KERNEL_BASE + 0xc0000)
#define FAR FAKE_FAR

static void nothing(unsigned long, unsigned long, struct ftrace_ops *, struct ftrace_regs *)
{
}

/* A module at @base: functions of 64 bytes, and the room for trampolines after them. */
struct fake_module {
	struct module m = {};
	std::vector<unsigned long> entries;
	unsigned long room;

	fake_module(const char *name, unsigned long base, std::vector<const char *> functions)
	{
		snprintf(m.name, sizeof(m.name), "%s", name);
		m.base = base;
		room = base + 64 * functions.size();
		m.end[MODULE_TEXT] = base + 4096;
		fake_text_writable(true);
		for (size_t i = 0; i < functions.size(); i++) {
			unsigned long f = base + 64 * i;
			entries.push_back(f);
			names[f + HOOK_ENTRY_OFFSET] = functions[i];
			for (unsigned at = 0; at <= HOOK_ENTRY_OFFSET; at += 4)
				*(u32 *)(f + at) = INSN_NOP;
		}
		for (unsigned long at = room; at < room + ftrace_module_room(); at += 4)
			*(u32 *)at = 0;
		fake_text_writable(false);
	}
	int prepare()
	{
		fake_text_writable(true);
		int err = ftrace_module_prepare(&m, entries.data(), entries.size(), room);
		fake_text_writable(false);
		return err;
	}
	void load()
	{
		ASSERT_EQ(0, prepare());
		ftrace_module_enable(&m);
	}
	void unload()
	{
		ftrace_module_release(&m);
	}
	~fake_module()
	{
		unload();
	}
	unsigned long site(int i)
	{
		return entries[i] + HOOK_ENTRY_OFFSET;
	}
	struct dyn_ftrace *record(int i)
	{
		return lookup_rec(site(i));
	}
};

struct module_test : testing::Test {
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
		names.clear();
		fake_name = name_at;
		graph_told = profile_told = 0;
		at_graph = nullptr;
		other_thread.ftrace = idle_thread.ftrace = nullptr;
		cpus[0].idle = &idle_thread;
		u32 at = 64;
		for (const char *name : {"schedule", "write_all", "last"}) {
			fake_scribble(KERNEL_BASE + at, INSN_NOP);
			fake_record(at, name);
			at += 64;
		}
	}
	void TearDown() override
	{
		for (struct ftrace_ops *o : {&a, &b}) {
			unregister_ftrace_function(o);
			ftrace_mod_forget(&o->filter, false);
			ftrace_mod_forget(&o->filter, true);
			ftrace_filter_free(&o->filter);
		}
		EXPECT_EQ(nullptr, ftrace_hashes) << "a hash is left";
		EXPECT_EQ(nullptr, ftrace_kernel_table.next) << "a table is left";
	}
	/*
	 * Where the site leads in the end: n (nop), l (the list), 0.. (the stub of that slot), ?
	 * (something else).
	 */
	static char leads(unsigned long ip)
	{
		unsigned long target, end;
		u32 word = fake_word(ip);
		if (word == INSN_NOP)
			return 'n';
		if (!insn_call_target(ip, word, HOOK_LINK, &target))
			return '?';
		if (trampoline_target(target, (const u32 *)target, &end))
			target = end;
		if (target < FAKE_STUBS || (target - FAKE_STUBS) % FTRACE_STUB_SIZE ||
		    target >= FAKE_STUBS + FTRACE_STUBS * FTRACE_STUB_SIZE)
			return '?';
		long n = (target - FAKE_STUBS) / FTRACE_STUB_SIZE;
		return n ? (char)('0' + n - 1) : 'l';
	}
	static std::string text()
	{
		std::string s;
		for_each_ftrace_rec(rec)
			s += leads(ftrace_ip(rec));
		return s;
	}
	static int set(struct ftrace_ops &o, const char *glob, bool reset = true,
		       bool notrace_list = false)
	{
		return ftrace_set_filter(&o, glob, strlen(glob), reset, notrace_list);
	}
	/* What `echo words >` (or `>>`) a filter's file does, and what `cat` of it prints then. */
	struct open_file {
		struct fake_edit *e;
		open_file(struct ftrace_filter &filter, bool append, bool notrace_list)
		    : e(fake_open(&filter, append, notrace_list))
		{
		}
		int write(const char *words)
		{
			return fake_write(e, words);
		}
		int close()
		{
			return fake_close(e);
		}
	};
	static int echo(const char *words, struct ftrace_filter &filter, bool append = false,
			bool notrace_list = false)
	{
		open_file f(filter, append, notrace_list);
		int err = f.write(words), closed = f.close();
		return err ? err : closed;
	}
	/* What is printed now; it was not printed before. */
	static std::string said()
	{
		static size_t seen;
		if (strlen(fake_console) < seen)
			seen = 0;
		std::string s = fake_console + seen;
		seen = strlen(fake_console);
		return s;
	}
	static std::string list(struct ftrace_filter &filter)
	{
		said();
		fake_list(&filter);
		return said();
	}
};

/*
 * Each test runs for a module in reach of the kernel's stubs, and for one that needs trampolines.
 */
struct sites : module_test, testing::WithParamInterface<unsigned long> {
	unsigned long base = GetParam();
	bool far = base == FAR;
};
INSTANTIATE_TEST_SUITE_P(near_and_far, sites, testing::Values(NEAR, FAR),
			 [](const testing::TestParamInfo<unsigned long> &i) {
				 return i.param == FAR ? "far" : "near";
			 });

TEST_P(sites, an_op_without_a_filter_traces_a_module_that_comes_until_it_goes)
{
	fake_module m("random", base, {"random_read", "random_write"});
	ASSERT_EQ(0, register_ftrace_function(&a));
	m.load();
	EXPECT_EQ("00000", text());
	EXPECT_EQ(1, m.record(0)->count);
	EXPECT_EQ(fake_word(m.site(0)), ftrace_expected(m.record(0)));
	EXPECT_EQ(1, graph_told);
	m.unload();
	EXPECT_EQ("000", text());
	EXPECT_EQ(INSN_NOP, fake_word(m.site(0))) << "the site is a nop before the table goes";
	EXPECT_EQ(1, profile_told);
	EXPECT_EQ(nullptr, m.m.sites);
}

TEST_P(sites, ops_are_counted_as_if_they_had_been_registered_later)
{
	fake_module m("random", base, {"random_read", "random_write"});
	ASSERT_EQ(0, set(b, "schedule"));
	ASSERT_EQ(0, register_ftrace_function(&a));
	ASSERT_EQ(0, register_ftrace_function(&b));
	m.load();
	EXPECT_EQ("l0000", text());
	ASSERT_EQ(0, set(b, "random_*"));
	EXPECT_EQ("000ll", text());
	EXPECT_EQ(2, m.record(1)->count);
	ASSERT_EQ(0, unregister_ftrace_function(&a));
	EXPECT_EQ("nnn11", text());
	ASSERT_EQ(0, set(b, "random_read"));
	EXPECT_EQ("nnn1n", text());
	EXPECT_EQ(0, m.record(1)->count);
	ASSERT_EQ(0, unregister_ftrace_function(&b));
	EXPECT_EQ("nnnnn", text());
	EXPECT_EQ(0, m.record(0)->count);
	EXPECT_STREQ("", fake_console);
}

TEST_P(sites, a_table_that_goes_leaves_two_ops_on_its_sites_without_them)
{
	fake_module m("random", base, {"random_read", "random_write"});
	m.load();
	ASSERT_EQ(0, set(a, "random_*"));
	ASSERT_EQ(0, register_ftrace_function(&a));
	ASSERT_EQ(0, register_ftrace_function(&b));
	EXPECT_EQ("111ll", text());
	int syncs = fake_syncs;
	m.unload();
	EXPECT_EQ(syncs + 1, fake_syncs) << "all sites go in one batch";
	EXPECT_EQ("111", text());
	EXPECT_STREQ("", fake_console);
}

/*
 * A grace period passes while the table's functions can still be found, and one before it is freed.
 */
TEST_P(sites, grace_periods_pass_after_the_sites_and_after_the_table)
{
	static std::vector<std::string> seen;
	fake_module m("random", base, {"random_read"});
	ASSERT_EQ(0, register_ftrace_function(&a));
	m.load();
	seen.clear();
	fake_in_grace = [] { seen.push_back(text()); };
	m.unload();
	fake_in_grace = nullptr;
	EXPECT_EQ((std::vector<std::string>{"000n", "000"}), seen);
}

/* The sites of all tables, and '+' if the filter @watched has the function whose site is @at. */
static const struct ftrace_filter *watched;
static unsigned long watched_site;
static std::string text_and_filter(std::string sites)
{
	bool has = ftrace_hash_has(watched->filter_hash, watched_site - KERNEL_BASE);
	return sites + (has ? '+' : '-');
}

TEST_P(sites, filters_forget_a_module_after_the_last_grace_period)
{
	static std::vector<std::string> seen;
	fake_module m("random", base, {"random_read"});
	m.load();
	ASSERT_EQ(0, set(a, "random_read"));
	ASSERT_EQ(0, register_ftrace_function(&a));
	watched = &a.filter, watched_site = m.site(0);
	seen.clear();
	fake_in_grace = [] { seen.push_back(text_and_filter(text())); };
	m.unload();
	fake_in_grace = nullptr;
	for (const std::string &s : seen)
		EXPECT_EQ('+', s.back()) << s;
	EXPECT_EQ("nnn-", text_and_filter(text()));
}

/* What another thread would find that takes the lock before, in between, or afterwards. */
TEST_P(sites, all_steps_of_a_load_or_a_removal_are_under_one_hold_of_the_lock)
{
	static std::vector<std::string> seen;
	fake_module m("random", base, {"random_read"});
	auto at_lock = [](bool locked) {
		seen.push_back((locked ? "lock " : "unlock ") + text_and_filter(text()));
	};
	ASSERT_EQ(0, register_ftrace_function(&b));
	ASSERT_EQ(0, echo(":mod:random", a.filter));
	ASSERT_EQ(0, register_ftrace_function(&a));
	ASSERT_EQ(0, m.prepare());
	watched = &a.filter, watched_site = m.site(0);
	seen.clear();
	fake_at_lock = at_lock;
	ftrace_module_enable(&m.m);
	fake_at_lock = nullptr;
	EXPECT_EQ((std::vector<std::string>{"lock 000-", "unlock 000l+"}), seen)
		<< "when a module is loaded";
	seen.clear();
	fake_at_lock = at_lock;
	m.unload();
	fake_at_lock = nullptr;
	EXPECT_EQ((std::vector<std::string>{"lock 000l+", "unlock 000-"}), seen)
		<< "when it is removed";
}

TEST_P(sites, the_graph_is_told_after_the_ops_are_started_and_before_the_requests)
{
	static std::string seen;
	fake_module m("random", base, {"random_read"});
	ASSERT_EQ(0, register_ftrace_function(&a));
	ASSERT_EQ(0, echo(":mod:random", b.filter));
	ASSERT_EQ(0, register_ftrace_function(&b));
	at_graph = [] { return seen = text(), 0; };
	m.load();
	EXPECT_EQ("0000", seen) << "the ops have the functions, the request has none yet";
	EXPECT_EQ("000l", text());
}

TEST_P(sites, a_module_that_is_not_graphed_is_traced_by_all_others)
{
	static int held;
	fake_module m("random", base, {"random_read"});
	ASSERT_EQ(0, register_ftrace_function(&a));
	ASSERT_EQ(0, echo(":mod:random", b.filter));
	ASSERT_EQ(0, register_ftrace_function(&b));
	at_graph = [] { return -ENOMEM; };
	held = 0;
	fake_at_lock = [](bool locked) { held += locked ? 1 : -1; };
	m.load();
	fake_at_lock = nullptr;
	EXPECT_EQ(0, held) << "the lock is given back after an error, too";
	EXPECT_NE(nullptr, strstr(fake_console, "module random")) << fake_console;
	EXPECT_EQ("000l", text()) << "the requests are carried out after an error, too";
	EXPECT_TRUE(module_sites_of(&m.m)->enabled) << "its table must leave the list with it";
	module_sites_of(&m.m)->enabled = true;
}

TEST_P(sites, a_module_comes_and_goes_while_tracing_is_disabled)
{
	fake_module m("random", base, {"random_read"});
	ASSERT_EQ(0, register_ftrace_function(&a));
	ftrace_disabled = true;
	m.load();
	EXPECT_EQ("0000", text()) << "a registered op traces a module that comes";
	EXPECT_EQ(1, m.record(0)->count);
	m.unload();
	EXPECT_EQ(INSN_NOP, fake_word(m.site(0))) << "the site is a nop when the module has gone";
	ftrace_disabled = false;
	fake_module n("random", base, {"random_read"});
	n.load();
	ftrace_disabled = true;
	n.unload();
	EXPECT_EQ(INSN_NOP, fake_word(n.site(0))) << "the site is a nop when the module has gone";
}

TEST_P(sites, the_op_in_the_last_slot_is_asked)
{
	fake_module m("random", base, {"random_read"});
	std::vector<struct ftrace_ops> ops(FTRACE_OPS_MAX, op());
	for (auto &o : ops) {
		if (&o != &ops.back())
			ASSERT_EQ(0, set(o, "schedule"));
		ASSERT_EQ(0, register_ftrace_function(&o));
	}
	m.load();
	EXPECT_EQ((char)('0' + FTRACE_OPS_MAX - 1), text().back());
	m.unload();
	for (auto &o : ops) {
		ASSERT_EQ(0, unregister_ftrace_function(&o));
		ftrace_filter_free(&o.filter);
	}
}

TEST_P(sites, an_op_that_changes_pc_shares_a_function_with_others)
{
	for (struct ftrace_ops *changer : {&a, &b}) {
		struct ftrace_ops later = op(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
		fake_module m("random", base, {"random_read"});
		a = b = op();
		*changer = later;
		ASSERT_EQ(0, register_ftrace_function(&a));
		ASSERT_EQ(0, register_ftrace_function(&b));
		m.load();
		EXPECT_EQ("llll", text()) << "only a second op that changes pc excludes them";
		EXPECT_TRUE(m.record(0)->flags & FTRACE_FL_IPMODIFY);
		ASSERT_EQ(0, set(later, "random_read"));
		EXPECT_EQ(-EBUSY, register_ftrace_function(&later));
		unregister_ftrace_function(&later);
		ftrace_filter_free(&later.filter);
		m.unload();
		unregister_ftrace_function(&a);
		unregister_ftrace_function(&b);
	}
}

TEST_P(sites, an_op_that_changes_pc_elsewhere_does_not_have_the_function)
{
	fake_module m("random", base, {"random_read"});
	a = b = op(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	ASSERT_EQ(0, set(a, "schedule"));
	ASSERT_EQ(0, set(b, "last"));
	ASSERT_EQ(0, register_ftrace_function(&a));
	ASSERT_EQ(0, register_ftrace_function(&b));
	m.load();
	EXPECT_EQ(0, m.record(0)->flags & (FTRACE_FL_IPMODIFY | FTRACE_FL_DISABLED));
}

TEST_P(sites, a_later_module_at_the_same_address_is_not_selected_by_old_entries)
{
	struct ftrace_filter graph_list = {}; /* no op has it */
	{
		fake_module m("random", base, {"random_read", "random_write"});
		m.load();
		ASSERT_EQ(0, set(a, "random_read"));
		ASSERT_EQ(0, set(a, "random_write", true, true));
		ASSERT_EQ(0, set(b, "random_*"));
		ASSERT_EQ(0, set(b, "last", false));
		ASSERT_EQ(0, ftrace_filter_edit(&graph_list, "random_read", 11, true, false));
	}
	fake_module other("other", base, {"innocent", "bystander"});
	other.load();
	ASSERT_EQ(0, register_ftrace_function(&a));
	ASSERT_EQ(0, register_ftrace_function(&b));
	EXPECT_EQ("nn1nn", text());
	EXPECT_EQ("", list(a.filter))
		<< "a filter that has lost all its functions selects none, and not every function";
	EXPECT_FALSE(ftrace_filter_has(&graph_list, other.record(0), false));
	EXPECT_EQ(0, set(a, "innocent"));
	EXPECT_EQ("nn10n", text());
	ftrace_filter_free(&graph_list);
}

TEST_P(sites, text_beyond_the_last_table_is_not_writable)
{
	unsigned long end = ftrace_text_end;
	fake_module first("first", FAKE_MORE, {"one"}), m("random", base, {"random_read"});
	m.load();
	first.load();
	EXPECT_EQ(MAX(first.m.end[MODULE_TEXT], MAX(end, m.m.end[MODULE_TEXT])), ftrace_text_end);
	m.unload();
	EXPECT_EQ(first.m.end[MODULE_TEXT], ftrace_text_end);
	first.unload();
	EXPECT_EQ((unsigned long)_etext, ftrace_text_end);
}

TEST_P(sites, only_one_op_that_changes_pc_has_a_function_that_comes)
{
	a = op(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	b = op(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	ASSERT_EQ(0, set(a, "schedule", true, true));
	ASSERT_EQ(0, set(b, "write_all", true, true));
	ASSERT_EQ(0, set(b, "last", false, true));
	ASSERT_EQ(0, register_ftrace_function(&a));
	ASSERT_EQ(0, register_ftrace_function(&b));
	EXPECT_EQ("100", text());
	fake_module m("random", base, {"random_read"});
	m.load();
	EXPECT_EQ("100n", text());
	EXPECT_NE(nullptr, strstr(fake_console, "it is never traced")) << fake_console;
	ASSERT_EQ(0, unregister_ftrace_function(&a));
	EXPECT_EQ("1nnn", text());
	ASSERT_EQ(0, unregister_ftrace_function(&b));
	ASSERT_EQ(0, register_ftrace_function(&a))
		<< "none of the two has it, so it refuses no third one";
	EXPECT_EQ("n00n", text());
}

TEST_P(sites, of_three_ops_that_change_pc_none_has_the_function)
{
	const u32 modifies = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION;
	struct ftrace_ops third = op(modifies);
	a = op(modifies), b = op(modifies);
	for (struct ftrace_ops *o : {&a, &b, &third}) {
		for (const char *name : {"schedule", "write_all", "last"})
			ASSERT_EQ(0, set(*o, name, name[0] == 's', true));
		ASSERT_EQ(0, register_ftrace_function(o));
	}
	fake_module m("random", base, {"random_read"});
	m.load();
	EXPECT_EQ("nnnn", text());
	EXPECT_FALSE(m.record(0)->flags & FTRACE_FL_IPMODIFY)
		<< "the third one must not set it again";
	EXPECT_EQ(0, unregister_ftrace_function(&third));
	ftrace_filter_free(&third.filter);
}

TEST_P(sites, random_modules_ops_and_filters_never_disagree_with_text)
{
	const char *globs[] = {"*", "random_*", "schedule", "!*_read", "last", "!*", "one", "3"};
	srand(7);
	std::vector<struct ftrace_ops> ops(4, op());
	std::vector<bool> on(4);
	std::unique_ptr<fake_module> loaded[2];
	for (int step = 0; step < 400; step++) {
		int i = rand() % 4, k = rand() % 2;
		switch (rand() % 4) {
		case 0:
			if (loaded[k]) {
				loaded[k].reset();
			} else if (k) {
				loaded[k].reset(
					new fake_module("first", FAKE_MORE, {"one", "two_read"}));
				loaded[k]->load();
			} else {
				loaded[k].reset(new fake_module(
					"random", base, {"random_read", "random_write", "one"}));
				loaded[k]->load();
			}
			break;
		case 1:
			ASSERT_EQ(0, on[i] ? unregister_ftrace_function(&ops[i])
					   : register_ftrace_function(&ops[i]));
			on[i] = !on[i];
			break;
		default:
			set(ops[i], globs[rand() % 8], rand() % 2, rand() % 4 == 0);
		}
		std::string want;
		for_each_ftrace_rec(rec) {
			std::vector<int> who;
			for (int j = 0; j < 4; j++)
				if (on[j] && ftrace_ops_test(&ops[j], ftrace_ip(rec)))
					who.push_back(ops[j].slot);
			want += who.empty() ? 'n' : who.size() > 1 ? 'l' : (char)('0' + who[0]);
			ASSERT_EQ(who.size(), rec->count) << "step " << step;
		}
		ASSERT_EQ(want, text()) << "step " << step;
	}
	for (int i = 0; i < 4; i++) {
		if (on[i])
			ASSERT_EQ(0, unregister_ftrace_function(&ops[i]));
		ftrace_filter_free(&ops[i].filter);
	}
	EXPECT_STREQ("", fake_console);
}

/* ---- Preparing ---- */

TEST_P(sites, records_are_sorted_and_the_word_before_a_site_is_written_once)
{
	fake_module m("random", base, {"a", "b", "c", "d"});
	std::swap(m.entries[0], m.entries[3]);
	std::swap(m.entries[1], m.entries[2]);
	ASSERT_EQ(0, m.prepare());
	ASSERT_EQ(4u, ftrace_count(m.m.sites));
	for (int i = 0; i < 4; i++) {
		unsigned long ip = base + 64 * i + HOOK_ENTRY_OFFSET;
		EXPECT_EQ(ip, ftrace_ip(&m.m.sites->records[i]));
		EXPECT_EQ(INSN_NOP, fake_word(ip));
#ifdef HOOK_BEFORE
		if (HOOK_REWRITES)
			EXPECT_EQ(HOOK_BEFORE, fake_word(ip - 4));
#endif
	}
	EXPECT_EQ(nullptr, ftrace_kernel_table.next) << "not published yet";
	m.unload();
	EXPECT_EQ(nullptr, m.m.sites);
}

TEST_P(sites, faulty_entries_are_told_and_never_written)
{
	fake_module m("random", base, {"sound", "foreign", "other"});
	fake_scribble(m.site(1), 0x12345678);
	for (unsigned long entry :
	     {m.entries[0], m.entries[2] + 2, 0ul, ~0ul, base - 64, m.room,
	      m.room - HOOK_ENTRY_OFFSET, m.room + 4096, (unsigned long)KERNEL_BASE + 64})
		if (entry != m.entries[0] || m.entries.size() == 3)
			m.entries.push_back(entry);
	u32 kernels = fake_word(KERNEL_BASE + 64);
	ASSERT_EQ(0, m.prepare());
	ASSERT_EQ(2u, ftrace_count(m.m.sites));
	EXPECT_EQ(m.site(0), ftrace_ip(&m.m.sites->records[0]));
	EXPECT_EQ(m.site(2), ftrace_ip(&m.m.sites->records[1]));
	EXPECT_EQ(0x12345678u, fake_word(m.site(1)));
	EXPECT_EQ(kernels, fake_word(KERNEL_BASE + 64));
	std::string all = fake_console;
	for (const char *fault : {"module random", "is not 4-byte aligned", "lies outside of text",
				  "does not hold what the compiler leaves", "is listed twice"})
		EXPECT_NE(std::string::npos, all.find(fault)) << fault << "\n" << all;
}

/* arm64 rewrites the word before a site, which here is another function's site. */
TEST_P(sites, a_site_is_never_the_word_before_another_site)
{
	fake_module m("random", base, {"one", "two"});
	fake_scribble(m.site(0) + 4, INSN_NOP);
	m.entries.push_back(m.entries[0] + 4);
	ASSERT_EQ(0, m.prepare());
	EXPECT_EQ(HOOK_ENTRY_OFFSET ? 2u : 3u, ftrace_count(m.m.sites));
	EXPECT_EQ(INSN_NOP, fake_word(m.site(0)));
	EXPECT_EQ(HOOK_ENTRY_OFFSET != 0,
		  strstr(fake_console, "or overlaps another one; it is never written") != nullptr)
		<< fake_console;
}

TEST_P(sites, many_faulty_entries_are_counted)
{
	fake_module m("random", base, {"sound"});
	for (int i = 0; i < 20; i++)
		m.entries.push_back(m.entries[0] + 2);
	ASSERT_EQ(0, m.prepare());
	EXPECT_EQ(1u, ftrace_count(m.m.sites));
	std::string all = fake_console;
	EXPECT_EQ(17, std::count(all.begin(), all.end(), '\n'));
	EXPECT_NE(std::string::npos, all.find("ftrace: module random: 4 more call sites are "
					      "faulty; they are never written\n"))
		<< all;
}

TEST_P(sites, a_module_without_functions_has_no_table)
{
	fake_module m("empty", base, {});
	m.load();
	EXPECT_EQ(nullptr, m.m.sites);
	EXPECT_EQ(nullptr, ftrace_kernel_table.next);
}

/* ---- Trampolines ---- */

/*
 * At a page's first word, and near a page's end: there the sum of two low parts reaches the next
 * page.
 */
TEST(trampoline, is_what_the_assembler_writes)
{
	for (unsigned long at : {0x10400000ul, 0x10400f2cul})
		for (long off : {0l, 4l, -4l, 0x7fcl, 0x800l, -0x800l, -0x804l, 0xffcl, 0x1000l,
				 -0x1000l, 0x12345678l & ~3l, -0x1234567l & ~3l, 0x20000000l,
				 0x7fff0000l, -0x10000000l}) {
			unsigned long target = at + off, found;
			u32 word[TRAMPOLINE_WORDS];
			ASSERT_EQ(0, trampoline_encode(at, target, word));
			ASSERT_TRUE(trampoline_target(at, word, &found));
			EXPECT_EQ(target, found) << std::hex << at << ' ' << off;
			EXPECT_EQ(assemble_trampoline(at, target),
				  std::vector<u32>(word, word + ASSEMBLED))
				<< std::hex << at << ' ' << off;
		}
}

TEST(trampoline, out_of_reach_is_refused)
{
	u32 word[TRAMPOLINE_WORDS];
	EXPECT_EQ(-ERANGE, trampoline_encode(0x10000000, 0x10000000 + (8ul << 30), word));
	EXPECT_EQ(-ERANGE, trampoline_encode(0x10000000ul + (8ul << 30), 0x10000000, word));
}

/* The kernel's addresses are near the top of the address space, and may begin a page. */
TEST(trampoline, is_the_same_at_the_top_of_the_address_space)
{
	const unsigned long up = 0xffffffff80000000;
	for (unsigned long at : {0x10000f2cul, 0x10000000ul})
		for (unsigned long to : {0x298ccul, 0x29000ul}) {
			u32 below[TRAMPOLINE_WORDS], above[TRAMPOLINE_WORDS];
			unsigned long found = 0;
			ASSERT_EQ(0, trampoline_encode(at, to, below));
			ASSERT_EQ(0, trampoline_encode(up + at, up + to, above));
			EXPECT_EQ(std::vector<u32>(below, below + ASSEMBLED),
				  std::vector<u32>(above, above + ASSEMBLED))
				<< std::hex << up + at << ' ' << up + to;
			EXPECT_TRUE(trampoline_target(up + at, below, &found));
			EXPECT_EQ(up + to, found) << std::hex << up + at << ' ' << up + to;
		}
}

TEST(trampoline, through_another_register_is_none)
{
	u32 word[TRAMPOLINE_WORDS];
	unsigned long target;
	ASSERT_EQ(0, trampoline_encode(0x10400000, 0x10300000, word));
	ASSERT_TRUE(trampoline_target(0x10400000, word, &target));
	use_another_register(word);
	EXPECT_FALSE(trampoline_target(0x10400000, word, &target))
		<< "all its instructions name " << ANOTHER_REGISTER;
}

/* ---- Reach ---- */

static bool reaches(unsigned long ip, unsigned long stubs)
{
	struct dyn_ftrace rec = {};
	rec.offset = ip - KERNEL_BASE;
	return module_site_reaches(&rec, stubs);
}

/* To a site above them the first stub is the farthest one, to a site below them the last one. */
TEST(reach, a_site_reaches_the_stubs_if_it_reaches_the_farthest)
{
	unsigned long stubs = KERNEL_BASE + MiB(300), last = ftrace_stub_addr(stubs, FTRACE_STUBS);
	EXPECT_TRUE(reaches(stubs + INSN_REACH, stubs));
	EXPECT_FALSE(reaches(stubs + INSN_REACH + 4, stubs)) << "the first is out of reach";
	EXPECT_TRUE(reaches(last - INSN_REACH + 4, stubs));
	EXPECT_FALSE(reaches(last - INSN_REACH, stubs)) << "the last is out of reach";
}

TEST_F(module_test, one_site_out_of_reach_makes_the_module_far)
{
	const size_t size = sizeof(struct module_sites) + 2 * sizeof(struct dyn_ftrace);
	auto *s = (struct module_sites *)calloc(1, size);
	for (unsigned beyond : {0, 4})
		for (int out : {0, 1}) {
			memset(s, 0, size);
			s->table.records = s->record;
			s->table.end = s->record + 2;
			s->record[!out].offset = FAKE_STUBS + INSN_REACH - 64 - KERNEL_BASE;
			s->record[out].offset = FAKE_STUBS + INSN_REACH + beyond - KERNEL_BASE;
			fake_text_writable(true);
			module_choose_stubs(s, FAKE_FAR);
			fake_text_writable(false);
			EXPECT_EQ(beyond, s->far ? 4u : 0u) << "record " << out;
			EXPECT_EQ(beyond ? FAKE_FAR : FAKE_STUBS,
				  KERNEL_BASE + s->region[0].stubs);
			EXPECT_EQ(beyond, s->table.verify ? 4u : 0u);
		}
	free(s);
}

struct trampolines : module_test {
	std::unique_ptr<fake_module> module;

	void SetUp() override
	{
		module_test::SetUp();
		module.reset(new fake_module("random", FAR, {"random_read", "random_write"}));
	}
	void TearDown() override
	{
		unregister_ftrace_function(&a);
		unregister_ftrace_function(&b);
		module.reset();
		module_test::TearDown();
	}

	/* Trampoline number @n leads to @target. */
	void redirect(int n, unsigned long target)
	{
		unsigned long at = module->room + n * FTRACE_STUB_SIZE;
		u32 word[TRAMPOLINE_WORDS];
		ASSERT_EQ(0, trampoline_encode(at, target, word));
		for (int i = 0; i < TRAMPOLINE_WORDS; i++)
			fake_scribble(at + 4 * i, word[i]);
	}
};

TEST_F(trampolines, each_leads_to_its_stub)
{
	module->load();
	for (unsigned n = 0; n < FTRACE_STUBS; n++) {
		unsigned long at = module->room + n * FTRACE_STUB_SIZE, target;
		ASSERT_TRUE(trampoline_target(at, (const u32 *)at, &target)) << n;
		EXPECT_EQ(FAKE_STUBS + n * FTRACE_STUB_SIZE, target) << n;
	}
	EXPECT_EQ(0u, fake_word(module->room + ftrace_module_room()))
		<< "nothing is written beyond the room";
}

TEST_F(trampolines, a_module_in_reach_has_none)
{
	fake_module n("near", NEAR, {"near_read"});
	n.load();
	EXPECT_EQ(0u, fake_word(n.room));
	EXPECT_EQ(0, n.record(0)->flags);
}

TEST_F(trampolines, one_that_leads_elsewhere_is_refused_and_told_before_it_is_called)
{
	module->load();
	redirect(1, FAKE_STUBS + 4096);
	EXPECT_EQ(-ENODEV, register_ftrace_function(&a));
	EXPECT_EQ("nnnnn", text()) << "nothing was written";
	EXPECT_TRUE(module->record(0)->flags & FTRACE_FL_DISABLED);
	EXPECT_TRUE(ftrace_disabled);
	char trampoline[32], leads[32], must[32];
	snprintf(trampoline, sizeof(trampoline), "%#lx", module->room + FTRACE_STUB_SIZE);
	snprintf(leads, sizeof(leads), "it leads to %#lx", (unsigned long)FAKE_STUBS + 4096);
	snprintf(must, sizeof(must), "must lead to");
	EXPECT_EQ(nullptr, strstr(fake_console, "  nop")) << "the word at the site is right";
	for (const char *part :
	     std::vector<const char *>{trampoline, leads, must, "refused to write", "expected",
				       "found", DISASSEMBLED})
		EXPECT_NE(nullptr, strstr(fake_console, part)) << part << "\n" << fake_console;
}

TEST_F(trampolines, one_that_leads_elsewhere_is_refused_while_its_site_calls_it)
{
	module->load();
	ASSERT_EQ(0, register_ftrace_function(&a));
	u32 call = fake_word(module->site(0));
	/* another stub, but not the one of the record */
	redirect(1, FAKE_STUBS + 2 * FTRACE_STUB_SIZE);
	unregister_ftrace_function(&a);
	EXPECT_EQ(call, fake_word(module->site(0))) << "the site is left alone";
	EXPECT_EQ("nnn", text().substr(0, 3));
	EXPECT_NE(nullptr, strstr(fake_console, "must lead to"));
}

TEST_F(trampolines, words_that_are_no_trampoline_are_refused)
{
	module->load();
	fake_scribble(module->room + FTRACE_STUB_SIZE + 4, INSN_NOP);
	EXPECT_EQ(-ENODEV, register_ftrace_function(&a));
	EXPECT_EQ("nnnnn", text());
	EXPECT_NE(nullptr, strstr(fake_console, "no trampoline")) << fake_console;
}

TEST_F(trampolines, a_bad_one_that_is_not_used_disturbs_nobody)
{
	module->load();
	redirect(0, FAKE_STUBS + 4096); /* the list's */
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ("00000", text());
	EXPECT_STREQ("", fake_console);
	EXPECT_EQ(-ENODEV, register_ftrace_function(&b));
	EXPECT_EQ("00000", text()) << "the sites keep their call";
}

TEST_F(trampolines, a_site_that_calls_another_trampoline_is_refused)
{
	u32 call;
	module->load();
	ASSERT_EQ(0, register_ftrace_function(&a));
	ASSERT_EQ(0, insn_call(module->site(0), module->room + 3 * FTRACE_STUB_SIZE, HOOK_LINK,
			       &call));
	fake_scribble(module->site(0), call);
	unregister_ftrace_function(&a);
	EXPECT_EQ(call, fake_word(module->site(0)));
	EXPECT_EQ('n', leads(module->site(1)));
	EXPECT_NE(nullptr, strstr(fake_console, "refused to write"));
}

TEST_F(trampolines, one_that_no_record_says_is_called_is_not_followed)
{
	u32 call;
	module->load();
	ASSERT_EQ(0, insn_call(module->site(0), module->room + FTRACE_STUB_SIZE, HOOK_LINK, &call));
	fake_scribble(module->site(0), call);
	EXPECT_EQ(-ENODEV, register_ftrace_function(&a));
	EXPECT_EQ(call, fake_word(module->site(0)));
	EXPECT_EQ(nullptr, strstr(fake_console, "must lead to"))
		<< "the trampoline is right, the word at the site is not\n" << fake_console;
}

TEST_F(trampolines, a_foreign_word_at_a_site_is_refused)
{
	module->load();
	fake_scribble(module->site(0), 0x12345678);
	EXPECT_EQ(-ENODEV, register_ftrace_function(&a));
	EXPECT_EQ(0x12345678u, fake_word(module->site(0)));
	EXPECT_NE(nullptr, strstr(fake_console, "found    12345678")) << fake_console;
}

TEST_F(trampolines, the_one_that_is_called_is_followed_before_the_one_that_will_be)
{
	char called[32], list[32];
	module->load();
	ASSERT_EQ(0, register_ftrace_function(&a));
	redirect(1, FAKE_STUBS + 4096);
	redirect(0, FAKE_STUBS + 4096);
	EXPECT_EQ(-ENODEV, register_ftrace_function(&b));
	snprintf(called, sizeof(called), "trampoline at %#lx ", module->room + FTRACE_STUB_SIZE);
	snprintf(list, sizeof(list), "trampoline at %#lx ", module->room);
	EXPECT_NE(nullptr, strstr(fake_console, called)) << fake_console;
	EXPECT_EQ(nullptr, strstr(fake_console, list)) << fake_console;
}

TEST_F(trampolines, the_last_one_is_followed)
{
	const unsigned last = FTRACE_STUBS;
	unsigned long at = module->room + (last - 1) * FTRACE_STUB_SIZE;
	u32 call;
	module->load();
	struct dyn_ftrace *rec = module->record(0);
	ASSERT_EQ(0, insn_call(module->site(0), at, HOOK_LINK, &call));
	fake_scribble(module->site(0), call);
	rec->calls = last;
	redirect(last - 1, FAKE_STUBS + 4096);
	ftrace_batch_begin();
	EXPECT_EQ(-ENODEV, ftrace_switch(rec, FTRACE_CALLS_NOTHING));
	ftrace_batch_end();
	EXPECT_EQ(call, fake_word(module->site(0)));
}

TEST_F(trampolines, they_are_followed_when_the_module_goes)
{
	module->load();
	ASSERT_EQ(0, register_ftrace_function(&a));
	u32 call = fake_word(module->site(0));
	redirect(1, FAKE_STUBS + 4096);
	module->unload();
	EXPECT_EQ(call, fake_word(module->site(0))) << "the site is left alone";
	EXPECT_NE(nullptr, strstr(fake_console, "must lead to")) << fake_console;
}

TEST_F(trampolines, they_are_followed_when_an_op_that_changes_pc_has_gone)
{
	a = op(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	ASSERT_EQ(0, register_ftrace_function(&a));
	module->load();
	ASSERT_EQ(0, unregister_ftrace_function(&a));
	redirect(1, FAKE_STUBS + 4096);
	EXPECT_EQ(-ENODEV, register_ftrace_function(&a))
		<< "start_record() must leave the record's other flags as they are";
}

#if ASSEMBLED < TRAMPOLINE_WORDS
TEST_F(trampolines, a_word_that_is_never_executed_may_be_any)
{
	module->load();
	fake_scribble(module->room + FTRACE_STUB_SIZE + 8, INSN_NOP);
	EXPECT_EQ(0, register_ftrace_function(&a)) << fake_console;
	EXPECT_EQ("00000", text());
}
#endif

/* ---- Filters ---- */

TEST_P(sites, names_have_their_module_after_them)
{
	fake_module m("random", base, {"random_read", "write_pool"});
	m.load();
	ASSERT_EQ(0, set(a, "*r*"));
	EXPECT_EQ("write_all\nrandom_read [random]\nwrite_pool [random]\n", list(a.filter));
}

TEST_P(sites, a_word_with_mod_selects_functions_of_that_module_alone)
{
	fake_module m("random", base, {"random_read", "write_pool"}),
		n("other", FAKE_MORE, {"write_other"});
	m.load();
	n.load();
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ(0, echo("write*:mod:random", a.filter));
	EXPECT_EQ("nnnn0n", text());
	EXPECT_EQ(0, echo(":mod:random", a.filter));
	EXPECT_EQ("nnn00n", text());
	EXPECT_EQ(0, echo("!write*:mod:random", a.filter, true));
	EXPECT_EQ("nnn0nn", text());
	EXPECT_EQ(0, echo(":mod:*", a.filter));
	EXPECT_EQ("nnn000", text());
	EXPECT_EQ(0, echo("write*:mod:!random", a.filter));
	EXPECT_EQ("n0nnn0", text());
	EXPECT_EQ(0, echo("*:mod:!", a.filter));
	EXPECT_EQ("000nnn", text()) << "what is in no module";
	EXPECT_EQ(0, echo(":mod:r*", a.filter, false, true));
	EXPECT_EQ("000nnn", text());
	EXPECT_EQ(0, echo("", a.filter));
	EXPECT_EQ("000nn0", text()) << "the notrace list has the module";
}

TEST_P(sites, what_a_loaded_module_does_not_have_is_refused)
{
	fake_module m("random", base, {"random_read"});
	m.load();
	for (const char *word :
	     {"nosuch:mod:random", "a:b", "random_read:traceoff", ":mod:random:x",
	      "!nosuch:mod:random", "!:mod:nosuch", ":mod", "x:mod:!*"})
		EXPECT_EQ(-EINVAL, echo(word, a.filter, true)) << word;
	EXPECT_EQ("#### all functions enabled ####\n", list(a.filter));
}

TEST_P(sites, a_request_is_kept_until_its_module_comes)
{
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ(0, echo("write*:mod:random :mod:later", a.filter));
	EXPECT_EQ("write*:mod:random\n*:mod:later\n", list(a.filter));
	EXPECT_EQ("nnn", text()) << "a filter that waits for modules selects no function";
	{
		fake_module m("random", base, {"random_read", "write_pool"});
		m.load();
		EXPECT_EQ("nnnn0", text());
		EXPECT_EQ("write_pool [random]\n*:mod:later\n", list(a.filter));
	}
	EXPECT_EQ("*:mod:later\n", list(a.filter))
		<< "the request was used up, and the functions went";
	fake_module again("random", base, {"random_read", "write_pool"});
	again.load();
	EXPECT_EQ("nnnnn", text());
	fake_module later("later", FAKE_MORE, {"one"});
	later.load();
	EXPECT_EQ("nnnnn0", text());
}

TEST_P(sites, a_request_that_finds_nothing_does_not_end_the_wait_for_others)
{
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ(0, echo("nosuch*:mod:random :mod:later", a.filter));
	fake_module m("random", base, {"random_read"});
	m.load();
	EXPECT_EQ("*:mod:later\n", list(a.filter));
	EXPECT_EQ("nnnn", text());
}

TEST_P(sites, a_request_that_finds_nothing_leaves_a_filter_that_selects_nothing)
{
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ(0, echo("nosuch*:mod:random", a.filter));
	EXPECT_EQ(0, echo("nosuch*:mod:random", b.filter, false, true));
	fake_module m("random", base, {"random_read"});
	m.load();
	EXPECT_EQ("nnnn", text());
	EXPECT_EQ("", list(a.filter)) << "not every function is enabled";
	EXPECT_EQ(0, echo(":mod:later", a.filter, true));
	EXPECT_EQ(0, echo("!:mod:later", a.filter, true));
	EXPECT_EQ("#### all functions enabled ####\n", list(a.filter))
		<< "the last request was removed";
}

TEST_P(sites, a_filter_whose_functions_went_with_their_module_selects_nothing_until_it_is_set)
{
	std::unique_ptr<fake_module> m(new fake_module("random", base, {"random_read"}));
	m->load();
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ(0, echo(":mod:random", a.filter));
	m.reset();
	EXPECT_EQ("nnn", text());
	for (const char *word : {"nosuch", "!nosuch", "!last", ""}) {
		echo(word, a.filter, true);
		EXPECT_EQ("nnn", text()) << word;
		EXPECT_EQ("", list(a.filter)) << word;
	}
	EXPECT_EQ(0, echo("last", a.filter, true));
	EXPECT_EQ("nn0", text());
	EXPECT_EQ(0, echo("", a.filter));
	EXPECT_EQ("000", text());
}

TEST_P(sites, a_request_adds_to_what_the_filter_has)
{
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ(0, echo("schedule :mod:random", a.filter));
	EXPECT_EQ(0, echo("*read:mod:random", a.filter, false, true));
	EXPECT_EQ("schedule\n*:mod:random\n", list(a.filter));
	EXPECT_EQ("0nn", text());
	fake_module m("random", base, {"random_read", "write_pool"});
	m.load();
	EXPECT_EQ("0nnn0", text());
}

TEST_P(sites, requests_go_by_name_by_truncation_and_only_of_their_filter)
{
	EXPECT_EQ(0, echo("a*:mod:x b*:mod:x c*:mod:y", a.filter));
	EXPECT_EQ(0, echo(":mod:x", b.filter));
	EXPECT_EQ(0, echo("!b*:mod:x", a.filter, true));
	EXPECT_EQ("a*:mod:x\nc*:mod:y\n", list(a.filter));
	EXPECT_EQ(-EINVAL, echo("!b*:mod:x", a.filter, true));
	EXPECT_EQ(0, echo("d*:mod:x !:mod:x", a.filter, true));
	EXPECT_EQ("c*:mod:y\n", list(a.filter));
	EXPECT_EQ(0, echo("schedule", a.filter));
	EXPECT_EQ("schedule\n", list(a.filter));
	EXPECT_EQ("*:mod:x\n", list(b.filter));
}

TEST_P(sites, an_edit_that_is_open_while_a_module_goes_keeps_the_kernels_functions)
{
	std::unique_ptr<fake_module> m(
		new fake_module("random", base, {"random_read", "write_pool"}));
	fake_module n("other", FAKE_MORE, {"write_other"});
	m->load();
	n.load();
	ASSERT_EQ(0, register_ftrace_function(&a));
	open_file f(a.filter, false, false);
	EXPECT_EQ(0, f.write("schedule random_read write_pool "));
	m.reset();
	EXPECT_EQ(0, f.write("last "));
	fake_module later("later", base, {"innocent", "bystander"});
	later.load();
	EXPECT_EQ(0, f.close());
	EXPECT_EQ("0n0nnn", text()) << "other modules' records have other numbers now";
}

TEST_P(sites, a_pattern_that_is_written_while_a_module_goes_finds_nothing_of_it)
{
	std::unique_ptr<fake_module> m(new fake_module("random", base, {"random_read"}));
	m->load();
	open_file f(a.filter, false, false);
	m.reset();
	EXPECT_EQ(-EINVAL, f.write("random_read "));
	f.close();
}

/*
 * The edit has no functions, or has some, when the module is loaded; and no word, or a word, comes
 * after the load.
 */
TEST_P(sites,
       a_request_of_a_file_that_is_still_open_when_the_module_comes_is_carried_out_at_its_close)
{
	ASSERT_EQ(0, register_ftrace_function(&a));
	struct { const char *before, *after, *text;
	} edits[] = {{":mod:random ", "", "nnn00"},
		     {"schedule :mod:random ", "", "0nn00"},
		     {":mod:random ", "last ", "nn000"}};
	for (bool append : {false, true})
		for (auto &edit : edits) {
			if (append)
				EXPECT_EQ(0, echo("write_all", a.filter));
			open_file f(a.filter, append, false);
			EXPECT_EQ(0, f.write(edit.before));
			fake_module m("random", base, {"random_read", "write_pool"});
			m.load();
			EXPECT_EQ(0, f.write(edit.after));
			EXPECT_EQ(0, f.close());
			std::string want = edit.text;
			want[1] = append ? '0' : 'n';
			EXPECT_EQ(want, text()) << edit.before << edit.after;
			EXPECT_EQ(std::string::npos, list(a.filter).find(":mod:"))
				<< "it is used up";
			m.unload();
		}
}

TEST_P(sites, an_earlier_request_waits_while_the_filter_is_open_for_appending)
{
	ASSERT_EQ(0, register_ftrace_function(&a));
	EXPECT_EQ(0, echo(":mod:random :mod:never", a.filter));
	open_file f(a.filter, true, false);
	fake_module m("random", base, {"random_read", "write_pool"});
	m.load();
	EXPECT_EQ("nnnnn", text());
	EXPECT_EQ(0, f.write("schedule "));
	EXPECT_EQ(0, f.close());
	EXPECT_EQ("0nn00", text())
		<< "the file's copy of the filter was made before the module came";
	EXPECT_NE(std::string::npos, list(a.filter).find("*:mod:never\n")) << "it is kept";
	EXPECT_EQ(std::string::npos, list(a.filter).find("*:mod:random\n")) << "it is used up";
	open_file again(a.filter, true, false);
	EXPECT_EQ(0, echo("schedule", a.filter))
		<< "`>` drops the requests that wait for the other file, too";
	EXPECT_EQ(0, again.close());
	EXPECT_EQ(std::string::npos, list(a.filter).find(":mod:"));
}

TEST_P(sites, a_request_waits_for_its_own_file_only)
{
	ASSERT_EQ(0, register_ftrace_function(&a));
	open_file f(a.filter, false, false);
	EXPECT_EQ(0, f.write(":mod:random :mod:gone "));
	{
		fake_module m("gone", base, {"gone_read"});
		m.load();
	}
	EXPECT_EQ(0, echo("schedule", a.filter))
		<< "it truncates the filter, and not what the open file has requested";
	EXPECT_EQ("0nn", text());
	EXPECT_EQ(0, f.close());
	EXPECT_EQ("*:mod:random\n*:mod:gone\n", list(a.filter))
		<< "a module that came and went meanwhile was not there";
	EXPECT_EQ("nnn", text());
}

/* ---- Shadow stacks ---- */

TEST_P(sites, a_frame_that_returns_through_the_module_is_found)
{
	struct shadow_stack *s = (struct shadow_stack *)calloc(1, sizeof(*s));
	struct shadow_frame outer = {}, inner = {};
	shadow_init(s);
	inner.below = &outer;
	s->top = &inner;
	EXPECT_FALSE(ftrace_returns_through(base, base + 4096));
	for (struct thread *t : {&other_thread, &idle_thread}) {
		t->ftrace = s;
		inner.ret = outer.ret = base + 4096, outer.func = base - 4;
		EXPECT_FALSE(ftrace_returns_through(base, base + 4096));
		outer.ret = base + 8;
		EXPECT_TRUE(ftrace_returns_through(base, base + 4096));
		outer.ret = 0, outer.func = base;
		EXPECT_TRUE(ftrace_returns_through(base, base + 4096));
		t->ftrace = nullptr;
	}
	free(s);
}

TEST_P(sites, each_frame_of_a_thread_is_looked_at)
{
	struct shadow_stack *s = (struct shadow_stack *)calloc(1, sizeof(*s));
	struct shadow_frame frames[3] = {};
	shadow_init(s);
	frames[0].below = &frames[1];
	frames[1].below = &frames[2];
	s->top = frames;
	other_thread.ftrace = s;
	for (struct shadow_frame &f : frames)
		for (unsigned long *within : {&f.ret, &f.func}) {
			*within = base + 8;
			EXPECT_TRUE(ftrace_returns_through(base, base + 4096))
				<< (within == &f.ret ? "ret" : "func") << " of frame "
				<< &f - frames << " of three, from the top";
			*within = 0;
		}
	EXPECT_FALSE(ftrace_returns_through(base, base + 4096));
	other_thread.ftrace = nullptr;
	free(s);
}
