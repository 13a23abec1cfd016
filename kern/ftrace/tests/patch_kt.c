/*
 * Text that is broken on purpose: a call site with a foreign word, and a store
 * directly into text. And call sites that change while they are called.
 */
#include "kt.h"
#include "cpu.h"
#include "errno.h"
#include "ftrace.h"
#include "string.h"
#include "thread.h"
#include "tracefs.h"
#include "ftrace_internal.h"

static struct dyn_ftrace *record_of(const char *name)
{
	for (u32 i = 0; i < ftrace_record_count; i++)
		if (!strcmp(ftrace_name(&ftrace_records[i]), name))
			return &ftrace_records[i];
	return NULL;
}

/* Writes through the alias as patch.c does, but without reading the word first. */
static void overwrite(unsigned long ip, u32 insn)
{
	mutex_lock(&ftrace_lock);
	preempt_disable();
	text_alias_open();
	*(volatile u32 *)text_alias(ip) = insn;
	arch_sync_line(ip, (unsigned long)text_alias(ip));
	text_alias_close();
	arch_sync_all();
	preempt_enable();
	mutex_unlock(&ftrace_lock);
}

static int corrupt_command(int argc, char **argv)
{
	struct dyn_ftrace *rec = argc > 1 ? record_of(argv[1]) : NULL;
	u64 word = 0;

	if (!rec || (argc > 2 && kstrtou64(argv[2], 16, &word))) {
		out_printf("usage: kt_corrupt FUNCTION [HEX]\n");
		return 1;
	}
	out_printf("%s %#lx was %08x\n", argv[1], ftrace_ip(rec), *(const u32 *)ftrace_ip(rec));
	overwrite(ftrace_ip(rec), word);
	return 0;
}
SHELL_COMMAND("kt_corrupt", corrupt_command, "FUNCTION [HEX]",
	      "write a foreign word into a call site");

static int store_command(int argc, char **argv)
{
	out_printf("storing into text at %#lx\n", (unsigned long)_text);
	*(volatile u32 *)_text = 0;
	out_printf("FAILED text was written\n");
	return 1;
}
SHELL_COMMAND("kt_store", store_command, "",
	      "store straight into text: must end in a panic that says so");

/* Checks that each site holds the word that its record says. */
static int sites_command(int argc, char **argv)
{
	u32 wrong = 0;

	for (u32 i = 0; i < ftrace_record_count; i++)
		wrong += *(const u32 *)ftrace_ip(&ftrace_records[i]) !=
			 ftrace_expected(&ftrace_records[i]);
	kt_begin();
	kt_promise(ftrace_record_count && !wrong, "%u sites, %u unlike their record",
		   ftrace_record_count, wrong);
	return kt_end();
}
SHELL_COMMAND("kt_sites", sites_command, "", "hold every call site against its record");

/* ---- after a batch every CPU executes the new word ---- */

static volatile bool calling;
static unsigned long called; /* calls of kt_fresh() that have returned */
static unsigned long seen; /* written by the op */

void kt_fresh(void);
__noinline void kt_fresh(void)
{
	barrier();
}

static notrace int calls_fresh(void *unused)
{
	while (calling) {
		kt_fresh();
		WRITE_ONCE(called, called + 1);
	}
	return 0;
}

static void sees(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
		 struct ftrace_regs *regs)
{
	WRITE_ONCE(seen, seen + 1);
}

/* Two calls begin and end. Return: how many of them were seen; at most two more begin meanwhile. */
static unsigned long seen_of_two(void)
{
	unsigned long before = READ_ONCE(called), was = READ_ONCE(seen);

	while (READ_ONCE(called) - before < 3)
		cpu_relax();
	return READ_ONCE(seen) - was;
}

/* A thread on the last CPU calls the function in a tight loop while its site changes. */
static int fresh_command(int argc, char **argv)
{
	struct ftrace_ops op = {.func = sees, .slot = -1};
	unsigned long rounds = 0, missed = 0, late = 0;
	struct thread *thread;
	u64 wanted = 1000;

	if (argc > 1 && kstrtou64(argv[1], 10, &wanted))
		return -EINVAL;
	ftrace_set_filter(&op, "kt_fresh", 8, true, false);
	calling = true;
	thread = kthread_run(calls_fresh, NULL, nr_cpus - 1, "caller");
	for (; rounds < wanted; rounds++) {
		register_ftrace_function(&op);
		missed += !seen_of_two();
		unregister_ftrace_function(&op);
		late += seen_of_two() != 0;
	}
	calling = false;
	thread_join(thread);
	kt_begin();
	kt_promise(!missed && !late,
		   "%lu rounds: after %lu of them calls went on unseen, after %lu they were still "
		   "seen",
		   rounds, missed, late);
	return kt_end();
}
SHELL_COMMAND("kt_fresh", fresh_command, "[ROUNDS]",
	      "after each change of a call site every CPU executes the new word");

/*
 * A filter that is written in pieces: a word ends at white space or at the end of the file, and the
 * filter changes at close.
 */
static int pieces_command(int argc, char **argv)
{
	struct dyn_ftrace *mutex = record_of("mutex_lock"), *free = record_of("kfree");
	struct file *f;
	int err;

	kt_begin();
	kt_echo("", "set_ftrace_filter", false);
	if (!kt_promise(
		    !file_open(file_root(), TRACEFS "set_ftrace_filter", O_WRONLY | O_TRUNC, &f),
		    "the file opens"))
		return kt_end();
	err = file_write(f, "mutex_", 6) != 6 || file_write(f, "lock kf", 7) != 7 ||
	      file_write(f, "ree", 3) != 3;
	kt_promise(!err, "pieces of words are accepted");
	kt_promise(!ftrace_filter_count(&global_ops.filter, false), "nothing changes before close");
	kt_promise(!file_close(f), "close joins the pieces");
	kt_promise(ftrace_filter_count(&global_ops.filter, false) == 2 &&
			   ftrace_filter_has(&global_ops.filter, mutex, false) &&
			   ftrace_filter_has(&global_ops.filter, free, false),
		   "and both functions are in the filter");
	kt_echo("", "set_ftrace_filter", false);
	return kt_end();
}
SHELL_COMMAND("kt_pieces", pieces_command, "", "a filter written in pieces");
