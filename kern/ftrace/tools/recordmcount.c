/*
 * recordmcount: reads a linked kernel and writes, as assembly, the sorted table
 * of its call sites (struct dyn_ftrace in ftrace.h), and which copy of the
 * tracer's stubs each of them calls (struct ftrace_region).
 *
 *	recordmcount callsite.elf > records.S
 *
 * It runs in a sandbox, and mkrecords.py checks its output line by line.
 *
 * The compiler shows its call sites in one of two ways. With patchable function
 * entries it writes their addresses to a section. With -pg there is only the call
 * to _mcount itself, which is found among the instructions. The table is placed
 * after text, so that linking it in moves no site.
 */
#include <elf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *path;

/* Code that a site may call: the stubs, or an island. All of it must be in the site's reach. */
struct target {
	uint64_t start, end, stubs;
};

struct kernel {
	const uint8_t *image;
	size_t size;
	const Elf64_Ehdr *header;
	const Elf64_Shdr *sections;
	uint64_t text, etext, mcount; /* symbols; mcount 0: not there */
	struct target *targets;	      /* the tracer's section, then the islands */
	unsigned target_count;
	bool patched; /* sites will call stubs; if not, a site needs nothing in its reach */
};

struct sites {
	uint64_t *address; /* of each site's toggled word */
	size_t count, room;
};

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *why, ...)
{
	va_list args;

	fprintf(stderr, "recordmcount: %s: ", path);
	va_start(args, why);
	vfprintf(stderr, why, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static const uint8_t *read_whole(size_t *size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *image = NULL;
	size_t room = 1 << 20, n;

	if (!f)
		fail("cannot be opened");
	for (*size = 0;; *size += n) {
		if (!image || *size == room)
			/* cppcheck-suppress memleakOnRealloc */
			image = realloc(image, room *= 2);
		if (!image)
			fail("no memory for it");
		n = fread(image + *size, 1, room - *size, f);
		if (!n)
			break;
	}
	fclose(f);
	return image;
}

/* The bytes of section @s; fails if they are not all in the file. */
static const void *contents(const struct kernel *k, const Elf64_Shdr *s)
{
	if (s->sh_offset > k->size || s->sh_size > k->size - s->sh_offset)
		fail("a section reaches beyond the end of the file");
	return k->image + s->sh_offset;
}

/* The string at offset @at of the string table @s; fails if it does not end inside the table. */
static const char *string_of(const struct kernel *k, const Elf64_Shdr *s, size_t at)
{
	const char *strings = contents(k, s);

	if (at >= s->sh_size || strings[s->sh_size - 1])
		fail("a name lies beyond the end of its table");
	return strings + at;
}

static const Elf64_Shdr *section(const struct kernel *k, const char *name)
{
	const Elf64_Shdr *names = &k->sections[k->header->e_shstrndx];

	for (int i = 0; i < k->header->e_shnum; i++)
		if (!strcmp(string_of(k, names, k->sections[i].sh_name), name))
			return &k->sections[i];
	return NULL;
}

static void read_header(struct kernel *k)
{
	k->image = read_whole(&k->size);
	k->header = (const void *)k->image;
	if (k->size < sizeof(*k->header) || memcmp(k->image, ELFMAG, SELFMAG) ||
	    k->image[EI_CLASS] != ELFCLASS64 || k->image[EI_DATA] != ELFDATA2LSB)
		fail("not a 64-bit little-endian ELF file");
	if (k->header->e_machine != EM_RISCV && k->header->e_machine != EM_AARCH64)
		fail("neither riscv64 nor arm64 (machine %d)", k->header->e_machine);
	if (k->header->e_type != ET_EXEC)
		fail("not a linked kernel (type %d)", k->header->e_type);
	if (k->header->e_shoff > k->size || k->header->e_shoff % 8 ||
	    k->header->e_shnum * sizeof(Elf64_Shdr) > k->size - k->header->e_shoff ||
	    k->header->e_shstrndx >= k->header->e_shnum)
		fail("its table of section headers is cut short");
	k->sections = (const void *)(k->image + k->header->e_shoff);
}

static uint64_t symbol(const struct kernel *k, const char *name)
{
	const Elf64_Shdr *table = section(k, ".symtab"), *strings = section(k, ".strtab");
	const uint8_t *symbols;
	Elf64_Sym s;

	if (!table || !strings)
		fail("it has no symbols");
	symbols = contents(k, table);
	for (size_t i = 0; i + sizeof(s) <= table->sh_size; i += sizeof(s)) {
		memcpy(&s, symbols + i, sizeof(s));
		if (!strcmp(string_of(k, strings, s.st_name), name))
			return s.st_value;
	}
	return 0;
}

static uint64_t need_symbol(const struct kernel *k, const char *name)
{
	uint64_t value = symbol(k, name);

	if (!value)
		fail("it has no symbol %s", name);
	return value;
}

/* The instruction at @address, somewhere in .text. */
static uint32_t word_at(const struct kernel *k, const Elf64_Shdr *text, uint64_t address)
{
	const uint8_t *bytes = contents(k, text);
	uint32_t word;

	if (address < text->sh_addr || address - text->sh_addr + 4 > text->sh_size)
		fail("a call site at %#lx is not in .text", address);
	memcpy(&word, bytes + (address - text->sh_addr), 4);
	return word;
}

static bool is_riscv(const struct kernel *k)
{
	return k->header->e_machine == EM_RISCV;
}

static void add_site(struct sites *s, uint64_t address)
{
	if (s->count == s->room) {
		s->room = s->room ? 2 * s->room : 4096;
		s->address = realloc(s->address, s->room * sizeof(*s->address));
		if (!s->address)
			fail("no memory for %zu call sites", s->room);
	}
	s->address[s->count++] = address;
}

/* HOOK=entry: the compiler leaves one nop on riscv64; on arm64 two, and the second is toggled. */
static void find_entries(const struct kernel *k, const Elf64_Shdr *text, struct sites *s)
{
	const Elf64_Shdr *table = section(k, "__patchable_function_entries");
	uint32_t nop = is_riscv(k) ? 0x00000013 : 0xd503201f;
	uint64_t address;

	if (!table)
		return;
	if (table->sh_size % 8)
		fail("__patchable_function_entries is cut short");
	for (size_t i = 0; i < table->sh_size; i += 8) {
		memcpy(&address, (const uint8_t *)contents(k, table) + i, 8);
		if (!address)
			continue; /* the linker has removed the function */
		if (address & 3)
			fail("the call site at %#lx is not 4-byte aligned", address);
		if (word_at(k, text, address) != nop ||
		    (!is_riscv(k) && word_at(k, text, address + 4) != nop))
			fail("the call site at %#lx does not hold a nop", address);
		add_site(s, is_riscv(k) ? address : address + 4);
	}
}

/* The target of the call whose last word is at @address; 0 if that is no call. */
static uint64_t call_target(const struct kernel *k, uint64_t address, uint32_t before,
			    uint32_t word)
{
#if LAB_START == 2
	return 0;
#else
	if (!is_riscv(k))
		return word >> 26 == 0x25 ? address + ((int32_t)(word << 6) >> 4) : 0;
	if ((before & 0xfff) != 0x97 || (word & 0xfffff) != 0x80e7)
		return 0;
	return address - 4 + (int32_t)(before & ~0xfffu) + ((int32_t)word >> 20);
#endif
}

/* HOOK=mcount: each call to _mcount; riscv64's is a pair, whose second word is toggled. */
static void find_calls(const struct kernel *k, const Elf64_Shdr *text, struct sites *s)
{
#if LAB_START != 2
	uint32_t word, before = 0;

	for (uint64_t a = text->sh_addr; a + 4 <= text->sh_addr + text->sh_size; a += 4) {
		word = word_at(k, text, a);
		if (call_target(k, a, before, word) == k->mcount)
			add_site(s, a);
		before = word;
	}
#endif
}

static int by_address(const void *a, const void *b)
{
#if LAB_START == 2
	return 0;
#else
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
#endif
}

/* The tracer's section, then ftrace_island_1, 2 and so on. */
static void find_targets(struct kernel *k)
{
	uint64_t start = need_symbol(k, "__ftrace_text_start");
	struct target t = {start, need_symbol(k, "__ftrace_text_end"), symbol(k, "ftrace_stubs")};
	char name[40];

	k->patched = t.stubs;
	if (!t.stubs)
		t.stubs = start;
	while (t.start) {
		k->targets = realloc(k->targets, (k->target_count + 1) * sizeof(t));
		if (!k->targets)
			fail("no memory for %u islands", k->target_count);
		k->targets[k->target_count++] = t;
		snprintf(name, sizeof(name), "ftrace_island_%u", k->target_count);
		t.start = t.stubs = symbol(k, name);
		snprintf(name, sizeof(name), "ftrace_island_%u_end", k->target_count);
		t.end = t.start ? need_symbol(k, name) : 0;
	}
}

/* Can one instruction at @address call anything in @t? */
static bool in_reach(const struct kernel *k, const struct target *t, uint64_t address)
{
	int64_t reach = is_riscv(k) ? 1 << 20 : 1 << 27;

	return (int64_t)(t->start - address) >= -reach && (int64_t)(t->end - address) < reach;
}

/*
 * The target of the site at @address: the tracer itself if it is in reach, else the nearest island;
 * NULL: out of reach.
 */
static const struct target *target_of(const struct kernel *k, uint64_t address)
{
	const struct target *best = NULL;

	for (unsigned i = 0; i < k->target_count; i++) {
		const struct target *t = &k->targets[i];

		if (k->patched && !in_reach(k, t, address))
			continue;
		if (i == 0)
			return t;
		if (!best || llabs((int64_t)(t->start - address)) <
				     llabs((int64_t)(best->start - address)))
			best = t;
	}
	return best;
}

/*
 * Print a region for each run of sites that call the same stubs, and the region that ends the
 * table.
 */
static void print_regions(const struct kernel *k, const struct sites *s)
{
	const struct target *now = k->targets;

	puts("\t.section .rodata\n\t.balign 4\n\t.globl ftrace_regions\nftrace_regions:");
	printf("\t.long 0, %#lx\n", now ? now->stubs - k->text : 0);
	for (size_t i = 0; i < s->count; i++) {
		const struct target *t = target_of(k, s->address[i]);

		if (!t || t == now)
			continue;
		printf("\t.long %zu, %#lx\n", i, t->stubs - k->text);
		now = t;
	}
	printf("\t.long %zu, 0\n", s->count);
}

static void print_table(const struct kernel *k, const struct sites *s)
{
	size_t far = 0;

	puts("\t.section .ftrace_records, \"aw\"\n\t.balign 8\n\t.globl "
	     "ftrace_records\nftrace_records:");
	for (size_t i = 0; i < s->count; i++) {
		bool reached = target_of(k, s->address[i]);

		if (i && s->address[i] == s->address[i - 1])
			fail("the call site at %#lx is there twice", s->address[i]);
		if (s->address[i] < k->text || s->address[i] >= k->etext)
			fail("the call site at %#lx is outside of text", s->address[i]);
		if (!reached && ++far <= 10)
			fprintf(stderr, "recordmcount: out of reach, never traced: %#lx\n",
				s->address[i]);
		/* { u32 offset; u16 count; u8 calls; u8 flags }: FTRACE_FL_DISABLED is 1 */
		printf("\t.quad %#lx\n", (s->address[i] - k->text) | (reached ? 0 : 1ul << 56));
	}
	if (far)
		fprintf(stderr, "recordmcount: %zu of %zu call sites are out of reach\n", far,
			s->count);
	printf("\t.section .rodata\n\t.balign 4\n\t.globl ftrace_record_count\n"
	       "ftrace_record_count:\n\t.long %zu\n",
	       s->count);
}

int main(int argc, char **argv)
{
	struct kernel k = {0};
	struct sites sites = {0};
	const Elf64_Shdr *text;

	if (argc != 2) {
		fputs("usage: recordmcount KERNEL.elf\n", stderr);
		return 1;
	}
	path = argv[1];
	read_header(&k);
	text = section(&k, ".text");
	if (!text)
		fail("it has no .text");
	k.text = need_symbol(&k, "_text");
	k.etext = need_symbol(&k, "_etext");
	find_targets(&k);
	k.mcount = symbol(&k, "_mcount");
	if (k.mcount)
		find_calls(&k, text, &sites);
	else
		find_entries(&k, text, &sites);
	if (!sites.count && !k.mcount)
		fail("it has no call site: was it compiled with HOOK=entry or HOOK=mcount?");
	if (!sites.count)
		fprintf(stderr,
			"recordmcount: %s: no call to _mcount was found: the table is empty\n",
			path);
	if (k.etext - k.text > UINT32_MAX)
		fail("its text is larger than a record's offset can say");
	qsort(sites.address, sites.count, sizeof(*sites.address), by_address);
	print_table(&k, &sites);
	print_regions(&k, &sites);
	return 0;
}
