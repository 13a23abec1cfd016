// needs: kern/loader/elf.c kern/loader/relocate.c kern/arch/riscv64/reloc.c
// needs: -Ikern/ftrace/tests/host -Ikern/loader/tests/riscv64 -Wno-volatile
/* Relocations of riscv64, at the limits of their ranges, compared with the assembler. */
#define CROSS "riscv64-linux-gnu-"
#define TARGET "riscv64-linux-gnu"
#define AS_FLAGS "-march=rv64ima_zicsr_zifencei -mabi=lp64 -mno-relax"
#define CC_FLAGS                                                                              \
	"-march=rv64ima_zicsr_zifencei -mabi=lp64 -mcmodel=medany -mno-relax " \
	"-msmall-data-limit=0 -fpatchable-function-entry=1"
#define CLANG_FLAGS \
	"-march=rv64ima -mabi=lp64 -mcmodel=medany -mno-relax -fpatchable-function-entry=1"
#define OTHER_AS "aarch64-linux-gnu-as"
#include "elf_test.h"

enum {
	R_32 = 1,
	R_64 = 2,
	BRANCH = 16,
	JAL,
	CALL,
	CALL_PLT,
	GOT_HI20,
	PCREL_HI20 = 23,
	LO_I,
	LO_S,
	HI20,
	LO12_I,
	LO12_S,
	TPREL_HI20,
	ADD8 = 33,
	SUB8 = 37,
	ALIGN = 43,
	RVC_JUMP = 45,
	RELAX = 51,
	SUB6 = 52,
	SET6,
	SET8,
	SET16,
	SET32,
	PCREL_32,
	PLT32 = 59
};

TEST(riscv64, branches_and_jumps_reach_to_their_limits)
{
	try_each({
		{BRANCH, "beq a0, a1, .", "beq a0, a1, . + 4092", 4092, true, 0},
		{BRANCH, "bltu a0, a1, .", "bltu a0, a1, . - 4096", -4096, true, 0},
		{BRANCH, "beq a0, a1, .", "beq a0, a1, . + 0xaac", 0xaac, true, 0},
		{BRANCH, "beq a0, a1, .", "", 4096, true, -ERANGE},
		{BRANCH, "beq a0, a1, .", "", -4100, true, -ERANGE},
		{BRANCH, "beq a0, a1, .", "", 2, true, -EINVAL},
		{JAL, "jal ra, .", "jal ra, . + 1048572", 1048572, true, 0},
		{JAL, "jal t0, .", "jal t0, . - 1048576", -1048576, true, 0},
		{JAL, "jal t0, .", "jal t0, . + 0x5a5a8", 0x5a5a8, true, 0},
		{JAL, "jal ra, .", "", 1048576, true, -ERANGE},
		{JAL, "jal ra, .", "", -1048580, true, -ERANGE},
		{JAL, "jal ra, .", "", 6, true, -EINVAL},
	});
}

TEST(riscv64, each_bit_of_an_offset_has_its_place)
{
	try_bits(BRANCH, "beq a0, a1,", 2, 11);
	try_bits(JAL, "jal t0,", 2, 19);
	std::vector<Tried> rows;
	std::vector<std::string> text;
	for (int bit = 0; bit <= 10; bit++)
		text.push_back("sw a0, " + std::to_string(1 << bit) + "(a1)");
	for (int bit = 0; bit <= 10; bit++)
		rows.push_back({LO12_S, "sw a0, 0(a1)", text[bit].c_str(), 1l << bit, false, 0});
	try_each(rows);
}

TEST(riscv64, pairs_reach_to_their_limits)
{
	for (u32 type : {CALL, CALL_PLT})
		try_each({
			{type, "auipc ra, 0\njalr ra", "auipc ra, 0x7ffff\njalr ra, 2044(ra)",
			 0x7ffff7fc, true, 0},
			{type, "auipc t1, 0\njalr x0, 0(t1)",
			 "auipc t1, 0x80000\njalr x0, -2048(t1)", -0x80000800l, true, 0},
			{type, "auipc ra, 0\njalr ra", "auipc ra, 1\njalr ra, -2048(ra)", 0x800,
			 true, 0},
			{type, "auipc ra, 0\njalr ra", "", 0x7ffff800, true, -ERANGE},
			{type, "auipc ra, 0\njalr ra", "", -0x80000804l, true, -ERANGE},
			{type, "auipc ra, 0\njalr ra", "", 2, true, -EINVAL},
		});
	try_each({
		{PCREL_HI20, "auipc a0, 0", "auipc a0, 0x7ffff", 0x7ffff7ff, true, 0},
		{PCREL_HI20, "auipc a0, 0", "auipc a0, 0x80000", -0x80000800l, true, 0},
		{PCREL_HI20, "auipc a0, 0", "", 0x7ffff800, true, -ERANGE},
		{PCREL_HI20, "auipc a0, 0", "", -0x80000801l, true, -ERANGE},
		{HI20, "lui a0, 0", "lui a0, 0x7ffff", 0x7ffff7ff, false, 0},
		{HI20, "lui a0, 0", "lui a0, 0x80000", -0x80000800l, false, 0},
		{HI20, "lui a0, 0", "", 0x7ffff800, false, -ERANGE},
		{HI20, "lui a0, 0", "", -0x80000801l, false, -ERANGE},
		{LO12_I, "addi a0, a0, 0", "addi a0, a0, 2047", 0x7ffff7ff, false, 0},
		{LO12_I, "lw a0, 0(a1)", "lw a0, -2048(a1)", 0x800, false, 0},
		{LO12_I, "lw a0, 0(a1)", "", 0x7ffff800, false, -ERANGE},
		{LO12_S, "sd a0, 0(a1)", "sd a0, 0x555(a1)", 0x1555, false, 0},
		{LO12_S, "sb a0, 0(a1)", "sb a0, -1(a1)", -0x80000001l, false, 0},
		{LO12_S, "sb a0, 0(a1)", "", -0x80000801l, false, -ERANGE},
	});
}

TEST(riscv64, words)
{
	try_word(R_64, 8, 0x123456789abcdef0, false, 0);
	try_word(R_32, 4, 0xffffffff, false, 0);
	try_word(R_32, 4, -0x80000000l, false, 0);
	try_word(R_32, 4, 0x100000000, false, -ERANGE);
	try_word(R_32, 4, -0x80000001l, false, -ERANGE);
	for (u32 type : {PCREL_32, PLT32}) {
		try_word(type, 4, 0x7fffffff, true, 0);
		try_word(type, 4, -0x80000000l, true, 0);
		try_word(type, 4, 0x80000000, true, -ERANGE);
		try_word(type, 4, -0x80000001l, true, -ERANGE);
	}
}

TEST(riscv64, differences_are_made_in_their_width)
{
	for (unsigned n = 0; n < 4; n++) {
		unsigned width = 1 << n, unused = 64 - 8 * width;
		One one;
		reloc_put(one.text, 8, 0x1122334455667788);
		one.apply(ADD8 + n, 0xfedcba9876543210, 0);
		u64 sum = 0x1122334455667788 + 0xfedcba9876543210;
		EXPECT_EQ(sum << unused, reloc_get(one.text, width) << unused);
		one.apply(SUB8 + n, 0xfedcba9876543210, 0);
		EXPECT_EQ(0x1122334455667788u, reloc_get(one.text, 8)) << "and only there";
	}
	One one;
	memset(one.text, 0xff, 8);
	one.apply(SET6, 0x84);
	EXPECT_EQ(0xc4, one.text[0]);
	one.apply(SUB6, 0x45);
	EXPECT_EQ(0xff, one.text[0]) << "4 - 5, modulo 64; the upper bits stay";
	one.apply(SUB6, 1);
	EXPECT_EQ(0xfe, one.text[0]);
	one.apply(SET8, 0x1234);
	EXPECT_EQ(0xffffff34u, reloc_get(one.text, 4));
	one.apply(SET16, 0x12345);
	EXPECT_EQ(0xffff2345u, reloc_get(one.text, 4));
	one.apply(SET32, 0x123456789);
	EXPECT_EQ(0xffffffff23456789u, reloc_get(one.text, 8));
}

TEST(riscv64, nops_that_do_not_align_are_refused)
{
	for (u32 at : {0, 4, 8, 12, 16, 28})
		for (u64 nops : {0, 4, 12, 28, 4092}) {
			u64 to = nops == 0 ? 1 : nops + 4;
			One one;
			EXPECT_EQ((at + nops) % to ? -EINVAL : 0, one.apply(ALIGN, nops, at))
				<< nops << " bytes at " << at;
		}
	One one;
	EXPECT_EQ(-EINVAL, one.apply(ALIGN, 4096));
	EXPECT_EQ(-EINVAL, one.apply(ALIGN, ~0ul));
	EXPECT_EQ(0, one.apply(RELAX, 0x1234567));
}

/* Calls, loads and stores, with linker relaxation's relocations beside them. */
TEST(riscv64, a_low_part_follows_its_label)
{
	for (const char *option : {"norelax", "relax"}) {
		Linked m(assemble(std::string(".option ") + option + R"(
			.globl far_variable
			j 2f                                 # a low part before its label
		1:	addi a0, a0, %pcrel_lo(2f)
			ret
		2:	auipc a0, %pcrel_hi(far_variable + 4)
			j 1b
		3:	auipc a1, %pcrel_hi(v)
			sd a0, %pcrel_lo(3b)(a1)
			lw a2, %pcrel_lo(3b)(a1)
		4:	auipc a3, %got_pcrel_hi(far_variable)
			ld a3, %pcrel_lo(4b)(a3)
			.data
		v:	.8byte 0
		)"));
		ASSERT_EQ(0, m.err) << said;
		auto high = [&](u32 at) {
			return TEXT + at + (s32)(m.word(TEXT + at) & 0xfffff000);
		};
		auto low = [&](u32 at) { return (s32)m.word(TEXT + at) >> 20; };
		auto low_s = [&](u32 at) {
			s32 w = m.word(TEXT + at);
			return (w >> 25) * 32 + (w >> 7 & 31);
		};
		EXPECT_EQ(0x1050000cu, high(12) + low(4));
		EXPECT_EQ(DATA, high(20) + low_s(24));
		EXPECT_EQ(DATA, high(20) + low(28));
		EXPECT_EQ(RODATA, high(32) + low(36)) << "the GOT's only entry";
		EXPECT_EQ(0x10500008u, m.word(RODATA, 8));
		EXPECT_EQ(1u, m.elf.gots);
	}
}

TEST(riscv64, a_low_part_without_its_label_is_refused)
{
	Linked m(assemble(
		"label: nop\naddi a0, a0, %pcrel_lo(label)\nauipc a0, %pcrel_hi(printk)\n"));
	EXPECT_EQ(-ENOEXEC, m.err);
	EXPECT_EQ("module m: relocation R_RISCV_PCREL_LO12_I (type 24) at .text+0x4 has no HI20 "
		  "relocation at its label, 0x10000000 (label)\n",
		  said);
}

TEST(riscv64, lookups_of_labels_are_bounded)
{
	std::string source = "1: nop\n";
	for (int i = 0; i < 20000; i++)
		source += "addi a0, a0, %pcrel_lo(1b)\n";
	Linked m(assemble(source + "2: auipc a0, %pcrel_hi(printk)\n"));
	EXPECT_EQ(-ENOEXEC, m.err);
	Linked n(assemble("1: auipc a0, %pcrel_hi(printk)\n" + source.substr(7)));
	EXPECT_EQ(-ENOEXEC, n.err) << "20,000 for one label is absurd";
	EXPECT_EQ(0u, n.elf.steps);
}

TEST(riscv64, a_missing_weak_symbol_takes_no_reach)
{
	Linked m(assemble(".weak absent\ncall absent\n1: auipc a0, %pcrel_hi(absent)\naddi a0, a0, "
			  "%pcrel_lo(1b)\n"
			  "lla a1, absent + 0x1234\n"),
		 {}, 0xffffffff80000000ul);
	ASSERT_EQ(0, m.err) << said;
	Bytes want = text_of(assemble("auipc ra, 0\njalr ra, 0(x0)\nlui a0, 0\naddi a0, a0, 0\nlui "
				      "a1, 1\naddi a1, a1, 0x234\n"));
	EXPECT_EQ(want, Bytes(m.elf.memory[MODULE_TEXT], m.elf.memory[MODULE_TEXT] + want.size()));
}

TEST(riscv64, what_is_out_of_reach_is_named)
{
	Linked m(assemble("nop\njal printk\n"));
	EXPECT_EQ(-ERANGE, m.err);
	EXPECT_EQ("module m: relocation R_RISCV_JAL (type 17) at .text+0x4 does not reach "
		  "0x10400000 (printk)\n",
		  said);
	Linked n(assemble(".data\nv: .byte 1,2\n.text\njal v + 1\n"), {}, TEXT);
	EXPECT_EQ(-ERANGE, n.err);
	Linked o(assemble("nop\ncall printk + 2\n"));
	EXPECT_EQ(-ERANGE, o.err);
	EXPECT_EQ("module m: relocation R_RISCV_CALL_PLT (type 19) at .text+0x4 needs an aligned "
		  "address, not 0x10400002 (printk)\n",
		  said);
}

TEST(riscv64, compressed_and_thread_local_code_is_refused_by_name)
{
	Bytes b = good();
	rela(b).type = RVC_JUMP;
	Linked m(b);
	EXPECT_EQ(0u, said.find("module m: relocation R_RISCV_RVC_JUMP (type 45) at .text+0x"))
		<< said;
	rela(b).type = TPREL_HI20;
	Linked n(b);
	EXPECT_EQ(0u, said.find("module m: relocation R_RISCV_TPREL_HI20 (type 29) at .text+0x"))
		<< said;
	Linked o(assemble("lui a0, %tprel_hi(printk)\n"));
	EXPECT_EQ(-ENOEXEC, o.err);
	EXPECT_EQ("module m: symbol 'printk' is thread-local or found at run time (IFUNC)\n", said);
}
