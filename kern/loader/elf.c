/*
 * The reader of module files: check the file, lay out its sections, copy them,
 * and give symbols their addresses. Structures and numbers: ELF gABI 4.1, chapter 4.
 *
 * All checks of the file are made in module_elf_open(). They come in the order of
 * what they rely on: header, section table, sections, symbols, relocations.
 */
#include "loader/elf.h"

#include "asm/reloc.h"
#include "string.h"

#define MISSING_MAX 16 /* missing symbols that are named */
#define ALIGN_MAX 4096
#define NOTHING_LOADED MODULE_REGIONS

#define REFUSE(...) module_elf_refuse(elf, -ENOEXEC, __VA_ARGS__)

int module_elf_refuse(const struct module_elf *elf, int err, const char *fmt, ...)
{
	char text[200];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	printk("module %s: %s\n", elf->name, text);
	return err;
}

const char *module_elf_section_name(const struct module_elf *elf, u32 section)
{
	return elf->section_names + elf->sections[section].name;
}

static bool is_loaded(const struct module_elf *elf, u32 section)
{
	return elf->region[section] != NOTHING_LOADED;
}

static bool is_global(const struct elf_symbol *s)
{
	return s->info >> 4 != STB_LOCAL;
}

static bool in_file(const struct module_elf *elf, u64 offset, u64 size)
{
	return offset <= elf->file_size && size <= elf->file_size - offset;
}

static int check_header(struct module_elf *elf)
{
	/* 64 bits, little endian, version 1 */
	static const u8 ident[] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
	const struct elf_header *h = (const void *)elf->file;

	if (elf->file_size > MODULE_MAX)
		return REFUSE("the file has %zu bytes; at most %lu are allowed", elf->file_size,
			      MODULE_MAX);
	if (elf->file_size < sizeof(*h))
		return REFUSE("the file is cut short: it has %zu bytes, an ELF header has 64",
			      elf->file_size);
	if ((unsigned long)elf->file % 8)
		return REFUSE("the file is not at an 8-byte aligned address");
	if (memcmp(h->ident, ident, sizeof(ident)) || h->version != 1)
		return REFUSE("the file is not a 64-bit little-endian ELF file");
	if (h->type != 1)
		return REFUSE("the file is not a relocatable object (its type is %u, not 1)",
			      h->type);
	if (h->machine != ELF_MACHINE)
		return REFUSE("the file is for machine %u; this kernel's is %u", h->machine,
			      ELF_MACHINE);
	if (h->flags)
		return REFUSE("the file's flags are 0x%x, not 0: it uses other instructions or "
			      "another ABI",
			      h->flags);
	return 0;
}

static int check_section_table(struct module_elf *elf)
{
	const struct elf_header *h = (const void *)elf->file;
	const struct elf_section *names;

	if (h->shentsize != sizeof(struct elf_section) || h->shoff % 8)
		return REFUSE("the section table at 0x%lx has entries of %u bytes; 64, 8-byte "
			      "aligned, are needed", h->shoff, h->shentsize);
	if (!h->shnum || h->shnum > MODULE_SECTIONS_MAX)
		return REFUSE("the file has %u sections; 1 to %u are allowed", h->shnum,
			      MODULE_SECTIONS_MAX);
	if (!in_file(elf, h->shoff, h->shnum * sizeof(struct elf_section)))
		return REFUSE("the file is cut short: the section table at 0x%lx ends after it",
			      h->shoff);
	elf->sections = (const void *)(elf->file + h->shoff);
	elf->section_count = h->shnum;
	if (elf->sections[0].type) /* no section: all checks of sections begin at 1 */
		return REFUSE("section 0 has type %u, not 0", elf->sections[0].type);
	if (h->shstrndx >= h->shnum)
		return REFUSE("the section of section names, %u, does not exist", h->shstrndx);
	names = &elf->sections[h->shstrndx];
	if (names->type != SHT_STRTAB || !names->size ||
	    !in_file(elf, names->offset, names->size) || elf->file[names->offset + names->size - 1])
		return REFUSE("the table of section names is not a string table inside the file");
	for (u32 i = 0; i < h->shnum; i++)
		if (elf->sections[i].name >= names->size)
			return REFUSE("the name of section %u is outside the table of names", i);
	elf->section_names = (const char *)elf->file + names->offset;
	return 0;
}

static int allocate(struct module_elf *elf)
{
	elf->place = kmalloc(elf->section_count * sizeof(*elf->place));
	elf->region = kmalloc(elf->section_count);
	if (!elf->place || !elf->region)
		return module_elf_refuse(elf, -ENOMEM, "no memory for %u sections",
					 elf->section_count);
	for (u32 i = 0; i < elf->section_count; i++) {
		elf->place[i] = NOT_LOADED;
		elf->region[i] = NOTHING_LOADED;
	}
	return 0;
}

/* Unwind tables and notes say nothing to this kernel. */
static bool is_wanted(const struct module_elf *elf, u32 i)
{
	const char *name = module_elf_section_name(elf, i);

	return (elf->sections[i].flags & SHF_ALLOC) && elf->sections[i].type != SHT_NOTE &&
	       strcmp(name, ".eh_frame") != 0 && strncmp(name, ".note", 5) != 0;
}

/* Section @i is to be loaded: say into which region. */
static int check_loaded(struct module_elf *elf, u32 i)
{
	const struct elf_section *s = &elf->sections[i];
	const char *name = module_elf_section_name(elf, i);

	if (s->type != SHT_PROGBITS && s->type != SHT_NOBITS)
		return REFUSE("section %.64s has type %u, which a module cannot have", name,
			      s->type);
	if (s->flags & SHF_TLS)
		return REFUSE(
			"section %.64s is for thread-local variables, which a module cannot have",
			name);
	if (s->flags & SHF_COMPRESSED)
		return REFUSE("section %.64s is compressed", name);
	if ((s->flags & SHF_WRITE) && (s->flags & SHF_EXECINSTR))
		return REFUSE("section %.64s is both writable and executable", name);
	if (s->align > ALIGN_MAX || (s->align & (s->align - 1)))
		return REFUSE(
			"section %.64s has alignment 0x%lx; a power of two up to %u is needed",
			name, s->align, ALIGN_MAX);
	elf->region[i] = s->flags & SHF_EXECINSTR ? MODULE_TEXT
			 : s->flags & SHF_WRITE	  ? MODULE_DATA
						  : MODULE_RODATA;
	return 0;
}

static int check_sections(struct module_elf *elf)
{
	for (u32 i = 1; i < elf->section_count; i++) {
		const struct elf_section *s = &elf->sections[i];
		const char *name = module_elf_section_name(elf, i);
		int err = 0;

		if (s->type != SHT_NOBITS && s->type && !in_file(elf, s->offset, s->size))
			return REFUSE("the file is cut short: section %.64s, 0x%lx bytes at 0x%lx, "
				      "ends after it", name, s->size, s->offset);
		if (s->type == SHT_REL)
			return REFUSE(
				"section %.64s has relocations without addends (REL), not RELA",
				name);
		if (is_wanted(elf, i))
			err = check_loaded(elf, i);
		if (err)
			return err;
	}
	return 0;
}

static bool overlap(u64 a, u64 a_size, u64 b, u64 b_size)
{
	return a_size && b_size && a < b + b_size && b < a + a_size;
}

/* The bytes of loaded section @i belong to no other section, and to no header. */
static int check_overlaps(struct module_elf *elf, u32 i)
{
	const struct elf_header *h = (const void *)elf->file;
	const struct elf_section *s = &elf->sections[i];

	if (overlap(s->offset, s->size, 0, sizeof(*h)) ||
	    overlap(s->offset, s->size, h->shoff, h->shnum * sizeof(*s)))
		return REFUSE("section %.64s overlaps the file's headers",
			      module_elf_section_name(elf, i));
	for (u32 j = 1; j < elf->section_count; j++) {
		const struct elf_section *other = &elf->sections[j];

		if (j != i && other->type && other->type != SHT_NOBITS &&
		    overlap(s->offset, s->size, other->offset, other->size))
			return REFUSE("sections %.64s and %.64s overlap in the file",
				      module_elf_section_name(elf, i),
				      module_elf_section_name(elf, j));
	}
	return 0;
}

/* Room for @bytes more at the end of @region; *@at: where. */
static int add_room(struct module_elf *elf, enum module_region region, u64 bytes, u64 align,
		    size_t *at)
{
	size_t others = elf->size[MODULE_TEXT] + elf->size[MODULE_RODATA] + elf->size[MODULE_DATA] -
			elf->size[region];

	*at = ALIGN_UP(elf->size[region], MAX(align, 1ul));
	if (bytes > MODULE_MAX || others + *at + bytes > MODULE_MAX)
		return REFUSE("the module is larger than %lu bytes", MODULE_MAX);
	elf->size[region] = *at + bytes;
	return 0;
}

/*
 * Sections of one name and one region lie side by side. The file has the name's text once, so its
 * offset is compared.
 */
static bool lies_beside(const struct module_elf *elf, u32 i, u32 first)
{
	return elf->sections[i].name == elf->sections[first].name &&
	       elf->region[i] == elf->region[first];
}

/* Place @first and, after it, the later sections that lie beside it. */
static int place_beside(struct module_elf *elf, u32 first)
{
	for (u32 i = first; i < elf->section_count; i++) {
		const struct elf_section *s = &elf->sections[i];
		int err;

		if (!lies_beside(elf, i, first))
			continue;
		err = add_room(elf, elf->region[i], s->size, s->align, &elf->place[i]);
		if (err)
			return err;
	}
	return 0;
}

static int lay_out(struct module_elf *elf)
{
	for (u32 i = 1; i < elf->section_count; i++) {
		int err = 0;

		if (!is_loaded(elf, i))
			continue;
		if (elf->sections[i].type == SHT_PROGBITS)
			err = check_overlaps(elf, i);
		if (!err && elf->place[i] == NOT_LOADED)
			err = place_beside(elf, i);
		if (err)
			return err;
	}
	return 0;
}

static int check_symbol(struct module_elf *elf, u32 i, u64 names_size)
{
	const struct elf_symbol *s = &elf->symbols[i];
	const char *name = elf->strings + s->name;

	if (s->name >= names_size)
		return REFUSE("the name of symbol %u is outside the table of names", i);
	if (strnlen(name, MODULE_SYMBOL_MAX + 1) > MODULE_SYMBOL_MAX)
		return REFUSE("the name of symbol %u, '%.32s...', has more than %u bytes", i, name,
			      MODULE_SYMBOL_MAX);
	if (s->info >> 4 > STB_WEAK)
		return REFUSE("symbol '%.64s' has an unknown binding, %u", name, s->info >> 4);
	if ((s->info & 15) == STT_TLS || (s->info & 15) == STT_GNU_IFUNC)
		return REFUSE("symbol '%.64s' is thread-local or found at run time (IFUNC)", name);
	if (s->section == SHN_COMMON)
		return REFUSE("symbol '%.64s' has no section of its own: compile with -fno-common",
			      name);
	if (s->section == SHN_ABS)
		return 0;
	if (s->section >= elf->section_count)
		return REFUSE("symbol '%.64s' is in section %u, which does not exist", name,
			      s->section);
	if (is_loaded(elf, s->section) && (s->value > elf->sections[s->section].size ||
					   s->size > elf->sections[s->section].size - s->value))
		return REFUSE("symbol '%.64s' is outside its section, %.64s", name,
			      module_elf_section_name(elf, s->section));
	return 0;
}

static int check_symbol_table(struct module_elf *elf, const struct elf_section *table)
{
	const struct elf_section *names;

	if (table->entsize != sizeof(struct elf_symbol) || table->offset % 8 || !table->size ||
	    table->size % table->entsize)
		return REFUSE("the symbol table at 0x%lx is not a table of 24-byte entries, 8-byte "
			      "aligned", table->offset);
	if (table->link >= elf->section_count)
		return REFUSE("the names of symbols are in section %u, which does not exist",
			      table->link);
	names = &elf->sections[table->link];
	if (names->type != SHT_STRTAB || !names->size || elf->file[names->offset + names->size - 1])
		return REFUSE("the names of symbols are not in a string table");
	elf->strings = (const char *)elf->file + names->offset;
	elf->symbol_count = table->size / table->entsize;
	elf->symbols = kmalloc(table->size);
	elf->slots = kzalloc(elf->symbol_count * sizeof(*elf->slots));
	if (!elf->symbols || !elf->slots)
		return module_elf_refuse(elf, -ENOMEM, "no memory for %u symbols",
					 elf->symbol_count);
	memcpy(elf->symbols, elf->file + table->offset, table->size);
	for (u32 i = 0; i < elf->symbol_count; i++) {
		int err = check_symbol(elf, i, names->size);

		if (err)
			return err;
	}
	return 0;
}

/* The loader finds @name by module_elf_symbol(). */
static int check_once(struct module_elf *elf, const char *name)
{
	u32 count = 0;

	for (u32 i = 1; i < elf->symbol_count; i++)
		count += elf->symbols[i].section != SHN_UNDEF && is_global(&elf->symbols[i]) &&
			 !strcmp(elf->strings + elf->symbols[i].name, name);
	return count > 1 ? REFUSE("symbol '%s' is defined %u times", name, count) : 0;
}

static int check_symbols(struct module_elf *elf)
{
	const struct elf_section *table = NULL;
	int err;

	for (u32 i = 1; i < elf->section_count; i++) {
		if (elf->sections[i].type != SHT_SYMTAB)
			continue;
		if (table)
			return REFUSE("the file has two symbol tables");
		table = &elf->sections[i];
	}
	if (!table)
		return REFUSE("the file has no symbol table");
	err = check_symbol_table(elf, table);
	return err ?: check_once(elf, "init_module") ?: check_once(elf, "cleanup_module");
}

/* All messages about a relocation begin with the same words. */
#define REFUSE_RELA(fmt, ...)                                                                   \
	REFUSE("relocation %s (type %u) at %.64s+0x%lx " fmt, type ? type->name : "unknown",   \
	       r->type, module_elf_section_name(elf, section), r->offset, ##__VA_ARGS__)

static int check_rela(struct module_elf *elf, u32 section, const struct elf_rela *r)
{
	const struct reloc_type *type = arch_reloc_type(r->type);
	u64 size = elf->sections[section].size;
	const struct elf_symbol *s;
	struct module_slots *slots;

	if (!type || !type->align)
		return REFUSE_RELA("is not supported");
	if (r->offset > size || type->width > size - r->offset)
		return REFUSE_RELA("is outside the section, which has 0x%lx bytes", size);
	if ((elf->place[section] + r->offset) % type->align)
		return REFUSE_RELA("is not at a multiple of %u", type->align);
	if (r->symbol >= elf->symbol_count)
		return REFUSE_RELA("is to symbol %u, which does not exist", r->symbol);
	s = &elf->symbols[r->symbol];
	slots = &elf->slots[r->symbol];
	if (s->section && s->section < SHN_LORESERVE && !is_loaded(elf, s->section))
		return REFUSE_RELA("is to section %.64s, which is not loaded",
				   module_elf_section_name(elf, s->section));
	if (type->got && r->addend)
		return REFUSE_RELA("has an addend");
	if (type->got && !slots->got)
		slots->got = ++elf->gots;
	if (type->plt && !slots->plt && (s->section == SHN_UNDEF || s->section == SHN_ABS))
		slots->plt = ++elf->plts;
	return 0;
}

static int check_rela_section(struct module_elf *elf, const struct elf_section *s)
{
	const struct elf_rela *r = (const void *)(elf->file + s->offset);

	if (s->entsize != sizeof(*r) || s->offset % 8 || s->size % s->entsize)
		return REFUSE("section %.64s is not a table of 24-byte entries, 8-byte aligned",
			      elf->section_names + s->name);
	if (s->link >= elf->section_count || elf->sections[s->link].type != SHT_SYMTAB)
		return REFUSE("section %.64s does not name the symbol table",
			      elf->section_names + s->name);
	for (u64 n = s->size / s->entsize; n--; r++) {
		int err = check_rela(elf, s->info, r);

		if (err)
			return err;
	}
	return 0;
}

static int check_relas(struct module_elf *elf)
{
	u64 bytes = 0;

	for (u32 i = 1; i < elf->section_count; i++) {
		const struct elf_section *s = &elf->sections[i];
		int err = 0;

		if (s->type != SHT_RELA)
			continue;
		if (s->info >= elf->section_count)
			return REFUSE("section %.64s relocates section %u, which does not exist",
				      module_elf_section_name(elf, i), s->info);
		if (!is_loaded(elf, s->info))
			continue;
		bytes += s->size;
		/* else a small file could keep this CPU busy for minutes */
		if (bytes > elf->file_size)
			return REFUSE("section %.64s overlaps other sections of relocations",
				      module_elf_section_name(elf, i));
		err = check_rela_section(elf, s);
		if (err)
			return err;
	}
	return 0;
}

static int add_plt_and_got(struct module_elf *elf)
{
	int err = 0;

	if (elf->plts)
		err = add_room(elf, MODULE_TEXT, elf->plts * PLT_ENTRY_SIZE, 4, &elf->plt);
	if (!err && elf->gots)
		err = add_room(elf, MODULE_RODATA, elf->gots * 8, 8, &elf->got);
	return err;
}

int module_elf_open(struct module_elf *elf, const char *name, const void *file, size_t size)
{
	static int (*const steps[])(struct module_elf *) = {
		check_header, check_section_table, allocate, check_sections,
		lay_out, check_symbols, check_relas, add_plt_and_got,
	};
	int err = 0;

	*elf = (struct module_elf){.name = name, .file = file, .file_size = size};
	for (u32 i = 0; i < ARRAY_SIZE(steps) && !err; i++)
		err = steps[i](elf);
	return err;
}

void module_elf_close(struct module_elf *elf)
{
	kfree(elf->place);
	kfree(elf->region);
	kfree(elf->symbols);
	kfree(elf->slots);
	elf->place = NULL;
	elf->region = NULL;
	elf->symbols = NULL;
	elf->slots = NULL;
}

void module_elf_copy(struct module_elf *elf)
{
	for (u32 region = 0; region < MODULE_REGIONS; region++)
		if (elf->size[region])
			memset(elf->memory[region], 0, elf->size[region]);
	for (u32 i = 1; i < elf->section_count; i++)
		if (is_loaded(elf, i) && elf->sections[i].type == SHT_PROGBITS &&
		    elf->sections[i].size)
			memcpy(elf->memory[elf->region[i]] + elf->place[i],
			       elf->file + elf->sections[i].offset, elf->sections[i].size);
}

/* The symbol's address, if the object itself says where it is. */
static unsigned long own_value(const struct module_elf *elf, const struct elf_symbol *s)
{
	if (s->section == SHN_ABS)
		return s->value;
	return is_loaded(elf, s->section) ? module_elf_address(elf, s->section, s->value) : 0;
}

int module_elf_resolve(struct module_elf *elf, unsigned long (*find)(void *arg, const char *name),
		       void *arg)
{
	int err = 0;
	u32 missing = 0;

	for (u32 i = 1; i < elf->symbol_count; i++) {
		struct elf_symbol *s = &elf->symbols[i];
		const char *name = elf->strings + s->name;
		unsigned long found = is_global(s) ? find(arg, name) : 0;

		if (s->section == SHN_UNDEF) {
			s->value = found;
			if (!found && s->info >> 4 != STB_WEAK && missing++ < MISSING_MAX)
				err = module_elf_refuse(elf, -ENOENT, "symbol '%.64s' is not found",
							name);
			continue;
		}
		if (found)
			return module_elf_refuse(elf, -EEXIST, "symbol '%.64s' exists already",
						 name);
		s->value = own_value(elf, s);
	}
	if (missing > MISSING_MAX)
		module_elf_refuse(elf, err, "%u more symbols are not found", missing - MISSING_MAX);
	return err;
}

unsigned long module_elf_section(const struct module_elf *elf, const char *name, size_t *size)
{
	u32 first = 1;
	unsigned long start;

	*size = 0;
	while (first < elf->section_count &&
	       (!is_loaded(elf, first) || strcmp(module_elf_section_name(elf, first), name) != 0))
		first++;
	if (first == elf->section_count)
		return 0;
	start = module_elf_address(elf, first, 0);
	for (u32 i = first; i < elf->section_count; i++)
		if (lies_beside(elf, i, first))
			*size = module_elf_address(elf, i, elf->sections[i].size) - start;
	return start;
}

unsigned long module_elf_symbol(const struct module_elf *elf, const char *name)
{
	for (u32 i = 1; i < elf->symbol_count; i++) {
		const struct elf_symbol *s = &elf->symbols[i];

		if (s->section != SHN_UNDEF && is_global(s) &&
		    strcmp(elf->strings + s->name, name) == 0)
			return s->value;
	}
	return 0;
}
