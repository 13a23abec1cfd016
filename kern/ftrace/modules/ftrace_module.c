/* What a module's call sites call, and how they are added and removed; see ftrace_module.h. */
#include "asm-ftrace/hook.h"
#include "cpu.h"
#include "fgraph.h"
#include "hash.h"
#include "module_records.h"
#include "shadow.h"
#include "trace.h"
#include "trampoline.h"

_Static_assert(TRAMPOLINE_WORDS * 4 == FTRACE_STUB_SIZE,
	       "a region's stubs and trampolines are found by the same rule");

static void disable(struct module_sites *s);

static void unlink_sites(struct module_sites *s)
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

/*
 * Remove the functions in [from, to) from all hashes. An event may read a hash meanwhile: it finds
 * the function, or does not.
 */
static void forget_functions(u32 from, u32 to)
{
	for (struct ftrace_hash_entry *entry = ftrace_hashes; entry; entry = entry->next) {
		struct ftrace_hash *hash = entry->hash;

		for (u32 i = 0; i < 1u << (32 - hash->shift); i++)
			if (hash->slots[i] - from < to - from)
				WRITE_ONCE(hash->slots[i], FTRACE_HASH_GONE);
	}
}

void ftrace_module_release(struct module *m)
{
	struct module_sites *s = module_sites_of(m);

	if (s && s->enabled)
		disable(s);
	m->sites = NULL;
	kfree(s);
}

/* ---- Lab 7 is from here to the end. Following a site ---- */

static int follow(struct dyn_ftrace *rec, unsigned long trampoline, unsigned calls)
{
#if LAB_START == 7
	return 0;
#else
	unsigned long stub = ftrace_stub_addr((unsigned long)ftrace_stubs, calls), target;

	if (trampoline_target(trampoline, (const u32 *)trampoline, &target) && target == stub)
		return 0;
	return module_bad_trampoline(rec, trampoline, stub);
#endif
}

/*
 * Find the trampoline that the site calls. False: it calls none. If the record says that it does,
 * patch.c will refuse to write the site.
 */
static bool calls_trampoline(const struct dyn_ftrace *rec, unsigned long *trampoline)
{
#if LAB_START == 7
	return false;
#else
	unsigned long ip = ftrace_ip(rec), first = ftrace_call_addr(rec, FTRACE_CALLS_LIST);

	return insn_call_target(ip, *(const u32 *)ip, HOOK_LINK, trampoline) &&
	       *trampoline - first < ftrace_module_room() &&
	       (*trampoline - first) % FTRACE_STUB_SIZE == 0;
#endif
}

/* struct ftrace_table's verify(): the trampoline that is called now, then the one that will be. */
static int verify(struct dyn_ftrace *rec, unsigned calls)
{
#if LAB_START == 7
	return 0;
#else
	unsigned long trampoline;
	int err = 0;

	if (rec->calls && calls_trampoline(rec, &trampoline))
		err = follow(rec, trampoline, rec->calls);
	if (!err && calls)
		err = follow(rec, ftrace_call_addr(rec, calls), calls);
	return err;
#endif
}

/* ---- Before the module is published ---- */

bool module_site_reaches(const struct dyn_ftrace *rec, unsigned long stubs)
{
#if LAB_START == 7
	return false;
#else
	unsigned long ip = ftrace_ip(rec);
	u32 insn;

	return !insn_call(ip, stubs, HOOK_LINK, &insn) &&
	       !insn_call(ip, ftrace_stub_addr(stubs, FTRACE_STUBS), HOOK_LINK, &insn);
#endif
}

/* This cannot fail: the kernel is less than 1 GiB away, and a trampoline reaches further. */
static void write_trampolines(unsigned long at)
{
#if LAB_START != 7
	for (unsigned calls = FTRACE_CALLS_LIST; calls <= FTRACE_STUBS; calls++)
		trampoline_encode(ftrace_stub_addr(at, calls),
				  ftrace_stub_addr((unsigned long)ftrace_stubs, calls),
				  (u32 *)ftrace_stub_addr(at, calls));
#endif
}

void module_choose_stubs(struct module_sites *s, unsigned long room)
{
#if LAB_START != 7
	unsigned long stubs = (unsigned long)ftrace_stubs;

	for (const struct dyn_ftrace *rec = s->record; rec < s->table.end; rec++)
		s->far |= !module_site_reaches(rec, stubs);
	if (s->far) {
		write_trampolines(room);
		s->table.verify = verify;
		stubs = room;
	}
	s->region[0].stubs = stubs - KERNEL_BASE;
#endif
}

/* ---- A module is loaded: ftrace_lock held ---- */

/* Let the registered ops that select @rec trace it. Before: no op traces it. */
static void start_record(struct dyn_ftrace *rec)
{
#if LAB_START != 7
	unsigned calls = FTRACE_CALLS_NOTHING;

	for (unsigned i = 1; i < FTRACE_STUBS; i++) {
		const struct ftrace_ops *op = ftrace_slots[i].op;

		if (!op || !ftrace_ops_test(op, ftrace_ip(rec)))
			continue;
		if (op->flags & FTRACE_OPS_FL_IPMODIFY)
			rec->flags |= rec->flags & FTRACE_FL_IPMODIFY ? FTRACE_FL_DISABLED
								      : FTRACE_FL_IPMODIFY;
		calls = rec->count++ ? FTRACE_CALLS_LIST : FTRACE_CALLS_OP + op->slot;
	}
	if (rec->flags & FTRACE_FL_DISABLED) {
		/*
		 * neither of the two traces the function, so this flag must not refuse a later op
		 */
		rec->flags &= ~FTRACE_FL_IPMODIFY;
		printk("ftrace: two tracers that may change pc select %ps: it is never traced\n",
		       (void *)ftrace_ip(rec));
	} else if (calls) {
		ftrace_switch(rec, calls);
	}
#endif
}

static void start_table(struct ftrace_table *table)
{
#if LAB_START != 7
	ftrace_batch_begin();
	for (struct dyn_ftrace *rec = table->records; rec < table->end; rec++)
		start_record(rec);
	ftrace_batch_end();
#endif
}

void ftrace_module_enable(struct module *m)
{
#if LAB_START != 7
	struct module_sites *s = module_sites_of(m);
	int err;

	if (!s)
		return;
	mutex_lock(&ftrace_lock);
	ftrace_add_table(&s->table);
	s->enabled = true;
	start_table(&s->table);
	err = ftrace_graph_new_table();
	if (err)
		printk("ftrace: module %s: its functions are not graphed (error %d)\n", m->name,
		       err);
	ftrace_mod_coming(&s->table);
	mutex_unlock(&ftrace_lock);
#endif
}

/* ---- A module is removed: ftrace_lock held ---- */

/* Make all sites of the table nops. */
static void stop_table(struct ftrace_table *table)
{
#if LAB_START != 7
	ftrace_batch_begin();
	for (struct dyn_ftrace *rec = table->records; rec < table->end; rec++)
		if (rec->calls && !(rec->flags & FTRACE_FL_DISABLED))
			ftrace_switch(rec, FTRACE_CALLS_NOTHING);
	ftrace_batch_end();
#endif
}

/*
 * The first grace period: no CPU is in a trampoline or callback. The second: no CPU reads the
 * lists.
 */
static void disable(struct module_sites *s)
{
#if LAB_START != 7
	mutex_lock(&ftrace_lock);
	stop_table(&s->table);
	synchronize_sched();
	unlink_sites(s);
	synchronize_sched();
	forget_functions(s->table.text - KERNEL_BASE, s->table.text_end - KERNEL_BASE);
	mutex_unlock(&ftrace_lock);
#endif
}

/* ---- Shadow stacks ---- */

struct search {
	unsigned long start, end;
	bool found;
};

static void search_frames(struct thread *t, void *arg)
{
#if LAB_START != 7
	struct search *search = arg;
	const struct shadow_stack *s = shadow_of(t);

	for (const struct shadow_frame *f = s ? s->top : NULL; f; f = f->below)
		search->found |= f->ret - search->start < search->end - search->start ||
			     f->func - search->start < search->end - search->start;
#endif
}

bool ftrace_returns_through(unsigned long start, unsigned long end)
{
	struct search search = {start, end, false};

	threads_for_each(search_frames, &search);
	for (unsigned i = 0; i < nr_cpus; i++)
		search_frames(cpu_of(i)->idle, &search);
	return search.found;
}
