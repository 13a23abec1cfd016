/*
 * Tests the promises of loader/elf.h for one architecture. The including test names
 * the cross compiler, which makes the object files, and adds what its relocations promise.
 */
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "said.h"

extern "C" {
#define export export_ /* a structure's name in C */
#define private private_
#include "loader/elf.h"
#undef export
#undef private
#include "asm/reloc.h"
#include "errno.h"
}

#define TEXT   0x10000000ul
#define RODATA 0x10100000ul
#define DATA   0x10200000ul

static int allocations = -1; /* so many succeed; -1: all */

extern "C" void *kmalloc(size_t size)
{
	return allocations < 0 || allocations-- ? malloc(size) : NULL;
}
extern "C" void *kzalloc(size_t size)
{
	void *p = kmalloc(size);
	return p ? memset(p, 0, size) : NULL;
}
extern "C" void kfree(void *p)
{
	free(p);
}

using Bytes = std::vector<u8>;
using Symbols = std::map<std::string, unsigned long>;

static Bytes read_file(const std::string &name)
{
	std::ifstream f(name, std::ios::binary);
	return Bytes((std::istreambuf_iterator<char>(f)), {});
}

/*
 * Run @command in a directory of its own with @source as the file "source"; what it makes of "out".
 */
static Bytes run_in_directory(const std::string &source, const std::string &command)
{
	char dir[] = "/tmp/elf_testXXXXXX";
	std::string d = mkdtemp(dir), here = std::getenv("PWD");
	std::ofstream(d + "/source") << source;
	EXPECT_EQ(0, system(("cd " + d + " && HERE=" + here + " && { " + command + "; }").c_str()))
		<< command;
	Bytes out = read_file(d + "/out");
	EXPECT_EQ(0, system(("rm -r " + d).c_str()));
	return out;
}

static Bytes assemble(const std::string &source)
{
	return run_in_directory(source, CROSS "as " AS_FLAGS " -o out source");
}

static Bytes compile(const std::string &compiler, const std::string &flags)
{
	return run_in_directory("", compiler +
					    " -std=gnu11 -O2 -ffreestanding -fno-common -fno-pic "
					    "-fno-omit-frame-pointer "
					    "-fno-asynchronous-unwind-tables " +
					    flags +
					    " -c -o out $HERE/kern/loader/tests/good-module.c");
}

static const Bytes &good()
{
	static Bytes b = compile(CROSS "gcc", CC_FLAGS);
	return b;
}

static unsigned long find_in(void *arg, const char *name)
{
	auto &symbols = *(Symbols *)arg;
	return symbols.count(name) ? symbols[name] : 0;
}

/* The kernel's symbols of the tests: all in reach. */
static Symbols near_symbols()
{
	return {{"printk", 0x10400000}, {"far_function", 0x10400100}, {"far_variable", 0x10500008}};
}

/*
 * A module from open to relocate. The file and the regions have exactly their sizes: the sanitizer
 * sees a byte more.
 */
struct Linked {
	module_elf elf;
	std::unique_ptr<u8[]> file;
	std::unique_ptr<u8[]> region[MODULE_REGIONS];
	int err;

	explicit Linked(const Bytes &b, Symbols symbols = near_symbols(), unsigned long text = TEXT)
	    : file(new u8[b.size()])
	{
		static const unsigned long offset[] = {0, RODATA - TEXT, DATA - TEXT};
		said.clear();
		std::copy(b.begin(), b.end(), file.get());
		err = module_elf_open(&elf, "m", file.get(), b.size());
		if (err)
			return;
		for (int i = 0; i < MODULE_REGIONS; i++) {
			region[i].reset(new u8[elf.size[i]]);
			elf.memory[i] = region[i].get();
			elf.base[i] = text + offset[i];
		}
		module_elf_copy(&elf);
		err = module_elf_resolve(&elf, find_in, &symbols);
		err = err ? err : module_elf_relocate(&elf);
	}
	~Linked()
	{
		module_elf_close(&elf);
	}
	/* The memory at the run-time address @addr. */
	u8 *at(unsigned long addr)
	{
		for (int i = 0; i < MODULE_REGIONS; i++)
			if (addr - elf.base[i] < elf.size[i])
				return elf.memory[i] + (addr - elf.base[i]);
		ADD_FAILURE() << "no byte of the module is at " << std::hex << addr;
		return elf.memory[0];
	}
	u64 word(unsigned long addr, unsigned width = 4)
	{
		return reloc_get(at(addr), width);
	}
	unsigned long section(const char *name)
	{
		size_t size;
		return module_elf_section(&elf, name, &size);
	}
};

/* ---- against the linker of the toolchain --------------------------------------- */

/* The same object linked by ld, each section at the address that it has in @m. */
static Bytes linked_by_ld(Linked &m, const Bytes &object, const Symbols &symbols)
{
	std::string script = "SECTIONS {\n", defs;
	std::map<std::string, bool> seen;
	char line[200];
	for (u32 i = 1; i < m.elf.section_count; i++) {
		std::string name = module_elf_section_name(&m.elf, i);
		if (m.elf.place[i] == NOT_LOADED || seen[name])
			continue;
		seen[name] = true;
		snprintf(line, sizeof(line), "%s %#lx : { *(%s) }\n", name.c_str(),
			 m.section(name.c_str()), name.c_str());
		script += line;
	}
	script += "/DISCARD/ : { *(.eh_frame) *(.comment) *(.note*) }\n}\n";
	for (auto &[name, value] : symbols)
		defs += " --defsym=" + name + "=" + std::to_string(value);
	std::string o = "/tmp/elf_test.o." + std::to_string(getpid());
	std::ofstream(o, std::ios::binary).write((const char *)object.data(), object.size());
	/*
	 * Without SHF_MERGE: ld 2.44 lays the strings of sections of other names into the first
	 * one, too. The loader merges none.
	 */
	Bytes out = run_in_directory(
		script, CROSS "objcopy -w --set-section-flags '.rodata.str*=alloc,readonly,data' " +
				o + " && " + CROSS "ld --no-relax --no-warn-rwx-segments -e 0" +
				defs + " -T source -o out " + o);
	unlink(o.c_str());
	return out;
}

static void expect_as_ld(const Bytes &object)
{
	Linked m(object);
	ASSERT_EQ(0, m.err) << said;
	Bytes elf = linked_by_ld(m, object, near_symbols());
	ASSERT_LT(sizeof(elf_header), elf.size());
	auto h = (const elf_header *)elf.data();
	auto s = (const elf_section *)(elf.data() + h->shoff);
	auto names = (const char *)elf.data() + s[h->shstrndx].offset;
	int compared = 0;
	for (int i = 1; i < h->shnum; i++) {
		if (s[i].type != SHT_PROGBITS || !(s[i].flags & SHF_ALLOC) || !s[i].size)
			continue;
		const char *name = names + s[i].name;
		size_t size;
		ASSERT_EQ(s[i].addr, module_elf_section(&m.elf, name, &size)) << name;
		ASSERT_EQ(s[i].size, size) << name;
		std::vector<u64> theirs, ours;
		u64 n = 0;
		for (; n + 8 <= size; n += 8)
			theirs.push_back(reloc_get(&elf[s[i].offset + n], 8)),
				ours.push_back(m.word(s[i].addr + n, 8));
		for (; n < size; n++)
			theirs.push_back(elf[s[i].offset + n]),
				ours.push_back(*m.at(s[i].addr + n));
		/* ld sorts Clang's several sections */
		if (strcmp(name, "__patchable_function_entries") == 0)
			std::sort(theirs.begin(), theirs.end()),
				std::sort(ours.begin(), ours.end());
		ASSERT_EQ(theirs, ours) << name;
		compared++;
	}
	EXPECT_LE(5, compared)
		<< ".text, .text.unlikely, .data, .rodata, __patchable_function_entries";
}

TEST(module_elf, links_what_gcc_makes_as_ld_does)
{
	expect_as_ld(good());
	expect_as_ld(compile(CROSS "gcc", CC_FLAGS " -g -ffunction-sections -fdata-sections"));
}

TEST(module_elf, links_what_clang_makes_as_ld_does)
{
	expect_as_ld(compile("clang --target=" TARGET, CLANG_FLAGS));
}

TEST(module_elf, a_weak_symbol_that_is_missing_is_at_0)
{
	for (const Bytes &object : {compile(CROSS "gcc", CC_FLAGS " -DWEAK"),
				    compile("clang --target=" TARGET, CLANG_FLAGS " -DWEAK")}) {
		Linked m(object);
		EXPECT_EQ(0, m.err) << said;
		Linked far(object, near_symbols(), 0xffffffe000000000ul);
		EXPECT_EQ(-ERANGE, far.err) << "printk is out of reach";
		Symbols symbols;
		for (auto &[name, value] : near_symbols())
			symbols[name] = value + 0xffffffff80000000ul - TEXT;
		Linked high(object, symbols, 0xffffffff80000000ul);
		EXPECT_EQ(0, high.err) << said;
	}
}

TEST(module_elf, regions_have_their_sections_and_alignment)
{
	Linked m(assemble(
		".section .a,\"ax\"\n.4byte 0\n.section .b,\"a\"\n.byte 1,2,3\n.section "
		".c,\"a\"\n.balign 64\n.byte 4\n"
		".section .d,\"aw\"\n.balign 4096\n.byte 5\n.section .e,\"aw\",%nobits\n.zero 7\n"
		".section .comment\n.byte 1\n.section .eh_frame,\"a\"\n.8byte 8\n.section "
		".note.x,\"a\",%note\n.8byte 8\n"));
	ASSERT_EQ(0, m.err) << said;
	EXPECT_EQ(TEXT, m.section(".a"));
	EXPECT_EQ(RODATA, m.section(".b"));
	EXPECT_EQ(RODATA + 64, m.section(".c"));
	EXPECT_EQ(DATA, m.section(".d"));
	EXPECT_EQ(DATA + 1, m.section(".e"));
	EXPECT_EQ(65u, m.elf.size[MODULE_RODATA]);
	EXPECT_EQ(8u, m.elf.size[MODULE_DATA]) << ".bss has memory";
	EXPECT_EQ(5, *m.at(DATA));
	EXPECT_EQ(0, *m.at(DATA + 7));
	for (const char *name : {".comment", ".eh_frame", ".note.x", ".none"})
		EXPECT_EQ(0u, m.section(name)) << name;
}

TEST(module_elf, sections_of_one_name_count_as_one)
{
	Linked m(assemble(
		".section .t,\"a\",%progbits,unique,1\n.8byte 1\n.section .u,\"a\"\n.8byte 2\n"
		".section .t,\"a\",%progbits,unique,2\n.8byte 3\n"));
	size_t size;
	ASSERT_EQ(0, m.err) << said;
	unsigned long t = module_elf_section(&m.elf, ".t", &size);
	EXPECT_EQ(16u, size);
	EXPECT_EQ(1u, m.word(t, 8));
	EXPECT_EQ(3u, m.word(t + 8, 8));
}

TEST(module_elf, finds_what_the_object_defines)
{
	Linked m(assemble(".globl a, b, c\n.weak w\n.data\n.8byte 0\na: .8byte a\nlocal: .8byte "
			  "c\nw:\n.set b, 0x1234\n.size a, 8\n"),
		 {{"c", 0x77}});
	ASSERT_EQ(0, m.err) << said;
	EXPECT_EQ(DATA + 8, module_elf_symbol(&m.elf, "a"));
	EXPECT_EQ(0x1234u, module_elf_symbol(&m.elf, "b")) << "absolute";
	EXPECT_EQ(DATA + 24, module_elf_symbol(&m.elf, "w"));
	EXPECT_EQ(0u, module_elf_symbol(&m.elf, "c")) << "the kernel's";
	EXPECT_EQ(0u, module_elf_symbol(&m.elf, "local"));
	EXPECT_EQ(DATA + 8, m.word(DATA + 8, 8));
	EXPECT_EQ(0x77u, m.word(DATA + 16, 8));
}

/* ---- refused -------------------------------------------------------------------- */

TEST(module_elf, every_missing_symbol_is_named)
{
	Linked m(good(), {{"printk", TEXT}});
	EXPECT_EQ(-ENOENT, m.err);
	EXPECT_NE(std::string::npos, said.find("module m: symbol 'far_function' is not found\n"))
		<< said;
	EXPECT_NE(std::string::npos, said.find("module m: symbol 'far_variable' is not found\n"))
		<< said;
	std::string many;
	for (int i = 0; i < 30; i++)
		many += ".8byte s" + std::to_string(i) + "\n";
	Linked n(assemble(".data\n" + many));
	EXPECT_EQ(-ENOENT, n.err);
	EXPECT_NE(std::string::npos, said.find("module m: 14 more symbols are not found\n"))
		<< said;
}

TEST(module_elf, a_symbol_that_exists_is_refused)
{
	Symbols symbols = near_symbols();
	symbols["counter"] = 0x1000;
	Linked m(good(), symbols);
	EXPECT_EQ(-EEXIST, m.err);
	EXPECT_EQ("module m: symbol 'counter' exists already\n", said);
}

static elf_header *header(Bytes &b)
{
	return (elf_header *)b.data();
}
static elf_section *sections(Bytes &b)
{
	return (elf_section *)(b.data() + header(b)->shoff);
}
static const char *name_of(Bytes &b, const elf_section &s)
{
	return (const char *)b.data() + sections(b)[header(b)->shstrndx].offset + s.name;
}
static elf_section &section(Bytes &b, const std::string &name)
{
	for (int i = 1; i < header(b)->shnum; i++)
		if (name == name_of(b, sections(b)[i]))
			return sections(b)[i];
	ADD_FAILURE() << "no section " << name;
	return sections(b)[0];
}
static elf_symbol &symbol(Bytes &b, const std::string &name)
{
	auto s = (elf_symbol *)(b.data() + section(b, ".symtab").offset);
	while (name != (const char *)b.data() + section(b, ".strtab").offset + s->name)
		s++;
	return *s;
}
static elf_rela &rela(Bytes &b, const std::string &name = ".rela.text")
{
	return *(elf_rela *)(b.data() + section(b, name).offset);
}

/*
 * The assembler writes each name once. Two equal names at two places, or in two regions, have other
 * sections between them.
 */
TEST(module_elf, sections_that_do_not_lie_side_by_side_do_not_count_as_one)
{
	for (bool other_region : {false, true}) {
		Bytes b = assemble(".section .t,\"a\"\n.8byte 1\n.section .u,\"a\"\n.8byte "
				   "2\n.section .zz,\"a\"\n.8byte 3\n");
		elf_section &zz = section(b, ".zz");
		if (other_region)
			zz.name = section(b, ".t").name, zz.flags |= SHF_WRITE;
		else
			strcpy((char *)name_of(b, zz), ".t");
		Linked m(b);
		size_t size;
		ASSERT_EQ(0, m.err) << said;
		unsigned long t = module_elf_section(&m.elf, ".t", &size);
		EXPECT_EQ(8u, size);
		EXPECT_EQ(1u, m.word(t, 8));
	}
}

struct Refused {
	/* of the kernel, from "module m: " on; a part that says which check it was */
	const char *sentence;
	std::function<void(Bytes &)> change;
};

static const Refused refused[] = {
	{"the file is not a 64-bit little-endian ELF file", [](Bytes &b) { b[0] = 0; }},
	{"the file is not a 64-bit little-endian ELF file", [](Bytes &b) { b[4] = 1; }},
	{"the file is not a 64-bit little-endian ELF file", [](Bytes &b) { b[5] = 2; }},
	{"the file is not a 64-bit little-endian ELF file",
	 [](Bytes &b) { header(b)->version = 2; }},
	{"the file is not a relocatable object (its type is 2, not 1)",
	 [](Bytes &b) { header(b)->type = 2; }},
	{"the file is for machine 62; this kernel's is ",
	 [](Bytes &b) { header(b)->machine = 62; }},
	{"the file's flags are 0x1, not 0", [](Bytes &b) { header(b)->flags = 1; }},
	{"the file is cut short: it has 63 bytes", [](Bytes &b) { b.resize(63); }},
	{"the file has 1048577 bytes; at most 1048576 are allowed",
	 [](Bytes &b) { b.resize(1048577); }},
	{"has entries of 40 bytes", [](Bytes &b) { header(b)->shentsize = 40; }},
	{"8-byte aligned, are needed", [](Bytes &b) { header(b)->shoff++; }},
	{"the file has 0 sections", [](Bytes &b) { header(b)->shnum = 0; }},
	{"the file has 2049 sections", [](Bytes &b) { header(b)->shnum = 2049; }},
	{"the section table at 0xfffffffffffffff8 ends after it",
	 [](Bytes &b) { header(b)->shoff = -8; }},
	{"the section of section names, 4000, does not exist",
	 [](Bytes &b) { header(b)->shstrndx = 4000; }},
	{"names is not a string table inside", [](Bytes &b) { header(b)->shstrndx = 1; }},
	{"names is not a string table inside", [](Bytes &b) { section(b, ".shstrtab").size--; }},
	{"names is not a string table inside",
	 [](Bytes &b) { section(b, ".shstrtab").offset = ~0ul; }},
	{"names is not a string table inside",
	 [](Bytes &b) { elf_section &s = section(b, ".shstrtab"); s.offset++, s.size = 0; }},
	{"names is not a string table inside",
	 [](Bytes &b) { section(b, ".shstrtab").type = SHT_PROGBITS; }},
	{"the name of section 2 is outside", [](Bytes &b) { sections(b)[2].name = 100000; }},
	{"section 0 has type 3, not 0",
	 [](Bytes &b) { sections(b)[0].type = SHT_STRTAB, sections(b)[0].offset = 1ul << 40,
			sections(b)[0].size = 1, section(b, ".symtab").link = 0; }},
	{"section .data, 0xfffffffffffffff0 bytes at 0x",
	 [](Bytes &b) { section(b, ".data").size = -16; }},
	{"section .data, ", [](Bytes &b) { section(b, ".data").offset = b.size(); }},
	{"section .rela.text has relocations without addends (REL), not RELA",
	 [](Bytes &b) { section(b, ".rela.text").type = SHT_REL; }},
	{"section .data has type 14, which a module cannot have",
	 [](Bytes &b) { section(b, ".data").type = 14; }},
	{"section .data is for thread-local variables",
	 [](Bytes &b) { section(b, ".data").flags |= SHF_TLS; }},
	{"section .rodata is compressed",
	 [](Bytes &b) { section(b, ".rodata").flags |= SHF_COMPRESSED; }},
	{"section .text is both writable and executable",
	 [](Bytes &b) { section(b, ".text").flags |= SHF_WRITE; }},
	{"section .data has alignment 0x18; a power of two up to 4096 is needed",
	 [](Bytes &b) { section(b, ".data").align = 24; }},
	{"section .data has alignment 0x2000", [](Bytes &b) { section(b, ".data").align = 8192; }},
	{"section .data has alignment 0x8000000000000000",
	 [](Bytes &b) { section(b, ".data").align = 1ul << 63; }},
	{"section .text overlaps the file's headers",
	 [](Bytes &b) { section(b, ".text").offset = 60; }},
	{"section .data overlaps the file's headers",
	 [](Bytes &b) { section(b, ".data").offset = header(b)->shoff + 8; }},
	{"sections .text and .data overlap in the file",
	 [](Bytes &b) { section(b, ".data").offset = section(b, ".text").offset + 1; }},
	{"sections .data and .symtab overlap",
	 [](Bytes &b) { section(b, ".data").offset = section(b, ".symtab").offset; }},
	{"the module is larger than 1048576 bytes",
	 [](Bytes &b) { section(b, ".bss").size = 1048576; }},
	{"the module is larger than 1048576 bytes",
	 [](Bytes &b) { section(b, ".bss").size = ~0ul; }},
	{"the file has no symbol table", [](Bytes &b) { section(b, ".symtab").type = 0; }},
	{"the file has two symbol tables",
	 [](Bytes &b) { section(b, ".comment").type = SHT_SYMTAB; }},
	{"the symbol table at 0x", [](Bytes &b) { section(b, ".symtab").entsize = 1; }},
	{"is not a table of 24-byte entries", [](Bytes &b) { section(b, ".symtab").size = 0; }},
	{"is not a table of 24-byte entries", [](Bytes &b) { section(b, ".symtab").size--; }},
	{"is not a table of 24-byte entries", [](Bytes &b) { section(b, ".symtab").offset -= 4; }},
	{"the names of symbols are in section 4000, which",
	 [](Bytes &b) { section(b, ".symtab").link = 4000; }},
	{"the names of symbols are not in a string table",
	 [](Bytes &b) { section(b, ".symtab").link = 1; }},
	{"the names of symbols are not in a string table",
	 [](Bytes &b) { section(b, ".strtab").size--; }},
	{"the names of symbols are not in a string table",
	 [](Bytes &b) { elf_section &s = section(b, ".strtab"); s.offset++, s.size = 0; }},
	{"the names of symbols are not in a string table",
	 [](Bytes &b) { section(b, ".strtab").type = SHT_PROGBITS; }},
	{"is outside the table of names", [](Bytes &b) { symbol(b, "counter").name = 1 << 20; }},
	{"symbol 'counter' has an unknown binding, 10",
	 [](Bytes &b) { symbol(b, "counter").info = 0xa1; }},
	{"symbol 'counter' is thread-local or", [](Bytes &b) { symbol(b, "counter").info = 0x16; }},
	{"symbol 'counter' is thread-local or found at run time (IFUNC)",
	 [](Bytes &b) { symbol(b, "counter").info = 0x1a; }},
	{"symbol 'counter' has no section of its own: compile with -fno-common",
	 [](Bytes &b) { symbol(b, "counter").section = SHN_COMMON; }},
	{"symbol 'counter' is in section 4000, which does not exist",
	 [](Bytes &b) { symbol(b, "counter").section = 4000; }},
	{"symbol 'counter' is in section 65535, which",
	 [](Bytes &b) { symbol(b, "counter").section = 0xffff; }},
	{"symbol 'counter' is outside its section, .data",
	 [](Bytes &b) { symbol(b, "counter").value = section(b, ".data").size + 1; }},
	{"symbol 'counter' is outside its section",
	 [](Bytes &b) { symbol(b, "counter").size = -1; }},
	{"section .rela.text relocates section 4000, which",
	 [](Bytes &b) { section(b, ".rela.text").info = 4000; }},
	{"section .rela.text is not a table of 24-byte entries",
	 [](Bytes &b) { section(b, ".rela.text").entsize = 8; }},
	{"section .rela.text is not a table of 24-byte entries",
	 [](Bytes &b) { section(b, ".rela.text").offset += 4; }},
	{"section .rela.text is not a table of 24-byte entries",
	 [](Bytes &b) { section(b, ".rela.text").size -= 8; }},
	{"section .rela.text does not name the symbol table",
	 [](Bytes &b) { section(b, ".rela.text").link = 1; }},
	{"section .rela.text does not name the symbol table",
	 [](Bytes &b) { section(b, ".rela.text").link = 4000; }},
	{"module m: relocation unknown (type 5000) at .text+0x",
	 [](Bytes &b) { rela(b).type = 5000; }},
	{"(type 5000) at .text+0x10 is not supported",
	 [](Bytes &b) { rela(b).type = 5000, rela(b).offset = 16; }},
	{"at .text+0xfffffffffffffffc is outside the section, which has 0x",
	 [](Bytes &b) { rela(b).offset = -4; }},
	{"is outside the section", [](Bytes &b) { rela(b).offset = section(b, ".text").size - 3; }},
	{"is not at a multiple of 4", [](Bytes &b) { rela(b).offset = 2; }},
	{"is to symbol 90000, which does not exist", [](Bytes &b) { rela(b).symbol = 90000; }},
	{"symbol 'init_module' is defined 2 times",
	 [](Bytes &b) { symbol(b, "choose").name = symbol(b, "init_module").name; }},
	{"symbol 'cleanup_module' is defined 2 times", [](Bytes &b) {
		elf_symbol &one = symbol(b, "choose"), &two = symbol(b, "rare");
		memcpy(b.data() + section(b, ".strtab").offset, "\0cleanup_module", 16);
		one.name = two.name = 1; }},
	{"is to section .comment, which is not loaded", [](Bytes &b) {
		symbol(b, "counter").section = &section(b, ".comment") - sections(b);
		rela(b).symbol = &symbol(b, "counter") -
			(elf_symbol *)(b.data() + section(b, ".symtab").offset); }},
};

TEST(module_elf, what_is_wrong_is_refused_by_name)
{
	for (const Refused &r : refused) {
		Bytes b = good();
		r.change(b);
		Linked m(b);
		EXPECT_EQ(-ENOEXEC, m.err) << r.sentence;
		EXPECT_NE(std::string::npos, said.find(r.sentence))
			<< "promised: " << r.sentence << "\nsaid: " << said;
		EXPECT_EQ(0u, said.find("module m: "));
		EXPECT_EQ(said.size() - 1, said.find('\n')) << "one sentence: " << said;
	}
}

TEST(module_elf, without_memory_nothing_is_left)
{
	for (int n = 0; n < 4; n++) {
		allocations = n;
		Linked m(good());
		allocations = -1;
		EXPECT_EQ(-ENOMEM, m.err) << n;
		EXPECT_EQ(0u, said.find("module m: no memory for ")) << said;
	}
}

TEST(module_elf, a_long_name_is_refused)
{
	std::string name(255, 'a');
	Linked m(assemble(".data\n.globl " + name + "\n" + name + ": .8byte 0\n"));
	EXPECT_EQ(0, m.err) << said;
	Linked n(assemble(".data\n.globl b" + name + "\nb" + name + ": .8byte 0\n"));
	EXPECT_EQ(-ENOEXEC, n.err);
	EXPECT_NE(std::string::npos,
		  said.find(", 'baaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...', has more than 255 bytes\n"))
		<< said;
}

/* 400 sections, each relocated by the same 1,000 entries. */
TEST(module_elf, relocations_that_overlap_are_refused)
{
	std::string source;
	for (int i = 0; i < 1000; i++)
		source += ".8byte printk\n";
	std::string all = ".data\n" + source;
	for (int i = 0; i < 400; i++)
		all += ".section .d" + std::to_string(i) + ",\"aw\"\n.zero 1992\n.8byte printk\n";
	Bytes b = assemble(all);
	Linked m(b);
	EXPECT_EQ(0, m.err) << said;
	for (int i = 1; i < header(b)->shnum; i++)
		if (sections(b)[i].type == SHT_RELA)
			sections(b)[i].offset = section(b, ".rela.data").offset,
			sections(b)[i].size = 249 * 24;
	Linked n(b);
	EXPECT_EQ(-ENOEXEC, n.err);
	EXPECT_NE(std::string::npos, said.find(" overlaps other sections of relocations\n"))
		<< said;
}

TEST(module_elf, a_file_at_an_odd_address_is_refused)
{
	std::unique_ptr<u8[]> copy(new u8[good().size() + 4]);
	std::copy(good().begin(), good().end(), copy.get() + 4);
	module_elf elf;
	EXPECT_EQ(-ENOEXEC, module_elf_open(&elf, "m", copy.get() + 4, good().size()));
	module_elf_close(&elf);
}

TEST(module_elf, a_name_cannot_change_the_terminal)
{
	Bytes b = assemble(".data\n.8byte aXY2Jb\n");
	u64 at = section(b, ".strtab").offset + symbol(b, "aXY2Jb").name;
	b[at + 1] = '\033';
	b[at + 2] = 0x7f;
	Linked m(b);
	EXPECT_EQ(-ENOENT, m.err);
	EXPECT_EQ(std::string::npos, said.find('\033'));
	EXPECT_NE(std::string::npos, said.find("'a??2Jb'")) << said;
}

TEST(module_elf, a_relocation_of_what_is_not_loaded_is_skipped)
{
	Linked m(assemble(".section .comment\n.8byte nowhere - .\n.section .eh_frame,\"a\"\n.8byte "
			  "printk\n"),
		 {{"nowhere", 1}, {"printk", 1}});
	EXPECT_EQ(0, m.err) << said;
}

TEST(module_elf, a_file_cut_short_at_any_byte_is_refused)
{
	for (size_t size = 0; size < good().size(); size++) {
		Linked m(Bytes(good().begin(), good().begin() + size));
		ASSERT_EQ(-ENOEXEC, m.err) << size << " of " << good().size() << " bytes";
		ASSERT_FALSE(said.empty());
	}
}

/* Whatever it says: the sanitizers say whether a byte was read or written outside. */
TEST(module_elf, a_file_with_any_byte_of_its_tables_changed_is_survived)
{
	Bytes b = good();
	std::vector<std::pair<u64, u64>> ranges = {{0, sizeof(elf_header)},
						   {header(b)->shoff, b.size()}};
	for (int i = 1; i < header(b)->shnum; i++)
		if (sections(b)[i].type == SHT_SYMTAB || sections(b)[i].type == SHT_RELA ||
		    sections(b)[i].type == SHT_STRTAB)
			ranges.push_back({sections(b)[i].offset,
					  sections(b)[i].offset + sections(b)[i].size});
	int linked = 0, refused_ = 0;
	for (auto [from, to] : ranges)
		for (u64 i = from; i < to; i++)
			for (u8 flip : {0x01, 0x08, 0x80, 0xff}) {
				b[i] ^= flip;
				Linked m(b);
				(m.err ? refused_ : linked)++;
				ASSERT_EQ(m.err != 0, !said.empty())
					<< "an error has a sentence; byte " << i;
				b[i] ^= flip;
			}
	EXPECT_LT(100, linked);
	EXPECT_LT(1000, refused_);
}

TEST(module_elf, an_object_for_the_other_machine_is_refused)
{
	Bytes other = run_in_directory(".data\n.8byte 1\n", OTHER_AS " -o out source");
	Linked m(other);
	EXPECT_EQ(-ENOEXEC, m.err);
	EXPECT_EQ("module m: the file is for machine " + std::to_string(header(other)->machine) +
			  "; this kernel's is " + std::to_string(ELF_MACHINE) + "\n",
		  said);
}

/* ---- single relocations ----------------------------------------------------------- */

#define PLACE TEXT /* of the relocation that is tried */

struct Tried {
	u32 type;
	const char *before, *after; /* the instruction, as assembled with 0 and with @value */
	long value;		    /* S + A; relative to PLACE if @relative */
	bool relative;
	int err;
};

static std::vector<u8> text_of(const Bytes &object)
{
	Bytes b = object;
	elf_section &s = section(b, ".text");
	return {b.begin() + s.offset, b.begin() + s.offset + s.size};
}

/* One symbol, 1, which is defined in section 1; room for one GOT and one PLT entry. */
struct One {
	module_elf elf = {};
	elf_symbol symbols[2] = {};
	module_slots slots[2] = {{}, {1, 1}};
	u8 text[64] = {}, rodata[16] = {};

	One()
	{
		symbols[1].section = 1;
		elf.symbols = symbols;
		elf.slots = slots;
		elf.memory[MODULE_TEXT] = text;
		elf.memory[MODULE_RODATA] = rodata;
		elf.base[MODULE_TEXT] = PLACE;
		elf.base[MODULE_RODATA] = RODATA;
		elf.plt = 32;
		elf.got = 8;
	}
	int apply(u32 type, unsigned long value, u32 at = 0)
	{
		symbols[1].value = value;
		return arch_relocate(&elf, type, text + at, PLACE + at, value, 1);
	}
};

/* Compare with what the assembler makes; an error leaves the place as it was. */
static void try_each(const std::vector<Tried> &rows)
{
	for (const Tried &row : rows) {
		std::string before = row.before, after = row.err ? before : row.after;
		Bytes from = text_of(assemble(before + "\n")), to = text_of(assemble(after + "\n"));
		ASSERT_EQ(from.size(), to.size()) << after;
		One one;
		std::copy(from.begin(), from.end(), one.text);
		EXPECT_EQ(row.err, one.apply(row.type, row.value + (row.relative ? PLACE : 0)))
			<< before << " " << row.value;
		EXPECT_EQ(to, Bytes(one.text, one.text + to.size()))
			<< arch_reloc_type(row.type)->name << " " << after;
	}
}

/* Each single bit of an offset, from bit @low up to bit @high, is where the assembler puts it. */
static void try_bits(u32 type, const std::string &insn, int low, int high)
{
	std::string source;
	for (int bit = low; bit <= high; bit++)
		source += insn + " . + " + std::to_string(1l << bit) + "\n";
	Bytes want = text_of(assemble(source)), zero = text_of(assemble(insn + " .\n"));
	for (int bit = low; bit <= high; bit++) {
		One one;
		std::copy(zero.begin(), zero.end(), one.text);
		ASSERT_EQ(0, one.apply(type, PLACE + (1l << bit)));
		ASSERT_EQ(reloc_get(&want[4 * (bit - low)], 4), reloc_get(one.text, 4))
			<< insn << " bit " << bit;
	}
}

static void try_word(u32 type, unsigned width, long value, bool relative, int err)
{
	One one;
	memset(one.text, 0xa5, sizeof(one.text));
	EXPECT_EQ(err, one.apply(type, value + (relative ? PLACE + 1 : 0), 1))
		<< arch_reloc_type(type)->name << " " << value;
	if (!err)
		EXPECT_EQ((u64)value << (64 - 8 * width), reloc_get(one.text + 1, width)
								  << (64 - 8 * width));
	EXPECT_EQ(0xa5, one.text[0]);
	EXPECT_EQ(0xa5, one.text[1 + width]);
}
