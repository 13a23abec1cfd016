/*
 * The function tracer's contract: records, patching, ops.
 *
 * Who may touch what:
 * - records: the table is made by the build and sorted; `count`, `calls` and
 *   `flags` change under ftrace_lock (a mutex) only.
 * - text: only patch.c writes it, through the alias, inside one batch at a
 *   time (ftrace_lock held). A site holds the nop or one call, never a half.
 * - ops: the list and the stubs' slots are published with smp_wmb() before
 *   any site is patched to call them; after the sites are nops again,
 *   synchronize_sched() passes before an op may be reused or freed.
 * Callbacks run with preemption impossible (see irq_exit()), may come from
 * any context, and do not sleep.
 */
#ifndef FTRACE_FTRACE_H
#define FTRACE_FTRACE_H

#include "memory.h"
#include "types.h"

/*
 * One call site. All that is kept for it: 8 bytes.
 *
 *	| ip: offset from KERNEL_BASE (4) | count (2) | calls (1) | flags (1) |
 */
struct dyn_ftrace {
	u32 offset; /* of the word that is toggled, from KERNEL_BASE */
	union {
		struct {
			u16 count; /* ops that trace this function */
			u8 calls;  /* what stands in the site: FTRACE_CALLS_* */
			u8 flags;  /* FTRACE_FL_* */
		};
		u32 state; /* the three of them: a batch looks at one word */
	};
};

#define FTRACE_CALLS_NOTHING 0 /* the nop */
#define FTRACE_CALLS_LIST 1    /* the list stub: more than one op (stage 3: ftrace_caller) */
#define FTRACE_CALLS_OP 2      /* + index: that op's own stub */

#define FTRACE_FL_DISABLED 1  /* found corrupted or out of reach: never written again */
#define FTRACE_FL_IPMODIFY 2  /* an op that may change pc traces it */
#define FTRACE_FL_FILTER 4    /* stage 3: the one tracer's filter */
#define FTRACE_FL_NOTRACE 8   /* stage 3: and its notrace list */

/* The kernel's records, from the build (recordmcount), sorted by offset. */
extern struct dyn_ftrace ftrace_records[], ftrace_records_end[];
extern const u32 ftrace_record_count;

/*
 * Which stubs a site calls: those of the tracer's section, or beyond a call's
 * reach an island's, a copy nearer to it. The build decides (recordmcount):
 * records from number @first on, up to the next region's, call the stubs at
 * KERNEL_BASE + @stubs. A sentinel after the last region has @first equal to the
 * number of records.
 */
struct ftrace_region {
	u32 first, stubs;
};
extern const struct ftrace_region ftrace_regions[];

static inline unsigned long ftrace_ip(const struct dyn_ftrace *rec)
{
	return KERNEL_BASE + rec->offset;
}

/*
 * The call sites of one text. The kernel's table is the first; text that is
 * loaded later brings its own. Such text lies above the kernel's, and is written
 * through text_alias() like it.
 */
struct ftrace_table {
	struct dyn_ftrace *records, *end;    /* the first, and the one after the last */
	const struct ftrace_region *regions; /* @first counts from this table's first record */
	unsigned long text, text_end;
	struct ftrace_table *next;
};
extern struct ftrace_table ftrace_kernel_table, *ftrace_tables;
extern unsigned long ftrace_text_end; /* of the text that lies highest */

static inline u32 ftrace_count(const struct ftrace_table *table)
{
	return table->end - table->records;
}

/* For each record @rec of all tables. `break` leaves one table only. */
#define for_each_ftrace_rec(rec)                                                              \
	for (struct ftrace_table *table_ = ftrace_tables; table_; table_ = table_->next)      \
		for (struct dyn_ftrace *rec = table_->records; rec < table_->end; rec++)

/* Records are numbered through all tables, from 0 on. ftrace_record(): NULL after the last. */
u32 ftrace_number(const struct dyn_ftrace *rec);
struct dyn_ftrace *ftrace_record(u64 number);
u32 ftrace_total(void); /* records */
const struct ftrace_table *ftrace_table_of(const struct dyn_ftrace *rec); /* @rec is in one */

/*
 * Add a table after the others. Before: its records were checked
 * (ftrace_check_records()), its sites hold the nop, and no registered op selects
 * one of its functions, because no site is written here. Context: thread,
 * ftrace_lock held.
 */
void ftrace_add_table(struct ftrace_table *table);

struct ftrace_regs; /* <arch>/regs.h: arguments, sp at the call site, pc, link, fp */
struct ftrace_ops;

/*
 * Called for a traced function. @ip: the call site (what available_filter_functions_addrs
 * lists), @parent_ip: where the function returns to, @regs: NULL with HOOK=mcount.
 */
typedef void (*ftrace_func_t)(unsigned long ip, unsigned long parent_ip,
			      struct ftrace_ops *op, struct ftrace_regs *regs);

struct ftrace_hash; /* a set of functions; hash.h */

/* Which functions: those of the filter, less those of the notrace list. All zero: every function. */
struct ftrace_filter {
	struct ftrace_hash *filter_hash, *notrace_hash; /* NULL: every function; none */
	/*
	 * Called with ftrace_lock held after a hash has changed, for code that uses
	 * this filter. On an error the old hash is put back, and it is called again.
	 * The unused hash is freed after a grace period. NULL: no such code.
	 */
	int (*changed)(struct ftrace_filter *filter);
};

struct ftrace_ops {
	ftrace_func_t func; /* first: the trampoline loads it */
	u32 flags;          /* FTRACE_OPS_FL_* */
	int slot;           /* its stub, or -1 */
	struct ftrace_filter filter;
	void *private;
	struct ftrace_ops *next;
};
#define FTRACE_OPS_FL_IPMODIFY 1 /* may change regs->pc; one such op a function: -EBUSY */
/*
 * Guards itself; else the core does. Only for a callback in the tracer's own
 * section, .ftrace.text: in any other place it may be preempted, and unregister
 * may return while a thread is inside of it.
 */
#define FTRACE_OPS_FL_RECURSION 2
#define FTRACE_OPS_MAX 32         /* stubs; one more registration gets -ENOSPC */

/*
 * Start and stop calling op->func for the functions that its filter selects.
 * When register returns 0, every CPU calls it; when unregister returns, no
 * CPU is inside it. Context: thread. Errors: -EBUSY registered already or
 * IPMODIFY clash, -ENOSPC, -ENODEV when tracing was disabled by a bad site.
 */
int register_ftrace_function(struct ftrace_ops *op);
int unregister_ftrace_function(struct ftrace_ops *op);

/*
 * Change a filter (or, notrace_list true, its notrace list): a glob (exact,
 * *, ?, []) or "!glob" to remove or a number (1 = the first function), len bytes; reset: start empty.
 * The sites of a registered op are patched at once. -EINVAL: nothing matches.
 */
int ftrace_filter_edit(struct ftrace_filter *filter, const char *glob, size_t len, bool reset, bool notrace_list);
int ftrace_set_filter(struct ftrace_ops *op, const char *glob, size_t len, bool reset, bool notrace_list);

/* Every function again. No registered op uses the filter. Needs no memory. */
void ftrace_filter_free(struct ftrace_filter *filter);

/* The op behind `current_tracer`, set_ftrace_filter and set_ftrace_notrace. */
extern struct ftrace_ops global_ops;

/*
 * Patching: patch.c; what the words say: <arch>/insn.h. @addr: what the site
 * calls then, or called until now.
 *
 * The word at the site is read first and must be exactly what the name says is
 * replaced: the nop, or the call of @addr (of @old_addr). Any other word is left
 * alone. One aligned store, through the writable alias (memory.h); what the new
 * word then needs here is arch_sync_line()'s (arch.h).
 *
 * Context: thread, ftrace_lock held, between ftrace_batch_begin() and _end().
 * Return: 0; -EINVAL if another word stands there, -ERANGE if @addr is out of
 * reach, -EFAULT if the site is not in text, or no batch is open.
 */
int ftrace_make_nop(const struct dyn_ftrace *rec, unsigned long addr);
int ftrace_make_call(const struct dyn_ftrace *rec, unsigned long addr);
int ftrace_modify_call(const struct dyn_ftrace *rec, unsigned long old_addr, unsigned long addr);
/*
 * Lab 3: @func is the tracer that ftrace_caller calls from now on: the call at
 * ftrace_call, with a plain link (CALL_LINK), is patched like a site's. It must
 * be a call before; of whom does not matter. Return: as above.
 */
int ftrace_update_ftrace_func(ftrace_func_t func);
/*
 * Pure: the instruction that calls @addr from @ip and leaves the return address
 * in register number @link. Return: 0, and it is in *@insn; -ERANGE if @addr is
 * out of reach (INSN_REACH), -EINVAL if @ip or @addr is misaligned.
 */
int insn_call(unsigned long ip, unsigned long addr, unsigned link, u32 *insn);
/*
 * Text is writable through its alias (memory.h) between these two, preemption off; when
 * ftrace_batch_end() returns it is not any more, and every CPU executes what was
 * written: one synchronisation (arch_sync_all()), however many sites. Context:
 * thread, ftrace_lock held; without it the kernel ends in a panic.
 */
void ftrace_batch_begin(void);
void ftrace_batch_end(void);

/*
 * At boot, memory mapped, one CPU, before smp_init(): check the records and
 * bring every site into the state that is toggled from then on.
 */
void ftrace_init(void);

/* Say what stands at a site and what should, mark it, disable tracing for good. */
void ftrace_bug(int err, struct dyn_ftrace *rec, u32 expected);
extern bool ftrace_disabled;

/* Binary search: the record whose site is exactly @ip / lies in [start, end). */
struct dyn_ftrace *lookup_rec(unsigned long ip);
struct dyn_ftrace *lookup_rec_range(unsigned long start, unsigned long end);

#endif
