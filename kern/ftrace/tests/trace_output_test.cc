// needs: kern/ftrace/trace/trace_output.c kern/base/print.c -Ikern/ftrace/tests/host
/*
 * Event lines and headers, compared with golden text byte for byte.
 */
#include "fake_output.h"

namespace
{

const tracer function{"function", nullptr, nullptr, nullptr, nullptr, 0};
const trace_clock counter{"counter", nullptr, false};

struct Lines : Output {
	void SetUp() override
	{
		Output::SetUp();
		tr->tracer = &function;
		tr->options =
			TRACE_ITER_PRINT_PARENT | TRACE_ITER_CONTEXT_INFO | TRACE_ITER_IRQ_INFO;
	}
	std::string line(const void *data, uint64_t ts, unsigned cpu = 1, uint64_t lost = 0)
	{
		rb_event ev{ts, lost, data, 24};
		text.clear();
		EXPECT_EQ(trace_print_event(&s, &printer, cpu, &ev, nullptr), 1);
		return text;
	}
	static function_entry call(uint8_t flags = 0, uint8_t preempt = 0, int pid = 1)
	{
		function_entry e{{TRACE_FN, flags, preempt, pid}, {}, {}};
		put_address(e.ip, 0xffffffff80001000);
		put_address(e.parent_ip, 0xffffffff8000206a);
		return e;
	}
};

TEST_F(Lines, a_function_line)
{
	function_entry e = call();
	EXPECT_EQ(line(&e, 3401528000),
		  "           <...>-1       [001] .....     3.401528: vfs_write <-ksys_write\n");
	e = call(0, 0, 0);
	EXPECT_EQ(line(&e, 0),
		  "          <idle>-0       [001] .....     0.000000: vfs_write <-ksys_write\n");
}

TEST_F(Lines, a_function_of_a_module_has_its_name)
{
	function_entry e = call();
	fake_module_start = 0xffffffff80002000;
	tr->options = TRACE_ITER_PRINT_PARENT;
	EXPECT_EQ(line(&e, 0), "vfs_write <-ksys_write [hello]\n");
	tr->options |= TRACE_ITER_SYM_OFFSET;
	EXPECT_EQ(line(&e, 0), "vfs_write+0x0/0x3ba <-ksys_write+0x6a/0xe8 [hello]\n");
	fake_module_start = ~0ul;
}

TEST_F(Lines, times_are_rounded_to_microseconds)
{
	function_entry e = call();
	EXPECT_NE(line(&e, 1999499).find("     0.001999: "), std::string::npos);
	EXPECT_NE(line(&e, 1999500).find("     0.002000: "), std::string::npos);
	EXPECT_NE(line(&e, 123456789999999500).find(" 123456790.000000: "), std::string::npos);
	tr->clock = &counter;
	EXPECT_NE(line(&e, 77).find(".....           77: "), std::string::npos);
}

TEST_F(Lines, a_thread_keeps_its_name_after_its_death)
{
	static thread t{};
	t.pid = 42;
	strcpy(t.comm, "sort");
	comm_hook_hook.fn(THREAD_BORN, nullptr, &t);
	function_entry e = call(0, 0, 42);
	EXPECT_EQ(line(&e, 0).substr(0, 25), "            sort-42      ");
	strcpy(t.comm, "renamed");
	comm_hook_hook.fn(THREAD_DIES, &t, nullptr);
	EXPECT_EQ(line(&e, 0).substr(0, 25), "         renamed-42      ");
}

TEST_F(Lines, the_five_flags)
{
	const struct {
		uint8_t flags, preempt;
		const char *text;
	} cases[] = {
		{0x01, 0, "d...."}, {0x24, 0, ".N..."}, {0x08, 0, "..h.."}, {0, 1, "...1."},
		{0, 15, "...f."},   {0, 0x21, "...12"}, {0x2d, 2, "dNh2."},
	};
	for (auto &c : cases) {
		function_entry e = call(c.flags, c.preempt);
		EXPECT_EQ(line(&e, 0).substr(31, 5), c.text);
	}
}

TEST_F(Lines, options_change_the_line)
{
	function_entry e = call();
	tr->options &= ~TRACE_ITER_IRQ_INFO;
	EXPECT_EQ(line(&e, 0),
		  "           <...>-1       [001]      0.000000: vfs_write <-ksys_write\n");
	tr->options &= ~TRACE_ITER_CONTEXT_INFO;
	EXPECT_EQ(line(&e, 0), "vfs_write <-ksys_write\n");
	tr->options |= TRACE_ITER_SYM_OFFSET;
	EXPECT_EQ(line(&e, 0), "vfs_write+0x0/0x3ba <-ksys_write+0x6a/0xe8\n");
	tr->options = TRACE_ITER_SYM_ADDR;
	EXPECT_EQ(line(&e, 0), "vfs_write <ffffffff80001000>\n");
}

TEST_F(Lines, lost_events_have_a_line_before_the_next)
{
	function_entry e = call();
	tr->options = 0;
	EXPECT_EQ(line(&e, 0, 3, 197817), "CPU:3 [LOST 197817 EVENTS]\nvfs_write\n");
}

TEST_F(Lines, a_marker_line)
{
	alignas(4) char raw[64] = {};
	print_entry *e = (print_entry *)raw;
	e->ent = {TRACE_PRINT, 0, 0, 1};
	put_address(e->ip, 0xffffffff80003000);
	strcpy(e->buf, "hello\n");
	tr->options = TRACE_ITER_SYM_OFFSET;
	EXPECT_EQ(line(e, 0), "tracing_mark_write+0x0/0x40: hello\n");
	tr->options = TRACE_ITER_SYM_ADDR;
	EXPECT_EQ(line(e, 0), "tracing_mark_write <ffffffff80003000>: hello\n");
	tr->options = 0;
	EXPECT_EQ(line(e, 0), "tracing_mark_write: hello\n");
}

TEST_F(Lines, a_type_that_is_not_in_the_table_is_printed_by_its_hook)
{
	trace_entry e{99, 0, 0, 1}, probe{1500, 0, 0, 1}, second{1502, 0, 0, 1};
	tr->options = 0;
	EXPECT_EQ(line(&probe, 0), "o: (vfs_write+0x0/0x90)\n");
	EXPECT_EQ(line(&second, 0), "the second room's text\n");
	EXPECT_EQ(line(&e, 0), "Unknown type 99\n");
}

TEST_F(Lines, the_header)
{
	tr->cpu[0].accepted = 10;
	tr->cpu[0].overrun = 4;
	tr->cpu[1].accepted = 5;
	tr->cpu[1].read = 2;
	trace_print_header(&s, tr);
	EXPECT_EQ(text, "# tracer: function\n"
			"#\n"
			"# entries-in-buffer/entries-written: 9/13   #P:2\n"
			"#\n"
			"#                                _-----=> irqs-off/BH-disabled\n"
			"#                               / _----=> need-resched\n"
			"#                              | / _---=> hardirq/softirq\n"
			"#                              || / _--=> preempt-depth\n"
			"#                              ||| / _-=> migrate-disable\n"
			"#                              |||| /     delay\n"
			"#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n"
			"#              | |         |   |||||     |         |\n");
}

TEST_F(Lines, without_context_info_the_header_names_the_tracer_alone)
{
	tr->options = 0;
	trace_print_header(&s, tr);
	EXPECT_EQ(text, "# tracer: function\n#\n");
}

} // namespace
