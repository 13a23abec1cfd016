/*
 * The room mm/: memory. layout.h has the map of virtual memory.
 *
 *	memory.c	the machine's RAM, and what in it is taken, from the device tree
 *	mmu.c		the page tables: the linear map, devices, stacks, the text alias
 *	page.c		the page allocator
 *	kmalloc.c	the object allocator
 *	<arch>/tlb.c	discards the translations that CPUs have cached
 *
 * kern/main.c initialises them in this order, and maps the device tree and the console before.
 * All later rooms allocate here; sched/ maps stacks, loader/ modules, and ftrace/core/ opens the
 * text alias. This room calls base/.
 */
#ifndef MM_MEMORY_H
#define MM_MEMORY_H

#include "layout.h"

#ifndef __ASSEMBLER__
#include "types.h"

extern unsigned long kernel_pa;  /* physical address of _start; head.S */
extern unsigned long linear_pa;  /* physical address that LINEAR_BASE maps; mmu.c */

static inline unsigned long image_to_pa(const void *p)
{
	return (unsigned long)p - KERNEL_BASE + kernel_pa;
}
unsigned long virt_to_phys(const void *p); /* image or linear address */
void *phys_to_virt(unsigned long pa);      /* linear address */

/* The device tree's RAM; memory.c. Ranges are sorted, of whole pages, their end exclusive. */
#define RANGES_MAX 64
struct range {
	unsigned long start, end;
};
struct range_list {
	unsigned count;
	struct range range[RANGES_MAX];
};
extern struct range_list ram, taken; /* RAM that may be mapped; RAM that must not be allocated */
void range_remove(struct range_list *l, unsigned long start, unsigned long end);
void memory_reserve(unsigned long start, unsigned long size); /* add its pages to `taken` */
/* The first 2 MiB-aligned place of @size bytes in `ram` of which nothing is in `taken`. */
bool memory_find(unsigned long size, struct range *found);
int memory_init(const void *fdt); /* -ENODEV when no RAM range contains the kernel */
extern struct range initrd; /* its physical addresses; {0, 0} when there is none */
/*
 * The pages of modules: whole 2 MiB of RAM that the linear map leaves out, so that
 * a module's text is writable at no address. {0, 0}: there was no room, or this
 * kernel has no modules (module_ram_size is 0 then; kern/loader/module_memory.c sets it).
 */
extern struct range module_ram;
extern unsigned long module_ram_size;

/*
 * RAM for what the next boot is to find (the boot argument last_boot=): mapped, never
 * allocated, and at an address that depends on the device tree's memory alone. The kernel
 * and what a loader puts beside it are at the beginning of RAM or at its end, so it begins
 * at five eighths of the largest range. {0, 0}: last_boot_size is 0, or there is no room.
 */
extern struct range last_boot_ram;
extern unsigned long last_boot_size; /* set before memory_init() */

/*
 * Map [va, va+size) to pa with the largest leaf entries that fit; prot is PROT_*. Tables come from
 * a static pool before mmu_init(), then from RAM that it takes, from page_init() on from the
 * allocator. Context: boot, or thread. Return: 0, -ENOMEM, -EEXIST when va is mapped.
 */
int mmu_map(unsigned long va, unsigned long pa, unsigned long size, unsigned prot);
/*
 * Change the permissions of [va, va+size), or remove its mappings. @va and @size are
 * multiples of PAGE_SIZE, and each page has an entry of its own (mmu_map() of one
 * page at a time). Each entry changes by one 8-byte store, so another CPU's table
 * walk finds the old entry or the new one. The pages change one after the other:
 * until the function returns, another CPU may see any of them old or new.
 *
 * mmu_protect(): no page is writable on one CPU while another CPU may execute it:
 * (1) if @prot has PROT_EXEC, make the pages read-only and flush every TLB;
 * (2) store the new entries; (3) flush every TLB. The pages stay readable. Only the
 * permissions change, so arm64 needs no break-before-make (Arm ARM D8.16.1).
 * mmu_unmap(): (1) clear the entries; (2) flush every TLB. After it returns no CPU
 * uses the old translation, and the physical pages may be used for something else.
 * A page that is not mapped is skipped. The tables stay, for the next mapping there.
 *
 * Context: thread, interrupts on, no spinlock held. -EFAULT: a page is not mapped,
 * or by a larger entry; nothing is changed then.
 */
int mmu_protect(unsigned long va, unsigned long size, unsigned prot);
void mmu_unmap(unsigned long va, unsigned long size);
/* Build the linear map of `ram` (W^X), remove head.S's identity map. */
int mmu_init(void);
/* Find the translation of @va: 0 and *pa, *prot, or -EFAULT. Used by tests and by panics. */
int mmu_lookup(unsigned long va, unsigned long *pa, unsigned *prot);
/*
 * Map the device tree at @pa, read-only, at FDT_BASE; works before mmu_init().
 * NULL when there is none, or when its size is not plausible.
 */
const void *mmu_map_fdt(unsigned long pa);
/*
 * Map the registers of a device, the @index-th (address, size) of @node's reg, in the range at
 * MMIO_BASE. Never unmapped. Before memory_init() at most 64 KiB of them, which is enough for a
 * console. NULL: @node has no such entry, its size is 0 or larger than any device's, or the range
 * is full.
 */
void *fdt_iomap(const void *fdt, int node, int index);

/*
 * The writable alias of [_text, _etext), for one batch of patches.
 * Between open and close, text_alias(va) is writable. All CPUs share the page
 * tables, so the caller holds ftrace_lock: no other CPU may write. Preemption is
 * off from open to close, because open flushes only this CPU's TLB. close removes
 * the alias and flushes it from every TLB.
 */
void text_alias_open(void);
static __always_inline void *text_alias(unsigned long text_va)
{
	return (void *)(text_va - KERNEL_BASE + ALIAS_BASE);
}
void text_alias_close(void);
/*
 * Text that is loaded later: text_alias(@va) leads to @pa from the next
 * text_alias_open() on. @va is in the 1 GiB from KERNEL_BASE on. While no batch is
 * open, the alias's tables are not linked, so new pages are not visible yet. If a
 * batch is open, its CPU may see them at once. remove: (1) clear the entries; (2)
 * flush every TLB, for a batch that is open. The caller has ended all writes there.
 * Pages that have no alias are skipped.
 * Context: as mmu_protect(). Return: 0, -ENOMEM, -EEXIST; nothing is added then.
 */
int text_alias_add(unsigned long va, unsigned long pa, unsigned long size);
void text_alias_remove(unsigned long va, unsigned long size);

/* 2^order pages, not zeroed; NULL when there are none. Not in interrupts. */
int page_init(void);
void *page_alloc(unsigned order);
void page_free(void *p, unsigned order);
unsigned long pages_free_count(void), pages_total_count(void);
int page_order(const void *p); /* of the allocation that begins at @p; -1: none begins there */
#define PAGE_ORDER_MAX 13      /* 32 MiB */

/*
 * Objects. kmalloc returns 16-byte aligned memory or NULL; kzalloc zeroes.
 * kfree(NULL) does nothing. DEBUG=1 builds poison freed objects, check the poison
 * on allocation, and panic on a double free. Context: thread or irqs masked.
 */
void *kmalloc(size_t size);
void *krealloc(void *p, size_t size); /* NULL: p is unchanged */
void *kzalloc(size_t size);
void kfree(void *p);
/*
 * Does an object begin at @p, allocated or freed? Also false for a freed object whose pages were
 * freed too.
 */
bool is_kmalloc_object(const void *p);
#endif

#endif
