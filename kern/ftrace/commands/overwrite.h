/* OVERWRITE(): every register that a callback may overwrite gets another value. */
#ifndef FTRACE_OVERWRITE_H
#define FTRACE_OVERWRITE_H

#ifdef __riscv
#define OVERWRITE() __asm__ volatile( \
	"	.set .Lvalue, -1\n" \
	"	.irp reg, a0,a1,a2,a3,a4,a5,a6,a7,t0,t1,t2,t3,t4,t5,t6,ra\n	li \\reg, .Lvalue\n	.set .Lvalue, .Lvalue - 1\n	.endr\n" \
	: : : "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7")
#else
#define OVERWRITE() __asm__ volatile( \
	"	.set .Lvalue, -1\n" \
	"	.irp reg, x0,x1,x2,x3,x4,x5,x6,x7,x8,x9,x10,x11,x12,x13,x14,x15,x16,x17,x30\n	mov \\reg, .Lvalue\n	.set .Lvalue, .Lvalue - 1\n	.endr\n" \
	: : : "x30", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17")
#endif

#endif
