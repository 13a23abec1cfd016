/*
 * Makes the records of a module's call sites, and says which of these cannot be traced;
 * ftrace_module.h.
 */
#include "asm-ftrace/hook.h"
#include "fgraph.h"
#include "module_records.h"
#include "string.h"
#include "trace.h"
#include "trampoline.h"

#define FAULTY_MAX 16 /* faulty entries that are named */

size_t ftrace_module_room(void)
{
	return FTRACE_STUBS * FTRACE_STUB_SIZE;
}

static const char *site_fault(const struct module *m, unsigned long entry, unsigned long end)
{
	unsigned long site = entry + HOOK_ENTRY_OFFSET;

	if (entry % 4)
		return "is not 4-byte aligned";
	if (entry < m->base || entry >= end || site >= end)
		return "lies outside of text";
	if (!hook_untouched((const u32 *)site))
		return "does not hold what the compiler leaves there";
	return NULL;
}

static void report_fault(struct module_sites *s, const struct module *m, unsigned long entry,
			 const char *fault)
{
	if (s->faulty++ >= FAULTY_MAX)
		return;
	printk("ftrace: module %s: the call site of the function at %#lx %s; it is never written\n",
	       m->name, entry, fault);
}

static void take_entries(struct module_sites *s, const struct module *m,
			 const unsigned long *entries, u32 count, unsigned long end)
{
	for (u32 i = 0; i < count; i++) {
		const char *fault = site_fault(m, entries[i], end);

		if (fault)
			report_fault(s, m, entries[i], fault);
		else
			(s->table.end++)->offset = entries[i] + HOOK_ENTRY_OFFSET - KERNEL_BASE;
	}
}

/* Shell's sort. The compiler lists functions nearly in order. */
static void sort(struct dyn_ftrace *rec, u32 count)
{
	for (u32 gap = count / 2; gap; gap /= 2)
		for (u32 i = gap; i < count; i++)
			for (u32 j = i; j >= gap && rec[j - gap].offset > rec[j].offset; j -= gap) {
				struct dyn_ftrace other = rec[j];

				rec[j] = rec[j - gap];
				rec[j - gap] = other;
			}
}

/*
 * Keep the records whose sites can be patched. The sites are nops already; arm64: write `mov x9,
 * x30` before each.
 */
static void keep_sound(struct module_sites *s, const struct module *m)
{
	struct dyn_ftrace *kept = s->record;
	unsigned long stubs = KERNEL_BASE + s->region[0].stubs;

	for (const struct dyn_ftrace *rec = s->record; rec < s->table.end; rec++) {
		bool overlaps =
			kept > s->record && rec->offset - kept[-1].offset <= HOOK_ENTRY_OFFSET;
		unsigned long ip = ftrace_ip(rec);

		if (overlaps || !module_site_reaches(rec, stubs)) {
			report_fault(s, m, ip - HOOK_ENTRY_OFFSET,
				     overlaps ? "is listed twice, or overlaps another one"
					      : "is out of reach of the trampolines");
			continue;
		}
#ifdef HOOK_BEFORE
		if (HOOK_REWRITES)
			*(u32 *)(ip - 4) = HOOK_BEFORE;
#endif
		kept->flags = s->far ? FTRACE_FL_FOLLOW : 0;
		(kept++)->offset = rec->offset;
	}
	s->table.end = kept;
	s->region[0].first = 0;
	s->region[1].first = kept - s->record;
}

int ftrace_module_prepare(struct module *m, const unsigned long *entries, u32 count,
			  unsigned long room)
{
	struct module_sites *s;

	if (!count)
		return 0;
	s = kzalloc(sizeof(*s) + count * sizeof(s->record[0]));
	if (!s) {
		printk("ftrace: module %s: no memory for the records of %u functions\n", m->name,
		       count);
		return -ENOMEM;
	}
	s->table = (struct ftrace_table){s->record, s->record,		 s->region,
					 m->base,   m->end[MODULE_TEXT], .module = m->name};
	take_entries(s, m, entries, count, room);
	sort(s->record, s->table.end - s->record);
	module_choose_stubs(s, room);
	keep_sound(s, m);
	if (s->faulty > FAULTY_MAX)
		printk("ftrace: module %s: %u more call sites are faulty; they are never written\n",
		       m->name, s->faulty - FAULTY_MAX);
	m->sites = &s->table;
	return 0;
}

bool ftrace_module_replaced(const struct module *m)
{
	bool within = false;

	mutex_lock(&ftrace_lock);
	for (const struct dyn_ftrace *rec = m->sites ? m->sites->records : NULL;
	     rec && rec < m->sites->end; rec++)
		/* a site that was not patched calls nothing, but its record may have the flag */
		within |= rec->flags & FTRACE_FL_IPMODIFY && rec->calls;
	mutex_unlock(&ftrace_lock);
	return within;
}

bool ftrace_module_registered(const struct module *m)
{
	unsigned long size = m->end[MODULE_DATA] - m->base;
	bool within;

	mutex_lock(&ftrace_lock);
	within = fgraph_user_within(m->base, m->end[MODULE_DATA]);
	for (unsigned i = 1; i < FTRACE_STUBS; i++) {
		const struct ftrace_ops *op = ftrace_slots[i].op;

		within |= op && (IS_WITHIN(op, m->base, size) ||
				 IS_WITHIN(op->func, m->base, size));
	}
	mutex_unlock(&ftrace_lock);
	return within;
}

int module_bad_trampoline(struct dyn_ftrace *rec, unsigned long at, unsigned long stub)
{
	const u32 *found = (const u32 *)at;
	u32 expected[TRAMPOLINE_WORDS] = {0};
	char want[80], have[80];
	unsigned long target;
	bool same;

	trampoline_encode(at, stub, expected);
	same = !memcmp(expected, found, sizeof(expected));
	trampoline_describe(want, sizeof(want), expected);
	trampoline_describe(have, sizeof(have), found);
	rec->flags |= FTRACE_FL_DISABLED;
	ftrace_disabled = true;
	printk("ftrace: refused to write the call site of %ps at %#lx (error %d)\n"
	       "ftrace: its trampoline at %#lx must lead to %pS\n",
	       (void *)ftrace_ip(rec), ftrace_ip(rec), -EINVAL, at, (void *)stub);
	if (!same)
		printk("ftrace:   expected %08x %08x %08x  %s\n", expected[0], expected[1],
		       expected[2], want);
	printk("ftrace:   found    %08x %08x %08x  %s\n", found[0], found[1], found[2], have);
	if (trampoline_target(at, found, &target))
		printk("ftrace:   it leads to %#lx  %pS\n", target, (void *)target);
	if (same)
		printk("ftrace:   trampoline_encode() makes these words for that stub: it or "
		       "trampoline_target() is wrong\n");
	printk("ftrace: the site is left alone and no further tracing is started\n");
	return -ENODEV;
}
