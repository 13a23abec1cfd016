// needs: kern/ftrace/graph/fgraph.c kern/ftrace/trace/trace_graph_direct.c
// needs: kern/ftrace/graph/shadow_frame.c kern/ftrace/graph/shadow_room.c
// needs: kern/ftrace/graph/shadow_var.c kern/ftrace/core/hash.c kern/ftrace/tests/fake_kernel.c
// needs: kern/ftrace/core/table.c kern/ftrace/core/set.c -Ikern/ftrace/tests/host
// needs: -Ikern/ftrace/tests/host/riscv64 -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul
// needs: -DSHADOW_HOOK=1
/*
 * The shadow stack and its users on the host. A processor is imitated: a call
 * has a site, an sp and a link; the op of fgraph.c may replace the link; the
 * call must still return to its caller. Interrupts come at any store to the
 * shadow stack, and call traced functions themselves.
 */
#include "fake_kernel.h"
#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

extern "C" {
#define private private_
#include "cpu.h"
#include "errno.h"
#include "fgraph.h"
#include "hash.h"
#include "shadow.h"
#include "trace_graph_event.h"
#include "asm-ftrace/regs.h"
#undef private

static struct ftrace_ops *graph_op; /* registered, or NULL */
static int users_begin_error, startup_error;
static bool users_on;
bool ftrace_disabled, ftrace_graph_dead;
struct mutex ftrace_lock;
struct stopped {
	unsigned long func, expected, found;
} stopped;

int ftrace_set_hash(struct ftrace_filter *, const struct ftrace_set *, bool)
{
	return startup_error;
}
int ftrace_startup(struct ftrace_ops *op)
{
	if (startup_error)
		return startup_error;
	graph_op = op;
	op->slot = 0;
	return 0;
}
int ftrace_shutdown(struct ftrace_ops *op)
{
	graph_op = nullptr;
	synchronize_sched();
	op->slot = -1;
	return 0;
}
void ftrace_set_func(struct ftrace_ops *op, ftrace_func_t func)
{
	op->func = func;
}
int shadow_users_begin(void)
{
	users_on = !users_begin_error;
	return users_begin_error;
}
void shadow_users_end(void)
{
	users_on = false;
}
void ftrace_graph_stop(unsigned long func, unsigned long expected, unsigned long found)
{
	stopped = {func, expected, found};
	ftrace_graph_dead = true;
}
u64 clock_mult = 1ull << 54;
void return_to_handler(void)
{
	abort();
}
void panic(const char *fmt, ...)
{
	throw fmt;
}
}

static std::function<void()> at_store;
extern "C" void shadow_hook(void)
{
	if (at_store)
		at_store();
}

static const unsigned long RTH = (unsigned long)return_to_handler;

/* the thread's: call() uses its upper end */
static const unsigned long STACK = 0x9000 + 64 - THREAD_SIZE;

struct call {
	int func;
	unsigned long link, sp;
};

struct fgraph : testing::Test {
	struct shadow_stack stack;
	struct event {
		int user;
		bool entry;
		int func;
		int depth;
		bool operator==(const event &o) const
		{
			return user == o.user && entry == o.entry && func == o.func &&
			       depth == o.depth;
		}
		friend std::ostream &operator<<(std::ostream &out, const event &e)
		{
			return out << "{user " << e.user << (e.entry ? " entry" : " return") << " f"
				   << e.func << " depth " << e.depth << "}";
		}
	};
	static std::vector<event> events;
	static u32 overrun; /* that the last return handler was given */
	static std::vector<unsigned long> owed; /* true return addresses, outermost first */
	static std::vector<unsigned long> owed_fp;

	/* A user: its functions, and what its entry handler returns. */
	struct user {
		struct ftrace_filter filter = {};
		struct fgraph_ops ops = {};
		int id;
		int words = 0; /* size of its entry data */
		bool yes = true;
		user(int id, unsigned long functions = ~0ul) : id(id)
		{
			if (functions != ~0ul)
				filter.filter_hash = ftrace_hash_new(64);
			for (int i = 0; i < 40 && functions != ~0ul; i++)
				if (functions >> i & 1)
					ftrace_hash_add(filter.filter_hash, 16 * i);
			ops.entryfunc = entry;
			ops.retfunc = ret;
			ops.gonefunc = gone;
			ops.filter = &filter;
			ops.private_ = this;
			ops.idx = -1;
		}
		~user()
		{
			ftrace_hash_free(filter.filter_hash);
		}
		static int entry(struct ftrace_graph_ent *t, struct fgraph_ops *g,
				 struct ftrace_regs *)
		{
			user *u = (user *)g->private_;
			int f = (t->func - KERNEL_BASE) / 16;
			if (u->words) {
				auto *d =
					(unsigned long *)fgraph_reserve_data(g->idx, u->words * 8);
				for (int i = 0; d && i < u->words; i++)
					d[i] = datum(u->id, f, t->depth) + i;
			}
			if (u->yes)
				events.push_back({u->id, true, f, t->depth});
			EXPECT_FALSE(host_irqs_masked) << "a handler may be interrupted";
			return u->yes;
		}
		static void ret(struct ftrace_graph_ret *t, struct fgraph_ops *g,
				struct ftrace_regs *)
		{
			user *u = (user *)g->private_;
			int f = (t->func - KERNEL_BASE) / 16, size = 0;
			events.push_back({u->id, false, f, t->depth});
			EXPECT_FALSE(host_irqs_masked) << "a handler may be interrupted";
			overrun = t->overrun;
			if (!u->words)
				return;
			auto *d = (unsigned long *)fgraph_retrieve_data(g->idx, &size);
			ASSERT_NE(d, nullptr);
			ASSERT_EQ(size, u->words * 8);
			for (int i = 0; i < u->words; i++)
				ASSERT_EQ(d[i], datum(u->id, f, t->depth) + i);
		}
		/* As the event of a return, of the user with the number -id. */
		static void gone(struct ftrace_graph_ent *t, struct fgraph_ops *g)
		{
			user *u = (user *)g->private_;
			int f = (t->func - KERNEL_BASE) / 16;
			events.push_back({-u->id, false, f, t->depth});
			auto *d = (unsigned long *)fgraph_retrieve_data(g->idx, nullptr);
			if (d) { /* else there was no room */
				ASSERT_EQ(d[0], datum(u->id, f, t->depth));
			}
		}
		static unsigned long datum(int id, int f, int depth)
		{
			return 1000000ul * id + 1000 * f + 100000000ul * depth;
		}
	};

	void SetUp() override
	{
		fake_reset();
		memset(&stack, 0, sizeof(stack));
		shadow_init(&stack);
		host_current->ftrace = &stack;
		host_current->stack = (void *)STACK;
		host_cpu->recursion = 0;
		host_cpu->context_bit = 1;
		for (int i = 0; i < 40; i++)
			fake_record(16 * i + 16, "f");
		events.clear();
		owed.clear();
		owed_fp.clear();
		at_store = nullptr;
		ftrace_graph_dead = false;
		users_begin_error = startup_error = 0;
	}
	void TearDown() override
	{
		at_store = nullptr;
		EXPECT_EQ(graph_op, nullptr) << "a test did not unregister its users";
		EXPECT_FALSE(users_on);
	}

	/* Call function @f with @link, @sp and @fp; run @body; f must return to @link. */
	static void call_at(int f, unsigned long link, unsigned long sp, unsigned long fp,
			    const std::function<void(unsigned long)> &body)
	{
		struct ftrace_regs regs = {};
		regs.sp = sp;
		regs.fp = fp;
		regs.link = link;
		owed.push_back(link);
		owed_fp.push_back(fp);
		if (struct ftrace_ops *op = READ_ONCE(graph_op))
			READ_ONCE(op->func)(KERNEL_BASE + 16 * f, link, op, &regs);
		body(regs.link);
		comes_back(regs.link, link, sp, fp);
	}
	/* Imitate a `ret` to @link; it must end at @home. */
	static void comes_back(unsigned long link, unsigned long home, unsigned long sp,
			       unsigned long fp)
	{
		while (link == RTH) {
			struct ftrace_regs at_return = {};
			at_return.sp = sp;
			at_return.fp = fp;
			at_return.link = RTH;
			ftrace_return_to_handler(&at_return);
			link = at_return.link;
			if (home == RTH)
				break;
		}
		ASSERT_EQ(link, home) << "the function returned to a wrong address";
		owed.pop_back();
		owed_fp.pop_back();
	}
	static void call(int f, unsigned depth = 0, const std::function<void()> &body = [] {})
	{
		call_at(f, 0x1000 + f, 0x9000 - 64 * depth, 0x9000 - 64 * depth + 8,
			[&](unsigned long) { body(); });
	}
	/* A whole tree of calls, the same for the same @seed. */
	static void tree(unsigned seed, unsigned depth, unsigned most)
	{
		std::minstd_rand r(seed);
		int n = 1 + r() % 3;
		for (int i = 0; i < n; i++) {
			unsigned s = r();
			call(r() % 30 + 1, depth, [&] {
				if (depth < most)
					tree(s, depth + 1, most);
			});
		}
	}
	bool is_empty()
	{
		return stack.top == nullptr && stack.free == stack.words && stack.depth == 0;
	}
	/* Imitate an interrupt: it has its own context bit, and everything is restored after it. */
	static void interrupt(unsigned level, const std::function<void()> &handler)
	{
		auto bit = host_cpu->context_bit;
		host_cpu->context_bit = 1ull << level;
		handler();
		host_cpu->context_bit = bit;
	}
	/* A stack walk of the thread finds the true return address of every call in progress. */
	static void walk_finds_everything()
	{
		struct shadow_stack *s = (struct shadow_stack *)host_current->ftrace;
		size_t frames = 0;
		for (struct shadow_frame *f = s->top; f; f = f->below) {
			bool known = false;
			ASSERT_LE(++frames, owed.size()) << "more frames than calls in progress";
			for (size_t i = 0; i < owed.size(); i++)
				known |= owed[i] == f->ret && owed_fp[i] == f->fp;
			ASSERT_TRUE(known)
				<< "a frame on the shadow stack belongs to no call in progress";
			if (f->ret != RTH) {
				ASSERT_EQ(ftrace_graph_ret_addr(host_current, RTH, f->fp), f->ret);
			}
		}
	}
};
std::vector<fgraph::event> fgraph::events;
u32 fgraph::overrun;
std::vector<unsigned long> fgraph::owed, fgraph::owed_fp;

TEST_F(fgraph, one_user_hears_entry_and_return_in_order)
{
	user a(1);
	ASSERT_EQ(register_ftrace_graph(&a.ops), 0);
	call(3, 0, [] { call(4, 1); });
	std::vector<event> expected = {
		{1, true, 3, 0}, {1, true, 4, 1}, {1, false, 4, 1}, {1, false, 3, 0}};
	EXPECT_EQ(events, expected);
	EXPECT_TRUE(is_empty());
	ASSERT_EQ(unregister_ftrace_graph(&a.ops), 0);
}

TEST_F(fgraph, return_handlers_run_in_reverse_order)
{
	user a(1), b(2), c(3);
	register_ftrace_graph(&a.ops);
	register_ftrace_graph(&b.ops);
	register_ftrace_graph(&c.ops);
	call(5);
	std::vector<event> expected = {{1, true, 5, 0},	 {2, true, 5, 0},  {3, true, 5, 0},
				       {3, false, 5, 0}, {2, false, 5, 0}, {1, false, 5, 0}};
	EXPECT_EQ(events, expected);
	unregister_ftrace_graph(&b.ops);
	unregister_ftrace_graph(&a.ops);
	unregister_ftrace_graph(&c.ops);
}

TEST_F(fgraph, only_who_said_yes_and_whose_filter_has_it_hears_of_the_return)
{
	user a(1, 1 << 5), b(2, 1 << 5 | 1 << 6), c(3);
	c.yes = false;
	register_ftrace_graph(&a.ops);
	register_ftrace_graph(&b.ops);
	register_ftrace_graph(&c.ops);
	call(6);
	std::vector<event> expected = {{2, true, 6, 0}, {2, false, 6, 0}};
	EXPECT_EQ(events, expected);
	for (auto *u : {&a, &b, &c})
		unregister_ftrace_graph(&u->ops);
}

TEST_F(fgraph, nobody_said_yes_and_the_return_is_left_alone)
{
	user a(1);
	a.yes = false;
	a.words = 3;
	register_ftrace_graph(&a.ops);
	call_at(5, 0x1234, 0x9000, 0x9008, [](unsigned long link) { EXPECT_EQ(link, 0x1234u); });
	EXPECT_TRUE(is_empty()) << "data of a user that says no must be released";
	unregister_ftrace_graph(&a.ops);
}

TEST_F(fgraph, the_seventeenth_user_gets_enospc_and_a_user_is_registered_once)
{
	std::vector<user *> users;
	for (int i = 0; i < FGRAPH_USERS; i++) {
		users.push_back(new user(i));
		ASSERT_EQ(register_ftrace_graph(&users[i]->ops), 0);
	}
	user late(99);
	EXPECT_EQ(register_ftrace_graph(&late.ops), -ENOSPC);
	EXPECT_EQ(register_ftrace_graph(&users[3]->ops), -EBUSY);
	EXPECT_EQ(unregister_ftrace_graph(&late.ops), -ENOENT);
	ftrace_disabled = true;
	EXPECT_EQ(register_ftrace_graph(&late.ops), -ENODEV);
	EXPECT_EQ(register_ftrace_graph(&users[3]->ops), -ENODEV) << "that error is the first";
	ftrace_disabled = false;
	unregister_ftrace_graph(&users[7]->ops);
	EXPECT_EQ(register_ftrace_graph(&late.ops), 0);
	call(1);
	EXPECT_EQ(events.size(), 2u * FGRAPH_USERS);
	unregister_ftrace_graph(&late.ops);
	for (int i = 0; i < FGRAPH_USERS; i++) {
		if (i != 7)
			unregister_ftrace_graph(&users[i]->ops);
		delete users[i];
	}
}

TEST_F(fgraph, a_user_behind_a_free_slot_is_still_registered)
{
	user a(1), b(2);
	register_ftrace_graph(&a.ops);
	register_ftrace_graph(&b.ops);
	unregister_ftrace_graph(&a.ops);
	EXPECT_EQ(register_ftrace_graph(&b.ops), -EBUSY);
	call(5);
	EXPECT_EQ(events.size(), 2u);
	unregister_ftrace_graph(&b.ops);
	call(5);
	EXPECT_EQ(events.size(), 2u) << "a user was called after it was unregistered";
}

/* Does what ftrace_set_hash() does for a filter that is written while the tracer runs. */
TEST_F(fgraph, a_changed_filter_is_heard_of_as_long_as_a_user_goes_by_it)
{
	user a(1), b(2), c(3);
	b.ops.filter = &a.filter;
	for (auto *u : {&a, &b, &c})
		ASSERT_EQ(register_ftrace_graph(&u->ops), 0);
	ASSERT_NE(a.filter.changed, nullptr);
	ASSERT_NE(c.filter.changed, nullptr);
	EXPECT_EQ(a.filter.changed(&a.filter), 0);
	unregister_ftrace_graph(&a.ops);
	EXPECT_NE(a.filter.changed, nullptr) << "the second user still uses the filter";
	unregister_ftrace_graph(&b.ops);
	EXPECT_EQ(a.filter.changed, nullptr) << "no user uses the filter any more";
	EXPECT_NE(c.filter.changed, nullptr);
	unregister_ftrace_graph(&c.ops);
	EXPECT_EQ(c.filter.changed, nullptr);
}

TEST_F(fgraph, a_user_that_selects_no_function_begins_when_a_table_comes)
{
	user a(1);
	a.filter.notrace_hash = ftrace_hash_new(64);
	for_each_ftrace_rec(rec)
		ftrace_hash_add(a.filter.notrace_hash, rec->offset);
	ASSERT_EQ(register_ftrace_graph(&a.ops), 0);
	EXPECT_EQ(graph_op, nullptr);
	EXPECT_EQ(ftrace_graph_new_table(), 0);
	EXPECT_EQ(graph_op, nullptr);
	fake_table();
	fake_record(FAKE_MORE - KERNEL_BASE + 64, "newcomer");
	EXPECT_EQ(ftrace_graph_new_table(), 0);
	EXPECT_NE(graph_op, nullptr);
	unregister_ftrace_graph(&a.ops);
	EXPECT_EQ(ftrace_graph_new_table(), 0) << "there is no user";
	EXPECT_EQ(graph_op, nullptr);
	ftrace_hash_free(a.filter.notrace_hash);
	fake_reset();
}

TEST_F(fgraph, no_memory_for_shadow_stacks_and_nobody_is_registered)
{
	user a(1);
	users_begin_error = -ENOMEM;
	EXPECT_EQ(register_ftrace_graph(&a.ops), -ENOMEM);
	users_begin_error = 0;
	call(1);
	EXPECT_TRUE(events.empty());
	EXPECT_EQ(unregister_ftrace_graph(&a.ops), -ENOENT);
}

/* Its slot was in use for a while, so a CPU may be inside one of its handlers. */
TEST_F(fgraph, a_user_that_cannot_be_traced_is_removed_a_grace_period_later)
{
	static unsigned after; /* grace periods after the slot was cleared */
	static struct fgraph_ops *refused;
	user a(1), b(2);
	after = 0;
	refused = &b.ops;
	register_ftrace_graph(&a.ops);
	startup_error = -ENOSPC;
	fake_in_grace = [] { after += !refused->filter->changed; };
	EXPECT_EQ(register_ftrace_graph(&b.ops), -ENOSPC);
	EXPECT_GE(after, 2u) << "one grace period before it is registered, one after its slot is "
				"cleared: remove_user() waits";
	fake_in_grace = nullptr;
	startup_error = 0;
	EXPECT_EQ(b.ops.idx, -1);
	EXPECT_EQ(unregister_ftrace_graph(&b.ops), -ENOENT);
	call(5);
	EXPECT_EQ(events.size(), 2u) << "the other user is called as before";
	unregister_ftrace_graph(&a.ops);
}

TEST_F(fgraph, a_slot_reused_100000_times_calls_nobody_wrongly_when_the_sleeper_returns)
{
	user first(1);
	unsigned others = 0;
	register_ftrace_graph(&first.ops);
	call(5, 0, [&] {
		unregister_ftrace_graph(&first.ops);
		for (int i = 0; i < 100000; i++) {
			user next(2);
			ASSERT_EQ(register_ftrace_graph(&next.ops), 0);
			ASSERT_EQ(next.ops.idx, 0) << "a new user must get the free slot";
			if (i % 1000 == 0) {
				call(6, 1);
				others += 2;
			}
			ASSERT_EQ(unregister_ftrace_graph(&next.ops), 0);
		}
		register_ftrace_graph(&first.ops); /* even the same one, in the same slot */
	});
	ASSERT_EQ(events.size(), 1 + others);
	EXPECT_EQ(events[0], (event{1, true, 5, 0}));
	unregister_ftrace_graph(&first.ops);
}

TEST_F(fgraph, a_user_that_came_during_the_call_does_not_hear_of_its_return)
{
	user a(1), b(2);
	register_ftrace_graph(&a.ops);
	call(5, 0, [&] { register_ftrace_graph(&b.ops); });
	std::vector<event> expected = {{1, true, 5, 0}, {1, false, 5, 0}};
	EXPECT_EQ(events, expected);
	unregister_ftrace_graph(&a.ops);
	unregister_ftrace_graph(&b.ops);
}

TEST_F(fgraph, a_user_that_comes_at_any_store_hears_of_both_or_neither)
{
	unsigned stores = 0;
	user a(1);
	register_ftrace_graph(&a.ops);
	at_store = [&] { stores++; };
	call(5);
	ASSERT_GE(stores, 20u);
	for (unsigned k = 0; k < stores; k++) {
		user b(2);
		unsigned now = 0;
		at_store = [&] {
			if (now++ == k) {
				ASSERT_EQ(register_ftrace_graph(&b.ops), 0);
			}
		};
		events.clear();
		call(5);
		at_store = nullptr;
		unsigned entries = 0, returns = 0;
		for (auto &e : events)
			(e.user != 2 ? now : e.entry ? entries : returns)++;
		EXPECT_EQ(entries, returns) << "at store " << k;
		unregister_ftrace_graph(&b.ops);
	}
	unregister_ftrace_graph(&a.ops);
}

/*
 * Users on the heap, so that the sanitizer sees an access to a user that was unregistered and
 * freed. One of the handlers of the user that leaves waits inside until a grace period begins.
 */
struct mortal;
static std::atomic<mortal *> leaves;
static std::atomic<bool> inside, go_on;
static std::atomic<unsigned long> passes;
struct mortal {
	struct ftrace_filter filter = {};
	struct fgraph_ops ops = {};
	bool at_return;
	explicit mortal(bool at_return) : at_return(at_return)
	{
		ops = {entry, ret, &filter};
		ops.private_ = this;
		ops.idx = -1;
	}
	static void linger(struct fgraph_ops *g, bool at_return)
	{
		if (g->private_ != leaves || leaves.load()->at_return != at_return)
			return;
		for (inside = true; !go_on;)
			std::this_thread::yield();
		inside = false;
	}
	static int entry(struct ftrace_graph_ent *, struct fgraph_ops *g, struct ftrace_regs *)
	{
		linger(g, false);
		return 1;
	}
	static void ret(struct ftrace_graph_ret *, struct fgraph_ops *g, struct ftrace_regs *)
	{
		linger(g, true);
	}
	void leave()
	{
		go_on = false;
		leaves = this;
		while (!inside)
			std::this_thread::yield();
		unregister_ftrace_graph(&ops);
		EXPECT_FALSE(inside) << "a handler still runs after unregistering its user";
		leaves = nullptr;
		go_on = true;
		while (inside)
			std::this_thread::yield();
		delete this;
	}
};

/*
 * This CPU makes calls; the other registers, unregisters and frees users. The grace period ends
 * when this CPU is between two calls.
 */
TEST_F(fgraph, a_user_that_has_left_on_another_cpu_may_be_freed)
{
	std::atomic<bool> done(false);
	fake_in_grace = [] {
		go_on = true;
		for (unsigned long seen = passes; passes == seen;)
			std::this_thread::yield();
	};
	std::thread other([&] {
		for (bool at_return : {false, true}) {
			auto *a = new mortal(at_return), *b = new mortal(at_return);
			register_ftrace_graph(&a->ops);
			register_ftrace_graph(&b->ops);
			a->leave();
			b->leave();
		}
		done = true;
	});
	for (; !done; passes++)
		call(5, 0, [] { call(6, 1); });
	other.join();
	fake_in_grace = nullptr;
	EXPECT_TRUE(is_empty());
}

TEST_F(fgraph, a_tail_call_returns_through_both_frames)
{
	user a(1);
	register_ftrace_graph(&a.ops);
	call_at(5, 0x1234, 0x9000, 0x9008, [](unsigned long link) {
		/* f jumps to g, whose link is the address to which f would have returned. */
		struct ftrace_regs regs = {};
		regs.sp = 0x9000;
		regs.fp = 0x9008;
		regs.link = link;
		graph_op->func(KERNEL_BASE + 16 * 6, link, graph_op, &regs);
		EXPECT_EQ(regs.link, RTH);
		EXPECT_EQ(ftrace_graph_ret_addr(host_current, RTH, 0x9008), 0x1234u);
		struct ftrace_regs back = {};
		back.sp = 0x9000;
		back.fp = 0x9008;
		back.link = RTH;
		ftrace_return_to_handler(&back);
		EXPECT_EQ(back.link, RTH) << "g must return to the same address as f";
	});
	std::vector<event> expected = {
		{1, true, 5, 0}, {1, true, 6, 1}, {1, false, 6, 1}, {1, false, 5, 0}};
	EXPECT_EQ(events, expected);
	EXPECT_TRUE(is_empty());
	unregister_ftrace_graph(&a.ops);
}

TEST_F(fgraph, of_two_frames_with_one_fp_a_walk_is_told_the_newest_that_knows)
{
	user a(1);
	register_ftrace_graph(&a.ops);
	call_at(5, 0x1234, 0x9000, 0x9008, [](unsigned long) {
		/* f is assembly, without a frame record of its own, and calls g. */
		call_at(6, 0x5678, 0x8ff0, 0x9008, [](unsigned long) {
			EXPECT_EQ(ftrace_graph_ret_addr(host_current, RTH, 0x9008), 0x5678u);
		});
		EXPECT_EQ(ftrace_graph_ret_addr(host_current, RTH, 0x9008), 0x1234u);
	});
	unregister_ftrace_graph(&a.ops);
}

/* f was left by a jump; a function whose return is not patched has the same caller. */
TEST_F(fgraph, a_walk_keeps_an_address_that_is_not_return_to_handler)
{
	user a(1);
	register_ftrace_graph(&a.ops);
	call(5, 0, [] {
		EXPECT_EQ(ftrace_graph_ret_addr(host_current, 0x4321, 0x9008), 0x4321u)
			<< "only return_to_handler stands for another address";
	});
	unregister_ftrace_graph(&a.ops);
}

TEST_F(fgraph, entry_data_comes_back_the_parents_too)
{
	user a(1), b(2);
	a.words = 4;
	b.words = 32;
	register_ftrace_graph(&a.ops);
	register_ftrace_graph(&b.ops);
	call(5, 0, [&] {
		call(6, 1, [&] {
			int size = 0;
			auto *d = (unsigned long *)fgraph_retrieve_parent_data(a.ops.idx, &size, 1);
			ASSERT_NE(d, nullptr);
			EXPECT_EQ(size, 32);
			EXPECT_EQ(d[0], user::datum(1, 5, 0));
			d = (unsigned long *)fgraph_retrieve_parent_data(b.ops.idx, &size, 0);
			ASSERT_NE(d, nullptr);
			EXPECT_EQ(size, 256);
			EXPECT_EQ(d[31], user::datum(2, 6, 1) + 31);
			EXPECT_EQ(fgraph_retrieve_parent_data(a.ops.idx, &size, 2), nullptr);
			EXPECT_EQ(fgraph_retrieve_parent_data(9, &size, 0), nullptr);
		});
	});
	EXPECT_TRUE(is_empty());
	EXPECT_EQ(events.size(), 8u);
	unregister_ftrace_graph(&a.ops);
	unregister_ftrace_graph(&b.ops);
}

TEST_F(fgraph, entry_data_of_each_parent_is_found)
{
	user a(1);
	a.words = 1;
	register_ftrace_graph(&a.ops);
	std::function<void(int)> at = [&](int depth) {
		if (depth < 40) {
			call(5, depth, [&] { at(depth + 1); });
			return;
		}
		for (int up = 0; up < depth; up++) {
			void *d = fgraph_retrieve_parent_data(a.ops.idx, nullptr, up);
			ASSERT_NE(d, nullptr) << up;
			EXPECT_EQ(*(unsigned long *)d, user::datum(1, 5, depth - 1 - up));
		}
		EXPECT_EQ(fgraph_retrieve_parent_data(a.ops.idx, nullptr, depth), nullptr);
	};
	at(0);
	unregister_ftrace_graph(&a.ops);
}

TEST_F(fgraph, parents_data_of_who_had_the_slot_before_is_not_found)
{
	user first(1), second(2);
	first.words = 1;
	register_ftrace_graph(&first.ops);
	call(5, 0, [&] {
		unregister_ftrace_graph(&first.ops);
		register_ftrace_graph(&second.ops);
		ASSERT_EQ(second.ops.idx, 0) << "a new user must get the free slot";
		call(6, 1, [&] {
			EXPECT_EQ(fgraph_retrieve_parent_data(second.ops.idx, nullptr, 1), nullptr);
		});
	});
	EXPECT_EQ(events.size(), 3u);
	unregister_ftrace_graph(&second.ops);
}

static unsigned graces, finds; /* of a handler that runs on another CPU all the time */
TEST_F(fgraph, a_handler_that_still_runs_while_its_user_leaves_finds_what_it_kept)
{
	user a(1);
	a.words = 1;
	graces = finds = 0;
	register_ftrace_graph(&a.ops);
	call(5, 0, [&] {
		static struct fgraph_ops *leaver;
		static u64 birth;
		leaver = &a.ops;
		birth = a.ops.birth;
		fake_in_grace = [] {
			graces++;
			finds += !!fgraph_retrieve_data(0, nullptr);
			EXPECT_EQ(leaver->idx, 0)
				<< "its handler may still run and use idx: clear it after the "
				   "grace period";
			EXPECT_EQ(leaver->birth, birth)
				<< "an event may still compare the birth of a user that leaves";
		};
		unregister_ftrace_graph(&a.ops);
		fake_in_grace = nullptr;
	});
	EXPECT_GE(graces, 2u) << "one grace period before the slot is cleared, one after";
	EXPECT_EQ(finds, graces);
}

TEST_F(fgraph, data_of_a_wrong_size_or_without_room_is_refused)
{
	user a(1);
	register_ftrace_graph(&a.ops);
	call(5, 0, [&] {
		EXPECT_EQ(fgraph_reserve_data(0, 0), nullptr);
		EXPECT_EQ(fgraph_reserve_data(0, 257), nullptr);
		int got = 0;
		while (fgraph_reserve_data(0, 256))
			got++;
		EXPECT_GE(got, 10);
		EXPECT_EQ(stack.overrun, 1u);
	});
	EXPECT_TRUE(is_empty());
	unregister_ftrace_graph(&a.ops);
}

TEST_F(fgraph, a_full_stack_is_counted_and_the_calls_go_on_untraced)
{
	user a(1);
	register_ftrace_graph(&a.ops);
	std::function<void(unsigned)> deeper = [&](unsigned depth) {
		if (depth < 100)
			call(1, depth, [&] { deeper(depth + 1); });
		else
			walk_finds_everything();
	};
	deeper(0);
	ASSERT_FALSE(HasFatalFailure());
	unsigned frames = sizeof(stack.words) / sizeof(struct shadow_frame);
	EXPECT_EQ(stack.overrun, 100 - frames);
	EXPECT_EQ(events.size(), 2 * frames);
	EXPECT_GE(frames, 50u);
	EXPECT_TRUE(is_empty());
	unregister_ftrace_graph(&a.ops);
}

TEST_F(fgraph, a_function_that_a_handler_calls_is_not_traced)
{
	struct nested : user {
		nested() : user(1)
		{
			ops.entryfunc = [](struct ftrace_graph_ent *t, struct fgraph_ops *g,
					   struct ftrace_regs *r) {
				call(7, 3);
				return entry(t, g, r);
			};
			ops.retfunc = [](struct ftrace_graph_ret *t, struct fgraph_ops *g,
					 struct ftrace_regs *r) {
				call(8, 3);
				ret(t, g, r);
			};
		}
	} a;
	register_ftrace_graph(&a.ops);
	call(5);
	std::vector<event> expected = {{1, true, 5, 0}, {1, false, 5, 0}};
	EXPECT_EQ(events, expected);
	unregister_ftrace_graph(&a.ops);
}

/* Enter function @f, which is left by a jump: it never returns. Return: the link that it has. */
static unsigned long enter_only(int f, unsigned long sp, unsigned long link = 0x4444)
{
	struct ftrace_regs lost = {};
	lost.sp = sp;
	lost.fp = sp + 8;
	lost.link = link;
	graph_op->func(KERNEL_BASE + 16 * f, link, graph_op, &lost);
	return lost.link;
}

TEST_F(fgraph, calls_that_were_left_are_told_and_popped_and_tracing_goes_on)
{
	user a(1), no(2), b(3);
	a.words = 1, b.words = 2, no.yes = false;
	register_ftrace_graph(&a.ops);
	register_ftrace_graph(&no.ops);
	register_ftrace_graph(&b.ops);
	call(5, 0, [&] {
		enter_only(6, 0x8000);
		enter_only(7, 0x7000);
	});
	std::vector<event> expected = {{1, true, 5, 0},	  {3, true, 5, 0},   {1, true, 6, 1},
				       {3, true, 6, 1},	  {1, true, 7, 2},   {3, true, 7, 2},
				       {-3, false, 7, 2}, {-1, false, 7, 2}, {-3, false, 6, 1},
				       {-1, false, 6, 1}, {3, false, 5, 0},  {1, false, 5, 0}};
	EXPECT_EQ(events, expected);
	EXPECT_EQ(stack.overrun, 2u);
	EXPECT_EQ(overrun, 2u) << "a return handler is given the number of calls that were lost";
	EXPECT_FALSE(ftrace_graph_dead);
	EXPECT_TRUE(is_empty());
	unregister_ftrace_graph(&a.ops);
	unregister_ftrace_graph(&no.ops);
	unregister_ftrace_graph(&b.ops);
}

TEST_F(fgraph, nobody_new_is_told_of_a_call_that_was_left)
{
	user a(1), b(2), c(3);
	c.ops.gonefunc = nullptr;
	register_ftrace_graph(&a.ops);
	register_ftrace_graph(&c.ops);
	call(5, 0, [&] {
		enter_only(6, 0x8000);
		unregister_ftrace_graph(&a.ops);
		register_ftrace_graph(&b.ops);
		EXPECT_EQ(b.ops.idx, 0);
		events.clear();
	});
	std::vector<event> expected = {{3, false, 5, 0}};
	EXPECT_EQ(events, expected);
	unregister_ftrace_graph(&b.ops);
	unregister_ftrace_graph(&c.ops);
}

TEST_F(fgraph, a_function_to_which_a_jump_goes_may_end_in_a_tail_call)
{
	user a(1);
	register_ftrace_graph(&a.ops);
	call_at(5, 0x1005, 0x9000, 0x9008, [&](unsigned long link) {
		EXPECT_EQ(link, RTH);
		/* a tail call; both are left */
		EXPECT_EQ(enter_only(7, 0x8000, enter_only(6, 0x8000)), RTH);
		/* f5 ends in a jump to f8, so one return ends both */
		EXPECT_EQ(enter_only(8, 0x9000, link), RTH);
	});
	std::vector<event> expected = {{1, true, 5, 0},	  {1, true, 6, 1},  {1, true, 7, 2},
				       {1, true, 8, 3},	  {1, false, 8, 3}, {-1, false, 7, 2},
				       {-1, false, 6, 1}, {1, false, 5, 0}};
	EXPECT_EQ(events, expected);
	EXPECT_TRUE(is_empty());
	unregister_ftrace_graph(&a.ops);
}

TEST_F(fgraph, a_walk_passes_the_frames_of_calls_that_were_left)
{
	user a(1);
	register_ftrace_graph(&a.ops);
	call(5, 0, [&] {
		enter_only(6, 0x8000, 0x6666); /* fp 0x8008 */
		enter_only(7, 0x7000, 0x7777);
		EXPECT_EQ(ftrace_graph_ret_addr(host_current, RTH, 0x9008), 0x1005u);
		call_at(8, 0x8888, 0x8000, 0x8008, [&](unsigned long) {
			EXPECT_EQ(ftrace_graph_ret_addr(host_current, RTH, 0x8008), 0x8888u);
			EXPECT_EQ(ftrace_graph_ret_addr(host_current, RTH, 0x9008), 0x1005u);
		});
	});
	EXPECT_TRUE(is_empty());
	unregister_ftrace_graph(&a.ops);
}

/* The frames that the stack has room for, all of calls from @sp that were left. */
static unsigned fill_with_left(struct shadow_stack *s, unsigned long sp)
{
	unsigned n = 0;
	for (; !shadow_is_full(s); n++)
		enter_only(6, sp);
	return n;
}

TEST_F(fgraph, a_full_stack_drops_the_frames_of_calls_that_were_left)
{
	user a(1);
	register_ftrace_graph(&a.ops);
	call(5, 0, [&] {
		unsigned n = fill_with_left(&stack, 0x8000);
		EXPECT_GE(n, 50u);
		/* a deeper call does not show it: sp is 0x7000 */
		call(7, 128, [&] { EXPECT_EQ(stack.overrun, 1u); });
		call(8, 64, [&] {					   /* sp is 0x8000 */
			EXPECT_EQ(stack.depth, 2u);
			EXPECT_EQ(stack.overrun, 1 + n);
		});
		std::vector<event> expected = {{1, true, 8, 1}, {1, false, 8, 1}};
		EXPECT_EQ(std::vector<event>(events.end() - 2, events.end()), expected);
	});
	EXPECT_FALSE(ftrace_graph_dead);
	EXPECT_TRUE(is_empty());
	unregister_ftrace_graph(&a.ops);
}

TEST_F(fgraph, frames_that_may_be_in_use_are_never_dropped)
{
	user a(1);
	register_ftrace_graph(&a.ops);
	call(5, 0, [&] {
		unsigned n = fill_with_left(&stack, 0x8000);
		/* it may have come between two stores of the thread's push */
		interrupt(1, [] { call(7, 80); });
		EXPECT_EQ(stack.depth, n + 1);
		/* on another stack */
		call_at(7, 0x1007, STACK - 64, STACK - 56, [](unsigned long) {});
		EXPECT_EQ(stack.depth, n + 1);
	});
	/*
	 * A chain of tail calls as long as the stack: the last one's caller has the same sp, and
	 * its frame is in use.
	 */
	call_at(9, 0x1009, 0x9000, 0x9008, [&](unsigned long) {
		while (!shadow_is_full(&stack))
			EXPECT_EQ(enter_only(6, 0x9000, RTH), RTH);
		unsigned long n = stack.depth;
		enter_only(7, 0x9000, RTH);
		EXPECT_EQ(stack.depth, n);
		while (stack.depth > 1) {
			struct ftrace_regs back = {};
			back.sp = 0x9000, back.link = RTH;
			ftrace_return_to_handler(&back);
			EXPECT_EQ(back.link, RTH);
		}
	});
	EXPECT_FALSE(ftrace_graph_dead);
	EXPECT_TRUE(is_empty());
	unregister_ftrace_graph(&a.ops);
}

TEST_F(fgraph, data_without_room_drops_them_at_the_next_call)
{
	user a(1);
	a.words = 32;
	register_ftrace_graph(&a.ops);
	call(5, 0, [&] {
		for (int i = 0; i < 100; i++) {
			enter_only(6, 0x8000);
			if (stack.last)
				continue;
			events.clear();
			enter_only(7, 0x8000);
			EXPECT_GT(events.size(), 2u);
			EXPECT_EQ(stack.depth, 2u);
			EXPECT_NE(stack.last, nullptr);
			events.clear();
			return;
		}
		ADD_FAILURE() << "there was always room";
	});
	unregister_ftrace_graph(&a.ops);
}

TEST_F(fgraph, an_interrupt_at_every_store_while_frames_are_dropped)
{
	user a(1);
	bool inside = false;
	a.words = 2;
	register_ftrace_graph(&a.ops);
	for (bool full : {false, true})
		for (int at = 0, n = 1; at < n; at++) {
			n = 0;
			call(5, 0, [&] {
				for (int i = 0; i < 3 && !full; i++)
					enter_only(6 + i, 0x8000 - 64 * i);
				if (full)
					fill_with_left(&stack, 0x8000);
				at_store = [&] {
					if (inside || n++ != at)
						return;
					auto *top = stack.top;
					auto *free = stack.free;
					inside = true;
					interrupt(1, [] { tree(7, 100, 102); });
					inside = false;
					ASSERT_EQ(stack.top, top);
					ASSERT_EQ(stack.free, free);
				};
				if (full)
					call(8, 64);
			});
			at_store = nullptr;
			ASSERT_TRUE(is_empty());
			ASSERT_FALSE(ftrace_graph_dead);
		}
	unregister_ftrace_graph(&a.ops);
}

/* One call for each event, so that a tracer without a guard also ends. */
static bool calls_inside;
static void call_inside()
{
	if (!calls_inside)
		return;
	calls_inside = false;
	fgraph::call(9, 1000);
	calls_inside = true;
}

struct gone_handler : fgraph {
	user a{1};

	void SetUp() override
	{
		fgraph::SetUp();
		calls_inside = true;
		a.ops.gonefunc = [](struct ftrace_graph_ent *t, struct fgraph_ops *g) {
			call_inside();
			user::gone(t, g);
		};
		register_ftrace_graph(&a.ops);
	}
	void TearDown() override
	{
		bool told = false;

		for (auto &e : events) {
			told |= e.user < 0;
			EXPECT_NE(e.func, 9) << "a gone handler called a traced function, and the "
						"user was called for it: the recursion bit was not "
						"set";
		}
		EXPECT_TRUE(told);
		EXPECT_EQ(0u, host_cpu->recursion);
		EXPECT_TRUE(is_empty());
		unregister_ftrace_graph(&a.ops);
		fgraph::TearDown();
	}
};

TEST_F(gone_handler, calls_no_handler_at_a_return)
{
	call(5, 0, [] { enter_only(6, 0x8000); });
}

TEST_F(gone_handler, calls_no_handler_when_the_stack_is_full)
{
	call(5, 0, [&] {
		fill_with_left(&stack, 0x8000);
		call(8, 64);
	});
}

/*
 * While each handler runs, an interrupt comes, whose calls are traced: one returns, one is left.
 * What the handler was given stays, and a function that it calls then is not traced.
 */
struct interrupted_handler : fgraph {
	user a{1};
	static bool inside; /* so that a tracer without a guard also ends */

	template <class T> static void handler(T *given)
	{
		T before = *given;

		if (inside)
			return;
		inside = true;
		interrupt(1, [] { call(26, 1000, [] { enter_only(27, 0x9000 - 64 * 1001); }); });
		call(9, 2000);
		inside = false;
		EXPECT_EQ(0, memcmp(&before, given, sizeof(before)))
			<< "an interrupt's calls have changed what a handler was given";
	}
	void SetUp() override
	{
		fgraph::SetUp();
		a.ops.entryfunc = [](struct ftrace_graph_ent *t, struct fgraph_ops *g,
				     struct ftrace_regs *r) {
			handler(t);
			return user::entry(t, g, r);
		};
		a.ops.retfunc = [](struct ftrace_graph_ret *t, struct fgraph_ops *g,
				   struct ftrace_regs *r) {
			handler(t);
			user::ret(t, g, r);
		};
		a.ops.gonefunc = [](struct ftrace_graph_ent *t, struct fgraph_ops *g) {
			handler(t);
			user::gone(t, g);
		};
		register_ftrace_graph(&a.ops);
	}
};

bool interrupted_handler::inside;

TEST_F(interrupted_handler, keeps_what_it_was_given_and_its_recursion_bit)
{
	std::vector<event> own;

	call(5, 0, [] { enter_only(6, 0x8000); });
	for (auto &e : events) {
		EXPECT_NE(e.func, 9)
			<< "after an interrupt a handler called a traced function, and the user "
			   "was called for it: the interrupt has not restored the recursion bit "
			   "of the thread";
		if (e.func < 20)
			own.push_back(e);
	}
	std::vector<event> expected = {
		{1, true, 5, 0}, {1, true, 6, 1}, {-1, false, 6, 1}, {1, false, 5, 0}};
	EXPECT_EQ(own, expected);
	EXPECT_EQ(events.size(), 4u + 4 * 4) << "four handlers, and four calls in each interrupt";
	EXPECT_EQ(0u, host_cpu->recursion);
	EXPECT_TRUE(is_empty());
	unregister_ftrace_graph(&a.ops);
}

TEST_F(fgraph, a_return_that_fits_no_frame_drops_no_frame)
{
	user a(1);
	register_ftrace_graph(&a.ops);
	call(5, 0, [&] {
		EXPECT_EQ(enter_only(6, 0x8000), RTH);
		struct ftrace_regs back = {};
		back.sp = 0x8010, back.link = RTH;
		events.clear();
		ftrace_return_to_handler(&back);
		EXPECT_EQ(back.link, 0x4444u) << "the newest frame is the best guess";
	});
	EXPECT_EQ(stopped.func, KERNEL_BASE + 16 * 6);
	EXPECT_TRUE(events.empty()) << "no call was left, so no gone handler may run";
	EXPECT_EQ(stack.overrun, 0u);
	EXPECT_TRUE(is_empty());
	unregister_ftrace_graph(&a.ops);
}

TEST_F(fgraph, a_return_that_fits_no_frame_is_named_and_ends_tracing)
{
	user a(1);
	register_ftrace_graph(&a.ops);
	call(5, 0, [&] {
		enter_only(6, 0x8000);
		struct ftrace_regs back = {};
		back.sp = 0x7000, back.link = RTH;
		events.clear();
		ftrace_return_to_handler(&back);
		EXPECT_EQ(back.link, 0x4444u) << "the newest frame is the best guess";
	});
	EXPECT_TRUE(ftrace_graph_dead);
	EXPECT_EQ(stopped.func, KERNEL_BASE + 16 * 6);
	EXPECT_EQ(stopped.expected, 0x8000u);
	EXPECT_EQ(stopped.found, 0x7000u);
	EXPECT_TRUE(events.empty());
	EXPECT_TRUE(is_empty());
	events.clear();
	call(5);
	EXPECT_TRUE(events.empty());
	unregister_ftrace_graph(&a.ops);
	EXPECT_EQ(register_ftrace_graph(&a.ops), -ENODEV);
}

TEST_F(fgraph, a_threads_variable_begins_at_0_for_each_user)
{
	user a(1), b(2);
	register_ftrace_graph(&a.ops);
	*fgraph_get_task_var(&a.ops) = 5;
	EXPECT_EQ(*fgraph_get_task_var(&a.ops), 5u);
	unregister_ftrace_graph(&a.ops);
	register_ftrace_graph(&b.ops);
	EXPECT_EQ(*fgraph_get_task_var(&b.ops), 0u);
	unregister_ftrace_graph(&b.ops);
}

/*
 * An interrupt that comes in the thread's first use of the variable uses the variable before the
 * thread does.
 */
TEST_F(fgraph, an_interrupts_first_use_of_the_variable_stays)
{
	for (int k = 0; k < 4; k++) {
		user a(1);
		int now = 0;
		bool used = false;
		register_ftrace_graph(&a.ops);
		at_store = [&] {
			if (host_irqs_masked || used || now++ != k)
				return;
			used = true;
			*fgraph_get_task_var(&a.ops) += 5;
		};
		unsigned long *var = fgraph_get_task_var(&a.ops);
		at_store = nullptr;
		EXPECT_EQ(*var, used ? 5u : 0u) << "before store " << k;
		unregister_ftrace_graph(&a.ops);
	}
}

/* ---- Interrupts ---- */

/* The number of stores that @work makes. */
static unsigned stores_of(const std::function<void()> &work)
{
	unsigned n = 0;
	at_store = [&] { n++; };
	work();
	at_store = nullptr;
	return n;
}

struct interrupted : fgraph {
	user a{1}, b{2};
	void SetUp() override
	{
		fgraph::SetUp();
		a.words = 2;
		b.words = 1;
		register_ftrace_graph(&a.ops);
		register_ftrace_graph(&b.ops);
	}
	void TearDown() override
	{
		unregister_ftrace_graph(&a.ops);
		unregister_ftrace_graph(&b.ops);
		fgraph::TearDown();
	}
	/* The thread's work: nesting, a refusal, returns. */
	static void work()
	{
		call(5, 1, [] {
			call(6, 2);
			call(7, 2, [] { call(8, 3); });
		});
	}
	/* The thread's own events, without those of interrupts. */
	static std::vector<event> own(const std::vector<event> &all)
	{
		std::vector<event> found;
		for (auto &e : all)
			if (e.func < 20)
				found.push_back(e);
		return found;
	}
	static void handler(unsigned depth)
	{
		walk_finds_everything();
		call(25, depth, [depth] { call(26, depth + 1, walk_finds_everything); });
		call(27, depth);
		walk_finds_everything();
	}
};

TEST_F(interrupted, an_interrupt_at_every_store_sees_and_leaves_a_whole_stack)
{
	unsigned n = stores_of(work);
	auto undisturbed = events;
	ASSERT_GT(n, 100u);
	for (unsigned k = 0; k < n; k++) {
		unsigned now = 0;
		events.clear();
		at_store = [&] {
			if (now++ != k)
				return;
			auto rest = std::move(at_store);
			at_store = nullptr;
			interrupt(1, [] { handler(10); });
			at_store = std::move(rest);
		};
		work();
		at_store = nullptr;
		ASSERT_TRUE(is_empty()) << "an interrupt at store " << k;
		ASSERT_EQ(events.size(), undisturbed.size() + 12) << "an interrupt at store " << k;
		ASSERT_FALSE(HasFatalFailure()) << "an interrupt at store " << k;
	}
}

TEST_F(interrupted, two_interrupts_at_every_pair_of_stores)
{
	unsigned n = stores_of(work);
	size_t undisturbed = events.size();
	for (unsigned k = 0; k < n; k++)
		for (unsigned l = k + 1; l < n; l++) {
			unsigned now = 0;
			events.clear();
			at_store = [&] {
				unsigned at = now++;
				if (at != k && at != l)
					return;
				auto rest = std::move(at_store);
				at_store = nullptr;
				interrupt(1, [] { handler(10); });
				at_store = std::move(rest);
			};
			work();
			at_store = nullptr;
			ASSERT_TRUE(is_empty()) << "interrupts at stores " << k << " and " << l;
			ASSERT_EQ(events.size(), undisturbed + 24);
			ASSERT_FALSE(HasFatalFailure())
				<< "interrupts at stores " << k << " and " << l;
		}
}

TEST_F(interrupted, an_exception_at_every_store_of_an_interrupt_at_every_store)
{
	unsigned n = stores_of(work), m = stores_of([] { handler(10); });
	size_t undisturbed;
	events.clear();
	work();
	undisturbed = events.size();
	for (unsigned k = 0; k < n; k++)
		for (unsigned l = 0; l < m; l++) {
			unsigned now = 0, inner = 0;
			events.clear();
			at_store = [&] {
				if (now++ != k)
					return;
				auto rest = std::move(at_store);
				at_store = [&] {
					if (inner++ != l)
						return;
					auto middle = std::move(at_store);
					at_store = nullptr;
					interrupt(2, [] { handler(20); });
					at_store = std::move(middle);
				};
				interrupt(1, [] { handler(10); });
				at_store = std::move(rest);
			};
			work();
			at_store = nullptr;
			ASSERT_TRUE(is_empty()) << "at stores " << k << ", " << l;
			ASSERT_EQ(events.size(), undisturbed + 24);
			ASSERT_FALSE(HasFatalFailure()) << "at stores " << k << ", " << l;
		}
}

TEST_F(fgraph, random_users_come_and_go_in_random_trees)
{
	std::mt19937 r(7);
	for (int round = 0; round < 200; round++) {
		std::vector<user *> in;
		std::function<void(unsigned)> life = [&](unsigned depth) {
			int n = r() % 4;
			for (int i = 0; i < n; i++) {
				unsigned what = r() % 8;
				if (what == 0 && in.size() < FGRAPH_USERS) {
					user *u = new user(r() % 1000, r() | 1ul << 1);
					u->words = r() % 5;
					u->yes = r() % 4;
					in.push_back(u);
					ASSERT_EQ(register_ftrace_graph(&u->ops), 0);
				} else if (what == 1 && !in.empty()) {
					unsigned at = r() % in.size();
					ASSERT_EQ(unregister_ftrace_graph(&in[at]->ops), 0);
					delete in[at]; /* the sanitizer sees a later access */
					in.erase(in.begin() + at);
				}
				call(r() % 30 + 1, depth, [&] {
					walk_finds_everything();
					if (depth < 12)
						life(depth + 1);
				});
			}
		};
		life(0);
		ASSERT_TRUE(is_empty());
		for (auto *u : in) {
			unregister_ftrace_graph(&u->ops);
			delete u;
		}
	}
	EXPECT_GT(events.size(), 1000u);
}

/* function_graph alone: its direct path pushes and pops frames itself. */
struct direct : interrupted {
	struct trace_array buffers = {};
	alignas(RB_PAGE_SIZE) struct rb_page page;
	struct fgraph_ops ops = {};

	static int no_entry(struct ftrace_graph_ent *, struct fgraph_ops *, struct ftrace_regs *)
	{
		ADD_FAILURE() << "the general path called the entry handler";
		return 0;
	}
	static void no_return(struct ftrace_graph_ret *, struct fgraph_ops *, struct ftrace_regs *)
	{
		ADD_FAILURE() << "the general path called the return handler";
	}
	void SetUp() override
	{
		fgraph::SetUp();
		host_cpu->ftrace = nullptr;
		buffers.cpu[0].page = &page;
		page.commit = 0;
		ops.entryfunc = no_entry;
		ops.retfunc = no_return;
		ops.filter = &a.filter;
		ops.private_ = &buffers;
		ops.direct = trace_graph_direct;
		ops.idx = -1;
		ASSERT_EQ(register_ftrace_graph(&ops), 0);
		ASSERT_EQ(graph_op->func, trace_graph_direct.entry);
	}
	void TearDown() override
	{
		unregister_ftrace_graph(&ops);
		fgraph::TearDown();
	}
	/* @calls traced calls were written. */
	bool has_events_of(unsigned calls)
	{
		return page.commit == 4 * calls * (2 + GRAPH_ENT_WORDS + GRAPH_RET_WORDS);
	}
};

TEST_F(direct, an_interrupt_at_every_store_sees_and_leaves_a_whole_stack)
{
	unsigned n = stores_of(work), interrupts = 0;
	ASSERT_GE(n, 4 * 2 * (11 + 3u)) << "four calls: eleven stores of a push, three of a pop";
	for (unsigned k = 0; k < n; k++) {
		unsigned now = 0, masked = 0;
		page.commit = 0;
		at_store = [&] {
			auto rest = std::move(at_store);
			at_store = nullptr;
			walk_finds_everything();
			if (now++ == k && !(masked = host_irqs_masked))
				interrupt(1, [] { handler(10); });
			at_store = std::move(rest);
		};
		work();
		at_store = nullptr;
		interrupts += !masked;
		ASSERT_TRUE(is_empty()) << "an interrupt at store " << k;
		ASSERT_TRUE(has_events_of(masked ? 4 : 7)) << "an interrupt at store " << k;
		ASSERT_FALSE(HasFatalFailure()) << "an interrupt at store " << k;
	}
	EXPECT_EQ(interrupts, 4 * 2 * 3u)
		<< "a pop is interrupted at each of its stores, a push at none";
}
