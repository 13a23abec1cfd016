// needs: kern/mm/memory.c kern/base/fdt.c kern/base/string.c -DKERNEL_NAMES
// needs: -Ikern/ftrace/tests/host -Ikern/tests -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul
// needs: -D_start=image_start -D_end=image_end
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
#include "memory.h"
extern unsigned long boot_fdt_pa;
}

/* An image of 1 MiB. */
asm(".globl image_start, image_end\nimage_start = 0x10000000\nimage_end = 0x10100000\n");

static unsigned long image = 0x80200000;

static int begin(const std::string &body, const std::string &reserve = "")
{
	Blob blob = compile("/dts-v1/;\n" + reserve +
			    "/ { #address-cells = <1>; #size-cells = <1>;\n" + body + "};\n");

	kernel_pa = image;
	boot_fdt_pa = 0x88000100;
	ram.count = taken.count = 0;
	initrd = {0, 0};
	said = "";
	return memory_init(blob.data());
}

static const std::string memory =
	"memory@80000000 { device_type = \"memory\"; reg = <0x80000000 0x10000000>; };";

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
	EXPECT_TRUE(holds(taken, 0x80200000) && holds(taken, 0x802fffff) &&
		    holds(taken, 0x88000100));
	EXPECT_FALSE(holds(taken, 0x801fffff) || holds(taken, 0x80300000));
}

TEST(memory, what_memreserve_names_is_mapped_and_not_allocated)
{
	ASSERT_EQ(0, begin(memory,
			   "/memreserve/ 0x80000000 0x1001;\n/memreserve/ 0x8f000000 0x10;\n"));
	EXPECT_TRUE(holds(taken, 0x80000000) && holds(taken, 0x80001fff) &&
		    holds(taken, 0x8f000000));
	EXPECT_FALSE(holds(taken, 0x80002000) || holds(taken, 0x8f001000));
	EXPECT_TRUE(holds(ram, 0x80000000));
}

TEST(memory, what_is_reserved_beyond_the_lists_room_is_not_used_at_all)
{
	std::string reserve;

	for (int i = 0; i < 70; i++)
		reserve +=
			"/memreserve/ " + std::to_string(0x8a000000 + i * 0x10000) + " 0x1000;\n";
	ASSERT_EQ(0, begin(memory + "chosen { linux,initrd-start = <0x83000000>; linux,initrd-end "
				    "= <0x83000800>; };",
			   reserve));
	EXPECT_TRUE(holds(ram, 0x80200000) && holds(taken, 0x80200000) && holds(taken, 0x802ff000))
		<< "the image";
	EXPECT_TRUE(holds(taken, 0x88000100)) << "the device tree";
	EXPECT_EQ(holds(ram, 0x83000000) && holds(taken, 0x83000000), initrd.end != 0)
		<< "the initrd";
	for (int i = 0; i < 70; i++)
		EXPECT_TRUE(holds(taken, 0x8a000000 + i * 0x10000) ||
			    !holds(ram, 0x8a000000 + i * 0x10000))
			<< i;
	EXPECT_TRUE(holds(ram, 0x8a451000)) << "what is free stays RAM";
	EXPECT_NE(std::string::npos,
		  said.find("memory: more than 64 ranges: 0x8a450000 to 0x8a451000 is not used\n"))
		<< said;
}

TEST(memory, a_reserved_node_without_no_map_is_mapped_and_not_allocated)
{
	ASSERT_EQ(0,
		  begin(memory +
			"reserved-memory { #address-cells = <1>; #size-cells = <1>; ranges;"
			"mmode@80000000 { reg = <0x80000000 0x40000 0x84000000 0x1000>; no-map; };"
			"ring@85000000 { reg = <0x85000000 0x100000>; };"
			"anywhere { size = <0x100000>; }; };"));
	EXPECT_FALSE(holds(ram, 0x80000000) || holds(ram, 0x8003ffff) || holds(ram, 0x84000000))
		<< "not even mapped";
	EXPECT_TRUE(holds(ram, 0x80040000) && holds(ram, 0x84001000));
	EXPECT_TRUE(holds(ram, 0x85000000) && holds(taken, 0x85000000) && holds(taken, 0x850fffff));
	EXPECT_FALSE(holds(taken, 0x85100000));
}

TEST(memory, a_reserved_size_that_wraps_is_ignored)
{
	ASSERT_EQ(0,
		  begin(memory +
			"memory@f0000000 { device_type = \"memory\"; reg = <0xf0000000 0x1000>; };"
			"reserved-memory { #address-cells = <2>; #size-cells = <2>; ranges;"
			"all@8f000000 { reg = <0x0 0x8f000000 0xffffffff 0xf2000000>; no-map; }; "
			"};"));
	EXPECT_TRUE(holds(ram, 0x80200000));
	EXPECT_TRUE(holds(ram, 0xf0000000));
	for (unsigned i = 1; i < ram.count; i++)
		EXPECT_LE(ram.range[i - 1].end, ram.range[i].start) << "ranges overlap";
}

TEST(memory, disabled_memory_is_not_used)
{
	ASSERT_EQ(0, begin(memory + "memory@a0000000 { device_type = \"memory\"; reg = <0xa0000000 "
				    "0x10000000>; status = \"disabled\"; };"));
	EXPECT_FALSE(holds(ram, 0xa0000000));
}

TEST(memory, without_memory_for_the_image_it_says_where_the_image_is)
{
	EXPECT_EQ(-ENODEV, begin("memory@40000000 { device_type = \"memory\"; reg = <0x40000000 "
				 "0x10000000>; };"));
	EXPECT_EQ(
		"memory: the device tree has no memory node that holds the kernel at 0x80200000\n",
		said);
}

TEST(memory, a_removed_range_leaves_nothing_behind)
{
	ASSERT_EQ(0, begin(memory));
	ram = {3, {{0x1000, 0x2000}, {0x3000, 0x6000}, {0x7000, 0x8000}}};
	range_remove(&ram, 0x1000, 0x4000);
	ASSERT_EQ(2u, ram.count);
	EXPECT_EQ(0x4000u, ram.range[0].start);
	range_remove(&ram, 0x4800, 0x5000);
	ASSERT_EQ(3u, ram.count);
	EXPECT_EQ(0x4800u, ram.range[0].end);
	EXPECT_EQ(0x5000u, ram.range[1].start);
}

TEST(memory, a_place_is_found_in_ram_that_nothing_else_has)
{
	struct range found;

	ASSERT_EQ(0, begin(memory, "/memreserve/ 0x80000000 0x1001;\n"));
	ASSERT_TRUE(memory_find(0x200000, &found));
	EXPECT_EQ(0x80400000u, found.start) << "not the reserved first page, nor the image";
	EXPECT_EQ(0x80600000u, found.end);
	EXPECT_FALSE(memory_find(0x10000000, &found));
}

TEST(memory, what_the_next_boot_is_to_find_has_a_place_that_the_memory_alone_decides)
{
	last_boot_size = 0x400000;
	for (unsigned long at : {0x84000000, 0x80200000}) {
		image = at;
		last_boot_ram = {0, 0};
		ASSERT_EQ(0, begin("memory@40000000 { device_type = \"memory\"; reg = <0x40000000 "
				   "0x8000000>; };" +
					   memory,
				   "/memreserve/ 0x80400000 0x1001;\n"));
		EXPECT_EQ(0x8a000000u, last_boot_ram.start);
		EXPECT_EQ(0x8a400000u, last_boot_ram.end);
		EXPECT_TRUE(holds(ram, 0x8a000000) && holds(taken, 0x8a000000) &&
			    holds(taken, 0x8a3fffff));
		EXPECT_EQ("", said);
	}
	for (auto &[size, reserve] :
	     {std::pair(0x400000ul, "/memreserve/ 0x8a3ff000 0x1;\n"), {0x8000000ul, ""}}) {
		last_boot_size = size;
		last_boot_ram = {0, 0};
		ASSERT_EQ(0, begin(memory, reserve));
		EXPECT_EQ(0u, last_boot_ram.end);
		EXPECT_EQ("last_boot: there are no free " + std::to_string(size >> 20) +
				  " MiB at 0x8a000000: no event is kept for the next boot\n",
			  said);
	}
	last_boot_size = 0;
	ASSERT_EQ(0, begin(memory));
	EXPECT_FALSE(holds(taken, 0x8a000000));
}

TEST(memory, an_initrd_that_is_no_ram_is_ignored_and_named)
{
	ASSERT_EQ(0, begin(memory + "chosen { linux,initrd-start = <0x20000000>; linux,initrd-end "
				    "= <0x20001000>; };"));
	EXPECT_EQ(0u, initrd.end);
	EXPECT_EQ("initrd: 0x20000000 to 0x20001000 is not RAM: ignored\n", said);
	for (const char *in : {"0x802ff000>; linux,initrd-end = <0x80310000",
			       "0x87fff000>; linux,initrd-end = <0x88000200"}) {
		ASSERT_EQ(0, begin(memory + "chosen { linux,initrd-start = <" + in + ">; };"));
		EXPECT_EQ(0u, initrd.end);
		EXPECT_NE(std::string::npos,
			  said.find(" is also the kernel's or the device tree's: ignored\n"))
			<< said;
	}
	ASSERT_EQ(0, begin(memory + "chosen { linux,initrd-start = <0x83000000>; linux,initrd-end "
				    "= <0x83000800>; };"));
	EXPECT_EQ("", said);
	EXPECT_TRUE(holds(taken, 0x83000000));
}
