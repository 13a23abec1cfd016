// needs: kern/console.c kern/print.c kern/string.c -DKERNEL_NAMES -Ikern/tests/host -Ikern/tests
/* Input that was lost, in the UART or in the console's ring, is counted, and the reader prints the count. */
#include <deque>
#include <gtest/gtest.h>
#include <string>

#include "host.h"
extern "C" {
#include "print.h"
#include "thread.h"
#include "uart.h"
const void *boot_fdt;
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
}

/* The UART has received these bytes, and interrupts. */
static void receives(std::deque<int> bytes)
{
	line = bytes;
	console_init();
	console_input();
	shown = "";
}

/* The reader does not wait: it has been interrupted. */
static std::string read_all()
{
	std::string text;
	int c;

	reader.interrupted = true;
	while ((c = console_getchar()) >= 0)
		text += (char)c;
	return text;
}

TEST(console, the_reader_says_how_often_the_uart_overran)
{
	receives({'a', UART_OVERRUN | 'b', 'c', UART_OVERRUN | 'd'});
	EXPECT_EQ("abcd", read_all());
	EXPECT_EQ("\nThe UART overran 2 times: it lost bytes of input before they were read.\n", shown);
	receives({'e'});
	EXPECT_EQ("e", read_all());
	EXPECT_EQ("", shown) << "each overrun is counted once";
}

TEST(console, it_says_so_only_when_there_is_nothing_left_to_read)
{
	receives({UART_OVERRUN | 'a', 'b'});
	EXPECT_EQ('a', console_getchar());
	EXPECT_EQ('b', console_getchar());
	EXPECT_EQ("", shown) << "not into the middle of a line that is typed";
	EXPECT_EQ("", read_all());
	EXPECT_NE("", shown);
}

TEST(console, ctrl_c_after_an_overrun_interrupts)
{
	console_set_foreground(&foreground, nullptr);
	interrupts = 0;
	receives({'a', UART_OVERRUN | ctrl_c});
	console_set_foreground(nullptr, nullptr);
	EXPECT_EQ(1, interrupts);
	EXPECT_EQ("", read_all()) << "what was typed before it is discarded";
	EXPECT_EQ("\nThe UART overran 1 times: it lost bytes of input before they were read.\n", shown);
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
	console_set_foreground(&foreground, nullptr);
	interrupts = 0;
	receives({'a', ctrl_c});
	console_set_foreground(nullptr, nullptr);
	console_keep(nullptr, 0);
	EXPECT_EQ(0, interrupts);
	EXPECT_EQ("a\003", read_all());
}

TEST(console, bytes_that_do_not_fit_into_the_ring_are_counted)
{
	receives(std::deque<int>(ring_size + 5, 'x'));
	while (!line.empty())
		console_tick();
	EXPECT_EQ(std::string(ring_size, 'x'), read_all());
	EXPECT_EQ("\n5 bytes of input were lost: they came faster than they were read.\n", shown);
}
