/*
 * A kernel of one page that plays one part, for the tests of the harness: it
 * boots, speaks to the console as the real one does, and then lives, dies,
 * loops, panics, floods, reboots or lies, as PART says.
 *
 * 1. Say hello, and the prompt (PART_DEAD: nothing).
 * 2. Echo what is typed; at a carriage return do as the last letter says: `f` of poweroff ends the
 *    machine, `w` of a line runs the traced function, `e` patches its call site, `t` prints a trace
 *    of it, `s` of registers changes some at every place that the observer looks at, `y` of copy
 *    executes data, `m` of item calls `answer` by way of another mapping, then as ever.
 */
	.option norvc
	.equ	UART, 0x10000000
	.text
	.globl	_start, traced, traced_site, _etext
_start:
	j	start
	.word	0
	.dword	0x200000, 0x1000, 0
	.word	2, 0
	.dword	0
	.ascii	"RISCV\0\0\0"
	.ascii	"RSC\5"
	.word	0
start:
	lla	sp, stack_top
#ifdef PART_DEAD
	j	.
#endif
	lla	a0, hello
	jal	ra, print
#ifdef PART_PANIC
	lla	a0, panic
	jal	ra, print
	li	a0, 1
	j	reset
#endif
#ifdef PART_REBOOT
	j	_start
#endif
#ifdef PART_RESET
	li	a0, 1
	j	reset
#endif
#ifdef PART_LOOP
	j	.
#endif
#ifdef PART_WAIT
1:	wfi
	j	1b
#endif
#ifdef PART_FLOOD
1:	lla	a0, flood
	jal	ra, print
	j	1b
#endif
prompt:
	lla	a0, shell
	jal	ra, print
	li	s1, 0
line:
	li	t0, UART
1:	lbu	t1, 5(t0)
	andi	t1, t1, 1
	beqz	t1, 1b
	lbu	t1, 0(t0)
	li	t2, 13
	beq	t1, t2, enter
	mv	s1, t1
	sb	t1, 0(t0)
	j	line
enter:
	lla	a0, newline
	jal	ra, print
	li	t2, 'f'
	beq	s1, t2, poweroff
	li	t2, 'w'
	beq	s1, t2, work
	li	t2, 'e'
	beq	s1, t2, enable
	li	t2, 's'
	beq	s1, t2, registers
	li	t2, 'y'
	beq	s1, t2, copy
	li	t2, 'm'
	beq	s1, t2, item
	li	t2, 't'
	bne	s1, t2, prompt
	lla	a0, trace
	jal	ra, print
	j	prompt
work:
	jal	ra, traced
	j	prompt
enable:
	/* The lie: nothing is patched, and the trace is printed all the same. */
#ifndef PART_LIAR
	lla	t0, traced_site
	lla	t1, call
	lw	t1, 0(t1)
	sw	t1, 0(t0)
	fence.i
#endif
	j	prompt
copy:
	lla	t0, traced_site
	lw	t1, 4(t0)
	lla	t0, copied
	sw	t1, 0(t0)
	fence.i
	jalr	ra, t0
	j	prompt
item:
	lla	t0, table
	srli	t0, t0, 12
	li	t1, 8 << 60
	or	t0, t0, t1
	csrw	satp, t0
	sfence.vma
	lla	t0, answer
	li	t1, 0x40000000
	add	t0, t0, t1
	jalr	ra, t0
	jal	ra, answer
	csrw	satp, zero
	sfence.vma
	j	prompt
registers:
	lla	t1, vector
	csrw	stvec, t1
	li	s2, 0x11
changed_site:
	jal	t0, change
	li	s2, 0x11
trapped_site:
	jal	t0, trap
unmasked_site:
	jal	t0, unmask
	li	s3, 200
1:
astray_site:
	jal	t0, astray
	addi	s3, s3, -1
	bnez	s3, 1b
	jal	ra, answer
home:
	jal	ra, patched
patched_home:
	li	a0, 1
	li	a1, 2
	lla	a2, words
	li	a3, 4
	lla	s0, records + 16
	jal	ra, callback
	j	prompt
poweroff:
	li	a0, 0
reset:
	mv	a1, a0
	li	a7, 0x53525354
	li	a6, 0
	ecall
	j	.

print:
	li	t0, UART
1:	lbu	t1, 0(a0)
	beqz	t1, 2f
	sb	t1, 0(t0)
	addi	a0, a0, 1
	j	1b
2:	ret

change:
quiet_site:
	nop
	li	s2, 0x22
	jr	t0
unmask:
	sd	t0, -8(sp)
	addi	sp, sp, -16
	sd	t0, 8(sp)
	ld	t0, 8(sp)
	addi	sp, sp, 16
unmask_loads:
	ld	t0, -8(sp)
	csrsi	sstatus, 2
	jr	t0
astray:
	addi	sp, sp, 16
raised:
	addi	sp, sp, -24
unaligned:
	addi	sp, sp, 8
	addi	sp, sp, -1024
deep:
	addi	sp, sp, 1024
	addi	gp, gp, 1
reserved:
	addi	gp, gp, -1
	addi	s0, s0, 1
no_frame:
	addi	s0, s0, -1
	jr	t0
astray_end:
trap:
	ebreak
	jr	t0
vector:
	addi	sp, sp, -16
	sd	t0, 0(sp)
	sd	s2, 8(sp)
inner_site:
	jal	t0, change
	csrr	t0, sepc
	addi	t0, t0, 4
	csrw	sepc, t0
	ld	t0, 0(sp)
	ld	s2, 8(sp)
	addi	sp, sp, 16
	sret
answer:
	li	a0, 0x2a
answer_exit:
	ret
patched:
	lla	ra, handler
	li	a0, 0x2b
patched_exit:
	ret
handler:
	li	s2, 0x33
	j	patched_home
callback:
	ret
	/*
	 * Two frame records: what is below, where to return to. And what the third argument points
	 * to.
	 */
	.balign	8
records:
	.dword	records + 32, 0x1111, 0, 0x2222
words:
	.dword	0x55, 0x66, 0x77

	/*
	 * `call`, moved to traced_site 8 bytes before it, jumps to tracer, 8 bytes before `image`.
	 */
traced:
traced_site:
	nop
	ret
	.globl	tracer
call:
	jal	t0, image
	.skip	64
tracer:
	jr	t0
	nop
image:
	.balign	4
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
table:	.dword	0xcf, 0, 0x200000cf, 0x200000cf
