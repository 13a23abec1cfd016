/*
 * The observer: a QEMU TCG plugin that writes down what the guest really
 * executed, into a file mapping that survives the death of QEMU.
 *
 * It knows nothing of the kernel. The harness reads the ELF file and hands it
 * a list of addresses (grading/observer.py writes it, and reads the log).
 * Plugin API v1 gives instructions and addresses, no registers and no memory:
 * the instruction is read when QEMU translates it, and QEMU translates again
 * what was written over, so the word in a record is the word that was executed.
 *
 * Configuration, one entry a line, numbers in hexadecimal:
 *	start PA		the kernel's first instruction; nothing before it is logged
 *	text PA END		physical range; every store into it is logged
 *	site VA			a call site: logged with the word that stands there
 *	point VA		logged when executed
 *	mem VA			logged with the address that it loads from or stores to
 *	memrange LO HI		the same for every instruction of the range, if it touches a probe
 *	probe LO HI		memory that is touched to tell something
 *	returns LO HI		each return instruction of the range
 *	vector VA		entry of an exception
 *	fences			fence.i, sret / isb, dsb, dc, ic, eret
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * QEMU's plugin interface, declared here: Debian ships no header. Up to
 * version 3, insn_data returns a pointer; from 4 on it copies.
 */
#ifndef PLUGIN_VERSION
#define PLUGIN_VERSION 1
#endif
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
struct qemu_info;
enum { CB_NO_REGS };
enum { MEM_R = 1, MEM_W = 2, MEM_RW = 3 };
typedef uint64_t plugin_id;

__attribute__((visibility("default"))) int qemu_plugin_version = PLUGIN_VERSION;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int,
					  void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *,
					    void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
				      void (*)(unsigned, uint32_t, uint64_t, void *), int, int,
				      void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
bool qemu_plugin_mem_is_store(uint32_t);
unsigned qemu_plugin_mem_size_shift(uint32_t);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(uint32_t, uint64_t);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);
#if PLUGIN_VERSION >= 4
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
#else
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
#endif

/* The log: a header page, then records in the order in which they were reserved. */
enum { VCPUS = 64, HEADER = 4096, MAGIC = 0x31736243 /* "Cbs1" */ };
enum kind { K_START = 1, K_SITE, K_POINT, K_MEM, K_RETURN, K_VECTOR, K_FENCE, K_STORE };

struct header {
	uint32_t magic, record_size;
	uint64_t capacity;
	uint64_t reserved; /* records asked for; beyond capacity they are lost, but counted */
	uint64_t starts;   /* times that the first CPU executed the kernel's first instruction */
	uint64_t insns[VCPUS];
};

struct record {
	uint64_t addr;  /* pc, or the address touched (K_MEM) */
	uint64_t insns; /* instructions this vCPU had executed */
	uint32_t value; /* instruction word; K_STORE: offset into text; K_MEM: pc - KERNEL_BASE */
	uint8_t kind;   /* written last: 0 is an unfinished record */
	uint8_t vcpu;
	uint16_t size;  /* K_STORE: bytes */
};

static struct header *head;
static struct record *records;
static bool riscv, started, want_fences;
static unsigned boot_vcpu;
static uint64_t start_pa, text_pa, text_end;

struct range {
	uint64_t lo, hi;
};

static struct list {
	struct range *at;
	size_t n;
} sites, points, mems, tellers, probes, returns, vectors;

static bool listed(const struct list *l, uint64_t a)
{
	size_t lo = 0, hi = l->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (a < l->at[mid].lo)
			hi = mid;
		else if (a >= l->at[mid].hi)
			lo = mid + 1;
		else
			return true;
	}
	return false;
}

/* One instruction that is watched; its address is the callbacks' argument. Never freed. */
struct watch {
	uint64_t pc;
	uint32_t word;
	uint16_t ahead; /* instructions of its block from it to the end */
	uint8_t kind;
};

static void log_record(unsigned vcpu, const struct watch *w, uint8_t kind, uint64_t addr,
		       uint32_t value, uint16_t size)
{
	uint64_t seq = __atomic_fetch_add(&head->reserved, 1, __ATOMIC_RELAXED);
	struct record *r = records + seq;

	if (seq >= head->capacity)
		return;
	r->addr = addr;
	r->insns = head->insns[vcpu] - w->ahead;
	r->value = value;
	r->vcpu = vcpu;
	r->size = size;
	__atomic_store_n(&r->kind, kind, __ATOMIC_RELEASE);
}

static void block_executed(unsigned vcpu, void *insns)
{
	head->insns[vcpu] += (uintptr_t)insns;
}

static void executed(unsigned vcpu, void *arg)
{
	const struct watch *w = arg;

	if (w->kind == K_START) {
		if (!started)
			boot_vcpu = vcpu;
		started = true;
		head->starts += vcpu == boot_vcpu;
	}
	if (started)
		log_record(vcpu, w, w->kind, w->pc, w->word, 0);
}

static void touched(unsigned vcpu, uint32_t info, uint64_t addr, void *arg)
{
	const struct watch *w = arg;

	(void)info;
	if (started)
		log_record(vcpu, w, K_MEM, addr, (uint32_t)w->pc, 0);
}

static void told(unsigned vcpu, uint32_t info, uint64_t addr, void *arg)
{
	if (listed(&probes, addr))
		touched(vcpu, info, addr, arg);
}

/* The physical address decides: a mapping of its own does not hide a writer. */
static void stored(unsigned vcpu, uint32_t info, uint64_t addr, void *arg)
{
	struct qemu_plugin_hwaddr *hw;
	uint64_t pa;

	if (!started || !qemu_plugin_mem_is_store(info))
		return;
	hw = qemu_plugin_get_hwaddr(info, addr);
	if (!hw || qemu_plugin_hwaddr_is_io(hw))
		return;
	pa = qemu_plugin_hwaddr_phys_addr(hw);
	if (pa < text_end && pa + (1u << qemu_plugin_mem_size_shift(info)) > text_pa)
		log_record(vcpu, arg, K_STORE, ((struct watch *)arg)->pc, pa - text_pa,
			   1u << qemu_plugin_mem_size_shift(info));
}

static bool is_return(uint32_t word)
{
	return word == (riscv ? 0x00008067 : 0xd65f03c0);
}

static bool is_fence(uint32_t word)
{
	if (riscv)
		return (word & 0x707f) == 0x100f || word == 0x10200073;
	return (word & 0xfffff0df) == 0xd50330df	/* isb */
	    || (word & 0xfffff0ff) == 0xd503309f	/* dsb */
	    || word == 0xd69f03e0			/* eret */
	    || (word & 0xffffff80) == 0xd50b7b00	/* dc c*: to PoU, PoP */
	    || (word & 0xffffff80) == 0xd50b7a00	/* dc cvac */
	    || (word & 0xffffffe0) == 0xd50b7e20	/* dc civac */
	    || (word & 0xffffff00) == 0xd50b7500	/* ic ivau */
	    || (word & 0xfffff0ff) == 0xd508701f;	/* ic iallu, ialluis */
}

static uint32_t word_of(struct qemu_plugin_insn *insn)
{
	uint32_t word = 0;
	size_t n = qemu_plugin_insn_size(insn);
#if PLUGIN_VERSION >= 4
	qemu_plugin_insn_data(insn, &word, n < 4 ? n : 4);
#else
	memcpy(&word, qemu_plugin_insn_data(insn), n < 4 ? n : 4);
#endif
	return word;
}

/*
 * Tells apart what surely does not store, so that it runs at full speed.
 * arm64: loads of a general register by immediate, of a pair, of a literal;
 * what remains, atomics among it, may store.
 */
static bool may_store(uint32_t word)
{
	if (riscv)
		return (word & 3) != 3 || (word & 0x7f) == 0x23 || (word & 0x7f) == 0x27 ||
		       (word & 0x7f) == 0x2f;
	if (((word >> 25) & 5) != 4)
		return false;
	if ((word & 0x3f000000) == 0x39000000 || (word & 0x3f200000) == 0x38000000)
		return !(word & 0x00c00000);
	if ((word & 0x3a000000) == 0x28000000)
		return !(word & 0x00400000);
	return (word & 0x3b000000) != 0x18000000;
}

static struct watch *new_watch(uint64_t pc, uint32_t word, size_t ahead, enum kind kind)
{
	struct watch *w = malloc(sizeof(*w));

	if (!w)
		abort();
	*w = (struct watch){.pc = pc, .word = word, .ahead = ahead, .kind = kind};
	return w;
}

static enum kind kind_of(uint64_t pc, uint32_t word)
{
	if (pc == start_pa)
		return K_START;
	if (listed(&sites, pc))
		return K_SITE;
	if (listed(&points, pc))
		return K_POINT;
	if (listed(&vectors, pc))
		return K_VECTOR;
	if (is_return(word) && listed(&returns, pc))
		return K_RETURN;
	return want_fences && is_fence(word) ? K_FENCE : 0;
}

static void watch_insn(struct qemu_plugin_insn *insn, size_t ahead)
{
	uint64_t pc = qemu_plugin_insn_vaddr(insn);
	uint32_t word = word_of(insn);
	enum kind kind = kind_of(pc, word);

	if (kind)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, executed, CB_NO_REGS,
						       new_watch(pc, word, ahead, kind));
	if (listed(&mems, pc) || listed(&tellers, pc))
		qemu_plugin_register_vcpu_mem_cb(insn, listed(&mems, pc) ? touched : told, CB_NO_REGS,
						 MEM_RW, new_watch(pc, word, ahead, K_MEM));
	if (text_end && may_store(word))
		qemu_plugin_register_vcpu_mem_cb(insn, stored, CB_NO_REGS, MEM_W,
						 new_watch(pc, word, ahead, K_STORE));
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, block_executed, CB_NO_REGS, (void *)n);
	for (size_t i = 0; i < n; i++)
		watch_insn(qemu_plugin_tb_get_insn(tb, i), n - i);
}

static void add(struct list *l, uint64_t lo, uint64_t hi)
{
	if (!(l->n & (l->n - 1)))
		l->at = realloc(l->at, (l->n ? 2 * l->n : 1) * sizeof(*l->at));
	if (!l->at)
		abort();
	l->at[l->n++] = (struct range){lo, hi};
}

static int by_address(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static void sort(struct list *l)
{
	qsort(l->at, l->n, sizeof(*l->at), by_address);
}

static void config_line(const char *word, uint64_t a, uint64_t b)
{
	if (!strcmp(word, "start"))
		start_pa = a;
	else if (!strcmp(word, "text"))
		text_pa = a, text_end = b;
	else if (!strcmp(word, "site"))
		add(&sites, a, a + 1);
	else if (!strcmp(word, "point"))
		add(&points, a, a + 1);
	else if (!strcmp(word, "mem"))
		add(&mems, a, a + 1);
	else if (!strcmp(word, "memrange"))
		add(&tellers, a, b);
	else if (!strcmp(word, "probe"))
		add(&probes, a, b);
	else if (!strcmp(word, "returns"))
		add(&returns, a, b);
	else if (!strcmp(word, "vector"))
		add(&vectors, a, a + 1);
	else if (!strcmp(word, "fences"))
		want_fences = true;
	else
		fprintf(stderr, "observer: what is '%s'?\n", word);
}

static bool read_config(const char *path)
{
	char line[128], word[32];
	FILE *f = fopen(path, "r");

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		unsigned long a = 0, b = 0;

		if (sscanf(line, "%31s %lx %lx", word, &a, &b) >= 1)
			config_line(word, a, b);
	}
	fclose(f);
	sort(&sites), sort(&points), sort(&mems), sort(&tellers), sort(&probes), sort(&returns), sort(&vectors);
	return true;
}

/* The harness makes the file, at its full (sparse) size. */
static bool map_log(const char *path)
{
	int fd = open(path, O_RDWR);
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);

	if (size < HEADER)
		return false;
	head = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (head == MAP_FAILED)
		return false;
	records = (struct record *)((char *)head + HEADER);
	head->record_size = sizeof(struct record);
	head->capacity = (size - HEADER) / sizeof(struct record);
	__atomic_store_n(&head->magic, MAGIC, __ATOMIC_RELEASE);
	return true;
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id,
							       const struct qemu_info *info,
							       int argc, char **argv)
{
	const char *config = NULL, *log = NULL;

	riscv = !strcmp(*(const char *const *)info, "riscv64"); /* its first member */
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "config=", 7))
			config = argv[i] + 7;
		else if (!strncmp(argv[i], "log=", 4))
			log = argv[i] + 4;
	}
	if (!config || !log || !read_config(config) || !map_log(log)) {
		fprintf(stderr, "observer: needs config=FILE,log=FILE that can be opened\n");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
