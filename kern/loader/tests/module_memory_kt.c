/*
 * Memory for modules and the symbols of their text, inside the kernel, with a module
 * that this test makes by hand: one function, `visit`, which calls what it is given.
 */
#include "loader/module_memory.h"
#include "asm-ftrace/insn.h"
#include "cpu.h"
#include "ftrace/tests/kt.h"
#include "loader/loader.h"
#include "string.h"
#include "unwind.h"

/* long visit(long (*fn)(long), long arg): fn(arg) + 1, with a frame record. Runs anywhere. */
__asm__(".pushsection .rodata\n\t.balign 8\nvisit_start:\n"
#ifdef __riscv
	"	addi	sp, sp, -16\n	sd	ra, 8(sp)\n	sd	s0, 0(sp)\n"
	"	addi	s0, sp, 16\n"
	"	mv	a2, a0\n	mv	a0, a1\n	jalr	a2\n	addi	a0, a0, 1\n"
	"	ld	ra, 8(sp)\n	ld	s0, 0(sp)\n	addi	sp, sp, 16\n	ret\n"
#else
	"	stp	x29, x30, [sp, #-16]!\n	mov	x29, sp\n"
	"	mov	x2, x0\n	mov	x0, x1\n"
	"	blr	x2\n	nop\n	nop\n	add	x0, x0, #1\n"
	"	ldp	x29, x30, [sp], #16\n"
	"	ret\n	nop\n	nop\n"
#endif
	"visit_end:\n	.popsection");
extern char visit_start[], visit_end[];
#define ADDS 7 /* the instruction that adds 1 */
#ifdef __riscv
#define ADD_2 0x00250513u
#else
#define ADD_2 0x91000800u
#endif

typedef long (*visit_t)(long (*fn)(long), long arg);
extern char ftrace_stubs[];

static struct module a = {.name = "kt_a"}, b = {.name = "kt_b"};
static const size_t small[MODULE_REGIONS] = {100, 5000, 8};

static long same(long n)
{
	return n;
}

static bool mapped_as(unsigned long va, unsigned want)
{
	unsigned long pa;
	unsigned prot;

	return mmu_lookup(va, &pa, &prot) == 0 && (prot & 7) == want;
}

/* Has each page of the region these permissions, and is its memory at no other address? */
static bool region_is(const struct module *m, enum module_region region, unsigned want)
{
	unsigned long start = region ? m->end[region - 1] : m->base, pa, other;
	unsigned prot;

	for (unsigned long va = start; va < m->end[region]; va += PAGE_SIZE)
		if (!mapped_as(va, want) || mmu_lookup(va, &pa, &prot) || pa < module_ram.start ||
		    pa >= module_ram.end ||
		    mmu_lookup((unsigned long)phys_to_virt(pa), &other, &prot) != -EFAULT)
			return false;
	return true;
}

static bool is_zero(const struct module *m)
{
	for (const u64 *p = (void *)m->base; p < (u64 *)m->end[MODULE_DATA]; p++)
		if (*p)
			return false;
	return true;
}

static void test_places(void)
{
	static struct module c = {.name = "kt_c"};
	unsigned long near = ALIGN_UP((unsigned long)_end, PAGE_SIZE);
	const size_t much[MODULE_REGIONS] = {MiB(2), PAGE_SIZE, 0},
		     more[MODULE_REGIONS] = {0, MiB(3), 0};
	unsigned pages = module_pages_free();

	kt_promise(pages == MiB(2) / PAGE_SIZE, "2 MiB for modules are free (%u pages)", pages);
	kt_promise(!module_memory_alloc(&a, small, MODULE_NEAR) && a.base == near,
		   "a near module is at the first page after the image");
	kt_promise(a.end[MODULE_TEXT] == a.base + PAGE_SIZE &&
			   a.end[MODULE_RODATA] == a.base + 3 * PAGE_SIZE &&
			   a.end[MODULE_DATA] == a.base + 4 * PAGE_SIZE,
		   "its regions are one after the other, of whole pages");
	kt_promise(region_is(&a, MODULE_TEXT, PROT_READ | PROT_WRITE) &&
			   region_is(&a, MODULE_DATA, PROT_READ | PROT_WRITE) && is_zero(&a),
		   "its pages are zero, RW-, and have no other address");
	kt_promise(a.end[MODULE_TEXT] - (unsigned long)ftrace_stubs <= INSN_REACH,
		   "its text reaches the stubs");
	kt_promise(!module_memory_alloc(&b, small, MODULE_NEAR) && b.base == a.end[MODULE_DATA],
		   "the next one is after it");
	kt_promise(!module_memory_alloc(&c, small, MODULE_FAR) &&
			   c.base - (unsigned long)ftrace_stubs > INSN_REACH,
		   "a far module's text is out of reach");
	module_memory_free(&c);
	kt_promise(!module_memory_alloc(&c, small, near + MiB(64)) && c.base == near + MiB(64),
		   "a module is at the address that was asked for");
	module_memory_free(&c);
	kt_promise(module_memory_alloc(&c, small, near + MiB(64) + 8) == -EINVAL,
		   "a misaligned address is refused");
	kt_promise(module_memory_alloc(&c, small, near - PAGE_SIZE) == -EINVAL,
		   "an address in the image is refused");
	kt_promise(module_memory_alloc(&c, small, KERNEL_BASE + GiB(1) - PAGE_SIZE) == -EINVAL,
		   "a module that ends above KERNEL_BASE + 1 GiB is refused");
	kt_promise(module_memory_alloc(&c, small, b.base + PAGE_SIZE) == -EEXIST,
		   "an address that is taken is refused");
	kt_promise(module_memory_alloc(&c, much, MODULE_FAR) == -ENOMEM &&
			   module_memory_alloc(&c, more, MODULE_FAR) == -ENOMEM,
		   "a module that is too large is refused");
	kt_promise(module_pages_free() == pages - 8 && !c.base, "what was refused has no pages");
	module_memory_free(&b);
	module_memory_free(&a);
	kt_promise(module_pages_free() == pages && !mapped_as(near, 0) &&
			   !mapped_as(near, PROT_READ | PROT_WRITE),
		   "all pages are free again");
}

/* What fits near is decided by the text's last word. */
static void test_near_limit(void)
{
	unsigned long room = ALIGN_DOWN((unsigned long)ftrace_stubs + INSN_REACH, PAGE_SIZE) -
			     ALIGN_UP((unsigned long)_end, PAGE_SIZE);
	const size_t fits[MODULE_REGIONS] = {MIN(room, MiB(1)), 0, PAGE_SIZE},
		     over[MODULE_REGIONS] = {room + 1};

	kt_promise(!module_memory_alloc(&a, fits, MODULE_NEAR) &&
			   a.end[MODULE_TEXT] - (unsigned long)ftrace_stubs <= INSN_REACH,
		   "text that ends where its calls just reach fits near");
	module_memory_free(&a);
	kt_promise(module_memory_alloc(&a, over, MODULE_NEAR) == -ENOMEM,
		   "text that is longer does not");
}

static int load_visit(struct module *m, unsigned long at)
{
	int err = module_memory_alloc(m, small, at);

	if (err)
		return err;
	memcpy((void *)m->base, visit_start, visit_end - visit_start);
	return module_memory_protect(m);
}

static void test_protection(void)
{
	visit_t visit;
	unsigned long pa, site;
	unsigned prot;

	kt_promise(!load_visit(&a, MODULE_NEAR) &&
			   region_is(&a, MODULE_TEXT, PROT_READ | PROT_EXEC) &&
			   region_is(&a, MODULE_RODATA, PROT_READ) &&
			   region_is(&a, MODULE_DATA, PROT_READ | PROT_WRITE),
		   "a protected module is R-X, R--, RW-");
	visit = (visit_t)a.base;
	site = a.base + 4 * ADDS;
	kt_promise(visit(same, 41) == 42, "and runs");
	kt_promise(mmu_lookup((unsigned long)text_alias(a.base), &pa, &prot) == -EFAULT,
		   "its text has no alias outside a batch");
	preempt_disable();
	text_alias_open();
	kt_promise(mapped_as((unsigned long)text_alias(a.base), PROT_READ | PROT_WRITE),
		   "inside a batch it has");
	*(volatile u32 *)text_alias(site) = ADD_2;
	arch_sync_line(site, (unsigned long)text_alias(site));
	text_alias_close();
	preempt_enable();
	arch_sync_all();
	kt_promise(visit(same, 41) == 43, "what a batch wrote is executed");
	module_memory_free(&a);
	preempt_disable();
	text_alias_open();
	kt_promise(mmu_lookup((unsigned long)text_alias(site), &pa, &prot) == -EFAULT,
		   "after it is freed there is no alias in a batch either");
	text_alias_close();
	preempt_enable();
}

/* Each CPU runs the module at the same address, and reads its data. */
struct visitor {
	unsigned long base;
	long wrong, number;
};

static void visit_module(void *arg)
{
	struct visitor *v = arg;

	if (((visit_t)v->base)(same, v->number) != v->number + 1 ||
	    *(long *)(v->base + 3 * PAGE_SIZE) != v->number)
		__atomic_fetch_add(&v->wrong, 1, __ATOMIC_RELAXED);
}

/*
 * Each round maps other pages at these addresses, so a stale translation or instruction would be
 * seen.
 */
static void test_rounds(void)
{
	struct visitor v = {0};
	unsigned long free = 0;
	unsigned pages = module_pages_free(), errors = 0;

	for (v.number = 0; v.number < 1000; v.number++) {
		/* takes other pages in every second round */
		errors += module_memory_alloc(&b, small, MODULE_FAR) != 0;
		if (v.number % 2)
			module_memory_free(&b);
		errors += load_visit(&a, MODULE_NEAR) != 0;
		v.base = a.base;
		*(long *)(a.base + 3 * PAGE_SIZE) = v.number;
		visit_module(&v);
		smp_call_others(visit_module, &v);
		module_memory_free(&a);
		module_memory_free(&b);
		if (!v.number)
			free = pages_free_count();
	}
	kt_promise(!errors && !v.wrong,
		   "in 1,000 rounds each CPU runs the module that is there (%ld do not)", v.wrong);
	kt_promise(pages_free_count() == free && module_pages_free() == pages,
		   "and nothing is left behind");
}

/* ---- what other CPUs have cached ---- */

static u32 faults;
static bool faulting;

static notrace bool note_fault(struct trap_frame *regs, unsigned long address)
{
	if (!READ_ONCE(faulting))
		return false;
	__atomic_fetch_add(&faults, 1, __ATOMIC_RELAXED);
	regs->pc += 4;
	return true;
}
EXCEPTION_HOOK(note_fault);

static void write_to(void *at)
{
	*(volatile u32 *)at = 0;
}

static void read_from(void *at)
{
	(void)*(volatile u32 *)at;
}

/* How many CPUs fault in fn(@at). */
static unsigned faults_in(void (*fn)(void *), unsigned long at)
{
	faults = 0;
	WRITE_ONCE(faulting, true);
	preempt_disable();
	fn((void *)at);
	preempt_enable();
	smp_call_others(fn, (void *)at);
	WRITE_ONCE(faulting, false);
	return faults;
}

static void test_flushes(void)
{
	unsigned long text;

	kt_promise(!module_memory_alloc(&a, small, MODULE_NEAR), "a module is loaded");
	text = a.base;
	kt_promise(!faults_in(write_to, text),
		   "every CPU can write its text before it is protected");
	module_memory_protect(&a);
	kt_promise(faults_in(write_to, text) == nr_cpus, "and none after that");
	kt_promise(!faults_in(read_from, text), "every CPU can read it");
	module_memory_free(&a);
	kt_promise(faults_in(read_from, text) == nr_cpus, "and none after it is freed");
}

/* ---- symbols ---- */

static struct ksym_table *table_of(const struct module *m, const char *name, const char *second)
{
	struct ksym_table *t = ksym_table_new(2);

	if (!t)
		return NULL;
	t->start = m->base;
	t->end = m->end[MODULE_TEXT];
	t->module = ksym_name(m->name);
	t->symbol[0].addr = m->base;
	t->symbol[0].name = ksym_name(name);
	t->symbol[1].addr = m->base + 0x100;
	t->symbol[1].name = ksym_name(second);
	t->tracer = m->base + 0x200;
	t->tracer_end = m->base + 0x300;
	return t;
}

static bool prints(const char *fmt, unsigned long addr, const char *want)
{
	char text[80];

	snprintf(text, sizeof(text), fmt, (void *)addr);
	return !strcmp(text, want);
}

static void test_names(void)
{
	char word[] = "kt_word";
	const char *name = ksym_name(word), *other = ksym_name("kt_other");

	kt_promise(name && name != word && !strcmp(name, word) && !name[strlen(name) + 1],
		   "a name is kept, with no parameters after it");
	word[0] = 'x';
	kt_promise(ksym_name("kt_word") == name && ksym_name("kt_other") == other && name != other,
		   "equal names are kept once");
	kt_promise(!ksym_name((char *)memset(kzalloc(5000), 'a', 4999)),
		   "a name longer than a page is refused");
}

static void test_tables(void)
{
	unsigned long offset = 0, size = 0, text;
	struct ksym_table *first, *second;

	kt_promise(!load_visit(&a, MODULE_NEAR), "a module is loaded");
	text = a.base;
	kt_promise(!in_text(text) && !may_be_in_module(text),
		   "its text is no text before its table is added");
	first = table_of(&a, "kt_visit", "kt_second");
	ksym_add(first);
	kt_promise(!strcmp(ksym_lookup(text + 0x104, &offset, &size) ?: "", "kt_second") &&
			   offset == 4 && size == PAGE_SIZE - 0x100,
		   "an address has a name, an offset and a size");
	kt_promise(prints("%ps", text, "kt_visit [kt_a]") &&
			   prints("%pS", text + 8, "kt_visit+0x8/0x100 [kt_a]") &&
			   prints("%pB", text + 0x100, "kt_visit+0x100/0x100 [kt_a]"),
		   "which is printed with its module");
	kt_promise(prints("%ps", (unsigned long)test_tables, "test_tables"),
		   "the kernel's symbols have none");
	kt_promise(in_text(text) && in_text(text + PAGE_SIZE - 4) && !in_text(text + PAGE_SIZE) &&
			   !in_text(text - 4),
		   "the module's text is text, and nothing beside it");
	kt_promise(in_tracer(text + 0x200) && !in_tracer(text + 0x300) && !in_tracer(text),
		   "its trampolines are the tracer's");
	ksym_remove(first);
	module_memory_free(&a);
	kt_promise(prints("%ps", text, "kt_visit [kt_a]") && !in_text(text) &&
			   !in_tracer(text + 0x200) && !may_be_in_module(text),
		   "text that is gone keeps its names, but is no text");
	kt_promise(!load_visit(&b, MODULE_NEAR) && b.base != text,
		   "another module gets other addresses");
	module_memory_free(&b);
	kt_promise(!load_visit(&b, text) && b.base == text, "unless it is placed there");
	second = table_of(&b, "kt_visit", "kt_third");
	ksym_add(second);
	kt_promise(prints("%ps", text, "kt_visit [kt_b]") &&
			   prints("%ps", text + 0x100, "kt_third [kt_b]") && in_text(text),
		   "the old names are forgotten");
	ksym_remove(second);
	module_memory_free(&b);
}

/*
 * Two pages of text are gone; a page of it is another module's now, and a third module is loaded.
 */
static void test_overlap(void)
{
	static struct module c = {.name = "kt_c"};
	const size_t long_text[MODULE_REGIONS] = {5000};
	unsigned long text;
	struct ksym_table *of_a, *of_b, *of_c;

	kt_promise(!load_visit(&c, MODULE_NEAR) && !module_memory_alloc(&a, long_text, MODULE_NEAR),
		   "two modules are loaded");
	text = a.base;
	of_c = table_of(&c, "kt_first", "kt_second");
	of_a = table_of(&a, "kt_long", "kt_longer");
	ksym_add(of_c);
	ksym_add(of_a);
	kt_promise(in_text(text) && in_tracer(text + 0x200) && in_text(c.base),
		   "the text of both is text");
	ksym_remove(of_a);
	kt_promise(!in_text(text) && !in_tracer(text + 0x200) && in_text(c.base),
		   "what is gone is not, though another module is loaded");
	kt_promise(prints("%ps", text + PAGE_SIZE, "kt_longer [kt_a]"), "it keeps its names");
	module_memory_free(&a);
	kt_promise(!load_visit(&b, text) && b.base == text,
		   "another module takes a part of its place");
	of_b = table_of(&b, "kt_short", "kt_shorter");
	ksym_add(of_b);
	kt_promise(prints("%ps", text, "kt_short [kt_b]") &&
			   !ksym_lookup(text + PAGE_SIZE, NULL, NULL),
		   "then all of its names are forgotten");
	ksym_remove(of_b);
	ksym_remove(of_c);
	module_memory_free(&b);
	module_memory_free(&c);
}

/* Modules come and go at addresses of their own. */
static void test_many_gone(void)
{
	unsigned long base = KERNEL_BASE + MiB(300);
	unsigned kept = 0, last = 0;

	for (unsigned i = 0; i < 3 * KSYM_GONE_MAX; i++) {
		struct ksym_table *table;

		load_visit(&a, base + MiB(1) * i);
		table = table_of(&a, "kt_visit", "kt_second");
		ksym_add(table);
		ksym_remove(table);
		module_memory_free(&a);
	}
	for (unsigned i = 0; i < 3 * KSYM_GONE_MAX; i++)
		if (ksym_module(base + MiB(1) * i)) {
			kept++;
			last = i;
		}
	kt_promise(kept == KSYM_GONE_MAX && last == 3 * KSYM_GONE_MAX - 1,
		   "the last %u modules that are gone keep their names: %u do", KSYM_GONE_MAX,
		   kept);
}

/* ---- a stack through a module ---- */

static volatile bool stop;

static long nap(long unused)
{
	while (!stop)
		sleep_ns(1000000);
	return 0;
}

static int nap_in_module(void *base)
{
	return ((visit_t)base)(nap, 0);
}

static long frames(const unsigned long *entries, unsigned count, const char *name)
{
	for (unsigned i = 0; i < count; i++)
		if (prints("%pB", entries[i], name))
			return i;
	return -1;
}

static void test_stack(void)
{
	unsigned long entries[20];
	struct ksym_table *table;
	struct thread *t;
	unsigned count;
	long at;

	kt_promise(!load_visit(&a, MODULE_NEAR), "a module is loaded");
	table = table_of(&a, "kt_visit", "kt_second");
	ksym_add(table);
	stop = false;
	t = kthread_run(nap_in_module, (void *)a.base, nr_cpus - 1, "kt_nap");
	while (READ_ONCE(t->state) != THREAD_SLEEPING)
		sleep_ns(1000000);
	count = stack_trace_save_pid(t->pid, t->cpu, entries, ARRAY_SIZE(entries));
#ifdef __riscv
	at = frames(entries, count, "kt_visit+0x1c/0x100 [kt_a]");
#else
	at = frames(entries, count, "kt_visit+0x14/0x100 [kt_a]");
#endif
	kt_promise(at > 0 && prints("%ps", entries[at - 1] - 1, "nap") &&
			   prints("%ps", entries[at + 1] - 1, "nap_in_module"),
		   "a thread's stack goes through a module's function");
	stop = true;
	thread_join(t);
	ksym_remove(table);
	module_memory_free(&a);
}

static int test_module_memory(int argc, char **argv)
{
	kt_begin();
	if (kt_promise(module_ram.end, "there is memory for modules")) {
		test_places();
		test_near_limit();
		test_protection();
		test_flushes();
		test_rounds();
		test_names();
		test_tables();
		test_overlap();
		test_stack();
		/* the last one: afterwards no address near the image has an old name */
		test_many_gone();
	}
	return kt_end();
}
SHELL_COMMAND("test-module-memory", test_module_memory, "",
	      "memory, protection and symbols of modules");

static long fail(long unused)
{
	panic("from a module");
}

/* What must end in a panic that names the module's text. */
static int break_module(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";

	load_visit(&a, MODULE_NEAR);
	ksym_add(table_of(&a, "kt_visit", "kt_second"));
	if (!strcmp(kind, "text"))
		*(volatile u32 *)a.base = 0;
	else if (!strcmp(kind, "rodata"))
		*(volatile u32 *)a.end[MODULE_TEXT] = 0;
	else if (!strcmp(kind, "data"))
		((visit_t)a.end[MODULE_RODATA])(same, 0);
	else
		((visit_t)a.base)(fail, 0);
	return 0;
}
SHELL_COMMAND("break-module", break_module, "[text|rodata|data]",
	      "write to a module's text or constants, execute its data, or panic in it");
