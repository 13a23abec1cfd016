/*
 * A set of functions that an event can search: open addressing, at most half of
 * the slots used, keyed by the record's offset (no function has offset 0).
 *
 * A hash is not changed once it is published. To change a set: (1) make a new
 * hash, (2) smp_wmb(), (3) store the pointer to it, (4) write the sites, (5) free
 * the old hash after a grace period.
 *
 * There is one exception: when a module is removed, FTRACE_HASH_GONE overwrites its
 * functions in all hashes. `count` still counts them.
 *
 * In a filter, no hash (NULL) is every function, and ftrace_hash_none is no function.
 */
#ifndef FTRACE_HASH_H
#define FTRACE_HASH_H

#include "ftrace.h"
#include "types.h"

struct ftrace_hash {
	u32 count, shift; /* 32 - log2 of the number of slots */
	u32 slots[];
};
#define FTRACE_HASH_GONE 1 /* no call site's offset, which is a multiple of 4 */

/* The set without a function. It is a constant, so it needs no memory. */
extern const struct ftrace_hash ftrace_hash_none;

/*
 * The list of all hashes, for the removal of a module (set.c). Its entries are not part of the
 * hashes, because a published hash is not changed. Add @hash (false: no memory), and remove
 * it. ftrace_lock held.
 */
struct ftrace_hash_entry {
	struct ftrace_hash *hash;
	struct ftrace_hash_entry *next;
};
extern struct ftrace_hash_entry *ftrace_hashes;
bool ftrace_hash_list(struct ftrace_hash *hash);
void ftrace_hash_unlist(const struct ftrace_hash *hash);

static inline u32 hash_slot(const struct ftrace_hash *hash, u32 offset)
{
	return (u32)(offset * 0x9e3779b1u) >> hash->shift;
}

/* Is @offset in one of the slots from hash_slot() on, before the next free slot? */
bool ftrace_hash_search(const struct ftrace_hash *hash, u32 offset);

static inline bool ftrace_hash_has(const struct ftrace_hash *hash, u32 offset)
{
	u32 found = hash->slots[(unsigned long)hash_slot(hash, offset)];

	return likely(found == offset) || (found && ftrace_hash_search(hash, offset));
}

/* Does @filter select the function at @ip? Any context. */
static inline bool ftrace_filter_test(const struct ftrace_filter *filter, unsigned long ip)
{
	const struct ftrace_hash *wanted = READ_ONCE(filter->filter_hash);
	const struct ftrace_hash *excluded = READ_ONCE(filter->notrace_hash);

	if (wanted && !ftrace_hash_has(wanted, ip - KERNEL_BASE))
		return false;
	return likely(!excluded) || !ftrace_hash_has(excluded, ip - KERNEL_BASE);
}

static inline bool ftrace_ops_test(const struct ftrace_ops *op, unsigned long ip)
{
	return ftrace_filter_test(&op->filter, ip);
}

/* Room for @count members; NULL: no memory. ftrace_lock held, as for ftrace_hash_free(). */
struct ftrace_hash *ftrace_hash_new(u32 count);
void ftrace_hash_add(struct ftrace_hash *hash, u32 offset);
void ftrace_hash_free(struct ftrace_hash *hash); /* NULL and ftrace_hash_none stay */

#endif
