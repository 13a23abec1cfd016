/*
 * registers: calls _mcount with a pattern in every register; its tracer
 * overwrites every register that a callback may overwrite.
 *
 * A compiled function has already moved its arguments to other registers when it
 * calls _mcount, and a compiled tracer changes few registers. `registers` makes
 * the call once without a tracer and once with its own; with one CPU, since labs
 * 1 and 2 have no filter. `registers SEED` runs the workload with that tracer.
 * For labs 1 to 3 (-pg). In lab 3 set_ftrace_filter selects the traced functions,
 * and the call is made once more while function_trace_op is NULL.
 */
#include "app.h"
#include "asm-ftrace/hook.h"
#include "arch.h"
#include "errno.h"
#include "ftrace.h"
#include "lib/pattern.h"
#include "ftrace_internal.h"

APP("[seed]", "call _mcount with a pattern in every register, for grading");

#ifdef HOOK_mcount
int app_main_workload(int argc, char **argv);

/* notrace: its only call of _mcount is this one. */
__attribute__((noipa)) static notrace void registers_call(void)
{
	__asm__ volatile(
	SET_PATTERN
	"registers_out:\n"
	CALL "_mcount\n"
	"registers_back:\n"
	: : : PATTERN_CLOBBERS);
}

CALLBACK static void registers_tracer(unsigned long ip, unsigned long parent_ip,
				      struct ftrace_ops *op, struct ftrace_regs *regs)
{
	OVERWRITE();
}

/* A kmalloc'ed one: its address is not the 64-bit sign extension of its lower half. */
static struct ftrace_ops *op;

#if STAGE == 3
extern u32 ftrace_call[];

__attribute__((noipa)) static notrace void registers_word(u32 insn, u32 before)
{
	__asm__ volatile("" : : "r"(insn), "r"(before));
}

/*
 * Encodings that this kernel's call sites do not use: both ends of the reach, one word further, all
 * offset bits, misaligned, misaligned and out of reach; each with another link register.
 */
__attribute__((noipa)) static void registers_encoded(void)
{
	const long reach = INSN_REACH;
	const struct { long ip, off; } calls[] = {
		{0, reach - 4}, {0, -reach}, {0, reach}, {0, -reach - 4}, {0, 2 * reach},
		{0, reach / 3 & ~3}, {0, -(reach / 3) & ~3}, {0, 2}, {0, 1}, {2, 0}, {1, 0},
		{0, reach - 2}, {0, reach + 2}, {2, 2 * reach},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(calls); i++) {
		unsigned long ip = ftrace_ip(&ftrace_records[0]) + calls[i].ip;
		u32 before = 0x5a5a5a5a + i, insn = before;

		insn_call(ip, ip + calls[i].off, 1 + i, &insn);
		registers_word(insn, before);
	}
}

/*
 * Each answer that the patching functions have. Whoever judges them knows these calls by their
 * order. Three of them write: the call site of registers_encoded(), which does not run meanwhile,
 * becomes a call, another call, and the nop again.
 */
__attribute__((noipa)) static void registers_patched(void)
{
	struct dyn_ftrace after = {.offset = _etext - _text}, last = {.offset = after.offset - 4};
	unsigned long own = (unsigned long)registers_encoded, stub = (unsigned long)ftrace_stubs;
	unsigned long other = (unsigned long)_mcount, call = (unsigned long)ftrace_call;
	const struct dyn_ftrace *rec = lookup_rec_range(own, own + 128);
	const struct text_word no_call = {call, *ftrace_call, INSN_BREAK};
	const struct text_word as_before = {call, INSN_BREAK, *ftrace_call};

	/* No batch is open; and the target is out of reach, or another word is there. */
	ftrace_make_call(rec, 0);
	ftrace_make_nop(rec, 0);
	ftrace_modify_call(rec, 0, 0);
	ftrace_init_nop(rec);
	ftrace_update_ftrace_func(NULL);
	mutex_lock(&ftrace_lock);
	ftrace_batch_begin();
	/* The site is the first word after text. */
	ftrace_make_call(&after, stub);
	ftrace_make_nop(&after, stub);
	ftrace_modify_call(&after, stub, other);
	ftrace_init_nop(&after);
	/* The target, address 0, is out of reach; and the word is neither the nop nor a call. */
	ftrace_make_call(&last, 0);
	ftrace_make_nop(&last, 0);
	ftrace_modify_call(&last, 0, stub);
	ftrace_modify_call(&last, stub, 0);
	/* The site holds the nop, then a call, then another call. */
	ftrace_init_nop(rec);
	ftrace_make_nop(rec, stub);
	ftrace_modify_call(rec, stub, other);
	ftrace_make_call(rec, stub);
	ftrace_make_call(rec, stub);
	ftrace_make_nop(rec, other);
	ftrace_modify_call(rec, other, stub);
	ftrace_modify_call(rec, stub, other);
	if (ftrace_make_nop(rec, other))
		ftrace_make_nop(rec, stub);
	/* ftrace_call holds no call; no site calls ftrace_caller now. */
	text_write(&no_call, 1);
	ftrace_update_ftrace_func(NULL);
	ftrace_update_ftrace_func(registers_tracer);
	text_write(&as_before, 1);
	ftrace_batch_end();
	mutex_unlock(&ftrace_lock);
}

static int call_traced(void)
{
	int err = register_ftrace_function(op);

	if (!err) {
		registers_call();
		/* ftrace_caller calls the tracer, and does not ask what op it is given. */
		function_trace_op = NULL;
		registers_call();
		function_trace_op = op;
		unregister_ftrace_function(op);
	}
	registers_patched();
	registers_encoded();
	return err;
}
#else
/*
 * Interrupts are masked: only this one call reaches the tracer, so a wrong stub does little harm.
 */
static int call_traced(void)
{
	struct ftrace_ops *was = function_trace_op;
	unsigned long flags = irq_save();

	function_trace_op = op;
	ftrace_trace_function = op->func;
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
	int err = register_ftrace_function(op);

	if (!err) {
		err = app_main_workload(argc, argv);
		unregister_ftrace_function(op);
	}
	return err;
}

int main(int argc, char **argv)
{
	int err;

	op = kmalloc(sizeof(*op));
	if (!op)
		return complain(argv[0], "kmalloc", ENOMEM);
	*op = (struct ftrace_ops){registers_tracer, FTRACE_OPS_FL_RECURSION, .slot = -1};
	if (argc > 1) {
		err = workload_traced(argc, argv);
		kfree(op);
		return err;
	}
	registers_call();
	err = call_traced();
	kfree(op);
	return err ? complain(argv[0], "register_ftrace_function", -err) : 0;
}
#else
int main(int argc, char **argv)
{
	printf("%s: this kernel's call sites are not calls to _mcount\n", argv[0]);
	return 1;
}
#endif
