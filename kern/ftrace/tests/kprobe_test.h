/*
 * Lab 8 on the host: hits of a breakpoint (kprobe_hit.c), calls in flight (kretprobe.c),
 * and the switch of a live patch (livepatch.c). What is around them, registration and
 * the shadow stack, is imitated here. Text is an array; a hit is a call of kprobe_hook.
 */
#include <gtest/gtest.h>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <sys/mman.h>
#include <unistd.h>
#undef PROT_READ /* the kernel's own macros have the same values */
#undef PROT_WRITE
#undef PROT_EXEC
#include <string>
#include <vector>

extern "C" {
#define private private_
#include "cpu.h"
#include "errno.h"
#include "kprobe_point.h"
#include "kretprobe.h"
#include "livepatch.h"
#undef private

/* ---- The kernel around them ---- */

__thread struct thread *host_current;
__thread struct cpu *host_cpu;
unsigned nr_cpus;
struct mutex ftrace_lock;
static std::function<void()> in_grace; /* another CPU, before the grace period ends */
static std::vector<void *> freed;
static int graces;

void mutex_lock(struct mutex *)
{
}
void mutex_unlock(struct mutex *)
{
}
void synchronize_sched(void)
{
	graces++;
	if (in_grace)
		in_grace();
}
void kfree(void *p)
{
	freed.push_back(p);
	free(p);
}

/* ---- Text: eight instructions; and the slots ---- */

struct probe_point *kprobe_buckets[KPROBE_BUCKETS], *kprobe_slot_owner[KPROBE_SLOTS];
static u32 text[8] __attribute__((aligned(8)));
u32 the_slots[KPROBE_SLOTS][2] __asm__("kprobe_slots") __attribute__((aligned(8))) = {};

/* in order: "slot", "break", "back", "other", or "entry on" */
static std::vector<std::string> written;
static int write_error, slot_error; /* of every write; of one into a slot */

static const char *what_is(const struct text_word *w)
{
	if (w->ip - (unsigned long)the_slots < sizeof(the_slots))
		return "slot";
	if (w->insn == INSN_BREAK)
		return "break";
	return w->expected == INSN_BREAK ? "back" : "other";
}

int kprobe_write(const struct text_word *words, unsigned count)
{
	int err = !strcmp(what_is(words), "slot") && slot_error ? slot_error : write_error;

	if (err)
		return err;
	for (const struct text_word *w = words; w < words + count; w++)
		if (*(u32 *)w->ip != w->expected)
			return -EINVAL;
	for (const struct text_word *w = words; w < words + count; w++)
		*(u32 *)w->ip = w->insn;
	written.push_back(what_is(words));
	return 0;
}

int kprobe_arm_entry(struct probe_point *pt, bool on)
{
	written.push_back(on ? "entry on" : "entry off");
	pt->armed = on;
	return 0;
}

/* ---- The functions under fprobes and live patches ---- */

static struct fprobe *registered; /* by register_fprobe_*(); NULL: none */
static bool by_address;
static std::function<int()> at_registration; /* from then on calls reach the fprobe */

static int register_it(struct fprobe *fp, bool address)
{
	registered = fp;
	by_address = address;
	return at_registration ? at_registration() : 0;
}
int register_fprobe_ips(struct fprobe *fp, const unsigned long *, int)
{
	return register_it(fp, true);
}
int register_fprobe_syms(struct fprobe *fp, const char *const *, int)
{
	return register_it(fp, false);
}
void fprobe_lose_soon(void) /* there is no shadow stack here */
{
}

int unregister_fprobe(struct fprobe *fp)
{
	registered = registered == fp ? NULL : registered;
	return 0;
}

static struct dyn_ftrace functions[2] = {{16}, {64}}; /* "first", "second" */
static struct probe_sites *patched; /* the table of live patches */
static int update_error;

int probe_find_function(const char *name, unsigned long, struct dyn_ftrace **found)
{
	*found = !strcmp(name, "first") ? &functions[0] : &functions[1];
	return !strcmp(name, "first") || !strcmp(name, "second") ? 0 : -ENOENT;
}
void probe_site_add(struct probe_sites *t, struct probe_site *site)
{
	struct probe_site **link = probe_bucket(t, site->ip);

	while (*link)
		link = &(*link)->next;
	site->next = NULL;
	*link = site;
	t->count++;
}
void probe_site_remove(struct probe_sites *t, struct probe_site *site)
{
	struct probe_site **link = probe_bucket(t, site->ip);

	while (*link && *link != site)
		link = &(*link)->next;
	EXPECT_EQ(site, *link) << "an entry that is not in the table is removed";
	*link = site->next;
	t->count--;
}
int probe_sites_update(struct probe_sites *t)
{
	patched = t;
	synchronize_sched();
	return update_error;
}
}

/* ---- Hits ---- */

static unsigned long at(int n)
{
	return (unsigned long)&text[n];
}

struct seen {
	std::string who;
	unsigned long ip, pc;
	bool guarded; /* what the handler calls is not traced, and a probe there is missed */
};
static std::vector<seen> handlers;

static void note(const char *who, struct kprobe_regs *regs)
{
	handlers.push_back(
		{who, regs->ip, regs->trap->pc, (host_cpu->recursion & EXCEPTION_BIT) != 0});
}
static bool pre(struct kprobe *, struct kprobe_regs *regs)
{
	note("pre", regs);
	return false;
}
static bool pre_moves(struct kprobe *, struct kprobe_regs *regs)
{
	note("pre", regs);
	kprobe_set_pc(regs, at(7));
	return true;
}
static void post(struct kprobe *, struct kprobe_regs *regs)
{
	note("post", regs);
}
static bool pre_stores(struct kprobe *, struct kprobe_regs *regs)
{
	*kprobe_arg(regs, 1) = 77;
	return false;
}

/* The first access of a page that is protected is caught: another CPU does this just before it. */
static void *caught_page;
static void (*another_cpu)();
static void (*other_handler)(int); /* of the signal, at other times */

static size_t page_size()
{
	return sysconf(_SC_PAGESIZE);
}
static void catch_access(int)
{
	signal(SIGSEGV, other_handler); /* another fault ends the test */
	mprotect(caught_page, page_size(), PROT_READ | PROT_WRITE);
	another_cpu();
}
static void *new_page()
{
	caught_page = mmap(NULL, page_size(), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return caught_page;
}
static void protect_page(int access, void (*then)())
{
	another_cpu = then;
	other_handler = signal(SIGSEGV, catch_access);
	mprotect(caught_page, page_size(), access);
}
static void free_page()
{
	signal(SIGSEGV, other_handler);
	munmap(caught_page, page_size());
}

struct probes : testing::Test {
	struct cpu cpu = {};
	struct thread thread = {};
	struct trap_frame trap = {};
	struct kprobe first = {}, second = {};

	void SetUp() override
	{
		host_cpu = &cpu;
		host_current = &thread;
		cpu.context_bit = EXCEPTION_BIT;
		nr_cpus = 1;
		for (u32 &insn : text)
			insn = ADDI;
		for (auto &slot : the_slots)
			slot[0] = slot[1] = INSN_BREAK;
		memset(kprobe_buckets, 0, sizeof(kprobe_buckets));
		memset(kprobe_slot_owner, 0, sizeof(kprobe_slot_owner));
		written.clear(), handlers.clear(), freed.clear();
		write_error = slot_error = update_error = graces = 0;
		in_grace = nullptr;
		at_registration = nullptr;
		registered = nullptr;
	}
	/*
	 * A point at text[n], with a slot if @slot is not -1, and with the probes first and second.
	 */
	struct probe_point *point(int n, int slot, bool two = false)
	{
		auto *pt = (struct probe_point *)calloc(1, sizeof(struct probe_point));
		pt->key = at(n);
		pt->insn = text[n];
		pt->probes = &first;
		first.next = two ? &second : NULL;
		if (slot >= 0) {
			pt->resume = (unsigned long)the_slots[slot];
			kprobe_slot_owner[slot] = pt;
		}
		pt->next = *bucket_of(pt->key);
		*bucket_of(pt->key) = pt;
		return pt;
	}
	/* The same, armed. */
	struct probe_point *armed(int n, int slot, bool two = false)
	{
		struct probe_point *pt = point(n, slot, two);
		EXPECT_EQ(0, kprobe_update_point(pt));
		return pt;
	}
	/*
	 * A breakpoint exception at @pc, in code whose context is a thread (1), an interrupt (2) or
	 * an exception (4).
	 */
	bool hit(unsigned long pc, u64 context = 1)
	{
		trap.pc = pc;
		SET_BREAK(trap);
		return kprobe_hook.hit(&trap, context);
	}
	void forget(struct probe_point *pt)
	{
		*bucket_of(pt->key) = NULL;
		free(pt);
	}
};

TEST_F(probes, a_hit_calls_the_handler_and_goes_on_in_the_slot)
{
	first.pre_handler = pre;
	struct probe_point *pt = armed(2, 5);
	ASSERT_TRUE(hit(at(2)));
	ASSERT_EQ(1u, handlers.size());
	EXPECT_EQ(at(2), handlers[0].ip);
	EXPECT_EQ(at(2), handlers[0].pc);
	EXPECT_TRUE(handlers[0].guarded);
	EXPECT_EQ(0u, cpu.recursion) << "the guard is taken back";
	EXPECT_EQ((unsigned long)the_slots[5], trap.pc);
	EXPECT_EQ(ADDI, the_slots[5][0]);
	forget(pt);
}

TEST_F(probes,
       the_breakpoint_after_the_copy_calls_the_post_handler_and_goes_on_after_the_instruction)
{
	first.post_handler = post;
	struct probe_point *pt = armed(2, 5);
	EXPECT_EQ(INSN_BREAK, the_slots[5][1]);
	ASSERT_TRUE(hit(at(2)));
	EXPECT_EQ(0u, handlers.size()) << "the instruction is not executed yet";
	ASSERT_TRUE(hit((unsigned long)&the_slots[5][1]));
	ASSERT_EQ(1u, handlers.size());
	EXPECT_EQ(at(2), handlers[0].ip);
	EXPECT_TRUE(handlers[0].guarded);
	EXPECT_EQ(at(3), trap.pc);
	EXPECT_EQ(0u, cpu.recursion);
	forget(pt);
}

TEST_F(probes, an_instruction_that_depends_on_pc_is_emulated)
{
	text[2] = BRANCH;
	first.pre_handler = pre;
	first.post_handler = post;
	struct probe_point *pt = armed(2, -1);
	ASSERT_TRUE(hit(at(2)));
	ASSERT_EQ(2u, handlers.size());
	EXPECT_EQ("post", handlers[1].who);
	EXPECT_EQ(at(4), handlers[1].pc) << "post sees what the instruction did";
	EXPECT_TRUE(handlers[1].guarded);
	EXPECT_EQ(at(4), trap.pc);
	forget(pt);
}

TEST_F(probes, a_handler_that_changes_pc_prevents_the_instruction)
{
	for (int slot : {5, -1}) {
		text[2] = slot < 0 ? BRANCH : ADDI;
		first.pre_handler = pre_moves;
		first.post_handler = post;
		first.flags = KPROBE_FLAG_IPMODIFY;
		struct probe_point *pt = armed(2, slot);
		handlers.clear();
		ASSERT_TRUE(hit(at(2)));
		EXPECT_EQ(at(7), trap.pc);
		EXPECT_EQ(1u, handlers.size()) << "it has no post handler to call";
		EXPECT_EQ(0u, cpu.recursion);
		forget(pt);
	}
}

TEST_F(probes, a_hit_in_a_handler_of_the_same_context_is_missed_and_executed)
{
	first.pre_handler = second.pre_handler = pre;
	second.post_handler = post;
	struct probe_point *pt = armed(2, 5, true);
	cpu.recursion = 1;
	ASSERT_TRUE(hit(at(2), 1));
	EXPECT_EQ((unsigned long)the_slots[5], trap.pc);
	ASSERT_TRUE(hit((unsigned long)&the_slots[5][1], 1));
	EXPECT_EQ(at(3), trap.pc);
	EXPECT_EQ(0u, handlers.size());
	EXPECT_EQ(1ul, first.nmissed);
	EXPECT_EQ(1ul, second.nmissed) << "once for the hit, and not again for the slot";
	EXPECT_EQ(1u, cpu.recursion) << "a hit that is missed leaves the guard as it was";
	ASSERT_TRUE(hit(at(2), 2)) << "an interrupt has a bit of its own";
	EXPECT_EQ(2u, handlers.size());
	EXPECT_EQ(1u, cpu.recursion);
	forget(pt);
}

TEST_F(probes, an_emulated_instruction_has_its_effect_if_the_hit_is_missed)
{
	text[2] = BRANCH;
	first.pre_handler = pre;
	first.post_handler = post;
	struct probe_point *pt = armed(2, -1);
	cpu.recursion = 1;
	ASSERT_TRUE(hit(at(2), 1));
	EXPECT_EQ(at(4), trap.pc);
	EXPECT_EQ(1ul, first.nmissed);
	EXPECT_EQ(0u, handlers.size()) << "neither a pre nor a post handler runs";
	forget(pt);
}

TEST_F(probes, the_probed_code_finds_what_a_handler_stored_in_a_register)
{
	for (int slot : {5, -1}) {
		text[2] = slot < 0 ? BRANCH : ADDI;
		first.pre_handler = pre_stores;
		struct probe_point *pt = armed(2, slot);
		trap.x[PROBE_ARG0 + 1] = 1;
		ASSERT_TRUE(hit(at(2)));
		EXPECT_EQ(77u, trap.x[PROBE_ARG0 + 1]) << (slot < 0 ? "emulated" : "in a slot");
		forget(pt);
	}
}

TEST_F(probes, a_disabled_probe_is_not_called)
{
	first.pre_handler = second.pre_handler = pre;
	struct probe_point *pt = armed(2, 5, true);
	first.flags = KPROBE_FLAG_DISABLED;
	ASSERT_TRUE(hit(at(2)));
	EXPECT_EQ(1u, handlers.size());
	EXPECT_EQ((unsigned long)the_slots[5], trap.pc);
	forget(pt);
}

TEST_F(probes, a_breakpoint_without_a_point)
{
	EXPECT_TRUE(hit(at(2)))
		<< "it was taken away meanwhile: the instruction that is there again is executed";
	EXPECT_EQ(at(2), trap.pc);
	text[2] = INSN_BREAK;
	EXPECT_FALSE(hit(at(2))) << "it is no probe's";
	trap = {};
	trap.pc = at(1);
	EXPECT_FALSE(kprobe_hook.hit(&trap, 1)) << "another exception is not a hit";
}

/* Another CPU may have written the breakpoint after this one has executed the instruction. */
TEST_F(probes, another_exception_at_a_probed_instruction_is_no_hit)
{
	first.pre_handler = pre;
	struct probe_point *pt = armed(2, 5);
	trap = {};
	trap.pc = at(2);
	EXPECT_FALSE(kprobe_hook.hit(&trap, 1));
	EXPECT_EQ(0u, handlers.size());
	EXPECT_EQ(at(2), trap.pc);
	forget(pt);
}

/* Another CPU unlinks the point, and writes the instruction back, while the bucket is searched. */
TEST_F(probes, the_word_is_read_after_the_point_was_looked_for)
{
	*bucket_of(at(2)) = (struct probe_point *)new_page(); /* of another instruction */
	text[2] = INSN_BREAK;
	protect_page(PROT_NONE, [] { text[2] = ADDI; });
	EXPECT_TRUE(hit(at(2))) << "the instruction is there again, and must be executed";
	EXPECT_EQ(at(2), trap.pc);
	*bucket_of(at(2)) = NULL;
	free_page();
}

TEST_F(probes, a_slot_stands_for_its_instruction_until_it_is_released)
{
	first.post_handler = post;
	struct probe_point *pt = armed(2, 5);
	first.flags = KPROBE_FLAG_DISABLED;
	EXPECT_EQ(0, kprobe_update_point(pt));
	EXPECT_FALSE(pt->armed);
	EXPECT_EQ(at(2), kprobe_hook.pc((unsigned long)&the_slots[5][0]))
		<< "a CPU may still be in the slot";
	ASSERT_TRUE(hit((unsigned long)&the_slots[5][1])) << "a CPU may still be in the slot";
	EXPECT_EQ(at(3), trap.pc);
	forget(pt);
}

TEST_F(probes, a_pc_in_a_slot_stands_for_the_probed_instruction)
{
	first.pre_handler = pre;
	struct probe_point *pt = armed(2, 5);
	EXPECT_EQ(at(2), kprobe_hook.pc((unsigned long)&the_slots[5][0]));
	EXPECT_EQ(at(3), kprobe_hook.pc((unsigned long)&the_slots[5][1]));
	EXPECT_EQ(at(1), kprobe_hook.pc(at(1)));
	EXPECT_EQ((unsigned long)the_slots[6], kprobe_hook.pc((unsigned long)the_slots[6]))
		<< "nobody's slot";
	EXPECT_EQ(INSN_BREAK, text[2]);
	EXPECT_EQ(ADDI, kprobe_hook.insn(at(2)));
	EXPECT_EQ(ADDI, kprobe_hook.insn(at(1)));
	pt->entry = true;
	pt->insn = BRANCH;
	EXPECT_EQ(INSN_BREAK, kprobe_hook.insn(at(2)))
		<< "an entry has no breakpoint: what is there is there";
	forget(pt);
}

/* ---- What is written, and when ---- */

TEST_F(probes, the_slot_is_complete_before_the_breakpoint)
{
	first.pre_handler = pre;
	struct probe_point *pt = armed(2, 5);
	EXPECT_EQ((std::vector<std::string>{"slot", "break"}), written);
	EXPECT_TRUE(IS_JUMP(the_slots[5][1])) << "no post handler: the slot jumps back";
	EXPECT_TRUE(pt->armed);
	written.clear();
	EXPECT_EQ(0, kprobe_update_point(pt));
	EXPECT_TRUE(written.empty()) << "nothing has changed";
	second.post_handler = post;
	first.next = &second;
	EXPECT_EQ(0, kprobe_update_point(pt));
	EXPECT_EQ(INSN_BREAK, the_slots[5][1]) << "a post handler needs the second breakpoint";
	EXPECT_EQ((std::vector<std::string>{"slot"}), written);
	forget(pt);
}

TEST_F(probes, the_instruction_is_written_back_when_no_probe_is_enabled)
{
	first.pre_handler = pre;
	struct probe_point *pt = armed(2, 5);
	first.flags = KPROBE_FLAG_DISABLED;
	written.clear();
	EXPECT_EQ(0, kprobe_update_point(pt));
	EXPECT_EQ(ADDI, text[2]);
	EXPECT_FALSE(pt->armed);
	EXPECT_EQ((std::vector<std::string>{"back"}), written) << "a CPU may still be in the slot";
	forget(pt);
}

TEST_F(probes, an_entry_is_armed_through_its_op)
{
	first.pre_handler = pre;
	struct probe_point *pt = point(2, -1);
	pt->entry = true;
	EXPECT_EQ(0, kprobe_update_point(pt));
	pt->probes = NULL;
	EXPECT_EQ(0, kprobe_update_point(pt));
	EXPECT_EQ((std::vector<std::string>{"entry on", "entry off"}), written);
	forget(pt);
}

TEST_F(probes, a_write_that_is_refused_arms_nothing)
{
	first.pre_handler = pre;
	struct probe_point *pt = point(2, 5);
	write_error = -ETIMEDOUT;
	EXPECT_EQ(-ETIMEDOUT, kprobe_update_point(pt));
	EXPECT_FALSE(pt->armed);
	write_error = 0;
	text[2] = BRANCH; /* not what the point took over */
	EXPECT_EQ(-EINVAL, kprobe_update_point(pt));
	EXPECT_FALSE(pt->armed);
	EXPECT_EQ(BRANCH, text[2]);
	text[2] = ADDI;
	EXPECT_EQ(0, kprobe_update_point(pt));
	text[2] = BRANCH; /* and then the breakpoint is gone */
	first.flags = KPROBE_FLAG_DISABLED;
	EXPECT_EQ(-EINVAL, kprobe_update_point(pt));
	EXPECT_TRUE(pt->armed) << "it was not written back";
	forget(pt);
}

TEST_F(probes, a_slot_that_is_not_written_arms_nothing)
{
	first.pre_handler = pre;
	struct probe_point *pt = point(2, 5);
	slot_error = -ETIMEDOUT;
	EXPECT_EQ(-ETIMEDOUT, kprobe_update_point(pt));
	EXPECT_EQ(ADDI, text[2]) << "the breakpoint would lead to a slot with other words";
	EXPECT_FALSE(pt->armed);
	forget(pt);
}

TEST_F(probes, a_point_is_unlinked_from_any_place_in_its_bucket)
{
	unsigned long key = at(8);
	while (bucket_of(key) != bucket_of(at(2)))
		key += 4;
	for (bool is_first : {true, false}) {
		struct probe_point *pt = point(2, 5), *other = point(3, 6);
		*bucket_of(at(3)) = NULL;
		other->key = key;
		*bucket_of(key) = is_first ? pt : other;
		pt->next = is_first ? other : NULL;
		other->next = is_first ? NULL : pt;
		in_grace = [&] {
			EXPECT_EQ(nullptr, find_point(at(2)));
			EXPECT_EQ(other, find_point(key)) << "another point of the bucket is lost";
			EXPECT_EQ(is_first ? other : NULL, pt->next)
				<< "a CPU that looks at the point goes on to the next one";
		};
		kprobe_wait_and_free(pt, true);
		in_grace = nullptr;
		forget(other);
	}
}

TEST_F(probes, an_unused_point_is_unlinked_before_the_grace_period_and_freed_after_it)
{
	first.pre_handler = pre;
	struct probe_point *pt = point(2, 5), *other = point(2, 6);
	other->key = at(3);
	*bucket_of(at(2)) = pt, *bucket_of(at(3)) = other;
	if (bucket_of(at(2)) == bucket_of(at(3)))
		other->next = pt;
	else
		pt->next = other->next = NULL;
	in_grace = [&] {
		EXPECT_EQ(nullptr, find_point(at(2)));
		EXPECT_EQ(other, find_point(at(3)));
		EXPECT_EQ(pt, kprobe_slot_owner[5]) << "a CPU may still be in the slot";
		EXPECT_TRUE(freed.empty());
	};
	kprobe_wait_and_free(pt, true);
	EXPECT_EQ(1, graces);
	EXPECT_EQ((std::vector<void *>{pt}), freed);
	EXPECT_EQ(nullptr, kprobe_slot_owner[5]);
	EXPECT_EQ(other, kprobe_slot_owner[6]);
	forget(other);
}

TEST_F(probes, a_point_that_is_used_stays)
{
	struct probe_point *pt = point(2, 5);
	kprobe_wait_and_free(pt, false);
	EXPECT_EQ(1, graces) << "no CPU is in the handler of the probe that has left";
	EXPECT_EQ(pt, find_point(at(2)));
	EXPECT_EQ(pt, kprobe_slot_owner[5]);
	EXPECT_TRUE(freed.empty());
	forget(pt);
}

/* ---- Return probes ---- */

static int returns, entries, entry_result;
static struct kretprobe_instance *instance;
static int on_return(struct kretprobe_instance *ri, struct ftrace_regs *)
{
	returns++;
	instance = ri;
	return 0;
}
static int on_entry(struct kretprobe_instance *ri, struct ftrace_regs *)
{
	entries++;
	instance = ri;
	return entry_result;
}

struct return_probes : probes {
	struct kretprobe rp = {};
	char data[8][256] = {};

	void SetUp() override
	{
		probes::SetUp();
		returns = entries = entry_result = 0;
		rp.kp.symbol_name = "first";
		rp.handler = on_return;
	}
	int enter(int n)
	{
		return rp.fp.entry_handler
			       ? rp.fp.entry_handler(&rp.fp, at(0), at(5), NULL, data[n])
			       : -ENOENT;
	}
	void leave(int n)
	{
		ASSERT_TRUE(rp.fp.exit_handler);
		rp.fp.exit_handler(&rp.fp, at(0), at(5), NULL, data[n]);
	}
};

TEST_F(return_probes, what_is_registered)
{
	rp.kp.addr = at(0);
	EXPECT_EQ(-EINVAL, register_kretprobe(&rp)) << "a name and an address";
	rp.kp = {};
	EXPECT_EQ(-EINVAL, register_kretprobe(&rp)) << "neither";
	rp.kp.addr = at(0);
	rp.handler = NULL;
	EXPECT_EQ(-EINVAL, register_kretprobe(&rp)) << "no handler";
	rp.handler = on_return;
	for (int size : {-1, KRETPROBE_DATA_MAX + 1}) {
		rp.data_size = size;
		EXPECT_EQ(-E2BIG, register_kretprobe(&rp));
	}
	EXPECT_EQ(nullptr, registered);
	rp.data_size = KRETPROBE_DATA_MAX;
	EXPECT_EQ(0, register_kretprobe(&rp));
	EXPECT_TRUE(by_address);
	ASSERT_EQ(&rp.fp, registered);
	EXPECT_EQ(FPROBE_DATA_MAX, rp.fp.entry_data_size);
	EXPECT_EQ(10, rp.maxactive);
	rp.fp.birth = 1; /* as fprobe.c has it while it is registered */
	EXPECT_EQ(-EEXIST, register_kretprobe(&rp));
	unregister_kretprobe(&rp);
	EXPECT_EQ(nullptr, registered);
	rp.fp.birth = 0;
	rp.kp = {"first", 0};
	rp.maxactive = -1;
	nr_cpus = 8;
	EXPECT_EQ(0, register_kretprobe(&rp));
	EXPECT_FALSE(by_address);
	EXPECT_EQ(16, rp.maxactive) << "two for each CPU, at least 10";
}

TEST_F(return_probes, it_is_whole_before_calls_can_reach_it)
{
	int checked = 0;
	rp.active = 5;
	rp.nmissed = 7;
	at_registration = [&] {
		EXPECT_EQ(0, rp.active);
		EXPECT_EQ(0ul, rp.nmissed);
		EXPECT_EQ(10, rp.maxactive) << "with 0 each call would be missed";
		return checked++, 0;
	};
	EXPECT_EQ(0, register_kretprobe(&rp));
	EXPECT_EQ(1, checked);
}

TEST_F(return_probes, an_error_of_the_fprobe_is_returned)
{
	at_registration = [] { return -ENOENT; };
	EXPECT_EQ(-ENOENT, register_kretprobe(&rp));
	rp.kp = {NULL, at(0)};
	EXPECT_EQ(-ENOENT, register_kretprobe(&rp));
}

TEST_F(return_probes, a_second_registration_changes_no_count)
{
	ASSERT_EQ(0, register_kretprobe(&rp));
	rp.fp.birth = 1; /* as fprobe.c has it while it is registered */
	ASSERT_EQ(0, enter(0));
	rp.nmissed = 7;
	EXPECT_EQ(-EEXIST, register_kretprobe(&rp));
	EXPECT_EQ(1, rp.active) << "a call is in flight";
	EXPECT_EQ(7ul, rp.nmissed);
}

/* Another CPU's call takes the last place when this one is about to store into `active`. */
TEST_F(return_probes, two_cpus_do_not_take_the_same_place)
{
	static struct kretprobe *shared;
	shared = (struct kretprobe *)new_page();
	*shared = rp;
	shared->maxactive = 1;
	ASSERT_EQ(0, register_kretprobe(shared));
	protect_page(PROT_READ, [] { shared->active = 1; });
	EXPECT_NE(0, shared->fp.entry_handler(&shared->fp, at(0), at(5), NULL, data[0]))
		<< "two calls are followed, and maxactive is 1";
	EXPECT_EQ(1, shared->active);
	EXPECT_EQ(1ul, shared->nmissed);
	free_page();
}

TEST_F(return_probes, a_call_is_in_flight_from_its_entry_to_its_return)
{
	rp.entry_handler = on_entry;
	ASSERT_EQ(0, register_kretprobe(&rp));
	ASSERT_EQ(0, enter(0));
	EXPECT_EQ(1, entries);
	EXPECT_EQ((struct kretprobe_instance *)data[0], instance);
	EXPECT_EQ(&rp, instance->rp);
	EXPECT_EQ(at(5), instance->ret_addr);
	EXPECT_EQ(1, rp.active);
	leave(0);
	EXPECT_EQ(1, returns);
	EXPECT_EQ((struct kretprobe_instance *)data[0], instance);
	EXPECT_EQ(0, rp.active);
}

TEST_F(return_probes, a_call_too_many_is_counted_and_not_probed)
{
	rp.maxactive = 2;
	ASSERT_EQ(0, register_kretprobe(&rp));
	EXPECT_EQ(0, enter(0));
	EXPECT_EQ(0, enter(1));
	EXPECT_NE(0, enter(2));
	EXPECT_EQ(1ul, rp.nmissed);
	EXPECT_EQ(2, rp.active);
	leave(1);
	EXPECT_EQ(0, enter(3)) << "there is room again";
	leave(3);
	leave(0);
	EXPECT_EQ(0, rp.active);
	EXPECT_EQ(1ul, rp.nmissed);
}

TEST_F(return_probes, an_entry_handler_may_decline_the_call)
{
	rp.entry_handler = on_entry;
	ASSERT_EQ(0, register_kretprobe(&rp));
	for (int result : {1, -1, 2}) {
		entry_result = result;
		EXPECT_NE(0, enter(0)) << "its result was " << result;
		EXPECT_EQ(0, rp.active) << "it is not in flight";
		EXPECT_EQ(0ul, rp.nmissed) << "and not missed";
		rp.active = 0;
	}
}

TEST_F(return_probes, a_thread_that_exits_takes_its_calls_with_it)
{
	ASSERT_EQ(0, register_kretprobe(&rp));
	EXPECT_EQ(0, enter(0));
	ASSERT_TRUE(rp.fp.lost_handler);
	rp.fp.lost_handler(&rp.fp, data[0]);
	EXPECT_EQ(0, rp.active);
	EXPECT_EQ(0, returns);
	thread.state = THREAD_DEAD;
	EXPECT_NE(0, enter(0)) << "its last schedule() is no call in flight";
	EXPECT_EQ(0, rp.active);
	EXPECT_EQ(0ul, rp.nmissed);
}

/* ---- Live patches ---- */

struct live_patches : probes {
	char new_first, newer_first, new_second;
	struct klp_func funcs[3] = {}, newer_funcs[2] = {};
	struct klp_patch patch = {funcs}, newer = {newer_funcs};

	void SetUp() override
	{
		probes::SetUp();
		funcs[0].old_name = "first";
		funcs[0].new_func = &new_first;
		funcs[1].old_name = "second";
		funcs[1].new_func = &new_second;
		newer_funcs[0].old_name = "first";
		newer_funcs[0].new_func = &newer_first;
	}
	void TearDown() override
	{
		klp_disable_patch(&patch);
		klp_disable_patch(&newer);
	}
	/* Where a call of the function continues; NULL: in itself. */
	const void *call(int n)
	{
		struct ftrace_regs regs = {};
		if (!patched)
			return "no table of patches was given to probe_sites_update()";
		patched->op->func(ftrace_ip(&functions[n]), 0, patched->op, &regs);
		return (const void *)regs.pc;
	}
};

TEST_F(live_patches, all_functions_of_a_patch_are_replaced_by_one_store)
{
	int checked = 0;
	in_grace = [&] {
		if (!patch.enabled) {
			EXPECT_EQ(2u, patched->count) << "all entries are there before the store";
			EXPECT_EQ(nullptr, call(0));
			EXPECT_EQ(nullptr, call(1));
			checked++;
		}
	};
	ASSERT_EQ(0, klp_enable_patch(&patch));
	EXPECT_EQ(1, checked);
	EXPECT_EQ(2, graces) << "one for the entries, one for the store";
	EXPECT_EQ(&new_first, call(0));
	EXPECT_EQ(&new_second, call(1));
	EXPECT_EQ(-EBUSY, klp_enable_patch(&patch));
	checked = 0;
	in_grace = [&] {
		EXPECT_FALSE(patch.enabled) << "the store comes first";
		EXPECT_EQ(nullptr, call(0));
		checked++;
	};
	ASSERT_EQ(0, klp_disable_patch(&patch));
	EXPECT_EQ(1, checked);
	EXPECT_EQ(0u, patched->count);
	EXPECT_EQ(-EINVAL, klp_disable_patch(&patch));
}

TEST_F(live_patches, the_newest_decides_and_either_may_go_first)
{
	for (bool newest_first : {true, false}) {
		ASSERT_EQ(0, klp_enable_patch(&patch));
		ASSERT_EQ(0, klp_enable_patch(&newer));
		EXPECT_EQ(&newer_first, call(0));
		EXPECT_EQ(&new_second, call(1));
		ASSERT_EQ(0, klp_disable_patch(newest_first ? &newer : &patch));
		EXPECT_EQ(newest_first ? &new_first : &newer_first, call(0));
		EXPECT_EQ(newest_first ? &new_second : nullptr, call(1));
		ASSERT_EQ(0, klp_disable_patch(newest_first ? &patch : &newer));
		EXPECT_EQ(nullptr, call(0));
	}
}

TEST_F(live_patches, an_older_one_is_in_effect_while_a_newer_one_changes)
{
	int checked = 0;
	ASSERT_EQ(0, klp_enable_patch(&patch));
	in_grace = [&] {
		if (!newer.enabled) {
			EXPECT_EQ(&new_first, call(0));
			checked++;
		}
	};
	ASSERT_EQ(0, klp_enable_patch(&newer));
	EXPECT_EQ(1, checked) << "the entries of the newer one are there, and it is not enabled";
	ASSERT_EQ(0, klp_disable_patch(&newer));
	in_grace = nullptr;
}

TEST_F(live_patches, sites_are_updated_again_after_an_error)
{
	std::vector<unsigned> entries;
	update_error = -ENOSPC;
	in_grace = [&] { entries.push_back(patched->count); };
	EXPECT_EQ(-ENOSPC, klp_enable_patch(&patch));
	in_grace = nullptr;
	update_error = 0;
	EXPECT_EQ((std::vector<unsigned>{2, 0}), entries)
		<< "of the table, at each call of probe_sites_update()";
}

TEST_F(live_patches, what_is_refused_leaves_nothing_behind)
{
	ASSERT_EQ(0, klp_enable_patch(&newer));
	for (int unknown : {0, 1}) {
		const char *name = funcs[unknown].old_name;
		funcs[unknown].old_name = "nobody";
		EXPECT_EQ(-ENOENT, klp_enable_patch(&patch)) << "of its function " << unknown;
		EXPECT_EQ(1u, patched->count) << "newer's";
		klp_disable_patch(&patch);
		funcs[unknown].old_name = name;
	}
	funcs[1].new_func = NULL;
	EXPECT_EQ(-EINVAL, klp_enable_patch(&patch));
	funcs[1].new_func = &new_second;
	update_error = -ENOSPC;
	EXPECT_EQ(-ENOSPC, klp_enable_patch(&patch));
	update_error = 0;
	EXPECT_EQ(1u, patched->count);
	EXPECT_FALSE(patch.enabled);
	EXPECT_EQ(&newer_first, call(0));
	struct klp_func none = {};
	struct klp_patch empty = {&none}, null = {};
	EXPECT_EQ(-EINVAL, klp_enable_patch(&empty));
	EXPECT_EQ(-EINVAL, klp_enable_patch(&null));
}
