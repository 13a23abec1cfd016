/*
 * One ring buffer for each CPU: pages in Linux's own layout, so that a page
 * read from trace_pipe_raw is a page of trace.dat.
 *
 *	| time_stamp 8 | commit 8 | event | event | ...                  4096 |
 *	event: | type_len 5, time_delta 27 | payload: type_len words |
 *
 * The writer is the CPU itself, with interrupts masked. It never waits. Until its page is full, it
 * stores only into that page and into its own fields (below), and touches no slot. The pages are in
 * a ring of slots. Positions count pages and never repeat; the page of position p is in slot p %
 * nr_slots. A slot is one word:
 *
 *	| EMPTY 1 | page 20 | position 43 |
 *
 *	slots      [ 8 ][ 9 ][10 ][ 7 ]      nr_slots = 4, the writer is at 10
 *	                       ^writer
 *	reader's own page: the page of position 6, from slot 2, or a spare
 *
 * The writer and the reader take a page by changing the word of its slot with
 * one compare-and-exchange:
 * - The writer, advancing to position w, claims slot w % nr_slots. If the
 *   page of position w - nr_slots is still there and unread, its events are
 *   overrun and counted (overwrite) or the new event is dropped and counted.
 * - The reader takes position h out of its slot and leaves its own page there,
 *   marked EMPTY. It may take the writer's page too: the writer goes on in it
 *   and the reader follows `commit`.
 * So there is always one page more than slots, and no page has two owners.
 *
 * Each page's descriptor has the number of events that were accepted before the
 * page, so a subtraction says how many events a reader missed. Always, for each CPU:
 *
 *	read + in buffer + overrun + dropped = written
 *
 * Order: an event's data, smp_wmb(), commit. Readers of one CPU's buffer take
 * rb_lock(). Resize and reset: recording stopped (RB_STOPPED), then
 * synchronize_sched(), then the change.
 *
 * A snapshot. A CPU's buffer may have a spare, and the two change places: their pages, counters and
 * positions are exchanged, and recording goes on in what was the spare. Nothing is copied, and no
 * event is lost. Only the CPU itself does it, with interrupts masked and between two events:
 * 1. Any CPU sets RB_SWAP in the buffers of all CPUs.
 * 2. Each CPU exchanges its two buffers before its next event, which takes the long path
 *    (rb_swap_pending()). A CPU without events is asked by the next reader (rb_lock()).
 * `busy` says that a reader, or the exchange, is in one of the two buffers. An event that finds a
 * reader there is recorded where the buffer is, and the exchange comes with a later event.
 */

/*
 * The folder ring/. ring_buffer.c is the buffer of one CPU. ring_region.c (from lab 5
 * on) puts the buffers into RAM that the next boot finds again. They call no other room.
 *
 * What passes through, in this order:
 * 1. trace/trace.c makes a buffer: rb_resize_prepare(), rb_resize_apply(). With
 *    last_boot= files/last_boot.c makes the top tracer's: rb_region_make().
 * 2. A CPU writes an event. The long path calls rb_reserve() and rb_commit(), in
 *    trace/trace.c. The short path is trace/trace_event.h.
 * 3. files/trace_files_buffer.c reads it: rb_iter_peek() for trace, rb_peek() and
 *    rb_consume() for trace_pipe, rb_read_page() for trace_pipe_raw.
 *
 * Only trace/, files/ and events/snapshot.c call this room; events/ writes through trace/.
 *
 * The short path does not call rb_reserve() and rb_commit(). It writes the event's header
 * and data into the page itself, and last_ts, accepted and commit. So if the layout of a
 * page or of an event's header changes, or what rb_commit() stores, trace_event.h must
 * change too.
 */
#ifndef FTRACE_RING_BUFFER_H
#define FTRACE_RING_BUFFER_H

#include "thread.h"
#include "types.h"

#define RB_PAGE_SIZE 4096
#define RB_PAGE_DATA 4080

struct rb_page {
	u64 time_stamp;
	u64 commit; /* bytes of data; a page read from trace_pipe_raw has the bits below too */
	u8 data[RB_PAGE_DATA];
};
#define RB_MISSED_EVENTS (1u << 31) /* events were lost before this page */
#define RB_MISSED_STORED (1u << 30) /* and their number, 8 bytes, follows the data */

/* type_len: 1..28 words of payload; 0: the next word is 4 + the payload's bytes; or */
enum { RB_TYPE_MAX_WORDS = 28, RB_PADDING = 29, RB_TIME_EXTEND = 30, RB_TIME_STAMP = 31 };
#define RB_DELTA_BITS 27
/* payload that fits a page of its own, with its length word */
#define RB_EVENT_MAX (RB_PAGE_DATA - 8)

/* Reasons for a short path to be left. With one of the first four nothing is recorded. */
#define RB_OFF 1     /* tracing_on is 0 */
#define RB_STOPPED 2 /* being changed */
#define RB_MASKED 4  /* tracing_cpumask does not have this CPU */
#define RB_PAUSED 8  /* pause-on-trace: trace is being read */
#define RB_NO_EVENTS (RB_OFF | RB_STOPPED | RB_MASKED | RB_PAUSED)
#define RB_CLOCK 16 /* the clock is not clock_ns() */
/* the tracer has work that the short path skips: trace_graph.c, func_stack_trace, set_ftrace_pid */
#define RB_ASK 32
#define RB_ASK_EVENT 64 /* trace events have: set_event_pid, the option stacktrace */
#define RB_SWAP 128	/* it and its spare change places before the next event */

/* A slot's word, of which ring_region.c reads these two parts in what an earlier boot left. */
#define RB_SLOT_EMPTY (1ull << 63)
#define RB_SLOT_POSITION_BITS 43
#define RB_SLOT_PAGE(word) ((u32)((word) >> RB_SLOT_POSITION_BITS) & 0xfffff)

struct rb_desc {
	struct rb_page *page;
	u64 first;  /* events accepted before this page */
	u64 events; /* in this page; valid once the writer has left it */
};

struct ring_buffer_cpu {
	/* The writer's, every event. */
	u64 slow; /* RB_*, changed by other threads, read by the writer */
	struct rb_page *page;
	u64 last_ts;
	u64 accepted; /* events written and not dropped */

	/* The writer's, every page. */
	u64 position; /* of page; published after the page is ready for readers */
	u64 dropped, overrun;
	u64 closed_bytes, overrun_bytes;
	u32 slot, desc;

	/* Changed only by resize and reset, and exchanged with the spare. */
	u64 *slots;
	struct rb_desc *pages; /* nr_slots + 1 */
	u32 nr_slots;

	/* The reader's, under the mutex. */
	u32 held;          /* its page */
	bool holds_events; /* it is the page of held_position; else a spare */
	u64 held_position, next_position;
	u32 offset;  /* of the next event in that page */
	u64 ts, seq; /* time and number of the event before it */
	u64 lost;    /* events missed since the last consumed event */
	u64 read, read_bytes;

	/* What does not change places with the spare, with `slow`. */
	struct mutex reader;
	bool overwrite;
	bool fixed; /* its memory is the caller's (rb_place()) and stays */
	u8 cpu;     /* whose it is */
	u32 busy;
	u32 swaps;
	struct ring_buffer_cpu *spare; /* or NULL */
	struct ring_buffer_cpu *live;  /* of a spare: whose it is; or NULL */
} __aligned(64);

/* An event as a reader sees it. */
struct rb_event {
	u64 ts;
	u64 lost; /* events missed just before it */
	const void *data;
	u32 len; /* of data: whole words */
};

/* ---- The writer: on its CPU, interrupts masked. ---- */

struct rb_reserved {
	u64 now;
	u64 end; /* commit, once the event is complete */
};

/*
 * Reserve room for an event of @len bytes at time @now, which is not earlier
 * than the last event's. The caller fills the room, then calls rb_commit().
 * Return: the room; NULL if there is none or @len is larger than RB_EVENT_MAX,
 * and the event is counted in `dropped`.
 */
void *rb_reserve(struct ring_buffer_cpu *rb, u64 now, size_t len, struct rb_reserved *r);

static inline void rb_commit(struct ring_buffer_cpu *rb, const struct rb_reserved *r)
{
	rb->last_ts = r->now;
	rb->accepted++;
	smp_wmb();
	WRITE_ONCE(rb->page->commit, r->end);
}

/* ---- Set-up: recording stopped, no CPU and no reader in the buffer. ---- */

#define RB_MIN_PAGES 2
#define RB_MAX_BYTES GiB(1)
static inline unsigned long rb_pages_for(unsigned long bytes)
{
	unsigned long n = (bytes + RB_PAGE_DATA - 1) / RB_PAGE_DATA;

	return n < RB_MIN_PAGES ? RB_MIN_PAGES : n;
}
/*
 * Make the buffer @nr_slots pages long. There are two steps, so that the
 * buffers of several CPUs change together or not at all. (1) For each buffer
 * rb_resize_prepare() takes all the memory that is needed, and changes nothing.
 * (2) Then, for each, rb_resize_apply(), which cannot fail, or
 * rb_resize_cancel(). The newest events stay; those that no longer fit are
 * overrun.
 * Return: 0, -EINVAL for less than RB_MIN_PAGES or more than RB_MAX_BYTES, -ENOMEM,
 * -EBUSY for a buffer that rb_place() made.
 */
struct rb_resize {
	struct rb_desc *pages;
	u64 *slots;
	u32 nr_slots, used, nr_spare;
	struct rb_page **spare; /* old pages without events to keep */
	struct rb_page **fresh; /* new pages, ended by NULL */
};
int rb_resize_prepare(struct ring_buffer_cpu *rb, unsigned long nr_slots, struct rb_resize *m);
void rb_resize_apply(struct ring_buffer_cpu *rb, struct rb_resize *m);
void rb_resize_cancel(struct rb_resize *m);

/*
 * Make a buffer, for ever, of the caller's memory: @nr_slots slots, and nr_slots + 1 descs that
 * name the pages.
 */
void rb_place(struct ring_buffer_cpu *rb, u64 *slots, struct rb_desc *pages, u32 nr_slots);

void rb_reset(struct ring_buffer_cpu *rb); /* empty, all counters 0 */
void rb_free(struct ring_buffer_cpu *rb);  /* no pages: as before the first rb_resize_apply() */

/*
 * ---- The spare ----
 *
 * rb_lock(): for a reader of @rb, or for a change. Context: thread, interrupts on. One mutex serves
 * a buffer and its spare.
 * rb_swap_pending(): exchange @rb and its spare if RB_SWAP asks for it and no reader is in one of
 * them. Context: the buffer's CPU, interrupts masked, no event begun.
 * rb_swap(): exchange them at once. False: a reader is in one of them. The same context.
 */
void rb_lock(struct ring_buffer_cpu *rb);
void rb_unlock(struct ring_buffer_cpu *rb);
void rb_swap_pending(struct ring_buffer_cpu *rb);
bool rb_swap(struct ring_buffer_cpu *rb);

/* ---- The consuming reader: rb_lock(). ---- */

bool rb_peek(struct ring_buffer_cpu *rb, struct rb_event *ev); /* false: no event */
void rb_consume(struct ring_buffer_cpu *rb);                   /* the event that rb_peek() found */
/*
 * The rest of the oldest page as one page of its own, with the missed-events
 * bits, consumed. Return: its events; 0 when there are none.
 */
u64 rb_read_page(struct ring_buffer_cpu *rb, struct rb_page *out);

/* ---- Reading without consuming: takes rb_lock() itself, and ends if the spare comes. ---- */

struct rb_iter {
	struct ring_buffer_cpu *rb;
	struct rb_page *copy; /* the caller's page, into which a page of the ring is copied */
	u64 position, end;    /* end: the number of events accepted when the reading began */
	bool loaded;
	u32 offset, size, swaps;
	u64 ts, seq, lost;
};
void rb_iter_start(struct rb_iter *it, struct ring_buffer_cpu *rb, struct rb_page *copy);
bool rb_iter_peek(struct rb_iter *it, struct rb_event *ev);
void rb_iter_next(struct rb_iter *it);

/* ---- Counts. Exact while the writer is stopped and no reader consumes. ---- */

/*
 * Events that come or go during the call may be counted. All three counts only grow, so with
 * `accepted` last the result is never below 0.
 */
static inline u64 rb_entries(const struct ring_buffer_cpu *rb)
{
	u64 gone = READ_ONCE(rb->overrun) + READ_ONCE(rb->read);

	smp_rmb();
	return READ_ONCE(rb->accepted) - gone;
}
u64 rb_bytes(struct ring_buffer_cpu *rb);     /* unread data */
u64 rb_oldest_ts(struct ring_buffer_cpu *rb); /* of the oldest page; 0 when there is none */

#endif
