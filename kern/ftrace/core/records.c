/*
 * The call-site records: one for each traceable function, made by the build
 * (recordmcount), sorted by address, found again by binary search.
 *
 * Nothing is believed: at boot each record is held against its neighbours and
 * against the text it points to.
 */
#include "asm-ftrace/hook.h"
#include "tracer.h"
#include "print.h"

/* The first record whose site is at or after @ip. */
static u32 first_at_or_after(unsigned long ip)
{
#if LAB_START == 2
	return ftrace_record_count;
#else
	u32 low = 0, high = ftrace_record_count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		if (ftrace_ip(&ftrace_records[middle]) < ip)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
#endif
}

struct dyn_ftrace *lookup_rec_range(unsigned long start, unsigned long end)
{
	u32 i = first_at_or_after(start);

	if (i == ftrace_record_count || ftrace_ip(&ftrace_records[i]) >= end)
		return NULL;
	return &ftrace_records[i];
}

struct dyn_ftrace *lookup_rec(unsigned long ip)
{
	return lookup_rec_range(ip, ip + 1);
}

/* What is wrong with record @i, or NULL. */
static const char *record_fault(u32 i)
{
	const struct dyn_ftrace *rec = &ftrace_records[i];
	unsigned long ip = ftrace_ip(rec);

	if (i && rec->offset <= rec[-1].offset)
		return "is not after the one before it";
	if (ip & 3)
		return "is not 4-byte aligned";
	if (ip < (unsigned long)_text + 4 || ip >= (unsigned long)_etext)
		return "lies outside of text";
	if (!hook_untouched((const u32 *)ip))
		return "does not hold what the compiler leaves there";
	return NULL;
}

void ftrace_check_records(void)
{
	u32 i, far = 0, bad = 0;

	if (!ftrace_record_count) {
		printk("ftrace: the table of call sites is empty: no function can be named in a filter, none is patched\n");
		return;
	}
	for (i = 0; i < ftrace_record_count; i++) {
		struct dyn_ftrace *rec = &ftrace_records[i];
		const char *fault = record_fault(i);

		if (rec->flags & FTRACE_FL_DISABLED && far++ < 10)
			printk("ftrace: %pS is out of reach; it is never traced\n",
			       (void *)ftrace_ip(rec));
		if (!fault)
			continue;
		rec->flags |= FTRACE_FL_DISABLED;
		bad++;
		printk("ftrace: the call site at %pS %s; it is never written\n",
		       (void *)ftrace_ip(rec), fault);
	}
	printk("ftrace: %u call sites, %zu bytes of records\n", ftrace_record_count,
	       ftrace_record_count * sizeof(*ftrace_records));
	if (far | bad)
		printk("ftrace: %u of them out of reach, %u faulty\n", far, bad);
}
