// needs: kern/ftrace/files/last_boot.c kern/ftrace/ring/ring_region.c
// needs: kern/ftrace/ring/ring_buffer.c kern/ftrace/trace/trace_output.c
// needs: kern/ftrace/trace/trace_graph_output.c kern/ftrace/trace/trace_args.c kern/base/print.c
// needs: -Ikern/ftrace/tests/host
/*
 * last_boot= on the host: boots that follow one another in the same memory. Between two of them the
 * memory is damaged in every way, and whatever the next boot finds, it must print it or refuse it.
 */
#include "said.h"
#include "fake_output.h"
#include <algorithm>
#include <random>

extern "C" {
#include "errno.h"
#include "fdt.h"
#include "memory.h"
#include "ring_region.h"

extern const struct param set_size_param, last_boot_param;
extern char __irqentry_text_start[], __irqentry_text_end[];
__asm__(".data\n.balign 16\n.globl __irqentry_text_start, __irqentry_text_end, _text, _etext, "
	"_rodata, _erodata\n"
	"__irqentry_text_start: .zero 64\n__irqentry_text_end:\n_rodata: .zero 64\n_erodata: .zero "
	"8\n"
	".set _text, 0x10000000\n.set _etext, 0x10008000\n.text\n");

/*
 * Two events that only this test declares: all that last_boot= knows of an event is its
 * declaration.
 */
static void print_own(const trace_line *l)
{
	seq_printf(l->s, "own %u\n", *(const u32 *)(l->ent + 1));
}
static u32 accept_even(const void *data, u32 len)
{
	return ((const u32 *)data)[2] % 2 ? 0 : len - 4;
}
const trace_event_type own_event
	__attribute__((used, section("table_trace_event_type"), aligned(8))) = {
		1400, "own", nullptr, 12, nullptr, nullptr, print_own, nullptr};
const trace_event_type even_event
	__attribute__((used, section("table_trace_event_type"), aligned(8))) = {
		1401, "even", nullptr, 12, accept_even, nullptr, print_own, nullptr};

const trace_clock trace_clocks[] = {{"local", nullptr, true}, {"counter", nullptr, false}};
const unsigned trace_clock_count = 2;
trace_array global_trace;
static trace_array shown;
static bool made, no_memory;
struct range last_boot_ram;
unsigned long last_boot_size;

void *page_alloc(unsigned) { return aligned_alloc(4096, 4096); }
void page_free(void *p, unsigned) { free(p); }
void *kmalloc(size_t n) { return malloc(n); }
void *kzalloc(size_t n) { return calloc(1, n); }
void kfree(void *p) { free(p); }
void mutex_lock(struct mutex *) {}
void mutex_unlock(struct mutex *) {}
void smp_call(unsigned, void (*fn)(void *), void *arg) { fn(arg); }
void synchronize_sched(void) {}
void *phys_to_virt(unsigned long pa) { return (void *)pa; }
int kstrtou64(const char *s, int, u64 *value)
{
	char *end;
	*value = strtoull(s, &end, 10);
	return *end ? -EINVAL : 0;
}
void tracing_slow(trace_array *tr, u64 reasons, bool on)
{
	for (unsigned i = 0; i < nr_cpus; i++)
		tr->cpu[i].slow = on ? tr->cpu[i].slow | reasons : tr->cpu[i].slow & ~reasons;
}
void trace_array_free(trace_array *tr)
{
	for (unsigned i = 0; i < nr_cpus; i++)
		rb_free(&tr->cpu[i]);
}
int tracing_resize(trace_array *tr, int cpu, unsigned long bytes)
{
	if (no_memory)
		return -ENOMEM;
	for (unsigned i = 0; i < nr_cpus; i++) {
		rb_resize to;
		EXPECT_EQ(rb_resize_prepare(&tr->cpu[i], rb_pages_for(bytes), &to), 0);
		rb_resize_apply(&tr->cpu[i], &to);
	}
	return 0;
}
int file_mkdir(struct node *, const char *path)
{
	EXPECT_STREQ(path, "/sys/kernel/tracing/instances/last_boot");
	made = true;
	return 0;
}
int file_remove(struct node *, const char *path)
{
	EXPECT_STREQ(path, "/sys/kernel/tracing/instances/last_boot");
	made = false;
	return 0;
}
struct node *file_lookup(struct node *, const char *)
{
	static struct node dir;
	dir.data = &shown;
	return &dir;
}
}

namespace
{

const tracer nop{"nop"};

struct LastBoot : Output {
	static constexpr size_t size = MiB(1);
	char *memory = (char *)aligned_alloc(4096, size);
	rb_region *region = (rb_region *)memory;
	uint64_t now = 1000;
	uint32_t number = 0;

	void SetUp() override
	{
		Output::SetUp();
		fake_symbols = {{0x10001000, 0x3ba, "vfs_write\0"},
				{0x10002000, 0xe8, "ksys_write\0003pa,Sb,"},
				{0x10003000, 0x40, "tracing_mark_write\0"}};
		memset(memory, 0, size);
		nr_cpus = 2;
		memset(_rodata, 1, 64);
		boot();
		EXPECT_EQ(said, "last_boot: no events of an earlier boot are there\n");
		EXPECT_FALSE(made);
	}
	void TearDown() override
	{
		trace_array_free(&shown);
		free(memory);
		Output::TearDown();
	}
	/* A warm reset, and the next boot with the same arguments. */
	void boot(const char *bytes = "1M")
	{
		for (unsigned i = 0; i < NR_CPUS; i++)
			rb_free(&shown.cpu[i]);
		for (trace_array *t : {&shown, &global_trace}) {
			memset((void *)t, 0, sizeof(*t));
			t->tracer = &nop;
			t->clock = trace_clocks;
			t->options = TRACE_ITER_DEFAULT;
			for (auto &rb : t->cpu)
				rb.overwrite = true;
		}
		made = false;
		said = "";
		ASSERT_EQ(set_size_param.set(bytes), 0);
		last_boot_ram = {(unsigned long)memory, (unsigned long)memory + size};
		ASSERT_EQ(last_boot_param.set(bytes), no_memory ? -ENOMEM : 0);
		EXPECT_EQ(shown.cpu[0].slow, made ? RB_OFF | RB_STOPPED : 0u);
		EXPECT_EQ(global_trace.cpu[0].slow, 0u);
	}
	void *reserve(unsigned cpu, size_t len, rb_reserved *r)
	{
		return rb_reserve(&global_trace.cpu[cpu], now += 1000, len, r);
	}
	void write(unsigned cpu, const void *data, size_t len)
	{
		rb_reserved r;
		memcpy(reserve(cpu, len, &r), data, len);
		rb_commit(&global_trace.cpu[cpu], &r);
	}
	/* A function event with a number of its own in the place of its caller. */
	function_entry call()
	{
		function_entry e{{TRACE_FN, 0, 0, 1}, {}, {}};
		put_address(e.ip, 0x10001000);
		put_address(e.parent_ip, number++);
		return e;
	}
	void calls(unsigned cpu, unsigned count)
	{
		for (unsigned i = 0; i < count; i++) {
			function_entry e = call();
			write(cpu, &e, sizeof(e));
		}
	}
	/*
	 * Print what is shown, as `cat trace` does, each event at the end of memory of its own.
	 * Return: the number of events.
	 */
	uint64_t print()
	{
		uint64_t n = 0;
		memset((void *)&printer, 0, sizeof(printer));
		printer.tr = &shown;
		text.clear();
		for (unsigned cpu = 0; made && cpu < nr_cpus; cpu++) {
			rb_event ev, next;
			std::vector<std::string> all;
			std::vector<uint64_t> times;
			for (; rb_peek(&shown.cpu[cpu], &ev); rb_consume(&shown.cpu[cpu])) {
				EXPECT_TRUE(times.empty() || times.back() <= ev.ts);
				all.push_back(std::string((const char *)ev.data, ev.len));
				times.push_back(ev.ts);
			}
			n += all.size();
			for (size_t i = 0; i < all.size();) {
				std::vector<char> a(all[i].begin(), all[i].end()), b;
				ev = {times[i], 0, a.data(), (u32)a.size()};
				if (i + 1 < all.size()) {
					b.assign(all[i + 1].begin(), all[i + 1].end());
					next = {times[i + 1], 0, b.data(), (u32)b.size()};
				}
				i += trace_print_event(&s, &printer, cpu, &ev,
						       b.empty() ? nullptr : &next);
			}
		}
		return n;
	}
	ring_buffer_cpu &ring(unsigned cpu)
	{
		return global_trace.cpu[cpu];
	}
	std::vector<unsigned> numbers(unsigned cpu)
	{
		std::vector<unsigned> found;
		rb_event ev;
		for (; made && rb_peek(&shown.cpu[cpu], &ev); rb_consume(&shown.cpu[cpu]))
			found.push_back(get_address(((const function_entry *)ev.data)->parent_ip));
		return found;
	}
	static std::vector<unsigned> range_of(unsigned from, unsigned to)
	{
		std::vector<unsigned> all;
		while (from < to)
			all.push_back(from++);
		return all;
	}
};

std::string has(unsigned long n)
{
	return "last_boot: instances/last_boot has " + std::to_string(n) +
	       " events of the boot before";
}

TEST_F(LastBoot, events_are_shown_as_the_boot_that_wrote_them_would)
{
	function_entry f = call();
	put_address(f.parent_ip, 0x10002010);
	write(1, &f, sizeof(f));
	u32 marker[] = {TRACE_PRINT, 1, 0x10003000, 0, 0x6c6c6568, 0x0a6f, 0}; /* "hello\n" */
	write(1, marker, sizeof(marker));
	u32 stack[] = {TRACE_STACK, 1, 2, 0, 0x10001001, 0, 0x10002004, 0};
	write(1, stack, sizeof(stack));
	ftrace_graph_ent_entry open{{TRACE_GRAPH_ENT, 0, 0, 1}, {0x10001000, 0}, 0};
	write(0, &open, sizeof(open));
	ftrace_graph_ret_entry close{
		{TRACE_GRAPH_RET, 0, 0, 1}, {0x10001000, 0}, {}, 0, 0, {1000, 0}, {3500, 0}};
	write(0, &close, sizeof(close));
	boot();
	EXPECT_EQ(said, has(5) + "\n");
	EXPECT_EQ(print(), 5u);
	EXPECT_EQ(text,
		  " 0)   2.500 us    |  vfs_write();\n"
		  "           <...>-1       [001] .....     0.000002: vfs_write <-ksys_write\n"
		  "           <...>-1       [001] .....     0.000003: tracing_mark_write: hello\n"
		  "           <...>-1       [001] .....     0.000004: <stack trace>\n => "
		  "vfs_write\n => ksys_write\n");
	boot();
	EXPECT_EQ(said, has(0) + "\n")
		<< "the events of the boot before, not those of an earlier one";
}

TEST_F(LastBoot, an_event_says_in_its_declaration_which_lengths_can_be_shown)
{
	const u32 own[] = {1400, 1, 7, 9}, even[] = {1401, 1, 8, 9}, odd[] = {1401, 1, 7, 9};

	write(0, own, 12);
	write(0, own, 16);
	write(0, own, 8);
	write(0, even, 16);
	write(0, even, 8); /* shorter than the type says: accept() is not called */
	write(0, odd, 16);
	boot();
	EXPECT_EQ(said,
		  has(2) + "; 4 events that cannot be shown and 0 damaged pages are left out\n");
	EXPECT_EQ(print(), 2u);
	EXPECT_EQ(text, "           <...>-1       [000] .....     0.000002: own 7\n"
			"           <...>-1       [000] .....     0.000005: own 8\n");
}

TEST_F(LastBoot, names_of_this_boot_are_not_given_to_threads_and_modules_of_the_boot_before)
{
	static thread shell{};
	function_entry f = call();
	/* with an argument, which has no name */
	u32 open[] = {TRACE_GRAPH_ENT, 1, 0x20002000, 0, 0, 5, 0};

	put_address(f.parent_ip, 0x10002010);
	write(0, &f, sizeof(f));
	write(0, open, sizeof(open));
	boot();
	shell.pid = 1;
	strcpy(shell.comm, "shell");
	comm_hook_hook.fn(THREAD_BORN, nullptr, &shell);
	fake_module_start = 0x10002000;
	EXPECT_EQ(print(), 2u);
	fake_module_start = ~0ul;
	EXPECT_EQ(text,
		  "           <...>-1       [000] .....     0.000002: vfs_write <-0x10002010\n"
		  " 0)               |  0x20002000() {\n");
}

TEST_F(LastBoot, an_event_without_its_commit_is_not_shown)
{
	rb_reserved r;

	calls(0, 3);
	function_entry half = call();
	memcpy(reserve(0, sizeof(half), &r), &half, sizeof(half));
	boot();
	EXPECT_EQ(said, has(3) + "\n");
	EXPECT_EQ(numbers(0), range_of(0, 3));
}

TEST_F(LastBoot, a_full_buffer_shows_its_newest_events)
{
	calls(1, 100000);
	uint64_t kept = rb_entries(&ring(1));
	boot();
	EXPECT_EQ(said, has(kept) + "\n");
	EXPECT_EQ(numbers(1), range_of(100000 - kept, 100000));
}

/*
 * A reset between the stores of a new page: its slot's word, commit 0, first, the event's commit.
 */
TEST_F(LastBoot, a_reset_in_a_change_of_page_costs_the_oldest_page_at_most)
{
	for (int stores = 1; stores <= 3; stores++) {
		number = 0;
		calls(0, 100000);
		ring_buffer_cpu &rb = ring(0);
		uint64_t kept = rb_entries(&rb);
		u32 slot = (rb.slot + 1) % rb.nr_slots, page = RB_SLOT_PAGE(rb.slots[slot]);
		uint64_t oldest = rb.pages[page].events;

		rb.slots[slot] = (uint64_t)page << RB_SLOT_POSITION_BITS | (rb.position + 1);
		if (stores > 1)
			rb.pages[page].page->commit = 0;
		if (stores > 2)
			rb.pages[page].first = rb.accepted;
		kept -= stores > 1 ? oldest : 0;
		boot();
		EXPECT_EQ(said, has(kept) + "\n");
		EXPECT_EQ(numbers(0), range_of(100000 - kept, 100000));
	}
}

TEST_F(LastBoot, what_was_consumed_is_not_shown_but_for_the_page_that_the_reader_holds)
{
	rb_event ev;

	calls(0, 1000);
	for (int i = 0; i < 400; i++, rb_consume(&ring(0)))
		ASSERT_TRUE(rb_peek(&ring(0), &ev));
	uint64_t first = ring(0).pages[ring(0).held].first;
	ASSERT_GT(first, 200u);
	boot();
	EXPECT_EQ(numbers(0), range_of(first, 1000));

	number = 0;
	calls(0, 50); /* the reader takes the writer's page, and the writer goes on in it */
	ASSERT_TRUE(rb_peek(&ring(0), &ev));
	calls(0, 50);
	boot();
	EXPECT_EQ(numbers(0), range_of(0, 100));
}

TEST_F(LastBoot, nothing_is_shown_after_the_buffers_were_emptied)
{
	calls(0, 100000);
	rb_event ev;
	ASSERT_TRUE(rb_peek(&ring(0), &ev));
	calls(0, 100000); /* in the page that was the reader's, too */
	rb_reset(&ring(0));
	boot();
	EXPECT_EQ(said, has(0) + "\n");
}

TEST_F(LastBoot, the_buffers_keep_their_size)
{
	rb_resize to;
	EXPECT_EQ(rb_resize_prepare(&ring(0), 10, &to), -EBUSY);
	EXPECT_TRUE(global_trace.expanded);
}

TEST_F(LastBoot, given_twice_it_counts_once)
{
	calls(0, 3);
	EXPECT_EQ(last_boot_param.set("1M"), 0);
	EXPECT_EQ(last_boot_param.set("refused early"), 0);
	EXPECT_FALSE(made);
	calls(0, 4);
	boot();
	EXPECT_EQ(said, has(7) + "\n");
}

TEST_F(LastBoot, without_memory_to_show_them_the_events_stay_for_another_boot)
{
	calls(0, 5);
	no_memory = true;
	boot();
	no_memory = false;
	EXPECT_EQ(said, "last_boot: no memory for a copy of the earlier boot's events, which stay; "
			"this boot's are not kept\n");
	EXPECT_FALSE(made);
	EXPECT_EQ(global_trace.kept_clock, nullptr) << "this boot's events are not in the region";
	boot();
	EXPECT_EQ(said, has(5) + "\n");
}

TEST_F(LastBoot, the_clock_is_that_of_the_boot_before)
{
	calls(0, 1);
	*global_trace.kept_clock = 1;
	boot();
	EXPECT_EQ(shown.clock, &trace_clocks[1]);
	*global_trace.kept_clock = 2;
	boot();
	EXPECT_EQ(shown.clock, &trace_clocks[0]) << "there is none with this number";
}

TEST_F(LastBoot, a_sentence_says_why_it_is_refused)
{
	struct {
		const char *why;
		void (*change)(LastBoot &);
	} cases[] = {
		{"the earlier boot ran another kernel, so its addresses mean other functions",
		 [](LastBoot &) { _rodata[17] ^= 4; }},
		{"the earlier boot had another number of CPUs, or another last_boot=",
		 [](LastBoot &) { nr_cpus = 1; }},
		{"the header of the earlier boot's events is damaged",
		 [](LastBoot &t) { t.region->nr_slots++; }},
		{"no events of an earlier boot are there", [](LastBoot &t) { t.region->magic++; }},
	};
	for (auto &c : cases) {
		nr_cpus = 2;
		boot();
		calls(0, 10);
		c.change(*this);
		boot();
		EXPECT_EQ(said, std::string("last_boot: ") + c.why + "\n");
		EXPECT_FALSE(made);
		calls(0, 10);
		boot();
		EXPECT_EQ(said, has(10) + "\n")
			<< "this boot's events are kept, whatever was there";
	}
}

TEST_F(LastBoot, every_bit_of_the_header_counts)
{
	for (unsigned bit = 0; bit < 8 * offsetof(rb_region, clock) - 32; bit++) {
		memory[bit / 8] ^= 1 << bit % 8;
		boot();
		EXPECT_FALSE(made) << "bit " << bit;
	}
}

TEST_F(LastBoot, a_size_is_a_number_of_megabytes)
{
	for (const char *bad :
	     {"", "M", "4", "4K", "0M", "-1M", "4 M", "1025M", "99999999999999999999M"})
		EXPECT_EQ(set_size_param.set(bad), -EINVAL) << bad;
	EXPECT_EQ(set_size_param.set("1024M"), 0);
	EXPECT_EQ(last_boot_size, GiB(1));
}

TEST_F(LastBoot, a_damaged_page_is_left_out_and_the_others_are_shown)
{
	calls(0, 1000);
	uint64_t lost = ring(0).pages[2].events;
	memset(ring(0).pages[2].page, 0xff, RB_PAGE_SIZE);
	boot();
	EXPECT_EQ(said,
		  has(1000 - lost) +
			  "; 0 events that cannot be shown and 1 damaged pages are left out\n");
	EXPECT_EQ(print(), 1000 - lost);
}

TEST_F(LastBoot, a_page_that_would_go_on_in_the_next_one_is_left_out)
{
	calls(0, 144);
	u32 marker[11] = {TRACE_PRINT, 1};
	write(0, marker, sizeof(marker));
	ASSERT_EQ(ring(0).page->commit, (u64)RB_PAGE_DATA);
	ring(0).page->commit += 8;
	ring(0).pages[1].page->time_stamp = 1; /* as an event: one word follows */
	boot();
	EXPECT_EQ(said,
		  has(0) + "; 0 events that cannot be shown and 1 damaged pages are left out\n");
}

TEST_F(LastBoot, a_time_that_no_page_can_hold_damages_one_page)
{
	calls(0, 1000);
	uint64_t lost = ring(0).pages[2].events;
	ring(0).pages[2].page->time_stamp = 1ull << 60;
	boot();
	EXPECT_EQ(said,
		  has(1000 - lost) +
			  "; 0 events that cannot be shown and 1 damaged pages are left out\n");
}

TEST_F(LastBoot, an_event_that_no_printer_can_trust_is_left_out)
{
	struct {
		u32 words[16];
		size_t len;
	} bad[] = {
		{{TRACE_FN, 1, 0x10001000, 0}, 16},		/* too short */
		{{TRACE_FN}, 4},
		{{TRACE_PRINT, 1, 0, 0, 0x41414141, 0x41414141}, 24},	/* no NUL */
		{{TRACE_PRINT, 1, 0, 0}, 16},
		/* more callers than there are */
		{{TRACE_STACK, 1, 1000, 0, 1, 1}, 24},
		{{TRACE_STACK, 1, 0xffffffff, 0, 1, 1}, 24},
		/* so deep would be that many spaces */
		{{TRACE_GRAPH_ENT, 1, 0x10001000, 0, 0x7fffffff}, 20},
		{{TRACE_GRAPH_ENT, 1, 0x10001000, 0, 0x80000000}, 20},
		{{TRACE_GRAPH_ENT, 1, 0x10001000, 0, 1, 2}, 24}, /* half an argument */
		{{TRACE_GRAPH_RETADDR_ENT, 1, 0x10001000, 0, 512, 0, 0}, 28},
		{{TRACE_GRAPH_RET, 1, 0x10001000, 0, 0, 0, 0xffff}, 48},
		{{TRACE_GRAPH_RET, 1, 0x10001000, 0, 0, 0, 0}, 44},
		{{2000, 1, 0, 0, 0, 0}, 24},				/* an event by a probe */
	};
	for (auto &b : bad)
		write(0, b.words, b.len);
	calls(0, 1);
	boot();
	EXPECT_EQ(said, has(1) + "; " + std::to_string(std::size(bad)) +
				" events that cannot be shown and 0 damaged pages are left out\n");
	EXPECT_EQ(print(), 1u);
}

/* The rest of the memory may be anything, as long as the header is right. */
TEST_F(LastBoot, whatever_the_memory_holds_is_printed_or_refused)
{
	std::mt19937_64 random(13);
	auto below = [&](uint64_t n) { return random() % n; };
	uint64_t all = 0, refusals = 0;

	for (int round = 0; round < 80; round++) {
		uint64_t written = number = 0;
		for (int i = below(4000); i >= 0; i--) {
			u32 words[64];
			unsigned cpu = below(2), count = 1 + below(below(8) ? 8 : 64);
			static const u16 types[] = {TRACE_FN,
						    TRACE_STACK,
						    TRACE_PRINT,
						    TRACE_GRAPH_RET,
						    TRACE_GRAPH_ENT,
						    TRACE_GRAPH_RETADDR_ENT,
						    1500};
			for (u32 &w : words)
				w = below(3) ? below(4) : random();
			words[0] = types[below(std::size(types))];
			if (below(3))
				words[3] = 0, words[2] = 0x10000000 + below(0x9000);
			now += below(100) ? 0 : random() >> (6 + below(58));
			now = std::min<uint64_t>(now, 1ull << 58);
			if (below(2))
				calls(cpu, 1);
			else
				write(cpu, words, 4 * count);
			written++;
		}
		u64 *at = (u64 *)(memory + RB_PAGE_SIZE);
		size_t count = (size - RB_PAGE_SIZE) / 8;
		for (int i = below(30); i > 0; i--) {
			unsigned cpu = below(2), n = ring(0).nr_slots;
			rb_page *page = ring(cpu).pages[below(n + 1)].page;
			switch (below(7)) {
			case 0: at[below(count)] ^= 1ull << below(64); break;
			case 1: at[below(count)] = random(); break;
			case 2: ring(cpu).slots[below(n)] ^= 1ull << below(64); break;
			case 3: ring(cpu).slots[below(n)] = random(); break;
			case 4:
				ring(cpu).pages[below(n + 1)].first =
					below(2) ? random() : below(1000);
				break;
			case 5: page->commit = below(2) ? random() : below(RB_PAGE_DATA + 8); break;
			case 6: ((u32 *)page)[below(200)] = random() >> below(32); break;
			}
		}
		if (round % 10 == 9)
			for (size_t i = 0; i < count; i++)
				at[i] = round % 20 == 9 ? random() : 0x1000000010ull * below(1000);
		now = 1000;
		boot();
		ASSERT_TRUE(made);
		ASSERT_EQ(said.rfind("last_boot: instances/last_boot has ", 0), 0u) << said;
		ASSERT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
		refusals += said.find("left out") != std::string::npos;
		all += print();
	}
	EXPECT_GT(all, 10000u);
	EXPECT_GT(refusals, 40u);
}

} // namespace
