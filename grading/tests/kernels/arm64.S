/*
 * A kernel of one page that plays one part: see riscv64.S, step by step the
 * same. It runs where it is loaded, with the MMU off, at EL1.
 */
	.equ	UART, 0x09000000
	.text
	.globl	_start, traced, traced_site, _etext
_start:
	b	start
	.word	0
	.quad	0x200000, 0x1000, 0
	.quad	0, 0, 0
	.ascii	"ARM\x64"
	.word	0
start:
	adr	x9, stack_top
	mov	sp, x9
#ifdef PART_DEAD
	b	.
#endif
	adr	x0, hello
	bl	print
#ifdef PART_PANIC
	adr	x0, panic
	bl	print
	b	reset
#endif
#ifdef PART_REBOOT
	b	_start
#endif
#ifdef PART_RESET
	b	reset
#endif
#ifdef PART_LOOP
	b	.
#endif
#ifdef PART_WAIT
1:	wfi
	b	1b
#endif
#ifdef PART_FLOOD
1:	adr	x0, flood
	bl	print
	b	1b
#endif
prompt:
	adr	x0, shell
	bl	print
	mov	w19, 0
line:
	ldr	x10, =UART
1:	ldr	w11, [x10, 0x18]
	tbnz	w11, 4, 1b
	ldr	w11, [x10]
	and	w11, w11, 0xff
	cmp	w11, 13
	b.eq	enter
	mov	w19, w11
	str	w11, [x10]
	b	line
enter:
	adr	x0, newline
	bl	print
	cmp	w19, 'f'
	b.eq	poweroff
	cmp	w19, 'w'
	b.eq	work
	cmp	w19, 'e'
	b.eq	enable
	cmp	w19, 's'
	b.eq	registers
	cmp	w19, 'y'
	b.eq	copy
	cmp	w19, 'm'
	b.eq	item
	cmp	w19, 't'
	b.ne	prompt
	adr	x0, trace
	bl	print
	b	prompt
work:
	bl	traced
	b	prompt
enable:
	/* The lie: nothing is patched, and the trace is printed all the same. */
#ifndef PART_LIAR
	adr	x10, traced_site
	adr	x11, call
	ldr	w11, [x11]
	str	w11, [x10]
	dc	cvau, x10
	dsb	ish
	ic	ivau, x10
	dsb	ish
	isb
#endif
	b	prompt
copy:
	adr	x10, traced_site
	ldr	w11, [x10, 4]
	adr	x10, copied
	str	w11, [x10]
	dc	cvau, x10
	dsb	ish
	ic	ivau, x10
	dsb	ish
	isb
	blr	x10
	b	prompt
item:
	adrp	x10, table
	msr	ttbr0_el1, x10
	mov	x10, 0xff
	msr	mair_el1, x10
	ldr	x10, =0x803519
	msr	tcr_el1, x10
	tlbi	vmalle1
	dsb	sy
	mrs	x11, sctlr_el1
	orr	x10, x11, 1
	msr	sctlr_el1, x10
	isb
	adr	x10, answer
	mov	x12, 0x40000000
	add	x10, x10, x12
	blr	x10
	bl	answer
	msr	sctlr_el1, x11
	isb
	b	prompt
registers:
	adr	x10, vector - 0x200
	msr	vbar_el1, x10
	isb
	mov	x20, 0x11
changed_site:
	bl	change
	mov	x20, 0x11
trapped_site:
	bl	trap
unmasked_site:
	bl	unmask
	mov	x21, 200
1:
astray_site:
	bl	astray
	subs	x21, x21, 1
	b.ne	1b
	bl	answer
home:
	bl	patched
patched_home:
	mov	x0, 1
	mov	x1, 2
	adr	x2, words
	mov	x3, 4
	adr	x29, records
	bl	callback
	b	prompt
poweroff:
	ldr	w0, =0x84000008
	hvc	0
reset:
	ldr	w0, =0x84000009
	hvc	0
	b	.

print:
	ldr	x10, =UART
1:	ldrb	w11, [x0], 1
	cbz	w11, 2f
	str	w11, [x10]
	b	1b
2:	ret

change:
quiet_site:
	nop
	mov	x20, 0x22
	ret
unmask:
	stur	x30, [sp, #-8]
	stp	x29, x30, [sp, #-16]!
	ldp	x29, x30, [sp], #16
unmask_loads:
	ldur	x30, [sp, #-8]
	msr	daifclr, 2
	msr	tpidr_el1, x30
	msr	sp_el0, x30
	ret
astray:
	add	sp, sp, 16
raised:
	sub	sp, sp, 24
unaligned:
	add	sp, sp, 8
	sub	sp, sp, 1024
deep:
	add	sp, sp, 1024
	add	x18, x18, 1
reserved:
	sub	x18, x18, 1
	add	x29, x29, 1
no_frame:
	sub	x29, x29, 1
	ret
astray_end:
trap:
	brk	0
	ret
answer:
	mov	x0, 0x2a
answer_exit:
	ret
patched:
	adr	x30, handler
	mov	x0, 0x2b
patched_exit:
	ret
handler:
	mov	x20, 0x33
	b	patched_home
callback:
	ret
	/*
	 * Two frame records: what is below, where to return to. And what the third argument points
	 * to.
	 */
	.balign	8
records:
	.quad	records + 16, 0x1111, 0, 0x2222
words:
	.quad	0x55, 0x66, 0x77
	/* Of the vectors one is used: an exception at EL1, with sp_el1. */
	.balign	2048
	.skip	0x200
vector:
	stp	x30, x20, [sp, -16]!
inner_site:
	bl	change
	mrs	x30, elr_el1
	add	x30, x30, 4
	msr	elr_el1, x30
	ldp	x30, x20, [sp], 16
	eret

	/*
	 * `call`, moved to traced_site 8 bytes before it, jumps to tracer, 8 bytes before `image`.
	 */
traced:
	mov	x9, x30
traced_site:
	nop
	ret
	.globl	tracer
call:
	bl	image
	.skip	64
tracer:
	mov	x10, x30
	mov	x30, x9
image:
	ret	x10
	.balign	4
	.ltorg
hello:	.asciz	"tiny kernel\n"
panic:	.asciz	"panic: tiny kernel: told to\n"
shell:	.asciz	"callsite# "
newline:.asciz	"\n"
flood:	.asciz	"flood flood flood flood flood flood flood\n"
trace:	.ascii	"# tracer: function\n"
	.asciz	"            tiny-1       [000] .....     0.000001: traced <-work\n"
	.balign	8
_etext:
copied:	.word	0
	.skip	252
	.balign	16
stack_top:
	/* Devices; memory, and the same memory a GiB above. */
	.balign	4096
table:	.quad	0x405, 0x40000701, 0x40000701
