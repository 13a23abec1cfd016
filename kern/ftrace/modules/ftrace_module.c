/* The records and trampolines of a module, from its load to its removal; ftrace_module.h. */
#include "ftrace_module.h"

#include "asm-ftrace/hook.h"
#include "asm-ftrace/trampoline.h"
#include "cpu.h"
#include "fgraph.h"
#include "hash.h"
#include "shadow.h"
#include "trace.h"
#include "tracer.h"

_Static_assert(TRAMPOLINE_WORDS * 4 == FTRACE_STUB_SIZE, "a region's stubs and trampolines are found by the same rule");

/* All that a module has here. */
struct sites {
	struct ftrace_table table;
	struct ftrace_region region[2]; /* one, and the sentinel */
	bool far, enabled;
	struct dyn_ftrace record[];
};

static struct sites *sites_of(const struct module *m)
{
	return m->sites ? container_of(m->sites, struct sites, table) : NULL;
}

size_t ftrace_module_room(void)
{
	return FTRACE_STUBS * FTRACE_STUB_SIZE;
}

/* ---- Following a site ---- */

/* The trampoline at @at leads elsewhere than to @stub: refuse the write, and print both. */
static int bad_trampoline(struct dyn_ftrace *rec, unsigned long at, unsigned long stub)
{
	const u32 *found = (const u32 *)at;
	u32 expected[TRAMPOLINE_WORDS] = {0};
	char want[80], have[80];
	unsigned long target;

	trampoline_encode(at, stub, expected);
	trampoline_describe(want, sizeof(want), expected);
	trampoline_describe(have, sizeof(have), found);
	ftrace_bug(-EINVAL, rec, ftrace_expected(rec));
	printk("ftrace: its trampoline at %#lx must lead to %pS\n"
	       "ftrace:   expected %08x %08x %08x  %s\n"
	       "ftrace:   found    %08x %08x %08x  %s\n",
	       at, (void *)stub, expected[0], expected[1], expected[2], want, found[0], found[1], found[2], have);
	if (trampoline_target(at, found, &target))
		printk("ftrace:   it leads to %#lx  %pS\n", target, (void *)target);
	return -ENODEV;
}

static int follow(struct dyn_ftrace *rec, unsigned long trampoline, unsigned calls)
{
	unsigned long stub = ftrace_stub_addr((unsigned long)ftrace_stubs, calls), target;

	if (trampoline_target(trampoline, (const u32 *)trampoline, &target) && target == stub)
		return 0;
	return bad_trampoline(rec, trampoline, stub);
}

/* Which trampoline does the site call? false: none; then patch.c refuses to write there if the record says a call. */
static bool calls_trampoline(const struct dyn_ftrace *rec, unsigned long *trampoline)
{
	unsigned long ip = ftrace_ip(rec), first = ftrace_call_addr(rec, FTRACE_CALLS_LIST);

	return insn_call_target(ip, *(const u32 *)ip, HOOK_LINK, trampoline) &&
	       *trampoline - first < ftrace_module_room() && (*trampoline - first) % FTRACE_STUB_SIZE == 0;
}

/* struct ftrace_table's verify(): the trampoline that is called now, then the one that will be. */
static int verify(struct dyn_ftrace *rec, unsigned calls)
{
	unsigned long trampoline;
	int err = 0;

	if (rec->calls && calls_trampoline(rec, &trampoline))
		err = follow(rec, trampoline, rec->calls);
	if (!err && calls)
		err = follow(rec, ftrace_call_addr(rec, calls), calls);
	return err;
}

/* ---- Before the module is published ---- */

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

static void complain(const struct module *m, unsigned long entry, const char *fault)
{
	printk("ftrace: module %s: the call site of the function at %#lx %s; it is never written\n", m->name, entry, fault);
}

static void take_entries(struct sites *s, const struct module *m, const unsigned long *entries, u32 count, unsigned long end)
{
	for (u32 i = 0; i < count; i++) {
		const char *fault = site_fault(m, entries[i], end);

		if (fault)
			complain(m, entries[i], fault);
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

/* Can @rec's site call each of the stubs, or trampolines, at @stubs? */
static bool reaches(const struct dyn_ftrace *rec, unsigned long stubs)
{
	unsigned long ip = ftrace_ip(rec);
	u32 insn;

	return !insn_call(ip, stubs, HOOK_LINK, &insn) &&
	       !insn_call(ip, ftrace_stub_addr(stubs, FTRACE_STUBS), HOOK_LINK, &insn);
}

static int write_trampolines(unsigned long at)
{
	int err = 0;

	for (unsigned calls = FTRACE_CALLS_LIST; calls <= FTRACE_STUBS && !err; calls++)
		err = trampoline_encode(ftrace_stub_addr(at, calls), ftrace_stub_addr((unsigned long)ftrace_stubs, calls),
					(u32 *)ftrace_stub_addr(at, calls));
	return err;
}

/* The kernel's stubs, or if one site does not reach them, the module's own trampolines at @room. */
static void choose_stubs(struct sites *s, unsigned long room)
{
	unsigned long stubs = (unsigned long)ftrace_stubs;

	for (const struct dyn_ftrace *rec = s->record; rec < s->table.end; rec++)
		s->far |= !reaches(rec, stubs);
	if (s->far) {
		write_trampolines(room); /* a module lies within 1 GiB of the kernel, which is in reach of them */
		s->table.verify = verify;
		stubs = room;
	}
	s->region[0].stubs = stubs - KERNEL_BASE;
}

/* Keep the records that can be patched, and make each site the nop that is toggled from now on. */
static void keep_sound(struct sites *s, const struct module *m)
{
	struct dyn_ftrace *kept = s->record;
	unsigned long stubs = KERNEL_BASE + s->region[0].stubs;

	for (const struct dyn_ftrace *rec = s->record; rec < s->table.end; rec++) {
		bool twice = kept > s->record && kept[-1].offset == rec->offset;
		unsigned long ip = ftrace_ip(rec);

		if (twice || !reaches(rec, stubs)) {
			complain(m, ip - HOOK_ENTRY_OFFSET, twice ? "is listed twice" : "is out of reach of the trampolines");
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

int ftrace_module_prepare(struct module *m, const unsigned long *entries, u32 count, unsigned long room)
{
	struct sites *s;

	if (!count)
		return 0;
	s = kzalloc(sizeof(*s) + count * sizeof(s->record[0]));
	if (!s) {
		printk("ftrace: module %s: no memory for the records of %u functions\n", m->name, count);
		return -ENOMEM;
	}
	s->table = (struct ftrace_table){s->record, s->record, s->region, m->base, m->end[MODULE_TEXT], .module = m->name};
	take_entries(s, m, entries, count, room);
	sort(s->record, s->table.end - s->record);
	choose_stubs(s, room);
	keep_sound(s, m);
	m->sites = &s->table;
	return 0;
}

/* ---- A table comes: ftrace_lock held ---- */

/* Let the registered ops that select @rec trace it; none traces it yet. */
static void start_record(struct dyn_ftrace *rec)
{
	unsigned calls = FTRACE_CALLS_NOTHING;

	for (unsigned i = 1; i < FTRACE_STUBS; i++) {
		const struct ftrace_ops *op = ftrace_slots[i].op;

		if (!op || !ftrace_ops_test(op, ftrace_ip(rec)))
			continue;
		if (op->flags & FTRACE_OPS_FL_IPMODIFY)
			rec->flags |= rec->flags & FTRACE_FL_IPMODIFY ? FTRACE_FL_DISABLED : FTRACE_FL_IPMODIFY;
		calls = rec->count++ ? FTRACE_CALLS_LIST : FTRACE_CALLS_OP + op->slot;
	}
	if (rec->flags & FTRACE_FL_DISABLED)
		printk("ftrace: two tracers that may change pc select %ps: it is never traced\n", (void *)ftrace_ip(rec));
	else if (calls)
		ftrace_switch(rec, calls);
}

static void start_table(struct ftrace_table *table)
{
	ftrace_batch_begin();
	for (struct dyn_ftrace *rec = table->records; rec < table->end; rec++)
		start_record(rec);
	ftrace_batch_end();
}

void ftrace_module_enable(struct module *m)
{
	struct sites *s = sites_of(m);

	if (!s)
		return;
	mutex_lock(&ftrace_lock);
	ftrace_add_table(&s->table);
	s->enabled = true;
	start_table(&s->table);
	if (ftrace_graph_new_table())
		printk("ftrace: module %s: no memory to graph its functions\n", m->name);
	ftrace_mod_coming(&s->table);
	mutex_unlock(&ftrace_lock);
}

/* ---- A table goes: ftrace_lock held ---- */

/* Make all sites of the table nops; no op traces one of them afterwards. */
static void stop_table(struct ftrace_table *table)
{
	ftrace_batch_begin();
	for (struct dyn_ftrace *rec = table->records; rec < table->end; rec++) {
		rec->count = 0;
		rec->flags &= ~FTRACE_FL_IPMODIFY;
		if (rec->calls && !(rec->flags & FTRACE_FL_DISABLED))
			ftrace_switch(rec, FTRACE_CALLS_NOTHING);
	}
	ftrace_batch_end();
}

static void unlink_sites(struct sites *s)
{
	struct ftrace_table **link = &ftrace_tables;
	unsigned long end = 0;

	while (*link != &s->table)
		link = &(*link)->next;
	WRITE_ONCE(*link, s->table.next);
	for (const struct ftrace_table *t = ftrace_tables; t; t = t->next)
		end = MAX(end, t->text_end);
	WRITE_ONCE(ftrace_text_end, end);
	ftrace_removals++;
	profile_forget_modules();
}

/* All hashes lose the functions in [from, to). An event may read a hash meanwhile: it finds the function, or does not. */
static void forget_functions(u32 from, u32 to)
{
	for (struct ftrace_hash_entry *entry = ftrace_hashes; entry; entry = entry->next) {
		struct ftrace_hash *hash = entry->hash;

		for (u32 i = 0; i < 1u << (32 - hash->shift); i++)
			if (hash->slots[i] - from < to - from)
				WRITE_ONCE(hash->slots[i], FTRACE_HASH_GONE);
	}
}

/* The first grace period: no CPU is in a trampoline or callback. The second: no CPU reads the lists. */
static void disable(struct sites *s)
{
	mutex_lock(&ftrace_lock);
	stop_table(&s->table);
	synchronize_sched();
	unlink_sites(s);
	synchronize_sched();
	forget_functions(s->table.text - KERNEL_BASE, s->table.text_end - KERNEL_BASE);
	mutex_unlock(&ftrace_lock);
}

void ftrace_module_release(struct module *m)
{
	struct sites *s = sites_of(m);

	if (s && s->enabled)
		disable(s);
	m->sites = NULL;
	kfree(s);
}

bool ftrace_module_replaced(const struct module *m)
{
	bool is = false;

	mutex_lock(&ftrace_lock);
	for (const struct dyn_ftrace *rec = m->sites ? m->sites->records : NULL; rec && rec < m->sites->end; rec++)
		is |= rec->flags & FTRACE_FL_IPMODIFY;
	mutex_unlock(&ftrace_lock);
	return is;
}

/* ---- Shadow stacks ---- */

struct search {
	unsigned long start, end;
	bool found;
};

static void search_frames(struct thread *t, void *arg)
{
	struct search *in = arg;
	const struct shadow_stack *s = shadow_of(t);

	for (const struct shadow_frame *f = s ? s->top : NULL; f; f = f->below)
		in->found |= f->ret - in->start < in->end - in->start || f->func - in->start < in->end - in->start;
}

bool ftrace_returns_through(unsigned long start, unsigned long end)
{
	struct search in = {start, end, false};

	threads_for_each(search_frames, &in);
	for (unsigned i = 0; i < nr_cpus; i++)
		search_frames(cpu_of(i)->idle, &in);
	return in.found;
}
