/*
 * From firmware to kernel_main(), arm64. Entered as Linux's Image is: MMU off,
 * EL2 or EL1, x0 = physical address of the device tree, loaded at any 2 MiB-
 * aligned address. Until the MMU is on, every symbol is reached relative to pc
 * and is its physical address, and only the page tables are written: stores
 * with the MMU off bypass the caches.
 *
 * 1. Drop to EL1, if at EL2.
 * 2. Map the image at KERNEL_BASE, each page with its final permission; and
 *    its first 2 MiB at their physical address (the identity map), for step 3.
 * 3. Turn paging and the caches on.
 * 4. Zero .bss, store the address of the device tree and this CPU's MPIDR.
 * 5. Set the stack, this CPU and its thread; go to kernel_main().
 */
#include "layout.h"
#include "asm-offsets.h"
#include "asm/arch.h"

#define PAGE (PTE_PAGE | PTE_AF | PTE_INNER | PTE_UXN)
#define PAGE_RX (PAGE | PTE_RDONLY)
#define PAGE_R (PAGE | PTE_RDONLY | PTE_PXN)
#define PAGE_RW (PAGE | PTE_PXN)
#define ROOT_SLOT ((KERNEL_BASE >> 30) & 511)
/* After the upper half's root: the lower half's two tables, then the image's. */
#define LOW_ROOT 4096
#define LOW_MIDDLE 8192
#define MIDDLE 12288

#define IMAGE_PAGES_4K (1 << 1)
#define IMAGE_ANYWHERE (1 << 3)

	.section .head.text, "ax"
	.globl _image_header
_image_header:
	b	boot_start
	nop
	.quad	0			/* text_offset */
	.quad	_end - KERNEL_BASE	/* image_size, .bss included */
	.quad	IMAGE_PAGES_4K | IMAGE_ANYWHERE
	.quad	0
	.quad	0
	.quad	0
	.ascii	"ARM\x64"
	.word	0

boot_start:
	/* 1. Drop to EL1, if at EL2. */
	mov	x21, x0			/* the device tree */
	bl	drop_to_el1
	mrs	x22, cntvct_el0		/* drop_to_el1 set its offset to 0 */

	/* 2. Map the image at KERNEL_BASE, each page with its final permission. */
	adrp	x19, _image_header
	adrp	x20, _early_tables
	/* no dirty line of them is written back over what map_image stores */
	bl	invalidate_tables
	bl	map_image

	/* 3. Turn paging and the caches on. */
	bl	invalidate_tables
	bl	enable_paging

	/* 4. Zero .bss, store the address of the device tree and this CPU's MPIDR. */
	ldr	x0, =_bss
	ldr	x1, =_early_tables
1:	stp	xzr, xzr, [x0], #16
	cmp	x0, x1
	b.lo	1b

	ldr	x0, =kernel_pa
	str	x19, [x0]
	ldr	x0, =kernel_pgd_pa
	str	x20, [x0]
	ldr	x0, =boot_fdt_pa
	str	x21, [x0]
	ldr	x0, =boot_counter
	str	x22, [x0]
	bl	read_affinity
	ldr	x1, =boot_hwid
	str	x0, [x1]

	/* 5. Set the stack, this CPU and its thread; go to kernel_main(). */
	ldr	x0, =cpus
	msr	tpidr_el1, x0
	ldr	x1, =boot_thread
	msr	sp_el0, x1
	str	x1, [x0, #CPU_CURRENT]
	ldr	x0, =boot_stack + THREAD_SIZE
	mov	sp, x0
	mov	x29, xzr
	mov	x30, xzr
	b	kernel_main

/*
 * Fill the tables at x20: both roots, the lower half's middle, the upper half's
 * middle, then a last-level table for each 2 MiB of image. The last-level tables
 * are contiguous: their n-th entry is page n of the image at x19.
 */
map_image:
	adrp	x9, _end
	adrp	x1, _early_tables_end
	mov	x0, x20
1:	stp	xzr, xzr, [x0], #16
	cmp	x0, x1
	b.lo	1b

	mov	x0, #PTE_TABLE
	add	x1, x20, #LOW_MIDDLE
	orr	x1, x1, x0
	ubfx	x2, x19, #30, #9
	add	x3, x20, #LOW_ROOT
	str	x1, [x3, x2, lsl #3]
	add	x4, x20, #MIDDLE
	orr	x1, x4, x0
	str	x1, [x20, #8 * ROOT_SLOT]

	ldr	x1, =(PTE_BLOCK | PTE_AF | PTE_INNER | PTE_UXN | PTE_RDONLY)
	orr	x1, x1, x19
	ubfx	x2, x19, #21, #9
	add	x3, x20, #LOW_MIDDLE
	str	x1, [x3, x2, lsl #3]

	add	x5, x4, #4096		/* last level */
	mov	x6, x5
	mov	x7, x19
1:	orr	x1, x6, x0
	str	x1, [x4], #8
	add	x6, x6, #4096
	add	x7, x7, #0x200000
	cmp	x7, x9
	b.lo	1b

	mov	x7, x19
	ldr	x1, =PAGE_RX
	adrp	x2, _etext
	mov	x8, x30
	bl	2f
	ldr	x1, =PAGE_R
	adrp	x2, _data
	bl	2f
	ldr	x1, =PAGE_RW
	mov	x2, x9
	mov	x30, x8
2:	orr	x3, x7, x1
	str	x3, [x5], #8
	add	x7, x7, #4096
	cmp	x7, x2
	b.lo	2b
	ret

/* Invalidate old cache lines of the tables. The table walker reads through the cache. */
invalidate_tables:
	dmb	sy
	adrp	x0, _early_tables
	adrp	x1, _early_tables_end
1:	dc	ivac, x0
	add	x0, x0, #16		/* the smallest cache line */
	cmp	x0, x1
	b.lo	1b
	dsb	sy
	ret

/*
 * The tables' root is at x20; returns to the caller's virtual address, without
 * translation of the lower half.
 */
enable_paging:
	ldr	x0, =MAIR
	msr	mair_el1, x0
	ldr	x0, =TCR
	mrs	x1, id_aa64mmfr0_el1
	ubfx	x1, x1, #0, #4		/* PARange: physical address bits */
	mov	x2, #5			/* 48 bits: the most without larger pages */
	cmp	x1, x2
	csel	x1, x1, x2, lo
	bfi	x0, x1, #TCR_IPS_SHIFT, #3
	msr	tcr_el1, x0
	msr	ttbr1_el1, x20
	add	x1, x20, #LOW_ROOT
	msr	ttbr0_el1, x1
	isb
	tlbi	vmalle1
	ic	iallu
	dsb	nsh
	isb
	ldr	x1, =SCTLR
	msr	sctlr_el1, x1
	isb
	ldr	x1, =paging_is_on
	br	x1
paging_is_on:
	orr	x0, x0, #TCR_EPD0	/* no translation of the lower half */
	msr	tcr_el1, x0
	isb
	tlbi	vmalle1
	dsb	nsh
	isb
	ldr	x0, =exception_vector
	msr	vbar_el1, x0
	isb
	sub	x30, x30, x19
	ldr	x0, =KERNEL_BASE
	add	x30, x30, x0
	ret

/* x0 = this CPU's hwid; changes x1. */
read_affinity:
	mrs	x0, mpidr_el1
	and	x1, x0, #MPIDR_AFFINITY_HIGH
	and	x0, x0, #MPIDR_AFFINITY_LOW
	orr	x0, x0, x1
	ret

/*
 * Entry of a CPU that the firmware started. Until its caches are on it reads text
 * only, no data of the kernel. A spin table passes nothing in x0, so its struct
 * cpu is the one with its hwid.
 */
	.globl	secondary_start
secondary_start:
	bl	drop_to_el1
	adrp	x19, _image_header
	adrp	x20, _early_tables
	bl	enable_paging
	bl	read_affinity
	ldr	x1, =cpus
1:	ldr	x2, [x1, #CPU_HWID]
	cmp	x2, x0
	b.eq	2f
	add	x1, x1, #CPU_SIZE
	b	1b
2:	mov	x0, x1
	msr	tpidr_el1, x0
	ldr	x1, [x0, #CPU_CURRENT]
	msr	sp_el0, x1
	ldr	x1, [x0, #CPU_BOOT_STACK]
	mov	sp, x1
	mov	x29, xzr
	mov	x30, xzr
	b	secondary_main

/* At EL2: give EL1 the timers, the interrupt controller and untranslated memory; return in EL1. */
drop_to_el1:
	msr	daifset, #0xf
	msr	spsel, #1
	mrs	x0, currentel
	cmp	x0, #2 << 2
	b.ne	2f
	mov	x0, #HCR_RW
	msr	hcr_el2, x0
	isb
	mrs	x0, cnthctl_el2
	orr	x0, x0, #3		/* EL1 may read the physical counter and timer */
	msr	cnthctl_el2, x0
	msr	cntvoff_el2, xzr
	mrs	x0, midr_el1
	msr	vpidr_el2, x0
	mrs	x0, mpidr_el1
	msr	vmpidr_el2, x0
	mov	x0, #CPTR_RES1
	msr	cptr_el2, x0
	msr	hstr_el2, xzr
	msr	vttbr_el2, xzr
	mrs	x0, id_aa64dfr0_el1
	sbfx	x0, x0, #8, #4		/* PMUVer: 0 and -1 mean no PMUv3 */
	cmp	x0, #1
	mov	x1, xzr
	b.lt	1f
	mrs	x1, pmcr_el0
	ubfx	x1, x1, #11, #5		/* HPMN: EL1 may use every counter */
1:	msr	mdcr_el2, x1
	mrs	x0, id_aa64pfr0_el1
	ubfx	x0, x0, #24, #4		/* GIC: the CPU interface has system registers */
	cbz	x0, 1f
	mrs	x0, S3_4_C12_C9_5	/* icc_sre_el2 */
	orr	x0, x0, #ICC_SRE_SRE
	orr	x0, x0, #ICC_SRE_ENABLE
	msr	S3_4_C12_C9_5, x0
	isb
	mrs	x0, S3_4_C12_C9_5
	tbz	x0, #0, 1f
	msr	S3_4_C12_C11_0, xzr	/* ich_hcr_el2: no virtual interrupts */
1:	ldr	x0, =SCTLR_RES1
	msr	sctlr_el1, x0
	mov	x0, #PSTATE_EL1H_MASKED
	msr	spsr_el2, x0
	msr	elr_el2, x30
	eret
2:	ldr	x0, =SCTLR_RES1
	msr	sctlr_el1, x0
	isb
	ret

	.ltorg
