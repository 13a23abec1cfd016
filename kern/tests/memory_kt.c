/*
 * Memory, inside the kernel: no page is allocated twice or lost; W^X holds for
 * every page of the image at both of its addresses; the alias of text exists
 * only during a batch.
 */
#include "cpu.h"
#include "errno.h"
#include "fdt.h"
#include "ftrace/tests/kt.h"
#include "memory.h"
#include "print.h"
#include "string.h"

#define OBJECTS 400
#define ROUNDS 20000

struct owned {
	u8 *p;
	size_t size;
	u8 fill;
};

static u64 next_random(u64 *state)
{
	*state = *state * 6364136223846793005 + 1442695040888963407;
	return *state >> 33;
}

static bool still_ours(const struct owned *o)
{
	for (size_t i = 0; i < o->size; i++)
		if (o->p[i] != o->fill)
			return false;
	return true;
}

static void take(struct owned *o, u64 random)
{
	o->size = random % 100 ? random / 100 % 600 : random / 100 % 40000;
	o->fill = random >> 8;
	o->p = kmalloc(o->size);
	memset(o->p, o->fill, o->size);
}

/* Random allocations, each filled with its own byte; returns how many were overwritten. */
static unsigned churn(struct owned *objects, u64 seed)
{
	unsigned wrong = 0;

	for (int i = 0; i < ROUNDS; i++) {
		u64 random = next_random(&seed);
		struct owned *o = &objects[random % OBJECTS];

		if (!o->p) {
			take(o, next_random(&seed));
		} else {
			wrong += !still_ours(o) || (unsigned long)o->p % 16;
			kfree(o->p);
			o->p = NULL;
		}
	}
	for (int i = 0; i < OBJECTS; i++)
		kfree(objects[i].p);
	return wrong;
}

static int churn_thread(void *seed)
{
	struct owned *objects = kzalloc(OBJECTS * sizeof(*objects));
	unsigned wrong = churn(objects, (unsigned long)seed);

	kfree(objects);
	return wrong;
}

static void test_objects(void)
{
	struct thread *t[NR_CPUS];
	unsigned long wrong = 0, before;

	churn_thread((void *)99); /* from now on the slabs have the pages that they keep */
	before = pages_free_count();
	for (unsigned long i = 0; i < nr_cpus; i++)
		t[i] = kthread_run(churn_thread, (void *)(i + 1), i, "churn");
	for (unsigned i = 0; i < nr_cpus; i++)
		wrong += thread_join(t[i]);
	kt_promise(!wrong, "objects keep what was written into them (%lu do not)", wrong);
	kt_promise(pages_free_count() + 64 * nr_cpus >= before,
		   "the pages of freed objects are free again (%lu of %lu)", pages_free_count(),
		   before);
}

static bool was_reserved(unsigned long pa)
{
	for (unsigned i = 0; i < taken.count; i++)
		if (pa >= taken.range[i].start && pa < taken.range[i].end)
			return true;
	return false;
}

/* Allocate all pages, then free them all. */
static void test_every_page(void)
{
	unsigned long before = pages_free_count(), count = 0, reserved = 0;
	void **all = NULL, **p;

	while ((p = page_alloc(0))) {
		reserved += was_reserved(virt_to_phys(p));
		*p = all;
		all = p;
		count++;
	}
	kt_promise(pages_free_count() == 0 && count == before,
		   "every free page can be taken (%lu of %lu)", count, before);
	kt_promise(!kmalloc(9000) && !kzalloc(MiB(64)), "an allocation that is too large is NULL");
	kt_promise(!reserved, "no reserved page is given out (%lu are)", reserved);
	while ((p = all)) {
		all = *p;
		page_free(p, 0);
	}
	kt_promise(pages_free_count() == before, "all pages are free again after that");
	p = page_alloc(PAGE_ORDER_MAX - 1);
	kt_promise(p != NULL, "free neighbours are joined to one large block");
	page_free(p, PAGE_ORDER_MAX - 1);
}

static bool mapped_as(unsigned long va, unsigned long pa, unsigned want)
{
	unsigned long found;
	unsigned prot;

	return mmu_lookup(va, &found, &prot) == 0 && found == pa && (prot & 7) == want;
}

static void test_permissions(void)
{
	unsigned long wrong = 0;

	for (char *p = _text; p < _end; p += PAGE_SIZE) {
		unsigned want = p < _etext  ? PROT_READ | PROT_EXEC
				: p < _data ? PROT_READ
					    : PROT_READ | PROT_WRITE;
		unsigned long pa = image_to_pa(p);

		wrong += !mapped_as((unsigned long)p, pa, want);
		wrong += !mapped_as((unsigned long)phys_to_virt(pa), pa,
				    p < _data ? PROT_READ : PROT_READ | PROT_WRITE);
	}
	kt_promise(!wrong,
		   "text is R-X, rodata R--, data RW-, and never writable elsewhere (%lu pages are "
		   "not)",
		   wrong);
}

static void test_alias(void)
{
	unsigned long site = (unsigned long)test_alias, pa, alias = (unsigned long)text_alias(site);
	unsigned prot;

	kt_promise(mmu_lookup(alias, &pa, &prot) == -EFAULT, "text has no alias outside a batch");
	preempt_disable();
	text_alias_open();
	kt_promise(mapped_as(alias, image_to_pa((void *)site), PROT_READ | PROT_WRITE),
		   "inside a batch the alias is writable");
	kt_promise(mapped_as(site, image_to_pa((void *)site), PROT_READ | PROT_EXEC),
		   "and text itself is R-X");
	text_alias_close();
	preempt_enable();
	kt_promise(mmu_lookup(alias, &pa, &prot) == -EFAULT, "after the batch there is no alias");
}

static void test_map(void)
{
	static unsigned long va = MMIO_BASE + GiB(4);
	unsigned long pa = image_to_pa(_rodata);

	va += PAGE_SIZE;
	kt_promise(mmu_map((unsigned long)_text, pa, PAGE_SIZE, PROT_READ) == -EEXIST,
		   "a page that is mapped cannot be mapped again");
	kt_promise(mmu_map(va, pa, PAGE_SIZE, PROT_READ) == 0 && mapped_as(va, pa, PROT_READ),
		   "a page can be mapped");
	kt_promise(memcmp((void *)va, _rodata, PAGE_SIZE) == 0, "and read");
}

static int test_memory(int argc, char **argv)
{
	kt_begin();
	test_permissions();
	test_alias();
	test_map();
	test_every_page();
	test_objects();
	return kt_end();
}
SHELL_COMMAND("test-memory", test_memory, "", "pages, objects, permissions");

/* DEBUG=1: what must end in a panic that names the object. */
static int break_memory(int argc, char **argv)
{
	u64 *p = kmalloc(100), *q = kmalloc(100);

	kfree(p);
	if (argc > 1 && !strcmp(argv[1], "twice"))
		kfree(p);
	else
		p[3] = 1;
	kfree(kmalloc(100));
	kfree(q);
	return 0;
}
SHELL_COMMAND("break-memory", break_memory, "[twice]",
	      "use an object after it was freed, or free it twice");
