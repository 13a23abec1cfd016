/*
 * The boot argument last_boot=SIZE ("4M"): the top tracer's buffers are in a region
 * of RAM that the next boot finds again, and that boot shows them as instances/last_boot.
 *
 * The instance has a copy, in ordinary buffers. So this boot records in the region from the
 * start, and the instance can be read, emptied and removed as any other.
 */
#include "errno.h"
#include "fdt.h"
#include "print.h"
#include "ring_region.h"
#include "string.h"
#include "trace.h"
#include "tracefs.h"
#include "unwind.h"

_Static_assert(MiB(1) >= NR_CPUS * RB_REGION_MIN, "the smallest SIZE is large enough");
#define LAST_BOOT TRACEFS "instances/last_boot"
#define DEPTH_MAX 512 /* a shadow stack has room for fewer frames */

static int set_size(const char *value)
{
	size_t len = strlen(value);
	char digits[8];
	u64 mib;

	if (len < 2 || len > sizeof(digits) || value[len - 1] != 'M')
		return -EINVAL;
	strlcpy(digits, value, len);
	if (kstrtou64(digits, 10, &mib) || !mib || MiB(mib) > RB_MAX_BYTES)
		return -EINVAL;
	last_boot_size = MiB(mib);
	return 0;
}
EARLY_PARAM("last_boot", set_size);

/* ---- The events of the boot before ---- */

static bool has_text(const struct print_entry *e, u32 len)
{
	return len > sizeof(*e) && strnlen(e->buf, len - sizeof(*e)) < len - sizeof(*e);
}

static bool has_callers(const struct stack_entry *e, u32 len)
{
	return len >= sizeof(*e) && (len - sizeof(*e)) % 8 == 0 && e->size == (int)(len - sizeof(*e)) / 8;
}

static bool is_depth(int depth)
{
	return depth >= 0 && depth < DEPTH_MAX;
}

/* The arguments of a module's function are left out: they cannot be named. */
static u32 call_length(const struct ftrace_graph_ent_entry *e, u32 len)
{
	unsigned long func;

	if (len < sizeof(*e) || !is_depth(e->depth))
		return 0;
	func = get_address(e->func);
	if (!in_kernel_text(func))
		return sizeof(*e);
	return len == sizeof(*e) || len == sizeof(*e) + 8 * trace_args_count(func) ? len : 0;
}

/*
 * The printers do not check an event's fields, so only an event with valid fields is kept. Events by
 * probes are refused: only the boot that wrote them knew what their fields are.
 */
static u32 accept(const void *data, u32 len)
{
	const struct fgraph_retaddr_ent_entry *call = data;
	const struct ftrace_graph_ret_entry *ret = data;

	switch (len < sizeof(struct trace_entry) ? 0 : ((const struct trace_entry *)data)->type) {
	case TRACE_FN:
		return len == sizeof(struct function_entry) ? len : 0;
	case TRACE_PRINT:
		return has_text(data, len) ? len : 0;
	case TRACE_STACK:
		return has_callers(data, len) ? len : 0;
	case TRACE_GRAPH_ENT:
		return call_length(data, len);
	case TRACE_GRAPH_RETADDR_ENT:
		return len == sizeof(*call) && is_depth(call->depth) ? len : 0;
	case TRACE_GRAPH_RET:
		return len == sizeof(*ret) && is_depth(ret->depth) ? len : 0;
	}
	return 0;
}

/* Recording stays stopped until all CPUs' buffers are emptied: by `echo > trace`, a tracer or a clock (go_on() in trace.c). */
static void show(const struct rb_region *r, struct trace_array *tr)
{
	struct rb_refused refused = {0};
	u64 events = 0;

	tracing_slow(tr, RB_STOPPED | RB_OFF, true);
	if (r->clock < trace_clock_count)
		tr->clock = &trace_clocks[r->clock];
	for (unsigned i = 0; i < nr_cpus; i++) {
		rb_region_copy(r, i, &tr->cpu[i], accept, &refused);
		events += rb_entries(&tr->cpu[i]);
	}
	tr->options |= TRACE_ITER_LAST_BOOT;
	printk("last_boot: instances/last_boot has %llu events of the boot before", (unsigned long long)events);
	if (refused.events || refused.pages)
		printk("; %llu events that cannot be shown and %llu damaged pages are left out",
		       (unsigned long long)refused.events, (unsigned long long)refused.pages);
	printk("\n");
}

/* Make the instance, with room for as many pages as the region has. */
static int make_and_show(const struct rb_region *r)
{
	struct node *dir;
	int err = file_mkdir(NULL, LAST_BOOT);

	if (err)
		return err;
	dir = file_lookup(NULL, LAST_BOOT);
	err = tracing_resize(dir->data, (r->nr_slots + 1ul) * RB_PAGE_DATA);
	if (err)
		file_remove(NULL, LAST_BOOT);
	else
		show(r, dir->data);
	return err;
}

/* ---- The events of this boot ---- */

static void use_region(struct rb_region *r, u64 build_id)
{
	tracing_slow(&global_trace, RB_STOPPED, true);
	synchronize_sched();
	trace_array_free(&global_trace);
	rb_region_make(r, last_boot_size, nr_cpus, build_id, global_trace.cpu);
	global_trace.expanded = true;
	global_trace.kept_clock = &r->clock;
	synchronize_sched();
	tracing_slow(&global_trace, RB_STOPPED, false);
}

/* The kernel's constants hold its symbols' addresses and names, so their hash says which kernel it is. */
static int last_boot(const char *value)
{
	struct rb_region *r = phys_to_virt(last_boot_ram.start);
	u64 build_id = rb_region_hash(_rodata, _erodata - _rodata);
	const char *why;

	if (!last_boot_ram.end || global_trace.kept_clock)
		return 0; /* memory.c has said why; or the argument was given twice, and the buffers are in the region already */
	why = rb_region_refusal(r, last_boot_size, nr_cpus, build_id);
	if (why) {
		printk("last_boot: %s\n", why);
	} else if (make_and_show(r)) {
		printk("last_boot: no memory for a copy of the earlier boot's events, which stay; this boot's are not kept\n");
		return -ENOMEM;
	}
	use_region(r, build_id);
	return 0;
}
PARAM("last_boot", last_boot);
