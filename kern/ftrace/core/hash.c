/* Sets of functions for the event path; hash.h says how they are kept. */
#include "hash.h"
#include "memory.h"

static u32 slots_of(u32 shift)
{
	return 1u << (32 - shift);
}

struct ftrace_hash *ftrace_hash_new(u32 count)
{
	struct ftrace_hash *hash;
	u32 shift = 29;

	while (shift > 4 && slots_of(shift) < 2 * count)
		shift--;
	hash = kzalloc(sizeof(*hash) + (sizeof(u32) << (32 - shift)));
	if (hash)
		hash->shift = shift;
	if (hash && !ftrace_hash_list(hash)) {
		kfree(hash);
		return NULL;
	}
	return hash;
}

bool ftrace_hash_search(const struct ftrace_hash *hash, u32 offset)
{
#if LAB_START == 4
	return false;
#else
	u32 mask = slots_of(hash->shift) - 1;

	for (u32 i = hash_slot(hash, offset); hash->slots[i]; i = (i + 1) & mask)
		if (hash->slots[i] == offset)
			return true;
	return false;
#endif
}

void ftrace_hash_add(struct ftrace_hash *hash, u32 offset)
{
#if LAB_START != 4
	u32 i = hash_slot(hash, offset);

	while (hash->slots[i] && hash->slots[i] != offset)
		i = (i + 1) & (slots_of(hash->shift) - 1);
	hash->count += !hash->slots[i];
	hash->slots[i] = offset;
#endif
}

void ftrace_hash_free(struct ftrace_hash *hash)
{
	if (!hash || hash == &ftrace_hash_none)
		return;
	ftrace_hash_unlist(hash);
	kfree(hash);
}
