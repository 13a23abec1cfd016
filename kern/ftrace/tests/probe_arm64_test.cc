// needs: -Ikern/ftrace/tests/host/arm64
#define CROSS "aarch64-linux-gnu-"
#define AS_FLAGS "-march=armv8.5-a+memtag"
#define JUMP "b"
#define JUMP_BITS 26
#define JUMP_SHIFT 2
#define BREAK "brk #0x500"
#include "probe_test.h"

TEST(probe, position_independent_instructions_run_in_a_slot)
{
	expect_class(PROBE_SLOT,
		     {"add x0, x1, #1", "adds x0, x1, #1, lsl #12", "sub sp, sp, #16", "cmp w0, #1",
		      "mov x0, sp", "and x0, x1, #0xff", "orr x0, x1, #0xff", "eor x0, x1, #1",
		      "ands x0, x1, #1", "movz x0, #1, lsl #16", "movn x0, #1", "movk x0, #1",
		      "sbfx x0, x1, #1, #2", "ubfx x0, x1, #1, #2", "bfi x0, x1, #1, #2",
		      "extr x0, x1, x2, #3", "lsl x0, x1, #3"});
	expect_class(PROBE_SLOT, {"add x0, x1, x2",
				  "add x0, x1, w2, uxtw #2",
				  "sub x0, x1, x2, lsl #3",
				  "subs w0, w1, w2",
				  "adc x0, x1, x2",
				  "sbcs x0, x1, x2",
				  "and x0, x1, x2",
				  "bic x0, x1, x2",
				  "orr x0, x1, x2",
				  "orn x0, x1, x2",
				  "eor x0, x1, x2",
				  "mov x0, x1",
				  "ccmp x0, x1, #4, ne",
				  "ccmn x0, #1, #4, ne",
				  "csel x0, x1, x2, eq",
				  "csinc x0, x1, x2, eq",
				  "csinv x0, x1, x2, eq",
				  "csneg x0, x1, x2, eq",
				  "rbit x0, x1",
				  "rev x0, x1",
				  "rev16 x0, x1",
				  "clz x0, x1",
				  "cls x0, x1",
				  "udiv x0, x1, x2",
				  "sdiv w0, w1, w2",
				  "lslv x0, x1, x2",
				  "rorv x0, x1, x2",
				  "crc32b w0, w1, w2",
				  "madd x0, x1, x2, x3",
				  "msub x0, x1, x2, x3",
				  "smaddl x0, w1, w2, x3",
				  "umulh x0, x1, x2"});
	expect_class(PROBE_SLOT, {"ldr x0, [x1]",
				  "ldr w0, [x1, #4]",
				  "ldr x0, [x1, x2, lsl #3]",
				  "ldr x0, [x1], #8",
				  "ldr x0, [x1, #8]!",
				  "ldur x0, [x1, #-1]",
				  "ldrb w0, [x1]",
				  "ldrh w0, [x1]",
				  "ldrsb x0, [x1]",
				  "ldrsh w0, [x1]",
				  "ldrsw x0, [x1]",
				  "str x0, [x1]",
				  "strb w0, [x1]",
				  "strh w0, [x1]",
				  "sturb w0, [x1, #-1]",
				  "ldp x0, x1, [x2]",
				  "ldpsw x0, x1, [x2]",
				  "stp x29, x30, [sp, #-16]!",
				  "ldp x29, x30, [sp], #16",
				  "stnp x0, x1, [x2]",
				  "prfm pldl1keep, [x0]",
				  "ldtr x0, [x1]",
				  "sttr x0, [x1]"});
	expect_class(PROBE_SLOT,
		     {"ldar x0, [x1]", "stlr x0, [x1]", "ldarb w0, [x1]", "stlrh w0, [x1]",
		      "ldlar x0, [x1]", "stllr x0, [x1]", "ldapr x0, [x1]", "ldapur x0, [x1, #8]",
		      "stlur x0, [x1, #8]", "cas x0, x1, [x2]", "casal w0, w1, [x2]",
		      "casb w0, w1, [x2]", "swp x0, x1, [x2]", "ldadd x0, x1, [x2]",
		      "ldclral x0, x1, [x2]", "ldset w0, w1, [x2]", "ldeor x0, x1, [x2]",
		      "ldsmax x0, x1, [x2]", "ldumin x0, x1, [x2]"});
	expect_class(PROBE_SLOT, {"nop", "yield", "dmb ish", "dmb ishld", "dsb sy", "dsb ishst",
				  "isb", "msr daifset, #2", "msr daifclr, #2", "msr daif, x0",
				  "mrs x0, daif", "msr nzcv, x0", "mrs x0, nzcv", "mrs x0, sp_el0",
				  "mrs x0, tpidr_el1", "mrs x0, cntvct_el0", "mrs x0, mpidr_el1",
				  "mrs x0, currentel", "mrs x0, ctr_el0"});
}

TEST(probe, refused_instructions)
{
	expect_class(PROBE_REFUSED_EXCLUSIVE,
		     {"ldxr x0, [x1]", "ldaxr w0, [x1]", "ldxrb w0, [x1]", "ldaxrh w0, [x1]",
		      "ldxp x0, x1, [x2]", "ldaxp x0, x1, [x2]", "stxr w0, x1, [x2]",
		      "stlxr w0, x1, [x2]", "stxrb w0, w1, [x2]", "stxp w0, x1, x2, [x3]",
		      "stlxp w0, x1, x2, [x3]", "casp x0, x1, x2, x3, [x4]", "clrex"});
	expect_class(PROBE_REFUSED_SYSTEM, {"svc #0",
					    "hvc #0",
					    "smc #0",
					    "brk #0",
					    "brk #1",
					    "hlt #0",
					    "dcps1",
					    "eret",
					    "drps",
					    "eretaa",
					    "wfi",
					    "wfe",
					    "sev",
					    "sevl",
					    "esb",
					    "bti c",
					    "psb csync",
					    "paciasp",
					    "autiasp",
					    "pacia1716",
					    "xpaclri",
					    "dc cvau, x0",
					    "dc zva, x0",
					    "ic ivau, x0",
					    "ic iallu",
					    "tlbi vmalle1",
					    "at s1e1r, x0",
					    "msr spsel, #0",
					    "msr pan, #0",
					    "cfinv",
					    "sb",
					    "msr vbar_el1, x0",
					    "msr sp_el0, x0",
					    "msr tpidr_el1, x0",
					    "msr tpidr_el0, x0",
					    "msr elr_el1, x0",
					    "msr sctlr_el1, x0",
					    "mrs x0, elr_el1",
					    "mrs x0, spsr_el1",
					    "mrs x0, esr_el1",
					    "mrs x0, far_el1",
					    "mrs x0, tpidr_el0",
					    "braa x0, x1",
					    "blraaz x0",
					    "retaa",
					    "pacia x0, x1",
					    "autdza x0",
					    "xpaci x0",
					    "pacga x0, x1, x2",
					    "ldraa x0, [x1]",
					    "ldrab x0, [x1, #8]!"});
	expect_class(PROBE_REFUSED_UNKNOWN,
		     {".inst 0", ".inst 0xffffffff", "udf #1", "fadd d0, d1, d2", "fmov d0, x0",
		      "ldr d0, [x0]", "str q0, [x0]", "ldp d0, d1, [x0]", "ldr d0, .",
		      "ld1 {v0.8b}, [x0]", "add v0.8b, v1.8b, v2.8b", "stg x0, [x0]",
		      "ldg x0, [x0]", "st2g x0, [x0]", ".inst 0x04200000" /* add z */,
		      ".inst 0x19010440" /* cpyfp */});
}

TEST(probe, exclusive_sequences_begin_and_end)
{
	for (auto line :
	     {"ldxr x0, [x1]", "ldaxr w0, [x1]", "ldxp x0, x1, [x2]", "ldaxrb w0, [x1]"})
		EXPECT_EQ(1, probe_exclusive(assemble(line))) << line;
	for (auto line :
	     {"stxr w0, x1, [x2]", "stlxr w0, w1, [x2]", "stlxp w0, x1, x2, [x3]", "clrex"})
		EXPECT_EQ(-1, probe_exclusive(assemble(line))) << line;
	for (auto line : {"ldar x0, [x1]", "stlr x0, [x1]", "cas x0, x1, [x2]", "ldr x0, [x1]",
			  "add x0, x1, x2", "isb"})
		EXPECT_EQ(0, probe_exclusive(assemble(line))) << line;
}

static void expect_jump(const std::string &line, u32 insn, long off, bool links,
			cpu_state before = cpu_state(), unsigned long flags = 0)
{
	before.pc = 0xffffffff80401000;
	cpu_state after = before;
	after.pc += off;
	if (links)
		after.x[30] = before.pc + 4;
	expect_emulated(line, insn, before, after, flags);
}

/* @start jumps to each offset of a field of @bits. */
static void expect_jumps(const std::string &start, int bits, bool links, unsigned long flags = 0)
{
	auto all = offsets(bits, 2);
	auto words = assemble(start, all);
	for (size_t i = 0; i < all.size(); i++)
		expect_jump(to(start, all[i]), words[i], all[i], links, cpu_state(), flags);
}

TEST(probe, b_and_bl)
{
	expect_jumps("b", 26, false);
	expect_jumps("bl", 26, true);
}

TEST(probe, adr_and_adrp)
{
	auto all = offsets(21, 0);
	auto words = assemble("adr x7,", all);
	for (size_t i = 0; i < all.size(); i++) {
		long off = all[i];
		cpu_state before, after;
		before.pc = 0xffffffff80401234;
		after.pc = before.pc + 4;
		after.x[7] = before.pc + off;
		expect_emulated("adr", words[i], before, after);
		/* adrp has the same fields, of pages: bit 31. */
		after.x[7] = 0xffffffff80401000 + off * 4096;
		expect_emulated("adrp", words[i] | 1u << 31, before, after);
	}
	EXPECT_EQ(assemble("adrp x7, .") & 0x9f00001f, 0x90000007);
	cpu_state before, after;
	after.pc = before.pc + 4;
	expect_emulated("adr xzr", assemble("adr xzr, . + 8"), before, after);
}

TEST(probe, conditions_hold_as_their_names_say)
{
	typedef bool (*test)(bool n, bool z, bool c, bool v);
	struct {
		const char *name;
		test holds;
	} rows[] = {{"eq", [](bool n, bool z, bool c, bool v) { return z; }},
		    {"ne", [](bool n, bool z, bool c, bool v) { return !z; }},
		    {"hs", [](bool n, bool z, bool c, bool v) { return c; }},
		    {"lo", [](bool n, bool z, bool c, bool v) { return !c; }},
		    {"mi", [](bool n, bool z, bool c, bool v) { return n; }},
		    {"pl", [](bool n, bool z, bool c, bool v) { return !n; }},
		    {"vs", [](bool n, bool z, bool c, bool v) { return v; }},
		    {"vc", [](bool n, bool z, bool c, bool v) { return !v; }},
		    {"hi", [](bool n, bool z, bool c, bool v) { return c && !z; }},
		    {"ls", [](bool n, bool z, bool c, bool v) { return !c || z; }},
		    {"ge", [](bool n, bool z, bool c, bool v) { return n == v; }},
		    {"lt", [](bool n, bool z, bool c, bool v) { return n != v; }},
		    {"gt", [](bool n, bool z, bool c, bool v) { return !z && n == v; }},
		    {"le", [](bool n, bool z, bool c, bool v) { return z || n != v; }},
		    {"al", [](bool n, bool z, bool c, bool v) { return true; }},
		    {"nv", [](bool n, bool z, bool c, bool v) { return true; }}};
	for (auto &row : rows) {
		std::string line = to(std::string("b.") + row.name, -64);
		u32 insn = assemble(line);
		for (unsigned long nzcv = 0; nzcv < 16; nzcv++) {
			bool taken = row.holds(nzcv & 8, nzcv & 4, nzcv & 2, nzcv & 1);
			expect_jump(line, insn, taken ? -64 : 4, false, cpu_state(),
				    nzcv << 28 | 0x3c5);
		}
	}
	expect_jumps("b.eq", 19, false, 4ul << 28);
	EXPECT_NE(PROBE_EMULATED, probe_classify(assemble("b.eq .") | 16)); /* bc.eq */
}

TEST(probe, compare_and_branch)
{
	for (bool wide : {false, true})
		for (bool zero : {false, true}) {
			std::string line =
				std::string(zero ? "cbz " : "cbnz ") + (wide ? "x" : "w");
			u32 insn = assemble(to(line + "5,", 32)),
			    reg31 = assemble(to(line + "zr,", 32));
			for (unsigned long v : values) {
				cpu_state s;
				s.x[5] = v;
				s.x[31] = 1; /* never read: it is the zero register */
				expect_jump(line, insn, ((wide ? v : (u32)v) == 0) == zero ? 32 : 4,
					    false, s);
				expect_jump(line + "zr", reg31, zero ? 32 : 4, false, s);
			}
		}
	expect_jumps("cbz xzr,", 19, false);
}

TEST(probe, test_and_branch)
{
	std::vector<std::string> lines;
	for (int bit = 0; bit < 64; bit++)
		for (const char *name : {"tbnz ", "tbz "})
			lines.push_back(to(name + std::string(bit < 32 ? "w5, #" : "x5, #") +
						   std::to_string(bit) + ",",
					   -4096));
	auto words = assemble(lines);
	for (size_t i = 0; i < lines.size(); i++) {
		int bit = i / 2;
		bool zero = i % 2;
		for (unsigned long v : {0ul, ~0ul, 1ul << bit, ~(1ul << bit)}) {
			cpu_state s;
			s.x[5] = v;
			expect_jump(lines[i], words[i], !(v >> bit & 1) == zero ? -4096 : 4, false,
				    s);
		}
	}
	expect_jumps("tbz wzr, #3,", 14, false);
}

TEST(probe, branches_to_registers)
{
	struct {
		const char *line;
		int rn;
		bool links;
	} rows[] = {{"br x3", 3, false},  {"blr x3", 3, true},	 {"ret", 30, false},
		    {"ret x9", 9, false}, {"blr x30", 30, true}, {"br xzr", 31, false}};
	for (auto &row : rows) {
		cpu_state before;
		before.pc = 0xffffffff80401000;
		before.x[31] = 0xbad;
		cpu_state after = before;
		after.pc = row.rn == 31 ? 0 : before.x[row.rn];
		if (row.links)
			after.x[30] = before.pc + 4;
		expect_emulated(row.line, assemble(row.line), before, after);
	}
}

TEST(probe, loads_of_literals)
{
	alignas(8) static u32 memory[1 << 12];
	for (size_t i = 0; i < 1 << 12; i++)
		memory[i] = i * 0x9e3779b1u;
	u32 *middle = memory + (1 << 11);
	for (long off : {0l, 8l, -8l, 800l, -4096l, 8184l, -8192l}) {
		cpu_state before;
		before.pc = (unsigned long)middle;
		const char *const names[] = {"ldr x4,", "ldr w4,", "ldrsw x4,", "ldr xzr,",
					     "prfm pldl1keep,"};
		for (int i = 0; i < 5; i++) {
			u32 at[2] = {middle[off / 4], middle[off / 4 + 1]};
			cpu_state after = before;
			after.pc += 4;
			if (i == 0)
				after.x[4] = at[0] | (unsigned long)at[1] << 32;
			if (i == 1)
				after.x[4] = at[0];
			if (i == 2)
				after.x[4] = at[0] >> 31 ? at[0] | 0xffffffff00000000 : at[0];
			expect_emulated(names[i], assemble(to(names[i], off)), before, after);
		}
	}
}
