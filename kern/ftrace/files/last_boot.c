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

_Static_assert(MiB(1) >= NR_CPUS * RB_REGION_MIN, "the smallest SIZE is large enough");
#define LAST_BOOT TRACEFS "instances/last_boot"

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

/*
 * Recording stays stopped until all CPUs' buffers are emptied: by `echo > trace`, a tracer or a
 * clock (go_on() in trace.c).
 */
static void show(const struct rb_region *r, struct trace_array *tr)
{
	struct rb_refused refused = {0};
	u64 events = 0;

	tracing_slow(tr, RB_STOPPED | RB_OFF, true);
	if (r->clock < trace_clock_count)
		tr->clock = &trace_clocks[r->clock];
	for (unsigned i = 0; i < nr_cpus; i++) {
		rb_region_copy(r, i, &tr->cpu[i], trace_accept_event, &refused);
		events += rb_entries(&tr->cpu[i]);
	}
	tr->options |= TRACE_ITER_LAST_BOOT;
	printk("last_boot: instances/last_boot has %lu events of the boot before", events);
	if (refused.events || refused.pages)
		printk("; %lu events that cannot be shown and %lu damaged pages are left out",
		       refused.events, refused.pages);
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
	err = tracing_resize(dir->data, -1, (r->nr_slots + 1ul) * RB_PAGE_DATA);
	if (err)
		file_remove(NULL, LAST_BOOT);
	else
		show(r, dir->data);
	return err;
}

/* ---- The events of this boot ---- */

static void use_region(struct rb_region *r, u64 build_id)
{
	struct trace_array *spare = global_trace.snapshot;

	if (spare) /* a boot argument has made it: no snapshot is taken from now on */
		WRITE_ONCE(spare->expanded, false);
	tracing_slow(&global_trace, RB_STOPPED, true);
	synchronize_sched();
	tracing_slow(&global_trace, RB_SWAP, false);
	if (spare)
		tracing_resize(spare, -1, 0);
	for (unsigned i = 0; i < nr_cpus; i++)
		rb_free(&global_trace.cpu[i]);
	rb_region_make(r, last_boot_size, nr_cpus, build_id, global_trace.cpu);
	global_trace.expanded = true;
	global_trace.kept_clock = &r->clock;
	synchronize_sched();
	tracing_slow(&global_trace, RB_STOPPED, false);
}

/*
 * The kernel's constants hold its symbols' addresses and names, so their hash says which kernel it
 * is.
 */
static int last_boot(const char *value)
{
	struct rb_region *r = phys_to_virt(last_boot_ram.start);
	u64 build_id = rb_region_hash(_rodata, _erodata - _rodata);
	const char *why;

	if (!last_boot_ram.end || global_trace.kept_clock)
		/*
		 * memory.c has said why; or the argument was given twice, and the buffers are in
		 * the region already
		 */
		return 0;
	why = rb_region_refusal(r, last_boot_size, nr_cpus, build_id);
	if (why) {
		printk("last_boot: %s\n", why);
	} else if (make_and_show(r)) {
		printk("last_boot: no memory for a copy of the earlier boot's events, which stay; "
		       "this boot's are not kept\n");
		return -ENOMEM;
	}
	use_region(r, build_id);
	return 0;
}
PARAM("last_boot", last_boot);
