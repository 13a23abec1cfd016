// needs: -Ikern/ftrace/tests/host/riscv64
#define CROSS "riscv64-linux-gnu-"
#define AS_FLAGS "-march=rv64ima_zicsr_zifencei -mno-relax"
#define JUMP "j"
#define JUMP_BITS 20
#define JUMP_SHIFT 1
#define BREAK "ebreak"
#include "probe_test.h"

TEST(probe, position_independent_instructions_run_in_a_slot)
{
	expect_class(PROBE_SLOT,
		     {"nop", "lui a0, 0x12345", "lui tp, 1", "addi a0, a1, -1", "addi sp, sp, -16",
		      "slti a0, a1, 1", "sltiu a0, a1, 1", "xori a0, a1, 1", "ori a0, a1, 1",
		      "andi a0, a1, 1", "slli a0, a1, 63", "srli a0, a1, 63", "srai a0, a1, 63",
		      "addiw a0, a1, 1", "slliw a0, a1, 31", "srliw a0, a1, 31",
		      "sraiw a0, a1, 31"});
	expect_class(
		PROBE_SLOT,
		{"add a0, a1, a2",  "sub a0, a1, a2",	 "sll a0, a1, a2",   "slt a0, a1, a2",
		 "sltu a0, a1, a2", "xor a0, a1, a2",	 "srl a0, a1, a2",   "sra a0, a1, a2",
		 "or a0, a1, a2",   "and a0, a1, a2",	 "addw a0, a1, a2",  "subw a0, a1, a2",
		 "sllw a0, a1, a2", "srlw a0, a1, a2",	 "sraw a0, a1, a2",  "mul a0, a1, a2",
		 "mulh a0, a1, a2", "mulhsu a0, a1, a2", "mulhu a0, a1, a2", "div a0, a1, a2",
		 "divu a0, a1, a2", "rem a0, a1, a2",	 "remu a0, a1, a2",  "mulw a0, a1, a2",
		 "divw a0, a1, a2", "divuw a0, a1, a2",	 "remw a0, a1, a2",  "remuw a0, a1, a2"});
	expect_class(PROBE_SLOT, {"lb a0, 1(a1)", "lh a0, 2(a1)", "lw a0, 4(a1)", "ld a0, 8(a1)",
				  "lbu a0, 1(a1)", "lhu a0, 2(a1)", "lwu a0, 4(a1)", "sb a0, 1(a1)",
				  "sh a0, 2(a1)", "sw a0, 4(a1)", "sd a0, 8(a1)", "ld ra, 8(sp)",
				  "fence", "fence rw, w", "fence.tso"});
	std::vector<std::string> atomics;
	for (std::string op : {"add", "swap", "xor", "and", "or", "min", "max", "minu", "maxu"})
		for (std::string size : {".w", ".d", ".w.aq", ".d.rl", ".d.aqrl"})
			atomics.push_back("amo" + op + size + " a0, a1, (a2)");
	expect_class(PROBE_SLOT, atomics);
	expect_class(PROBE_SLOT, {"csrr a0, sstatus", "csrrci a0, sstatus, 2", "csrs sstatus, a0",
				  "csrw sstatus, a0", "csrsi sie, 2", "csrc sip, a0", "rdcycle a0",
				  "rdtime a0", "rdinstret a0"});
}

TEST(probe, refused_instructions)
{
	expect_class(PROBE_REFUSED_EXCLUSIVE,
		     {"lr.w a0, (a1)", "lr.d a0, (a1)", "lr.d.aqrl a0, (a1)", "sc.w a0, a2, (a1)",
		      "sc.d a0, a2, (a1)", "sc.d.rl a0, a2, (a1)"});
	expect_class(PROBE_REFUSED_SYSTEM,
		     {"ecall", "ebreak", "sret", "mret", "wfi", "sfence.vma", "sfence.vma a0, a1",
		      "fence.i", "csrr a0, sepc", "csrr a0, scause", "csrr a0, stval",
		      "csrr a0, sscratch", "csrw sscratch, a0", "csrw stvec, a0", "csrw satp, a0",
		      "csrrsi a0, satp, 1"});
	/* Registers that the return from an exception does not restore. */
	expect_class(PROBE_REFUSED_SYSTEM, {"auipc sp, 1", "auipc tp, 1", "jal sp, .", "jal tp, .",
					    "jalr sp, 0(a0)", "jalr tp, 0(a0)"});
	expect_class(PROBE_REFUSED_UNKNOWN,
		     {".word 0", ".word -1", ".word 0x00010001" /* two compressed ones */,
		      ".word 0x00007003" /* a load of funct3 7 */,
		      ".word 0x00004023" /* a store of 4 */, ".word 0x00002063" /* a branch of 2 */,
		      ".word 0x00003063", ".word 0x00001067" /* jalr of 1 */,
		      ".word 0x0000002f" /* amo of 0 */, ".word 0x0000200f" /* cbo */,
		      ".word 0x00002007" /* flw */, ".word 0x00002027" /* fsw */,
		      ".word 0x00000053" /* fadd.s */, ".word 0x00000043" /* fmadd.s */,
		      ".word 0x00000057" /* vectors */, ".word 0x0000000b" /* custom */});
}

TEST(probe, exclusive_sequences_begin_and_end)
{
	EXPECT_EQ(1, probe_exclusive(assemble("lr.d a0, (a1)")));
	EXPECT_EQ(1, probe_exclusive(assemble("lr.w.aqrl a0, (a1)")));
	EXPECT_EQ(-1, probe_exclusive(assemble("sc.d a0, a2, (a1)")));
	EXPECT_EQ(-1, probe_exclusive(assemble("sc.w.rl a0, a2, (a1)")));
	EXPECT_EQ(0, probe_exclusive(assemble("amoadd.d a0, a2, (a1)")));
	EXPECT_EQ(0, probe_exclusive(assemble("add a0, a2, a1")));
}

TEST(probe, auipc_adds_to_pc)
{
	for (unsigned long page : {0ul, 1ul, 0x12345ul, 0x7fffful, 0x80000ul, 0xffffful})
		for (int rd : {0, 1, 10, 31}) {
			std::string line =
				"auipc x" + std::to_string(rd) + ", " + std::to_string(page);
			cpu_state before, after;
			before.pc = 0xffffffff80001234;
			after.pc = before.pc + 4;
			if (rd)
				after.x[rd] = before.pc + (long)((page ^ 0x80000) - 0x80000) * 4096;
			expect_emulated(line, assemble(line), before, after);
		}
}

TEST(probe, jal_jumps_and_links)
{
	for (int rd : {0, 1, 5, 31}) {
		std::string line = "jal x" + std::to_string(rd) + ",";
		auto all = offsets(20, 1);
		auto words = assemble(line, all);
		for (size_t i = 0; i < all.size(); i++) {
			cpu_state before, after;
			before.pc = 0xffffffff80100000;
			after.pc = before.pc + all[i];
			if (rd)
				after.x[rd] = before.pc + 4;
			expect_emulated(to(line, all[i]), words[i], before, after);
		}
	}
}

TEST(probe, jalr_jumps_to_a_register_and_links)
{
	struct {
		const char *line;
		int rd, rs;
		long off;
	} rows[] = {{"ret", 0, 1, 0},
		    {"jr a5", 0, 15, 0},
		    {"jalr a5", 1, 15, 0},
		    {"jalr ra, 2047(ra)", 1, 1, 2047},
		    {"jalr a0, -2048(a1)", 10, 11, -2048},
		    {"jalr a0, -4(zero)", 10, 0, -4},
		    {"jalr x0, 8(sp)", 0, 2, 8}};
	for (auto &row : rows) {
		cpu_state before, after;
		before.x[0] = after.x[0] = 0xbad; /* never read, never written */
		before.pc = 0xffffffff80001000;
		after.pc = ((row.rs ? before.x[row.rs] : 0) + row.off) & ~1ul;
		if (row.rd)
			after.x[row.rd] = before.pc + 4;
		expect_emulated(row.line, assemble(row.line), before, after);
	}
}

TEST(probe, branches_are_taken_as_their_names_say)
{
	struct {
		std::string name;
		bool (*taken)(unsigned long a, unsigned long b);
	} rows[] = {{"beq", [](unsigned long a, unsigned long b) { return a == b; }},
		    {"bne", [](unsigned long a, unsigned long b) { return a != b; }},
		    {"blt", [](unsigned long a, unsigned long b) { return (long)a < (long)b; }},
		    {"bge", [](unsigned long a, unsigned long b) { return (long)a >= (long)b; }},
		    {"bltu", [](unsigned long a, unsigned long b) { return a < b; }},
		    {"bgeu", [](unsigned long a, unsigned long b) { return a >= b; }}};
	for (auto &row : rows) {
		u32 insn = assemble(to(row.name + " a0, a1,", -96)),
		    zero = assemble(to(row.name + " x0, x31,", 96));
		for (unsigned long a : values)
			for (unsigned long b : values) {
				cpu_state before;
				before.x[0] = 0xbad;
				before.x[10] = a;
				before.x[11] = before.x[31] = b;
				before.pc = 0xffffffff80001000;
				cpu_state after = before;
				after.pc += row.taken(a, b) ? -96 : 4;
				expect_emulated(row.name, insn, before, after);
				after.pc = before.pc + (row.taken(0, b) ? 96 : 4);
				expect_emulated(row.name + " x0", zero, before, after);
			}
	}
	auto all = offsets(12, 1);
	auto words = assemble("beq x0, x0,", all);
	for (size_t i = 0; i < all.size(); i++) {
		cpu_state before, after;
		before.pc = 0xffffffff80001000;
		after.pc = before.pc + all[i];
		expect_emulated(to("beq x0, x0,", all[i]), words[i], before, after);
	}
}
