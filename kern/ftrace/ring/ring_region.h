/*
 * Ring buffers in a region of RAM that the next boot finds again, after a warm
 * reset: a panic, `reboot`, a watchdog, a reset button.
 *
 *	| header, a page | CPU 0: slots, descs | its nr_slots + 1 pages | CPU 1: ... |
 *
 * Where each part is follows from nr_slots and nr_cpus, so the next boot follows
 * no pointer. Reset may come at any instruction, and memory that was without power
 * or that a boot loader has used may hold anything. So everything that is read is checked.
 *
 * Who touches it, in which order:
 * 1. The boot (a thread, before any event is recorded): rb_region_refusal(), and for
 *    each CPU rb_region_copy(), read what the boot before has left.
 * 2. rb_region_make(), the same thread: the header becomes invalid, then the buffers
 *    become empty, then the header's fields are stored, its magic last. A reset
 *    before that leaves a region in which the next boot finds nothing.
 * 3. From then on the buffers are changed as all ring buffers are, by each CPU's writer
 *    and by readers (ring_buffer.h). Of the header only the clock changes: while
 *    recording is stopped, with trace_lock held.
 *
 * What a reset leaves, in the order in which the writer stores:
 * - An event: data, smp_wmb(), commit. Without its commit it is not there.
 * - A new page: its slot's word, commit 0, first and time_stamp, the event, commit. Up
 *   to commit 0 the page still is what it was, the oldest one; from then on it is empty.
 * - A page that a reader consumed: its slot's word has RB_SLOT_EMPTY, and it is not
 *   shown. The page that the reader holds has no slot. It may be the writer's, so it is shown
 *   whole, with events that were consumed.
 * A reset leaves what had reached memory. On arm64 the kernel writes the region back from the
 * caches before it resets the machine (firmware_poweroff()). Before any other reset, and on
 * riscv64, nothing does.
 */
#ifndef FTRACE_RING_REGION_H
#define FTRACE_RING_REGION_H

#include "ring_buffer.h"

struct rb_region {
	u64 magic;
	/* of the kernel that wrote it: its addresses mean the functions of this kernel only */
	u64 build_id;
	u64 size;
	u32 nr_cpus, nr_slots;
	u64 checksum; /* of the fields before it */
	u32 clock;    /* the number of the events' clock */
};

/* A hash of @size bytes, a multiple of 8; never the same after one of its words has changed. */
u64 rb_region_hash(const void *data, size_t size);

/*
 * Make the region one buffer for each CPU, all of the same size, empty. @rb[] have no pages.
 * @size: RB_REGION_MIN for each CPU at least, RB_MAX_BYTES at most.
 */
#define RB_REGION_MIN KiB(32)
void rb_region_make(struct rb_region *r, u64 size, u32 nr_cpus, u64 build_id,
		    struct ring_buffer_cpu *rb);

/* Why this boot cannot show what the region holds, as the end of a sentence; NULL: it can. */
const char *rb_region_refusal(const struct rb_region *r, u64 size, u32 nr_cpus, u64 build_id);

/*
 * Write the events of @cpu to @to, an empty buffer of at least r->nr_slots + 1 slots. For each
 * event accept() returns the length to keep, which is not larger than @len; 0: it is refused. Only
 * for a region that rb_region_refusal() does not refuse.
 */
struct rb_refused {
	u64 events; /* by accept() */
	u64 pages;  /* damaged */
};
void rb_region_copy(const struct rb_region *r, unsigned cpu, struct ring_buffer_cpu *to,
		    u32 (*accept)(const void *data, u32 len), struct rb_refused *refused);

#endif
