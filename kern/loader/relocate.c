/*
 * The linker of modules: apply the relocations of each loaded section. What a
 * type means is in kern/arch/<arch>/reloc.c.
 *
 * module_elf_open() has checked that each type is known, and that each place and
 * symbol exists. Only the values can be wrong here.
 */
#include "loader/elf.h"

#include "asm/reloc.h"
#include "string.h"

/* Lookups of module_elf_find_rela(), all together: a real module needs a few each time. */
#define STEPS_MAX 4000000

unsigned long module_elf_got(struct module_elf *elf, u32 symbol, unsigned long value)
{
	size_t at = elf->got + 8 * (elf->slots[symbol].got - 1);

	reloc_put(elf->memory[MODULE_RODATA] + at, 8, value);
	return elf->base[MODULE_RODATA] + at;
}

unsigned long module_elf_plt(struct module_elf *elf, u32 symbol, u8 **where)
{
	size_t at = elf->plt + PLT_ENTRY_SIZE * (elf->slots[symbol].plt - 1);

	if (!elf->slots[symbol].plt)
		return 0;
	*where = elf->memory[MODULE_TEXT] + at;
	return elf->base[MODULE_TEXT] + at;
}

/*
 * The two are close to each other in every real file, but no rule says in which
 * order: search outwards from the relocation being applied.
 */
const struct elf_rela *module_elf_find_rela(struct module_elf *elf, unsigned long place,
					    bool (*wanted)(u32 type))
{
	u64 offset = place - elf->relocated;

	for (u32 d = 0; d <= elf->rela || d < elf->rela_count - elf->rela; d++) {
		const struct elf_rela *before = d <= elf->rela ? &elf->relas[elf->rela - d] : NULL;
		const struct elf_rela *after =
			d < elf->rela_count - elf->rela ? &elf->relas[elf->rela + d] : NULL;

		if (before && before->offset == offset && wanted(before->type))
			return before;
		if (after && after->offset == offset && wanted(after->type))
			return after;
		if (!elf->steps)
			return NULL;
		elf->steps--;
	}
	return NULL;
}

static int complain(struct module_elf *elf, u32 section, const struct elf_rela *r,
		    unsigned long value, int err)
{
	const char *words = err == -ERANGE   ? "does not reach"
			    : err == -EINVAL ? "needs an aligned address, not"
			    : err == -EOPNOTSUPP
				    ? "ends a page, where a Cortex-A53 may use a wrong address "
				      "(erratum 843419), and adr does not reach"
				    : "has no HI20 relocation at its label,";
	const struct elf_symbol *s = &elf->symbols[r->symbol];

	return module_elf_refuse(elf, err == -ENOENT ? -ENOEXEC : -ERANGE,
				 "relocation %s (type %u) at %.48s+0x%lx %s 0x%lx (%.48s)",
				 arch_reloc_type(r->type)->name, r->type,
				 module_elf_section_name(elf, section), r->offset, words, value,
				 s->name || s->section == SHN_UNDEF || s->section >= SHN_LORESERVE
					 ? elf->strings + s->name
					 : module_elf_section_name(elf, s->section));
}

static int relocate_section(struct module_elf *elf, u32 section)
{
	u8 *memory = elf->memory[elf->region[section]] + elf->place[section];

	elf->relocated = module_elf_address(elf, section, 0);
	for (elf->rela = 0; elf->rela < elf->rela_count; elf->rela++) {
		const struct elf_rela *r = &elf->relas[elf->rela];
		unsigned long value = elf->symbols[r->symbol].value + r->addend;
		int err = arch_relocate(elf, r->type, memory + r->offset,
					elf->relocated + r->offset, value, r->symbol);

		if (err)
			return complain(elf, section, r, value, err);
	}
	return 0;
}

int module_elf_relocate(struct module_elf *elf)
{
	elf->steps = STEPS_MAX;
	for (u32 i = 1; i < elf->section_count; i++) {
		const struct elf_section *s = &elf->sections[i];
		int err;

		if (s->type != SHT_RELA || elf->place[s->info] == NOT_LOADED)
			continue;
		elf->relas = (const void *)(elf->file + s->offset);
		elf->rela_count = s->size / sizeof(*elf->relas);
		err = relocate_section(elf, s->info);
		if (err)
			return err;
	}
	return 0;
}
