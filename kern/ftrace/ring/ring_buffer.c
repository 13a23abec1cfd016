/*
 * The ring buffer; see ring_buffer.h for the picture and the rules. A slot's
 * word says who owns the page that it names, and only a compare-and-exchange
 * of that word moves a page.
 */
#include "ring_buffer.h"
#include "cpu.h"
#include "errno.h"
#include "memory.h"
#include "string.h"

#define EMPTY RB_SLOT_EMPTY
#define POSITION_BITS RB_SLOT_POSITION_BITS
#define POSITION(word) ((word) & ((1ull << POSITION_BITS) - 1))
#define PAGE(word) RB_SLOT_PAGE(word)
_Static_assert(RB_MAX_BYTES / RB_PAGE_DATA + 2 < 1 << (63 - POSITION_BITS),
	       "a page's number has the bits between EMPTY and the position");

static u64 slot_word(u32 desc, u64 position)
{
	return (u64)desc << POSITION_BITS | position;
}

static bool slot_change(u64 *slot, u64 *old, u64 new)
{
	return __atomic_compare_exchange_n(slot, old, new, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/* ---- The writer ---- */

/* The unread page of @d is overwritten, or does not fit a smaller buffer: count its events. */
static void count_overrun(struct ring_buffer_cpu *rb, const struct rb_desc *d)
{
	WRITE_ONCE(rb->overrun, rb->overrun + d->events);
	rb->overrun_bytes += d->page->commit;
}

static void close_page(struct ring_buffer_cpu *rb)
{
	struct rb_desc *d = &rb->pages[rb->desc];

	d->events = rb->accepted - d->first;
	rb->closed_bytes += d->page->commit;
}

static void open_page(struct ring_buffer_cpu *rb, u32 desc, u64 now)
{
	struct rb_desc *d = &rb->pages[desc];
	struct rb_page *page = d->page;

	WRITE_ONCE(page->commit, 0);
	/*
	 * first a page without events: if the machine is reset here, its old events must not seem
	 * new
	 */
	barrier();
	d->first = rb->accepted;
	page->time_stamp = now;
	rb->page = page;
	rb->desc = desc;
}

/*
 * Advance to the next position. False: its slot has an unread page, which may not be overwritten.
 */
static bool next_page(struct ring_buffer_cpu *rb, u64 now)
{
	u64 position = rb->position + 1;
	u32 slot = rb->slot + 1 == rb->nr_slots ? 0 : rb->slot + 1;
	u64 old = READ_ONCE(rb->slots[slot]);

	/* Fails at most once: when the reader has taken the page and left the slot EMPTY. */
	do {
		if (!(old & EMPTY) && !rb->overwrite)
			return false;
	} while (!slot_change(&rb->slots[slot], &old, slot_word(PAGE(old), position)));
	/* A reader that is copying the old page must see that the slot has changed. */
	smp_wmb();
	close_page(rb);
	if (!(old & EMPTY))
		count_overrun(rb, &rb->pages[PAGE(old)]);
	open_page(rb, PAGE(old), now);
	smp_wmb();
	WRITE_ONCE(rb->position, position);
	rb->slot = slot;
	return true;
}

static u32 *put_header(u32 *e, size_t words, u64 delta)
{
	if (words <= RB_TYPE_MAX_WORDS) {
		*e = words | delta << 5;
		return e + 1;
	}
	e[0] = delta << 5;
	e[1] = 4 * words + 4;
	return e + 2;
}

static u32 *put_time_extend(u32 *e, u64 delta)
{
	e[0] = RB_TIME_EXTEND | delta << 5;
	e[1] = delta >> RB_DELTA_BITS;
	return e + 2;
}

void *rb_reserve(struct ring_buffer_cpu *rb, u64 now, size_t len, struct rb_reserved *r)
{
	size_t words = (len + 3) / 4;
	size_t size = 4 * words + (words > RB_TYPE_MAX_WORDS ? 8 : 4);
	u64 tail = rb->page->commit, delta = tail ? now - rb->last_ts : 0;
	bool extend = delta >> RB_DELTA_BITS;
	u32 *e;

	if (len > RB_EVENT_MAX)
		goto drop;
	if (tail + size + (extend ? 8 : 0) > RB_PAGE_DATA) {
		if (!next_page(rb, now))
			goto drop;
		tail = delta = 0;
		extend = false;
	}
	if (!tail)
		rb->page->time_stamp = now;
	e = (u32 *)(rb->page->data + tail);
	if (extend) {
		e = put_time_extend(e, delta);
		delta = 0;
	}
	r->now = now;
	r->end = tail + size + (extend ? 8 : 0);
	return put_header(e, words, delta);
drop:
	rb->dropped++;
	return NULL;
}

/* ---- Set-up ---- */

static void free_fresh(struct rb_page **fresh)
{
	for (u32 i = 0; fresh && fresh[i]; i++)
		page_free(fresh[i], 0);
	kfree(fresh);
}

/* An array of @n new pages, ended by NULL. Return: NULL if there is no memory. */
static struct rb_page **alloc_fresh(u32 n)
{
	struct rb_page **fresh = kzalloc((n + 1) * sizeof(*fresh));

	for (u32 i = 0; fresh && i < n; i++) {
		fresh[i] = page_alloc(0);
		if (!fresh[i]) {
			free_fresh(fresh);
			return NULL;
		}
	}
	return fresh;
}

void rb_reset(struct ring_buffer_cpu *rb)
{
	for (u32 i = 1; i < rb->nr_slots; i++)
		rb->slots[i] = slot_word(i, 0) | EMPTY;
	rb->slots[0] = slot_word(0, 0);
	rb->held = rb->nr_slots;
	rb->holds_events = false;
	rb->position = rb->slot = 0;
	rb->next_position = rb->offset = 0;
	rb->accepted = rb->dropped = rb->overrun = 0;
	/*
	 * Far from any time, so that the first event takes the long path, which sets its page's
	 * time.
	 */
	rb->last_ts = 1ull << 63;
	rb->closed_bytes = rb->overrun_bytes = rb->read_bytes = 0;
	rb->ts = rb->seq = rb->lost = rb->read = 0;
	rb->pages[rb->held].page->commit = 0;
	open_page(rb, 0, 0);
}

static bool in_ring(const struct ring_buffer_cpu *rb, u64 position)
{
	u64 word = rb->slots[position % rb->nr_slots];

	return !(word & EMPTY) && POSITION(word) == position;
}

/* The oldest position that can still be in the ring. */
static u64 oldest(const struct ring_buffer_cpu *rb, u64 position)
{
	return position >= rb->nr_slots ? position - rb->nr_slots + 1 : 0;
}

static void move_held(struct ring_buffer_cpu *rb, struct rb_resize *m)
{
	m->pages[0] = rb->pages[rb->held];
	m->used = 1;
	if (rb->desc == rb->held)
		rb->desc = 0;
	rb->held = 0;
}

static void move_one(struct ring_buffer_cpu *rb, struct rb_resize *m, u64 position)
{
	u32 desc = PAGE(rb->slots[position % rb->nr_slots]);
	u32 at = m->used++;

	m->pages[at] = rb->pages[desc];
	m->slots[position % m->nr_slots] = slot_word(at, position);
	if (position == rb->position)
		rb->desc = at;
}

static void move_pages(struct ring_buffer_cpu *rb, struct rb_resize *m)
{
	u64 first_kept = rb->position >= m->nr_slots ? rb->position - m->nr_slots + 1 : 0;

	move_held(rb, m);
	for (u64 p = oldest(rb, rb->position); p <= rb->position; p++) {
		struct rb_desc *d = &rb->pages[PAGE(rb->slots[p % rb->nr_slots])];

		if (in_ring(rb, p) && p >= first_kept) {
			move_one(rb, m, p);
			continue;
		}
		if (in_ring(rb, p))
			count_overrun(rb, d);
		m->spare[m->nr_spare++] = d->page;
	}
	/* Slots that were never reached yet. */
	for (u64 p = rb->position + 1; p < rb->nr_slots; p++)
		m->spare[m->nr_spare++] = rb->pages[PAGE(rb->slots[p])].page;
}

/*
 * Give each slot without a page a spare page, or a new one if no spare is left; free the unused
 * spares.
 */
static void fill_slots(struct rb_resize *m)
{
	struct rb_page **fresh = m->fresh;

	for (u32 i = 0; i < m->nr_slots; i++) {
		if (m->slots[i] != EMPTY)
			continue;
		m->pages[m->used].page = m->nr_spare ? m->spare[--m->nr_spare] : *fresh++;
		m->slots[i] = slot_word(m->used++, 0) | EMPTY;
	}
	while (m->nr_spare)
		page_free(m->spare[--m->nr_spare], 0);
}

static void install(struct ring_buffer_cpu *rb, struct rb_resize *m)
{
	kfree(rb->pages);
	kfree(rb->slots);
	rb->pages = m->pages;
	rb->slots = m->slots;
	rb->nr_slots = m->nr_slots;
	rb->slot = rb->position % rb->nr_slots;
	rb->page = rb->pages[rb->desc].page;
}

int rb_resize_prepare(struct ring_buffer_cpu *rb, unsigned long nr_slots, struct rb_resize *m)
{
	bool first = !rb->nr_slots;

	if (rb->fixed)
		return -EBUSY;
	if (nr_slots < RB_MIN_PAGES || nr_slots > rb_pages_for(RB_MAX_BYTES))
		return -EINVAL;
	*m = (struct rb_resize){
		.nr_slots = nr_slots,
		.fresh = alloc_fresh(nr_slots > rb->nr_slots ? nr_slots - rb->nr_slots + first : 0),
		.pages = kzalloc((nr_slots + 1) * sizeof(*m->pages)),
		.slots = kmalloc(nr_slots * sizeof(*m->slots)),
		.spare = kmalloc((rb->nr_slots + first) * sizeof(*m->spare)),
	};
	if (m->fresh && m->pages && m->slots && m->spare)
		return 0;
	rb_resize_cancel(m);
	return -ENOMEM;
}

void rb_resize_cancel(struct rb_resize *m)
{
	free_fresh(m->fresh);
	kfree(m->pages);
	kfree(m->slots);
	kfree(m->spare);
}

static void use_pages(struct ring_buffer_cpu *rb, u64 *slots, struct rb_desc *pages, u32 nr_slots)
{
	rb->pages = pages;
	rb->slots = slots;
	rb->nr_slots = nr_slots;
	rb_reset(rb);
}

void rb_place(struct ring_buffer_cpu *rb, u64 *slots, struct rb_desc *pages, u32 nr_slots)
{
	rb->fixed = true;
	use_pages(rb, slots, pages, nr_slots);
}

static void first_size(struct ring_buffer_cpu *rb, struct rb_resize *m)
{
	for (u32 i = 0; i <= m->nr_slots; i++)
		m->pages[i].page = m->fresh[i];
	use_pages(rb, m->slots, m->pages, m->nr_slots);
}

/*
 * Fill the new ring from the old one: first the reader's page, then the newest
 * pages of the ring. The events of a page that does not fit are overrun. Every
 * old page without events to keep goes to @spare.
 */
static void change_size(struct ring_buffer_cpu *rb, struct rb_resize *m)
{
	for (u32 i = 0; i < m->nr_slots; i++)
		m->slots[i] = EMPTY;
	move_pages(rb, m);
	fill_slots(m);
	install(rb, m);
}

void rb_resize_apply(struct ring_buffer_cpu *rb, struct rb_resize *m)
{
	if (rb->nr_slots)
		change_size(rb, m);
	else
		first_size(rb, m);
	kfree(m->spare);
	kfree(m->fresh);
}

void rb_free(struct ring_buffer_cpu *rb)
{
	if (!rb->nr_slots)
		return;
	for (u32 i = 0; i <= rb->nr_slots; i++)
		page_free(rb->pages[i].page, 0);
	kfree(rb->pages);
	kfree(rb->slots);
	rb->nr_slots = 0;
}

/* ---- Events in a page ---- */

/*
 * Decode the event at @offset of @size bytes of data, skipping time extends and
 * padding: put its payload into @ev and add its time to *ts.
 * Return: the offset after the event; 0 if there is no event.
 */
static u32 decode(const u8 *data, u32 offset, u32 size, u64 *ts, struct rb_event *ev)
{
	while (offset + 4 <= size) {
		const u32 *e = (const u32 *)(data + offset);
		u32 type = *e & 31;
		u64 delta = *e >> 5;

		if (type == RB_PADDING)
			return 0;
		if (type == RB_TIME_EXTEND || type == RB_TIME_STAMP) {
			delta |= (u64)e[1] << RB_DELTA_BITS;
			*ts = type == RB_TIME_STAMP ? delta : *ts + delta;
			offset += 8;
			continue;
		}
		*ts += delta;
		ev->ts = *ts;
		ev->data = type ? e + 1 : e + 2;
		ev->len = type ? 4 * type : e[1] - 4;
		return offset + (type ? 4 : 8) + ev->len;
	}
	return 0;
}

/* ---- The consuming reader ---- */

static u32 committed(const struct rb_page *page)
{
	u32 n = READ_ONCE(page->commit);

	smp_rmb();
	return n;
}

static void hold_page(struct ring_buffer_cpu *rb, u32 desc, u64 position)
{
	struct rb_desc *d = &rb->pages[desc];

	rb->held = desc;
	rb->holds_events = true;
	rb->held_position = position;
	rb->next_position = position + 1;
	rb->offset = 0;
	rb->ts = d->page->time_stamp;
	rb->lost += d->first - rb->seq;
	rb->seq = d->first;
}

/* Exchange the reader's page, which is read to its end, for the oldest page of the ring. */
static bool take_page(struct ring_buffer_cpu *rb)
{
	for (u64 h = rb->next_position;; h++) {
		u64 writer = READ_ONCE(rb->position);
		u64 *slot, word;

		smp_rmb();
		if (h < oldest(rb, writer))
			h = oldest(rb, writer);
		if (h > writer)
			return false;
		slot = &rb->slots[h % rb->nr_slots];
		word = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
		if ((word & EMPTY) || POSITION(word) != h)
			continue;
		if (h == writer && !committed(rb->pages[PAGE(word)].page))
			return false;
		if (!slot_change(slot, &word, slot_word(rb->held, h) | EMPTY))
			continue;
		hold_page(rb, PAGE(word), h);
		return true;
	}
}

/* Does the reader's page have events that are not read yet? */
static bool held_has_more(struct ring_buffer_cpu *rb)
{
	return rb->holds_events && rb->offset < committed(rb->pages[rb->held].page);
}

static bool writer_is_in_held(struct ring_buffer_cpu *rb)
{
	bool held = rb->holds_events && READ_ONCE(rb->position) == rb->held_position;

	smp_rmb();
	return held;
}

/* Make the held page one with unread data. */
static bool find_data(struct ring_buffer_cpu *rb)
{
	while (!held_has_more(rb)) {
		if (writer_is_in_held(rb))
			return false;
		/* The writer may have written to this page before it left it. */
		if (!held_has_more(rb) && !take_page(rb))
			return false;
	}
	return true;
}

bool rb_peek(struct ring_buffer_cpu *rb, struct rb_event *ev)
{
	struct rb_page *page;
	u64 ts;

	if (!find_data(rb))
		return false;
	page = rb->pages[rb->held].page;
	ts = rb->ts;
	ev->lost = rb->lost;
	return decode(page->data, rb->offset, committed(page), &ts, ev);
}

void rb_consume(struct ring_buffer_cpu *rb)
{
	struct rb_page *page = rb->pages[rb->held].page;
	struct rb_event ev;
	u32 next = decode(page->data, rb->offset, committed(page), &rb->ts, &ev);

	rb->read_bytes += next - rb->offset;
	rb->offset = next;
	rb->seq++;
	rb->lost = 0;
	WRITE_ONCE(rb->read, rb->read + 1);
}

static void put_missed(struct rb_page *out, u32 size, u64 lost)
{
	out->commit = size;
	if (!lost)
		return;
	out->commit |= RB_MISSED_EVENTS;
	if (size + sizeof(lost) > RB_PAGE_DATA)
		return;
	memcpy(out->data + size, &lost, sizeof(lost));
	out->commit |= RB_MISSED_STORED;
}

u64 rb_read_page(struct ring_buffer_cpu *rb, struct rb_page *out)
{
	struct rb_page *page;
	u64 lost, events = 0;
	u32 from, size;
	struct rb_event ev;

	if (!find_data(rb))
		return 0;
	page = rb->pages[rb->held].page;
	from = rb->offset;
	size = committed(page) - from;
	lost = rb->lost;
	memset(out, 0, sizeof(*out));
	/* The time that the first event's delta is counted from. */
	out->time_stamp = rb->ts;
	memcpy(out->data, page->data + from, size);
	put_missed(out, size, lost);
	while (rb->offset < from + size) {
		u32 next = decode(page->data, rb->offset, from + size, &rb->ts, &ev);

		rb->offset = next ? next : from + size;
		events += next != 0;
	}
	rb->seq += events;
	rb->read_bytes += size;
	rb->lost = 0;
	WRITE_ONCE(rb->read, rb->read + events);
	return events;
}

/* ---- Reading without consuming ---- */

void rb_iter_start(struct rb_iter *it, struct ring_buffer_cpu *rb, struct rb_page *copy)
{
	rb_lock(rb);
	*it = (struct rb_iter){.rb = rb, .copy = copy, .end = rb->accepted, .swaps = rb->swaps};
	rb_unlock(rb);
}

static void iter_take(struct rb_iter *it, u32 offset, u64 ts, u64 seq)
{
	if (it->loaded && seq > it->seq)
		it->lost += seq - it->seq;
	it->loaded = true;
	it->offset = offset;
	it->ts = ts;
	it->seq = seq;
}

static void copy_page(struct rb_iter *it, const struct rb_page *page)
{
	it->size = committed(page);
	memcpy(it->copy, page, offsetof(struct rb_page, data) + it->size);
}

/* Copy the page of @position from the ring; false if the writer took that page meanwhile. */
static bool copy_from_ring(struct rb_iter *it, u64 position)
{
	struct ring_buffer_cpu *rb = it->rb;
	u64 *slot = &rb->slots[position % rb->nr_slots];
	u64 first, word = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

	if ((word & EMPTY) || POSITION(word) != position)
		return false;
	copy_page(it, rb->pages[PAGE(word)].page);
	first = rb->pages[PAGE(word)].first;
	smp_rmb();
	if (READ_ONCE(*slot) != word)
		return false;
	iter_take(it, 0, it->copy->time_stamp, first);
	return true;
}

/* Copy the next page at or after it->position. rb_lock() held. */
static bool iter_load(struct rb_iter *it)
{
	struct ring_buffer_cpu *rb = it->rb;

	if (it->swaps != rb->swaps)
		return false;
	if (held_has_more(rb) && it->position <= rb->held_position) {
		copy_page(it, rb->pages[rb->held].page);
		iter_take(it, rb->offset, rb->ts, rb->seq);
		it->position = rb->held_position + 1;
		return true;
	}
	for (;;) {
		u64 writer = READ_ONCE(rb->position);

		smp_rmb();
		if (it->position < oldest(rb, writer))
			it->position = oldest(rb, writer);
		if (it->position > writer)
			return false;
		if (copy_from_ring(it, it->position++))
			return true;
	}
}

bool rb_iter_peek(struct rb_iter *it, struct rb_event *ev)
{
	bool loaded = true;

	while (loaded) {
		u64 ts = it->ts;

		if (it->loaded && it->seq >= it->end)
			return false;
		ev->lost = it->lost;
		if (it->loaded && decode(it->copy->data, it->offset, it->size, &ts, ev))
			return true;
		rb_lock(it->rb);
		loaded = iter_load(it);
		rb_unlock(it->rb);
	}
	return false;
}

void rb_iter_next(struct rb_iter *it)
{
	struct rb_event ev;

	it->offset = decode(it->copy->data, it->offset, it->size, &it->ts, &ev);
	it->seq++;
	it->lost = 0;
}

/* ---- The spare ---- */

/* What moves is in the middle of the structure. */
static void exchange(struct ring_buffer_cpu *a, struct ring_buffer_cpu *b)
{
	enum { FIRST = offsetof(struct ring_buffer_cpu, page) / 8,
	       END = offsetof(struct ring_buffer_cpu, reader) / 8 };

	for (u64 i = FIRST; i < END; i++) {
		u64 word = ((u64 *)a)[i];

		((u64 *)a)[i] = ((u64 *)b)[i];
		((u64 *)b)[i] = word;
	}
	a->swaps++;
	b->swaps++;
}

static bool enter(struct ring_buffer_cpu *live)
{
	return !__atomic_exchange_n(&live->busy, 1, __ATOMIC_ACQUIRE);
}

static void leave(struct ring_buffer_cpu *live)
{
	__atomic_store_n(&live->busy, 0, __ATOMIC_RELEASE);
}

/* The buffer's CPU, interrupts masked, `busy` taken. */
static void swap_if_asked(void *arg)
{
	struct ring_buffer_cpu *live = arg;

	if (__atomic_fetch_and(&live->slow, ~(u64)RB_SWAP, __ATOMIC_RELAXED) & RB_SWAP)
		exchange(live, live->spare);
}

void rb_swap_pending(struct ring_buffer_cpu *rb)
{
	if (!(READ_ONCE(rb->slow) & RB_SWAP) || !enter(rb))
		return;
	swap_if_asked(rb);
	leave(rb);
}

bool rb_swap(struct ring_buffer_cpu *rb)
{
	if (!enter(rb))
		return false;
	__atomic_fetch_and(&rb->slow, ~(u64)RB_SWAP, __ATOMIC_RELAXED);
	exchange(rb, rb->spare);
	leave(rb);
	return true;
}

void rb_lock(struct ring_buffer_cpu *rb)
{
	struct ring_buffer_cpu *live = rb->live ?: rb;

	mutex_lock(&live->reader);
	while (!enter(live))
		cpu_relax();
	if (READ_ONCE(live->slow) & RB_SWAP)
		smp_call(live->cpu, swap_if_asked, live);
}

void rb_unlock(struct ring_buffer_cpu *rb)
{
	struct ring_buffer_cpu *live = rb->live ?: rb;

	leave(live);
	mutex_unlock(&live->reader);
}

/* ---- Counts ---- */

u64 rb_bytes(struct ring_buffer_cpu *rb)
{
	return rb->closed_bytes + rb->page->commit - rb->overrun_bytes - rb->read_bytes;
}

u64 rb_oldest_ts(struct ring_buffer_cpu *rb)
{
	u64 writer = READ_ONCE(rb->position);

	if (held_has_more(rb))
		return rb->pages[rb->held].page->time_stamp;
	for (u64 p = oldest(rb, writer); p <= writer; p++) {
		u64 word = READ_ONCE(rb->slots[p % rb->nr_slots]);

		if (!(word & EMPTY) && POSITION(word) == p)
			return committed(rb->pages[PAGE(word)].page) ?
				rb->pages[PAGE(word)].page->time_stamp : 0;
	}
	return 0;
}
