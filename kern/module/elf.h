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
 * resolve, relocate. Each prints one sentence before it returns an error.
 */
#ifndef MODULE_ELF_H
#define MODULE_ELF_H

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

struct module_elf {
	const char *name; /* of the module, for the sentences */
	const u8 *file;	  /* 8-byte aligned */
	size_t file_size;
	const struct elf_section *sections;
	const char *section_names;
	struct elf_symbol *symbols; /* a copy: resolve stores each symbol's address in value */
	const char *strings;
	u32 section_count, symbol_count;
	unsigned long *place;		     /* each section's offset in its region; NOT_LOADED for others */
	u8 *region;			     /* each section's region */
	size_t size[MODULE_REGIONS];	     /* bytes, with the synthesised parts below; each at least 0 */
	unsigned long base[MODULE_REGIONS];  /* the address at which each region will run; set by the caller */
	u8 *memory[MODULE_REGIONS];	     /* where it can be written meanwhile; set by the caller; may be @base itself */
	size_t plt, plts, got, gots;	     /* in text and in rodata: offset, and entries that there is room for */
	u32 plts_used, gots_used;
};
#define NOT_LOADED (~0ul)

/*
 * Check the file and compute @size. @name, @file and @file_size are set by this
 * call. Allocates place, region and symbols: module_elf_close() frees them, after an error
 * too. -ENOEXEC: it is no module for this machine (elf_machine of asm/reloc.h),
 * cut short, or absurd; -ENOMEM.
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
int module_elf_resolve(struct module_elf *elf, unsigned long (*find)(void *arg, const char *name), void *arg);

/* Apply all relocations of loaded sections. -ENOEXEC: an unknown type (named, with section and offset); -ERANGE. */
int module_elf_relocate(struct module_elf *elf);

/* The loaded section @name: its address at run time and its size; 0 if there is none. */
unsigned long module_elf_section(const struct module_elf *elf, const char *name, size_t *size);
/* The address of the global symbol @name that the object defines; 0 if it does not. */
unsigned long module_elf_symbol(const struct module_elf *elf, const char *name);

/* The address at run time of byte @offset of section @section, which is loaded. */
static inline unsigned long module_elf_address(const struct module_elf *elf, u32 section, unsigned long offset)
{
	return elf->base[elf->region[section]] + elf->place[section] + offset;
}

/*
 * kern/arch/<arch>/reloc.c: apply one relocation of @elf. @where: the place, writable;
 * @pc: its address at run time; @value: symbol + addend. -ENOEXEC: an unknown type, -ERANGE: out of reach.
 */
int arch_relocate(struct module_elf *elf, u32 type, u8 *where, unsigned long pc, unsigned long value, u32 symbol);

#endif
