/*
 * Kprobes: points with their probes, and what happens at a hit. kprobes.h says how
 * the parts play together.
 *
 * A hit keeps no state of its own: what is being executed can be read from pc,
 * which is in a function, or in the slot of one point. So hits may nest.
 */
#include "breakpoint.h"
#include "cpu.h"
#include "hash.h"
#include "kprobes.h"
#include "tracer.h"

#define EXCEPTION_BIT 4 /* cpu->context_bit in an exception */
/*
 * A point's key is its address. At an entry, probes that may change pc have a point
 * of their own, with this bit, because they belong to the op that may change pc.
 */
#define KEY_MODIFY 1ul

/* An instruction with probes. */
struct probe_point {
	unsigned long key;
	struct kprobe *probes;
	struct probe_point *next; /* in its bucket */
	bool entry;		  /* the call site of a function; else a breakpoint: */
	bool armed;
	u32 insn;		  /* the one that was replaced */
	unsigned long resume;	  /* its slot; 0: it is emulated */
};

#define BUCKETS 64
static struct probe_point *buckets[BUCKETS];
static struct probe_point *slot_owner[KPROBE_SLOTS];

static struct probe_point **bucket_of(unsigned long key)
{
	return &buckets[(u32)((u32)(key >> 2) * 0x9e3779b1u) >> 26];
}

static inline struct probe_point *find_point(unsigned long key)
{
	struct probe_point *pt = READ_ONCE(*bucket_of(key));

	while (pt && pt->key != key)
		pt = READ_ONCE(pt->next);
	return pt;
}

/* ---- A hit ---- */

/* Return: pc was changed. */
static inline __attribute__((always_inline)) bool run_pre(const struct probe_point *pt, struct kprobe_regs *regs)
{
	bool moved = false;

	for (struct kprobe *p = READ_ONCE(pt->probes); p; p = READ_ONCE(p->next)) {
		u32 flags = READ_ONCE(p->flags);

		if (p->pre_handler && !(flags & KPROBE_FLAG_DISABLED))
			moved |= p->pre_handler(p, regs) && flags & KPROBE_FLAG_IPMODIFY;
	}
	return moved;
}

static inline __attribute__((always_inline)) void run_post(const struct probe_point *pt, struct kprobe_regs *regs)
{
	for (struct kprobe *p = READ_ONCE(pt->probes); p; p = READ_ONCE(p->next))
		if (p->post_handler && !(READ_ONCE(p->flags) & KPROBE_FLAG_DISABLED))
			p->post_handler(p, regs);
}

static void count_missed(const struct probe_point *pt)
{
	for (struct kprobe *p = READ_ONCE(pt->probes); p; p = READ_ONCE(p->next))
		if (!(READ_ONCE(p->flags) & KPROBE_FLAG_DISABLED))
			__atomic_add_fetch(&p->nmissed, 1, __ATOMIC_RELAXED);
}

/* The ops' callback. It guards itself, to count what is missed. @op->private: KEY_MODIFY or 0. */
static void kprobe_entry(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
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

/* The point in whose slot @pc is; NULL: in none. */
static struct probe_point *slot_point(unsigned long pc)
{
	unsigned long offset = pc - (unsigned long)kprobe_slots;

	return offset < sizeof(kprobe_slots) ? READ_ONCE(slot_owner[offset / sizeof(kprobe_slots[0])]) : NULL;
}

/*
 * Continue after the handlers of a breakpoint: in the slot, or after the emulated
 * instruction. Return: there is no second breakpoint, so run_post() is due.
 */
static inline bool execute(const struct probe_point *pt, struct trap_frame *trap)
{
	if (likely(pt->resume)) {
		trap->pc = pt->resume;
		return false;
	}
	trap->pc = probe_emulate(pt->insn, pt->key, trap->x, probe_flags(trap));
	return true;
}

/* Interrupts are masked, so what a handler hits is an exception in an exception: its context is EXCEPTION_BIT. */
static void hit_before(const struct probe_point *pt, struct kprobe_regs *regs, bool missed)
{
	struct cpu *cpu = this_cpu();

	if (unlikely(missed)) {
		count_missed(pt);
		execute(pt, regs->trap);
		return;
	}
	cpu->recursion |= EXCEPTION_BIT;
	if (!run_pre(pt, regs) && execute(pt, regs->trap))
		run_post(pt, regs);
	cpu->recursion &= ~EXCEPTION_BIT;
}

/* The breakpoint after the copy in the slot. */
static void hit_after(const struct probe_point *pt, struct kprobe_regs *regs, bool missed)
{
	struct cpu *cpu = this_cpu();

	regs->ip = pt->key;
	regs->trap->pc = pt->key + 4;
	if (missed)
		return;
	cpu->recursion |= EXCEPTION_BIT;
	run_post(pt, regs);
	cpu->recursion &= ~EXCEPTION_BIT;
}

static bool kprobe_break(struct trap_frame *trap, u64 context)
{
	struct kprobe_regs regs = {NULL, trap, regs_pc(trap), 0};
	bool missed = this_cpu()->recursion & context;
	const struct probe_point *pt;

	if (!probe_is_break(trap))
		return false;
	pt = find_point(regs.ip);
	if (likely(pt)) {
		hit_before(pt, &regs, missed);
		return true;
	}
	pt = slot_point(regs.ip);
	if (!pt)
		return *(const volatile u32 *)regs.ip != INSN_BREAK; /* it was taken away meanwhile */
	hit_after(pt, &regs, missed);
	return true;
}

static unsigned long kprobe_true_pc(unsigned long pc)
{
	const struct probe_point *pt = slot_point(pc);

	return pt ? pt->key + pc % sizeof(kprobe_slots[0]) : pc;
}

static u32 kprobe_insn(unsigned long at)
{
	const struct probe_point *pt = find_point(at);

	return pt && !pt->entry ? pt->insn : *(const volatile u32 *)at;
}

static const struct break_hook kprobe_hook = {kprobe_break, kprobe_true_pc, kprobe_insn};

/* ---- Writing: ftrace_lock is held ---- */

static struct ftrace_ops entry_ops[2] = {
	{.func = kprobe_entry, .flags = FTRACE_OPS_FL_RECURSION, .slot = -1},
	{.func = kprobe_entry, .flags = FTRACE_OPS_FL_RECURSION | FTRACE_OPS_FL_IPMODIFY, .slot = -1, .private = (void *)KEY_MODIFY},
};

/* The op is not registered. */
static void forget_functions(struct ftrace_ops *op)
{
	ftrace_hash_free(op->filter.filter_hash);
	op->filter.filter_hash = NULL;
}

/* Unregister an op without functions: an empty filter would be every function. */
static int stop_op(struct ftrace_ops *op)
{
	if (op->slot >= 0)
		ftrace_shutdown(op);
	forget_functions(op);
	return 0;
}

static int start_op(struct ftrace_ops *op, const struct ftrace_set *set)
{
	int err = ftrace_set_hash(&op->filter, set, false);

	if (err || op->slot >= 0)
		return err;
	err = ftrace_startup(op);
	if (err)
		forget_functions(op);
	return err;
}

/* Make the op's filter the functions of its armed points. */
static int update_op(unsigned long modify)
{
	struct ftrace_set *set = ftrace_set_new();
	int err;

	if (!set)
		return -ENOMEM;
	for (unsigned i = 0; i < BUCKETS; i++)
		for (const struct probe_point *pt = buckets[i]; pt; pt = pt->next)
			if (pt->entry && pt->armed && (pt->key & KEY_MODIFY) == modify)
				ftrace_set_put(set, lookup_rec(pt->key & ~KEY_MODIFY), true);
	err = set->count ? start_op(&entry_ops[modify], set) : stop_op(&entry_ops[modify]);
	ftrace_set_free(set);
	return err;
}

/* Without memory for a filter the op still has the function; then kprobe_entry() finds no point, or no enabled probe. */
static int arm_entry(struct probe_point *pt, bool on)
{
	int err;

	pt->armed = on;
	err = update_op(pt->key & KEY_MODIFY);
	if (err && on)
		pt->armed = false;
	return on ? err : 0;
}

static int arm_break(struct probe_point *pt, bool on)
{
	struct kprobe_word word = {pt->key, on ? pt->insn : INSN_BREAK, on ? INSN_BREAK : pt->insn};
	int err = kprobe_write(&word, 1);

	if (!err)
		pt->armed = on;
	return err;
}

/*
 * The copy, then a jump back; or a breakpoint, if a handler must be called after the
 * instruction or the jump does not reach. While a CPU may be in the slot, only the second
 * word changes, from one of these to the other; on arm64 too these may be exchanged then.
 */
static int write_slot(const struct probe_point *pt)
{
	const volatile u32 *slot = (const u32 *)pt->resume;
	struct kprobe_word words[2] = {{(unsigned long)&slot[0], slot[0], pt->insn}, {(unsigned long)&slot[1], slot[1], INSN_BREAK}};
	bool jumps = probe_jump(words[1].ip, pt->key + 4, &words[1].insn);

	for (const struct kprobe *p = pt->probes; p; p = p->next)
		jumps &= !p->post_handler;
	if (!jumps)
		words[1].insn = INSN_BREAK;
	if (words[0].expected == words[0].insn && words[1].expected == words[1].insn)
		return 0;
	return kprobe_write(words, 2);
}

/* Bring text to what the point's probes want. */
static int update_point(struct probe_point *pt)
{
	bool on = false;
	int err = 0;

	for (const struct kprobe *p = pt->probes; p; p = p->next)
		on |= !(p->flags & KPROBE_FLAG_DISABLED);
	if (on && pt->resume)
		err = write_slot(pt);
	if (err || on == pt->armed)
		return err;
	return pt->entry ? arm_entry(pt, on) : arm_break(pt, on);
}

static int take_slot(struct probe_point *pt)
{
	for (unsigned i = 0; i < KPROBE_SLOTS; i++)
		if (!slot_owner[i]) {
			pt->resume = (unsigned long)kprobe_slots[i];
			WRITE_ONCE(slot_owner[i], pt);
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

/* Free a point that has no probe and is not armed; wait until no CPU uses it, or a probe that was unlinked. */
static void wait_and_free(struct probe_point *pt, bool unused)
{
	struct probe_point **link = bucket_of(pt->key);

	if (unused) {
		while (*link != pt)
			link = &(*link)->next;
		WRITE_ONCE(*link, pt->next);
	}
	synchronize_sched();
	if (!unused)
		return;
	if (pt->resume)
		WRITE_ONCE(slot_owner[(const u32 (*)[2])pt->resume - kprobe_slots], NULL);
	kfree(pt);
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
static void remove_probe(struct kprobe *p)
{
	struct probe_point *pt = p->point;
	struct kprobe **link = &pt->probes;

	while (*link != p)
		link = &(*link)->next;
	WRITE_ONCE(*link, p->next);
	update_point(pt);
	wait_and_free(pt, !pt->probes && !pt->armed);
	p->point = NULL;
}

static int add_probe(struct kprobe *p)
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
	err = update_point(pt);
	if (err)
		remove_probe(p);
	return err;
}

int register_kprobe(struct kprobe *p)
{
	int err;

	mutex_lock(&ftrace_lock);
	WRITE_ONCE(break_hook, &kprobe_hook);
	err = ftrace_disabled ? -ENODEV : add_probe(p);
	mutex_unlock(&ftrace_lock);
	return err;
}

void unregister_kprobe(struct kprobe *p)
{
	mutex_lock(&ftrace_lock);
	if (p->point)
		remove_probe(p);
	mutex_unlock(&ftrace_lock);
}

static int set_disabled(struct kprobe *p, u32 disabled)
{
	int err = -ENOENT;

	mutex_lock(&ftrace_lock);
	if (p->point) {
		WRITE_ONCE(p->flags, (p->flags & ~KPROBE_FLAG_DISABLED) | disabled);
		err = update_point(p->point);
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

bool kprobe_within(unsigned long start, unsigned long end)
{
	bool is = false;

	mutex_lock(&ftrace_lock);
	for (unsigned i = 0; i < BUCKETS; i++)
		for (const struct probe_point *pt = buckets[i]; pt; pt = pt->next)
			is |= pt->key - start < end - start;
	mutex_unlock(&ftrace_lock);
	return is;
}
