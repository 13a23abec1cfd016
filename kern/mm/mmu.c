/*
 * Page tables: one walker for both architectures, which differ only in the bits
 * of an entry (pte_* of arch.h).
 *
 * Three levels of 512 entries: the root's cover 1 GiB each (level 2), then
 * 2 MiB, then 4 KiB. An entry of any level may be a leaf. The root is head.S's;
 * its mapping of the image, with its permissions, is kept.
 */
#include "arch.h"
#include "current.h"
#include "errno.h"
#include "fdt.h"
#include "lock.h"
#include "memory.h"
#include "print.h"
#include "string.h"

#define ENTRIES		 512
#define LEAF_SIZE(level) (1ul << (PAGE_SHIFT + 9 * (level)))
#define INDEX(va, level) ((va) >> (PAGE_SHIFT + 9 * (level)) & (ENTRIES - 1))
#define LINEAR_END	 MMIO_BASE
#define FDT_MAX		 MiB(8)
#define MMIO_MAX	 MiB(256) /* no device has more registers */
#define CONSOLE_MAX	 KiB(64)

/*
 * The tables that are made before there is RAM: for the device tree (6), the console (3), and
 * @early (1).
 */
#define POOL_TABLES 12
static pte_t pool[POOL_TABLES][ENTRIES] __aligned(PAGE_SIZE);
static unsigned pool_used;
/*
 * the first 2 MiB of RAM that are mapped: the linear map's tables are taken from them; page_init()
 * frees the rest
 */
static struct range early;
static struct spinlock mmu_lock;
static unsigned long mmio_next = MMIO_BASE;
static pte_t alias_entry;

unsigned long kernel_pgd_pa, linear_pa;

unsigned long virt_to_phys(const void *p)
{
	unsigned long va = (unsigned long)p;

	return va >= KERNEL_BASE ? image_to_pa(p) : va - LINEAR_BASE + linear_pa;
}

void *phys_to_virt(unsigned long pa)
{
	return (void *)(pa - linear_pa + LINEAR_BASE);
}

/* Tables in the image are accessed at image addresses: the linear map may not exist yet. */
static pte_t *table_at(unsigned long pa)
{
	if (pa - kernel_pa < (unsigned long)(_end - _start))
		return (pte_t *)(pa - kernel_pa + KERNEL_BASE);
	return phys_to_virt(pa);
}

static pte_t *new_table(void)
{
	pte_t *table;

	if (pool_used < POOL_TABLES)
		return pool[pool_used++];
	if (early.start < early.end) {
		table = phys_to_virt(early.start);
		early.start += PAGE_SIZE;
	} else {
		table = page_alloc(0);
	}
	if (table)
		memset(table, 0, PAGE_SIZE);
	return table;
}

/*
 * Find the entry for @va at @level, from @table on, which is of level @top; missing tables are
 * made.
 */
static int make_entry_below(pte_t *table, int top, unsigned long va, int level, pte_t **entry)
{
	for (int l = top; l > level; l--) {
		pte_t *e = &table[INDEX(va, l)];

		if (pte_valid(*e) && pte_is_leaf(*e, l))
			return -EEXIST;
		if (!pte_valid(*e)) {
			pte_t *below = new_table();

			if (!below)
				return -ENOMEM;
			/*
			 * clear the table before it is linked: another CPU's table walker may read
			 * it
			 */
			smp_wmb();
			WRITE_ONCE(*e, pte_table(virt_to_phys(below)));
		}
		table = table_at(pte_pa(*e));
	}
	*entry = &table[INDEX(va, level)];
	return pte_valid(**entry) ? -EEXIST : 0;
}

static int make_entry(unsigned long va, int level, pte_t **entry)
{
	return make_entry_below(table_at(kernel_pgd_pa), 2, va, level, entry);
}

static int largest_leaf(unsigned long va, unsigned long pa, unsigned long size)
{
	int level = 2;

	while (level > 0 && (((va | pa) & (LEAF_SIZE(level) - 1)) || size < LEAF_SIZE(level)))
		level--;
	return level;
}

static int map_leaves(unsigned long va, unsigned long pa, unsigned long size, unsigned prot)
{
	while (size) {
		int level = largest_leaf(va, pa, size);
		pte_t *entry;
		int err = make_entry(va, level, &entry);

		if (err)
			return err;
		do { /* the entries beside it, too */
			if (pte_valid(*entry))
				return -EEXIST;
			WRITE_ONCE(*entry++, pte_leaf(pa, prot, level));
			va += LEAF_SIZE(level);
			pa += LEAF_SIZE(level);
			size -= LEAF_SIZE(level);
		} while (INDEX(va, level) && largest_leaf(va, pa, size) == level && size);
	}
	return 0;
}

int mmu_map(unsigned long va, unsigned long pa, unsigned long size, unsigned prot)
{
	unsigned long flags = spin_lock_irqsave(&mmu_lock);
	int err = map_leaves(va, pa, ALIGN_UP(size, PAGE_SIZE), prot);

	arch_tlb_flush();
	spin_unlock_irqrestore(&mmu_lock, flags);
	return err;
}

/* The page's entry, from @table on, which is of level @top; NULL: the page has none of its own. */
static pte_t *page_entry(pte_t *table, int top, unsigned long va)
{
	pte_t *entry = &table[INDEX(va, top)];

	while (top-- && pte_valid(*entry) && !pte_is_leaf(*entry, top + 1))
		entry = &table_at(pte_pa(*entry))[INDEX(va, top)];
	return top < 0 && pte_valid(*entry) ? entry : NULL;
}

/*
 * Store the entries of [va, va+size) with @prot, or without PROT_READ: clear them; then flush every
 * TLB.
 */
static void change_pages(pte_t *table, int top, unsigned long va, unsigned long size, unsigned prot)
{
	unsigned long flags = spin_lock_irqsave(&mmu_lock);

	for (unsigned long end = va + size; va < end; va += PAGE_SIZE) {
		pte_t *entry = page_entry(table, top, va);

		if (entry)
			WRITE_ONCE(*entry,
				   prot & PROT_READ ? pte_leaf(pte_pa(*entry), prot, 0) : 0);
	}
	spin_unlock_irqrestore(&mmu_lock, flags);
	arch_tlb_flush_all();
}

int mmu_protect(unsigned long va, unsigned long size, unsigned prot)
{
	pte_t *root = table_at(kernel_pgd_pa);

	for (unsigned long at = va; at < va + size; at += PAGE_SIZE)
		if (!page_entry(root, 2, at))
			return -EFAULT;
	if (prot & PROT_EXEC)
		change_pages(root, 2, va, size, PROT_READ);
	change_pages(root, 2, va, size, prot);
	return 0;
}

void mmu_unmap(unsigned long va, unsigned long size)
{
	change_pages(table_at(kernel_pgd_pa), 2, va, size, 0);
}

int mmu_lookup(unsigned long va, unsigned long *pa, unsigned *prot)
{
	pte_t *table = table_at(kernel_pgd_pa);

	for (int level = 2; level >= 0; level--) {
		pte_t e = READ_ONCE(table[INDEX(va, level)]);

		if (va < LINEAR_BASE || !pte_valid(e)) /* the index has no upper bits */
			return -EFAULT;
		if (pte_is_leaf(e, level)) {
			*pa = pte_pa(e) + (va & (LEAF_SIZE(level) - 1));
			*prot = pte_prot(e);
			return 0;
		}
		table = table_at(pte_pa(e));
	}
	return -EFAULT;
}

const void *mmu_map_fdt(unsigned long pa)
{
	unsigned long offset = pa & (PAGE_SIZE - 1), start = pa - offset;
	const void *fdt = (const void *)(FDT_BASE + offset);
	unsigned long size, mapped = 2 * PAGE_SIZE;

	if (!pa || pa % 8 || mmu_map(FDT_BASE, start, mapped, PROT_READ))
		return NULL;
	if (fdt_be32(fdt) != FDT_MAGIC)
		return NULL;
	size = ALIGN_UP(offset + fdt_size(fdt), PAGE_SIZE);
	if (size > FDT_MAX)
		return NULL;
	if (size > mapped && mmu_map(FDT_BASE + mapped, start + mapped, size - mapped, PROT_READ))
		return NULL;
	return fdt_check(fdt, FDT_MAX) ? NULL : fdt;
}

static int map_linear_part(struct range r, unsigned long low, unsigned long high, unsigned prot)
{
	unsigned long start = MAX(r.start, low), end = MIN(r.end, high);

	return start < end
		       ? map_leaves((unsigned long)phys_to_virt(start), start, end - start, prot)
		       : 0;
}

/* W^X holds for physical memory, at each of its addresses: text is R-- here as well. */
static int map_linear(struct range r)
{
	unsigned long text = kernel_pa, data = image_to_pa(_data);
	int err = map_linear_part(r, 0, text, PROT_READ | PROT_WRITE);

	err = err ?: map_linear_part(r, text, data, PROT_READ);
	return err ?: map_linear_part(r, data, -1ul, PROT_READ | PROT_WRITE);
}

static void drop_beyond_the_map(void)
{
	unsigned long end = linear_pa + (LINEAR_END - LINEAR_BASE);

	if (ram.count && ram.range[ram.count - 1].end > end) {
		printk("memory: RAM above %#lx is not used\n", end);
		range_remove(&ram, end, -1ul);
	}
}

/* Make the text alias's tables once; set_alias() then writes only their root entry. */
static int prepare_text_alias(void)
{
	pte_t *root = table_at(kernel_pgd_pa) + INDEX(ALIAS_BASE, 2);
	int err = map_leaves(ALIAS_BASE, kernel_pa, _etext - _text, PROT_READ | PROT_WRITE);

	alias_entry = *root;
	*root = 0;
	return err;
}

int mmu_init(void)
{
	pte_t *root = table_at(kernel_pgd_pa);
	struct range_list rest;
	struct range first = {0, 0};
	int err = 0;

	linear_pa = ALIGN_DOWN(ram.range[0].start, GiB(1));
	drop_beyond_the_map();
	memset(root, 0, INDEX(LINEAR_BASE, 2) * sizeof(*root)); /* head.S's identity map */
	rest = ram;
	if (memory_find(MiB(2), &first)) {
		err = map_linear(first);
		early = first;
		range_remove(&rest, first.start, first.end);
	}
	for (unsigned i = 0; i < rest.count && !err; i++)
		err = map_linear(rest.range[i]);
	err = err ?: prepare_text_alias();
	memory_reserve(first.start, early.start - first.start);
	early.end = early.start;
	arch_tlb_flush();
	if (err)
		printk("mmu: cannot map memory: error %d\n", err);
	return err;
}

void *fdt_iomap(const void *fdt, int node, int index)
{
	unsigned long offset, va;
	u64 pa, size;

	if (fdt_reg(fdt, node, index, &pa, &size))
		return NULL;
	if (!ram.count) /* the console: pool[] has few tables */
		size = MIN(size, CONSOLE_MAX);
	if (!size || size > MMIO_MAX) {
		printk("ioremap: a device at %#lx cannot have %#lx bytes\n", pa, size);
		return NULL;
	}
	offset = pa & (PAGE_SIZE - 1);
	size = ALIGN_UP(offset + size, PAGE_SIZE);
	va = __atomic_fetch_add(&mmio_next, size, __ATOMIC_RELAXED);
	if (va + size > STACK_BASE ||
	    mmu_map(va, pa - offset, size, PROT_READ | PROT_WRITE | PROT_DEVICE)) {
		printk("ioremap: no room for %#lx bytes at %#lx\n", size, pa);
		return NULL;
	}
	return (void *)(va + offset);
}

/* Context: preemption off: after a migration, the flush would be on the wrong CPU. */
static void set_alias(pte_t entry)
{
	if (preemptible())
		panic("the text alias is opened or closed while this thread may move to another "
		      "CPU: preempt_disable() first");
	WRITE_ONCE(table_at(kernel_pgd_pa)[INDEX(ALIAS_BASE, 2)], entry);
}

void text_alias_open(void)
{
	set_alias(alias_entry);
	arch_tlb_flush();
}

void text_alias_close(void)
{
	set_alias(0);
	arch_tlb_flush_all();
}

static int add_to_alias(unsigned long va, unsigned long pa)
{
	unsigned long flags = spin_lock_irqsave(&mmu_lock);
	pte_t *entry;
	int err = make_entry_below(table_at(pte_pa(alias_entry)), 1, va, 0, &entry);

	if (!err)
		WRITE_ONCE(*entry, pte_leaf(pa, PROT_READ | PROT_WRITE, 0));
	spin_unlock_irqrestore(&mmu_lock, flags);
	return err;
}

int text_alias_add(unsigned long va, unsigned long pa, unsigned long size)
{
	for (unsigned long done = 0; done < size; done += PAGE_SIZE) {
		int err = add_to_alias((unsigned long)text_alias(va + done), pa + done);

		if (err) {
			text_alias_remove(va, done);
			return err;
		}
	}
	return 0;
}

void text_alias_remove(unsigned long va, unsigned long size)
{
	change_pages(table_at(pte_pa(alias_entry)), 1, (unsigned long)text_alias(va), size, 0);
}
