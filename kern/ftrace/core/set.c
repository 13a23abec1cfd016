/*
 * Sets of records while they are edited (ftrace_internal.h), and the list of the hashes that are
 * made from them (hash.h).
 */
#include "errno.h"
#include "hash.h"
#include "memory.h"
#include "ftrace_internal.h"

u32 ftrace_removals;

/* As small as hash_slot() can have it: 2 slots. */
const struct ftrace_hash ftrace_hash_none = {.shift = 31, .slots = {[1] = 0}};

struct ftrace_set *ftrace_set_new(void)
{
	u32 records = ftrace_total();
	struct ftrace_set *set = kzalloc(sizeof(*set) + (records + 63) / 64 * 8);

	if (set) {
		set->records = records;
		set->removals = ftrace_removals;
	}
	return set;
}

void ftrace_set_free(struct ftrace_set *set)
{
	kfree(set);
}

/* Has @set a bit for record @number? */
static bool has_room(const struct ftrace_set *set, u32 number)
{
	return number < (set->removals == ftrace_removals ? set->records
							  : ftrace_count(&ftrace_kernel_table));
}

bool ftrace_set_has(const struct ftrace_set *set, const struct dyn_ftrace *rec)
{
	u32 number = ftrace_number(rec);

	return has_room(set, number) && set->bits[number / 64] >> (number % 64) & 1;
}

int ftrace_set_put(struct ftrace_set *set, const struct dyn_ftrace *rec, bool in)
{
	u32 number = ftrace_number(rec);

	if (number == FTRACE_NO_NUMBER)
		return -ENOENT;
	if (!has_room(set, number) || ftrace_set_has(set, rec) == in)
		return 0;
	set->bits[number / 64] ^= 1ull << (number % 64);
	set->count += in ? 1 : -1;
	return 0;
}

struct ftrace_hash_entry *ftrace_hashes;

bool ftrace_hash_list(struct ftrace_hash *hash)
{
	struct ftrace_hash_entry *entry = kzalloc(sizeof(*entry));

	if (!entry)
		return false;
	entry->hash = hash;
	entry->next = ftrace_hashes;
	ftrace_hashes = entry;
	return true;
}

void ftrace_hash_unlist(const struct ftrace_hash *hash)
{
	struct ftrace_hash_entry **link = &ftrace_hashes, *entry;

	while (*link && (*link)->hash != hash)
		link = &(*link)->next;
	entry = *link;
	if (entry)
		*link = entry->next;
	kfree(entry);
}
