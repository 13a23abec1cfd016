/*
 * The machine's memory, from the device tree, and the reserved parts of it.
 *
 * Two sorted lists of physical ranges: `ram`, which may be mapped, and `taken`,
 * which page.c must not allocate: the image, the device tree, the initrd, and
 * memory that firmware reserved.
 */
#include "memory.h"

#include "arch.h"
#include "errno.h"
#include "fdt.h"
#include "print.h"
#include "string.h"

unsigned long kernel_pa, boot_fdt_pa;
struct range_list ram, taken;
struct range initrd;
struct range module_ram, last_boot_ram;
unsigned long last_boot_size;
/* not const: the compiler would take the 0 for granted */
unsigned long module_ram_size __attribute__((weak));

/* A range for which `taken` has no room is no longer RAM: it is neither mapped nor allocated. */
static void insert(struct range_list *l, unsigned at, struct range r)
{
	if (l->count == RANGES_MAX) {
		printk("memory: more than %d ranges: %#lx to %#lx is not used\n", RANGES_MAX,
		       r.start, r.end);
		if (l == &taken)
			range_remove(&ram, r.start, r.end);
		return;
	}
	for (unsigned i = l->count++; i > at; i--)
		l->range[i] = l->range[i - 1];
	l->range[at] = r;
}

static void drop(struct range_list *l, unsigned at)
{
	for (l->count--; at < l->count; at++)
		l->range[at] = l->range[at + 1];
}

void range_remove(struct range_list *l, unsigned long start, unsigned long end)
{
	unsigned i = 0;

	while (i < l->count) {
		struct range all = l->range[i];

		if (all.end <= start || all.start >= end || end <= start) {
			i++;
			continue;
		}
		drop(l, i);
		if (all.end > end)
			insert(l, i, (struct range){end, all.end});
		if (all.start < start)
			insert(l, i, (struct range){all.start, start});
	}
}

/* Ranges do not overlap: parts that the list has already are removed first. */
static void add(struct range_list *l, unsigned long start, unsigned long end)
{
	unsigned at = 0;

	range_remove(l, start, end);
	while (at < l->count && l->range[at].start < start)
		at++;
	if (start < end)
		insert(l, at, (struct range){start, end});
}

void memory_reserve(unsigned long start, unsigned long size)
{
	add(&taken, ALIGN_DOWN(start, PAGE_SIZE), ALIGN_UP(start + size, PAGE_SIZE));
}

static void add_memory_nodes(const void *fdt)
{
	u64 addr, size;

	for (int n = fdt_next_node(fdt, -1, NULL); n >= 0; n = fdt_next_node(fdt, n, NULL)) {
		const char *type = fdt_string(fdt, n, "device_type");

		if (!type || strcmp(type, "memory") || !fdt_available(fdt, n))
			continue;
		for (int i = 0; fdt_reg(fdt, n, i, &addr, &size) == 0; i++)
			if (addr + size >= addr)
				add(&ram, ALIGN_UP(addr, PAGE_SIZE),
				    ALIGN_DOWN(addr + size, PAGE_SIZE));
	}
}

/* no-map memory must not even be read speculatively: it is not mapped. */
static void take_reserved_nodes(const void *fdt)
{
	int parent = fdt_path(fdt, "/reserved-memory"), depth = 0;
	u64 addr, size;

	if (parent < 0)
		return;
	for (int n = fdt_next_node(fdt, parent, &depth); n >= 0 && depth > 0;
	     n = fdt_next_node(fdt, n, &depth)) {
		for (int i = 0; fdt_reg(fdt, n, i, &addr, &size) == 0; i++) {
			memory_reserve(addr, size);
			if (fdt_prop(fdt, n, "no-map", NULL))
				range_remove(&ram, ALIGN_DOWN(addr, PAGE_SIZE),
					     ALIGN_UP(addr + size, PAGE_SIZE));
		}
	}
}

static bool initrd_address(const void *fdt, const char *name, unsigned long *pa)
{
	int len, chosen = fdt_path(fdt, "/chosen");
	const void *p = chosen < 0 ? NULL : fdt_prop(fdt, chosen, name, &len);

	if (!p || (len != 4 && len != 8))
		return false;
	*pa = fdt_be32(p);
	if (len == 8)
		*pa = *pa << 32 | fdt_be32((const char *)p + 4);
	return true;
}

static bool is_ram(unsigned long start, unsigned long end)
{
	for (unsigned i = 0; i < ram.count; i++)
		if (ram.range[i].start <= start && end <= ram.range[i].end && start <= end)
			return true;
	return false;
}

static bool overlaps(struct range r, unsigned long start, unsigned long size)
{
	return r.start < start + size && r.end > start;
}

static void find_initrd(const void *fdt)
{
	struct range r;

	if (!initrd_address(fdt, "linux,initrd-start", &r.start) ||
	    !initrd_address(fdt, "linux,initrd-end", &r.end) || r.end <= r.start)
		return;
	if (!is_ram(r.start, r.end))
		printk("initrd: %#lx to %#lx is not RAM: ignored\n", r.start, r.end);
	else if (overlaps(r, kernel_pa, _end - _start) || overlaps(r, boot_fdt_pa, fdt_size(fdt)))
		printk("initrd: %#lx to %#lx is also the kernel's or the device tree's: ignored\n",
		       r.start, r.end);
	else
		initrd = r;
}

static bool is_taken(unsigned long start, unsigned long end)
{
	for (unsigned i = 0; i < taken.count; i++)
		if (start < taken.range[i].end && end > taken.range[i].start)
			return true;
	return false;
}

bool memory_find(unsigned long size, struct range *found)
{
	for (unsigned i = 0; i < ram.count; i++) {
		unsigned long first = ALIGN_UP(ram.range[i].start, MiB(2)), end = ram.range[i].end;

		for (unsigned long at = first; at >= first && at < end && end - at >= size;
		     at += MiB(2)) {
			if (is_taken(at, at + size))
				continue;
			*found = (struct range){at, at + size};
			return true;
		}
	}
	return false;
}

static void reserve_last_boot(void)
{
	struct range most = {0, 0};
	unsigned long at;

	for (unsigned i = 0; i < ram.count; i++)
		if (ram.range[i].end - ram.range[i].start > most.end - most.start)
			most = ram.range[i];
	at = ALIGN_UP(most.start + (most.end - most.start) / 8 * 5, MiB(2));
	if (is_ram(at, at + last_boot_size) && !is_taken(at, at + last_boot_size) &&
	    taken.count < RANGES_MAX) {
		last_boot_ram = (struct range){at, at + last_boot_size};
		memory_reserve(at, last_boot_size);
		return;
	}
	printk("last_boot: there are no free %lu MiB at %#lx: no event is kept for the next boot\n",
	       last_boot_size >> 20, at);
}

int memory_init(const void *fdt)
{
	u64 addr, length;

	add_memory_nodes(fdt);
	memory_reserve(kernel_pa, _end - _start); /* first, while there is room in `taken` */
	memory_reserve(boot_fdt_pa, fdt_size(fdt));
	for (int i = 0; fdt_reservation(fdt, i, &addr, &length) == 0; i++)
		memory_reserve(addr, length);
	take_reserved_nodes(fdt);
	find_initrd(fdt);
	memory_reserve(initrd.start, initrd.end - initrd.start);
	if (!is_ram(initrd.start, initrd.end)) /* there was no room */
		initrd = (struct range){0, 0};
	if (last_boot_size)
		reserve_last_boot();
	if (is_ram(kernel_pa, image_to_pa(_end))) {
		if (module_ram_size && memory_find(module_ram_size, &module_ram))
			range_remove(&ram, module_ram.start, module_ram.end);
		return 0;
	}
	printk("memory: the device tree has no memory node that holds the kernel at %#lx\n",
	       kernel_pa);
	return -ENODEV;
}
