// needs: kern/ftrace/graph/fgraph_one.c kern/ftrace/graph/fgraph_one_walk.c
// needs: kern/ftrace/graph/shadow_frame.c kern/ftrace/graph/shadow_room.c
// needs: kern/ftrace/graph/shadow_var.c kern/ftrace/files/functions.c kern/ftrace/ops/ops.c
// needs: kern/ftrace/core/hash.c kern/base/glob.c kern/ftrace/filters/filter.c
// needs: kern/ftrace/core/dynamic.c kern/ftrace/core/records.c kern/ftrace/core/patch.c
// needs: kern/ftrace/tests/fake_kernel.c kern/ftrace/core/table.c kern/ftrace/core/set.c
// needs: kern/ftrace/core/ftrace.c -Ikern/ftrace/tests/host -Ikern/ftrace/tests/host/riscv64
// needs: -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul -DSHADOW_HOOK=1
/*
 * Lab 5's function_graph, from the word in the call site to the return. A
 * processor is imitated: it looks at the site and at ftrace_graph_call, goes
 * where they say, and returns to where the link says. Interrupts come at any
 * store to the shadow stack, and call traced functions themselves.
 */
#include "fake_kernel.h"
#include "asm-ftrace/hook.h"
#include <cstring>
#include <algorithm>
#include <functional>
#include <set>

extern "C" {
#define private private_
#include "cpu.h"
#include "fgraph.h"
#include "shadow.h"
#include "asm-ftrace/regs.h"
#undef private

#define FAKE_GRAPH_CALL	  (KERNEL_BASE + 0x80400)
#define FAKE_GRAPH_CALLER (KERNEL_BASE + 0x80500)
asm(".globl ftrace_graph_call, ftrace_graph_caller\n"
    ".set ftrace_graph_call, 0x10080400\n.set ftrace_graph_caller, 0x10080500");

u64 clock_mult = 1ull << 54;
bool ftrace_graph_dead;
static struct {
	unsigned long func, expected, found;
} stopped;
static int users_on, users_begin_error;

int shadow_users_begin(void)
{
	users_on += !users_begin_error;
	return users_begin_error;
}
void shadow_users_end(void)
{
	users_on--;
}
void ftrace_graph_stop(unsigned long func, unsigned long expected, unsigned long found)
{
	stopped = {func, expected, found};
	ftrace_graph_dead = true;
}
void return_to_handler(void)
{
	abort();
}
void panic(const char *fmt, ...)
{
	throw fmt;
}
/* Like the assembly: a call site and nothing else. */
void ftrace_graph_stub(unsigned long ip, unsigned long, struct ftrace_ops *,
		       struct ftrace_regs *regs)
{
	unsigned long target;
	u32 word = fake_word(FAKE_GRAPH_CALL);

	if (word == INSN_NOP)
		return;
	ASSERT_TRUE(insn_call_target(FAKE_GRAPH_CALL, word, HOOK_LINK, &target));
	ASSERT_EQ(FAKE_GRAPH_CALLER, target);
	prepare_ftrace_return(&regs->link, ip, regs);
}
}

static const unsigned long RTH = (unsigned long)return_to_handler;
static std::function<void()> at_store;
extern "C" void shadow_hook(void)
{
	if (at_store)
		at_store();
}

struct graph : testing::Test {
	struct shadow_stack stack;
	struct ftrace_filter filter = {};
	struct fgraph_ops user = {};
	static std::string events; /* "+f" entry, "-f" return, "/f" gone, of the f-th function */
	static bool refuses;
	static u32 overrun;

	static int entry(struct ftrace_graph_ent *t, struct fgraph_ops *, struct ftrace_regs *regs)
	{
		events += "+" + std::to_string((t->func - KERNEL_BASE) / 64);
		EXPECT_NE(RTH, regs->link) << "an entry handler must see the true return address";
		EXPECT_FALSE(host_irqs_masked) << "a handler may be interrupted at any instruction";
		return !refuses;
	}
	static void ret(struct ftrace_graph_ret *t, struct fgraph_ops *, struct ftrace_regs *regs)
	{
		events += "-" + std::to_string((t->func - KERNEL_BASE) / 64);
		EXPECT_EQ(regs->arg[0], t->retval);
		EXPECT_FALSE(host_irqs_masked) << "a handler may be interrupted at any instruction";
		overrun = t->overrun;
	}
	static void gone(struct ftrace_graph_ent *t, struct fgraph_ops *)
	{
		events += "/" + std::to_string((t->func - KERNEL_BASE) / 64);
	}
	void SetUp() override
	{
		fake_reset();
		for (u32 i = 1; i <= 9; i++) {
			fake_scribble(KERNEL_BASE + 64 * i, INSN_NOP);
			fake_record(64 * i, "f");
		}
		fake_scribble(FAKE_GRAPH_CALL, INSN_NOP);
		memset(&stack, 0, sizeof(stack));
		shadow_init(&stack);
		host_current->ftrace = &stack;
		host_current->stack = (void *)(0x90000 + 64 - THREAD_SIZE);
		host_cpu->recursion = 0;
		host_cpu->context_bit = 1;
		filter = {};
		user.entryfunc = entry;
		user.retfunc = ret;
		user.gonefunc = gone;
		user.filter = &filter;
		user.idx = -1;
		events = "";
		refuses = ftrace_graph_dead = false;
		users_begin_error = 0;
	}
	void TearDown() override
	{
		at_store = nullptr;
		unregister_ftrace_graph(&user);
		EXPECT_EQ(0, users_on) << "each shadow_users_begin() needs one shadow_users_end()";
		EXPECT_EQ(INSN_NOP, fake_word(FAKE_GRAPH_CALL));
		for (u32 i = 1; i <= 9; i++)
			EXPECT_EQ(INSN_NOP, fake_word(KERNEL_BASE + 64 * i));
	}

	/* Imitate the entry of function @f. Return: the link that the function then has. */
	static unsigned long enter(unsigned f, unsigned long link, unsigned long sp)
	{
		unsigned long ip = KERNEL_BASE + 64 * f, target;
		struct ftrace_regs regs = {};

		regs.sp = sp;
		regs.fp = sp + 8;
		regs.link = link;
		if (insn_call_target(ip, fake_word(ip), HOOK_LINK, &target)) {
			auto *slot = &ftrace_slots[(target - FAKE_STUBS) / FTRACE_STUB_SIZE];
			slot->func(ip, link, slot->op, &regs);
		}
		return regs.link;
	}
	/* Imitate a return to @link. Return: the address at which it ends. */
	static unsigned long leave(unsigned long link, unsigned long sp)
	{
		while (link == RTH) {
			struct ftrace_regs regs = {};

			regs.sp = sp;
			regs.fp = sp + 8;
			regs.link = link;
			regs.arg[0] = 77;
			ftrace_return_to_handler(&regs);
			link = regs.link;
		}
		return link;
	}
	/* @depth: the depth of the call in the thread's stack. */
	static void call(unsigned f, unsigned depth = 0, const std::function<void()> &body = [] {})
	{
		unsigned long sp = 0x90000 - 64 * depth, link = enter(f, 0x1000 + depth, sp);

		body();
		ASSERT_EQ(0x1000 + depth, leave(link, sp))
			<< "the function returned to a wrong address";
	}
	void expect_empty()
	{
		EXPECT_EQ(nullptr, stack.top);
		EXPECT_EQ(stack.words, stack.free);
		EXPECT_EQ(0u, stack.depth);
	}
};
std::string graph::events;
bool graph::refuses;
u32 graph::overrun;

TEST_F(graph, a_user_hears_of_each_entry_and_return)
{
	ASSERT_EQ(0, register_ftrace_graph(&user));
	call(3, 0, [] { call(4, 1), call(5, 1); });
	EXPECT_EQ("+3+4-4+5-5-3", events);
	expect_empty();
}

TEST_F(graph, the_call_is_patched_before_any_site_and_a_nop_again_after_all)
{
	u32 call;

	ASSERT_EQ(0, insn_call(FAKE_GRAPH_CALL, FAKE_GRAPH_CALLER, HOOK_LINK, &call));
	ASSERT_EQ(0, register_ftrace_graph(&user));
	EXPECT_EQ(call, fake_word(FAKE_GRAPH_CALL));
	EXPECT_EQ(2, fake_syncs) << "one batch patches ftrace_graph_call, one the sites";
	ASSERT_EQ(0, unregister_ftrace_graph(&user));
	EXPECT_EQ(INSN_NOP, fake_word(FAKE_GRAPH_CALL));
	EXPECT_GE(fake_graces, 1);
	graph::call(3);
	EXPECT_EQ("", events);
}

TEST_F(graph, a_foreign_word_at_the_call_is_left_alone_and_nobody_is_registered)
{
	fake_scribble(FAKE_GRAPH_CALL, 0x12345678);
	EXPECT_EQ(-ENODEV, register_ftrace_graph(&user));
	EXPECT_EQ(0x12345678u, fake_word(FAKE_GRAPH_CALL));
	EXPECT_NE(nullptr, strstr(fake_console, "refused to write"));
	EXPECT_EQ(-1, user.idx);
	EXPECT_EQ(-ENOENT, unregister_ftrace_graph(&user));
	fake_scribble(FAKE_GRAPH_CALL, INSN_NOP);
}

TEST_F(graph, a_foreign_word_at_a_site_and_the_call_is_a_nop_again)
{
	fake_scribble(KERNEL_BASE + 64 * 3, 0x12345678);
	EXPECT_EQ(-ENODEV, register_ftrace_graph(&user));
	EXPECT_EQ(INSN_NOP, fake_word(FAKE_GRAPH_CALL));
	EXPECT_EQ(-1, user.idx);
	fake_scribble(KERNEL_BASE + 64 * 3, INSN_NOP);
}

TEST_F(graph, a_foreign_word_at_the_call_is_reported_when_the_user_leaves)
{
	char expected[32];
	u32 call;

	ASSERT_EQ(0, insn_call(FAKE_GRAPH_CALL, FAKE_GRAPH_CALLER, HOOK_LINK, &call));
	snprintf(expected, sizeof(expected), "expected %08x", call);
	ASSERT_EQ(0, register_ftrace_graph(&user));
	fake_scribble(FAKE_GRAPH_CALL, 0x12345678);
	EXPECT_EQ(0, unregister_ftrace_graph(&user));
	EXPECT_EQ(0x12345678u, fake_word(FAKE_GRAPH_CALL));
	EXPECT_NE(nullptr, strstr(fake_console, "refused to write"))
		<< "ftrace_bug() must report that the nop was not written";
	EXPECT_NE(nullptr, strstr(fake_console, expected))
		<< "the word that ftrace_bug() was to expect is the call: " << expected << "\n"
		<< fake_console;
	fake_scribble(FAKE_GRAPH_CALL, INSN_NOP);
}

TEST_F(graph, who_says_no_leaves_the_return_alone)
{
	ASSERT_EQ(0, register_ftrace_graph(&user));
	refuses = true;
	EXPECT_EQ(0x1234u, enter(3, 0x1234, 0x90000));
	EXPECT_EQ("+3", events);
	EXPECT_EQ(0u, stack.overrun) << "the call was neither without room nor left by a jump";
	expect_empty();
}

TEST_F(graph, each_answer_but_0_is_a_yes)
{
	static int answer;

	user.entryfunc = [](struct ftrace_graph_ent *, struct fgraph_ops *, struct ftrace_regs *) {
		return answer;
	};
	ASSERT_EQ(0, register_ftrace_graph(&user));
	for (int value : {-1, 2, -2147483647 - 1}) {
		answer = value;
		unsigned long link = enter(3, 0x1234, 0x90000);
		EXPECT_EQ(RTH, link) << "the entry handler returned " << value << ", not 0";
		leave(link, 0x90000);
		expect_empty();
	}
	EXPECT_EQ("-3-3-3", events);
}

TEST_F(graph, only_functions_of_the_filter_are_heard_of_and_it_may_change)
{
	ASSERT_EQ(0, ftrace_filter_edit(&filter, "3", 1, true, false));
	ASSERT_EQ(0, register_ftrace_graph(&user));
	call(3), call(4);
	ASSERT_EQ(0, ftrace_filter_edit(&filter, "4", 1, true, false));
	call(3), call(4);
	EXPECT_EQ("+3-3+4-4", events);
	ASSERT_EQ(0, unregister_ftrace_graph(&user));
	ASSERT_EQ(0, ftrace_filter_edit(&filter, "", 0, true, false));
}

TEST_F(graph, no_user_is_registered_after_a_bad_site)
{
	ftrace_disabled = true;
	EXPECT_EQ(-ENODEV, register_ftrace_graph(&user));
	EXPECT_EQ(0, fake_syncs) << "nothing may be patched any more";
	ftrace_disabled = false;
}

TEST_F(graph, a_second_user_is_busy_and_no_memory_is_said)
{
	struct fgraph_ops second = user;
	struct ftrace_filter other = {};

	second.filter = &other;
	users_begin_error = -ENOMEM;
	EXPECT_EQ(-ENOMEM, register_ftrace_graph(&user));
	users_begin_error = 0;
	ASSERT_EQ(0, register_ftrace_graph(&user));
	EXPECT_EQ(-EBUSY, register_ftrace_graph(&user));
	EXPECT_EQ(-EBUSY, register_ftrace_graph(&second));
	EXPECT_EQ(-ENOENT, unregister_ftrace_graph(&second));
	ASSERT_EQ(0, unregister_ftrace_graph(&user));
	EXPECT_EQ(-ENOENT, unregister_ftrace_graph(&user));
	ASSERT_EQ(0, register_ftrace_graph(&second));
	EXPECT_EQ(0, unregister_ftrace_graph(&second));
}

/* As set_ftrace_filter, which is an op's and a user's. */
TEST_F(graph, the_filter_of_an_op_can_be_a_users_too)
{
	struct ftrace_ops op = {};

	op.func = ftrace_stub;
	op.flags = FTRACE_OPS_FL_RECURSION;
	op.slot = -1;
	user.filter = &op.filter;
	ASSERT_EQ(0, ftrace_set_filter(&op, "3", 1, true, false));
	ASSERT_EQ(0, register_ftrace_function(&op));
	ASSERT_EQ(0, register_ftrace_graph(&user));
	EXPECT_EQ(2, ftrace_records[2].count);
	ASSERT_EQ(0, ftrace_set_filter(&op, "4", 1, true, false));
	EXPECT_EQ(2, ftrace_records[3].count);
	ASSERT_EQ(0, unregister_ftrace_graph(&user));
	EXPECT_EQ(1, ftrace_records[3].count);
	EXPECT_EQ(nullptr, op.filter.changed);
	ASSERT_EQ(0, ftrace_set_filter(&op, "5", 1, true, false));
	EXPECT_EQ(0, ftrace_records[3].count);
	EXPECT_EQ(0, unregister_ftrace_function(&op));
	ftrace_filter_free(&op.filter);
}

TEST_F(graph, a_bad_site_leaves_the_filter_and_the_sites_as_they_were)
{
	ASSERT_EQ(0, ftrace_filter_edit(&filter, "3", 1, true, false));
	ASSERT_EQ(0, register_ftrace_graph(&user));
	fake_scribble(KERNEL_BASE + 64 * 4, 0x12345678);
	EXPECT_EQ(-ENODEV, ftrace_filter_edit(&filter, "4", 1, true, false));
	call(3), call(4);
	EXPECT_EQ("+3-3", events);
	fake_scribble(KERNEL_BASE + 64 * 4, INSN_NOP);
	ASSERT_EQ(0, unregister_ftrace_graph(&user));
	ftrace_filter_free(&filter);
}

TEST_F(graph, tail_calls_return_through_both_frames_and_a_walk_finds_the_caller)
{
	ASSERT_EQ(0, register_ftrace_graph(&user));
	unsigned long link = enter(5, 0x1234, 0x90000);
	events += ":"; /* 5 jumps to 6 */
	struct ftrace_regs regs = {};
	regs.sp = 0x90000;
	regs.fp = 0x90008;
	regs.link = link;
	user.entryfunc = [](struct ftrace_graph_ent *, struct fgraph_ops *, struct ftrace_regs *) {
		return 1;
	};
	prepare_ftrace_return(&regs.link, KERNEL_BASE + 64 * 6, &regs);
	EXPECT_EQ(RTH, regs.link);
	EXPECT_EQ(0x1234u, ftrace_graph_ret_addr(host_current, RTH, 0x90008));
	EXPECT_EQ(0x4321u, ftrace_graph_ret_addr(host_current, 0x4321, 0x90008));
	EXPECT_EQ(RTH, ftrace_graph_ret_addr(host_current, RTH, 0x80008))
		<< "no frame has this frame pointer";
	EXPECT_EQ(0x1234u, leave(regs.link, 0x90000));
	EXPECT_EQ("+5:-6-5", events);
	expect_empty();
}

TEST_F(graph, too_deep_is_counted_and_returns_untraced)
{
	unsigned frames = sizeof(stack.words) / sizeof(struct shadow_frame);
	std::function<void(unsigned)> down = [&](unsigned left) {
		static unsigned depth;
		depth++;
		call(1, depth, [&] {
			if (left > 1)
				down(left - 1);
		});
		depth--;
	};

	ASSERT_EQ(0, register_ftrace_graph(&user));
	down(frames + 30);
	EXPECT_EQ(30u, stack.overrun);
	EXPECT_EQ(30u, overrun) << "the return handlers must get the number of lost calls";
	EXPECT_EQ(4 * frames, events.size());
	expect_empty();
}

TEST_F(graph, a_thread_without_a_shadow_stack_is_left_alone)
{
	ASSERT_EQ(0, register_ftrace_graph(&user));
	host_current->ftrace = nullptr;
	call(3);
	EXPECT_EQ("", events);
}

TEST_F(graph, a_user_that_left_is_not_called_for_old_frames_nor_is_the_next)
{
	struct fgraph_ops next = user;

	ASSERT_EQ(0, register_ftrace_graph(&user));
	call(3, 0, [&] {
		unregister_ftrace_graph(&user);
		call(4, 1, [&] { register_ftrace_graph(&next); });
		call(5, 1, [&] {
			unregister_ftrace_graph(&next);
			register_ftrace_graph(&user);
		});
	});
	EXPECT_EQ("+3+5", events);
	call(6);
	EXPECT_EQ("+3+5+6-6", events);
	expect_empty();
}

TEST_F(graph, calls_that_were_left_are_told_and_popped_and_tracing_goes_on)
{
	ASSERT_EQ(0, register_ftrace_graph(&user));
	call(3, 0, [] {
		enter(4, 0x2222, 0x80000);
		enter(5, 0x3333, 0x70000);
	});
	EXPECT_EQ("+3+4+5/5/4-3", events);
	EXPECT_FALSE(ftrace_graph_dead);
	EXPECT_EQ(2u, overrun);
	expect_empty();
	call(5);
	EXPECT_EQ("+3+4+5/5/4-3+5-5", events);
}

TEST_F(graph, no_other_user_is_told_of_a_call_that_was_left)
{
	struct fgraph_ops next = user;

	ASSERT_EQ(0, register_ftrace_graph(&user));
	call(3, 0, [&] {
		enter(4, 0x2222, 0x80000);
		unregister_ftrace_graph(&user);
		register_ftrace_graph(&next);
	});
	EXPECT_EQ("+3+4", events);
	expect_empty();
	unregister_ftrace_graph(&next);
}

TEST_F(graph, a_full_stack_drops_the_frames_of_calls_that_were_left)
{
	unsigned frames = sizeof(stack.words) / sizeof(struct shadow_frame);

	ASSERT_EQ(0, register_ftrace_graph(&user));
	call(3, 0, [&] {
		for (unsigned i = 0; i < 3 * frames; i++)
			enter(4, 0x2222, 0x90000 - 64);
		EXPECT_EQ(6 * frames + 2, std::count(events.begin(), events.end(), '+') * 2)
			<< "each call is traced";
	});
	EXPECT_EQ(3 * frames, std::count(events.begin(), events.end(), '/'));
	EXPECT_FALSE(ftrace_graph_dead);
	expect_empty();
}

TEST_F(graph, of_two_frames_that_fit_the_newest_is_taken)
{
	ASSERT_EQ(0, register_ftrace_graph(&user));
	unsigned long link = enter(5, 0x1234, 0x90000);
	EXPECT_EQ(RTH, link);
	user.entryfunc = [](struct ftrace_graph_ent *, struct fgraph_ops *, struct ftrace_regs *) {
		return 1;
	};
	/* 5 jumps to 6, which has the same sp and calls 7; 7 is left, and 6 returns */
	EXPECT_EQ(RTH, enter(6, link, 0x90000));
	enter(7, 0x2222, 0x80000);
	EXPECT_EQ(0x1234u, leave(RTH, 0x90000));
	EXPECT_EQ("+5/7-6-5", events) << "6 and 5 have returned, and 7 was left";
	expect_empty();
}

TEST_F(graph, a_return_that_fits_no_frame_drops_no_frame)
{
	ASSERT_EQ(0, register_ftrace_graph(&user));
	unsigned long outer = enter(2, 0x1000, 0x90000), link = enter(3, 0x1234, 0x80000);
	EXPECT_EQ(0x1234u, leave(link, 0x80010)) << "the newest frame is the best guess";
	EXPECT_TRUE(ftrace_graph_dead);
	EXPECT_EQ(KERNEL_BASE + 64 * 3, stopped.func);
	EXPECT_EQ("+2+3", events) << "no call was left, so no gone handler may run";
	EXPECT_EQ(0u, stack.overrun);
	EXPECT_EQ(0x1000u, leave(outer, 0x90000));
	expect_empty();
}

/* All frames but the outermost one belong to calls that were left. */
TEST_F(graph, a_frame_is_found_however_far_down_it_is)
{
	const unsigned frames = sizeof(stack.words) / sizeof(struct shadow_frame);

	ASSERT_EQ(0, register_ftrace_graph(&user));
	call(3, 0, [&] {
		for (unsigned i = 1; i < frames; i++)
			enter(4, 0x2222, 0x90000 - 64 * i);
	});
	EXPECT_FALSE(ftrace_graph_dead);
	EXPECT_EQ(frames - 1, std::count(events.begin(), events.end(), '/'));
	expect_empty();
}

TEST_F(graph, if_no_frame_fits_the_newest_one_is_taken)
{
	ASSERT_EQ(0, register_ftrace_graph(&user));
	call(2, 1, [] {
		unsigned long link = enter(3, 0x1234, 0x80000);
		EXPECT_EQ(0x1234u, leave(link, 0x70000));
	});
	EXPECT_TRUE(ftrace_graph_dead);
	EXPECT_EQ(KERNEL_BASE + 64 * 3, stopped.func);
	EXPECT_EQ(0x80000u, stopped.expected);
	EXPECT_EQ(0x70000u, stopped.found);
	EXPECT_EQ("+2+3", events) << "no handler may run after a bad frame";
	expect_empty();
	call(5);
	EXPECT_EQ("+2+3", events);
	EXPECT_EQ(0, unregister_ftrace_graph(&user));
	EXPECT_EQ(-ENODEV, register_ftrace_graph(&user));
}

TEST_F(graph, a_return_without_any_frame_is_a_panic)
{
	const char *said = "";

	try {
		leave(RTH, 0x90000);
	} catch (const char *text) {
		said = text;
	}
	EXPECT_STREQ("return_to_handler ran, but the shadow stack has no frame", said);
}

TEST_F(graph, a_handler_that_calls_traced_functions_is_not_called_for_them)
{
	user.entryfunc = [](struct ftrace_graph_ent *t, struct fgraph_ops *g,
			    struct ftrace_regs *r) {
		call(8, 5);
		return entry(t, g, r);
	};
	user.retfunc = [](struct ftrace_graph_ret *t, struct fgraph_ops *g, struct ftrace_regs *r) {
		call(9, 5);
		ret(t, g, r);
	};
	ASSERT_EQ(0, register_ftrace_graph(&user));
	call(3);
	EXPECT_EQ("+3-3", events);
	EXPECT_EQ(0u, host_cpu->recursion);
}

/* As above, of the gone handler: 4 was left. */
struct gone_handler : graph {
	static bool calls; /* one call for each event, so that a tracer without a guard also ends */

	static void gone_calls(struct ftrace_graph_ent *t, struct fgraph_ops *g)
	{
		if (calls) {
			calls = false;
			call(9, 5);
			calls = true;
		}
		gone(t, g);
	}
	void SetUp() override
	{
		graph::SetUp();
		calls = true;
		user.gonefunc = gone_calls;
	}
	/* Of the events of the calls that were left: none of 9 may be there. */
	void expect_no_calls()
	{
		EXPECT_EQ(std::string::npos, events.find('9'))
			<< "a gone handler called a traced function, and the user was called for "
			   "it: the recursion bit was not set";
		EXPECT_EQ(0u, host_cpu->recursion);
		expect_empty();
	}
};
bool gone_handler::calls;

TEST_F(gone_handler, calls_no_handler_at_a_return)
{
	ASSERT_EQ(0, register_ftrace_graph(&user));
	call(3, 0, [] { enter(4, 0x2222, 0x80000); });
	EXPECT_NE(std::string::npos, events.find('/'));
	expect_no_calls();
}

TEST_F(gone_handler, calls_no_handler_when_the_stack_is_full)
{
	ASSERT_EQ(0, register_ftrace_graph(&user));
	call(3, 0, [&] {
		while (!shadow_is_full(&stack))
			enter(4, 0x2222, 0x90000 - 64);
		call(5, 1);
	});
	EXPECT_NE(std::string::npos, events.find('/'));
	expect_no_calls();
}

TEST_F(gone_handler, gets_its_user_and_finds_the_data_of_the_call)
{
	static struct fgraph_ops *given;
	static std::string found;

	found = "";
	given = nullptr;
	user.entryfunc = [](struct ftrace_graph_ent *t, struct fgraph_ops *g,
			    struct ftrace_regs *) {
		u64 *kept = (u64 *)fgraph_reserve_data(g->idx, sizeof(u64));

		if (kept)
			*kept = (t->func - KERNEL_BASE) / 64;
		return 1;
	};
	user.gonefunc = [](struct ftrace_graph_ent *, struct fgraph_ops *g) {
		u64 *kept = (u64 *)fgraph_retrieve_data(0, nullptr);

		found += kept ? std::to_string(*kept) : "-";
		given = g;
	};
	ASSERT_EQ(0, register_ftrace_graph(&user));
	call(3, 0, [] {
		enter(4, 0x2222, 0x80000);
		enter(5, 0x3333, 0x70000);
	});
	EXPECT_EQ("54", found) << "the frame is popped after its gone handler, not before";
	EXPECT_EQ(&user, given);
	expect_empty();
}

/*
 * While each handler runs, an interrupt comes, whose calls are traced: one returns, one is left.
 * What the handler was given stays, and a function that it calls then is not traced.
 */
struct interrupted_handler : graph {
	static bool inside; /* so that a tracer without a guard also ends */

	static void interrupt()
	{
		if (inside)
			return;
		inside = true;
		host_cpu->context_bit = 2;
		call(6, 1000, [] { enter(7, 0x2222, 0x90000 - 64 * 1001); });
		host_cpu->context_bit = 1;
		call(8, 2000);
		inside = false;
	}
	template <class T> static void handler(T *given)
	{
		T before = *given;

		interrupt();
		EXPECT_EQ(0, memcmp(&before, given, sizeof(before)))
			<< "an interrupt's calls have changed what a handler was given";
	}
	void SetUp() override
	{
		graph::SetUp();
		user.entryfunc = [](struct ftrace_graph_ent *t, struct fgraph_ops *g,
				    struct ftrace_regs *r) {
			handler(t);
			return entry(t, g, r);
		};
		user.retfunc = [](struct ftrace_graph_ret *t, struct fgraph_ops *g,
				  struct ftrace_regs *r) {
			handler(t);
			ret(t, g, r);
		};
		user.gonefunc = [](struct ftrace_graph_ent *t, struct fgraph_ops *g) {
			handler(t);
			gone(t, g);
		};
	}
};

bool interrupted_handler::inside;

TEST_F(interrupted_handler, keeps_what_it_was_given_and_its_recursion_bit)
{
	ASSERT_EQ(0, register_ftrace_graph(&user));
	call(3, 0, [] { enter(4, 0x2222, 0x90000 - 64); });
	EXPECT_EQ(std::string::npos, events.find('8'))
		<< "after an interrupt a handler called a traced function, and the user was called "
		   "for it: the interrupt has not restored the recursion bit of the thread";
	EXPECT_EQ("+6+7/7-6+3+6+7/7-6+4+6+7/7-6/4+6+7/7-6-3", events);
	EXPECT_EQ(0u, host_cpu->recursion);
	expect_empty();
}

TEST_F(graph, what_an_entry_keeps_its_return_finds_and_only_that)
{
	static std::string found;
	const unsigned frames = sizeof(stack.words) / sizeof(struct shadow_frame);
	unsigned depth = 0;
	std::function<void(unsigned)> down = [&](unsigned left) {
		call(2, depth++, [&] {
			if (left)
				down(left - 1);
		});
		depth--;
	};

	found.clear();
	user.entryfunc = [](struct ftrace_graph_ent *t, struct fgraph_ops *g,
			    struct ftrace_regs *) {
		u64 *kept = t->depth % 2 ? nullptr
					 : (u64 *)fgraph_reserve_data(g->idx, 2 * sizeof(u64));

		if (kept)
			kept[0] = 100 + t->depth, kept[1] = ~0ull;
		return 1;
	};
	user.retfunc = [](struct ftrace_graph_ret *t, struct fgraph_ops *g, struct ftrace_regs *) {
		u64 *kept = (u64 *)fgraph_retrieve_data(g->idx, nullptr);

		found += kept ? std::to_string(kept[0]) + (kept[1] == ~0ull ? " " : "! ") : "- ";
	};
	ASSERT_EQ(0, register_ftrace_graph(&user));
	down(3);
	EXPECT_EQ("- 102 - 100 ", found);
	expect_empty();
	down(2 * frames);
	EXPECT_EQ(std::string::npos, found.find('!'));
	EXPECT_LE((char *)stack.free, (char *)&stack + SHADOW_SIZE);
	expect_empty();
}

TEST_F(graph, a_thread_and_its_next_user_have_a_word_that_starts_at_zero)
{
	ASSERT_EQ(0, register_ftrace_graph(&user));
	EXPECT_EQ(0u, *fgraph_get_task_var(&user));
	*fgraph_get_task_var(&user) = 5;
	EXPECT_EQ(5u, *fgraph_get_task_var(&user));
	ASSERT_EQ(0, unregister_ftrace_graph(&user));
	ASSERT_EQ(0, register_ftrace_graph(&user));
	EXPECT_EQ(0u, *fgraph_get_task_var(&user));
}

TEST_F(graph, every_store_to_a_shadow_stack_has_a_hook_before_and_after_it)
{
	unsigned long seen[SHADOW_SIZE / 8];
	unsigned hooks = 0;
	auto look = [&] {
		unsigned changed = 0;

		for (unsigned i = 0; i < SHADOW_SIZE / 8; i++)
			changed += seen[i] != ((unsigned long *)&stack)[i];
		EXPECT_LE(changed, hooks++ % 2) << "a store without shadow_store()";
		memcpy(seen, &stack, sizeof(seen));
	};

	ASSERT_EQ(0, register_ftrace_graph(&user));
	memcpy(seen, &stack, sizeof(seen));
	at_store = look;
	call(3, 0, [] { call(4, 1); });
	at_store = nullptr;
	look();
	EXPECT_GT(hooks, 40u);
}

TEST_F(graph, a_frame_is_filled_before_top_leads_to_it_and_stays)
{
	unsigned long seen[6]; /* ret to below */
	struct shadow_frame *top = nullptr;
	unsigned looks = 0;

	host_counter = 1000;
	ASSERT_EQ(0, register_ftrace_graph(&user));
	at_store = [&] {
		if (top && top == stack.top) {
			ASSERT_EQ(0, memcmp(seen, top, sizeof(seen)))
				<< "a word of a frame changed while `top` pointed to it: the frame "
				   "must be complete when it is pushed, with its time";
			looks++;
		}
		top = stack.top;
		if (top)
			memcpy(seen, top, sizeof(seen));
	};
	call(3, 0, [] { call(4, 1); });
	EXPECT_GT(looks, 10u);
	host_counter = 0;
}

/*
 * Interrupts at every store of two nested calls, and at every pair of stores.
 * Each interrupt finds the shadow stack consistent and leaves it as it was, and
 * its own calls return to their callers.
 */
TEST_F(graph, an_interrupt_at_any_two_stores_does_no_harm)
{
	std::set<unsigned> when;
	unsigned store, stores = 0, interrupts = 0;
	auto interrupt = [&] {
		auto *top = stack.top;
		auto *free = stack.free;
		auto depth = stack.depth;

		interrupts++;
		for (auto *f = stack.top; f; f = f->below) {
			ASSERT_TRUE(f->ret >= 0x1000 && f->ret < 0x1002)
				<< "top leads to an incomplete frame";
			ASSERT_LE((unsigned long *)(f + 1), stack.free)
				<< "a frame ends above free";
			ASSERT_EQ(f->ret, ftrace_graph_ret_addr(host_current, RTH, f->fp));
		}
		ASSERT_LE(depth * sizeof(struct shadow_frame),
			  (size_t)((char *)free - (char *)stack.words))
			<< "`depth` counts a frame whose room is free";
		host_cpu->context_bit = 2;
		call(6, 10, [] { call(7, 11); });
		host_cpu->context_bit = 1;
		ASSERT_EQ(top, stack.top);
		ASSERT_EQ(free, stack.free);
		ASSERT_EQ(depth, stack.depth);
	};
	auto run = [&](std::set<unsigned> at) {
		when = at;
		store = 0;
		events = "";
		at_store = [&] {
			static bool inside;

			if (inside || !when.count(store++))
				return;
			inside = true;
			interrupt();
			inside = false;
		};
		call(3, 0, [] { call(4, 1); });
		at_store = nullptr;
		stores = store;
		std::string rest;
		for (size_t i = 0; i < events.size(); i++)
			if (!strchr("67", events[i]) &&
			    !(i + 1 < events.size() && strchr("67", events[i + 1])))
				rest += events[i];
		ASSERT_EQ("+3+4-4-3", rest);
		ASSERT_EQ(8 + 8 * when.size(), events.size())
			<< "the user must be called for the calls of each interrupt";
		expect_empty();
	};

	ASSERT_EQ(0, register_ftrace_graph(&user));
	run({});
	unsigned all = stores;
	ASSERT_GT(all, 40u);
	for (unsigned a = 0; a < all; a++)
		for (unsigned b = a; b < all && !HasFatalFailure(); b++)
			run({a, b});
	EXPECT_EQ(interrupts, all * all) << "an interrupt must come at each pair of stores";
}
