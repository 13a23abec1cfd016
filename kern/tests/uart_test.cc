// needs: kern/console/uart.c kern/base/fdt.c kern/base/string.c -DKERNEL_NAMES -Ikern/tests/host
// needs: -Ikern/tests
/* Which UART the device tree leads to, and what the drivers do with its registers. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "said.h"
#include "tree.h"
#include "host.h"
extern "C" {
#include "errno.h"
#include "types.h"
int fdt_reg(const void *fdt, int node, int index, u64 *addr, u64 *size);
void uart_init(const void *fdt);
bool uart_present(void);
void uart_write(const char *s, size_t n);
int uart_receive(void);
int uart_enable_input(const void *fdt);
}

/*
 * One device: what a read of an offset gives, once each and then the last for ever; what was
 * written.
 */
static u64 mapped;
static std::map<unsigned long, std::deque<u32>> reads;
static std::map<unsigned long, int> asked; /* how often each was read */
static std::vector<std::pair<unsigned long, u32>> writes;
static int width;
static bool firmware_console;
static std::string firmware_said;
static char window[4096];
static void (*interrupt)(void);

static u32 answer(const volatile void *addr, int bytes)
{
	auto &left = reads[(const char *)addr - window];
	asked[(const char *)addr - window]++;
	u32 value = left.empty() ? 0 : left.front();
	if (left.size() > 1)
		left.pop_front();
	width = bytes;
	return value;
}

extern "C" {
u8 host_read8(const volatile void *addr) { return answer(addr, 1); }
u32 host_read32(const volatile void *addr) { return answer(addr, 4); }
void host_write(u32 value, volatile void *addr, int bytes)
{
	width = bytes;
	writes.emplace_back((char *)addr - window, value);
}
void *fdt_iomap(const void *fdt, int node, int index)
{
	u64 size;
	return fdt_reg(fdt, node, index, &mapped, &size) ? nullptr : window;
}
bool firmware_has_console(void) { return firmware_console; }
void firmware_putchar(u8 c) { firmware_said += c; }
int firmware_getchar(void) { return -1; }
void printk_to(void (*)(const char *, size_t)) {}
void console_input(void) {}
int irqchip_map(const void *, int, unsigned *irq) { *irq = 7; return 0; }
int request_irq(unsigned, void (*handler)(void)) { interrupt = handler; return 0; }
}

static Blob tree(const std::string &body)
{
	return compile("/dts-v1/;\n/ { #address-cells = <1>; #size-cells = <1>;\n" + body + "};\n");
}

static void begin(const std::string &body, bool has_firmware_console = false)
{
	mapped = 0;
	reads.clear();
	writes.clear();
	said = firmware_said = "";
	firmware_console = has_firmware_console;
	uart_init(tree(body).data());
}

static void begin_one(const std::string &compatible, const std::string &more = "")
{
	begin("serial@1000 { compatible = " + compatible + "; reg = <0x1000 0x100>; " + more +
	      " };");
	EXPECT_EQ(0x1000u, mapped) << compatible;
	EXPECT_EQ("", said);
}

using Writes = std::vector<std::pair<unsigned long, u32>>;

static const char two[] =
	"aliases { serial0 = \"/soc/serial@3000\"; serial1 = \"/soc/serial@2000\"; };"
	"soc { #address-cells = <1>; #size-cells = <1>; ranges = <0x7e000000 0x3f000000 0x10000>;"
	"serial@7e001000 { compatible = \"arm,pl011\"; reg = <0x7e001000 0x100>; };"
	"serial@2000 { compatible = \"brcm,bcm2835-aux-uart\"; reg = <0x7e002000 0x40>; };"
	"serial@3000 { compatible = \"sifive,uart0\"; reg = <0x7e003000 0x40>; };"
	"serial@4000 { compatible = \"nobody,knows\"; reg = <0x7e004000 0x40>; }; };";

TEST(uart, stdout_path_is_a_path_or_an_alias_with_or_without_a_baud_rate)
{
	for (const char *path :
	     {"serial1", "serial1:115200n8", "/soc/serial@2000", "/soc/serial@2000:1500000"}) {
		begin("chosen { stdout-path = \"" + std::string(path) + "\"; };" + two);
		EXPECT_EQ(0x3f002000u, mapped) << path << ", through the bus's ranges";
		EXPECT_EQ("", said);
	}
}

TEST(uart, without_stdout_path_it_is_serial0)
{
	begin(two);
	EXPECT_EQ(0x3f003000u, mapped);
	EXPECT_EQ("", said);
}

TEST(uart, an_unknown_console_is_named_and_another_used)
{
	begin(std::string("chosen { stdout-path = \"/soc/serial@4000:9600\"; };") + two);
	EXPECT_EQ(0x3f001000u, mapped);
	EXPECT_EQ("Callsite has no driver for the device tree's console (/soc/serial@4000:9600): "
		  "another one is used.\n",
		  said);
}

TEST(uart, a_disabled_uart_is_not_taken_by_chance)
{
	begin("a@1 { compatible = \"arm,pl011\"; reg = <1 1>; status = \"disabled\"; };"
	      "b@2000 { compatible = \"ns16550\"; reg = <0x2000 0x100>; };");
	EXPECT_EQ(0x2000u, mapped);
}

TEST(uart, without_a_known_uart_the_firmwares_console_is_used)
{
	begin("chosen { stdout-path = \"/s@1\"; }; s@1 { compatible = \"nobody,knows\"; reg = <1 "
	      "1>; };",
	      true);
	EXPECT_EQ(0u, mapped);
	EXPECT_EQ("Callsite has no driver for the device tree's console (/s@1): the firmware's "
		  "console is used.\n",
		  said);
	uart_write("a\n", 2);
	EXPECT_EQ("a\r\n", firmware_said);
	EXPECT_EQ(-ENODEV, uart_enable_input(nullptr)) << "it does not interrupt";
	EXPECT_EQ(-1, uart_receive());
}

TEST(uart, without_a_device_tree_the_firmwares_console_is_used)
{
	begin("", true);
	uart_init(nullptr);
	uart_write("a", 1);
	EXPECT_EQ("a", firmware_said);
}

TEST(uart, ns16550a_has_bytes_or_what_the_tree_says)
{
	for (int shift : {0, 2}) {
		int wide = shift == 2 ? 4 : 1;
		begin_one("\"snps,dw-apb-uart\", \"x\"", "reg-shift = <" + std::to_string(shift) +
								 ">; reg-io-width = <" +
								 std::to_string(wide) + ">;");
		reads[5 << shift] = {0x20};
		uart_write("x", 1);
		EXPECT_EQ((Writes{{0, 'x'}}), writes);
		EXPECT_EQ(wide, width);
	}
	begin_one("\"ns16550a\"");
	reads[5] = {0, 0, 0x20};
	uart_write("y", 1);
	EXPECT_EQ((Writes{{0, 'y'}}), writes);
	EXPECT_EQ(1u, reads[5].size()) << "it waited until the transmitter was empty";
}

TEST(uart, a_16550_whose_registers_cannot_be_so_is_not_used)
{
	for (const char *layout : {"reg-shift = <40>;", "reg-shift = <10>;", "reg-io-width = <4>;",
				   "reg-io-width = <2>; reg-shift = <1>;"}) {
		begin("serial@1000 { compatible = \"ns16550a\"; reg = <0x1000 0x100>; " +
			      std::string(layout) + " };",
		      true);
		EXPECT_EQ(0u, mapped) << layout;
		EXPECT_EQ("Callsite has no driver for the device tree's console (none is named): "
			  "the firmware's console is used.\n",
			  said);
	}
}

TEST(uart, ns16550a_says_when_it_overran)
{
	begin_one("\"ns16550a\"");
	reads[5] = {0x63, 0x61, 0x60};
	reads[0] = {'a', 'b'};
	EXPECT_EQ(0x100 | 'a', uart_receive());
	EXPECT_EQ('b', uart_receive());
	EXPECT_EQ(-1, uart_receive());
}

TEST(uart, ns16550a_says_that_it_overran_while_it_was_sending)
{
	begin_one("\"ns16550a\"");
	reads[5] = {0x02, 0x20, 0x61, 0x61};
	reads[0] = {'a', 'b'};
	uart_write("x", 1);
	EXPECT_EQ(0x100 | 'a', uart_receive()) << "the sender's read of LSR cleared the bit";
	EXPECT_EQ('b', uart_receive()) << "said once";
}

/* console_input() reads nothing here. */
TEST(uart, a_designware_uarts_interrupt_always_ends)
{
	enum { DATA = 0, IIR = 2 << 2, LSR = 5 << 2, USR = 31 << 2 };
	static const struct { u32 iir, lsr; int data, usr; const char *what;
	} cases[] = {{0xcc, 0x60, 1, 0, "a time-out without a byte"},
		     {0xcc, 0x61, 0, 0, "a time-out with a byte"},
		     {0xc7, 0x60, 0, 1, "busy"},
		     {0xc4, 0x61, 0, 0, "a byte"}};

	begin_one("\"snps,dw-apb-uart\"", "reg-shift = <2>; reg-io-width = <4>;");
	EXPECT_EQ(0, uart_enable_input(nullptr));
	for (auto &c : cases) {
		asked.clear();
		reads[IIR] = {c.iir};
		reads[LSR] = {c.lsr};
		interrupt();
		EXPECT_EQ(c.data, asked[DATA]) << c.what;
		EXPECT_EQ(c.usr, asked[USR]) << c.what;
	}
}

TEST(uart, the_mini_uart_needs_no_reg_shift_and_takes_one_byte_at_a_time)
{
	begin_one("\"brcm,bcm2835-aux-uart\"");
	reads[8] = {0xc1}; /* its IIR always says that there are FIFOs */
	reads[20] = {0};
	EXPECT_EQ(0, uart_enable_input(nullptr));
	EXPECT_NE(writes.end(), std::find(writes.begin(), writes.end(), std::make_pair(4ul, 5u)))
		<< "the interrupt of received data needs bits 0 and 2";
	reads[20] = {0x20, 0, 0x20};
	writes.clear();
	uart_write("ab", 2);
	EXPECT_EQ((Writes{{0, 'a'}, {0, 'b'}}), writes);
	EXPECT_EQ(1u, reads[20].size()) << "asked before each byte";
	EXPECT_EQ(4, width);
}

TEST(uart, pl011_says_when_it_overran)
{
	for (const char *name : {"\"arm,pl011\", \"arm,primecell\"", "\"arm,sbsa-uart\""}) {
		begin_one(name, "reg-shift = <1>; reg-io-width = <1>;");
		reads[0x18] = {0, 0, 0x10};
		reads[0] = {'a', 0x800 | 'b'};
		EXPECT_EQ('a', uart_receive());
		EXPECT_EQ(0x100 | 'b', uart_receive());
		EXPECT_EQ(-1, uart_receive());
		EXPECT_EQ(4, width);
	}
}

TEST(uart, pl011s_line_changes_only_while_it_is_off)
{
	begin_one("\"arm,pl011\", \"arm,primecell\"");
	reads[0x30] = {0x300};
	reads[0x18] = {0x10, 0x18, 0x10};
	reads[0x2c] = {0, 0x70};
	EXPECT_EQ(0, uart_enable_input(nullptr));
	EXPECT_EQ((Writes{{0x30, 0}, {0x2c, 0x70}, {0x30, 0x301}, {0x38, 0x50}}), writes);
	EXPECT_EQ(1u, reads[0x18].size()) << "it waited while a byte was being sent";
	begin_one("\"arm,pl011\", \"arm,primecell\"");
	reads[0x30] = {0x301};
	reads[0x18] = {0x10};
	reads[0x2c] = {0x70};
	EXPECT_EQ(0, uart_enable_input(nullptr));
	EXPECT_EQ((Writes{{0x30, 0x301}, {0x38, 0x50}}), writes) << "the firmware's settings stay";
}

TEST(uart, sbsas_uart_has_no_control_registers)
{
	begin_one("\"arm,sbsa-uart\"");
	EXPECT_EQ(0, uart_enable_input(nullptr));
	EXPECT_EQ((Writes{{0x38, 0x50}}), writes);
}

TEST(uart, sifives_registers)
{
	begin_one("\"sifive,fu540-c000-uart\", \"sifive,uart0\"");
	reads[0] = {0x80000000, 0x80000000, 0};
	uart_write("x", 1);
	EXPECT_EQ((Writes{{0, 'x'}}), writes);
	EXPECT_EQ(1u, reads[0].size()) << "it waited while the transmitter was full";
	reads[4] = {'a', 0x80000000};
	EXPECT_EQ('a', uart_receive());
	EXPECT_EQ(-1, uart_receive());
	reads[8] = {0x10000};
	writes.clear();
	EXPECT_EQ(0, uart_enable_input(nullptr));
	EXPECT_EQ((Writes{{8, 0x10001}, {12, 1}, {16, 2}}), writes);
}
