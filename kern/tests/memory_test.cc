// needs: kern/memory.c kern/fdt.c kern/string.c -DKERNEL_NAMES -Ikern/ftrace/tests/host -Ikern/tests -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul -D_start=image_start -D_end=image_end -fno-pie -no-pie
/* Which memory is the kernel's to use, by the device tree. */
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "said.h"
#include "tree.h"
#include "host.h"
extern "C" {
#include "errno.h"
#include "types.h"
struct range {
	unsigned long start, end;
};
struct range_list {
	unsigned count;
	struct range range[64];
};
extern struct range_list ram, taken;
extern struct range initrd, module_ram;
int memory_init(const void *fdt);
unsigned long kernel_pa = 0x80200000, boot_fdt_pa = 0x88000100;
}

/* An image of 1 MiB. */
asm(".globl image_start, image_end\nimage_start = 0x10000000\nimage_end = 0x10100000\n");

static int begin(const std::string &body, const std::string &reserve = "")
{
	Blob blob = compile("/dts-v1/;\n" + reserve + "/ { #address-cells = <1>; #size-cells = <1>;\n" + body + "};\n");

	ram.count = taken.count = 0;
	initrd = {0, 0};
	said = "";
	return memory_init(blob.data());
}

static const std::string memory = "memory@80000000 { device_type = \"memory\"; reg = <0x80000000 0x10000000>; };";

static bool holds(const range_list &l, unsigned long address)
{
	for (unsigned i = 0; i < l.count; i++)
		if (l.range[i].start <= address && address < l.range[i].end)
			return true;
	return false;
}

TEST(memory, the_image_and_the_device_tree_are_taken)
{
	ASSERT_EQ(0, begin(memory));
	EXPECT_EQ(1u, ram.count);
	EXPECT_TRUE(holds(taken, 0x80200000) && holds(taken, 0x802fffff) && holds(taken, 0x88000100));
	EXPECT_FALSE(holds(taken, 0x801fffff) || holds(taken, 0x80300000));
}

TEST(memory, what_memreserve_names_is_mapped_and_not_allocated)
{
	ASSERT_EQ(0, begin(memory, "/memreserve/ 0x80000000 0x1001;\n/memreserve/ 0x8f000000 0x10;\n"));
	EXPECT_TRUE(holds(taken, 0x80000000) && holds(taken, 0x80001fff) && holds(taken, 0x8f000000));
	EXPECT_FALSE(holds(taken, 0x80002000) || holds(taken, 0x8f001000));
	EXPECT_TRUE(holds(ram, 0x80000000));
}

TEST(memory, a_reserved_node_without_no_map_is_mapped_and_not_allocated)
{
	ASSERT_EQ(0, begin(memory + "reserved-memory { #address-cells = <1>; #size-cells = <1>; ranges;"
			   "mmode@80000000 { reg = <0x80000000 0x40000 0x84000000 0x1000>; no-map; };"
			   "ring@85000000 { reg = <0x85000000 0x100000>; };"
			   "anywhere { size = <0x100000>; }; };"));
	EXPECT_FALSE(holds(ram, 0x80000000) || holds(ram, 0x8003ffff) || holds(ram, 0x84000000)) << "not even mapped";
	EXPECT_TRUE(holds(ram, 0x80040000) && holds(ram, 0x84001000));
	EXPECT_TRUE(holds(ram, 0x85000000) && holds(taken, 0x85000000) && holds(taken, 0x850fffff));
	EXPECT_FALSE(holds(taken, 0x85100000));
}

TEST(memory, a_reserved_size_that_wraps_is_ignored)
{
	ASSERT_EQ(0, begin(memory + "memory@f0000000 { device_type = \"memory\"; reg = <0xf0000000 0x1000>; };"
			   "reserved-memory { #address-cells = <2>; #size-cells = <2>; ranges;"
			   "all@8f000000 { reg = <0x0 0x8f000000 0xffffffff 0xf2000000>; no-map; }; };"));
	EXPECT_TRUE(holds(ram, 0x80200000));
	EXPECT_TRUE(holds(ram, 0xf0000000));
	for (unsigned i = 1; i < ram.count; i++)
		EXPECT_LE(ram.range[i - 1].end, ram.range[i].start) << "ranges overlap";
}

TEST(memory, disabled_memory_is_not_used)
{
	ASSERT_EQ(0, begin(memory + "memory@a0000000 { device_type = \"memory\"; reg = <0xa0000000 0x10000000>; status = \"disabled\"; };"));
	EXPECT_FALSE(holds(ram, 0xa0000000));
}

TEST(memory, without_memory_for_the_image_it_says_where_the_image_is)
{
	EXPECT_EQ(-ENODEV, begin("memory@40000000 { device_type = \"memory\"; reg = <0x40000000 0x10000000>; };"));
	EXPECT_EQ("memory: the device tree has no memory node that holds the kernel at 0x80200000\n", said);
}

TEST(memory, an_initrd_that_is_no_ram_is_ignored_and_named)
{
	ASSERT_EQ(0, begin(memory + "chosen { linux,initrd-start = <0x20000000>; linux,initrd-end = <0x20001000>; };"));
	EXPECT_EQ(0u, initrd.end);
	EXPECT_EQ("initrd: 0x20000000 to 0x20001000 is not RAM: ignored\n", said);
	ASSERT_EQ(0, begin(memory + "chosen { linux,initrd-start = <0x83000000>; linux,initrd-end = <0x83000800>; };"));
	EXPECT_TRUE(holds(taken, 0x83000000));
}
