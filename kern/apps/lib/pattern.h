/*
 * For the programs for grading: callbacks, and in assembly a different value in
 * each register, and functions that consist of a call site and a few instructions.
 */
#ifndef APPS_PATTERN_H
#define APPS_PATTERN_H

/*
 * For a callback that may run without the core's guard against recursion (FTRACE_OPS_FL_RECURSION).
 */
#define CALLBACK __attribute__((noipa, section(".ftrace.text"))) notrace

#ifdef __riscv
#define CALL "	call "
#define JUMP "	j "
/* Make a frame record; remove it and return. */
#define ENTER "	addi sp, sp, -16\n	sd ra, 8(sp)\n	sd s0, 0(sp)\n	addi s0, sp, 16\n"
#define LEAVE "	ld ra, 8(sp)\n	ld s0, 0(sp)\n	addi sp, sp, 16\n	ret\n"
#define NOPS "	nop\n"
/*
 * Set each argument register, t2 (a static chain) and each callee-saved register, except sp and fp.
 */
#define SET_PATTERN \
	"	.set .Lvalue, 0x5ca1ab1e00010001\n" \
	"	.irp reg, a0,a1,a2,a3,a4,a5,a6,a7,s1,s2,s3,s4,s5,s6,s7,s8,s9,s10,s11,t2\n" \
	"	li \\reg, .Lvalue\n	.set .Lvalue, .Lvalue + 0x10001\n	.endr\n"
#define PATTERN_CLOBBERS "memory", "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", \
	"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", \
	"s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11"
/* Give every register that a callback may overwrite another value. */
#define OVERWRITE() __asm__ volatile( \
	"	.set .Lvalue, -1\n" \
	"	.irp reg, a0,a1,a2,a3,a4,a5,a6,a7,t0,t1,t2,t3,t4,t5,t6,ra\n" \
	"	li \\reg, .Lvalue\n	.set .Lvalue, .Lvalue - 1\n	.endr\n" \
	: : : "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a0", "a1", "a2", "a3", "a4", "a5", \
	  "a6", "a7")
#else
#define CALL "	bl "
#define JUMP "	b "
#define ENTER "	stp x29, x30, [sp, #-16]!\n	mov x29, sp\n"
#define LEAVE "	ldp x29, x30, [sp], #16\n	ret\n"
#define NOPS "	nop\n	nop\n"
#define SET_PATTERN \
	"	.set .Lvalue, 1\n" \
	"	.irp reg, x0,x1,x2,x3,x4,x5,x6,x7,x8,x19,x20,x21,x22,x23,x24,x25,x26,x27,x28\n" \
	"	movz \\reg, #.Lvalue\n	movk \\reg, #.Lvalue, lsl #16\n" \
	"	movk \\reg, #0xab1e, lsl #32\n	movk \\reg, #0x5ca1, lsl #48\n" \
	"	.set .Lvalue, .Lvalue + 1\n	.endr\n"
#define PATTERN_CLOBBERS "memory", "x30", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", \
	"x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", \
	"x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28"
#define OVERWRITE() __asm__ volatile( \
	"	.set .Lvalue, -1\n" \
	"	.irp reg, x0,x1,x2,x3,x4,x5,x6,x7,x8,x9,x10,x11,x12,x13,x14,x15,x16,x17,x30\n" \
	"	mov \\reg, .Lvalue\n	.set .Lvalue, .Lvalue - 1\n	.endr\n" \
	: : : "x30", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", \
	  "x12", "x13", "x14", "x15", "x16", "x17")
#endif

/* The start of a function, with a call site as the compiler makes it (HOOK=entry). */
#define TRACED(name) \
	"	.type " name ", %function\n" name ":\n" \
	"	.section __patchable_function_entries, \"awo\", %progbits, " name "\n" \
	"	.balign 8\n	.8byte " name "\n	.text\n" NOPS

#endif
