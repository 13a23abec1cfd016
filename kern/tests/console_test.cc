// needs: kern/console/console.c kern/base/print.c kern/base/printk.c kern/base/string.c
// needs: -DKERNEL_NAMES -Ikern/tests/host -Ikern/tests
/*
 * Input that was lost, in the UART or in the console's ring, is counted, and the reader prints the
 * count.
 */
#include <algorithm>
#include <deque>
#include <gtest/gtest.h>
#include <string>

#include "host.h"
extern "C" {
#include "console.h"
#include "irq.h"
#include "print.h"
#include "thread.h"
#include "uart.h"
const void *boot_fdt;
extern const struct tick_hook console_tick_hook;
}

static const int ring_size = 8192, ctrl_c = 3;
static std::deque<int> line; /* what the UART gives, as uart_receive() */
static std::string shown;
static struct thread reader, foreground;
static int interrupts;

extern "C" {
bool uart_present(void) { return true; }
void uart_write(const char *s, size_t n) { shown.append(s, n); }
int uart_enable_input(const void *) { return 0; }
int uart_receive(void)
{
	if (line.empty())
		return -1;
	int c = line.front();
	line.pop_front();
	return c;
}
struct thread *get_current(void) { return &reader; }
void thread_interrupt(struct thread *t) { interrupts += t == &foreground; }
void wake_up(struct wait_queue *) {}
void prepare_to_wait(struct wait_queue *) {}
void finish_wait(struct wait_queue *) {}
void schedule(void) {}
void sleep_ns(u64) {}
const char *ksym_lookup(unsigned long, unsigned long *, unsigned long *) { return nullptr; }
const char *ksym_module(unsigned long) { return nullptr; }
static void panics(const char *, va_list) { abort(); }
PANIC_HOOK(panics);
}

/* The UART has received these bytes, and interrupts. */
static void receives(std::deque<int> bytes)
{
	line = bytes;
	printk_to(uart_write);
	console_init();
	console_input();
	shown = "";
}

/*
 * The reader does not wait: it has been interrupted. '!' stands before a byte that says that bytes
 * were lost.
 */
static std::string read_marked()
{
	std::string text;
	int c;

	reader.interrupted = true;
	while ((c = console_getchar()) >= 0)
		text += std::string(c & INPUT_LOST, '!').substr(0, 1) + (char)c;
	return text;
}

static std::string read_all()
{
	std::string text = read_marked();
	text.erase(std::remove(text.begin(), text.end(), '!'), text.end());
	return text;
}

static std::string reported()
{
	shown = "";
	console_report_loss();
	return shown;
}

static std::string lost(int n)
{
	return "\n" + std::to_string(n) +
	       " bytes of input were lost: they came faster than they were read.\n";
}

/* The UART receives all of it, in several interrupts if need be. */
static void types(const std::string &text)
{
	receives(std::deque<int>(text.begin(), text.end()));
	while (!line.empty())
		console_tick_hook.fn();
}

TEST(console, the_reader_says_how_often_the_uart_overran)
{
	receives({'a', UART_OVERRUN | 'b', 'c', UART_OVERRUN | 'd'});
	EXPECT_EQ("abcd", read_all());
	EXPECT_EQ("\nThe UART overran 2 times: it lost bytes of input before they were read.\n",
		  shown);
	receives({'e'});
	EXPECT_EQ("e", read_all());
	EXPECT_EQ("", shown) << "each overrun is counted once";
}

TEST(console, it_says_so_only_when_there_is_nothing_left_to_read)
{
	receives({UART_OVERRUN | 'a', 'b'});
	EXPECT_EQ(INPUT_LOST | 'a', console_getchar());
	EXPECT_EQ(INPUT_LOST | 'b', console_getchar());
	EXPECT_EQ("", shown) << "not into the middle of a line that is typed";
	EXPECT_EQ("", read_all());
	EXPECT_NE("", shown);
}

TEST(console, ctrl_c_after_an_overrun_interrupts)
{
	console_set_foreground(&foreground);
	interrupts = 0;
	receives({'a', UART_OVERRUN | ctrl_c});
	console_set_foreground(nullptr);
	EXPECT_EQ(1, interrupts);
	EXPECT_EQ("", read_all()) << "what was typed before it is discarded";
	EXPECT_EQ("\nThe UART overran 1 times: it lost bytes of input before they were read.\n",
		  shown);
}

TEST(console, output_is_kept_while_it_is_asked_for)
{
	char kept[8];

	shown = "";
	console_keep(kept, sizeof(kept));
	console_write("ab\n", 3);
	printk("cdefgh\n");
	EXPECT_EQ(10u, console_keep(nullptr, 0)) << "what did not fit is counted, too";
	EXPECT_EQ("ab\ncdefg", std::string(kept, sizeof(kept)));
	printk("more");
	EXPECT_EQ("ab\ncdefgh\nmore", shown) << "and it is printed";
	EXPECT_EQ("ab\ncdefg", std::string(kept, sizeof(kept)));
}

TEST(console, ctrl_c_is_a_byte_like_others_while_output_is_kept)
{
	char kept[8];

	console_keep(kept, sizeof(kept));
	console_set_foreground(&foreground);
	interrupts = 0;
	receives({'a', ctrl_c});
	console_set_foreground(nullptr);
	console_keep(nullptr, 0);
	EXPECT_EQ(0, interrupts);
	EXPECT_EQ("a\003", read_all());
}

TEST(console, bytes_that_do_not_fit_into_the_ring_are_counted)
{
	types(std::string(ring_size + 5, 'x'));
	EXPECT_EQ(std::string(ring_size - 1, 'x'), read_marked());
	EXPECT_EQ(lost(6), reported());
	EXPECT_EQ("", reported()) << "once";
	types("y\n");
	EXPECT_EQ("!\n", read_marked()) << "the line goes on to its end";
	EXPECT_EQ(lost(1), reported());
}

TEST(console, a_line_that_does_not_fit_keeps_its_end)
{
	for (const char *end : {"\n", "\r", "\003"}) {
		types(std::string(22000, 'x') + end);
		EXPECT_EQ(std::string(ring_size - 1, 'x') + "!" + end, read_marked());
		EXPECT_EQ(lost(22000 - ring_size + 1), reported());
		types("ok\n");
		EXPECT_EQ("ok\n", read_marked());
		EXPECT_EQ("", reported());
	}
}

TEST(console, a_line_that_just_fits_is_whole)
{
	types(std::string(ring_size - 1, 'x') + "\n");
	EXPECT_EQ(std::string(ring_size - 1, 'x') + "\n", read_marked());
	types(std::string(ring_size, 'x') + "\n");
	EXPECT_EQ(std::string(ring_size - 1, 'x') + "!\n", read_marked());
	EXPECT_EQ(lost(1), reported());
}

/* None of these becomes a part of another line. */
TEST(console, lines_for_which_there_is_no_room_become_one_that_is_marked)
{
	const std::string full = std::string(ring_size - 1, 'x') + "\n";

	types(full + "a\nb\nc");
	EXPECT_EQ(full + "!\n", read_marked());
	types("d\ne\n");
	EXPECT_EQ("!\ne\n", read_marked()) << "the rest of c's line is not a line";
	EXPECT_EQ(lost(6), reported());
	types(full + "a\n");
	for (int i = 0; i < 4; i++)
		EXPECT_EQ('x', console_getchar());
	types("b\n");
	EXPECT_EQ(full.substr(4) + "!\nb\n", read_marked());
	EXPECT_EQ(lost(2), reported());
}

TEST(console, ctrl_c_discards_a_line_that_does_not_fit)
{
	console_set_foreground(&foreground);
	types(std::string(22000, 'x') + "\nlost\nlost\003ok\n");
	console_set_foreground(nullptr);
	EXPECT_EQ("ok\n", read_marked());
	EXPECT_NE("", reported());
}

/*
 * What an overrun loses comes after the bytes that the UART holds: any of these lines may be the
 * damaged one.
 */
TEST(console, an_overrun_marks_each_line_that_it_may_have_damaged)
{
	receives({UART_OVERRUN | 'a', '\n', 'b'});
	EXPECT_EQ("!a!\n!b", read_marked());
	types("c\nd\n");
	EXPECT_EQ("!c\nd\n", read_marked());
}
