// needs: kern/ftrace/trace/trace_graph_output.c kern/ftrace/trace/trace_args.c
// needs: kern/ftrace/trace/trace_output.c kern/base/print.c -Ikern/ftrace/tests/host
/*
 * function_graph's text, compared with transcripts byte for byte: events are made
 * as the tracer writes them, and printed as a reader of `trace` prints them.
 */
#include "fake_output.h"

extern "C" char __irqentry_text_start[], __irqentry_text_end[];
__asm__(".data\n.globl __irqentry_text_start, __irqentry_text_end\n"
	"__irqentry_text_start: .zero 64\n__irqentry_text_end: .zero 8\n"
	".globl _text, _etext\n.set _text, 0\n.set _etext, 0\n.text\n");

/* An event that trace_graph_output.c does not know. */
static void print_other(const trace_line *l)
{
	seq_printf(l->s, "the other's text\n");
}
extern "C" const trace_event_type other_event
	__attribute__((used, section("table_trace_event_type"), aligned(8))) = {
		1400,	 "other", nullptr,     sizeof(trace_entry),
		nullptr, nullptr, print_other, nullptr};

namespace
{

const tracer function_graph{"function_graph", nullptr, nullptr, trace_graph_print_other,
			    trace_graph_print_header, TRACE_ITER_GRAPH};

constexpr unsigned long vfs_write = 0xffffffff80001000, ksys_write = 0xffffffff80002000,
			mark_write = 0xffffffff80003000, fdget_pos = 0xffffffff80004000;
const unsigned long handle_irq = (unsigned long)__irqentry_text_start;

struct Graph : Output {
	struct event {
		unsigned cpu;
		uint64_t ts, lost;
		std::vector<uint32_t> words; /* as in a page: aligned to 4 */
	};
	std::vector<event> events;
	int pid = 7;
	unsigned cpu = 0;
	uint64_t now = 1000000, lost_before = 0;
	long retval = 0;

	void SetUp() override
	{
		Output::SetUp();
		tr->tracer = &function_graph;
		if (fake_symbols.back().start != handle_irq)
			fake_symbols.push_back({handle_irq, 64, "handle_irq"});
		static thread shell{}, worker{};
		name(shell, 7, "sh");
		name(worker, 1234, "longworkername");
	}
	static void name(thread &t, int pid, const char *comm)
	{
		t.pid = pid;
		strcpy(t.comm, comm);
		comm_hook_hook.fn(THREAD_BORN, nullptr, &t);
	}
	void add(const void *data, size_t size)
	{
		std::vector<uint32_t> words((size + 3) / 4);
		memcpy(words.data(), data, size);
		events.push_back({cpu, now, lost_before, words});
		lost_before = 0;
	}
	void enter(unsigned long func, int depth)
	{
		ftrace_graph_ent_entry e{{TRACE_GRAPH_ENT, 0, 0, pid}, {}, depth};
		put_address(e.func, func);
		add(&e, sizeof(e));
	}
	void enter_from(unsigned long func, int depth, unsigned long retaddr)
	{
		fgraph_retaddr_ent_entry e{{TRACE_GRAPH_RETADDR_ENT, 0, 0, pid}, {}, depth, {}};
		put_address(e.func, func);
		put_address(e.retaddr, retaddr);
		add(&e, sizeof(e));
	}
	void leave(unsigned long func, int depth, uint64_t ns)
	{
		ftrace_graph_ret_entry e{{TRACE_GRAPH_RET, 1, 2, pid}, {}, {}, depth, 3, {}, {}};
		put_address(e.func, func);
		put_address(e.retval, retval);
		now += ns;
		put_address(e.calltime, now - ns);
		put_address(e.rettime, now);
		add(&e, sizeof(e));
	}
	void leaf(unsigned long func, int depth, uint64_t ns)
	{
		enter(func, depth);
		leave(func, depth, ns);
	}
	void marker(const char *what)
	{
		alignas(8) char raw[64] = {};
		auto *e = (print_entry *)raw;
		e->ent = {TRACE_PRINT, 0, 0, pid};
		put_address(e->ip, mark_write);
		strcpy(e->buf, what);
		add(raw, sizeof(raw));
	}
	/* Print the events from @i on, each together with the next event of its CPU. */
	std::string shown(size_t i = 0)
	{
		std::vector<bool> used(events.size());
		text.clear();
		for (; i < events.size(); i++) {
			if (used[i])
				continue;
			rb_event ev = event_at(i), next;
			size_t n = i + 1;
			while (n < events.size() && events[n].cpu != events[i].cpu)
				n++;
			if (n < events.size())
				next = event_at(n);
			int printed = trace_print_event(&s, &printer, events[i].cpu, &ev,
							n < events.size() ? &next : nullptr);
			EXPECT_TRUE(printed == 1 || (printed == 2 && n < events.size()));
			if (printed == 2)
				used[n] = true;
		}
		events.clear();
		return text;
	}
	rb_event event_at(size_t i)
	{
		return {events[i].ts, events[i].lost, events[i].words.data(),
			(uint32_t)events[i].words.size() * 4};
	}
	std::string header()
	{
		text.clear();
		trace_print_header(&s, tr);
		return text;
	}
};

TEST_F(Graph, calls_nest_and_leaves_fold)
{
	enter(ksys_write, 0);
	leaf(fdget_pos, 1, 700);
	enter(vfs_write, 1);
	leaf(fdget_pos, 2, 56200);
	leave(vfs_write, 1, 9200);
	leave(ksys_write, 0, 1025700);
	EXPECT_EQ(header() + shown(),
		  "# tracer: function_graph\n"
		  "#\n"
		  "# CPU  DURATION                  FUNCTION CALLS\n"
		  "# |     |   |                     |   |   |   |\n"
		  " 0)               |  ksys_write() {\n"
		  " 0)   0.700 us    |    fdget_pos();\n"
		  " 0)               |    vfs_write() {\n"
		  " 0) + 56.200 us   |      fdget_pos();\n"
		  " 0)   9.200 us    |    }\n"
		  " 0) # 1025.700 us |  }\n");
}

TEST_F(Graph, a_function_of_a_module_has_its_name)
{
	fake_module_start = ksys_write;
	enter(ksys_write, 0);
	enter(vfs_write, 1);
	leaf(fdget_pos, 2, 700);
	leave(ksys_write, 1, 1000);
	EXPECT_EQ(shown(), " 0)               |  ksys_write [hello]() {\n"
			   " 0)               |    vfs_write() {\n"
			   " 0)   0.700 us    |      fdget_pos [hello]();\n"
			   " 0)   1.000 us    |    } /* ksys_write [hello] */\n");
	fake_module_start = ~0ul;
}

TEST_F(Graph, a_leaf_is_the_same_call_of_the_same_thread_next_to_its_return)
{
	enter(vfs_write, 0);
	leave(fdget_pos, 0, 1000);
	enter(vfs_write, 1);
	leave(vfs_write, 0, 1000);
	EXPECT_EQ(shown(), " 0)               |  vfs_write() {\n"
			   " 0)   1.000 us    |  } /* fdget_pos */\n"
			   " 0)               |    vfs_write() {\n"
			   " 0)   1.000 us    |  } /* vfs_write */\n");
	enter(vfs_write, 0);
	pid = 0;
	leave(vfs_write, 0, 1000);
	EXPECT_EQ(shown().find("vfs_write();"), std::string::npos);
}

TEST_F(Graph, another_cpus_events_do_not_come_between)
{
	enter(vfs_write, 0);
	cpu = 1;
	leaf(fdget_pos, 0, 300);
	cpu = 0;
	leave(vfs_write, 0, 400);
	EXPECT_EQ(shown(), " 0)   0.400 us    |  vfs_write();\n"
			   " 1)   0.300 us    |  fdget_pos();\n");
}

TEST_F(Graph, an_entry_without_a_next_event_stays_open)
{
	enter(vfs_write, 0);
	EXPECT_EQ(shown(), " 0)               |  vfs_write() {\n");
	leave(vfs_write, 0, 5000);
	EXPECT_EQ(shown(), " 0)   5.000 us    |  }\n");
}

TEST_F(Graph, a_lost_entry_leaves_a_name_at_the_return)
{
	leave(vfs_write, 1, 5000);
	leave(ksys_write, 0, 6000);
	EXPECT_EQ(shown(), " 0)   5.000 us    |    } /* vfs_write */\n"
			   " 0)   6.000 us    |  } /* ksys_write */\n");
}

TEST_F(Graph, lost_events_stand_between_and_do_not_fold)
{
	enter(vfs_write, 0);
	lost_before = 12;
	leave(vfs_write, 0, 5000);
	EXPECT_EQ(shown(), " 0)               |  vfs_write() {\n"
			   "CPU:0 [LOST 12 EVENTS]\n"
			   " 0)   5.000 us    |  }\n");
}

TEST_F(Graph, a_lost_return_is_not_invented)
{
	enter(ksys_write, 0);
	enter(vfs_write, 1);
	enter(fdget_pos, 0);
	leave(fdget_pos, 0, 1);
	EXPECT_EQ(shown(), " 0)               |  ksys_write() {\n"
			   " 0)               |    vfs_write() {\n"
			   " 0)   0.001 us    |  fdget_pos();\n");
}

TEST_F(Graph, marks_are_strictly_above_their_border)
{
	const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{0, "  0.000 us    "},		 {9999, "  9.999 us    "},
		{10000, "  10.000 us   "},	 {10001, "+ 10.001 us   "},
		{100000, "+ 100.000 us  "},	 {100001, "! 100.001 us  "},
		{1000000, "! 1000.000 us "},	 {1000001, "# 1000.001 us "},
		{10000000, "# 10000.00 us "},	 {10000001, "* 10000.00 us "},
		{100000000, "* 100000.0 us "},	 {100000001, "@ 100000.0 us "},
		{999999999, "@ 999999.9 us "},	 {1000000000, "@ 1000000 us  "},
		{1000000001, "$ 1000000 us  "},	 {12345678901, "$ 12345678 us "},
		{123456789012, "$ 123456789 us "},
	};
	for (auto &c : cases) {
		leaf(vfs_write, 0, c.ns);
		EXPECT_EQ(shown(), std::string(" 0) ") + c.text + "|  vfs_write();\n");
	}
	tr->options &= ~TRACE_ITER_GRAPH_OVERHEAD;
	leaf(vfs_write, 0, 1000001);
	EXPECT_EQ(shown(), " 0)   1000.001 us |  vfs_write();\n");
}

TEST_F(Graph, another_thread_on_the_cpu_is_announced)
{
	enter(ksys_write, 0);
	pid = 1234;
	leaf(fdget_pos, 0, 100);
	cpu = 1;
	leaf(fdget_pos, 0, 100);
	cpu = 0;
	pid = 0;
	marker("idle\n");
	EXPECT_EQ(shown(), " 0)               |  ksys_write() {\n"
			   " ------------------------------------------\n"
			   " 0)      sh-7      =>  longwor-1234 \n"
			   " ------------------------------------------\n"
			   "\n"
			   " 0)   0.100 us    |  fdget_pos();\n"
			   " 1)   0.100 us    |  fdget_pos();\n"
			   " ------------------------------------------\n"
			   " 0)  longwor-1234  =>    <idle>-0   \n"
			   " ------------------------------------------\n"
			   "\n"
			   " 0)               |  /* idle */\n");
}

TEST_F(Graph, an_interrupt_stands_between_arrows)
{
	enter(ksys_write, 0);
	enter(handle_irq, 1);
	leaf(fdget_pos, 2, 100);
	leave(handle_irq, 1, 2000);
	leaf(handle_irq, 1, 300);
	EXPECT_EQ(shown(), " 0)               |  ksys_write() {\n"
			   " 0)   ==========> |\n"
			   " 0)               |    handle_irq() {\n"
			   " 0)   0.100 us    |      fdget_pos();\n"
			   " 0)   2.000 us    |    }\n"
			   " 0)   <========== |\n"
			   " 0)   ==========> |\n"
			   " 0)   0.300 us    |    handle_irq();\n"
			   " 0)   <========== |\n");
}

TEST_F(Graph, without_funcgraph_irqs_what_was_recorded_of_them_is_hidden)
{
	tr->options &= ~TRACE_ITER_GRAPH_IRQS;
	enter(ksys_write, 0);
	enter(handle_irq, 1);
	leaf(fdget_pos, 2, 100);
	leave(handle_irq, 1, 2000);
	leaf(fdget_pos, 1, 100);
	enter(handle_irq, 1); /* its return is lost */
	leave(ksys_write, 0, 3000);
	leaf(vfs_write, 0, 100);
	EXPECT_EQ(shown(), " 0)               |  ksys_write() {\n"
			   " 0)   0.100 us    |    fdget_pos();\n"
			   " 0)   0.100 us    |  vfs_write();\n");
}

TEST_F(Graph, comments_stand_inside_the_open_call)
{
	marker("before\n");
	enter(ksys_write, 0);
	marker("at depth 0\n");
	enter(vfs_write, 1);
	marker("no newline");
	leaf(fdget_pos, 2, 100);
	marker("two\nlines\n");
	leave(vfs_write, 1, 100);
	marker("\n");
	EXPECT_EQ(shown(), " 0)               |  /* before */\n"
			   " 0)               |  ksys_write() {\n"
			   " 0)               |  /* at depth 0 */\n"
			   " 0)               |    vfs_write() {\n"
			   " 0)               |      /* no newline */\n"
			   " 0)   0.100 us    |      fdget_pos();\n"
			   " 0)               |      /* two\nlines */\n"
			   " 0)   0.100 us    |    }\n"
			   " 0)               |  /*  */\n");
}

TEST_F(Graph, an_event_of_a_probe_is_a_comment)
{
	trace_entry probe = {1500, 0, 0, pid}, removed = {1501, 0, 0, pid};
	add(&probe, sizeof(probe));
	enter(ksys_write, 0);
	enter(vfs_write, 1);
	add(&probe, sizeof(probe));
	leave(vfs_write, 1, 100);
	EXPECT_EQ(shown(), " 0)               |  /* o: (vfs_write+0x0/0x90) */\n"
			   " 0)               |  ksys_write() {\n"
			   " 0)               |    vfs_write() {\n"
			   " 0)               |      /* o: (vfs_write+0x0/0x90) */\n"
			   " 0)   0.100 us    |    }\n");
	events.clear();
	add(&removed, sizeof(removed));
	EXPECT_EQ(shown(), " 0)               |  /* Unknown type 1501 */\n");
}

TEST_F(Graph, an_event_of_any_other_type_is_a_comment)
{
	trace_entry other = {1400, 0, 0, pid};
	enter(ksys_write, 0);
	add(&other, sizeof(other));
	leave(ksys_write, 0, 100);
	EXPECT_EQ(shown(), " 0)               |  ksys_write() {\n"
			   " 0)               |  /* the other's text */\n"
			   " 0)   0.100 us    |  }\n");
}

TEST_F(Graph, tail_and_overrun)
{
	tr->options |= TRACE_ITER_GRAPH_TAIL | TRACE_ITER_GRAPH_OVERRUN;
	enter(ksys_write, 0);
	leaf(fdget_pos, 1, 100);
	leave(ksys_write, 0, 100);
	EXPECT_EQ(shown(), " 0)               |  ksys_write() {\n"
			   " 0)   0.100 us    |    fdget_pos();\n"
			   " 0)   0.100 us    |  } /* ksys_write */\n"
			   " (Overruns: 3)\n");
}

TEST_F(Graph, values_returned)
{
	const struct {
		long value;
		const char *text, *hex;
	} cases[] = {
		{0, "0x0", "0x0"},
		{42, "0x2a", "0x2a"},
		{-5, "-5", "0xfffffffffffffffb"},
		{0xfffffffb, "-5", "0xfffffffb"}, /* an int */
		{-4095, "-4095", "0xfffffffffffff001"},
		{-4096, "0xfffffffffffff000", "0xfffffffffffff000"},
		{0x1fffffffb, "0x1fffffffb", "0x1fffffffb"},
	};
	tr->options |= TRACE_ITER_GRAPH_RETVAL;
	for (auto &c : cases)
		for (bool hex : {false, true}) {
			tr->options &= ~TRACE_ITER_GRAPH_RETVAL_HEX;
			tr->options |= hex ? TRACE_ITER_GRAPH_RETVAL_HEX : 0;
			std::string value = hex ? c.hex : c.text;
			retval = c.value;
			leaf(fdget_pos, 1, 100);
			leave(ksys_write, 0, 100);
			EXPECT_EQ(shown(), " 0)   0.100 us    |    fdget_pos(); /* = " + value +
						   " */\n"
						   " 0)   0.100 us    |  } /* ksys_write = " +
						   value + " */\n");
		}
}

TEST_F(Graph, return_addresses)
{
	tr->options |= TRACE_ITER_GRAPH_RETADDR;
	enter_from(ksys_write, 0, vfs_write + 0x10);
	enter_from(fdget_pos, 1, ksys_write + 0x6a);
	leave(fdget_pos, 1, 100);
	leave(ksys_write, 0, 200);
	EXPECT_EQ(shown(), " 0)               |  ksys_write() { /* <-vfs_write+0x10/0x3ba */\n"
			   " 0)   0.100 us    |    fdget_pos(); /* <-ksys_write+0x6a/0xe8 */\n"
			   " 0)   0.200 us    |  }\n");
	tr->options |= TRACE_ITER_GRAPH_RETVAL;
	retval = -2;
	enter_from(fdget_pos, 1, ksys_write + 0x6a);
	leave(fdget_pos, 1, 100);
	leave(ksys_write, 0, 200);
	EXPECT_EQ(shown(),
		  " 0)   0.100 us    |    fdget_pos(); /* <-ksys_write+0x6a/0xe8 ret=-2 */\n"
		  " 0)   0.200 us    |  } /* ksys_write ret=-2 */\n");
}

TEST_F(Graph, every_column)
{
	tr->options |= TRACE_ITER_GRAPH_ABSTIME | TRACE_ITER_GRAPH_PROC | TRACE_ITER_LATENCY_FMT;
	now = 3401528999;
	enter(handle_irq, 0);
	leave(handle_irq, 0, 1500);
	leave(ksys_write, 0, 1500);
	EXPECT_EQ(header() + shown(),
		  "# tracer: function_graph\n"
		  "#\n"
		  "#                                       _-----=> irqs-off/BH-disabled\n"
		  "#                                      / _----=> need-resched\n"
		  "#                                     | / _---=> hardirq/softirq\n"
		  "#                                     || / _--=> preempt-depth\n"
		  "#                                     ||| / _-=> migrate-disable\n"
		  "#                                     |||| /\n"
		  "#     TIME        CPU  TASK/PID       |||||     DURATION                  "
		  "FUNCTION CALLS\n"
		  "#      |          |     |    |        |||||      |   |                     |   "
		  "|   |   |\n"
		  "    3.401528 |   0)      sh-7      |  ..... |   ==========> |\n"
		  "    3.401528 |   0)      sh-7      |  ..... |   1.500 us    |  handle_irq();\n"
		  "    3.401528 |   0)      sh-7      |  ..... |   <========== |\n"
		  "    3.401531 |   0)      sh-7      |  d..2. |   1.500 us    |  } /* ksys_write "
		  "*/\n");
}

TEST_F(Graph, a_header_for_each_column_left_out)
{
	tr->options = TRACE_ITER_CONTEXT_INFO | TRACE_ITER_GRAPH_DURATION;
	EXPECT_EQ(header(), "# tracer: function_graph\n#\n"
			    "#  DURATION                  FUNCTION CALLS\n"
			    "#   |   |                     |   |   |   |\n");
	tr->options = TRACE_ITER_CONTEXT_INFO | TRACE_ITER_GRAPH_CPU;
	EXPECT_EQ(header(), "# tracer: function_graph\n#\n"
			    "# CPU               FUNCTION CALLS\n"
			    "# |                 |   |   |   |\n");
	tr->options = TRACE_ITER_CONTEXT_INFO;
	EXPECT_EQ(header(), "# tracer: function_graph\n#\n"
			    "#               FUNCTION CALLS\n"
			    "#               |   |   |   |\n");
}

TEST_F(Graph, lines_without_their_columns)
{
	auto show = [this] {
		enter(ksys_write, 0);
		leaf(handle_irq, 1, 100);
		leave(ksys_write, 0, 200);
		return shown();
	};
	tr->options &= ~TRACE_ITER_GRAPH_DURATION;
	EXPECT_EQ(show(), " 0) ksys_write() {\n 0) ==========>\n 0)   handle_irq();\n 0) "
			  "<==========\n 0) }\n");
	tr->options &= ~TRACE_ITER_GRAPH_CPU;
	EXPECT_EQ(show(), "ksys_write() {\n==========>\n  handle_irq();\n<==========\n}\n");
	tr->options = TRACE_ITER_DEFAULT & ~TRACE_ITER_CONTEXT_INFO;
	EXPECT_EQ(show(), "ksys_write() {\n==========>\n  handle_irq();\n<==========\n}\n");
	EXPECT_EQ(header(), "# tracer: function_graph\n#\n");
}

TEST_F(Graph, calls_deeper_than_the_reader_remembers_still_close)
{
	enter(vfs_write, TRACE_PRINT_DEPTH);
	marker("x");
	leave(vfs_write, TRACE_PRINT_DEPTH, 100);
	EXPECT_NE(shown().find("  }\n"), std::string::npos);
}

TEST_F(Graph, another_tracers_memory_is_not_used)
{
	static const tracer other{"function", nullptr, nullptr, nullptr, nullptr, 0};
	enter(ksys_write, 0);
	shown();
	tr->tracer = &other;
	marker("x\n");
	shown();
	tr->tracer = &function_graph;
	pid = 0;
	leave(ksys_write, 0, 100);
	EXPECT_EQ(shown(), " 0)   0.100 us    |  } /* ksys_write */\n");
}

} // namespace
