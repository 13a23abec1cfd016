// needs: kern/tests/board_host.c kern/mm/memory.c kern/base/fdt.c kern/base/string.c
// needs: kern/console/uart.c kern/base/cpus.c kern/sched/smp.c kern/arch/arm64/irqchip.c
// needs: kern/arch/arm64/bcm2836.c kern/arch/arm64/timer.c kern/arch/arm64/firmware.c
// needs: kern/arch/arm64/firmware_call.c -DKERNEL_NAMES -DBOARD_ARM64 -DHOST_INSN -Ikern/tests/host
// needs: -Ikern/tests -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul -D_start=image_start
// needs: -D_end=image_end
/* What the kernel decides on arm64 boards that QEMU has no model of, by their own device trees. */
#include "board_tree_test.h"

struct Wanted {
	u64 uart;
	unsigned uart_irq;
	int last_register; /* that is written when input is turned on */
	u64 distributor;   /* of the GIC */
	std::vector<u64> hwids;
	std::string instruction;  /* by which the firmware is called: "" where it has no PSCI, */
	std::vector<u64> release; /* and each CPU waits at an address */
	const char *ram;
	std::string taken, said;
};

static void expect(const Decided &got, const Wanted &want)
{
	EXPECT_EQ(want.uart, got.d.uart);
	EXPECT_EQ(want.uart_irq, got.d.uart_irq);
	EXPECT_EQ(4, got.d.uart_bytes);
	EXPECT_EQ(want.last_register, got.d.uart_last);
	EXPECT_EQ(54000000u, got.d.hz) << "no clock-frequency in the tree: cntfrq_el0";
	EXPECT_EQ(27u, got.d.timer_irq) << "the virtual timer's";
	EXPECT_EQ(want.distributor, got.d.gic);
	EXPECT_EQ(want.distributor + 0x1000, got.d.gic_cpu);
	EXPECT_EQ(want.instruction, got.d.resets);
	EXPECT_EQ(4096u / 64, got.d.cleaned);
	EXPECT_TRUE(got.d.stops_others);
	EXPECT_EQ(0, got.d.memory_error);
	EXPECT_STREQ(want.ram, got.ram);
	EXPECT_EQ(want.taken, got.taken);
	EXPECT_EQ(want.said + "The machine cannot be turned off: it is halted.\n", got.said)
		<< "the instruction has no effect here";
	ASSERT_EQ(want.hwids.size(), got.d.cpu_count);
	for (unsigned i = 0; i < want.hwids.size(); i++) {
		EXPECT_EQ(want.hwids[i], got.d.hwid[i]);
		EXPECT_EQ(!i		    ? ""
			  : want.release[i] ? "civac"
					    : want.instruction,
			  got.d.starts[i])
			<< "CPU " << i;
		EXPECT_EQ(want.release[i], got.d.release[i]) << "CPU " << i;
	}
}

/*
 * The firmware writes the memory: 4 GiB, without the graphics processor's part and the devices. The
 * console is the mini UART, serial1, through the bus's ranges; the first page has the spin tables.
 */
TEST(board, raspberry_pi_4)
{
	TREE(tree, "bcm2711-rpi-4-b", "-tx /memory@0 reg 0 0 3b400000 0 40000000 bc000000");
	expect(decided(tree, 0, 0x200000, 0x2600000),
	       {0xfe215040,
		125,
		4,
		0xff841000,
		{0, 1, 2, 3},
		"",
		{0, 0xe0, 0xe8, 0xf0},
		"0-3b400000 40000000-fc000000",
		"0-1000 200000-300000" + pages(tree, 0x2600000),
		"The firmware has no PSCI: the machine cannot be turned off.\n"});
}

/*
 * The console is the PL011 of the three-pin connector, serial10; the firmware's part of the memory
 * is not even mapped.
 */
TEST(board, raspberry_pi_5)
{
	TREE(tree, "bcm2712-rpi-5-b", "-tx /memory@0 reg 0 0 0 3fc00000 0 40000000 0 c0000000");
	expect(decided(tree, 0, 0x200000, 0x2600000),
	       {0x107d001000,
		153,
		0x38,
		0x107fff9000,
		{0, 0x100, 0x200, 0x300},
		"smc",
		{0, 0, 0, 0},
		"80000-3fc00000 40000000-100000000",
		"0-80000 200000-300000" + pages(tree, 0x2600000),
		""});
}

/* U-Boot adds the memory node, also to its own tree. The console is DesignWare's 16550. */
TEST(board, pine64)
{
	for (const char *name : {"sun50i-a64-pine64", "u-boot-pine64_plus"}) {
		SCOPED_TRACE(name);
		TREE(tree, name, "-c /memory", "-ts /memory device_type memory",
		     "-tx /memory reg 40000000 40000000");
		expect(decided(tree, 0, 0x40200000, 0x4fa00000),
		       {0x1c28000,
			32,
			4,
			0x1c81000,
			{0, 1, 2, 3},
			"smc",
			{0, 0, 0, 0},
			"40000000-80000000",
			"40200000-40300000" + pages(tree, 0x4fa00000),
			""});
	}
}

TEST(board, without_u_boots_memory_node_the_kernel_says_so)
{
	TREE(tree, "sun50i-a64-pine64");
	Decided got = decided(tree, 0, 0x40200000, 0x4fa00000);

	EXPECT_GT(0, got.d.memory_error);
	EXPECT_NE(nullptr,
		  strstr(got.said, "has no memory node that holds the kernel at 0x40200000"));
}
