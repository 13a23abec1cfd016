/*
 * kt_live: the registers that are live at a function's entry. Assembly puts a value into
 * each register and calls a traced function, which stores all registers at its first
 * instruction; they are stored again after it has returned. This is done with each kind
 * of tracer that the kernel has. The tracers' callbacks change every register that a C
 * function may change.
 *
 * Which registers are live: arguments, the pointer to a returned structure (arm64 x8), the
 * static chain of GCC's nested functions (t2, x18), Clang's further arguments of local
 * functions (riscv64 t2-t6), the callee-saved ones, sp, gp, tp and the return address. arm64's
 * x9 to x17 are not: neither compiler passes anything there.
 *
 * With HOOK=mcount the registers are those around the call of _mcount, after a prologue.
 */
#include "apps/lib/pattern.h"
#include "asm-ftrace/hook.h"
#include "asm-ftrace/regs.h"
#include "arch.h"
#include "ftrace.h"
#include "irq.h"
#include "kt.h"
#include "string.h"
#include "ftrace_internal.h"
#if STAGE >= 5
#include "fgraph.h"
#endif
#if STAGE >= 8
#include "kprobes.h"
#include "kretprobe.h"
#endif

#define REGS 32 /* riscv64: x0 to x31; arm64: x0 to x30 and sp */

/*
 * What the caller sets; what the function found; what the caller had before the call and has after
 * it.
 */
u64 kt_live_set[REGS], kt_live_found[REGS], kt_live_before[REGS], kt_live_after[REGS];
void (*kt_live_function)(void);
void kt_live_call(void);

#ifdef __riscv
static const char names[REGS][5] = {"zero", "ra", "sp",	 "gp",	"tp", "t0", "t1", "t2",
				    "s0",   "s1", "a0",	 "a1",	"a2", "a3", "a4", "a5",
				    "a6",   "a7", "s2",	 "s3",	"s4", "s5", "s6", "s7",
				    "s8",   "s9", "s10", "s11", "t3", "t4", "t5", "t6"};
enum { LINK = 1 };
#ifdef __clang__
#define FURTHER (0xful << 28)
#else
#define FURTHER 0
#endif
#define LIVE_AT_ENTRY ((0x0ffffffful & ~(1ul | 3ul << 5)) | FURTHER)
#define LIVE_AT_RETURN (1ul << 2 | 1ul << 3 | 1ul << 4 | 3ul << 8 | 3ul << 10 | 0x3fful << 18)
#define DUMP(to) \
	"	lla t1, " to "\n" \
	"	.irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26," \
	"27,28,29,30,31\n" \
	"	sd x\\n, 8 * \\n(t1)\n	.endr\n"
#define SAVED "9,18,19,20,21,22,23,24,25,26,27"
#define PROLOGUE \
	"	addi sp, sp, -240\n	sd ra, 232(sp)\n	sd s0, 224(sp)\n" \
	"	addi s0, sp, 240\n" \
	"	.irp n, " SAVED "\n	sd x\\n, 8 * \\n(sp)\n	.endr\n"
#define EPILOGUE \
	"	.irp n, " SAVED "\n	ld x\\n, 8 * \\n(sp)\n	.endr\n" \
	"	ld ra, 232(sp)\n	ld s0, 224(sp)\n	addi sp, sp, 240\n	ret\n"
#define SET \
	"	lla t1, kt_live_set\n" \
	"	.irp n, 5,7,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26," \
	"27,28,29,30,31\n" \
	"	ld x\\n, 8 * \\n(t1)\n	.endr\n"
#define CALL_FUNCTION "	lla t1, kt_live_function\n	ld t1, 0(t1)\n	jalr t1\n"
#else
static const char names[REGS][5] = {"x0",  "x1",  "x2",	 "x3",	"x4",  "x5",  "x6",  "x7",
				    "x8",  "x9",  "x10", "x11", "x12", "x13", "x14", "x15",
				    "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23",
				    "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp"};
enum { LINK = 30 };
#define LIVE_AT_ENTRY (0xfffffffful & ~(0x1fful << 9))
#define LIVE_AT_RETURN (0xfful | 0xffful << 18 | 1ul << 31)
#define DUMP(to) \
	"	adrp x16, " to "\n	add x16, x16, #:lo12:" to "\n" \
	"	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25," \
	"26,27,28,29,30\n" \
	"	str x\\n, [x16, #8 * \\n]\n	.endr\n" \
	"	mov x17, sp\n	str x17, [x16, #8 * 31]\n"
#define SAVED "19,20,21,22,23,24,25,26,27,28"
#define PROLOGUE \
	"	sub sp, sp, #240\n	stp x29, x30, [sp]\n	mov x29, sp\n" \
	"	.irp n, " SAVED "\n	str x\\n, [sp, #8 * \\n]\n	.endr\n"
#define EPILOGUE \
	"	.irp n, " SAVED "\n	ldr x\\n, [sp, #8 * \\n]\n	.endr\n" \
	"	ldp x29, x30, [sp]\n	add sp, sp, #240\n	ret\n"
#define SET \
	"	adrp x16, kt_live_set\n	add x16, x16, #:lo12:kt_live_set\n" \
	"	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,17,18,19,20,21,22,23,24,25,26,27," \
	"28\n" \
	"	ldr x\\n, [x16, #8 * \\n]\n	.endr\n"
#define CALL_FUNCTION \
	"	adrp x16, kt_live_function\n	ldr x16, [x16, #:lo12:kt_live_function]\n" \
	"	blr x16\n"
#endif

__asm__(
"	.text\n	.balign 8\n	.globl kt_live_call\n"
"	.type kt_live_call, %function\nkt_live_call:\n"
PROLOGUE
SET
DUMP("kt_live_before")
#ifdef HOOK_mcount
CALL "_mcount\n"
DUMP("kt_live_found")
#else
CALL_FUNCTION
"kt_live_back:\n"
#endif
DUMP("kt_live_after")
EPILOGUE
"	.size kt_live_call, . - kt_live_call\n"
#ifndef HOOK_mcount
TRACED("kt_live_traced")
DUMP("kt_live_found")
"	ret\n"
"	.size kt_live_traced, . - kt_live_traced\n"
#endif
);

/* ---- One call ---- */

/* Compare the registers in @mask, but not the link register. */
static void compare(const u64 *found, unsigned long mask, const char *when, const char *how)
{
	unsigned n = 0;

	mask &= ~(1ul << LINK);
	while (n < REGS && (!(mask >> n & 1) || found[n] == kt_live_before[n]))
		n++;
	kt_promise(n == REGS, "%s, %s: every live register has its value%s%s", how, when,
		   n < REGS ? ", but not " : "", n < REGS ? names[n] : "");
}

/* Interrupts are masked, so that only this call changes the stored values. */
static void call_with_values(const char *how)
{
	unsigned long flags = irq_save();

	for (unsigned n = 0; n < REGS; n++) {
		kt_live_set[n] = 0x5ca1ab1e00000000 | (n + 1) * 0x10001;
		kt_live_found[n] = kt_live_after[n] = 0;
	}
	kt_live_call();
	irq_restore(flags);
	compare(kt_live_found, LIVE_AT_ENTRY, "at the first instruction", how);
	compare(kt_live_after, LIVE_AT_RETURN, "after the return", how);
}

/* ---- The tracers: their handlers change every register that a C function may change. ---- */

static unsigned called;

CALLBACK static void change_registers(unsigned long ip, unsigned long parent_ip,
				      struct ftrace_ops *op, struct ftrace_regs *regs)
{
	called++;
	OVERWRITE();
}

#if STAGE >= 3
static void traced(const char *how, unsigned calls)
{
	called = 0;
	call_with_values(how);
	kt_promise(called == calls, "%s: the tracer is called %u times, was %u times", how, calls,
		   called);
}
#endif

#ifdef HOOK_mcount
static struct ftrace_ops op = {change_registers, FTRACE_OPS_FL_RECURSION, .slot = -1};

static void with_callbacks(void)
{
#if STAGE == 3
	kt_echo("kt_live_call", "set_ftrace_filter", false);
	kt_promise(!register_ftrace_function(&op), "an op is registered");
	traced("an op", 1);
	unregister_ftrace_function(&op);
	kt_echo("", "set_ftrace_filter", false);
#else
	struct ftrace_ops *was = function_trace_op;
	unsigned long flags = irq_save(); /* only the one call reaches the tracer */

	function_trace_op = &op;
	ftrace_trace_function = op.func;
	called = 0;
	call_with_values("an op");
	ftrace_trace_function = ftrace_stub;
	function_trace_op = was;
	irq_restore(flags);
	kt_promise(called, "an op: it is called");
#endif
}
#else
static struct ftrace_ops ops[2];

static void start(struct ftrace_ops *op, const char *names)
{
	*op = (struct ftrace_ops){
		.func = change_registers, .flags = FTRACE_OPS_FL_RECURSION, .slot = -1};
	ftrace_set_filter(op, names, strlen(names), true, false);
	kt_promise(!register_ftrace_function(op), "an op is registered");
}

static void stop(struct ftrace_ops *op)
{
	unregister_ftrace_function(op);
	ftrace_filter_free(&op->filter);
}

static void with_callbacks(void)
{
	start(&ops[0], "kt_live_traced");
	traced("an op", 1);
	start(&ops[1], "kt_live_traced");
	traced("two ops", 2);
	stop(&ops[0]);
	stop(&ops[1]);
}
#endif

#if STAGE >= 5
static notrace int graph_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			       struct ftrace_regs *regs)
{
	called++;
	OVERWRITE();
	return 1;
}
static notrace void graph_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
				 struct ftrace_regs *regs)
{
	called++;
	OVERWRITE();
}

static struct ftrace_filter filter;
static struct fgraph_ops user = {graph_entry, graph_return, &filter, .idx = -1};

static void with_graph(const char *names, void (*run)(const char *, unsigned), unsigned calls)
{
	ftrace_filter_edit(&filter, names, strlen(names), true, false);
	kt_promise(!register_ftrace_graph(&user), "a user of function_graph is registered");
	run("a user of function_graph", calls);
	unregister_ftrace_graph(&user);
	ftrace_filter_free(&filter);
}
#endif

#if STAGE >= 8
static notrace bool kprobe_handler(struct kprobe *p, struct kprobe_regs *regs)
{
	called++;
	OVERWRITE();
	return false;
}
static notrace int probe_entry(struct fprobe *fp, unsigned long ip, unsigned long ret,
			       struct ftrace_regs *regs, void *data)
{
	called++;
	OVERWRITE();
	return 0;
}
static notrace void probe_exit(struct fprobe *fp, unsigned long ip, unsigned long ret,
			       struct ftrace_regs *regs, void *data)
{
	called++;
	OVERWRITE();
}
static notrace int kretprobe_handler(struct kretprobe_instance *ri, struct ftrace_regs *regs)
{
	called++;
	OVERWRITE();
	return 0;
}

static void with_kprobe(unsigned offset, const char *how)
{
	struct kprobe p = {
		.symbol_name = "kt_live_traced", .offset = offset, .pre_handler = kprobe_handler};

	kt_promise(!register_kprobe(&p), "%s is registered", how);
	traced(how, 1);
	unregister_kprobe(&p);
}

static void with_probes(void)
{
	struct fprobe entry_only = {.entry_handler = probe_entry},
		      both = {.entry_handler = probe_entry, .exit_handler = probe_exit};
	struct kretprobe kr = {.kp = {.symbol_name = "kt_live_traced"},
			       .handler = kretprobe_handler,
			       .entry_handler = kretprobe_handler};

	with_kprobe(0, "a kprobe at the entry");
	with_kprobe(HOOK_ENTRY_OFFSET + 12, "a kprobe in the body");
	kt_promise(!register_fprobe(&entry_only, "kt_live_traced", NULL),
		   "an fprobe is registered");
	traced("an fprobe without an exit handler", 1);
	kt_promise(!register_fprobe(&both, "kt_live_traced", NULL),
		   "a second fprobe is registered");
	traced("two fprobes", 3);
	unregister_fprobe(&entry_only);
	traced("an fprobe", 2);
	unregister_fprobe(&both);
	kt_promise(!register_kretprobe(&kr), "a kretprobe is registered");
	traced("a kretprobe", 2);
	with_graph("kt_live_traced", traced, 4);
	unregister_kretprobe(&kr);
}
#endif

static const char *const tracers[] = {"function", "function_graph"};
#define TRACERS (STAGE >= 5 ? 2 : 1)

static void with_tracer(const char *tracer)
{
	kt_promise(!kt_echo(tracer, "current_tracer", false), "%s is the tracer", tracer);
	call_with_values(tracer);
	kt_echo("nop", "current_tracer", false);
}

/* ---- A nested function ---- */

#ifndef __clang__
/* Each call of @kt_live_add finds @sum and @times by its static chain. */
__attribute__((noipa)) static long sum_of(const long *values, unsigned count)
{
	long sum = 0, times = 0;

	__attribute__((noipa)) void kt_live_add(long value)
	{
		sum += value;
		times++;
	}

	for (unsigned i = 0; i < count; i++)
		kt_live_add(values[i]);
	return 1000 * times + sum;
}

static void nested(const char *how, unsigned calls)
{
	static const long values[] = {1, 20, 300, 4};

	called = 0;
	kt_promise(sum_of(values, ARRAY_SIZE(values)) == 4325,
		   "%s: a nested function finds its variables", how);
	kt_promise(called == calls, "%s: it is called for the nested function", how);
}

static void with_nested(void)
{
	nested("no tracer", 0);
	kt_echo("kt_live_add*", "set_ftrace_filter", false);
	for (unsigned i = 0; i < TRACERS; i++) {
		kt_echo(tracers[i], "current_tracer", false);
		nested(tracers[i], 0);
	}
	kt_echo("nop", "current_tracer", false);
	kt_echo("", "set_ftrace_filter", false);
#ifndef HOOK_mcount
	start(&ops[0], "kt_live_add*");
	nested("an op", 4);
	stop(&ops[0]);
#endif
#if STAGE >= 5
	with_graph("kt_live_add*", nested, 8);
#endif
}
#else
static void with_nested(void) {}
#endif

static int live_command(int argc, char **argv)
{
#ifndef HOOK_mcount
	extern void kt_live_traced(void);

	kt_live_function = kt_live_traced;
#endif
	kt_begin();
	call_with_values("no tracer");
	with_callbacks();
#if STAGE >= 5
	with_graph("kt_live_traced", traced, 2);
#endif
#if STAGE >= 8
	with_probes();
#endif
	kt_echo("kt_live_*", "set_ftrace_filter", false);
	for (unsigned i = 0; i < TRACERS; i++)
		with_tracer(tracers[i]);
	kt_echo("", "set_ftrace_filter", false);
	with_nested();
	return kt_end();
}
SHELL_COMMAND("kt_live", live_command, "", "registers that are live at a traced function's entry");
