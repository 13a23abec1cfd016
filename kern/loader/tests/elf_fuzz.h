/*
 * libFuzzer's target for the reader and linker of modules: open, copy, resolve,
 * relocate, for any input. The sanitizers find an access outside of the file and the regions. Parts
 * of the ELF header that the reader ignores say where the module and the symbols are.
 */
#include "loader/elf.h"

#include "string.h"

void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void free(void *p);
void abort(void);
int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int dprintf(int fd, const char *fmt, ...);

#define BASE(h) (((h)->entry & ~0xffful) + MiB(16))

static u32 printed;
static unsigned long linked;

/* A fuzzer whose inputs are all refused tests little: make fuzz checks this number. */
static __attribute__((destructor)) void report(void)
{
	dprintf(2, "stat::linked: %lu\n", linked);
}

int printk(const char *fmt, ...)
{
	printed++;
	return 0;
}
void *kmalloc(size_t size)
{
	return malloc(size);
}
void *kzalloc(size_t size)
{
	return calloc(1, size);
}
void kfree(void *p)
{
	free(p);
}

/*
 * What good-module.c needs; the number of program headers says which other names are found. All are
 * near while phoff is 0.
 */
static unsigned long find(void *arg, const char *name)
{
	const struct elf_header *h = arg;
	unsigned long hash = 5381;
	bool needed = !strcmp(name, "printk") || !strcmp(name, "far_function") ||
		      !strcmp(name, "far_variable");

	while (*name)
		hash = hash * 33 + (u8)*name++;
	return needed || (h->phnum && hash % h->phnum == 0)
		       ? BASE(h) + MiB(8) + hash % ((u32)h->phoff + 1ul) * 4
		       : 0;
}

static int link_it(struct module_elf *elf, const struct elf_header *h)
{
	int err;

	for (u32 i = 0; i < MODULE_REGIONS; i++) {
		elf->memory[i] = malloc(elf->size[i]);
		elf->base[i] = BASE(h) + i * MiB(1);
	}
	module_elf_copy(elf);
	err = module_elf_resolve(elf, find, (void *)h);
	return err ? err : module_elf_relocate(elf);
}

static void ask(const struct module_elf *elf)
{
	size_t size;

	module_elf_section(elf, ".table.export", &size);
	module_elf_section(elf, ".text", &size);
	module_elf_symbol(elf, "init_module");
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct module_elf elf;
	u8 *file = malloc(size); /* aligned, which @data need not be */
	int err;

	memcpy(file, data, size);
	printed = 0;
	err = module_elf_open(&elf, "m", file, size);
	if (!err) {
		err = link_it(&elf, (const void *)file);
		linked += !err;
		ask(&elf);
		for (u32 i = 0; i < MODULE_REGIONS; i++)
			free(elf.memory[i]);
	}
	if (!err != !printed)
		abort(); /* an error has a sentence, success has none */
	module_elf_close(&elf);
	free(file);
	return 0;
}
