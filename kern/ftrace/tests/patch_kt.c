/*
 * Breaking text on purpose: a call site with a foreign word, and a store directly
 * into text.
 */
#include "kt.h"
#include "ftrace.h"
#include "string.h"
#include "thread.h"
#include "tracefs.h"
#include "tracer.h"

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

/* A filter that is written in pieces: a word ends at white space or at the end of the file, and the filter changes at close. */
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
