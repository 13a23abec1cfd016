/*
 * A kernel of one page that plays one part, for the tests of the harness: it
 * boots, speaks to the console as the real one does, and then lives, dies,
 * loops, panics, floods, reboots or lies, as PART says.
 *
 * 1. Say hello, and the prompt (PART_DEAD: nothing).
 * 2. Echo what is typed; at a carriage return do as the last letter says:
 *    `f` of poweroff ends the machine, `w` of a line runs the traced function,
 *    `e` patches its call site, `t` prints a trace of it.
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

	/* `call`, moved to traced_site 8 bytes before it, jumps to tracer, 8 bytes before `image`. */
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
	.skip	256
stack_top:
