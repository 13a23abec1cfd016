/*
 * The tables of symbols of loaded text: added, marked as gone, freed. module_lock held in all of
 * these.
 */
#include "ksyms.h"
#include "loader.h"

struct ksym_table *ksym_table_new(u32 count)
{
	struct ksym_table *table = kzalloc(sizeof(*table) + count * sizeof(*table->symbol));

	if (table)
		table->count = count;
	return table;
}

/* Of the tables that are not gone. */
static void update_start(void)
{
	unsigned long start = -1ul;

	for (const struct ksym_table *t = ksym_tables; t; t = t->next)
		if (!t->gone)
			start = MIN(start, t->start);
	WRITE_ONCE(module_text_start, start);
}

/* The link to a gone table that overlaps @table, or the last link. */
static struct ksym_table **overlapped_by(const struct ksym_table *table)
{
	struct ksym_table **at = &ksym_tables;

	while (*at && !((*at)->gone && (*at)->start < table->end && table->start < (*at)->end))
		at = &(*at)->next;
	return at;
}

/* A reader may be in an unlinked table until the grace period is over; its next stays as it is. */
void ksym_add(struct ksym_table *table)
{
	struct ksym_table **at, *old;

	while ((old = *(at = overlapped_by(table)))) {
		WRITE_ONCE(*at, old->next);
		synchronize_sched();
		kfree(old);
	}
	table->next = ksym_tables;
	smp_wmb();
	WRITE_ONCE(ksym_tables, table);
	update_start();
}

/*
 * Unlink the gone table that was added first, if there are KSYM_GONE_MAX beside @table. Return: it,
 * or NULL.
 */
static struct ksym_table *unlink_oldest(const struct ksym_table *table)
{
	struct ksym_table **oldest = NULL, *old;
	unsigned count = 0;

	for (struct ksym_table **at = &ksym_tables; *at; at = &(*at)->next)
		if ((*at)->gone && *at != table) {
			oldest = at;
			count++;
		}
	if (count < KSYM_GONE_MAX)
		return NULL;
	old = *oldest;
	WRITE_ONCE(*oldest, old->next);
	return old;
}

void ksym_remove(struct ksym_table *table)
{
	struct ksym_table *old = unlink_oldest(table);

	WRITE_ONCE(table->gone, true);
	update_start();
	synchronize_sched();
	kfree(old);
}
