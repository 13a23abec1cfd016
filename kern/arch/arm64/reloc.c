/*
 * arm64: relocations of module files. Numbers and meanings: ELF for the Arm 64-bit
 * Architecture (AAELF64), "Relocation"; names there have the prefix R_AARCH64_.
 *
 * An address is made by adrp, which adds a number of 4 KiB pages to pc's page,
 * and an instruction that adds the lower 12 bits. Types with _NC are not checked: other
 * relocations check the same value, or its upper bits do not matter.
 */
#include "loader/elf.h"

#include "asm/reloc.h"

/* name, number, width, alignment (0: refused by name), GOT, PLT */
#define TYPES(T)                                                                              \
	T(NONE, 256, 0, 1, 0, 0) T(ABS64, 257, 8, 1, 0, 0) T(ABS32, 258, 4, 1, 0, 0)          \
	T(ABS16, 259, 2, 1, 0, 0) T(PREL64, 260, 8, 1, 0, 0) T(PREL32, 261, 4, 1, 0, 0)       \
	T(PREL16, 262, 2, 1, 0, 0) T(MOVW_UABS_G0, 263, 4, 4, 0, 0)                           \
	T(MOVW_UABS_G0_NC, 264, 4, 4, 0, 0) T(MOVW_UABS_G1, 265, 4, 4, 0, 0)                  \
	T(MOVW_UABS_G1_NC, 266, 4, 4, 0, 0) T(MOVW_UABS_G2, 267, 4, 4, 0, 0)                  \
	T(MOVW_UABS_G2_NC, 268, 4, 4, 0, 0) T(MOVW_UABS_G3, 269, 4, 4, 0, 0)                  \
	T(MOVW_SABS_G0, 270, 4, 4, 0, 0) T(MOVW_SABS_G1, 271, 4, 4, 0, 0)                     \
	T(MOVW_SABS_G2, 272, 4, 4, 0, 0) T(LD_PREL_LO19, 273, 4, 4, 0, 0)                     \
	T(ADR_PREL_LO21, 274, 4, 4, 0, 0) T(ADR_PREL_PG_HI21, 275, 4, 4, 0, 0)                \
	T(ADR_PREL_PG_HI21_NC, 276, 4, 4, 0, 0) T(ADD_ABS_LO12_NC, 277, 4, 4, 0, 0)           \
	T(LDST8_ABS_LO12_NC, 278, 4, 4, 0, 0) T(TSTBR14, 279, 4, 4, 0, 0)                     \
	T(CONDBR19, 280, 4, 4, 0, 0) T(JUMP26, 282, 4, 4, 0, 1) T(CALL26, 283, 4, 4, 0, 1)    \
	T(LDST16_ABS_LO12_NC, 284, 4, 4, 0, 0) T(LDST32_ABS_LO12_NC, 285, 4, 4, 0, 0)         \
	T(LDST64_ABS_LO12_NC, 286, 4, 4, 0, 0) T(MOVW_PREL_G0, 287, 4, 4, 0, 0)               \
	T(MOVW_PREL_G0_NC, 288, 4, 4, 0, 0) T(MOVW_PREL_G1, 289, 4, 4, 0, 0)                  \
	T(MOVW_PREL_G1_NC, 290, 4, 4, 0, 0) T(MOVW_PREL_G2, 291, 4, 4, 0, 0)                  \
	T(MOVW_PREL_G2_NC, 292, 4, 4, 0, 0) T(MOVW_PREL_G3, 293, 4, 4, 0, 0)                  \
	T(LDST128_ABS_LO12_NC, 299, 4, 4, 0, 0) T(ADR_GOT_PAGE, 311, 4, 4, 1, 0)              \
	T(LD64_GOT_LO12_NC, 312, 4, 4, 1, 0) T(GOTREL64, 307, 0, 0, 0, 0)                     \
	T(GOTREL32, 308, 0, 0, 0, 0) T(GOT_LD_PREL19, 309, 0, 0, 0, 0)                        \
	T(LD64_GOTOFF_LO15, 310, 0, 0, 0, 0) T(LD64_GOTPAGE_LO15, 313, 0, 0, 0, 0)            \
	T(PLT32, 314, 4, 1, 0, 0) T(GOTPCREL32, 315, 0, 0, 0, 0)
#define FIRST 256
#define NUMBER(name, number, width, align, got, plt) R_AARCH64_##name = number,
#define ENTRY(name, number, width, align, got, plt)                                           \
	[number - FIRST] = {"R_AARCH64_" #name, width, align, got, plt},

enum { TYPES(NUMBER) };
static const struct reloc_type types[] = {TYPES(ENTRY)};

#define IMM16 (0xffffu << 5)
#define IMM12 (0xfffu << 10)
#define IMM_ADR (3u << 29 | 0x7ffffu << 5)
#define ADRP (1u << 31) /* else adr */
#define MOVW_OP (3u << 29)
#define MOVN (0u << 29)
#define MOVZ (2u << 29)
#define MOVK (3u << 29)
#define NOP 0xd503201fu

/* 0 is a second number of NONE. */
const struct reloc_type *arch_reloc_type(u32 type)
{
	u32 index = type ? type - FIRST : R_AARCH64_NONE - FIRST;

	return index < ARRAY_SIZE(types) && types[index].name ? &types[index] : NULL;
}

/* A data word's value may be signed or unsigned. */
static int data(u8 *where, s64 value, unsigned bits)
{
	if (bits < 64 && !reloc_fits(value, bits) && (u64)value >> bits)
		return -ERANGE;
	reloc_put(where, bits / 8, value);
	return 0;
}

/*
 * An offset in words, as branches and literal loads have it: @bits of it, from bit @shift of the
 * instruction.
 */
static int word_offset(u8 *where, s64 offset, unsigned bits, unsigned shift)
{
	if (!reloc_fits(offset, bits + 2))
		return -ERANGE;
	if (offset & 3)
		return -EINVAL;
	reloc_put_bits(where, ((1u << bits) - 1) << shift, (u64)offset >> 2 << shift);
	return 0;
}

static int put_adr(u8 *where, s64 offset, bool checked)
{
	if (checked && !reloc_fits(offset, 21))
		return -ERANGE;
	reloc_put_bits(where, IMM_ADR, (offset & 3) << 29 | (offset >> 2 & 0x7ffff) << 5);
	return 0;
}

/*
 * Cortex-A53 erratum 843419: after an adrp in one of a page's last two words, a load or store that
 * uses its result may have a wrong address. There adr, which reaches 1 MiB, makes the same address.
 */
static int put_adrp(u8 *where, unsigned long pc, unsigned long value, bool checked)
{
	s64 pages = (s64)((value & ~0xffful) - (pc & ~0xffful)) >> 12,
	    offset = (value & ~0xffful) - pc;

	if ((pc & 0xfff) < 0xff8)
		return put_adr(where, pages, checked);
	if (!reloc_fits(offset, 21))
		return cpu_is_cortex_a53() ? -EOPNOTSUPP : put_adr(where, pages, checked);
	reloc_put_bits(where, ADRP, 0);
	return put_adr(where, offset, true);
}

/* The lower 12 bits, in units of 1 << @shift bytes. */
static int put_low12(u8 *where, u64 value, unsigned shift)
{
	if (value & ((1u << shift) - 1))
		return -EINVAL;
	reloc_put_bits(where, IMM12, (value & 0xfff) >> shift << 10);
	return 0;
}

/* @group: which 16 bits of the value. */
static int put_movw(u8 *where, u64 value, unsigned group, bool checked)
{
	if (checked && group < 3 && value >> (16 * (group + 1)))
		return -ERANGE;
	reloc_put_bits(where, IMM16, (value >> 16 * group & 0xffff) << 5);
	return 0;
}

/* Make it movz or movn, as the sign requires; a movk stays a movk. */
static int put_movw_signed(u8 *where, s64 value, unsigned group)
{
	if (group < 3 && !reloc_fits(value, 16 * (group + 1) + 1))
		return -ERANGE;
	if ((reloc_get(where, 4) & MOVW_OP) == MOVK)
		return put_movw(where, value, group, false);
	reloc_put_bits(where, MOVW_OP, value < 0 ? MOVN : MOVZ);
	return put_movw(where, value < 0 ? ~value : value, group, false);
}

/* The entry holds: adrp x16, page; add x16, x16, low 12 bits; br x16. A call may change x16. */
static int put_plt(u8 *entry, unsigned long pc, unsigned long value)
{
	reloc_put(entry, 4, 0x90000010);
	reloc_put(entry + 4, 4, 0x91000210);
	reloc_put(entry + 8, 4, 0xd61f0200);
	put_low12(entry + 4, value, 0);
	return put_adrp(entry, pc, value, true);
}

/* A call of a weak function that nothing defines does nothing. */
static int branch(struct module_elf *elf, u8 *where, unsigned long pc, unsigned long value,
		  u32 symbol)
{
	unsigned long entry_pc;
	u8 *entry;
	int err;

	if (module_elf_missing(elf, symbol)) {
		reloc_put(where, 4, NOP);
		return 0;
	}
	if (reloc_fits(value - pc, 28))
		return word_offset(where, value - pc, 26, 0);
	entry_pc = module_elf_plt(elf, symbol, &entry);
	if (!entry_pc || value != elf->symbols[symbol].value)
		return -ERANGE;
	if (value & 3)
		return -EINVAL;
	err = put_plt(entry, entry_pc, value);
	return err ? err : word_offset(where, entry_pc - pc, 26, 0);
}

static int movw(u32 type, u8 *where, unsigned long pc, unsigned long value)
{
	if (type <= R_AARCH64_MOVW_UABS_G3) {
		u32 n = type - R_AARCH64_MOVW_UABS_G0;

		return put_movw(where, value, n / 2, n % 2 == 0);
	}
	if (type <= R_AARCH64_MOVW_SABS_G2)
		return put_movw_signed(where, value, type - R_AARCH64_MOVW_SABS_G0);

	u32 n = type - R_AARCH64_MOVW_PREL_G0;

	return n % 2 ? put_movw(where, value - pc, n / 2, false)
		     : put_movw_signed(where, value - pc, n / 2);
}

int arch_relocate(struct module_elf *elf, u32 type, u8 *where, unsigned long pc,
		  unsigned long value, u32 symbol)
{
	s64 offset = value - pc;

	switch (type) {
	case 0:
	case R_AARCH64_NONE:
		return 0;
	case R_AARCH64_ABS64:
		return data(where, value, 64);
	case R_AARCH64_ABS32:
		return data(where, value, 32);
	case R_AARCH64_ABS16:
		return data(where, value, 16);
	case R_AARCH64_PREL64:
		return data(where, offset, 64);
	case R_AARCH64_PREL32:
		return data(where, offset, 32);
	case R_AARCH64_PLT32: /* signed */
		return reloc_fits(offset, 32) ? data(where, offset, 32) : -ERANGE;
	case R_AARCH64_PREL16:
		return data(where, offset, 16);
	case R_AARCH64_CALL26:
	case R_AARCH64_JUMP26:
		return branch(elf, where, pc, value, symbol);
	case R_AARCH64_CONDBR19:
	case R_AARCH64_LD_PREL_LO19:
		return word_offset(where, offset, 19, 5);
	case R_AARCH64_TSTBR14:
		return word_offset(where, offset, 14, 5);
	case R_AARCH64_ADR_PREL_LO21:
		return put_adr(where, offset, true);
	case R_AARCH64_ADR_PREL_PG_HI21:
	case R_AARCH64_ADR_PREL_PG_HI21_NC:
		return put_adrp(where, pc, value, type == R_AARCH64_ADR_PREL_PG_HI21);
	case R_AARCH64_ADR_GOT_PAGE:
		return put_adrp(where, pc, module_elf_got(elf, symbol, value), true);
	case R_AARCH64_LD64_GOT_LO12_NC:
		return put_low12(where, module_elf_got(elf, symbol, value), 3);
	case R_AARCH64_ADD_ABS_LO12_NC:
	case R_AARCH64_LDST8_ABS_LO12_NC:
		return put_low12(where, value, 0);
	case R_AARCH64_LDST16_ABS_LO12_NC:
	case R_AARCH64_LDST32_ABS_LO12_NC:
	case R_AARCH64_LDST64_ABS_LO12_NC:
		return put_low12(where, value, type - R_AARCH64_LDST16_ABS_LO12_NC + 1);
	case R_AARCH64_LDST128_ABS_LO12_NC:
		return put_low12(where, value, 4);
	default:
		return movw(type, where, pc, value);
	}
}
