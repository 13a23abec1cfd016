// needs: kern/ftrace/graph/shadow.c kern/ftrace/graph/shadow_frame.c -Ikern/ftrace/tests/host
// needs: -Ikern/ftrace/tests/host/riscv64 -DSHADOW_HOOK=1
/*
 * When a thread has a shadow stack: it gets one when it is created or when the
 * first user is registered; the stack is taken back when the last user is gone and
 * the stack is empty, while another CPU may be at any store of the thread's last
 * pop. A CPU is a pthread.
 */
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#define private private_
#include "cpu.h"
#include "errno.h"
#include "fgraph.h"
#include "shadow.h"
#include "unwind.h"
#undef private

struct cpu cpus[NR_CPUS];
unsigned nr_cpus = 1;
__thread struct cpu *host_cpu;
__thread struct thread *host_current;
extern const struct thread_hook shadow_thread_hook;

unsigned long ftrace_graph_ret_addr(struct thread *, unsigned long ret, unsigned long)
{
	return ret;
}
static std::vector<struct thread *> threads;
static std::function<void()> at_walk; /* called during a walk over all threads */
void threads_and_idle_for_each(void (*fn)(struct thread *t, void *arg), void *arg)
{
	if (at_walk)
		at_walk();
	for (auto *t : threads)
		fn(t, arg);
	fn(cpus[0].idle, arg);
}
static std::set<void *> pages;
static size_t pages_most = 1000;
void *page_alloc(unsigned)
{
	void *p = pages.size() < pages_most ? malloc(PAGE_SIZE) : nullptr;
	if (p)
		pages.insert(p);
	return p;
}
void page_free(void *p, unsigned)
{
	ASSERT_EQ(pages.erase(p), 1u) << "page_free() got no address of an allocated page";
	memset(p, 0x6b, PAGE_SIZE);
	free(p);
}
bool shadow_make_room(struct shadow_stack *, const struct ftrace_regs *)
{
	return false;
}
static std::function<void()> in_grace;
void synchronize_sched(void)
{
	if (in_grace)
		in_grace();
}
static std::string said;
int printk(const char *fmt, ...)
{
	said += fmt;
	return 0;
}
static std::function<void()> at_store;
void shadow_hook(void)
{
	if (at_store)
		at_store();
}
}

struct shadow : testing::Test {
	struct thread idle = {}, a = {}, b = {};

	void SetUp() override
	{
		cpus[0].idle = &idle;
		host_cpu = &cpus[0];
		host_current = &a;
		threads = {&a, &b};
		pages_most = 1000;
	}
	void TearDown() override
	{
		at_store = in_grace = at_walk = nullptr;
		EXPECT_TRUE(pages.empty()) << "a shadow stack was not freed";
	}
	static struct shadow_frame *push(struct thread *t)
	{
		struct ftrace_regs regs = {};
		return shadow_push(shadow_of(t), 1, &regs, 2, 1 << 16);
	}
	static void event(enum thread_event e, struct thread *prev, struct thread *next)
	{
		shadow_thread_hook.fn(e, prev, next);
	}
};

TEST_F(shadow, every_thread_has_one_while_there_is_a_user)
{
	struct thread born = {};
	ASSERT_EQ(shadow_users_begin(), 0);
	event(THREAD_BORN, &a, &born);
	for (auto *t : {&idle, &a, &b, &born})
		ASSERT_NE(shadow_of(t), nullptr);
	EXPECT_EQ(pages.size(), 4u);
	event(THREAD_FREED, &born, nullptr);
	shadow_users_end();
	for (auto *t : {&idle, &a, &b})
		EXPECT_EQ(shadow_of(t), nullptr);
}

TEST_F(shadow, a_thread_that_is_inside_keeps_it_until_a_switch_after_it_has_left)
{
	ASSERT_EQ(shadow_users_begin(), 0);
	auto *f = push(&b);
	shadow_users_end();
	ASSERT_NE(shadow_of(&b), nullptr);
	event(THREAD_SWITCH, &b, &a);
	ASSERT_NE(shadow_of(&b), nullptr) << "a shadow stack with a frame on it must stay";
	ASSERT_EQ(shadow_users_begin(), 0);
	EXPECT_EQ(shadow_of(&b)->top, f) << "a thread must keep the stack that it has";
	shadow_users_end();
	shadow_pop(shadow_of(&b), f);
	event(THREAD_SWITCH, &b, &a);
	EXPECT_EQ(shadow_of(&b), nullptr);
}

TEST_F(shadow, no_memory_for_all_and_none_is_left)
{
	pages_most = 2;
	EXPECT_EQ(shadow_users_begin(), -ENOMEM);
	EXPECT_TRUE(pages.empty());
}

TEST_F(shadow, no_memory_for_a_thread_that_is_born_is_said)
{
	struct thread born = {};
	ASSERT_EQ(shadow_users_begin(), 0);
	said.clear();
	event(THREAD_BORN, &a, &born);
	EXPECT_EQ(said, "");
	event(THREAD_FREED, &born, nullptr);
	born = {};
	pages_most = pages.size();
	event(THREAD_BORN, &a, &born);
	EXPECT_EQ(shadow_of(&born), nullptr);
	EXPECT_NE(said.find("no memory for thread"), std::string::npos);
	shadow_users_end();
}

/*
 * The CPU that pops stops at a store; the other CPU takes all stacks; the pop ends in the grace
 * period.
 */
TEST_F(shadow, a_stack_is_taken_at_any_store_of_its_last_pop)
{
	unsigned stores = 0;
	ASSERT_EQ(shadow_users_begin(), 0);
	auto *f = push(&a);
	at_store = [&] { stores++; };
	shadow_pop(shadow_of(&a), f);
	at_store = nullptr;
	shadow_users_end();
	for (unsigned k = 0; k < stores; k++) {
		std::atomic<bool> there(false), go_on(false);
		ASSERT_EQ(shadow_users_begin(), 0);
		f = push(&a);
		unsigned now = 0;
		at_store = [&] {
			if (now++ != k)
				return;
			there = true;
			while (!go_on)
				std::this_thread::yield();
		};
		std::thread other([&] { shadow_pop(shadow_of(&a), f); });
		while (!there)
			std::this_thread::yield();
		in_grace = [&] {
			go_on = true;
			if (other.joinable())
				other.join();
		};
		shadow_users_end();
		at_store = in_grace = nullptr;
		event(THREAD_SWITCH, &a, &b);
		ASSERT_EQ(shadow_of(&a), nullptr);
		ASSERT_TRUE(pages.empty()) << "at store " << k;
	}
}

/*
 * A walk over all threads may need the run-queue lock of a CPU that is in a
 * switch, so a switch must not wait for the walk.
 */
TEST_F(shadow, a_switch_does_not_wait_for_a_walk_over_all_threads)
{
	std::atomic<bool> switched(false);
	std::thread other;
	ASSERT_EQ(shadow_users_begin(), 0);
	at_walk = [&] {
		other = std::thread([&] {
			event(THREAD_SWITCH, &b, &a);
			switched = true;
		});
		for (int i = 0; i < 1000 && !switched; i++)
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
		EXPECT_TRUE(switched) << "the switch must not wait for the end of the walk";
	};
	shadow_users_end();
	other.join();
	EXPECT_EQ(shadow_of(&b), nullptr);
}

TEST_F(shadow, a_frame_that_does_not_fit_is_said_once)
{
	ftrace_graph_stop(1, 2, 3);
	ftrace_graph_stop(4, 5, 6);
	EXPECT_TRUE(ftrace_graph_dead);
	event(THREAD_SWITCH, &a, &b);
	EXPECT_NE(said.find("graph tracing is off for good"), std::string::npos);
	said.clear();
	event(THREAD_SWITCH, &a, &b);
	EXPECT_TRUE(said.empty());
}
