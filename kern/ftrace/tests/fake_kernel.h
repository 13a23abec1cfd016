/*
 * A small kernel for the host tests: text at a fixed address that can be written
 * only through an alias, records for it, names, and the functions of the kernel
 * that the tracer calls, with counters.
 */
#ifndef TESTS_FAKE_KERNEL_H
#define TESTS_FAKE_KERNEL_H

#ifdef __cplusplus
#include <gtest/gtest.h>
#include <string>
#include <vector>
extern "C" {
#define private private_ /* a field's name in C */
#endif
#include "ftrace_internal.h"
#undef private

#define FAKE_TEXT_SIZE MiB(4)
#define FAKE_MORE      (KERNEL_BASE + MiB(6)) /* text that is loaded later, FAKE_MORE_SIZE of it */
#define FAKE_MORE_SIZE MiB(1)
#define FAKE_MORE_STUBS (FAKE_MORE + 0x80000)
/* FAKE_MORE_SIZE of it, out of reach of FAKE_STUBS on both architectures */
#define FAKE_FAR       (KERNEL_BASE + MiB(200))
#define FAKE_STUBS     (KERNEL_BASE + 0x80000)
#define FAKE_ISLAND    (KERNEL_BASE + 0x280000)
#define FAKE_CALL      (KERNEL_BASE + 0x80200) /* ftrace_call */

void _mcount(void);
extern int fake_opens, fake_syncs, fake_graces;
/* While arch_sync_all() ran the text alias existed; or preemption was on. */
extern bool fake_open_at_sync, fake_preemptible_at_sync;
extern unsigned long fake_last_line; /* the text address of the last arch_sync_line() */
extern char fake_console[4096]; /* what printk() and seq_printf() were given */
struct seq;
extern int (*fake_show)(struct seq *s, u64 item); /* of the file that was opened last */
void fake_list(struct ftrace_filter *filter); /* read the file of a filter; fake_list.c */
struct fake_edit; /* the file of a filter, open for writing: `>`, or `>>` if @append */
struct fake_edit *fake_open(struct ftrace_filter *filter, bool append, bool notrace_list);
int fake_write(struct fake_edit *e, const char *words);
int fake_close(struct fake_edit *e);

extern void (*fake_in_grace)(void); /* called in a grace period, in place of other CPUs; or NULL */
extern void (*fake_at_lock)(bool locked); /* when ftrace_lock is locked, or unlocked; or NULL */
void fake_reset(void); /* text all zero, counters zero, no records */
/* the name of a function that fake_record() did not get; or NULL */
extern const char *(*fake_name)(unsigned long addr);
/* at its own addresses, as a module's is while it is loaded */
void fake_text_writable(bool writable);
u32 fake_word(unsigned long ip);
void fake_scribble(unsigned long ip, u32 insn); /* text is written, and not by patch.c */
/*
 * Add a record at KERNEL_BASE + offset, with its function's name. Call it in the order of offsets.
 */
struct dyn_ftrace *fake_record(u32 offset, const char *name);
void fake_island(void); /* the records from here on call the stubs at FAKE_ISLAND */
/* the records from here on are in a table of their own, of the text at FAKE_MORE */
struct ftrace_table *fake_table(void);

#ifdef __cplusplus
}
#endif
#endif
