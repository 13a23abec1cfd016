/*
 * riscv64: relocations of module files. Numbers and meanings: RISC-V ELF psABI
 * specification, version 1.0, "Relocations"; names there have the prefix R_RISCV_.
 *
 * An address is made by two instructions: auipc or lui adds the upper 20 bits, and
 * the second one a signed 12-bit offset. So the upper part is rounded:
 * value = (high << 12) + low, with -2048 <= low < 2048.
 *
 * ADD, SUB and SET make the difference of two labels together, modulo the place's
 * width: none of them has a range of its own.
 */
#include "loader/elf.h"

#include "asm/reloc.h"

/* name, number, width, alignment (0: refused by name), GOT */
#define TYPES(T)                                                                              \
	T(NONE, 0, 0, 1, 0) T(32, 1, 4, 1, 0) T(64, 2, 8, 1, 0) T(BRANCH, 16, 4, 4, 0)        \
	T(JAL, 17, 4, 4, 0) T(CALL, 18, 8, 4, 0) T(CALL_PLT, 19, 8, 4, 0)                     \
	T(GOT_HI20, 20, 4, 4, 1) T(PCREL_HI20, 23, 4, 4, 0) T(PCREL_LO12_I, 24, 4, 4, 0)      \
	T(PCREL_LO12_S, 25, 4, 4, 0) T(HI20, 26, 4, 4, 0) T(LO12_I, 27, 4, 4, 0)              \
	T(LO12_S, 28, 4, 4, 0) T(ADD8, 33, 1, 1, 0) T(ADD16, 34, 2, 1, 0)                     \
	T(ADD32, 35, 4, 1, 0) T(ADD64, 36, 8, 1, 0) T(SUB8, 37, 1, 1, 0)                      \
	T(SUB16, 38, 2, 1, 0) T(SUB32, 39, 4, 1, 0) T(SUB64, 40, 8, 1, 0)                     \
	T(ALIGN, 43, 0, 1, 0) T(RELAX, 51, 0, 1, 0) T(SUB6, 52, 1, 1, 0)                      \
	T(SET6, 53, 1, 1, 0) T(SET8, 54, 1, 1, 0) T(SET16, 55, 2, 1, 0)                       \
	T(SET32, 56, 4, 1, 0) T(32_PCREL, 57, 4, 1, 0) T(PLT32, 59, 4, 1, 0)                  \
	T(TLS_GOT_HI20, 21, 0, 0, 0) T(TLS_GD_HI20, 22, 0, 0, 0) T(TPREL_HI20, 29, 0, 0, 0)   \
	T(TPREL_LO12_I, 30, 0, 0, 0) T(TPREL_LO12_S, 31, 0, 0, 0) T(TPREL_ADD, 32, 0, 0, 0)   \
	T(RVC_BRANCH, 44, 0, 0, 0) T(RVC_JUMP, 45, 0, 0, 0) T(RVC_LUI, 46, 0, 0, 0)           \
	T(SET_ULEB128, 60, 0, 0, 0) T(SUB_ULEB128, 61, 0, 0, 0)
#define NUMBER(name, number, width, align, got) R_RISCV_##name = number,
#define ENTRY(name, number, width, align, got) [number] = {"R_RISCV_" #name, width, align, got},

enum { TYPES(NUMBER) };
static const struct reloc_type types[] = {TYPES(ENTRY)};

#define IMM_I 0xfff00000u
#define IMM_S 0xfe000f80u
#define IMM_U 0xfffff000u
#define RS1 (31u << 15)
#define RD (31u << 7)
#define LUI 0x37u

const struct reloc_type *arch_reloc_type(u32 type)
{
	return type < ARRAY_SIZE(types) && types[type].name ? &types[type] : NULL;
}

static bool has_reach(u64 offset)
{
	return reloc_fits(offset + 0x800, 32);
}

static void put_high(u8 *where, u64 value)
{
	reloc_put_bits(where, IMM_U, value + 0x800);
}

static void put_low(u8 *where, u64 value, bool store)
{
	if (store)
		reloc_put_bits(where, IMM_S, (value & 0xfe0) << 20 | (value & 0x1f) << 7);
	else
		reloc_put_bits(where, IMM_I, value << 20);
}

/*
 * The number that the auipc at @pc and the instruction after it must add to pc, or to 0:
 * *@absolute.
 */
static s64 pcrel_value(struct module_elf *elf, u32 type, unsigned long pc, unsigned long value,
		       u32 symbol, bool *absolute)
{
	*absolute = type == R_RISCV_PCREL_HI20 && module_elf_missing(elf, symbol);
	if (type == R_RISCV_GOT_HI20)
		value = module_elf_got(elf, symbol, value);
	return *absolute ? value : value - pc;
}

/* A weak symbol that nothing defines is at 0, out of an auipc's reach: auipc becomes lui. */
static int pcrel_high(struct module_elf *elf, u32 type, u8 *where, unsigned long pc,
		      unsigned long value, u32 symbol)
{
	bool absolute;
	s64 offset = pcrel_value(elf, type, pc, value, symbol, &absolute);

	if (!has_reach(offset))
		return -ERANGE;
	if (absolute)
		reloc_put_bits(where, ~RD, LUI);
	put_high(where, offset);
	return 0;
}

static bool is_pcrel_high(u32 type)
{
	return type == R_RISCV_PCREL_HI20 || type == R_RISCV_GOT_HI20;
}

/* @label is the auipc's: the relocation there says of which symbol these are the lower bits. */
static int pcrel_low(struct module_elf *elf, u32 type, u8 *where, unsigned long label)
{
	const struct elf_rela *high = module_elf_find_rela(elf, label, is_pcrel_high);
	bool absolute;
	unsigned long value;

	if (!high)
		return -ENOENT;
	value = elf->symbols[high->symbol].value + high->addend;
	put_low(where, pcrel_value(elf, high->type, label, value, high->symbol, &absolute),
		type == R_RISCV_PCREL_LO12_S);
	return 0;
}

/* auipc ra; jalr ra. A weak function that nothing defines is at 0: jalr takes x0 as its base. */
static int call(struct module_elf *elf, u8 *where, unsigned long pc, unsigned long value,
		u32 symbol)
{
	s64 offset = value - pc;

	if (module_elf_missing(elf, symbol)) {
		reloc_put_bits(where + 4, RS1, 0);
		offset = value;
	}
	if (!has_reach(offset))
		return -ERANGE;
	if (offset & 3)
		return -EINVAL;
	put_high(where, offset);
	put_low(where + 4, offset, false);
	return 0;
}

/* Formats J and B keep the immediate's bits where most formats have them. */
static int jump(u8 *where, s64 offset, bool is_branch)
{
	u64 o = offset;

	if (!reloc_fits(offset, is_branch ? 13 : 21))
		return -ERANGE;
	if (o & 3)
		return -EINVAL;
	if (is_branch)
		reloc_put_bits(where, IMM_S,
			       (o >> 12 & 1) << 31 | (o >> 5 & 0x3f) << 25 | (o >> 1 & 15) << 8 |
				       (o >> 11 & 1) << 7);
	else
		reloc_put_bits(where, IMM_U,
			       (o >> 20 & 1) << 31 | (o >> 1 & 0x3ff) << 21 | (o >> 11 & 1) << 20 |
				       (o >> 12 & 0xff) << 12);
	return 0;
}

static int absolute(u32 type, u8 *where, s64 value)
{
	if (!has_reach(value))
		return -ERANGE;
	if (type == R_RISCV_HI20)
		put_high(where, value);
	else
		put_low(where, value, type == R_RISCV_LO12_S);
	return 0;
}

static int word(u8 *where, s64 value, bool fits)
{
	if (fits)
		reloc_put(where, 4, value);
	return fits ? 0 : -ERANGE;
}

/*
 * The place has @nops bytes of nops. The next instruction must be aligned to the power
 * of two above @nops; a linker that relaxes code removes nops for that. This linker
 * does not relax, so the instruction must be aligned already.
 */
static int align(unsigned long pc, u64 nops)
{
	u64 to = 1;

	while (to <= nops && to <= PAGE_SIZE)
		to *= 2;
	return to > PAGE_SIZE || (pc + nops) % to ? -EINVAL : 0;
}

static void data(u32 type, u8 *where, u64 value)
{
	unsigned width = types[type].width;
	u64 old = reloc_get(where, width);

	if (type >= R_RISCV_ADD8 && type <= R_RISCV_ADD64)
		value = old + value;
	else if (type >= R_RISCV_SUB8 && type <= R_RISCV_SUB64)
		value = old - value;
	else if (type == R_RISCV_SUB6)
		value = (old & 0xc0) | ((old - value) & 0x3f);
	else if (type == R_RISCV_SET6)
		value = (old & 0xc0) | (value & 0x3f);
	reloc_put(where, width, value);
}

int arch_relocate(struct module_elf *elf, u32 type, u8 *where, unsigned long pc,
		  unsigned long value, u32 symbol)
{
	s64 offset = value - pc;

	switch (type) {
	case R_RISCV_NONE:
	case R_RISCV_RELAX:
		return 0;
	case R_RISCV_ALIGN:
		return align(pc, value);
	case R_RISCV_BRANCH:
	case R_RISCV_JAL:
		return jump(where, offset, type == R_RISCV_BRANCH);
	case R_RISCV_CALL:
	case R_RISCV_CALL_PLT:
		return call(elf, where, pc, value, symbol);
	case R_RISCV_PCREL_HI20:
	case R_RISCV_GOT_HI20:
		return pcrel_high(elf, type, where, pc, value, symbol);
	case R_RISCV_PCREL_LO12_I:
	case R_RISCV_PCREL_LO12_S:
		return pcrel_low(elf, type, where, value);
	case R_RISCV_HI20:
	case R_RISCV_LO12_I:
	case R_RISCV_LO12_S:
		return absolute(type, where, value);
	case R_RISCV_32:
		return word(where, value, reloc_fits(value, 32) || value >> 32 == 0);
	case R_RISCV_32_PCREL:
	case R_RISCV_PLT32:
		return word(where, offset, reloc_fits(offset, 32));
	default: /* 64, ADD, SUB, SET */
		data(type, where, value);
		return 0;
	}
}
