/*
 * A set of functions that can be asked on the event path: open addressing,
 * at most half full, keyed by the record's offset (0 is nobody's).
 *
 * Never changed once published: an edit makes a new one, and the old one is
 * freed after a grace period.
 */
#ifndef FTRACE_HASH_H
#define FTRACE_HASH_H

#include "types.h"

struct ftrace_hash {
	u32 count, shift; /* 32 - log2 of the number of slots */
	u32 slots[];
};

static inline u32 hash_slot(const struct ftrace_hash *hash, u32 offset)
{
	return (u32)(offset * 0x9e3779b1u) >> hash->shift;
}

static inline bool ftrace_hash_has(const struct ftrace_hash *hash, u32 offset)
{
	u32 mask = (1u << (32 - hash->shift)) - 1;

	for (u32 i = hash_slot(hash, offset); hash->slots[i]; i = (i + 1) & mask)
		if (hash->slots[i] == offset)
			return true;
	return false;
}

/* Room for @count members; NULL: no memory. */
struct ftrace_hash *ftrace_hash_new(u32 count);
void ftrace_hash_add(struct ftrace_hash *hash, u32 offset);
void ftrace_hash_free(struct ftrace_hash *hash);

#endif
