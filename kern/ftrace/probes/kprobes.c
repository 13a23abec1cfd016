/*
 * Kprobes: registration, points, and the op of probes at entries. kprobe_hit.c
 * handles a hit of a breakpoint; kprobes.h says how the parts work together.
 */
#include "cpu.h"
#include "kprobe_point.h"

struct probe_point *kprobe_buckets[KPROBE_BUCKETS], *kprobe_slot_owner[KPROBE_SLOTS];

/* The ops' callback. It guards itself, to count what is missed. @op->private: KEY_MODIFY or 0. */
static void kprobe_entry(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			 struct ftrace_regs *fregs)
{
	unsigned long flags = irq_save();
	struct cpu *cpu = this_cpu();
	u64 bit = cpu->context_bit;
	const struct probe_point *pt = find_point(ip | (unsigned long)op->private);
	struct kprobe_regs regs = {fregs, NULL, ip, flags};

	if (unlikely(!pt)) {
		/* The site is being patched. */
	} else if (unlikely(cpu->recursion & bit)) {
		count_missed(pt);
	} else {
		unsigned long pc = fregs->pc;

		cpu->recursion |= bit;
		if (!run_pre(pt, &regs)) {
			fregs->pc = pc;
			run_post(pt, &regs);
		}
		cpu->recursion &= ~bit;
	}
	irq_restore(flags);
}

/* ---- Entries: ftrace_lock is held ---- */

static struct ftrace_ops entry_ops[2] = {
	{.func = kprobe_entry, .flags = FTRACE_OPS_FL_RECURSION, .slot = -1},
	{.func = kprobe_entry,
	 .flags = FTRACE_OPS_FL_RECURSION | FTRACE_OPS_FL_IPMODIFY,
	 .slot = -1,
	 .private = (void *)KEY_MODIFY},
};

/*
 * After an error, the op still selects the function; then kprobe_entry() finds no point,
 * or no enabled probe. -ENOENT: no record, which rmmod prevents (kprobe_within()).
 */
int kprobe_arm_entry(struct probe_point *pt, bool on)
{
	struct dyn_ftrace *rec = lookup_rec(pt->key & ~KEY_MODIFY);
	int err = rec ? ftrace_select_one(&entry_ops[pt->key & KEY_MODIFY], rec, on) : -ENOENT;

	pt->armed = on && !err;
	return on ? err : 0;
}

/* ---- Points: ftrace_lock is held ---- */

static int take_slot(struct probe_point *pt)
{
	for (unsigned i = 0; i < KPROBE_SLOTS; i++)
		if (!kprobe_slot_owner[i]) {
			pt->resume = (unsigned long)kprobe_slots[i];
			WRITE_ONCE(kprobe_slot_owner[i], pt);
			return 0;
		}
	return -ENOSPC;
}

/* Make a point without probes, and without effect. */
static struct probe_point *new_point(unsigned long key, bool entry, enum probe_how how, int *err)
{
	struct probe_point *pt = kzalloc(sizeof(*pt)), **bucket = bucket_of(key);

	*err = -ENOMEM;
	if (!pt)
		return NULL;
	pt->key = key;
	pt->entry = entry;
	pt->insn = *(const u32 *)(key & ~KEY_MODIFY);
	*err = !entry && how == PROBE_SLOT ? take_slot(pt) : 0;
	if (*err) {
		kfree(pt);
		return NULL;
	}
	pt->next = *bucket;
	smp_wmb();
	WRITE_ONCE(*bucket, pt);
	return pt;
}

/* The point at which @p belongs: an old or a new one. */
static struct probe_point *point_for(struct kprobe *p, int *err)
{
	unsigned long offset, site, key = p->addr;
	enum probe_how how = PROBE_SLOT;
	struct probe_point *pt;
	bool entry;

	*err = kprobe_function(p->addr, &offset, &site);
	if (*err)
		return NULL;
	entry = p->addr <= site;
	if (entry)
		key = site | (p->flags & KPROBE_FLAG_IPMODIFY ? KEY_MODIFY : 0);
	pt = find_point(key);
	if (pt)
		return pt;
	if (!entry)
		how = kprobe_classify_at(p->addr, offset);
	*err = -EOPNOTSUPP;
	return how > PROBE_EMULATED ? NULL : new_point(key, entry, how, err);
}

static bool clashes(const struct probe_point *pt, const struct kprobe *with)
{
	for (const struct kprobe *p = pt->probes; p; p = p->next)
		if (p->flags & with->flags & KPROBE_FLAG_IPMODIFY)
			return true;
	return false;
}

static void link_probe(struct probe_point *pt, struct kprobe *p)
{
	struct kprobe **link = &pt->probes;

	while (*link)
		link = &(*link)->next;
	p->next = NULL;
	p->point = pt;
	smp_wmb();
	WRITE_ONCE(*link, p);
}

/* When this returns, no CPU uses @p. Its own `next` stays until then. */
static void remove_kprobe(struct kprobe *p)
{
	struct probe_point *pt = p->point;
	struct kprobe **link = &pt->probes;

	while (*link != p)
		link = &(*link)->next;
	WRITE_ONCE(*link, p->next);
	kprobe_update_point(pt);
	kprobe_wait_and_free(pt, !pt->probes && !pt->armed);
	p->point = NULL;
}

static int add_kprobe(struct kprobe *p)
{
	struct probe_point *pt;
	int err;

	if (p->point)
		return -EEXIST;
	if (!p->pre_handler && !p->post_handler)
		return -EINVAL;
	if (p->symbol_name) {
		p->addr = kprobe_lookup_name(p->symbol_name);
		if (!p->addr)
			return -ENOENT;
		p->addr += p->offset;
	}
	pt = point_for(p, &err);
	if (!pt)
		return err;
	if (clashes(pt, p))
		return -EBUSY;
	link_probe(pt, p);
	err = kprobe_update_point(pt);
	if (err)
		remove_kprobe(p);
	return err;
}

int register_kprobe(struct kprobe *p)
{
	int err;

	mutex_lock(&ftrace_lock);
	WRITE_ONCE(break_hook, &kprobe_hook);
	err = ftrace_disabled ? -ENODEV : add_kprobe(p);
	mutex_unlock(&ftrace_lock);
	return err;
}

void unregister_kprobe(struct kprobe *p)
{
	mutex_lock(&ftrace_lock);
	if (p->point)
		remove_kprobe(p);
	mutex_unlock(&ftrace_lock);
}

static int set_disabled(struct kprobe *p, u32 disabled)
{
	int err = -ENOENT;

	mutex_lock(&ftrace_lock);
	if (p->point) {
		WRITE_ONCE(p->flags, (p->flags & ~KPROBE_FLAG_DISABLED) | disabled);
		err = kprobe_update_point(p->point);
		if (disabled)
			synchronize_sched();
		else if (err)
			p->flags |= KPROBE_FLAG_DISABLED;
	}
	mutex_unlock(&ftrace_lock);
	return err;
}

int disable_kprobe(struct kprobe *p)
{
	return set_disabled(p, KPROBE_FLAG_DISABLED);
}

int enable_kprobe(struct kprobe *p)
{
	return set_disabled(p, 0);
}

bool kprobe_at_entry(unsigned long addr)
{
	unsigned long offset, site;
	bool within;

	mutex_lock(&ftrace_lock);
	within = !kprobe_function(addr, &offset, &site) && addr <= site;
	mutex_unlock(&ftrace_lock);
	return within;
}

bool kprobe_within(unsigned long start, unsigned long end, bool itself)
{
	unsigned long size = end - start;
	bool within = false;

	mutex_lock(&ftrace_lock);
	for (unsigned i = 0; i < KPROBE_BUCKETS; i++)
		for (const struct probe_point *pt = kprobe_buckets[i]; pt; pt = pt->next) {
			within |= IS_WITHIN(pt->key, start, size);
			for (const struct kprobe *p = pt->probes; itself && p; p = p->next)
				within |= IS_WITHIN(p, start, size) ||
				      IS_WITHIN(p->pre_handler, start, size) ||
				      IS_WITHIN(p->post_handler, start, size);
		}
	mutex_unlock(&ftrace_lock);
	return within;
}
