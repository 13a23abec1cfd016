/* What changes when a module is loaded or removed: the list of tables, and the hashes that have its functions. */
#include "module_records.h"

#include "hash.h"

struct ftrace_hash_entry *ftrace_hashes;

void ftrace_add_table(struct ftrace_table *table)
{
	struct ftrace_table **link = &ftrace_tables;

	while (*link)
		link = &(*link)->next;
	WRITE_ONCE(ftrace_text_end, MAX(ftrace_text_end, table->text_end));
	smp_wmb();
	WRITE_ONCE(*link, table);
}

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
