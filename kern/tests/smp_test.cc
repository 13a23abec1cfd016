// needs: kern/base/cpus.c kern/secondary.c kern/base/fdt.c kern/base/string.c -DKERNEL_NAMES
// needs: -Ikern/tests/host -Ikern/tests
/*
 * Which CPUs are used, and under which indices, when firmware refuses some: all places of
 * the boot CPU, all sets of refused CPUs.
 */
#include <set>
#include <string>
#include <vector>

#include "said.h"
#include "tree.h"
#include "host.h"
extern "C" {
#include "cpu.h"
#include "errno.h"
#include "fdt.h"
#include "irq.h"
#include "sched.h"

u64 clock_hz = 1, clock_mult;
static struct thread idles[NR_CPUS];
static unsigned allocated, most;
static std::set<u64> refused;

struct thread *alloc_thread(const char *name)
{
	return allocated < most ? &idles[allocated++] : NULL;
}
void init_idle(struct thread *t, struct cpu *cpu)
{
	cpu->idle = t;
}
/* The firmware. A CPU that it starts is online at once. */
int firmware_cpu_start(struct cpu *cpu, unsigned long)
{
	EXPECT_FALSE(cpu->online) << cpu->hwid << " is started twice";
	if (refused.count(cpu->hwid))
		return -ENODEV;
	cpu->online = true;
	return 0;
}
struct cpu *this_cpu(void)
{
	return &cpus[0];
}
struct thread *get_current(void)
{
	return &boot_thread;
}
void panic(const char *fmt, ...)
{
	abort();
}
char secondary_start[4];
unsigned long kernel_pa;
void arch_init_cpu(void)
{
}
void irqchip_init_cpu(void)
{
}
void timer_init_cpu(void)
{
}
void do_idle(void)
{
	abort();
}
void ipi_send(unsigned cpu_index, int what)
{
}
}

static std::string node(u64 hwid, const std::string &properties)
{
	return "cpu@" + std::to_string(hwid) + " { device_type = \"cpu\"; " + properties + " };";
}

static std::string node(u64 hwid)
{
	return node(hwid, "reg = <" + std::to_string(hwid) + ">;");
}

static Blob tree(const std::string &nodes)
{
	return compile("/dts-v1/; / { cpus { #address-cells = <1>; #size-cells = <0>; " +
		       nodes + " }; };");
}

/* The boot of a machine with this tree. */
static void boot(const Blob &fdt, u64 on, const std::set<u64> &refuses = {},
		 unsigned threads = NR_CPUS)
{
	for (struct cpu &cpu : cpus)
		cpu = {};
	cpus[0].online = true;
	cpus[0].idle = &boot_thread;
	nr_cpus = 1;
	boot_hwid = on;
	allocated = 0;
	most = threads;
	refused = refuses;
	said.clear();
	cpus_init(fdt.data());
	smp_init();
}

/* Every index below nr_cpus is a CPU that runs; no other CPU does. */
static void expect_used(const std::vector<u64> &hwids)
{
	std::multiset<u64> used;

	for (unsigned i = 0; i < NR_CPUS; i++) {
		if (i >= nr_cpus) {
			EXPECT_FALSE(cpus[i].online) << "CPU " << i << " of " << nr_cpus;
			continue;
		}
		EXPECT_TRUE(cpus[i].online) << "CPU " << i;
		EXPECT_NE(nullptr, cpus[i].idle) << "CPU " << i;
		EXPECT_EQ(i, cpus[i].index);
		used.insert(cpus[i].hwid);
	}
	EXPECT_EQ(boot_hwid, cpus[0].hwid);
	EXPECT_EQ((std::multiset<u64>(hwids.begin(), hwids.end())), used);
}

static void expect_said(u64 refused_hwid)
{
	std::string line = " (" + std::to_string(refused_hwid) + ") does not start (error 19)";

	EXPECT_NE(std::string::npos, said.find(line)) << said;
}

static unsigned lines()
{
	unsigned count = 0;

	for (char c : said)
		count += c == '\n';
	return count;
}

TEST(smp, the_boot_cpu_is_0_and_the_others_follow_in_the_order_of_the_tree)
{
	boot(tree(node(4) + node(2) + node(7) + node(1)), 7);
	expect_used({7, 4, 2, 1});
	for (unsigned i = 0; i < 4; i++)
		EXPECT_EQ((std::vector<u64>{7, 4, 2, 1}[i]), cpus[i].hwid);
	EXPECT_EQ("", said);
}

TEST(smp, the_cpus_that_firmware_starts_are_used_whichever_it_refuses)
{
	for (unsigned count = 1; count <= NR_CPUS; count++) {
		std::string nodes;

		for (unsigned i = 0; i < count; i++)
			nodes += node(1 + i);
		Blob fdt = tree(nodes);
		for (unsigned on = 0; on < count; on++)
			for (unsigned mask = 0; mask < 1u << count; mask++) {
				std::set<u64> refuses;
				std::vector<u64> rest;

				if (mask >> on & 1)
					continue;
				for (unsigned i = 0; i < count; i++)
					if (mask >> i & 1)
						refuses.insert(1 + i);
					else
						rest.push_back(1 + i);
				SCOPED_TRACE(testing::Message() << count << " CPUs, on " << on
								<< ", refused " << mask);
				boot(fdt, 1 + on, refuses);
				expect_used(rest);
				EXPECT_EQ(refuses.size(), lines()) << said;
				for (u64 hwid : refuses)
					expect_said(hwid);
				if (HasFailure())
					return;
			}
	}
}

TEST(smp, a_cpu_without_memory_for_its_thread_is_not_used)
{
	std::string nodes;

	for (unsigned i = 0; i < NR_CPUS; i++)
		nodes += node(i);
	Blob fdt = tree(nodes);
	for (unsigned on = 0; on < NR_CPUS; on++)
		for (unsigned threads = 0; threads < NR_CPUS; threads++) {
			std::vector<u64> rest = {on};

			boot(fdt, on, {}, threads);
			EXPECT_EQ(threads + 1, nr_cpus);
			EXPECT_EQ(NR_CPUS - 1 - threads, lines()) << said;
			for (unsigned i = 1; i < nr_cpus; i++)
				rest.push_back(cpus[i].hwid);
			expect_used(rest);
		}
}

TEST(smp, a_tree_with_too_many_cpus_is_said_once)
{
	for (unsigned count : {8u, 9u, 16u, 40u})
		for (u64 on : {0u, 7u, count - 1}) {
			std::string nodes;

			for (unsigned i = 0; i < count; i++)
				nodes += node(i);
			boot(tree(nodes), on);
			EXPECT_EQ(8u, nr_cpus);
			EXPECT_EQ(on, cpus[0].hwid);
			if (count == 8)
				EXPECT_EQ("", said);
			else
				EXPECT_EQ("The device tree has " + std::to_string(count) + " CPUs: "
					  "Callsite uses 8, the most that it supports.\n", said);
		}
}

TEST(smp, only_cpus_whose_status_is_okay_are_used)
{
	for (const char *status : {"disabled", "fail", "fail-sss", "reserved", ""}) {
		std::string off = std::string("reg = <1>; status = \"") + status + "\";";

		boot(tree(node(0) + node(1, off) + node(2)), 2);
		expect_used({0, 2});
		EXPECT_EQ("", said);
	}
}

TEST(smp, a_boot_cpu_that_the_tree_does_not_list_is_used_alone)
{
	std::string disabled = node(5, "reg = <5>; status = \"disabled\";");

	for (const std::string &nodes : {node(0) + node(1), node(0) + disabled, std::string()}) {
		boot(tree(nodes), 5);
		expect_used({5});
		EXPECT_EQ("The device tree does not list the boot CPU: "
			  "only the boot CPU (5) is used.\n", said);
	}
}

TEST(smp, with_a_cpu_that_has_no_id_the_boot_cpu_is_used_alone)
{
	std::string others = node(5) + node(6);

	for (const std::string &nodes : {node(0, "") + others, others + node(7, "")}) {
		boot(tree(nodes), 5);
		expect_used({5});
		EXPECT_EQ("The device tree has a CPU without an id (reg): "
			  "only the boot CPU (5) is used.\n", said);
	}
	boot(tree(node(5) + node(6) + node(7, "status = \"disabled\";")), 5);
	expect_used({5, 6});
	EXPECT_EQ("", said);
}
