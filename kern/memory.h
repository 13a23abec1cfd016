/*
 * The memory map, the page tables, the page and the object allocator.
 *
 *   0xffffffc000000000  LINEAR_BASE   all RAM, text and rodata in it R--
 *   0xfffffff000000000  MMIO_BASE     devices, mapped by ioremap()
 *   0xfffffff400000000  STACK_BASE    threads' stacks, each above as much that is not mapped
 *   0xfffffff800000000  ALIAS_BASE    the writable alias of text, only during a batch
 *   0xfffffffc00000000  FDT_BASE      the device tree, read-only
 *   0xffffffff80000000  KERNEL_BASE   the image: text R-X, rodata R--, data RW-
 *
 * All of it lies in the half that Sv39 and TTBR1 (39 bits) have in common.
 * The image may lie at any 2 MiB-aligned physical address; head.S stores it
 * in kernel_pa. There are no user mappings; TTBR0 / the lower half is empty
 * once every CPU runs at its virtual address.
 */
#ifndef KERN_MEMORY_H
#define KERN_MEMORY_H

#define LINEAR_BASE 0xffffffc000000000
#define MMIO_BASE 0xfffffff000000000
#define STACK_BASE 0xfffffff400000000
#define FDT_BASE 0xfffffffc00000000
#ifndef KERNEL_BASE /* the host tests have theirs elsewhere */
#define KERNEL_BASE 0xffffffff80000000
#define ALIAS_BASE 0xfffffff800000000
#endif

#define PAGE_SHIFT 12
#define PAGE_SIZE 4096
#define THREAD_SIZE 16384 /* a thread's stack, aligned to its size */

#define PROT_READ 1
#define PROT_WRITE 2
#define PROT_EXEC 4
#define PROT_DEVICE 8

#ifndef __ASSEMBLER__
#include "types.h"

/* Set by boot/callsite.lds.S. */
extern char _start[], _text[], _etext[], _rodata[], _erodata[], _data[], _edata[], _bss[], _end[];
extern char _early_tables[], _early_tables_end[]; /* before _end */

extern unsigned long kernel_pa;  /* physical address of _start; head.S */
extern unsigned long linear_pa;  /* physical address that LINEAR_BASE maps; mmu.c */

static inline unsigned long image_to_pa(const void *p)
{
	return (unsigned long)p - KERNEL_BASE + kernel_pa;
}
unsigned long virt_to_phys(const void *p); /* image or linear address */
void *phys_to_virt(unsigned long pa);      /* linear address */

/* What RAM there is, from the device tree; memory.c. Sorted, end exclusive, whole pages. */
#define RANGES_MAX 64
struct range {
	unsigned long start, end;
};
struct range_list {
	unsigned count;
	struct range range[RANGES_MAX];
};
extern struct range_list ram, taken; /* may be mapped; may not be given out */
void range_remove(struct range_list *l, unsigned long start, unsigned long end);
int memory_init(const void *fdt); /* -ENODEV when there is none where the kernel is */
extern struct range initrd; /* where it lies, {0, 0} when there is none */

/*
 * Map [va, va+size) to pa with the largest leaves that fit; prot is PROT_*.
 * Tables come from a static pool until page_init(), then from the allocator.
 * Context: boot, or thread. Return: 0, -ENOMEM, -EEXIST when va is mapped.
 */
int mmu_map(unsigned long va, unsigned long pa, unsigned long size, unsigned prot);
/* Build the linear map of what is `ram` (W^X), tear down what head.S made. */
int mmu_init(void);
/* Look va up: 0 and *pa, *prot, or -EFAULT. Used by tests and by panics. */
int mmu_lookup(unsigned long va, unsigned long *pa, unsigned *prot);
/*
 * Map the device tree at @pa, read-only, at a window of its own; works before
 * mmu_init(). NULL when there is none, or its size is beyond belief.
 */
const void *mmu_map_fdt(unsigned long pa);
/* Map a device's registers; NULL when the window is full. Never unmapped. */
void *ioremap(unsigned long pa, unsigned long size);

/*
 * The writable alias of [_text, _etext), for one batch of patches.
 * Between open and close text_alias(va) is writable. The entry is in the root
 * that all CPUs share: that only the calling one writes is ftrace_lock's doing.
 * Preemption is off from open to close: open flushes this CPU's TLB alone.
 * close removes the alias and flushes it from every TLB.
 */
void text_alias_open(void);
static inline __attribute__((always_inline)) void *text_alias(unsigned long text_va)
{
	return (void *)(text_va - KERNEL_BASE + ALIAS_BASE);
}
void text_alias_close(void);

/* Pages, 2^order, zeroed or not; NULL when there are none. Any context but irq. */
int page_init(void);
void *page_alloc(unsigned order);
void page_free(void *p, unsigned order);
unsigned long pages_free_count(void), pages_total_count(void);
int page_order(const void *p); /* of the allocation that begins at @p; -1: none does */
#define PAGE_ORDER_MAX 13      /* 32 MiB */

/*
 * Objects. kmalloc returns 16-byte aligned memory or NULL; kzalloc zeroes.
 * kfree(NULL) is fine. DEBUG=1 builds poison on free, check on alloc, and
 * panic naming the object on a double free. Context: thread or irqs masked.
 */
void *kmalloc(size_t size);
void *krealloc(void *p, size_t size); /* NULL: p stays */
void *kzalloc(size_t size);
void kfree(void *p);
#endif

#endif
