/*
 * registers: a caller of _mcount with a pattern in every register, and a
 * tracer that overwrites every register that a callback may overwrite.
 *
 * A compiled function has moved its arguments away before it calls _mcount,
 * and a compiled tracer leaves many registers alone. `registers` makes the
 * call once while nobody traces and once while its tracer does; with one CPU,
 * since labs 1 and 2 have no filter. `registers SEED` runs the workload under
 * that tracer. Labs 1 to 3 (-pg). In lab 3 set_ftrace_filter says which
 * functions it traces.
 */
#include "app.h"
#include "arch.h"
#include "errno.h"
#include "ftrace.h"
#include "tracer.h"

const char *const program_help[] = {"[seed]", "calls _mcount with a pattern in every register, for grading"};

#ifdef HOOK_mcount
void registers_call(void), registers_tracer(void);
extern ftrace_func_t ftrace_trace_function;
extern struct ftrace_ops *function_trace_op;
int app_main_workload(int argc, char **argv);

#ifdef __riscv
__asm__(
"	.text\n"
"	.globl registers_call, registers_out, registers_back, registers_tracer\n"
"	.type registers_call, @function\n"
"registers_call:\n"
"	addi sp, sp, -112\n"
"	sd ra, 104(sp)\n	sd s0, 96(sp)\n	addi s0, sp, 112\n"
"	.set .Lat, 0\n"
"	.irp reg, s1,s2,s3,s4,s5,s6,s7,s8,s9,s10,s11\n	sd \\reg, .Lat(sp)\n	.set .Lat, .Lat + 8\n	.endr\n"
"	.set .Lvalue, 0x5ca1ab1e00010001\n"
"	.irp reg, a0,a1,a2,a3,a4,a5,a6,a7,s1,s2,s3,s4,s5,s6,s7,s8,s9,s10,s11\n"
"	li \\reg, .Lvalue\n	.set .Lvalue, .Lvalue + 0x10001\n	.endr\n"
"registers_out:\n"
"	call _mcount\n"
"registers_back:\n"
"	.set .Lat, 0\n"
"	.irp reg, s1,s2,s3,s4,s5,s6,s7,s8,s9,s10,s11\n	ld \\reg, .Lat(sp)\n	.set .Lat, .Lat + 8\n	.endr\n"
"	ld s0, 96(sp)\n	ld ra, 104(sp)\n	addi sp, sp, 112\n"
"	ret\n"
"	.size registers_call, . - registers_call\n"
"	.type registers_tracer, @function\n"
"registers_tracer:\n"
"	.set .Lvalue, -1\n"
"	.irp reg, a0,a1,a2,a3,a4,a5,a6,a7,t0,t1,t2,t3,t4,t5,t6\n	li \\reg, .Lvalue\n	.set .Lvalue, .Lvalue - 1\n	.endr\n"
"	ret\n"
"	.size registers_tracer, . - registers_tracer\n");
#else
__asm__(
"	.text\n"
"	.globl registers_call, registers_out, registers_back, registers_tracer\n"
"	.type registers_call, %function\n"
"registers_call:\n"
"	stp x29, x30, [sp, #-96]!\n	mov x29, sp\n"
"	stp x19, x20, [sp, #16]\n	stp x21, x22, [sp, #32]\n	stp x23, x24, [sp, #48]\n	stp x25, x26, [sp, #64]\n	stp x27, x28, [sp, #80]\n"
"	.set .Lvalue, 1\n"
"	.irp reg, x0,x1,x2,x3,x4,x5,x6,x7,x8,x19,x20,x21,x22,x23,x24,x25,x26,x27,x28\n"
"	movz \\reg, #.Lvalue\n	movk \\reg, #.Lvalue, lsl #16\n	movk \\reg, #0xab1e, lsl #32\n	movk \\reg, #0x5ca1, lsl #48\n"
"	.set .Lvalue, .Lvalue + 1\n	.endr\n"
"registers_out:\n"
"	bl _mcount\n"
"registers_back:\n"
"	ldp x19, x20, [sp, #16]\n	ldp x21, x22, [sp, #32]\n	ldp x23, x24, [sp, #48]\n	ldp x25, x26, [sp, #64]\n	ldp x27, x28, [sp, #80]\n"
"	ldp x29, x30, [sp], #96\n	ret\n"
"	.size registers_call, . - registers_call\n"
"	.type registers_tracer, %function\n"
"registers_tracer:\n"
"	.set .Lvalue, -1\n"
"	.irp reg, x0,x1,x2,x3,x4,x5,x6,x7,x8,x9,x10,x11,x12,x13,x14,x15,x16,x17\n	mov \\reg, .Lvalue\n	.set .Lvalue, .Lvalue - 1\n	.endr\n"
"	ret\n"
"	.size registers_tracer, . - registers_tracer\n");
#endif

static struct ftrace_ops op = {(ftrace_func_t)registers_tracer, FTRACE_OPS_FL_RECURSION, .slot = -1};

#if STAGE == 3
/* Whatever the site holds, nothing is written: no batch is open, and it is no call of address 0. */
__attribute__((noipa)) static void registers_no_batch(void)
{
	ftrace_make_nop(&ftrace_records[0], 0);
	barrier(); /* the call is not the last act: it returns to here */
}

static int call_traced(void)
{
	int err = register_ftrace_function(&op);

	if (!err) {
		registers_call();
		unregister_ftrace_function(&op);
	}
	registers_no_batch();
	return err;
}
#else
/* Nothing but this call comes to the tracer: a stub that is wrong does no harm yet. */
static int call_traced(void)
{
	struct ftrace_ops *was = function_trace_op;
	unsigned long flags = irq_save();

	function_trace_op = &op;
	ftrace_trace_function = op.func;
	registers_call();
	ftrace_trace_function = ftrace_stub;
	function_trace_op = was;
	irq_restore(flags);
	return 0;
}
#endif

/* The workload, with every function of the kernel (lab 3: of the filter) traced. */
static int workload_traced(int argc, char **argv)
{
	int err = register_ftrace_function(&op);

	if (!err) {
		err = app_main_workload(argc, argv);
		unregister_ftrace_function(&op);
	}
	return err;
}

int main(int argc, char **argv)
{
	int err;

	if (argc > 1)
		return workload_traced(argc, argv);
	registers_call();
	err = call_traced();
	return err ? complain(argv[0], "register_ftrace_function", -err) : 0;
}
#else
int main(int argc, char **argv)
{
	printf("%s: this kernel's call sites are not calls to _mcount\n", argv[0]);
	return 1;
}
#endif
