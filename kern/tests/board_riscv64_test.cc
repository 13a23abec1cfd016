// needs: kern/tests/board_host.c kern/mm/memory.c kern/base/fdt.c kern/base/string.c
// needs: kern/console/uart.c kern/base/cpus.c kern/sched/smp.c kern/arch/riscv64/irqchip.c
// needs: kern/arch/riscv64/aia.c kern/arch/riscv64/timer.c -DKERNEL_NAMES -DHOST_INSN
// needs: -Ikern/tests/host -Ikern/tests -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul
// needs: -D_start=image_start -D_end=image_end
/*
 * What the kernel decides on riscv64 boards by their own device trees: Linux's, or for the
 * VisionFive 2 and both HiFives that in their U-Boot, which is what `booti ... ${fdtcontroladdr}`
 * hands over. That harts are started by SBI's HSM, and the machine reset by its SRST, is no
 * decision by the tree.
 */
#include "board_tree_test.h"

/*
 * Four harts, 1 to 4, of which 2 booted and is therefore CPU 0. Hart 0 has one context of
 * the PLIC's, the others two each: machine mode's, then ours.
 */
static void expect_harts(const Decided &got)
{
	const int harts[] = {2, 1, 3, 4};

	ASSERT_EQ(4u, got.d.cpu_count);
	for (unsigned i = 0; i < 4; i++) {
		EXPECT_EQ(harts[i], (int)got.d.hwid[i]);
		EXPECT_EQ(2 * harts[i], got.d.context[i]);
	}
}

static void expect(const Decided &got, u64 hz, u64 uart, unsigned irq, int last_register,
		   const char *ram, const std::string &taken)
{
	EXPECT_EQ(hz, got.d.hz);
	EXPECT_EQ(uart, got.d.uart);
	EXPECT_EQ(irq, got.d.uart_irq);
	EXPECT_EQ(4, got.d.uart_bytes);
	EXPECT_EQ(last_register, got.d.uart_last);
	EXPECT_EQ(0xc000000u, got.d.plic);
	EXPECT_EQ(0, got.d.memory_error);
	EXPECT_STREQ(ram, got.ram);
	EXPECT_EQ(taken, got.taken);
	EXPECT_STREQ("", got.said);
	expect_harts(got);
}

/* OpenSBI reserves its own memory. */
#define OPENSBI(node) "-pc /reserved-memory/" node, "-tx /reserved-memory '#address-cells' 2", \
	"-tx /reserved-memory '#size-cells' 2", \
	"-tx /reserved-memory ranges 0 0 0 0 ffffffff ffffffff"
#define NO_MAP(node, address) \
	"-tx /reserved-memory/" node " reg 0 " address " 0 40000", \
	"-tx /reserved-memory/" node " no-map 1"

TEST(board, visionfive_2)
{
	for (const char *name :
	     {"jh7110-starfive-visionfive-2-v1.3b", "u-boot-starfive_visionfive2"}) {
		SCOPED_TRACE(name);
		TREE(tree, name, "-tx /memory@40000000 reg 0 40000000 1 0",
		     OPENSBI("mmode_resv0@40000000"), NO_MAP("mmode_resv0@40000000", "40000000"));
		expect(decided(tree, 2, 0x40200000, 0x46000000), 4000000, 0x10000000, 32, 4,
		       "40040000-140000000",
		       "40000000-40040000 40200000-40300000" + pages(tree, 0x46000000));
	}
}

TEST(board, milk_v_mars)
{
	TREE(tree, "jh7110-milkv-mars");
	expect(decided(tree, 2, 0x40200000, 0x46000000), 4000000, 0x10000000, 32, 4,
	       "40000000-140000000", "40200000-40300000" + pages(tree, 0x46000000));
}

TEST(board, hifive_unleashed_and_unmatched)
{
	struct Board {
		const char *tree, *ram;
		unsigned irq;
	};

	for (auto &[name, ram, irq] : {Board{"hifive-unmatched-a00", "80000000-480000000", 39},
				       {"u-boot-sifive_unmatched", "80000000-480000000", 39},
				       {"u-boot-sifive_unleashed", "80000000-280000000", 4}}) {
		SCOPED_TRACE(name);
		TREE(tree, name);
		expect(decided(tree, 2, 0x80200000, 0x8c000000), 1000000, 0x10010000, irq, 0x10,
		       ram, "80200000-80300000" + pages(tree, 0x8c000000));
	}
}

/* Its tree reserves memory outside of what it says is memory. */
TEST(board, beaglev_fire)
{
	TREE(tree, "mpfs-beaglev-fire");
	expect(decided(tree, 2, 0x80200000, 0x8c000000), 1000000, 0x20000000, 90, 4,
	       "80000000-c0000000",
	       "80200000-80300000" + pages(tree, 0x8c000000) + " 103fc00000-1040000000");
}

TEST(board, a_plic_has_no_more_sources_than_it_can_have)
{
	for (auto &[says, used] : {std::pair("88", 0x88u), {"10000", 1023u}}) {
		TREE(tree, "jh7110-starfive-visionfive-2-v1.3b",
		     std::string("-tx /soc/interrupt-controller@c000000 riscv,ndev ") + says);
		EXPECT_EQ(used, decided(tree, 2, 0x40200000, 0x46000000).d.sources);
	}
}

/*
 * Older trees of this board do not disable hart 0; newer ones may have only the newer of two
 * properties for its instructions.
 */
TEST(board, a_hart_without_an_mmu_is_not_used_though_it_is_not_disabled)
{
	TREE(tree, "jh7110-starfive-visionfive-2-v1.3b", "-ts /cpus/cpu@0 status okay");
	expect_harts(decided(tree, 2, 0x40200000, 0x46000000));
	TREE(newer, "jh7110-starfive-visionfive-2-v1.3b", "-ts /cpus/cpu@0 status okay",
	     "-d /cpus/cpu@0 riscv,isa");
	expect_harts(decided(newer, 2, 0x40200000, 0x46000000));
}
