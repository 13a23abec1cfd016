/*
 * Ring buffers that a warm reset leaves; see ring_region.h for the picture and the
 * rules.
 */
#include "ring_region.h"
#include "string.h"

#define MAGIC 0x317469736c6c6143 /* with the number of this layout: another one is not understood */
#define TIME_BITS (RB_DELTA_BITS + 32) /* of the largest time between two events */

u64 rb_region_hash(const void *data, size_t size)
{
	u64 h = 0xcbf29ce484222325; /* FNV-1a, of words */

	for (const u64 *w = data; size; w++, size -= 8) {
		h = (h ^ *w) * 0x100000001b3;
		h ^= h >> 32;
	}
	return h;
}

/* ---- Where the parts are ---- */

static unsigned long index_bytes(u32 nr_slots)
{
	return ALIGN_UP(nr_slots * sizeof(u64) + (nr_slots + 1) * sizeof(struct rb_desc),
			RB_PAGE_SIZE);
}

static unsigned long ring_bytes(u32 nr_slots)
{
	return index_bytes(nr_slots) + (nr_slots + 1ul) * RB_PAGE_SIZE;
}

/* The most that fit. */
static u32 slots_for(u64 size, u32 nr_cpus)
{
	u64 each = (size - RB_PAGE_SIZE) / nr_cpus;
	u32 n = each / RB_PAGE_SIZE;

	while (ring_bytes(n) > each)
		n--;
	return n;
}

struct ring {
	u64 *slots;
	struct rb_desc *descs;
	struct rb_page *pages;
};

static struct ring ring_of(const struct rb_region *r, u32 nr_slots, unsigned cpu)
{
	char *at = (char *)r + RB_PAGE_SIZE + cpu * ring_bytes(nr_slots);

	return (struct ring){(u64 *)at, (struct rb_desc *)(at + nr_slots * sizeof(u64)),
			     (struct rb_page *)(at + index_bytes(nr_slots))};
}

static u64 checksum(const struct rb_region *r)
{
	return rb_region_hash(r, offsetof(struct rb_region, checksum));
}

/* ---- For this boot's events ---- */

void rb_region_make(struct rb_region *r, u64 size, u32 nr_cpus, u64 build_id,
		    struct ring_buffer_cpu *rb)
{
	struct rb_region header = {MAGIC, build_id, size, nr_cpus, slots_for(size, nr_cpus)};

	WRITE_ONCE(r->magic, 0);
	smp_wmb();
	for (u32 cpu = 0; cpu < nr_cpus; cpu++) {
		struct ring ring = ring_of(r, header.nr_slots, cpu);

		for (u32 i = 0; i <= header.nr_slots; i++)
			ring.descs[i] = (struct rb_desc){&ring.pages[i]};
		rb_place(&rb[cpu], ring.slots, ring.descs, header.nr_slots);
	}
	header.checksum = checksum(&header);
	header.magic = 0;
	*r = header; /* all but the magic, which makes it valid */
	smp_wmb();
	WRITE_ONCE(r->magic, MAGIC);
}

/* ---- The events of the boot before ---- */

const char *rb_region_refusal(const struct rb_region *r, u64 size, u32 nr_cpus, u64 build_id)
{
	if (r->magic != MAGIC)
		return "no events of an earlier boot are there";
	if (r->checksum != checksum(r))
		return "the header of the earlier boot's events is damaged";
	if (r->build_id != build_id)
		return "the earlier boot ran another kernel, so its addresses mean other functions";
	if (r->size != size || r->nr_cpus != nr_cpus || r->nr_slots != slots_for(size, nr_cpus))
		return "the earlier boot had another number of CPUs, or another last_boot=";
	return NULL;
}

/* The size of the event at @e, @room bytes before the end of the data; 0: it is damaged. */
static u32 event_size(const u32 *e, u32 room)
{
	u32 type = room < 4 ? RB_PADDING : *e & 31, size = 4 + 4 * type;

	if (type == RB_TIME_EXTEND)
		size = 8;
	else if (type > RB_TYPE_MAX_WORDS)
		return 0;
	else if (!type)
		size = room < 8 || e[1] < 8 || e[1] % 4 ? 0 : 4 + e[1];
	return size <= room ? size : 0;
}

static void put(struct ring_buffer_cpu *to, u64 ts, const void *data, u32 len)
{
	struct rb_reserved room;
	void *copy = rb_reserve(to, ts, len, &room);

	if (!copy)
		return;
	memcpy(copy, data, len);
	rb_commit(to, &room);
}

/*
 * Go through the events of @page, which are not earlier than *ts; write them to @to, or if it is
 * NULL, only check them. Return: true, and the last one's time in *ts; false: the page is damaged.
 */
static bool each_event(const struct rb_page *page, u64 *ts, struct ring_buffer_cpu *to,
		       u32 (*accept)(const void *data, u32 len), struct rb_refused *refused)
{
	u64 now = page->time_stamp;
	u32 size;

	if (page->commit > RB_PAGE_DATA || now < *ts)
		return false;
	for (u32 at = 0; at < page->commit; at += size) {
		const u32 *e = (const u32 *)(page->data + at);
		u32 skip = *e & 31 ? 4 : 8, keep;

		size = event_size(e, page->commit - at);
		now += *e >> 5;
		if (size && (*e & 31) == RB_TIME_EXTEND)
			now += (u64)e[1] << RB_DELTA_BITS;
		if (!size || now >> TIME_BITS)
			return false;
		if (!to || (*e & 31) == RB_TIME_EXTEND)
			continue;
		keep = accept((const char *)e + skip, size - skip);
		if (keep)
			put(to, now, (const char *)e + skip, keep);
		else
			refused->events++;
	}
	*ts = now;
	return true;
}

/* What is known while the pages of one CPU are copied, the oldest first. */
struct copy {
	struct ring ring;
	struct ring_buffer_cpu *to;
	u64 ts; /* of the last event */
};

static void copy_page(struct copy *c, u32 desc, u32 (*accept)(const void *data, u32 len),
		      struct rb_refused *refused)
{
	const struct rb_page *page = &c->ring.pages[desc];
	u64 ts = c->ts;

	if (!page->commit)
		return;
	if (each_event(page, &ts, NULL, accept, refused))
		each_event(page, &c->ts, c->to, accept, refused);
	else
		refused->pages++;
}

/*
 * The descriptor of the unread page in the slot whose word is @word; NULL: there is no unread page.
 */
static const struct rb_desc *unread(const struct ring *ring, u32 nr_slots, u64 word)
{
	return word & RB_SLOT_EMPTY || RB_SLOT_PAGE(word) > nr_slots
		       ? NULL
		       : &ring->descs[RB_SLOT_PAGE(word)];
}

/*
 * The slots are in the order of time, from the one after the newest page's on. The page that no
 * slot names is the reader's; it comes before the first page that is newer.
 */
void rb_region_copy(const struct rb_region *r, unsigned cpu, struct ring_buffer_cpu *to,
		    u32 (*accept)(const void *data, u32 len), struct rb_refused *refused)
{
	u32 n = r->nr_slots, newest = 0;
	/* the sum of all pages' numbers, minus those that are in slots */
	u64 first = 0, held = n * (n + 1ull) / 2;
	struct copy c = {ring_of(r, n, cpu), to, 0};
	const struct rb_desc *d;

	for (u32 i = 0; i < n; i++) {
		held -= RB_SLOT_PAGE(c.ring.slots[i]);
		d = unread(&c.ring, n, c.ring.slots[i]);
		if (!d || d->first < first)
			continue;
		first = d->first;
		newest = i;
	}
	for (u32 i = 1; i <= n; i++) {
		d = unread(&c.ring, n, c.ring.slots[(newest + i) % n]);
		if (!d)
			continue;
		if (held <= n && c.ring.descs[held].first < d->first) {
			copy_page(&c, held, accept, refused);
			held = n + 1;
		}
		copy_page(&c, d - c.ring.descs, accept, refused);
	}
	if (held <= n)
		copy_page(&c, held, accept, refused);
}
