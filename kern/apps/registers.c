/*
 * registers: calls _mcount as a compiled function would, but with a pattern in
 * every register that _mcount must keep, and looks what came back.
 *
 * No C program can see that: the compiler moves a function's arguments away
 * before it calls. While the pattern is out, the tracer's callback is
 * registers_tracer(), which overwrites all that a callback may overwrite. An
 * observer outside learns what was right from the addresses that
 * registers_show() loads from. Labs 1 to 3 (-pg); with one CPU, since the
 * others' calls come to the callback too. In lab 3 it is a tracer of its own,
 * and set_ftrace_filter must say registers_call.
 */
#include "app.h"
#include "errno.h"
#include "ftrace/ftrace.h"

const char *const program_help[] = {"", "calls _mcount with a pattern in every register, for grading"};

#ifdef HOOK_mcount
#define KEPT 20 /* a0-a7, s1-s11, s0; x0-x8, x19-x28, x29 */
enum item { STACK = KEPT, IP, PARENT, OP, REGS, RECORD, NOT_FIRST_ARGUMENT, NOT_SITE, NO_BATCH, NOT_ADDRESS, ITEMS };

/* What the assembly below reads and writes. */
struct registers {
	uint64_t in[KEPT];  /* before the call; the last, the frame pointer, is as it is */
	uint64_t out[KEPT]; /* and after it */
	uint64_t sp, sp_after;
	uint64_t called[4];  /* the callback's arguments; 0: it was not called */
	uint64_t record[2];  /* its caller's frame record: where to return to, the frame below */
	uint64_t tracer, op; /* ftrace_trace_function and function_trace_op while the call is out */
	uint64_t home;       /* where registers_call returns to */
};

extern struct registers registers_now;
struct registers registers_now;
extern void (*ftrace_trace_function)(void);
extern struct ftrace_ops *function_trace_op;
void registers_call(void), registers_tracer(void), registers_back(void);

static volatile char registers_seen[2][2 * ITEMS]; /* nobody traces; somebody does */

#ifdef __riscv
__asm__(
"	.text\n"
"	.globl registers_call, registers_out, registers_back, registers_tracer\n"
"	.type registers_call, @function\n"
"registers_call:\n"
"	addi sp, sp, -128\n"
"	sd ra, 120(sp)\n	sd s0, 112(sp)\n	sd s1, 104(sp)\n	sd s2, 96(sp)\n	sd s3, 88(sp)\n	sd s4, 80(sp)\n"
"	sd s5, 72(sp)\n	sd s6, 64(sp)\n	sd s7, 56(sp)\n	sd s8, 48(sp)\n	sd s9, 40(sp)\n	sd s10, 32(sp)\n	sd s11, 24(sp)\n"
"	addi s0, sp, 128\n"
"	csrrci t0, sstatus, 2\n	sd t0, 16(sp)\n"
"	lla t0, ftrace_trace_function\n	ld t1, 0(t0)\n	sd t1, 8(sp)\n"
"	lla t2, registers_now\n	ld t1, 384(t2)\n	sd t1, 0(t0)\n"
"	lla t0, function_trace_op\n	ld t1, 0(t0)\n	sd t1, 0(sp)\n	ld t1, 392(t2)\n	sd t1, 0(t0)\n"
"	sd sp, 320(t2)\n	sd ra, 400(t2)\n"
"	ld a0, 0(t2)\n	ld a1, 8(t2)\n	ld a2, 16(t2)\n	ld a3, 24(t2)\n	ld a4, 32(t2)\n	ld a5, 40(t2)\n	ld a6, 48(t2)\n	ld a7, 56(t2)\n"
"	ld s1, 64(t2)\n	ld s2, 72(t2)\n	ld s3, 80(t2)\n	ld s4, 88(t2)\n	ld s5, 96(t2)\n	ld s6, 104(t2)\n"
"	ld s7, 112(t2)\n	ld s8, 120(t2)\n	ld s9, 128(t2)\n	ld s10, 136(t2)\n	ld s11, 144(t2)\n"
"registers_out:\n"
"	sd s0, 152(t2)\n"
"	call _mcount\n"
"registers_back:\n"
"	lla t2, registers_now\n"
"	sd sp, 328(t2)\n	ld sp, 320(t2)\n"
"	sd a0, 160(t2)\n	sd a1, 168(t2)\n	sd a2, 176(t2)\n	sd a3, 184(t2)\n	sd a4, 192(t2)\n	sd a5, 200(t2)\n	sd a6, 208(t2)\n	sd a7, 216(t2)\n"
"	sd s1, 224(t2)\n	sd s2, 232(t2)\n	sd s3, 240(t2)\n	sd s4, 248(t2)\n	sd s5, 256(t2)\n	sd s6, 264(t2)\n"
"	sd s7, 272(t2)\n	sd s8, 280(t2)\n	sd s9, 288(t2)\n	sd s10, 296(t2)\n	sd s11, 304(t2)\n	sd s0, 312(t2)\n"
"	lla t0, ftrace_trace_function\n	ld t1, 8(sp)\n	sd t1, 0(t0)\n"
"	lla t0, function_trace_op\n	ld t1, 0(sp)\n	sd t1, 0(t0)\n"
"	ld t0, 16(sp)\n	andi t0, t0, 2\n	csrs sstatus, t0\n"
"	ld s1, 104(sp)\n	ld s2, 96(sp)\n	ld s3, 88(sp)\n	ld s4, 80(sp)\n"
"	ld s5, 72(sp)\n	ld s6, 64(sp)\n	ld s7, 56(sp)\n	ld s8, 48(sp)\n	ld s9, 40(sp)\n	ld s10, 32(sp)\n	ld s11, 24(sp)\n"
"	ld s0, 112(sp)\n	ld ra, 120(sp)\n	addi sp, sp, 128\n"
"	ret\n"
"	.size registers_call, . - registers_call\n"
"	.type registers_tracer, @function\n"
"registers_tracer:\n"
"	lla t0, registers_now\n"
"	sd a0, 336(t0)\n	sd a1, 344(t0)\n	sd a2, 352(t0)\n	sd a3, 360(t0)\n"
"	ld t1, -8(s0)\n	sd t1, 368(t0)\n	ld t1, -16(s0)\n	sd t1, 376(t0)\n"
"	li a0, -1\n	li a1, -2\n	li a2, -3\n	li a3, -4\n	li a4, -5\n	li a5, -6\n	li a6, -7\n	li a7, -8\n"
"	li t0, -9\n	li t1, -10\n	li t2, -11\n	li t3, -12\n	li t4, -13\n	li t5, -14\n	li t6, -15\n"
"	ret\n"
"	.size registers_tracer, . - registers_tracer\n");
#else
__asm__(
"	.text\n"
"	.globl registers_call, registers_out, registers_back, registers_tracer\n"
"	.type registers_call, %function\n"
"registers_call:\n"
"	stp x29, x30, [sp, #-128]!\n	mov x29, sp\n"
"	stp x19, x20, [sp, #16]\n	stp x21, x22, [sp, #32]\n	stp x23, x24, [sp, #48]\n	stp x25, x26, [sp, #64]\n	stp x27, x28, [sp, #80]\n"
"	mrs x9, daif\n	str x9, [sp, #112]\n	msr daifset, #2\n"
"	adrp x10, registers_now\n	add x10, x10, #:lo12:registers_now\n"
"	adrp x9, ftrace_trace_function\n	add x9, x9, #:lo12:ftrace_trace_function\n	ldr x11, [x9]\n	ldr x12, [x10, #384]\n	str x12, [x9]\n"
"	adrp x9, function_trace_op\n	add x9, x9, #:lo12:function_trace_op\n	ldr x12, [x9]\n	stp x11, x12, [sp, #96]\n	ldr x12, [x10, #392]\n	str x12, [x9]\n"
"	mov x12, sp\n	str x12, [x10, #320]\n	str x30, [x10, #400]\n"
"	ldp x0, x1, [x10]\n	ldp x2, x3, [x10, #16]\n	ldp x4, x5, [x10, #32]\n	ldp x6, x7, [x10, #48]\n	ldp x8, x19, [x10, #64]\n"
"	ldp x20, x21, [x10, #80]\n	ldp x22, x23, [x10, #96]\n	ldp x24, x25, [x10, #112]\n	ldp x26, x27, [x10, #128]\n	ldr x28, [x10, #144]\n"
"registers_out:\n"
"	str x29, [x10, #152]\n"
"	bl _mcount\n"
"registers_back:\n"
"	adrp x10, registers_now\n	add x10, x10, #:lo12:registers_now\n"
"	mov x12, sp\n	str x12, [x10, #328]\n	ldr x12, [x10, #320]\n	mov sp, x12\n"
"	stp x0, x1, [x10, #160]\n	stp x2, x3, [x10, #176]\n	stp x4, x5, [x10, #192]\n	stp x6, x7, [x10, #208]\n	stp x8, x19, [x10, #224]\n"
"	stp x20, x21, [x10, #240]\n	stp x22, x23, [x10, #256]\n	stp x24, x25, [x10, #272]\n	stp x26, x27, [x10, #288]\n	stp x28, x29, [x10, #304]\n"
"	ldp x11, x12, [sp, #96]\n"
"	adrp x9, ftrace_trace_function\n	str x11, [x9, #:lo12:ftrace_trace_function]\n"
"	adrp x9, function_trace_op\n	str x12, [x9, #:lo12:function_trace_op]\n"
"	ldr x9, [sp, #112]\n	msr daif, x9\n"
"	ldp x19, x20, [sp, #16]\n	ldp x21, x22, [sp, #32]\n	ldp x23, x24, [sp, #48]\n	ldp x25, x26, [sp, #64]\n	ldp x27, x28, [sp, #80]\n"
"	ldp x29, x30, [sp], #128\n	ret\n"
"	.size registers_call, . - registers_call\n"
"	.type registers_tracer, %function\n"
"registers_tracer:\n"
"	adrp x9, registers_now\n	add x9, x9, #:lo12:registers_now\n"
"	stp x0, x1, [x9, #336]\n	stp x2, x3, [x9, #352]\n"
"	ldp x10, x11, [x29]\n	stp x11, x10, [x9, #368]\n"
"	mov x0, #-1\n	mov x1, #-2\n	mov x2, #-3\n	mov x3, #-4\n	mov x4, #-5\n	mov x5, #-6\n	mov x6, #-7\n	mov x7, #-8\n	mov x8, #-9\n"
"	mov x9, #-10\n	mov x10, #-11\n	mov x11, #-12\n	mov x12, #-13\n	mov x13, #-14\n	mov x14, #-15\n	mov x15, #-16\n	mov x16, #-17\n	mov x17, #-18\n"
"	ret\n"
"	.size registers_tracer, . - registers_tracer\n");
#endif

/* One thing was as it must be, or was not: an address says which. */
__attribute__((noipa)) static void registers_show(bool on, unsigned item, bool right)
{
	(void)registers_seen[on][2 * item + right];
}

static void show_kept(bool on, const struct registers *r)
{
	for (unsigned i = 0; i < KEPT; i++)
		registers_show(on, i, r->out[i] == r->in[i]);
	registers_show(on, STACK, r->sp_after == r->sp);
}

static void show_arguments(const struct registers *r, uint64_t back)
{
	registers_show(true, IP, r->called[0] == back - 4);
	registers_show(true, PARENT, r->called[1] == r->home);
	registers_show(true, OP, r->called[2] == r->op);
	registers_show(true, REGS, !r->called[3]);
	registers_show(true, RECORD, r->record[0] == back && r->record[1] == r->in[KEPT - 1]);
	registers_show(true, NOT_FIRST_ARGUMENT, r->called[1] != r->in[0]);
	registers_show(true, NOT_SITE, r->called[1] != back);
	registers_show(true, NOT_ADDRESS, r->called[2] != (uint64_t)&function_trace_op);
}

static void call_with(bool on, void (*tracer)(void))
{
	struct registers *r = &registers_now;

	/* Only lab 1's _mcount reads the pointer; what lab 3's ftrace_caller calls, its op knows too. */
	*r = (struct registers){.tracer = (uint64_t)tracer, .op = STAGE == 3 ? (uint64_t)function_trace_op : 0x6f70};
	for (unsigned i = 0; i < KEPT; i++)
		r->in[i] = 0x5ca1ab1e00000000 + 0x10001 * (i + 1);
	registers_call();
	show_kept(on, r);
	if (on)
		show_arguments(r, (uint64_t)registers_back);
}

int main(int argc, char **argv)
{
	static struct ftrace_ops op = {(ftrace_func_t)registers_tracer, FTRACE_OPS_FL_RECURSION, .slot = -1};

	call_with(false, ftrace_trace_function);
	if (STAGE == 3)
		register_ftrace_function(&op);
	call_with(true, registers_tracer);
	if (STAGE == 3)
		unregister_ftrace_function(&op);
	/* Outside of a batch; whatever stands at the site, nothing is written: it is no call of address 0. */
	if (STAGE == 3)
		registers_show(false, NO_BATCH, ftrace_make_nop(&ftrace_records[0], 0) == -EFAULT);
	return 0;
}
#else
int main(int argc, char **argv)
{
	printf("%s: this kernel's call sites are not calls to _mcount\n", argv[0]);
	return 1;
}
#endif
