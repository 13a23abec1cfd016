/*
 * A module's file: a relocatable ELF object (ET_REL), checked, laid out, copied
 * to its place and relocated. Nothing here knows of other modules or of the
 * tracer, so the host tests and the fuzzer run it as it is.
 *
 * The file is untrusted: every offset, size, index and string in it is checked
 * before it is used. After module_elf_open() has returned 0, the other functions need
 * no further check of the file's structure.
 *
 * Order: open, (the caller finds room for @size[] bytes and sets @base[]), copy,
 * resolve, relocate. Each prints one message before it returns an error.
 */
#ifndef LOADER_ELF_H
#define LOADER_ELF_H

#include "module.h"

/* The structures of the ELF specification (gABI 4.1), those that an object file has. */
struct elf_header {
	u8 ident[16];
	u16 type, machine;
	u32 version;
	u64 entry, phoff, shoff;
	u32 flags;
	u16 ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};
struct elf_section {
	u32 name, type;
	u64 flags, addr, offset, size;
	u32 link, info;
	u64 align, entsize;
};
struct elf_symbol {
	u32 name;
	u8 info, other;
	u16 section;
	u64 value, size;
};
struct elf_rela {
	u64 offset;
	u32 type, symbol;
	s64 addend;
};

/* A symbol's entries in the PLT and in the GOT, counted from 1; 0: it has none. */
struct module_slots {
	u32 plt, got;
};

struct module_elf {
	const char *name; /* of the module, for messages */
	const u8 *file;	  /* 8-byte aligned */
	size_t file_size;
	const struct elf_section *sections;
	const char *section_names;
	struct elf_symbol *symbols; /* a copy: resolve stores each symbol's address in value */
	const char *strings;
	u32 section_count, symbol_count;
	/* each section's offset in its region; NOT_LOADED for others */
	unsigned long *place;
	u8 *region;			     /* each section's region */
	/* bytes, with the synthesised parts below; each at least 0 */
	size_t size[MODULE_REGIONS];
	/* the address at which each region will run; set by the caller */
	unsigned long base[MODULE_REGIONS];
	/* where it can be written meanwhile; set by the caller; may be @base itself */
	u8 *memory[MODULE_REGIONS];
	/* in text and in rodata: offset, and entries that there is room for */
	size_t plt, plts, got, gots;
	struct module_slots *slots;	     /* of each symbol */
	/*
	 * While a section is relocated: its relocations, the one being applied, the section's
	 * address, lookups left.
	 */
	const struct elf_rela *relas;
	u32 rela_count, rela;
	unsigned long relocated;
	u32 steps;
};
#define NOT_LOADED (~0ul)
#define MODULE_MAX MiB(1)	 /* bytes of the file, and of all regions together */
#define MODULE_SECTIONS_MAX 2048 /* sections are compared in pairs */
/* bytes of a symbol's name; names may overlap in the file, their copies do not */
#define MODULE_SYMBOL_MAX 255

enum {
	SHT_PROGBITS = 1,
	SHT_SYMTAB = 2,
	SHT_STRTAB = 3,
	SHT_RELA = 4,
	SHT_NOTE = 7,
	SHT_NOBITS = 8,
	SHT_REL = 9
};
enum { SHF_WRITE = 1, SHF_ALLOC = 2, SHF_EXECINSTR = 4, SHF_TLS = 0x400, SHF_COMPRESSED = 0x800 };
enum { SHN_UNDEF = 0, SHN_LORESERVE = 0xff00, SHN_ABS = 0xfff1, SHN_COMMON = 0xfff2 };
enum { STB_LOCAL, STB_GLOBAL, STB_WEAK };
enum { STT_FUNC = 2, STT_TLS = 6, STT_GNU_IFUNC = 10 };

/*
 * Check the file and compute @size. @name, @file and @file_size are set by this
 * call. Allocates place, region, symbols and slots: module_elf_close() frees them, after
 * an error too. -ENOEXEC: it is no module for this machine (ELF_MACHINE of asm/reloc.h),
 * cut short, absurd, or has a relocation of an unknown type; -ENOMEM.
 */
int module_elf_open(struct module_elf *elf, const char *name, const void *file, size_t size);
void module_elf_close(struct module_elf *elf);

/* Copy the loaded sections to memory[]; what no section fills is zero. */
void module_elf_copy(struct module_elf *elf);

/*
 * Give each symbol its address. @find(arg, name) returns the value of an exported
 * symbol, or 0 if there is none. -ENOENT: a symbol that is not weak is not found
 * (each is named); -EEXIST: the object defines a global symbol that @find finds too.
 */
int module_elf_resolve(struct module_elf *elf, unsigned long (*find)(void *arg, const char *name),
		       void *arg);

/*
 * Apply all relocations of loaded sections. -ERANGE: one does not reach, its target is not aligned
 * for it, or this processor may execute it wrongly; -ENOEXEC: its second half is missing. Both are
 * named, with section and offset.
 */
int module_elf_relocate(struct module_elf *elf);

/*
 * The loaded section @name: its address at run time and its size; 0 if there is none. Clang makes
 * several of one name: they lie side by side, and count as one, unless they belong to different
 * regions.
 */
unsigned long module_elf_section(const struct module_elf *elf, const char *name, size_t *size);
/* The address of the global symbol @name that the object defines; 0 if it does not. */
unsigned long module_elf_symbol(const struct module_elf *elf, const char *name);

/* The address at run time of byte @offset of section @section, which is loaded. */
static inline unsigned long module_elf_address(const struct module_elf *elf, u32 section,
					       unsigned long offset)
{
	return elf->base[elf->region[section]] + elf->place[section] + offset;
}

/*
 * Print "module NAME: " and the message, without characters that are not printable. Return: @err.
 */
int module_elf_refuse(const struct module_elf *elf, int err, const char *fmt, ...) __printf(3, 4);
const char *module_elf_section_name(const struct module_elf *elf, u32 section);

/* One type of relocation, as the architecture lists them. */
struct reloc_type {
	const char *name;
	u8 width; /* bytes of the place that are read or written; 0: none */
	u8 align; /* of the place; 0: the type has a name and is not supported */
	bool got; /* it needs the symbol's entry in the GOT */
	bool plt; /* it may need an entry in the PLT, to reach what is not in the module */
};

/* kern/arch/<arch>/reloc.c: what is known of @type; NULL: nothing. */
const struct reloc_type *arch_reloc_type(u32 type);
/*
 * kern/arch/<arch>/reloc.c: apply one relocation of @elf. @where: the place, writable; @pc: its
 * address at run time; @value: symbol + addend. Prints nothing. -ERANGE: out of reach; -EINVAL:
 * @value is not aligned as it must be; -ENOENT: its second half is missing; -EOPNOTSUPP: this
 * processor may execute it wrongly.
 */
int arch_relocate(struct module_elf *elf, u32 type, u8 *where, unsigned long pc,
		  unsigned long value, u32 symbol);

/* For arch_relocate(). The address of the GOT entry of @symbol, which holds @value from now on. */
unsigned long module_elf_got(struct module_elf *elf, u32 symbol, unsigned long value);
/* The address of the PLT entry of @symbol, and *@where to write it; 0: it has none. */
unsigned long module_elf_plt(struct module_elf *elf, u32 symbol, u8 **where);
/*
 * The relocation at address @place, of the section being relocated, for which @wanted is true;
 * NULL: not found.
 */
const struct elf_rela *module_elf_find_rela(struct module_elf *elf, unsigned long place,
					    bool (*wanted)(u32 type));
/*
 * No module and not the kernel defines @symbol, and it is weak: its value is 0, wherever the module
 * is.
 */
static inline bool module_elf_missing(const struct module_elf *elf, u32 symbol)
{
	return elf->symbols[symbol].section == SHN_UNDEF && elf->symbols[symbol].value == 0;
}

/* The value of @width bytes, little endian, of any alignment; and to store it. */
static inline u64 reloc_get(const u8 *where, unsigned width)
{
	u64 value = 0;

	while (width--)
		value = value << 8 | where[width];
	return value;
}
static inline void reloc_put(u8 *where, unsigned width, u64 value)
{
	for (; width--; value >>= 8)
		*where++ = value;
}
/* Replace the bits of @mask of the instruction at @where. */
static inline void reloc_put_bits(u8 *where, u32 mask, u32 bits)
{
	reloc_put(where, 4, (reloc_get(where, 4) & ~mask) | (bits & mask));
}
/* -2^(@bits - 1) <= @value < 2^(@bits - 1) */
static inline bool reloc_fits(s64 value, unsigned bits)
{
	return value >= -(1ll << (bits - 1)) && value < 1ll << (bits - 1);
}

#endif
