/*
 * Memory for modules. Physical pages are taken one at a time, so that the pool
 * never has holes that are too small. They have no address in the linear map: a
 * module is written at its own addresses, before its text is made executable.
 */
#include "module_memory.h"

#include "arch.h"
#include "asm-ftrace/insn.h"
#include "ksyms.h"
#include "string.h"

#define POOL_SIZE MiB(2)
#define POOL_PAGES (POOL_SIZE / PAGE_SIZE)
#define FAR_START (KERNEL_BASE + MiB(256)) /* beyond 128 MiB, the reach of arm64's bl */
#define PLACE_END (KERNEL_BASE + GiB(1))   /* the text alias is one entry of the root, 1 GiB */

extern char ftrace_stubs[];

unsigned long module_ram_size = POOL_SIZE; /* kern/mm/memory.c has 0 for kernels without modules */
static bool used[POOL_PAGES];

unsigned module_pages_free(void)
{
	unsigned count = 0;

	for (unsigned i = 0; module_ram.end && i < POOL_PAGES; i++)
		count += !used[i];
	return count;
}

/* 0: there is none. */
static unsigned long take_page(void)
{
	for (unsigned i = 0; module_ram.end && i < POOL_PAGES; i++) {
		if (!used[i]) {
			used[i] = true;
			return module_ram.start + i * PAGE_SIZE;
		}
	}
	return 0;
}

static unsigned page_number(unsigned long pa)
{
	return (pa - module_ram.start) / PAGE_SIZE;
}

/* ---- virtual addresses ---- */

static unsigned long image_end(void)
{
	return ALIGN_UP((unsigned long)_end, PAGE_SIZE);
}

static bool is_mapped(unsigned long va)
{
	unsigned long pa;
	unsigned prot;

	return mmu_lookup(va, &pa, &prot) == 0;
}

static bool is_free(unsigned long va, size_t size)
{
	for (unsigned long at = va; at < va + size; at += PAGE_SIZE)
		if (is_mapped(at))
			return false;
	return true;
}

/*
 * The first free range of @size bytes in [from, end), or 0. @unnamed: no old event has an address
 * in it.
 */
static unsigned long find_range(unsigned long from, unsigned long end, size_t size, bool unnamed)
{
	for (unsigned long start = from, at = from; at < end; at += PAGE_SIZE) {
		if (is_mapped(at) || (unnamed && ksym_module(at)))
			start = at + PAGE_SIZE;
		else if (at + PAGE_SIZE - start >= size)
			return start;
	}
	return 0;
}

static unsigned long find_free(unsigned long from, unsigned long end, size_t size)
{
	return find_range(from, end, size, true) ?: find_range(from, end, size, false);
}

/*
 * A module's text comes before its other regions, and above the stubs: its last word is the
 * farthest from the first stub.
 */
static int place_near(struct module *m, size_t text, size_t size)
{
	unsigned long limit = ALIGN_DOWN((unsigned long)ftrace_stubs + INSN_REACH, PAGE_SIZE);

	m->base = find_free(image_end(), MIN(limit - text + size, PLACE_END), size);
	if (m->base)
		return 0;
	printk("module %s: no %zu bytes are free within reach of the tracer: insmod %s at=far\n",
	       m->name, size, m->name);
	return -ENOMEM;
}

static int place_far(struct module *m, size_t size)
{
	m->base = find_free(FAR_START, PLACE_END, size);
	if (m->base)
		return 0;
	printk("module %s: no %zu bytes of address space are free\n", m->name, size);
	return -ENOMEM;
}

static int place_at(struct module *m, size_t size, unsigned long at)
{
	if (at % PAGE_SIZE || at < image_end() || at >= PLACE_END || size > PLACE_END - at) {
		printk("module %s: it cannot be placed at %#lx, only at a multiple of %#x from "
		       "%#lx to %#lx\n",
		       m->name, at, PAGE_SIZE, image_end(), PLACE_END - size);
		return -EINVAL;
	}
	if (!is_free(at, size)) {
		printk("module %s: another module is at %#lx or in the %zu bytes after it\n",
		       m->name, at, size);
		return -EEXIST;
	}
	m->base = at;
	return 0;
}

/* ---- mapping ---- */

static int map_page(unsigned long va)
{
	unsigned long pa = take_page();
	int err = pa ? mmu_map(va, pa, PAGE_SIZE, PROT_READ | PROT_WRITE) : -ENOMEM;

	if (pa && err)
		used[page_number(pa)] = false;
	return err;
}

static int map_all(struct module *m)
{
	size_t size = m->end[MODULE_DATA] - m->base;
	int err = 0;

	for (unsigned long va = m->base; va < m->base + size && !err; va += PAGE_SIZE)
		err = map_page(va);
	arch_tlb_flush_all(); /* a CPU may have cached that the address was not mapped */
	if (!err) {
		memset((void *)m->base, 0, size);
		return 0;
	}
	module_memory_free(m);
	printk("module %s: no memory for %zu bytes: %u pages for modules are free\n", m->name, size,
	       module_pages_free());
	return err;
}

int module_memory_alloc(struct module *m, const size_t size[MODULE_REGIONS], unsigned long at)
{
	size_t end[MODULE_REGIONS], all = 0;
	int err;

	for (int i = 0; i < MODULE_REGIONS; i++) {
		if (size[i] > POOL_SIZE) {
			printk("module %s: no memory for %zu bytes\n", m->name, size[i]);
			return -ENOMEM;
		}
		end[i] = all += ALIGN_UP(size[i], PAGE_SIZE);
	}
	m->base = 0;
	err = at == MODULE_NEAR ? place_near(m, end[MODULE_TEXT], all)
	      : at == MODULE_FAR ? place_far(m, all) : place_at(m, all, at);
	for (int i = 0; i < MODULE_REGIONS; i++)
		m->end[i] = err ? 0 : m->base + end[i];
	return err ?: map_all(m);
}

/* ---- protection ---- */

static int add_alias(const struct module *m)
{
	for (unsigned long va = m->base; va < m->end[MODULE_TEXT]; va += PAGE_SIZE) {
		unsigned long pa;
		unsigned prot;
		int err = mmu_lookup(va, &pa, &prot) ?: text_alias_add(va, pa, PAGE_SIZE);

		if (err)
			return err;
	}
	return 0;
}

int module_memory_protect(struct module *m)
{
	unsigned long text = m->end[MODULE_TEXT] - m->base;
	int err;

	for (unsigned long va = m->base; va < m->end[MODULE_TEXT]; va += 4)
		arch_sync_line(va, va);
	err = mmu_protect(m->end[MODULE_TEXT], m->end[MODULE_RODATA] - m->end[MODULE_TEXT],
			  PROT_READ);
	err = err ?: mmu_protect(m->base, text, PROT_READ | PROT_EXEC) ?: add_alias(m);
	arch_sync_all();
	if (err)
		printk("module %s: its %#lx bytes of text cannot be protected: error %d\n", m->name,
		       text, err);
	return err;
}

/* The pages that [va, va+size) is mapped to, a bit each. */
static void note_pages(unsigned long va, size_t size, u64 *pages)
{
	for (unsigned long end = va + size, pa; va < end; va += PAGE_SIZE) {
		unsigned prot;

		if (mmu_lookup(va, &pa, &prot) == 0)
			pages[page_number(pa) / 64] |= 1ull << page_number(pa) % 64;
	}
}

void module_memory_free(struct module *m)
{
	size_t size = m->end[MODULE_DATA] - m->base;
	u64 pages[POOL_PAGES / 64] = {0};

	note_pages(m->base, size, pages);
	text_alias_remove(m->base, m->end[MODULE_TEXT] - m->base);
	mmu_unmap(m->base, size);
	for (unsigned i = 0; i < POOL_PAGES; i++)
		if (pages[i / 64] >> i % 64 & 1)
			used[i] = false;
	m->base = 0;
	memset(m->end, 0, sizeof(m->end));
}
