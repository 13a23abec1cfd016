/*
 * From firmware to kernel_main(), riscv64. Entered as Linux's Image is: S-mode,
 * satp 0, a0 = hart id, a1 = physical address of the device tree, loaded at any
 * 2 MiB-aligned address. Until paging is on, every symbol is reached relative
 * to pc and is its physical address.
 *
 * 1. One hart boots; firmware without HSM starts all harts here at once.
 * 2. Zero .bss, store the hart id and the address of the device tree.
 * 3. Map the image at KERNEL_BASE, each page with its final permission.
 * 4. Turn paging on.
 * 5. Set the stack, this CPU and its thread; go to kernel_main().
 */
#include "layout.h"
#include "asm-offsets.h"
#include "asm/arch.h"

#define PAGE_RX (PTE_V | PTE_R | PTE_X | PTE_G | PTE_A | PTE_D)
#define PAGE_R (PTE_V | PTE_R | PTE_G | PTE_A | PTE_D)
#define PAGE_RW (PTE_V | PTE_R | PTE_W | PTE_G | PTE_A | PTE_D)
#define ROOT_SLOT ((KERNEL_BASE >> 30) & 511)

	.section .head.text, "ax"
	.globl _image_header
_image_header:
	j	boot_start
	.word	0
	.dword	0x200000		/* text_offset from the start of RAM */
	.dword	_end - _image_header	/* image_size, .bss included */
	.dword	0			/* flags: little endian */
	.word	2			/* header version 0.2 */
	.word	0
	.dword	0
	.ascii	"RISCV\0\0\0"
	.ascii	"RSC\x05"
	.word	0

boot_start:
	/* 1. One hart boots. */
	rdtime	s3
	csrw	sie, zero
	csrw	sip, zero
	li	t0, SSTATUS_FS_VS
	csrc	sstatus, t0
	fence.i
	la	t0, boot_lottery
	li	t1, 1
	amoadd.w t0, t1, (t0)
	bnez	t0, lost_lottery

	/* 2. Zero .bss, store the hart id and the address of the device tree. */
	la	t0, _bss
	la	t1, _end
1:	.irp	offset, 0, 8, 16, 24, 32, 40, 48, 56
	sd	zero, \offset(t0)
	.endr
	addi	t0, t0, 64
	bltu	t0, t1, 1b

	la	t0, boot_hwid
	sd	a0, 0(t0)
	la	t0, boot_fdt_pa
	sd	a1, 0(t0)
	la	t0, boot_counter
	sd	s3, 0(t0)
	la	s1, _image_header
	la	t0, kernel_pa
	sd	s1, 0(t0)
	la	s2, _early_tables
	la	t0, kernel_pgd_pa
	sd	s2, 0(t0)

	/* 3. Map the image at KERNEL_BASE, each page with its final permission. */
	call	map_image

	/* 4. Turn paging on. */
	call	enable_paging

	/* 5. Set the stack, this CPU and its thread; go to kernel_main(). */
	la	sp, boot_stack + THREAD_SIZE
	la	tp, cpus
	la	t0, boot_thread
	sd	t0, CPU_CURRENT(tp)
	li	s0, 0
	li	ra, 0
	tail	kernel_main

/*
 * Fill the tables at s2: root, middle, then a last-level table for each 2 MiB of
 * image. The last-level tables are contiguous: their n-th entry is page n of the
 * image at s1.
 */
map_image:
	li	t6, 4096
	add	t0, s2, t6		/* middle */
	srli	t1, t0, 2
	ori	t1, t1, PTE_V
	li	t2, 8 * ROOT_SLOT
	add	t2, t2, s2
	sd	t1, 0(t2)
	add	t2, t0, t6		/* last level */
	la	t3, _end
	mv	t4, t2
	mv	t5, s1
1:	srli	t1, t4, 2
	ori	t1, t1, PTE_V
	sd	t1, 0(t0)
	addi	t0, t0, 8
	add	t4, t4, t6
	li	t1, 0x200000
	add	t5, t5, t1
	bltu	t5, t3, 1b

	mv	t5, s1
	la	t0, _etext
	li	t4, PAGE_RX
	j	3f
1:	la	t0, _data
	li	t4, PAGE_R
	j	3f
2:	mv	t0, t3
	li	t4, PAGE_RW
3:	srli	t1, t5, 2
	or	t1, t1, t4
	sd	t1, 0(t2)
	addi	t2, t2, 8
	add	t5, t5, t6
	bltu	t5, t0, 3b
	bgeu	t5, t3, 4f
	li	t1, PAGE_RX
	beq	t4, t1, 1b
	j	2b
4:	ret

/*
 * Sv39 with the root at kernel_pgd_pa; returns to the caller's virtual address. The
 * fetch after `csrw satp` faults, and the trap vector is the next instruction's
 * virtual address. So no identity map is needed.
 */
enable_paging:
	la	t0, kernel_pa
	ld	t0, 0(t0)
	li	t1, KERNEL_BASE
	sub	t0, t1, t0
	add	ra, ra, t0
	la	t1, paging_is_on
	add	t1, t1, t0
	csrw	stvec, t1
	la	t1, kernel_pgd_pa
	ld	t1, 0(t1)
	srli	t1, t1, 12
	li	t2, SATP_SV39 << SATP_MODE_SHIFT
	or	t1, t1, t2
	sfence.vma
	csrw	satp, t1
	.balign	4			/* stvec's two lowest bits are its mode */
paging_is_on:
	sfence.vma
	la	t1, exception_vector
	csrw	stvec, t1
	ret

/*
 * Entry of a CPU that SBI's hart_start started: a0 = hart id, a1 = physical
 * address of its struct cpu.
 */
	.globl	secondary_start
secondary_start:
	csrw	sie, zero
	csrw	sip, zero
	li	t0, SSTATUS_FS_VS
	csrc	sstatus, t0
	fence.i
	la	t0, kernel_pa
	ld	t0, 0(t0)
	sub	tp, a1, t0
	li	t0, KERNEL_BASE
	add	tp, tp, t0
	call	enable_paging
	ld	sp, CPU_BOOT_STACK(tp)
	li	s0, 0
	li	ra, 0
	tail	secondary_main

/* With HSM the boot hart starts this hart again later; without HSM this hart is not used. */
lost_lottery:
	li	a7, SBI_HSM
	li	a6, 1			/* hart_stop */
	ecall
1:	wfi
	j	1b

	.size	_image_header, . - _image_header

	.data
	.balign	4
boot_lottery:	.word	0
