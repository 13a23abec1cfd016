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

struct range_list ram, taken;
struct range initrd;
struct range module_ram;
unsigned long module_ram_size __attribute__((weak)); /* not const: the compiler would take the 0 for granted */

static void insert(struct range_list *l, unsigned at, struct range r)
{
	if (l->count == RANGES_MAX) {
		printk("memory: more than %d ranges: %#lx to %#lx is not used\n", RANGES_MAX,
		       r.start, r.end);
		return;
	}
	for (unsigned i = l->count++; i > at; i--)
		l->range[i] = l->range[i - 1];
	l->range[at] = r;
}

void range_remove(struct range_list *l, unsigned long start, unsigned long end)
{
	for (unsigned i = 0; i < l->count; i++) {
		struct range *r = &l->range[i], all = *r;

		if (all.end <= start || all.start >= end || end <= start)
			continue;
		r->end = MAX(MIN(all.end, start), all.start);
		if (all.end > end)
			insert(l, i + 1, (struct range){MAX(all.start, end), all.end});
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

static void reserve(unsigned long start, unsigned long size)
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
			reserve(addr, size);
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

static void find_initrd(const void *fdt)
{
	struct range r;

	if (!initrd_address(fdt, "linux,initrd-start", &r.start) ||
	    !initrd_address(fdt, "linux,initrd-end", &r.end) || r.end <= r.start)
		return;
	if (is_ram(r.start, r.end))
		initrd = r;
	else
		printk("initrd: %#lx to %#lx is not RAM: ignored\n", r.start, r.end);
}

static bool is_taken(unsigned long start, unsigned long end)
{
	for (unsigned i = 0; i < taken.count; i++)
		if (start < taken.range[i].end && end > taken.range[i].start)
			return true;
	return false;
}

/* The first place in RAM that nothing else has. */
static void find_module_ram(void)
{
	for (unsigned i = 0; i < ram.count; i++) {
		unsigned long at = ALIGN_UP(ram.range[i].start, MiB(2));

		for (; module_ram_size && at + module_ram_size <= ram.range[i].end; at += MiB(2)) {
			if (is_taken(at, at + module_ram_size))
				continue;
			module_ram = (struct range){at, at + module_ram_size};
			range_remove(&ram, module_ram.start, module_ram.end);
			return;
		}
	}
}

int memory_init(const void *fdt)
{
	u64 addr, length;

	add_memory_nodes(fdt);
	for (int i = 0; fdt_reservation(fdt, i, &addr, &length) == 0; i++)
		reserve(addr, length);
	take_reserved_nodes(fdt);
	reserve(kernel_pa, _end - _start);
	reserve(boot_fdt_pa, fdt_size(fdt));
	find_initrd(fdt);
	reserve(initrd.start, initrd.end - initrd.start);
	if (is_ram(kernel_pa, image_to_pa(_end))) {
		find_module_ram();
		return 0;
	}
	printk("memory: the device tree has no memory node that holds the kernel at %#lx\n",
	       kernel_pa);
	return -ENODEV;
}
