// needs: kern/base/fdt.c kern/mm/memory.c kern/base/string.c -DKERNEL_NAMES
// needs: -Ikern/ftrace/tests/host -Ikern/tests -include kern/tests/host.h
// needs: -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul -D_start=image_start -D_end=image_end
// needs: -fno-pie -no-pie
// seeds: trees
/*
 * libFuzzer's target for the reader of device trees, and for the lists of memory that are made from
 * one: any bytes, in a buffer of exactly their size. The sanitizers find an access outside of it,
 * libFuzzer a walk that does not end.
 */
#include "errno.h"
#include "fdt.h"
#include "memory.h"

void *malloc(size_t size);
void free(void *p);
void abort(void);
int dprintf(int fd, const char *fmt, ...);
int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

__asm__(".globl image_start, image_end\nimage_start = 0x10000000\nimage_end = 0x10100000\n");
extern unsigned long boot_fdt_pa;
static unsigned long accepted;

/* A fuzzer whose trees are all refused tests little: make fuzz checks this number. */
static __attribute__((destructor)) void report(void)
{
	dprintf(2, "stat::linked: %lu\n", accepted);
}

int printk(const char *fmt, ...)
{
	return 0;
}

static void ask_node(const void *fdt, int node)
{
	static const char *const names[] = {"ns16550a", "arm,pl011", NULL};
	const char *path = fdt_string(fdt, node, "stdout-path");
	u64 addr, size;
	u32 cell[3];

	if (!fdt_name(fdt, node))
		abort();
	if (path)
		fdt_path(fdt, path);
	for (int i = 0; i < 3; i++) {
		fdt_reg(fdt, node, i, &addr, &size);
		fdt_interrupt(fdt, node, i, cell);
	}
	fdt_parent(fdt, node);
	fdt_compatible(fdt, node, names[0]);
	if (node == 0)
		fdt_find_device(fdt, names);
}

static void sorted(const struct range_list *l)
{
	for (unsigned i = 0; i < l->count; i++)
		if (l->range[i].start >= l->range[i].end ||
		    (i && l->range[i - 1].end > l->range[i].start))
			abort();
}

static bool holds(const struct range_list *l, unsigned long address)
{
	for (unsigned i = 0; i < l->count; i++)
		if (l->range[i].start <= address && address < l->range[i].end)
			return true;
	return false;
}

static void ask(const void *fdt)
{
	unsigned nodes = 0;
	u64 hwid;

	for (int n = fdt_next_node(fdt, -1, NULL); n >= 0 && nodes++ < 200;
	     n = fdt_next_node(fdt, n, NULL))
		ask_node(fdt, n);
	for (int n = -1; (n = fdt_next_cpu(fdt, n, &hwid)) >= 0;)
		;
	kernel_pa = 0x80200000;
	boot_fdt_pa = 0x88000000;
	ram.count = taken.count = 0;
	initrd = (struct range){0, 0};
	if (memory_init(fdt) == 0 && (!holds(&ram, kernel_pa) || !holds(&taken, kernel_pa) ||
				      !holds(&taken, kernel_pa + 0xff000)))
		abort();
	sorted(&ram);
	sorted(&taken);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	u8 *tree = malloc(size);

	for (size_t i = 0; i < size; i++)
		tree[i] = data[i];
	if (fdt_check(tree, size) == 0) {
		accepted++;
		ask(tree);
	}
	free(tree);
	return 0;
}
