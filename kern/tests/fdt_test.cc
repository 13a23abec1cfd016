// needs: kern/base/fdt.c kern/base/string.c -DKERNEL_NAMES -Ikern/tests -lfdt
/* The device tree's reader: held against libfdt, and against trees that somebody broke. */
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

/* libfdt's own header has the name of ours. */
extern "C" {
int fdt_next_node(const void *fdt, int offset, int *depth);
int fdt_path_offset(const void *fdt, const char *path);
int fdt_parent_offset(const void *fdt, int node);
const void *fdt_getprop(const void *fdt, int node, const char *name, int *len);
const char *fdt_get_name(const void *fdt, int node, int *len);
int fdt_node_offset_by_compatible(const void *fdt, int start, const char *compatible);
int fdt_node_offset_by_phandle(const void *fdt, uint32_t phandle);
int fdt_get_path(const void *fdt, int node, char *buf, int size);
int fdt_get_mem_rsv(const void *fdt, int n, uint64_t *addr, uint64_t *size);
int fdt_first_property_offset(const void *fdt, int node);
int fdt_next_property_offset(const void *fdt, int offset);
const void *fdt_getprop_by_offset(const void *fdt, int offset, const char **name, int *len);
}
static auto lib_next_node = fdt_next_node;

#include "tree.h"
#include "host.h"
extern "C" {
#include "errno.h"
#include "fdt.h"
}

/* Tests run in the tree's root. */
static std::string contents(const char *path)
{
	std::ifstream file(path);
	return {std::istreambuf_iterator<char>(file), {}};
}

struct fdt_reader : testing::Test {
	static const Blob &blob()
	{
		static Blob b = compile(contents("kern/tests/edges.dts"));
		return b;
	}
	const void *fdt = blob().data();
	int at(const char *path) { return fdt_path(fdt, path); }
};

TEST_F(fdt_reader, accepts_what_dtc_made)
{
	EXPECT_EQ(0, fdt_check(fdt, blob().size()));
	EXPECT_EQ(blob().size(), fdt_size(fdt));
	EXPECT_NE(0, fdt_check(fdt, blob().size() - 1));
}

TEST_F(fdt_reader, visits_the_nodes_that_libfdt_visits)
{
	int depth = -1, lib_depth = -1, n = -1, lib = -1, nodes = 0;
	do {
		n = fdt_next_node(fdt, n, &depth);
		lib = lib_next_node(fdt, lib, &lib_depth);
		if (lib < 0 || lib_depth < 0)
			break;
		ASSERT_EQ(lib, n);
		ASSERT_EQ(lib_depth, depth);
		ASSERT_STREQ(fdt_get_name(fdt, lib, nullptr), fdt_name(fdt, n));
		int parent = fdt_parent_offset(fdt, lib);
		ASSERT_EQ(parent < 0 ? -ENOENT : parent, fdt_parent(fdt, n));
		nodes++;
	} while (true);
	EXPECT_EQ(-ENOENT, n);
	EXPECT_EQ(34, nodes);
}

TEST_F(fdt_reader, finds_every_property_as_libfdt_does)
{
	for (int n = fdt_next_node(fdt, -1, nullptr); n >= 0; n = fdt_next_node(fdt, n, nullptr))
		for (int p = fdt_first_property_offset(fdt, n); p >= 0;
		     p = fdt_next_property_offset(fdt, p)) {
			const char *name;
			int want, len;
			const void *value = fdt_getprop_by_offset(fdt, p, &name, &want);
			ASSERT_EQ(value, fdt_prop(fdt, n, name, &len)) << name;
			ASSERT_EQ(want, len);
		}
	EXPECT_EQ(nullptr, fdt_prop(fdt, 0, "absent", nullptr));
	EXPECT_EQ(nullptr, fdt_prop(fdt, 0, "compat", nullptr))
		<< "a prefix of a name is not the name";
}

TEST_F(fdt_reader, resolves_every_path)
{
	for (int n = fdt_next_node(fdt, -1, nullptr); n >= 0; n = fdt_next_node(fdt, n, nullptr)) {
		char path[128];
		ASSERT_EQ(0, fdt_get_path(fdt, n, path, sizeof(path)));
		EXPECT_EQ(n, at(path)) << path;
	}
	EXPECT_EQ(at("/memory@80000000"), at("/memory"));
	EXPECT_EQ(at("/soc/serial@1000"), at("serial0"));
	EXPECT_EQ(at("/soc/serial@1000"), at("serial0:115200n8"));
	EXPECT_EQ(at("/soc/serial@1000"), at("/soc/serial@1000:115200"));
	EXPECT_GT(0, at("/so"));
	EXPECT_GT(0, at("serial1"));
	EXPECT_GT(0, at("broken"));
	EXPECT_GT(0, at(""));
	EXPECT_GT(0, at("/soc/serial@1000/none"));
}

TEST_F(fdt_reader, finds_by_compatible_and_phandle)
{
	for (const char *c :
	     {"simple", "simple-bus", "ns16550a", "snps,dw-apb-uart", "deep", "sim"}) {
		int lib = -1, n = -1;
		do {
			lib = fdt_node_offset_by_compatible(fdt, lib, c);
			n = fdt_find_compatible(fdt, n, c);
			ASSERT_EQ(lib < 0, n < 0) << c;
			if (lib >= 0)
				ASSERT_EQ(lib, n) << c;
		} while (lib >= 0);
	}
	EXPECT_EQ(fdt_node_offset_by_phandle(fdt, 77), fdt_by_phandle(fdt, 77));
	EXPECT_EQ(-ENOENT, fdt_by_phandle(fdt, 78));
}

TEST_F(fdt_reader, finds_the_first_device_that_is_available)
{
	const char *const serial[] = {"none", "dw", "ns16550a", nullptr};
	const char *const nobody[] = {"none", nullptr};

	EXPECT_EQ(fdt_find_device(fdt, serial), fdt_path(fdt, "/soc/serial@40000010"));
	EXPECT_EQ(fdt_find_device(fdt, nobody), -ENOENT);

	/* The bus comes before the UART in the tree; the order of the names decides. */
	const char *const serial_first[] = {"ns16550a", "simple-bus", nullptr};
	const char *const bus_first[] = {"simple-bus", "ns16550a", nullptr};

	EXPECT_TRUE(fdt_compatible(fdt, fdt_find_device(fdt, serial_first), "ns16550a"));
	EXPECT_EQ(fdt_find_device(fdt, bus_first), fdt_path(fdt, "/soc"));
}

TEST_F(fdt_reader, translates_addresses_through_every_bus)
{
	u64 addr, size;
	ASSERT_EQ(0, fdt_reg(fdt, at("/soc/serial@1000"), 0, &addr, &size));
	EXPECT_EQ(0x10001000u, addr);
	EXPECT_EQ(0x100u, size);
	ASSERT_EQ(0, fdt_reg(fdt, at("/soc/serial@40000010"), 0, &addr, &size));
	EXPECT_EQ(0x200000010u, addr);
	EXPECT_EQ(-EINVAL, fdt_reg(fdt, at("/soc/serial@40000010"), 1, &addr, &size))
		<< "in no range";
	EXPECT_EQ(-ENOENT, fdt_reg(fdt, at("/soc/serial@40000010"), 2, &addr, &size));
	ASSERT_EQ(0, fdt_reg(fdt, at("/soc/bus@2000/deep"), 0, &addr, &size));
	EXPECT_EQ(0x10002010u, addr);
	EXPECT_EQ(-EINVAL, fdt_reg(fdt, at("/soc/wall/behind@5"), 0, &addr, &size))
		<< "no ranges at all";
	ASSERT_EQ(0, fdt_reg(fdt, at("/memory"), 1, &addr, &size));
	EXPECT_EQ(0x100000000u, addr);
	EXPECT_EQ(0x1000u, size);
	ASSERT_EQ(0, fdt_reg(fdt, at("/cpus/cpu@7"), 0, &addr, &size)) << "an id, not an address";
	EXPECT_EQ(7u, addr);
	EXPECT_EQ(-ENOENT, fdt_reg(fdt, at("/chosen"), 0, &addr, &size));
}

TEST_F(fdt_reader, reads_values)
{
	u32 v;
	EXPECT_EQ(0, fdt_u32(fdt, at("/soc/serial@1000"), "reg-shift", &v));
	EXPECT_EQ(2u, v);
	EXPECT_EQ(-EINVAL, fdt_u32(fdt, at("/soc/bus@2000/deep"), "empty", &v));
	EXPECT_EQ(-ENOENT, fdt_u32(fdt, 0, "absent", &v));
	EXPECT_STREQ("a=b c", fdt_string(fdt, at("/chosen"), "bootargs"));
	EXPECT_EQ(nullptr, fdt_string(fdt, at("/soc/bus@2000/deep"), "empty"));
	EXPECT_TRUE(fdt_available(fdt, at("/cpus/cpu@0")));
	EXPECT_FALSE(fdt_available(fdt, at("/cpus/cpu@7")));
	EXPECT_TRUE(fdt_available(fdt, at("/memory")));
}

TEST_F(fdt_reader, lists_the_reservations)
{
	u64 addr, size, want_addr, want_size;
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, fdt_reservation(fdt, i, &addr, &size));
		ASSERT_EQ(0, fdt_get_mem_rsv(fdt, i, &want_addr, &want_size));
		EXPECT_EQ(want_addr, addr);
		EXPECT_EQ(want_size, size);
	}
	EXPECT_EQ(-ENOENT, fdt_reservation(fdt, 2, &addr, &size));
	EXPECT_EQ(-ENOENT, fdt_reservation(fdt, 1000000000, &addr, &size));
}

TEST_F(fdt_reader, the_cpus_are_those_that_are_enabled_and_have_an_mmu)
{
	std::vector<u64> found;
	u64 hwid;
	for (int n = -1; (n = fdt_next_cpu(fdt, n, &hwid)) >= 0;)
		found.push_back(hwid);
	EXPECT_EQ((std::vector<u64>{2, 0x103, FDT_NO_HWID}), found) << "cpu@4 has no reg";
}

TEST_F(fdt_reader, an_interrupt_has_the_cells_of_its_controller)
{
	u32 cell[3];
	EXPECT_EQ(at("/irqs/gic"), fdt_interrupt(fdt, at("/irqs/timer"), 1, cell))
		<< "the parent's interrupt-parent";
	EXPECT_EQ(1u, cell[0]);
	EXPECT_EQ(14u, cell[1]);
	EXPECT_EQ(8u, cell[2]);
	EXPECT_EQ(-EINVAL, fdt_interrupt(fdt, at("/irqs/timer"), 2, cell));
	EXPECT_EQ(-EINVAL, fdt_interrupt(fdt, at("/irqs/timer"), -1, cell));
	EXPECT_EQ(fdt_by_phandle(fdt, 77), fdt_interrupt(fdt, at("/irqs/near"), 0, cell))
		<< "its own";
	EXPECT_EQ(10u, cell[0]);
	EXPECT_EQ(0u, cell[1]);
	EXPECT_EQ(fdt_by_phandle(fdt, 77), fdt_interrupt(fdt, at("/irqs/extended"), 0, cell))
		<< "preferred to interrupts";
	EXPECT_EQ(53u, cell[0]);
	EXPECT_EQ(-EINVAL, fdt_interrupt(fdt, at("/irqs/extended"), 1, cell));
	for (const char *bad : {"/irqs/bad1", "/irqs/bad2", "/irqs/bad3", "/irqs/bad4",
				"/irqs/bad5", "/orphan", "/chosen"})
		EXPECT_GT(0, fdt_interrupt(fdt, at(bad), 0, cell)) << bad;
}

/* Everything that can be asked; the address sanitizer says when an answer came from outside. */
static void ask_everything(const void *fdt)
{
	u64 addr, size;
	u32 v;
	int depth = -1, len, left = 4000;
	for (int n = fdt_next_node(fdt, -1, &depth); n >= 0 && left--;
	     n = fdt_next_node(fdt, n, &depth)) {
		const char *name = fdt_name(fdt, n);
		ASSERT_NE(nullptr, name);
		(void)std::string(name);
		for (const char *p :
		     {"reg", "ranges", "status", "compatible", "bootargs", "phandle"})
			if (const char *value = (const char *)fdt_prop(fdt, n, p, &len))
				(void)std::string(value, len);
		fdt_available(fdt, n);
		fdt_compatible(fdt, n, "ns16550a");
		fdt_u32(fdt, n, "reg-shift", &v);
		for (int i = 0; i < 3; i++)
			fdt_reg(fdt, n, i, &addr, &size);
		fdt_parent(fdt, n);
		u32 cell[3];
		fdt_interrupt(fdt, n, n % 2, cell);
	}
	for (int i = 0; i < 4; i++)
		fdt_reservation(fdt, i, &addr, &size);
	fdt_path(fdt, "serial0");
	fdt_path(fdt, "/soc/bus@2000/deep");
	fdt_find_compatible(fdt, -1, "deep");
	for (int n = -1, most = 100; (n = fdt_next_cpu(fdt, n, &addr)) >= 0 && most--;)
		;
	fdt_by_phandle(fdt, 77);
}

/* A copy of exactly @size bytes, so that one byte more is a fault. */
static void ask_copy(const Blob &b, size_t size)
{
	std::unique_ptr<uint8_t[]> copy(new uint8_t[size]);
	std::copy(b.begin(), b.begin() + size, copy.get());
	if (fdt_check(copy.get(), size) == 0)
		ask_everything(copy.get());
}

TEST_F(fdt_reader, a_tree_cut_short_is_refused)
{
	for (size_t size = 0; size < blob().size(); size++) {
		std::unique_ptr<uint8_t[]> copy(new uint8_t[size ? size : 1]);
		std::copy(blob().begin(), blob().begin() + size, copy.get());
		ASSERT_EQ(-EINVAL, fdt_check(copy.get(), size)) << size << " bytes";
	}
}

TEST_F(fdt_reader, a_tree_whose_size_lies_is_not_read_beyond)
{
	for (size_t size = 40; size < blob().size(); size += 4) {
		Blob b = blob();
		b[4] = b[5] = 0;
		b[6] = size >> 8;
		b[7] = size;
		ask_copy(b, size);
		if (HasFatalFailure())
			return;
	}
}

TEST_F(fdt_reader, a_mutated_tree_is_never_read_outside)
{
	srand(20260101);
	for (int round = 0; round < 30000; round++) {
		Blob b = blob();
		for (int n = rand() % 4 + 1; n--;) {
			size_t where = rand() % 3 ? rand() % b.size() : rand() % 40;
			static const uint8_t edge[] = {0, 1, 2, 3, 4, 9, 0x7f, 0x80, 0xff};
			b[where] = rand() % 2 ? rand() : edge[rand() % sizeof(edge)];
		}
		ask_copy(b, b.size());
		if (HasFatalFailure())
			return;
	}
}
