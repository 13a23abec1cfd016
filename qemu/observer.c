/*
 * The observer: a QEMU TCG plugin that logs what each processor executed, and
 * the values of its registers, into a mapped file. The file survives the death
 * of QEMU.
 *
 * The observer knows nothing of the kernel: the harness reads the ELF file,
 * writes a list of addresses, and reads the log (grading/machine/observer.py). QEMU
 * translates an instruction again when its word was overwritten, so the word in
 * a record is the word that was executed. Registers are read before the
 * instruction is executed.
 *
 * A thread is identified by the 16 KiB stack that sp points into. Its interrupt
 * level is the number of exceptions that it has taken and not returned from.
 *
 * Configuration, one entry on each line, numbers in hexadecimal:
 *	start PA		the kernel's first instruction; nothing before it is logged
 *	text VA PA SIZE		the kernel's text; every store into it is logged
 *	image FILE		the text as linked, which may be executed
 *	word VA			a word of the text that the kernel changes: each value other than
 *				the linked one is logged
 *	head SIZE		the first SIZE bytes of text may also run at their physical address,
 *				before there are page tables
 *	module LO HI AT		virtual addresses of text that is loaded later; as linked it is in
 *				the image from AT on. There may be several, also at the same
 *				addresses: then each of them may be executed
 *	firmware PA END		memory that may also be executed, in a more privileged mode
 *	site VA N		the registers are kept; N = 1: only if its word is not the nop, and
 *				it is not logged otherwise
 *	exit VA			the registers are kept
 *	body VA, home VA	the registers are compared with the kept ones
 *	arguments VA		a body or an entry: logged with eight argument registers
 *	callback VA N AT	logged with its arguments, four frame records, and N words at AT
 *				(AT 0 to 3: at the address in this argument)
 *	enter VA, leave VA	the first instruction of a function and its exits: an exit without
 *				an entry is logged
 *	hit VA			logged while recording
 *	stray VA		the same, if the thread has not just executed a site that is not a
 *				nop
 *	point VA		always logged
 *	deref VA		a hit, with the word to which the first argument register points
 *	looks LO HI		code whose loads of text words are logged; there may be several
 *	tracer LO HI		code whose loads and stores below sp, or while sp is not a multiple
 *				of 16, are logged: the first 64 accesses of each instruction in each
 *				recording are checked, and one is logged
 *	between LO HI SIZE	code whose instructions are checked, in the calls that `pick` picks.
 *				Logged are those before which sp is above its value where the
 *				registers were kept, or more than SIZE bytes below it, or no
 *				multiple of 16; or a reserved register or the frame pointer has a
 *				wrong value: four times at most in each recording. There may be
 *				several
 *	pick SEED		in one call of eight, which follow from SEED
 *	order LO HI		code whose memory barriers and whose stores outside of its own stack
 *				are logged while `ordering`; there may be several
 *	ordered LO HI		data from which that code's loads are logged, the first 64 of each
 *				instruction; there may be several
 *	vector VA		entry of an exception
 *	birth VA		the first instruction of a thread
 *	fences			log fence.i, sret / isb, dsb, dc, ic, eret; and instructions that
 *				set the vector or the page tables
 *	mcount			a site comes after the prologue: the parent is in the frame record
 *
 * Sites, exits, bodies, homes, callbacks and hits are logged only while `recording`
 * is set in the log's header, entries of `order` only while `ordering` is set. The
 * harness sets both.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plugin.h"

__attribute__((visibility("default"))) int qemu_plugin_version = PLUGIN_VERSION;

/* ---- the log ------------------------------------------------------------------ */

enum { VCPUS = 64, HEADER = 4096, MAGIC = 0x32736243 /* "Cbs2" */ };
/* clang-format off */
enum kind { /* grading/machine/observer.py says what each is */
	K_START = 1, K_SITE, K_BODY, K_EXIT, K_HOME, K_CALLBACK, K_HIT, K_POINT, K_VECTOR, K_FENCE,
	K_STORE, K_LOOK, K_WORD, K_FOREIGN, K_SETTING, K_MIDDLE, K_BELOW, K_WRITE, K_READ,
	K_BETWEEN
};
/* clang-format on */

/* The first page of the log. The records follow, in the order in which they were reserved. */
struct header {
	uint32_t magic, record_size;
	uint64_t capacity;
	uint64_t reserved;  /* slots reserved so far; slots beyond capacity are counted and lost */
	uint64_t starts;    /* times that the first CPU executed the kernel's first instruction */
	uint64_t recording; /* written by the harness */
	uint64_t insns[VCPUS];
	uint64_t ordering;  /* written by the harness */
	uint64_t between;   /* instructions that were checked for `between` */
};

struct record {
	uint8_t kind;	/* written last: 0 is an unfinished record */
	uint8_t more;	/* number of slots of eight words that follow */
	uint8_t vcpu, level;
	uint16_t trap;	/* level > 0: which of the thread's exceptions */
	uint16_t size;	/* K_STORE, K_WRITE: bytes; else: the number of the recording; 0: none */
	uint32_t word;	/* the instruction */
	uint32_t thread;
	uint64_t addr;	/* the instruction's address as linked; K_LOOK: the address of the load */
	uint64_t insns; /* instructions that this vCPU had executed */
	uint64_t v[4];
};
_Static_assert(sizeof(struct record) == 64, "as grading/machine/observer.py reads it");

static struct header *head;
static struct record *records;

/* ---- what is watched ------------------------------------------------------------ */

enum role {
	START = 1 << 0,
	BIRTH = 1 << 1,
	VECTOR = 1 << 2,
	FENCE = 1 << 3,
	BODY = 1 << 4,
	HOME = 1 << 5,
	CALLBACK = 1 << 6,
	HIT = 1 << 7,
	POINT = 1 << 8,
	DEREF = 1 << 9,
	EXIT = 1 << 10,
	SITE = 1 << 11,
	ARGUMENTS = 1 << 12,
	WORD = 1 << 13,
	STRAY = 1 << 14,
	ENTER = 1 << 15,
	LEAVE = 1 << 16,
	GATED = STRAY | BODY | HOME | CALLBACK | HIT | EXIT | SITE | DEREF | ARGUMENTS,
	EXECUTED = GATED | START | BIRTH | VECTOR | POINT | ENTER | LEAVE
};

struct place {
	uint64_t at, from; /* `from` and `words` are those of a callback */
	uint32_t roles, words;
};

/* Counts how often something was done in one recording, or one ordering. */
struct often {
	uint64_t window, times;
};

/* A watched instruction, the argument of its callbacks. Never freed. */
struct watch {
	struct place p;
	uint32_t word;
	uint32_t ahead; /* instructions from this one to the end of its block */
	bool privileged; /* the firmware's, and it ran in the firmware's mode */
	bool order;	/* it lies in an `order` range */
	uint64_t most;	/* bytes by which sp may be lower than where the registers were kept */
	/* checks of its accesses while recording; logged loads while ordering */
	struct often looked, loaded, wrong;
};

/* A range of addresses. */
struct range {
	uint64_t lo, hi;
	uint64_t image; /* of a module: where in the image its text is; of `between`: SIZE */
};

static struct ranges {
	struct range r[16];
	unsigned n;
} looks, order, ordered, modules, between;

static struct place *places;
static size_t n_places;
static struct range tracer, firmware, text /* virtual */;
static uint64_t start_pa, text_pa, head_size, pick_seed;
static uint8_t *image;
static bool want_fences, mcount, started;
static unsigned boot_vcpu;
static uint8_t *ram; /* the host address that corresponds to guest physical address 0 */
/* the host address of the first instruction that was translated, which is in ROM on riscv64 */
static const uint8_t *reset;
static uint64_t reset_pc;

enum { MASKED = 32, CPU, THREAD, KEPT, CAUSE = KEPT, FROM, FAULT, MODE, REGISTERS };
enum { MOST_PRIVILEGED = 3 };

/*
 * An architecture's registers by QEMU's names: first those that are kept, one bit each in a mask,
 * then those that describe an exception.
 */
static const struct isa {
	/*
	 * MASKED: contains the bits `masks`; CPU, THREAD: pointers to the current CPU and thread,
	 * if not in a general register. CAUSE, FROM, FAULT: of an exception; MODE: the privilege
	 * mode, at most MOST_PRIVILEGED, where there is firmware
	 */
	const char *names[REGISTERS];
	uint64_t masks; /* bits that mask interrupts */
	unsigned sp, fp, link, argument;
	uint64_t per_cpu; /* registers that change when a thread moves to another CPU */
	uint64_t reserved; /* registers that no function changes */
	uint32_t nop, eret;
	/* clang-format off */
} riscv64 = {
	{"zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1",
	 "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
	 "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
	 [MASKED] = "sstatus", [CPU] = "", [THREAD] = "",
	 [CAUSE] = "scause", [FROM] = "sepc", [FAULT] = "stval", [MODE] = "priv"},
	.masks = 1 << 1, .sp = 2, .fp = 8, .link = 1, .argument = 10, .per_cpu = 1 << 4,
	.reserved = 1 << 3 | 1 << 4,
	.nop = 0x00000013, .eret = 0x10200073,
}, arm64 = {
	{"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
	 "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26",
	 "x27", "x28", "x29", "x30", "sp",
	 [MASKED] = "cpsr", [CPU] = "TPIDR_EL1", [THREAD] = "SP_EL0",
	 [CAUSE] = "ESR_EL1", [FROM] = "ELR_EL1", [FAULT] = "FAR_EL1", [MODE] = ""},
	.masks = 0xf << 6, .sp = 31, .fp = 29, .link = 30, .argument = 0, .per_cpu = 1ull << CPU,
	.reserved = 1 << 18,
	.nop = 0xd503201f, .eret = 0xd69f03e0,
}, *isa;
/* clang-format on */

static int by_address(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static struct place place_at(uint64_t at)
{
	struct place key = {.at = at};
	const struct place *found = bsearch(&key, places, n_places, sizeof(*places), by_address);

	return found ? *found : key;
}

static bool inside(const struct range *r, uint64_t a)
{
	return a >= r->lo && a < r->hi;
}

static const struct range *range_of(const struct ranges *all, uint64_t a)
{
	unsigned i = 0;

	while (i < all->n && !inside(&all->r[i], a))
		i++;
	return i < all->n ? &all->r[i] : NULL;
}

static bool inside_any(const struct ranges *all, uint64_t a)
{
	return range_of(all, a);
}

/* ---- registers and memory of the CPU that runs the callback ------------------------ */

static struct cpu {
	struct qemu_plugin_register *reg[REGISTERS];
	GByteArray *bytes;
} cpus[VCPUS];

static uint64_t reg(unsigned vcpu, unsigned number)
{
	struct cpu *c = &cpus[vcpu];
	uint64_t value = 0;

	if (!c->reg[number])
		return 0;
	g_byte_array_set_size(c->bytes, 0);
	qemu_plugin_read_register(c->reg[number], c->bytes);
	memcpy(&value, c->bytes->data, c->bytes->len < 8 ? c->bytes->len : 8);
	return value;
}

/* The value of a register for keeping or comparing. */
static uint64_t kept_reg(unsigned vcpu, unsigned number)
{
	return reg(vcpu, number) & (number == MASKED ? isa->masks : ~0ull);
}

/* Read @count words at @at; all are 0 if the memory cannot be read. */
static bool load(unsigned vcpu, uint64_t at, uint64_t *words, unsigned count)
{
	struct cpu *c = &cpus[vcpu];
	bool read = at % 8 == 0 && at && qemu_plugin_read_memory_vaddr(at, c->bytes, 8 * count);

	memset(words, 0, 8 * count);
	if (read)
		memcpy(words, c->bytes->data, 8 * count);
	return read;
}

static uint64_t record_at(uint64_t fp)
{
	return isa == &riscv64 ? fp - 16 : fp;
}

/* Read the frame record at @fp: the caller's frame pointer and the return address. */
static bool frame_record(unsigned vcpu, uint64_t fp, uint64_t record[2])
{
	return load(vcpu, record_at(fp), record, 2);
}

static void vcpu_begins PLUGIN_CALLBACK(unsigned, vcpu)
{
	GArray *all = qemu_plugin_get_registers();
	struct cpu *c = &cpus[vcpu % VCPUS];

	(void)unused;
	c->bytes = g_byte_array_new();
	for (unsigned i = 0; i < all->len; i++) {
		struct register_descriptor *r =
			(void *)(all->data + i * g_array_get_element_size(all));

		for (unsigned n = 0; n < REGISTERS; n++)
			if (!c->reg[n] && !strcmp(r->name, isa->names[n]))
				c->reg[n] = r->handle;
	}
}

/* ---- threads ------------------------------------------------------------------------ */

enum { BELOW_SP = 512 /* bytes */, LEVELS = 4, STACK_SHIFT = 14, THREADS = 4096 };

/*
 * The registers at a site or an exit from which the thread, at this level, has not continued yet.
 */
struct kept {
	uint64_t window; /* the number of the recording; 0: nothing is kept */
	uint64_t at;
	uint8_t vcpu;
	bool picked; /* the instructions of this call are checked */
	uint64_t reg[KEPT];
};

/* Only the CPU that runs on this stack accesses it. */
struct thread {
	uint64_t stack; /* sp >> STACK_SHIFT; 0: unused */
	uint32_t id;
	uint16_t traps;
	uint8_t level;
	uint32_t entered; /* a bit for each level */
	struct kept kept[LEVELS];
};

static struct thread threads[THREADS + 1]; /* the last is shared by all threads that do not fit */
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t last_id;

static struct thread *new_thread(struct thread *t, uint64_t stack)
{
	static unsigned used;

	pthread_mutex_lock(&threads_lock);
	while (t->stack && t->stack != stack) /* another CPU may have taken this entry meanwhile */
		t = threads + (t - threads + 1) % THREADS;
	if (!t->stack) {
		if (++used >= THREADS)
			t = threads + THREADS;
		t->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&t->stack, stack, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&threads_lock);
	return t;
}

static uint64_t stack_of(uint64_t sp)
{
	return ((sp - 1) >> STACK_SHIFT) + 1;
}

static struct thread *thread_of(uint64_t sp)
{
	uint64_t stack = stack_of(sp), is;
	struct thread *t = threads + stack % THREADS;

	while ((is = __atomic_load_n(&t->stack, __ATOMIC_ACQUIRE)) != stack) {
		if (!is)
			return new_thread(t, stack);
		t = threads + (t - threads + 1) % THREADS;
	}
	return t;
}

/* A new thread begins on a stack that an earlier thread may have used. */
static void born(struct thread *t)
{
	t->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
	t->level = 0;
	t->traps = 0;
	t->entered = 0;
	for (int i = 0; i < LEVELS; i++)
		t->kept[i].window = 0;
}

static void enter_exception(struct thread *t)
{
	t->traps += !t->level;
	t->level += t->level < 255;
	if (t->level < LEVELS)
		t->kept[t->level].window = 0;
}

static plugin_u64 since; /* instructions that are not in head->insns yet */
enum { OFTEN = 1 << 16 };

static uint64_t insns_before(unsigned vcpu, const struct watch *w)
{
	return head->insns[vcpu] + qemu_plugin_u64_get(since, vcpu) - w->ahead;
}

static void keep(unsigned vcpu, const struct watch *w, struct thread *t)
{
	struct kept *k = &t->kept[t->level];

	if (t->level >= LEVELS)
		return;
	for (unsigned n = 0; n < KEPT; n++)
		k->reg[n] = kept_reg(vcpu, n);
	k->vcpu = vcpu;
	k->at = w->p.at;
	k->picked = (pick_seed + insns_before(vcpu, w)) * 0x9e3779b97f4a7c15 >> 61 == 0;
	k->window = head->recording;
}

#define NOTHING_KEPT (~0ul)

static bool is_open(const struct thread *t)
{
	return t->level < LEVELS && t->kept[t->level].window &&
	       t->kept[t->level].window == head->recording;
}

/* Were the registers kept at this address? */
static bool is_open_from(const struct thread *t, uint64_t at)
{
	return is_open(t) && t->kept[t->level].at == at;
}

/* The mask of registers whose values differ from the kept ones. */
static uint64_t changed(unsigned vcpu, struct thread *t)
{
	struct kept *k = &t->kept[t->level];
	uint64_t mask = 0;

	if (!is_open(t))
		return NOTHING_KEPT;
	k->window = 0;
	for (unsigned n = 0; n < KEPT; n++)
		mask |= (uint64_t)(k->reg[n] != kept_reg(vcpu, n)) << n;
	return k->vcpu == vcpu ? mask : mask & ~isa->per_cpu;
}

/* ---- writing records ----------------------------------------------------------------- */

/*
 * Reserve a record and @more slots after it; NULL if the log is full. finish() makes the record
 * valid.
 */
static struct record *begin(unsigned vcpu, const struct watch *w, const struct thread *t,
			    unsigned more)
{
	uint64_t seq = __atomic_fetch_add(&head->reserved, 1 + more, __ATOMIC_RELAXED);
	struct record *r = records + seq;

	if (seq + more >= head->capacity)
		return NULL;
	r->more = more;
	r->vcpu = vcpu;
	r->word = w->word;
	r->addr = w->p.at;
	r->insns = insns_before(vcpu, w);
	r->size = head->recording;
	if (t) {
		r->thread = t->id;
		r->level = t->level;
		r->trap = t->level ? t->traps : 0;
	}
	return r;
}

static void finish(struct record *r, enum kind kind)
{
	__atomic_store_n(&r->kind, kind, __ATOMIC_RELEASE);
}

/* v: where a load or a store was, and the value, whose upper half is that of 16 bytes. */
static void finish_access(struct record *r, enum kind kind, uint32_t info, uint64_t at)
{
	struct mem_value value = qemu_plugin_mem_get_value(info);

	r->size = 1u << qemu_plugin_mem_size_shift(info);
	r->v[0] = at;
	r->v[1] = value.data.u128.low;
	r->v[2] = value.type == 4 ? value.data.u128.high : 0;
	finish(r, kind);
}

static void simple(unsigned vcpu, const struct watch *w, const struct thread *t, enum kind kind,
		   uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3)
{
	struct record *r = begin(vcpu, w, t, 0);

	if (!r)
		return;
	r->v[0] = v0, r->v[1] = v1, r->v[2] = v2, r->v[3] = v3;
	finish(r, kind);
}

/*
 * v: the mask of changed registers (a callback that set pc may have led here), parent, sp, frame
 * pointer.
 */
static void log_site(unsigned vcpu, const struct watch *w, struct thread *t)
{
	uint64_t fp = reg(vcpu, isa->fp), record[2] = {0, 0};

	if (w->p.words && w->word == isa->nop) {
		if (is_open_from(t, w->p.at))
			changed(vcpu, t);
		return;
	}
	if (mcount)
		frame_record(vcpu, fp, record);
	simple(vcpu, w, t, K_SITE, changed(vcpu, t), mcount ? record[1] : reg(vcpu, isa->link),
	       reg(vcpu, isa->sp), fp);
	if (w->word != isa->nop)
		keep(vcpu, w, t);
}

/*
 * v: the mask of changed registers, the first argument register, link register, sp; with ARGUMENTS
 * eight argument registers follow.
 */
static void log_arrival(unsigned vcpu, const struct watch *w, struct thread *t, enum kind kind)
{
	bool arguments = w->p.roles & ARGUMENTS;
	/* called by the tracer, not from its site */
	bool elsewhere = kind == K_BODY && !is_open_from(t, w->p.at - 4);
	uint64_t mask = kind == K_HIT ? 0 : elsewhere ? NOTHING_KEPT : changed(vcpu, t), *follow;
	struct record *r;

	if (kind == K_BODY && !arguments && mask == NOTHING_KEPT)
		return;
	if (!(r = begin(vcpu, w, t, arguments)))
		return;
	follow = (uint64_t *)(r + 1);
	r->v[0] = mask;
	r->v[1] = reg(vcpu, isa->argument);
	r->v[2] = reg(vcpu, isa->link);
	r->v[3] = reg(vcpu, isa->sp);
	for (unsigned n = 0; n < 8 && arguments; n++)
		follow[n] = reg(vcpu, isa->argument + n);
	finish(r, kind);
}

/* v: the return address, the return value, sp, frame pointer. */
static void log_exit(unsigned vcpu, const struct watch *w, struct thread *t)
{
	simple(vcpu, w, t, K_EXIT, reg(vcpu, isa->link), reg(vcpu, isa->argument),
	       reg(vcpu, isa->sp), reg(vcpu, isa->fp));
	keep(vcpu, w, t);
}

/*
 * v: the arguments. Then four frame records from the frame pointer on (frame below, return
 * address), then words of memory.
 */
static void log_callback(unsigned vcpu, const struct watch *w, const struct thread *t)
{
	struct record *r = begin(vcpu, w, t, 1 + (w->p.words + 7) / 8);
	uint64_t fp = reg(vcpu, isa->fp), *walk = (uint64_t *)(r + 1);

	if (!r)
		return;
	for (unsigned n = 0; n < 4; n++)
		r->v[n] = reg(vcpu, isa->argument + n);
	for (unsigned n = 0; n < 4 && frame_record(vcpu, fp, walk + 2 * n); n++)
		fp = walk[2 * n];
	if (w->p.words)
		load(vcpu, w->p.from < 4 ? r->v[w->p.from] : w->p.from, (uint64_t *)(r + 2),
		     w->p.words);
	finish(r, K_CALLBACK);
}

/*
 * v: the first three argument registers and the link register; with DEREF the word at the first
 * instead of the second.
 */
static void log_hit(unsigned vcpu, const struct watch *w, const struct thread *t, enum kind kind)
{
	uint64_t a0 = reg(vcpu, isa->argument), to = 0;

	if (w->p.roles & DEREF)
		load(vcpu, a0, &to, 1);
	else
		to = reg(vcpu, isa->argument + 1);
	simple(vcpu, w, t, kind, a0, to, reg(vcpu, isa->argument + 2), reg(vcpu, isa->link));
}

/* ---- callbacks ------------------------------------------------------------------------ */

static void much_executed(unsigned vcpu, void *unused)
{
	(void)unused;
	head->insns[vcpu] += qemu_plugin_u64_get(since, vcpu);
	qemu_plugin_u64_set(since, vcpu, 0);
}

static void started_here(unsigned vcpu, const struct watch *w)
{
	if (!started)
		boot_vcpu = vcpu;
	started = true;
	head->starts += vcpu == boot_vcpu;
	simple(vcpu, w, NULL, K_START, 0, 0, 0, 0);
}

static void pass(unsigned vcpu, const struct watch *w, struct thread *t)
{
	uint32_t here = 1u << (t->level & 31);

	if (w->p.roles & ENTER) {
		t->entered |= here;
		return;
	}
	if (!(t->entered & here))
		simple(vcpu, w, t, K_MIDDLE, 0, 0, 0, 0);
	t->entered &= ~here;
}

static void log_roles(unsigned vcpu, const struct watch *w, struct thread *t, uint32_t roles)
{
	if (roles & BODY)
		log_arrival(vcpu, w, t, K_BODY);
	else if (roles & HOME)
		log_arrival(vcpu, w, t, K_HOME);
	else if (roles & ARGUMENTS)
		log_arrival(vcpu, w, t, K_HIT);
	if (roles & CALLBACK)
		log_callback(vcpu, w, t);
	if (roles & STRAY && !is_open(t))
		log_hit(vcpu, w, t, K_HIT);
	if (roles & (HIT | DEREF))
		log_hit(vcpu, w, t, K_HIT);
	if (roles & POINT)
		log_hit(vcpu, w, t, K_POINT);
	if (roles & EXIT)
		log_exit(vcpu, w, t);
	if (roles & SITE)
		log_site(vcpu, w, t);
}

static void executed(unsigned vcpu, void *arg)
{
	const struct watch *w = arg;
	uint32_t roles = w->p.roles;
	struct thread *t;

	if (roles & START)
		started_here(vcpu, w);
	if (!head->recording)
		roles &= ~GATED;
	if (!started || !(roles & ~(START | WORD)))
		return;
	t = thread_of(reg(vcpu, isa->sp));
	if (roles & BIRTH) {
		if (is_open(t)) /* a call of the stack's earlier thread never returned */
			log_arrival(vcpu, w, t, K_HOME);
		born(t);
	}
	if (roles & VECTOR) {
		simple(vcpu, w, t, K_VECTOR, reg(vcpu, CAUSE), reg(vcpu, FROM), reg(vcpu, FAULT),
		       reg(vcpu, isa->link));
		enter_exception(t);
	}
	if (roles & (ENTER | LEAVE))
		pass(vcpu, w, t);
	log_roles(vcpu, w, t, roles);
}

/* v: a cache operation's address. */
static void fence(unsigned vcpu, void *arg)
{
	const struct watch *w = arg;
	struct thread *t;

	if (!started)
		return;
	t = thread_of(reg(vcpu, isa->sp));
	simple(vcpu, w, t, K_FENCE, isa == &arm64 ? reg(vcpu, w->word & 31) : 0, 0, 0, 0);
	if (w->word == isa->eret && t->level)
		t->level--;
}

static void barrier(unsigned vcpu, void *arg)
{
	if (started && head->ordering)
		simple(vcpu, arg, thread_of(reg(vcpu, isa->sp)), K_FENCE, 0, 0, 0, 0);
}

/* v: the new value of the system register. */
static void set(unsigned vcpu, void *arg)
{
	const struct watch *w = arg;

	if (started)
		simple(vcpu, w, NULL, K_SETTING,
		       reg(vcpu, isa == &arm64 ? w->word & 31 : w->word >> 15 & 31), 0, 0, 0);
}

static void unexpected(unsigned vcpu, void *arg)
{
	if (started)
		simple(vcpu, arg, NULL, K_FOREIGN, reg(vcpu, isa->sp), 0, 0, 0);
}

/* QEMU translates a block separately for each mode, so one check of the mode is enough. */
static void in_firmware(unsigned vcpu, void *arg)
{
	struct watch *w = arg;

	if (!w->privileged)
		w->privileged = reg(vcpu, MODE) == MOST_PRIVILEGED;
	if (!w->privileged)
		unexpected(vcpu, arg);
}

/*
 * v: the offset in text, and the stored value. The physical address is used, so that no other
 * mapping hides a store.
 */
static void stored(unsigned vcpu, uint32_t info, uint64_t addr, void *arg)
{
	struct qemu_plugin_hwaddr *hw;
	struct record *r;
	uint64_t pa;

	if (!started || !(hw = qemu_plugin_get_hwaddr(info, addr)) || qemu_plugin_hwaddr_is_io(hw))
		return;
	pa = qemu_plugin_hwaddr_phys_addr(hw);
	if (pa >= text_pa + (text.hi - text.lo) ||
	    pa + (1u << qemu_plugin_mem_size_shift(info)) <= text_pa)
		return;
	if (!(r = begin(vcpu, arg, NULL, 0)))
		return;
	finish_access(r, K_STORE, info, pa - text_pa);
}

static void looked(unsigned vcpu, uint32_t info, uint64_t addr, void *arg)
{
	struct record *r;

	(void)info;
	if (!started || !inside(&text, addr) || !(r = begin(vcpu, arg, NULL, 0)))
		return;
	r->addr = addr;
	finish(r, K_LOOK);
}

/* arm64: str or stp to [sp, #-n]!, which lowers sp and stores in one instruction. */
static bool pushes(uint32_t word)
{
	return isa == &arm64 &&
	       ((word & 0x3bc003e0) == 0x298003e0 || (word & 0x3be00fe0) == 0x38000fe0);
}

/* Count one more time in this window. True if it was counted @most times already. */
static bool more_than(uint64_t most, struct often *o, uint64_t window)
{
	if (o->window != window)
		*o = (struct often){window, 0};
	return o->times++ >= most;
}

static bool enough(struct often *o, uint64_t window)
{
	return more_than(64, o, window);
}

/*
 * v: sp, its value where the registers were kept, the mask of reserved registers that differ from
 * the kept ones. An interrupt may come before any instruction, and walks the stack from the frame
 * pointer on, which must be the kept one or that of a record in the frame.
 */
static void between_two(unsigned vcpu, void *arg)
{
	struct watch *w = arg;
	uint64_t sp, fp, at, mask = 0, was;
	struct thread *t;
	struct kept *k;

	if (!started || !head->recording)
		return;
	t = thread_of(sp = reg(vcpu, isa->sp));
	if (!is_open(t) || !(k = &t->kept[t->level])->picked)
		return;
	__atomic_fetch_add(&head->between, 1, __ATOMIC_RELAXED);
	was = k->reg[isa->sp];
	for (unsigned n = 0; n < KEPT; n++)
		if (isa->reserved >> n & 1 && (k->vcpu == vcpu || !(isa->per_cpu >> n & 1)))
			mask |= (uint64_t)(k->reg[n] != kept_reg(vcpu, n)) << n;
	at = record_at(fp = reg(vcpu, isa->fp));
	mask |= (uint64_t)(fp != k->reg[isa->fp] && (at < sp || at > was - 16)) << isa->fp;
	if ((mask || sp % 16 || was - sp > w->most) && !more_than(4, &w->wrong, head->recording))
		simple(vcpu, w, t, K_BETWEEN, sp, was, mask, 0);
}

/*
 * v: sp. Log an access below sp, where an interrupt may write at any time, or with an unaligned sp.
 */
static void below(unsigned vcpu, struct watch *w, uint64_t sp, uint64_t addr)
{
	if (pushes(w->word) || (sp % 16 == 0 && sp - addr - 1 >= BELOW_SP))
		return;
	w->looked.times = ~0ull / 2; /* once is enough */
	simple(vcpu, w, thread_of(sp), K_BELOW, sp, 0, 0, 0);
}

/*
 * v: the address, the value. Accesses of the thread's own stack are not logged: no other CPU looks
 * there.
 */
static void in_order(unsigned vcpu, struct watch *w, uint64_t sp, uint32_t info, uint64_t addr)
{
	bool writes = qemu_plugin_mem_is_store(info);
	struct record *r;

	if (stack_of(addr + 1) == stack_of(sp) ||
	    (!writes && (!inside_any(&ordered, addr) || enough(&w->loaded, head->ordering))))
		return;
	if ((r = begin(vcpu, w, thread_of(sp), 0)))
		finish_access(r, writes ? K_WRITE : K_READ, info, addr);
}

static void touched(unsigned vcpu, uint32_t info, uint64_t addr, void *arg)
{
	struct watch *w = arg;
	bool ordering = started && w->order && head->ordering;
	bool recording = started && head->recording && !enough(&w->looked, head->recording);
	uint64_t sp;

	if (!ordering && !recording)
		return;
	sp = reg(vcpu, isa->sp);
	if (recording)
		below(vcpu, w, sp, addr);
	if (ordering)
		in_order(vcpu, w, sp, info, addr);
}

/* ---- translation: which instructions get a callback -------------------------------------- */

static bool is_fence(uint32_t word)
{
	if (isa == &riscv64)
		return (word & 0x707f) == 0x100f || word == isa->eret;
	return (word & 0xfffff0df) == 0xd50330df	/* isb */
	    || (word & 0xfffff0ff) == 0xd503309f	/* dsb */
	    || word == isa->eret
	    || (word & 0xffffff80) == 0xd50b7b00	/* dc c*: to PoU, PoP */
	    || (word & 0xffffff80) == 0xd50b7a00	/* dc cvac */
	    || (word & 0xffffffe0) == 0xd50b7e20	/* dc civac */
	    || (word & 0xffffff00) == 0xd50b7500	/* ic ivau */
	    || (word & 0xfffff0ff) == 0xd508701f;	/* ic iallu, ialluis */
}

/* A memory barrier between CPUs: fence / dmb. */
static bool is_barrier(uint32_t word)
{
	return isa == &riscv64 ? (word & 0x707f) == 0x000f : (word & 0xfffff0ff) == 0xd50330bf;
}

/* Writes stvec, satp / sctlr_el1, ttbr0_el1, ttbr1_el1, tcr_el1, mair_el1, vbar_el1. */
static bool is_setting(uint32_t word)
{
	uint32_t number = isa == &riscv64 ? word >> 20 : word >> 5;

	if (isa == &riscv64)
		return (word & 0x7f) == 0x73 && (word & 0x3000) &&
		       (number == 0x105 || number == 0x180) && (word & 0xfa000) != 0x2000;
	return number == 0xd5181000 >> 5 || number == 0xd5182000 >> 5 ||
	       number == 0xd5182020 >> 5 || number == 0xd5182040 >> 5 ||
	       number == 0xd518a200 >> 5 || number == 0xd518c000 >> 5;
}

/*
 * False for instructions that certainly do not store, so that they run at full
 * speed. arm64: loads of a general register with an immediate, of a pair, of a
 * literal; all other loads, stores and atomics may store.
 */
static bool may_store(uint32_t word)
{
	if (isa == &riscv64)
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

static uint32_t word_of(struct qemu_plugin_insn *insn)
{
	uint32_t word = 0;

	qemu_plugin_insn_data(insn, &word, 4);
	return word;
}

/*
 * riscv64: each hart begins in the machine's ROM, and may still be there when another one is in the
 * kernel.
 */
static bool in_reset_rom(const uint8_t *host, uint64_t pc)
{
	return firmware.hi && pc >> 12 == reset_pc >> 12 &&
	       host - reset == (int64_t)(pc - reset_pc);
}

/* Is this the word of a module that was linked there? */
static bool is_module(uint64_t pc, uint32_t word)
{
	for (const struct range *r = modules.r; r < modules.r + modules.n; r++)
		if (pc % 4 == 0 && inside(r, pc) &&
		    !memcmp(image + r->image + (pc - r->lo), &word, 4))
			return true;
	return false;
}

/*
 * May this be executed here? Permitted are the text and modules as linked, text's head at the
 * physical address, the firmware, and the ROM before it.
 */
static bool is_ours(struct qemu_plugin_insn *insn, uint64_t pc, uint64_t pa, uint32_t word)
{
	uint64_t at = pa - text_pa;
	uint32_t linked;

	if (pa - firmware.lo < firmware.hi - firmware.lo)
		return pc == pa;
	if (in_reset_rom(qemu_plugin_insn_haddr(insn), pc) || is_module(pc, word))
		return true;
	if (at >= text.hi - text.lo || at % 4 || qemu_plugin_insn_size(insn) != 4)
		return false;
	memcpy(&linked, image + at, 4);
	return word == linked && (pc - text.lo == at || (pc == pa && at < head_size));
}

static struct watch *new_watch(struct place p, uint32_t word, size_t ahead)
{
	struct watch *w = malloc(sizeof(*w));

	if (!w)
		abort();
	*w = (struct watch){.p = p, .word = word, .ahead = ahead};
	return w;
}

/*
 * A word that the kernel may change is logged once for each value, at translation; any other
 * unexpected instruction each time it is executed.
 */
static void watch_unexpected(struct qemu_plugin_insn *insn, const struct watch *w, uint64_t pc)
{
	if (w->p.roles & (SITE | WORD) && w->p.at == pc)
		simple(0, w, NULL, K_WORD, 0, 0, 0, 0);
	else
		qemu_plugin_register_vcpu_insn_exec_cb(
			insn, unexpected, CB_R_REGS,
			new_watch((struct place){.at = pc}, w->word, w->ahead));
}

/*
 * QEMU may use one translation for several virtual addresses, so roles are looked up by the
 * physical address, as the address at which it was linked.
 */
static void watch_insn(struct qemu_plugin_insn *insn, size_t ahead)
{
	uint64_t pc = qemu_plugin_insn_vaddr(insn), pa = pc, linked;
	uint8_t *host = qemu_plugin_insn_haddr(insn);
	uint32_t word = word_of(insn);
	struct watch *w = NULL;
	struct place p;
#define WATCH (w ? w : (w = new_watch(p, word, ahead)))

	if (!reset) {
		reset = host;
		reset_pc = pc;
	}
	if (pc == start_pa) /* here the host address of guest memory becomes known */
		ram = host - start_pa;
	if (ram)
		pa = host - ram;
	linked = pa - text_pa < text.hi - text.lo ? text.lo + (pa - text_pa) : pc;
	p = place_at(linked);
	if (pc == start_pa)
		p.roles |= START;
	if (ram && !is_ours(insn, pc, pa, word))
		watch_unexpected(insn, WATCH, pc);
	if (p.roles & EXECUTED)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, executed, CB_R_REGS, WATCH);
	if (want_fences && is_fence(word))
		qemu_plugin_register_vcpu_insn_exec_cb(insn, fence, CB_R_REGS, WATCH);
	if (want_fences && is_setting(word))
		qemu_plugin_register_vcpu_insn_exec_cb(insn, set, CB_R_REGS, WATCH);
	if (text.hi && may_store(word))
		qemu_plugin_register_vcpu_mem_cb(insn, stored, CB_NO_REGS, MEM_W, WATCH);
	if (inside_any(&looks, linked))
		qemu_plugin_register_vcpu_mem_cb(insn, looked, CB_NO_REGS, MEM_R, WATCH);
	if (inside_any(&order, linked)) {
		WATCH->order = true;
		if (is_barrier(word))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, barrier, CB_R_REGS, w);
	}
	if (inside_any(&between, linked)) {
		WATCH->most = range_of(&between, linked)->image;
		qemu_plugin_register_vcpu_insn_exec_cb(insn, between_two, CB_R_REGS, w);
	}
	if (inside(&tracer, linked) || inside_any(&order, linked))
		qemu_plugin_register_vcpu_mem_cb(insn, touched, CB_R_REGS, MEM_RW, WATCH);
}

static void watch_firmware(struct qemu_plugin_insn *insn, size_t ahead)
{
	uint64_t pc = qemu_plugin_insn_vaddr(insn);

	qemu_plugin_register_vcpu_insn_exec_cb(insn, in_firmware, CB_R_REGS,
					       new_watch(place_at(pc), word_of(insn), ahead));
}

static void translated PLUGIN_CALLBACK(struct qemu_plugin_tb *, tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	(void)unused;
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, INLINE_ADD_U64, since, n);
	if (inside(&firmware, qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0))))
		watch_firmware(qemu_plugin_tb_get_insn(tb, 0), n);
	qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, much_executed, CB_NO_REGS, COND_GE, since,
						  OFTEN, NULL);
	for (size_t i = 0; i < n; i++)
		watch_insn(qemu_plugin_tb_get_insn(tb, i), n - i);
}

/* ---- configuration -------------------------------------------------------------------------- */

static void add_role(uint32_t role, uint64_t at, uint32_t words, uint64_t from)
{
	if (!(n_places & (n_places - 1)))
		places = realloc(places, (n_places ? 2 * n_places : 1) * sizeof(*places));
	if (!places)
		abort();
	places[n_places++] = (struct place){at, from, role, words};
}

/* Merge the places so that each address has one entry. */
static void merge_places(void)
{
	size_t kept = 0;

	qsort(places, n_places, sizeof(*places), by_address);
	for (size_t i = 1; i < n_places; i++) {
		if (places[i].at != places[kept].at) {
			places[++kept] = places[i];
			continue;
		}
		places[kept].roles |= places[i].roles;
		places[kept].from |= places[i].from;
		places[kept].words |= places[i].words;
	}
	n_places = n_places ? kept + 1 : 0;
}

static const struct {
	const char *name;
	uint32_t role;
} roles[] = {
	{"site", SITE},		  {"exit", EXIT},	  {"body", BODY},     {"home", HOME},
	{"arguments", ARGUMENTS}, {"callback", CALLBACK}, {"hit", HIT},	      {"stray", STRAY},
	{"point", POINT},	  {"deref", DEREF},	  {"vector", VECTOR}, {"birth", BIRTH},
	{"word", WORD},		  {"enter", ENTER},	  {"leave", LEAVE},
};

static bool config_role(const char *word, uint64_t a, uint64_t b, uint64_t c)
{
	for (size_t i = 0; i < sizeof(roles) / sizeof(*roles); i++)
		if (!strcmp(word, roles[i].name)) {
			add_role(roles[i].role, a, b, c);
			return true;
		}
	return false;
}

static bool add_range(struct ranges *all, uint64_t lo, uint64_t hi, uint64_t at)
{
	if (all->n == sizeof(all->r) / sizeof(*all->r))
		return false;
	all->r[all->n++] = (struct range){lo, hi, at};
	return true;
}

static bool config_line(const char *word, uint64_t a, uint64_t b, uint64_t c)
{
	if (!strcmp(word, "start"))
		start_pa = a;
	else if (!strcmp(word, "text"))
		text = (struct range){a, a + c}, text_pa = b;
	else if (!strcmp(word, "head"))
		head_size = a;
	else if (!strcmp(word, "firmware"))
		firmware = (struct range){a, b};
	else if (!strcmp(word, "looks"))
		return add_range(&looks, a, b, 0);
	else if (!strcmp(word, "order"))
		return add_range(&order, a, b, 0);
	else if (!strcmp(word, "module"))
		return add_range(&modules, a, b, c);
	else if (!strcmp(word, "between"))
		return add_range(&between, a, b, c);
	else if (!strcmp(word, "pick"))
		pick_seed = a;
	else if (!strcmp(word, "ordered"))
		return add_range(&ordered, a, b, 0);
	else if (!strcmp(word, "tracer"))
		tracer = (struct range){a, b};
	else if (!strcmp(word, "fences"))
		want_fences = true;
	else if (!strcmp(word, "mcount"))
		mcount = true;
	else
		return config_role(word, a, b, c);
	return true;
}

static bool read_config(const char *path)
{
	char line[128], word[32];
	FILE *f = fopen(path, "r");
	bool good = f;

	while (good && fgets(line, sizeof(line), f)) {
		unsigned long a = 0, b = 0, c = 0;

		if (sscanf(line, "%31s %lx %lx %lx", word, &a, &b, &c) >= 1)
			good = config_line(word, a, b, c);
	}
	if (f)
		fclose(f);
	merge_places();
	return good;
}

static void *map_file(const char *path, int flags, int protection, off_t *size)
{
	int fd = open(path, flags);
	void *at = MAP_FAILED;

	*size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	if (*size > 0)
		at = mmap(NULL, *size, protection, MAP_SHARED, fd, 0);
	close(fd);
	return at == MAP_FAILED ? NULL : at;
}

/* The harness creates the file with its full size, in memory: a full disk loses no record. */
static bool map_log(const char *path)
{
	off_t size;

	head = map_file(path, O_RDWR, PROT_READ | PROT_WRITE, &size);
	if (!head || size < HEADER)
		return false;
	records = (struct record *)((char *)head + HEADER);
	head->record_size = sizeof(struct record);
	head->capacity = (size - HEADER) / sizeof(struct record);
	__atomic_store_n(&head->magic, MAGIC, __ATOMIC_RELEASE);
	return true;
}

static bool map_image(const char *path)
{
	off_t size;

	image = map_file(path, O_RDONLY, PROT_READ, &size);
	for (const struct range *r = modules.r; r < modules.r + modules.n; r++)
		if (r->image + (r->hi - r->lo) > (uint64_t)size)
			return false;
	return image && (uint64_t)size >= text.hi - text.lo;
}

static const char *option(int argc, char **argv, const char *name)
{
	size_t n = strlen(name);

	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], name, n) && argv[i][n] == '=')
			return argv[i] + n + 1;
	return "";
}

__attribute__((visibility("default"))) int
qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv)
{
	isa = strcmp(info->target_name, "riscv64") ? &arm64 : &riscv64;
	if (!read_config(option(argc, argv, "config")) || !map_image(option(argc, argv, "image")) ||
	    !map_log(option(argc, argv, "log"))) {
		fprintf(stderr,
			"observer: needs config=FILE,image=FILE,log=FILE that can be read\n");
		return -1;
	}
	since.score = qemu_plugin_scoreboard_new(sizeof(uint64_t));
	PLUGIN_REGISTER(qemu_plugin_register_vcpu_init_cb, id, vcpu_begins);
	PLUGIN_REGISTER(qemu_plugin_register_vcpu_tb_trans_cb, id, translated);
	return 0;
}
