/*
 * Tests <arch>/probe.h against the assembler: every class of instructions. The
 * including test names the assembler (CROSS, AS_FLAGS).
 */
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "asm-ftrace/probe.h"

/* Assemble one instruction a line, at addresses that follow each other. */
static std::vector<u32> assemble(const std::vector<std::string> &lines)
{
	char dir[] = "/tmp/probe_testXXXXXX";
	if (!mkdtemp(dir))
		return {};
	std::string d = dir;
	{
		std::ofstream source(d + "/a.s");
		for (auto &line : lines)
			source << line << "\n";
	}
	std::string command = "cd " + d + " && " CROSS "as " AS_FLAGS " -o a.o a.s && " CROSS
			      "objcopy -O binary -j .text a.o a.bin";
	EXPECT_EQ(0, system(command.c_str()));
	std::ifstream f(d + "/a.bin", std::ios::binary);
	std::vector<u32> words;
	for (u32 w; f.read((char *)&w, 4);)
		words.push_back(w);
	for (auto name : {"/a.s", "/a.o", "/a.bin", ""})
		EXPECT_EQ(0, remove((d + name).c_str()));
	EXPECT_EQ(lines.size(), words.size());
	words.resize(lines.size());
	return words;
}

static u32 assemble(const std::string &line)
{
	return assemble(std::vector<std::string>{line})[0];
}

/* A class of instructions: how each of them can be executed elsewhere. */
static void expect_class(probe_how how, const std::vector<std::string> &lines)
{
	auto words = assemble(lines);
	for (size_t i = 0; i < lines.size(); i++)
		EXPECT_EQ(how, probe_classify(words[i])) << lines[i];
}

/* "name operands . + offset" */
static std::string to(const std::string &start, long offset)
{
	return start + " . " + (offset < 0 ? "- " : "+ ") + std::to_string(labs(offset));
}

/*
 * Offsets of a field of @bits, scaled by 1 << @shift: each bit alone, the ends, around zero, and
 * random ones.
 */
static std::vector<long> offsets(int bits, int shift)
{
	long unit = 1l << shift, most = 1l << (bits - 1 + shift);
	std::vector<long> v = {0, unit, -unit, most - unit, -most};
	for (long bit = unit; bit < most; bit *= 2) {
		v.push_back(bit);
		v.push_back(-bit);
	}
	srand(bits);
	for (int i = 0; i < 50; i++)
		v.push_back((((long)rand() << 31 | rand()) % most) / unit * unit *
			    (i & 1 ? 1 : -1));
	return v;
}

/* The words of @start with each of the offsets. */
static std::vector<u32> assemble(const std::string &start, const std::vector<long> &all)
{
	std::vector<std::string> lines;
	for (long off : all)
		lines.push_back(to(start, off));
	return assemble(lines);
}

struct cpu_state {
	unsigned long x[32], pc;
	cpu_state()
	{
		for (int i = 0; i < 32; i++)
			x[i] = 0x1111111111111111ul * (i % 15) + i;
		pc = 0;
	}
};

/* Emulate @insn; exactly @after must result. */
static void expect_emulated(const std::string &line, u32 insn, cpu_state before, cpu_state after,
			    unsigned long flags = 0)
{
	ASSERT_EQ(PROBE_EMULATED, probe_classify(insn)) << line;
	before.pc = probe_emulate(insn, before.pc, before.x, flags);
	EXPECT_EQ(after.pc, before.pc) << line;
	for (int i = 0; i < 32; i++)
		EXPECT_EQ(after.x[i], before.x[i]) << line << ", register " << i;
}

static const unsigned long values[] = {
	0, 1, 2, ~0ul, ~0ul - 1, 1ul << 63, (1ul << 63) - 1, 1ul << 31, 1ul << 32, 0xffffffff};

TEST(probe, a_jump_is_what_the_assembler_writes_and_its_reach_is_known)
{
	std::vector<std::string> lines;
	std::vector<u32> ours;
	for (long off : offsets(JUMP_BITS, JUMP_SHIFT)) {
		u32 insn;
		if (off & 3)
			continue;
		ASSERT_TRUE(probe_jump(0x40000000, 0x40000000 + off, &insn)) << off;
		ours.push_back(insn);
		lines.push_back(to(JUMP, off));
	}
	EXPECT_EQ(assemble(lines), ours);
	u32 unused;
	long most = 1l << (JUMP_BITS - 1 + JUMP_SHIFT);
	EXPECT_FALSE(probe_jump(0x40000000, 0x40000000 + most, &unused));
	EXPECT_FALSE(probe_jump(0x40000000, 0x40000000 - most - 4, &unused));
}

TEST(probe, a_breakpoint_is_what_the_assembler_writes)
{
	EXPECT_EQ(assemble(BREAK), INSN_BREAK);
	EXPECT_EQ(PROBE_REFUSED_SYSTEM, probe_classify(INSN_BREAK));
}
