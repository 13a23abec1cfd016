/*
 * The map of virtual memory; the sizes of a page and of a stack; where the image has its parts.
 *
 *   0xffffffc000000000  LINEAR_BASE   all RAM but module_ram, text and rodata in it R--
 *   0xfffffff000000000  MMIO_BASE     devices, mapped by fdt_iomap()
 *   0xfffffff400000000  STACK_BASE    threads' stacks, each above an unmapped gap of its size
 *   0xfffffff800000000  ALIAS_BASE    the writable alias of text, modules' too, only during a batch
 *   0xfffffffc00000000  FDT_BASE      the device tree, read-only
 *   0xffffffff80000000  KERNEL_BASE   the image: text R-X, rodata R--, data RW-; then modules, each
 *                                     the same, near ones after the image, far ones from
 *                                     + 256 MiB on
 *
 * All of this is in the upper half, which Sv39 and TTBR1 (39 bits) have in common.
 * The image may lie at any 2 MiB-aligned physical address; head.S stores it
 * in kernel_pa. There are no user mappings; TTBR0 / the lower half is empty
 * once every CPU runs at its virtual address.
 */
#ifndef KERN_LAYOUT_H
#define KERN_LAYOUT_H

#define LINEAR_BASE 0xffffffc000000000
#define MMIO_BASE 0xfffffff000000000
#define STACK_BASE 0xfffffff400000000
#define FDT_BASE 0xfffffffc00000000
#ifndef KERNEL_BASE /* the host tests define their own */
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
/* Set by boot/callsite.lds.S. */
extern char _start[], _text[], _apps[], _etext[], _rodata[], _erodata[], _data[], _edata[], _bss[],
	_end[];
extern char _early_tables[], _early_tables_end[]; /* before _end */

#endif

#endif
