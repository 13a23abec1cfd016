/*
 * The function tracer's contract: records, patching, ops.
 *
 * Locking, and the order of stores:
 * - records: the build makes and sorts the table. `count`, `calls` and `flags`
 *   change only under ftrace_lock, a mutex.
 * - text: only patch.c writes it, through the text alias, under ftrace_lock: call sites
 *   in a batch, of which there is one at a time, and with text_write() the words of probes,
 *   in a batch or while the other CPUs are stopped. A site always has the nop or one whole
 *   call. kern/loader/ and modules/ write a module's text before a CPU executes it.
 * - ops: an op's slot and the list of ops are published with smp_wmb() before a
 *   site is patched to call them. An op may be reused or freed after its sites
 *   are nops again and a grace period (synchronize_sched()) has passed.
 * A callback runs in any context, cannot be preempted (see irq_exit()), and must
 * not sleep.
 */

/*
 * The folder core/:
 *
 *	records.c	finds a record by its address; checks a table
 *	table.c		the list of tables; the numbers and names of records
 *	set.c		sets of records that are edited
 *	dynamic.c	the stub that a site calls, the word that must be there, ftrace_bug()
 *	patch.c		reads, compares and stores the word at a site; a batch
 *	hash.c		a set of functions that an event searches
 *	ftrace.c	ftrace_lock, global_ops, the guard against recursion
 *
 * At boot kern/main.c calls ftrace_init() (dynamic.c; labs 1 and 2: ops/static.c). A
 * change comes from ops/ or modules/, in a batch: ftrace_call_addr() computes the
 * stub from the record's region, ftrace_make_call() and its two neighbours store, and
 * ftrace_refuse() reports a site that has another word.
 *
 * Every later room may call this one. ftrace.h and ftrace_internal.h declare, too, what ops/
 * has (the registration of ops, and a filter that is finished) and filters/
 * (ftrace_set_filter(), ftrace_filter_edit()). This room calls no later one, but a table's
 * verify().
 */
#ifndef FTRACE_FTRACE_H
#define FTRACE_FTRACE_H

#include "memory.h"
#include "types.h"

/*
 * One call site. The kernel keeps only these 8 bytes for it.
 *
 *	| ip: offset from KERNEL_BASE (4) | count (2) | calls (1) | flags (1) |
 */
struct dyn_ftrace {
	u32 offset; /* of the word that is toggled, from KERNEL_BASE */
	union {
		struct {
			u16 count; /* ops that trace this function */
			u8 calls;  /* what the site calls: FTRACE_CALLS_* */
			u8 flags;  /* FTRACE_FL_* */
		};
		u32 state; /* count, calls and flags: a batch reads them as one word */
	};
};

#define FTRACE_CALLS_NOTHING 0 /* the nop */
#define FTRACE_CALLS_LIST 1    /* the list stub: more than one op (stage 3: ftrace_caller) */
#define FTRACE_CALLS_OP 2      /* + index: that op's own stub */

#define FTRACE_FL_DISABLED 1  /* found corrupted or out of reach: never written again */
#define FTRACE_FL_IPMODIFY 2  /* an op that may change pc traces it */
#define FTRACE_FL_FILTER 4    /* stage 3: the one tracer's filter */
#define FTRACE_FL_NOTRACE 8   /* stage 3: and its notrace list */
/* calls through a trampoline of its module: call the table's verify() before each write */
#define FTRACE_FL_FOLLOW 16

/* The kernel's records, made by the build (recordmcount), sorted by offset. */
extern struct dyn_ftrace ftrace_records[], ftrace_records_end[];
extern const u32 ftrace_record_count;

/*
 * Which stubs a site calls: those of the tracer's section, or, if they are out of
 * reach, those of an island. The build decides (recordmcount): the records from
 * number @first to the next region's @first call the stubs at KERNEL_BASE +
 * @stubs. A sentinel after the last region has @first equal to the number of
 * records.
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
 * The call sites of one text. The kernel's table is the first, and stays. A module
 * has a table of its own while it is loaded (modules/ftrace_module.h); its addresses
 * are above the kernel's text, and it is written through text_alias() too. The list
 * changes under ftrace_lock. A table that was unlinked is freed after a grace
 * period, so an event may look for a record without the lock.
 */
struct ftrace_table {
	struct dyn_ftrace *records, *end;    /* the first, and the one after the last */
	const struct ftrace_region *regions; /* @first counts from this table's first record */
	unsigned long text, text_end;
	struct ftrace_table *next;
	const char *module; /* its name; NULL: the kernel's table */
	/*
	 * Called in a batch before the site of a record with FTRACE_FL_FOLLOW is written. It
	 * checks that the trampoline that the site calls now, and the one that it will call
	 * (@calls), lead to the kernel's stubs. Return: 0; or -ENODEV after a message, and
	 * then the record is disabled.
	 */
	int (*verify)(struct dyn_ftrace *rec, unsigned calls);
};
extern struct ftrace_table ftrace_kernel_table, *ftrace_tables;
extern unsigned long ftrace_text_end; /* the end of the text with the highest addresses */

static inline u32 ftrace_count(const struct ftrace_table *table)
{
	return table->end - table->records;
}

/* For each record @rec of all tables. `break` ends the loop over one table only. */
#define for_each_ftrace_rec(rec)                                                              \
	for (struct ftrace_table *table_ = ftrace_tables; table_; table_ = table_->next)      \
		for (struct dyn_ftrace *rec = table_->records; rec < table_->end; rec++)

/*
 * Records are numbered from 0 on, through all tables. ftrace_record(): NULL after the
 * last. When a table is removed, the numbers of other modules' records change. A
 * pointer that is no record, such as NULL or one into a removed table, has
 * FTRACE_NO_NUMBER, which is larger than any number, and no table (NULL).
 */
#define FTRACE_NO_NUMBER (~0u)
u32 ftrace_number(const struct dyn_ftrace *rec);
struct dyn_ftrace *ftrace_record(u64 number);
u32 ftrace_total(void); /* records */
const struct ftrace_table *ftrace_table_of(const struct dyn_ftrace *rec);

/*
 * Add a table after the others. Before: its records are checked, and each site is the
 * nop. This function writes no site: the caller then patches the sites that
 * registered ops select.
 * Context: thread, ftrace_lock held.
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

/*
 * Selects the functions of the filter hash that are not in the notrace hash. All zero: every
 * function.
 */
struct ftrace_filter {
	struct ftrace_hash *filter_hash, *notrace_hash; /* NULL: every function; none */
	/*
	 * Called after a hash has changed, with ftrace_lock held. If it returns an
	 * error, the old hash is put back and it is called again. The unused hash is
	 * freed after a grace period. NULL: nothing is called.
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
 * The callback guards itself against recursion; without this flag the core does.
 * Only for a callback in the tracer's own section, .ftrace.text: elsewhere it may
 * be preempted, and unregister may return while a thread is inside it.
 */
#define FTRACE_OPS_FL_RECURSION 2
#define FTRACE_OPS_MAX 32         /* stubs; one more registration gets -ENOSPC */

/*
 * Start and stop calling op->func for the functions that its filter selects.
 * When register returns 0, every CPU calls it; when unregister returns, no
 * CPU is inside it. Context: thread. Errors: -EBUSY (registered already, or
 * another op with IPMODIFY has one of the functions), -ENOSPC (no stub is free),
 * -ENODEV (tracing was disabled by a bad site); unregister: -ENOENT.
 */
int register_ftrace_function(struct ftrace_ops *op);
int unregister_ftrace_function(struct ftrace_ops *op);

/*
 * Change a filter or, if @notrace_list, its notrace list. @glob, @len bytes, is a
 * name or pattern (* ? []) to add, "!" and a pattern to remove, or a number (1 =
 * the first function). @reset: empty the list first. If a registered op has the
 * filter, its sites are patched before this returns. -EINVAL: nothing matches.
 */
int ftrace_filter_edit(struct ftrace_filter *filter, const char *glob, size_t len, bool reset,
		       bool notrace_list);
int ftrace_set_filter(struct ftrace_ops *op, const char *glob, size_t len, bool reset,
		      bool notrace_list);

/* Is @rec in the filter (or its notrace list)? */
bool ftrace_filter_has(const struct ftrace_filter *filter, const struct dyn_ftrace *rec,
		       bool notrace_list);

/* Empty both lists: every function. No registered op may have the filter. Needs no memory. */
void ftrace_filter_free(struct ftrace_filter *filter);

/* The op that current_tracer, set_ftrace_filter and set_ftrace_notrace control. */
extern struct ftrace_ops global_ops;

/*
 * Patching (patch.c; <arch>/insn.h has the instructions). Each function replaces
 * one word at the site of @rec:
 *	ftrace_make_nop		the call of @addr by the nop
 *	ftrace_make_call	the nop by a call of @addr
 *	ftrace_modify_call	the call of @old_addr by a call of @addr
 *
 * 1. Read the word at the site. If it is not exactly the one to replace, leave it.
 * 2. Store the new word through the text alias (memory.h): one aligned store.
 * 3. arch_sync_line() does what this CPU must do for the new word (arch.h).
 *
 * Context: thread, ftrace_lock held, between ftrace_batch_begin() and _end().
 * Return: 0, or the first that holds: -EFAULT if the site is not in text or no batch is
 * open, -ERANGE if an address is out of reach, -EINVAL if another word is at the site.
 */
int ftrace_make_nop(const struct dyn_ftrace *rec, unsigned long addr);
int ftrace_make_call(const struct dyn_ftrace *rec, unsigned long addr);
int ftrace_modify_call(const struct dyn_ftrace *rec, unsigned long old_addr, unsigned long addr);
/*
 * Lab 3: make @func the tracer that ftrace_caller calls. The call at ftrace_call,
 * which links into CALL_LINK, is patched like a site. Any call may be there
 * before. Return: as above.
 */
int ftrace_update_ftrace_func(ftrace_func_t func);
/*
 * Encode in *@insn the instruction that calls @addr from @ip and leaves the return
 * address in register number @link. Changes nothing else, and nothing with an error.
 * Return: 0, or the first that holds: -ERANGE if @addr is out of reach (INSN_REACH), -EINVAL
 * if @ip or @addr is misaligned.
 */
int insn_call(unsigned long ip, unsigned long addr, unsigned link, u32 *insn);
/*
 * A batch. Between these two calls text is writable through its alias (memory.h),
 * and preemption is off. When ftrace_batch_end() returns, text is not writable,
 * and every CPU executes the new words: it synchronises all CPUs once
 * (arch_sync_all()), for any number of sites. Context: thread, ftrace_lock held;
 * without the lock the kernel panics.
 */
void ftrace_batch_begin(void);
void ftrace_batch_end(void);
/*
 * Write words of text that are no call sites: breakpoints, and slots of probes.
 * 1. Compare each word with @expected. If one differs, write none.
 * 2. Write each word: one aligned store through the text alias, then arch_sync_line().
 * Context: thread, ftrace_lock held, in a batch; or in stop_machine() with the text alias
 * open (memory.h), where the end of a batch would wait for CPUs that are stopped.
 * Return: 0; -EINVAL: a word is not the expected one, and none was written.
 */
struct text_word {
	unsigned long ip;
	u32 expected, insn;
};
int text_write(const struct text_word *words, unsigned count);

/*
 * Check the records, and make every site a nop. Context: boot, with memory mapped,
 * on one CPU, before smp_init().
 */
void ftrace_init(void);

/*
 * Print the word at a site and @expected, disable the record, and disable tracing until the next
 * boot.
 */
void ftrace_bug(int err, struct dyn_ftrace *rec, u32 expected);
extern bool ftrace_disabled;

/*
 * Find the record whose site is at @ip; the first whose site is in [start, end). Binary search.
 * NULL: none.
 */
struct dyn_ftrace *lookup_rec(unsigned long ip);
struct dyn_ftrace *lookup_rec_range(unsigned long start, unsigned long end);

#endif
