/*
 * A hit: fetch the arguments, make the event, write it.
 *
 * Memory is read by two instructions (FETCH_LOAD_*). If an address cannot be read,
 * the load causes an exception, and the kernel continues at fetch_fault() (FIXUP),
 * which returns false. So a probe can fetch from any address, even one that is being
 * unmapped.
 */
#include "asm-ftrace/fetch.h"
#include "asm-ftrace/regs.h"
#include "breakpoint.h"
#include "cpu.h"
#include "event_write.h"
#include "irq.h"
#include "string.h"

/* ---- Memory ---- */

bool probe_load_1(unsigned long at, unsigned long *value);
bool probe_load_8(unsigned long at, unsigned long *value);
bool fetch_fault(unsigned long at, unsigned long *value);

#define FUNCTION(name, body) \
	".type " #name ", @function\n" #name ":\n" body ".size " #name ", . - " #name "\n"
__asm__(".text\n" FUNCTION(probe_load_1, FETCH_LOAD_1) FUNCTION(probe_load_8, FETCH_LOAD_8)
	FUNCTION(fetch_fault, FETCH_FAULT));

FIXUP(probe_load_1, fetch_fault);
FIXUP(probe_load_8, fetch_fault);

static bool read_memory(void *to, unsigned long from, unsigned size)
{
	unsigned long value;
	u8 *bytes = to;

	if (size == 8 && from % 8 == 0)
		return probe_load_8(from, to);
	for (unsigned i = 0; i < size; i++) {
		if (!probe_load_1(from + i, &value))
			return false;
		bytes[i] = value;
	}
	return true;
}

/* ---- Arguments ---- */

struct hit {
	struct trace_probe *probe;
	const struct kprobe_regs *regs;
	/* at a return: the arguments saved at the entry; NULL: they are in regs */
	const unsigned long *args;
	u8 *event;
	u32 size; /* of the event so far; strings are added at its end */
};

bool probe_has_register(unsigned n, enum probe_place place)
{
	struct ftrace_regs regs;

	if (n == FETCH_PC || place == PROBE_IN_BODY)
		return true;
	return ftrace_regs_reg(&regs, n) && (place == PROBE_AT_ENTRY || fetch_at_return(n));
}

int probe_register(const char *name, enum probe_place place)
{
	static const char *const names[] = FETCH_NAMES;

	if (!strcmp(name, "lr"))
		name = "x30";
	for (int i = 0; i < (int)ARRAY_SIZE(names); i++)
		if (!strcmp(names[i], name) && strcmp(name, "zero"))
			return probe_has_register(i, place) ? i : -1;
	return -1;
}

static unsigned long get_register(const struct kprobe_regs *regs, unsigned n)
{
	const unsigned long *at = n == FETCH_PC ? &regs->ip : kprobe_reg(regs, n);

	return at ? *at : 0;
}

/* The base of @arg, before memory is read. */
static inline unsigned long get_base(const struct hit *h, const struct probe_arg *arg)
{
	unsigned long value = 0;

	switch (arg->base) {
	case PROBE_REG:
		return get_register(h->regs, arg->param);
	case PROBE_ARG:
		return h->args ? h->args[arg->param] : *kprobe_arg(h->regs, arg->param);
	case PROBE_RETVAL:
		return *kprobe_arg(h->regs, 0);
	case PROBE_STACKP:
		return get_register(h->regs, FETCH_SP);
	case PROBE_STACK:
		read_memory(&value, get_register(h->regs, FETCH_SP) + 8 * arg->param, 8);
		return value;
	case PROBE_COMM:
		return (unsigned long)current->comm;
	case PROBE_TEXT:
		return (unsigned long)arg->text;
	default:
		return arg->param;
	}
}

/*
 * Add the string at @from to the event, and store where it is in @field: length and place, 0 for a
 * fault.
 */
static void store_string(struct hit *h, u8 *field, unsigned long from)
{
	u32 at = h->size, where = 0;
	unsigned long c = 1;

	while (c && h->size < PROBE_EVENT_MAX && probe_load_1(from++, &c))
		h->event[h->size++] = c;
	if (c && h->size > at && h->size == PROBE_EVENT_MAX)
		h->event[h->size - 1] = c = 0; /* cut */
	if (c)
		h->size = at;
	else
		where = (h->size - at) << 16 | at;
	memcpy(field, &where, sizeof(where));
}

static u64 bit_field(const struct probe_arg *arg, u64 value)
{
	return value << (64 - arg->width - arg->shift) >> (64 - arg->width);
}

/* Fields are not aligned, but those of eight bytes mostly are. */
static inline void store_value(const struct probe_arg *arg, u8 *field, u64 value)
{
	unsigned size = arg->type->size;

	if (unlikely(arg->width))
		value = bit_field(arg, value);
	if (likely(size == 8 && (unsigned long)field % 8 == 0)) {
		*(u64 *)field = value;
		return;
	}
	for (; size; size--, value >>= 8)
		*field++ = value;
}

/* The last read of memory: of the type's size, or of each member of an array. */
static void store_memory(struct hit *h, const struct probe_arg *arg, u8 *field, unsigned long from)
{
	unsigned size = arg->type->size;
	u64 value;

	for (unsigned i = 0; i < MAX(arg->count, 1); i++, field += size) {
		if (arg->type->print == 's') {
			if (arg->count && !read_memory(&value, from + 8 * i, 8))
				value = 0;
			store_string(h, field, arg->count ? value : from);
			continue;
		}
		value = 0;
		read_memory(&value, from + i * size, size);
		store_value(arg, field, value);
	}
}

static void store_fault(const struct probe_arg *arg, u8 *field)
{
	memset(field, 0, arg->type->size * MAX(arg->count, 1));
}

static __noinline void read_arg(struct hit *h, const struct probe_arg *arg, u8 *field,
				unsigned long value)
{
	for (int i = 0; i < arg->derefs - 1; i++)
		if (!read_memory(&value, value + arg->deref[i], 8))
			return store_fault(arg, field);
	if (arg->derefs)
		store_memory(h, arg, field, value + arg->deref[arg->derefs - 1]);
	else
		store_string(h, field, value);
}

static inline void store_arg(struct hit *h, const struct probe_arg *arg)
{
	unsigned long value = get_base(h, arg);
	u8 *field = h->event + arg->offset;

	if (arg->derefs || arg->type->print == 's')
		read_arg(h, arg, field, value);
	else
		store_value(arg, field, value);
}

/* ---- The event ---- */

/*
 * Where an event is made before it is written. One for each CPU is enough: handlers do not nest
 * (kprobes.h).
 */
static u64 scratch[NR_CPUS][PROBE_EVENT_MAX / 8 + 1];

/* Write an event that has only addresses directly into the buffer of global_trace. */
static INLINE bool write_plain(const struct hit *h, bool is_return, unsigned long ip,
			       unsigned long ret_ip)
{
	struct ring_buffer_cpu *rb = trace_buffer(&global_trace, this_cpu());
	u64 end;
	u32 *to = event_begin(rb, &h->probe->event->id, &h->regs->flags,
			      ENTRY_WORDS + (is_return ? 4 : 2), &end);

	if (unlikely(!to))
		return false;
	put_address(to, ip);
	if (is_return)
		put_address(to + 2, ret_ip);
	event_commit(rb->page, end);
	return true;
}

static __noinline void make_event(struct hit *h, unsigned long ip, unsigned long ret_ip)
{
	const struct probe_def *def = h->probe->def;
	struct made_event m;
	u64 *words = scratch[this_cpu()->index];

	h->event = (u8 *)words;
	h->size = def->size;
	words[1] = ip;
	if (def->is_return)
		words[2] = ret_ip;
	for (unsigned i = 0; i < def->arg_count; i++)
		store_arg(h, &def->arg[i]);
	m = (struct made_event){h->probe->event->id, h->regs->flags, h->event, h->size};
	for (struct trace_event_file *f = &h->probe->event->top; f; f = READ_ONCE(f->next))
		event_take(&m, f);
}

/* Context: interrupts masked. */
static INLINE void take_hit(struct hit *h, bool is_return, unsigned long ret_ip)
{
	unsigned long ip = h->probe->func;

	__atomic_fetch_add(&h->probe->hits, 1, __ATOMIC_RELAXED);
	if (!READ_ONCE(h->probe->event->plain) || !write_plain(h, is_return, ip, ret_ip))
		make_event(h, ip, ret_ip);
}

bool probe_kprobe_hit(struct kprobe *kp, struct kprobe_regs *regs)
{
	struct hit h = {container_of(kp, struct trace_probe, kprobe), regs};

	take_hit(&h, false, 0);
	return false;
}

static INLINE void hit(struct trace_probe *p, bool is_return, struct ftrace_regs *fregs,
		       const unsigned long *args, unsigned long ret_ip)
{
	unsigned long flags = irq_save();
	struct kprobe_regs regs = {.entry = fregs, .ip = p->func, .flags = flags};
	struct hit h = {p, &regs, args};

	take_hit(&h, is_return, ret_ip);
	irq_restore(flags);
}

static void keep_args(void *data, const struct ftrace_regs *regs)
{
	for (int i = 0; i < TRACE_ARG_REGISTERS; i++)
		((unsigned long *)data)[i] = regs->arg[i];
}

int probe_kretprobe_entry(struct kretprobe_instance *ri, struct ftrace_regs *regs)
{
	keep_args(ri->data, regs);
	return 0;
}

int probe_kretprobe_return(struct kretprobe_instance *ri, struct ftrace_regs *regs)
{
	struct trace_probe *p = container_of(ri->rp, struct trace_probe, kretprobe);

	hit(p, true, regs, p->def->keeps_args ? (unsigned long *)ri->data : NULL, ri->ret_addr);
	return 0;
}

int probe_fprobe_entry(struct fprobe *fp, unsigned long ip, unsigned long ret_ip,
		       struct ftrace_regs *regs, void *data)
{
	struct trace_probe *p = container_of(fp, struct trace_probe, fprobe);

	if (p->def->is_return)
		keep_args(data, regs);
	else
		hit(p, false, regs, NULL, 0);
	return 0;
}

void probe_fprobe_exit(struct fprobe *fp, unsigned long ip, unsigned long ret_ip,
		       struct ftrace_regs *regs, void *data)
{
	hit(container_of(fp, struct trace_probe, fprobe), true, regs, data, ret_ip);
}
