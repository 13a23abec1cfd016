// needs: kern/loader/elf.c kern/loader/relocate.c kern/arch/arm64/reloc.c -Ikern/ftrace/tests/host
// needs: -Ikern/loader/tests/arm64
/* Relocations of arm64, at the limits of their ranges, compared with the assembler. */
#define CROSS "aarch64-linux-gnu-"
#define TARGET "aarch64-linux-gnu"
#define AS_FLAGS ""
#define CC_FLAGS \
	"-mgeneral-regs-only -mno-outline-atomics -mbranch-protection=none " \
	"-fpatchable-function-entry=2"
#define CLANG_FLAGS "-mgeneral-regs-only -fpatchable-function-entry=2"
#define OTHER_AS "riscv64-linux-gnu-as"
#include "elf_test.h"

extern "C" bool host_is_cortex_a53;

enum {
	NONE = 256,
	ABS64,
	ABS32,
	ABS16,
	PREL64,
	PREL32,
	PREL16,
	UABS_G0,
	UABS_G0_NC,
	UABS_G1,
	UABS_G1_NC,
	UABS_G2,
	UABS_G2_NC,
	UABS_G3,
	SABS_G0,
	SABS_G1,
	SABS_G2,
	LD_PREL_LO19,
	ADR_LO21,
	ADR_PG,
	ADR_PG_NC,
	ADD_LO12,
	LDST8,
	TSTBR14,
	CONDBR19,
	JUMP26 = 282,
	CALL26,
	LDST16,
	LDST32,
	LDST64,
	PREL_G0,
	PREL_G0_NC,
	PREL_G1,
	PREL_G1_NC,
	PREL_G2,
	PREL_G2_NC,
	PREL_G3,
	LDST128 = 299,
	GOTREL64 = 307,
	ADR_GOT_PAGE = 311,
	LD64_GOT,
	PLT32 = 314
};

TEST(arm64, branches_reach_to_their_limits)
{
	try_each({
		{CALL26, "bl .", "bl . + 0x7fffffc", 0x7fffffc, true, 0},
		{JUMP26, "b .", "b . - 0x8000000", -0x8000000, true, 0},
		{CALL26, "bl .", "", 6, true, -EINVAL},
		{CONDBR19, "b.ne .", "b.ne . + 0xffffc", 0xffffc, true, 0},
		{CONDBR19, "cbz x3, .", "cbz x3, . - 0x100000", -0x100000, true, 0},
		{CONDBR19, "b.ne .", "", 0x100000, true, -ERANGE},
		{CONDBR19, "b.ne .", "", -0x100004, true, -ERANGE},
		{CONDBR19, "b.ne .", "", 2, true, -EINVAL},
		{TSTBR14, "tbz x3, 40, .", "tbz x3, 40, . + 0x7ffc", 0x7ffc, true, 0},
		{TSTBR14, "tbnz w3, 4, .", "tbnz w3, 4, . - 0x8000", -0x8000, true, 0},
		{TSTBR14, "tbz x3, 40, .", "", 0x8000, true, -ERANGE},
		{TSTBR14, "tbz x3, 40, .", "", -0x8004, true, -ERANGE},
		{TSTBR14, "tbz x3, 40, .", "", 1, true, -EINVAL},
		{LD_PREL_LO19, "ldr x3, .", "ldr x3, . + 0xffffc", 0xffffc, true, 0},
		{LD_PREL_LO19, "ldr x3, .", "ldr x3, . - 0x100000", -0x100000, true, 0},
		{LD_PREL_LO19, "ldr x3, .", "", 0x100000, true, -ERANGE},
		{LD_PREL_LO19, "ldr x3, .", "", -0x100004, true, -ERANGE},
		{LD_PREL_LO19, "ldr x3, .", "", 3, true, -EINVAL},
	});
}

TEST(arm64, each_bit_of_an_offset_has_its_place)
{
	try_bits(CALL26, "bl", 2, 26);
	try_bits(CONDBR19, "b.ne", 2, 19);
	try_bits(TSTBR14, "tbz x3, 40,", 2, 14);
	try_bits(ADR_LO21, "adr x3,", 0, 19);
}

TEST(arm64, addresses_reach_to_their_limits)
{
	const char *zero = ".4byte 0x90000003", *max = ".4byte 0xf07fffe3",
		   *min = ".4byte 0x90800003";
	try_each({
		{ADR_LO21, "adr x3, .", "adr x3, . + 0xfffff", 0xfffff, true, 0},
		{ADR_LO21, "adr x3, .", "adr x3, . - 0x100000", -0x100000, true, 0},
		{ADR_LO21, "adr x3, .", "", 0x100000, true, -ERANGE},
		{ADR_LO21, "adr x3, .", "", -0x100001, true, -ERANGE},
		{ADR_PG, zero, max, 0xffffffff, true, 0},
		{ADR_PG, zero, min, -0x100000000, true, 0},
		{ADR_PG, zero, ".4byte 0xb0000003", 0x1abc, true, 0},
		{ADR_PG, zero, "", 0x100000000, true, -ERANGE},
		{ADR_PG, zero, "", -0x100000001, true, -ERANGE},
		{ADR_PG_NC, zero, min, 0x100000000, true, 0},
		{ADD_LO12, "add x3, x4, 0", "add x3, x4, 0xfff", 0x123456789fff, false, 0},
		{LDST8, "ldrb w3, [x4]", "ldrb w3, [x4, 0xfff]", 0x1fff, false, 0},
		{LDST16, "ldrh w3, [x4]", "ldrh w3, [x4, 0xffe]", 0x1ffe, false, 0},
		{LDST16, "ldrh w3, [x4]", "", 0x1fff, false, -EINVAL},
		{LDST32, "str w3, [x4]", "str w3, [x4, 0xffc]", 0x1ffc, false, 0},
		{LDST32, "str w3, [x4]", "", 0x1ffe, false, -EINVAL},
		{LDST64, "ldr x3, [x4]", "ldr x3, [x4, 0xff8]", 0x1ff8, false, 0},
		{LDST64, "ldr x3, [x4]", "", 0x1ffc, false, -EINVAL},
		{LDST128, "ldr q3, [x4]", "ldr q3, [x4, 0xff0]", 0x1ff0, false, 0},
		{LDST128, "ldr q3, [x4]", "", 0x1ff8, false, -EINVAL},
	});
}

TEST(arm64, no_adrp_ends_a_page_where_adr_reaches)
{
	const u32 adrp = 0x90000003, adr = 0x10000003;
	One one;
	for (u32 at : {0xff4u, 0xff8u, 0xffcu}) {
		reloc_put(one.text, 4, adrp);
		EXPECT_EQ(0,
			  arch_relocate(&one.elf, ADR_PG, one.text, PLACE + at, PLACE + 0x5123, 1));
		/* 0x5000 - at, and five pages */
		EXPECT_EQ(at < 0xff8 ? adrp | 1 << 29 | 1 << 5 : adr | (0x5000 - at) >> 2 << 5,
			  reloc_get(one.text, 4))
			<< at;
	}
	for (long far : {0x100000l, -0xff000l}) { /* adr reaches 1 MiB */
		reloc_put(one.text, 4, adrp);
		EXPECT_EQ(0,
			  arch_relocate(&one.elf, ADR_PG, one.text, PLACE + 0xff8, PLACE + far, 1));
		EXPECT_EQ(adr, reloc_get(one.text, 4) & 0x9f00001f) << far;
	}
	for (long far : {0x101000l, -0x100000l}) {
		reloc_put(one.text, 4, adrp);
		EXPECT_EQ(0,
			  arch_relocate(&one.elf, ADR_PG, one.text, PLACE + 0xffc, PLACE + far, 1));
		EXPECT_EQ(adrp, reloc_get(one.text, 4) & 0x9f00001f) << far;
	}
}

TEST(arm64, an_adrp_that_a_cortex_a53_may_mistake_is_refused_there)
{
	Bytes file = assemble(".org 0xff8\nadrp x0, printk\n");
	EXPECT_EQ(0, Linked(file).err);
	host_is_cortex_a53 = true;
	Linked m(file);
	host_is_cortex_a53 = false;
	EXPECT_EQ(-ERANGE, m.err);
	EXPECT_EQ("module m: relocation R_AARCH64_ADR_PREL_PG_HI21 (type 275) at .text+0xff8 ends "
		  "a page, where a Cortex-A53 may use "
		  "a wrong address (erratum 843419), and adr does not reach 0x10400000 (printk)\n",
		  said);
}

TEST(arm64, moves_of_16_bits_hold_their_part)
{
	const long v = 0x1234567890abcdef;
	const char *z = "movz x3, 0", *k = "movk x3, 0", *k1 = "movk x3, 0, lsl 16",
		   *k2 = "movk x3, 0, lsl 32", *k3 = "movk x3, 0, lsl 48",
		   *z1 = "movz x3, 0, lsl 16", *z2 = "movz x3, 0, lsl 32";
	try_each({
		{UABS_G0, z, "movz x3, 0xffff", 0xffff, false, 0},
		{UABS_G0, z, "", 0x10000, false, -ERANGE},
		{UABS_G0, z, "", -1, false, -ERANGE},
		{UABS_G1, z1, "movz x3, 0xffff, lsl 16", 0xffffffff, false, 0},
		{UABS_G1, z1, "", 0x100000000, false, -ERANGE},
		{UABS_G2, z2, "movz x3, 0xffff, lsl 32", 0xffffffffffff, false, 0},
		{UABS_G2, z2, "", 0x1000000000000, false, -ERANGE},
		{UABS_G3, k3, "movk x3, 0x1234, lsl 48", v, false, 0},
		{UABS_G0_NC, k, "movk x3, 0xcdef", v, false, 0},
		{UABS_G1_NC, k1, "movk x3, 0x90ab, lsl 16", v, false, 0},
		{UABS_G2_NC, k2, "movk x3, 0x5678, lsl 32", v, false, 0},
		{SABS_G0, z, "movz x3, 0xffff", 0xffff, false, 0},
		{SABS_G0, z, "movn x3, 0xffff", -0x10000, false, 0},
		{SABS_G0, z, "movn x3, 1", -2, false, 0},
		{SABS_G0, "movn x3, 0", "movz x3, 2", 2, false, 0},
		{SABS_G0, z, "", 0x10000, false, -ERANGE},
		{SABS_G0, z, "", -0x10001, false, -ERANGE},
		{SABS_G1, z1, "movz x3, 0xffff, lsl 16", 0xffffffff, false, 0},
		{SABS_G1, z1, "movn x3, 0xffff, lsl 16", -0x100000000, false, 0},
		{SABS_G1, z1, "", 0x100000000, false, -ERANGE},
		{SABS_G1, z1, "", -0x100000001, false, -ERANGE},
		{SABS_G2, z2, "movz x3, 0xffff, lsl 32", 0xffffffffffff, false, 0},
		{SABS_G2, z2, "movn x3, 0xffff, lsl 32", -0x1000000000000, false, 0},
		{SABS_G2, z2, "", 0x1000000000000, false, -ERANGE},
		{SABS_G2, z2, "", -0x1000000000001, false, -ERANGE},
		{PREL_G0, z, "movz x3, 0xffff", 0xffff, true, 0},
		{PREL_G0, z, "movn x3, 0xffff", -0x10000, true, 0},
		{PREL_G0, z, "", 0x10000, true, -ERANGE},
		{PREL_G0, z, "", -0x10001, true, -ERANGE},
		{PREL_G1, z1, "movz x3, 0xffff, lsl 16", 0xffffffff, true, 0},
		{PREL_G1, z1, "", 0x100000000, true, -ERANGE},
		{PREL_G1, z1, "", -0x100000001, true, -ERANGE},
		{PREL_G2, z2, "movz x3, 0xffff, lsl 32", 0xffffffffffff, true, 0},
		{PREL_G2, z2, "", 0x1000000000000, true, -ERANGE},
		{PREL_G2, z2, "", -0x1000000000001, true, -ERANGE},
		{PREL_G0_NC, k, "movk x3, 0xcdef", v, true, 0},
		{PREL_G1_NC, k1, "movk x3, 0x90ab, lsl 16", v, true, 0},
		{PREL_G2_NC, k2, "movk x3, 0x5678, lsl 32", v, true, 0},
		{PREL_G3, k3, "movk x3, 0x1234, lsl 48", v, true, 0},
		{PREL_G3, "movz x3, 0, lsl 48", "movn x3, 1, lsl 48", -0x1000000000001, true, 0},
		{PREL_G3, k3, "movk x3, 0xfffe, lsl 48", -0x1000000000001, true, 0},
	});
}

TEST(arm64, words)
{
	for (auto [type, relative] : {std::pair<u32, bool>{ABS64, false}, {PREL64, true}})
		try_word(type, 8, 0x123456789abcdef0, relative, 0);
	for (auto [type, relative] : {std::pair<u32, bool>{ABS32, false}, {PREL32, true}}) {
		try_word(type, 4, 0xffffffff, relative, 0);
		try_word(type, 4, -0x80000000l, relative, 0);
		try_word(type, 4, 0x100000000, relative, -ERANGE);
		try_word(type, 4, -0x80000001l, relative, -ERANGE);
	}
	try_word(PLT32, 4, 0x7fffffff, true, 0); /* signed only */
	try_word(PLT32, 4, -0x80000000l, true, 0);
	try_word(PLT32, 4, 0x80000000, true, -ERANGE);
	try_word(PLT32, 4, -0x80000001l, true, -ERANGE);
	for (auto [type, relative] : {std::pair<u32, bool>{ABS16, false}, {PREL16, true}}) {
		try_word(type, 2, 0xffff, relative, 0);
		try_word(type, 2, -0x8000, relative, 0);
		try_word(type, 2, 0x10000, relative, -ERANGE);
		try_word(type, 2, -0x8001, relative, -ERANGE);
	}
	One one;
	EXPECT_EQ(0, one.apply(NONE, 0x1234));
	EXPECT_EQ(0, one.apply(0, 0x1234)) << "NONE has two numbers";
	EXPECT_EQ(0u, reloc_get(one.text, 8));
}

/* adrp x16; add x16, x16, low; br x16: where it leads. */
static unsigned long plt_target(u8 *entry, unsigned long pc)
{
	u32 adrp = reloc_get(entry, 4), add = reloc_get(entry + 4, 4);
	EXPECT_EQ(0x90000010u, adrp & 0x9f00001f);
	EXPECT_EQ(0x91000210u, add & 0xffc003ff);
	EXPECT_EQ(0xd61f0200u, reloc_get(entry + 8, 4));
	s64 pages = (s64)((u64)((adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3)) << 43) >> 43;
	return (pc & ~0xffful) + pages * 4096 + (add >> 10 & 0xfff);
}

TEST(arm64, a_call_out_of_reach_takes_an_entry_of_the_plt)
{
	for (long far :
	     {0x8000000l, -0x8000004l, 0x7ffffffcl, -0x80000000l, 0xfffff000l, -0x100000000l}) {
		One one;
		reloc_put(one.text, 4, 0x94000000);
		ASSERT_EQ(0, one.apply(CALL26, PLACE + far));
		EXPECT_EQ(0x94000008u, reloc_get(one.text, 4)) << "to the entry, 32 bytes on";
		EXPECT_EQ(PLACE + far, plt_target(one.text + 32, PLACE + 32)) << far;
	}
	One one;
	EXPECT_EQ(-ERANGE, one.apply(CALL26, PLACE + 0x100001000));
	EXPECT_EQ(-ERANGE, one.apply(CALL26, PLACE - 0x100001000));
	EXPECT_EQ(-EINVAL, one.apply(CALL26, PLACE + 0x10000002));
	one.slots[1].plt = 0;
	EXPECT_EQ(-ERANGE, one.apply(CALL26, PLACE + 0x8000000))
		<< "no entry, as for a symbol of the module itself";
}

TEST(arm64, entries_are_shared_and_counted)
{
	Linked m(assemble("bl far\nb far\nbl near\nbl own\nown: adrp x0, :got:far\nldr x0, [x0, "
			  ":got_lo12:far]\n"
			  "adrp x0, :got:near\nldr x0, [x0, :got_lo12:near]\n"),
		 {{"near", TEXT + 0x1000}, {"far", TEXT + 0x10000000}});
	ASSERT_EQ(0, m.err) << said;
	EXPECT_EQ(2u, m.elf.plts)
		<< "far and near: where near is, is not known when the file is opened";
	EXPECT_EQ(2u, m.elf.gots);
	EXPECT_EQ(m.elf.plt + 24, m.elf.size[MODULE_TEXT]);
	EXPECT_EQ(16u, m.elf.size[MODULE_RODATA]);
	EXPECT_EQ(0x94000008u, m.word(TEXT)) << "both go to one entry";
	EXPECT_EQ(0x14000007u, m.word(TEXT + 4));
	EXPECT_EQ(0x940003feu, m.word(TEXT + 8)) << "straight";
	EXPECT_EQ(0x94000001u, m.word(TEXT + 12));
	EXPECT_EQ(TEXT + 0x10000000, plt_target(m.at(TEXT + 32), TEXT + 32));
	EXPECT_EQ(TEXT + 0x10000000, m.word(RODATA, 8));
	EXPECT_EQ(TEXT + 0x1000, m.word(RODATA + 8, 8));
	EXPECT_EQ(RODATA >> 12, (TEXT >> 12) + 0x100) << "what the next lines take for granted";
	EXPECT_EQ(0x90000800u, m.word(TEXT + 16)) << "adrp x0, the GOT's page";
	EXPECT_EQ(0xf9400000u, m.word(TEXT + 20));
	EXPECT_EQ(0xf9400400u, m.word(TEXT + 28)) << "the second entry, at 8";
}

TEST(arm64, a_call_of_a_missing_weak_function_is_a_nop)
{
	Linked m(assemble(".weak absent\nbl absent\nb absent\n.data\n.8byte absent\n"), {},
		 0xffffffff80000000ul);
	ASSERT_EQ(0, m.err) << said;
	EXPECT_EQ(0xd503201fu, reloc_get(m.elf.memory[MODULE_TEXT], 4));
	EXPECT_EQ(0xd503201fu, reloc_get(m.elf.memory[MODULE_TEXT] + 4, 4));
	EXPECT_EQ(0u, reloc_get(m.elf.memory[MODULE_DATA], 8));
}

TEST(arm64, what_is_out_of_reach_is_named)
{
	Linked m(assemble("nop\nadr x0, printk\n"));
	EXPECT_EQ(-ERANGE, m.err);
	EXPECT_EQ("module m: relocation R_AARCH64_ADR_PREL_LO21 (type 274) at .text+0x4 does not "
		  "reach 0x10400000 (printk)\n",
		  said);
	Linked n(assemble("nop\nadrp x0, printk\nldr x0, [x0, :lo12:printk + 4]\n"));
	EXPECT_EQ(-ERANGE, n.err);
	EXPECT_EQ("module m: relocation R_AARCH64_LDST64_ABS_LO12_NC (type 286) at .text+0x8 needs "
		  "an aligned address, not 0x10400004 (printk)\n",
		  said);
	Linked o(assemble("bl printk + 4\n"), {{"printk", TEXT + 0x10000000}});
	EXPECT_EQ(-ERANGE, o.err) << "an entry of the PLT is for the symbol itself";
}

TEST(arm64, thread_local_and_other_code_is_refused_by_name)
{
	Linked m(assemble("nop\nldr x0, [x0, :gotpage_lo15:printk]\n"));
	EXPECT_EQ(-ENOEXEC, m.err);
	EXPECT_EQ("module m: relocation R_AARCH64_LD64_GOTPAGE_LO15 (type 313) at .text+0x4 is not "
		  "supported\n",
		  said);
	Linked n(assemble("nop\nadd x0, x0, :tprel_lo12:printk\n"));
	EXPECT_EQ(-ENOEXEC, n.err);
	EXPECT_EQ("module m: symbol 'printk' is thread-local or found at run time (IFUNC)\n", said);
	Bytes b = good();
	rela(b).type = 549; /* TLSLE_ADD_TPREL_HI12 */
	Linked tls(b);
	EXPECT_EQ(-ENOEXEC, tls.err);
	EXPECT_EQ(0u, said.find("module m: relocation unknown (type 549) at .text+0x")) << said;
	Linked o(assemble("adrp x0, :got:printk + 8\n"));
	EXPECT_EQ(-ENOEXEC, o.err);
	EXPECT_EQ("module m: relocation R_AARCH64_ADR_GOT_PAGE (type 311) at .text+0x0 has an "
		  "addend\n",
		  said);
}
