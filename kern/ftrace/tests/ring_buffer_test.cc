// needs: kern/ftrace/ring/ring_buffer.c -Ikern/ftrace/tests/host
/*
 * The ring buffer on the host: every page is also read by a second decoder,
 * written here from the layout alone, and after every step the accounts are
 * balanced: read + in buffer + overrun + dropped = written.
 */
#include <gtest/gtest.h>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <random>
#include <thread>
#include <vector>

extern "C" {
#include "errno.h"
#include "ring_buffer.h"

static long pages_out, pages_left = 1 << 30, objects_out;

void *page_alloc(unsigned order)
{
	if (!pages_left)
		return nullptr;
	pages_left--;
	pages_out++;
	void *p = aligned_alloc(4096, 4096ul << order);
	memset(p, 0xa5, 4096ul << order);
	return p;
}
void page_free(void *p, unsigned order)
{
	pages_left++;
	pages_out--;
	free(p);
}
void *kmalloc(size_t n)
{
	objects_out++;
	return malloc(n);
}
void *kzalloc(size_t n)
{
	objects_out++;
	return calloc(1, n);
}
void kfree(void *p)
{
	objects_out -= p != nullptr;
	free(p);
}
void mutex_lock(struct mutex *m)
{
	while (__atomic_exchange_n((void **)&m->owner, (void *)1, __ATOMIC_ACQUIRE))
		sched_yield();
}
void mutex_unlock(struct mutex *m)
{
	__atomic_store_n((void **)&m->owner, nullptr, __ATOMIC_RELEASE);
}
/* While a writer runs as a thread, only that thread may exchange its buffers. */
static bool writer_runs;
void smp_call(unsigned index, void (*fn)(void *), void *arg)
{
	if (!writer_runs)
		fn(arg);
}
__thread struct cpu *host_cpu;
__thread struct thread *host_current;
}

namespace
{

/* A page, decoded without the kernel's code. */
struct Decoded {
	uint64_t ts;
	std::vector<uint32_t> words;
};
struct Page {
	uint64_t time_stamp = 0;
	bool missed = false;
	int64_t missed_count = -1;
	std::vector<Decoded> events;
};

uint32_t word_at(const unsigned char *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}
uint64_t long_at(const unsigned char *p)
{
	return word_at(p) | (uint64_t)word_at(p + 4) << 32;
}

Page decode(const void *raw)
{
	const unsigned char *p = (const unsigned char *)raw;
	Page page;
	page.time_stamp = long_at(p);
	uint64_t commit = long_at(p + 8), ts = page.time_stamp;
	page.missed = commit >> 31 & 1;
	size_t size = commit & 0xfffff;
	EXPECT_LE(size, 4080u);
	if (commit >> 30 & 1)
		page.missed_count = long_at(p + 16 + size);
	for (size_t at = 0; at < size;) {
		const unsigned char *e = p + 16 + at;
		uint32_t type = word_at(e) & 31, delta = word_at(e) >> 5;
		if (type == 30) {
			ts += delta + ((uint64_t)word_at(e + 4) << 27);
			at += 8;
			continue;
		}
		EXPECT_NE(type, 29u);
		EXPECT_NE(type, 31u);
		size_t bytes = type ? type * 4 : word_at(e + 4) - 4, skip = type ? 4 : 8;
		Decoded d{ts += delta, {}};
		for (size_t i = 0; i < bytes; i += 4)
			d.words.push_back(word_at(e + skip + i));
		page.events.push_back(d);
		at += skip + bytes;
		EXPECT_LE(at, size);
	}
	return page;
}

int resize(ring_buffer_cpu *rb, unsigned long pages)
{
	rb_resize to;
	int err = rb_resize_prepare(rb, pages, &to);

	if (!err)
		rb_resize_apply(rb, &to);
	return err;
}

class Ring : public ::testing::Test
{
      protected:
	ring_buffer_cpu rb{};
	uint64_t now = 1000, tried = 0;

	void SetUp() override
	{
		pages_left = 1 << 30;
	}
	void make(unsigned pages, bool overwrite = true)
	{
		rb.overwrite = overwrite;
		ASSERT_EQ(resize(&rb, pages), 0);
	}
	void TearDown() override
	{
		for (unsigned i = 0; rb.nr_slots && i <= rb.nr_slots; i++)
			page_free(rb.pages[i].page, 0);
		kfree(rb.pages);
		kfree(rb.slots);
		EXPECT_EQ(pages_out, 0);
		EXPECT_EQ(objects_out, 0);
	}
	/* Write event number `tried`: its number, then filler. */
	bool write(size_t words = 6, uint64_t step = 10)
	{
		rb_reserved r;
		now += step;
		uint32_t *e = (uint32_t *)rb_reserve(&rb, now, words * 4, &r);
		uint32_t number = tried++;
		if (!e)
			return false;
		for (size_t i = 0; i < words; i++)
			e[i] = number;
		rb_commit(&rb, &r);
		return true;
	}
	/* Unread events, counted in the pages themselves. */
	uint64_t in_buffer()
	{
		uint64_t n = 0;
		auto count = [&](unsigned desc) {
			rb_page copy = *rb.pages[desc].page;
			n += decode(&copy).events.size();
		};
		for (unsigned i = 0; i < rb.nr_slots; i++)
			if (!(rb.slots[i] >> 63))
				count(rb.slots[i] >> 43 & 0xfffff);
		if (rb.holds_events) {
			rb_page copy = *rb.pages[rb.held].page;
			memmove(copy.data, copy.data + rb.offset, copy.commit - rb.offset);
			copy.commit -= rb.offset;
			n += decode(&copy).events.size();
		}
		return n;
	}
	void balance()
	{
		ASSERT_EQ(rb.read + in_buffer() + rb.overrun + rb.dropped, tried);
		ASSERT_EQ(rb_entries(&rb), in_buffer());
	}
	int64_t read_one(uint64_t *lost = nullptr, uint64_t *ts = nullptr)
	{
		rb_event ev;
		if (!rb_peek(&rb, &ev))
			return -1;
		uint32_t number = *(const uint32_t *)ev.data;
		for (unsigned i = 0; i < ev.len; i += 4)
			EXPECT_EQ(((const uint32_t *)ev.data)[i / 4], number);
		if (lost)
			*lost = ev.lost;
		if (ts)
			*ts = ev.ts;
		rb_consume(&rb);
		return number;
	}
};

TEST_F(Ring, what_is_written_is_read_once_in_order)
{
	make(4);
	for (int i = 0; i < 100; i++)
		ASSERT_TRUE(write());
	for (int i = 0; i < 100; i++)
		ASSERT_EQ(read_one(), i);
	EXPECT_EQ(read_one(), -1);
	balance();
}

TEST_F(Ring, a_function_event_takes_28_bytes_and_145_fill_a_page)
{
	make(4);
	for (int i = 0; i < 145; i++)
		write(6);
	EXPECT_EQ(rb.position, 0u);
	EXPECT_EQ(rb.page->commit, 145u * 28);
	write(6);
	EXPECT_EQ(rb.position, 1u);
}

TEST_F(Ring, the_reader_follows_the_writer_in_its_page)
{
	make(2);
	for (int i = 0; i < 1000; i++) {
		write();
		ASSERT_EQ(read_one(), i);
		ASSERT_EQ(read_one(), -1);
	}
	EXPECT_EQ(rb.overrun, 0u);
	balance();
}

TEST_F(Ring, overwrite_drops_the_oldest_pages_and_the_reader_learns_how_many)
{
	make(3);
	for (int i = 0; i < 1000; i++)
		write();
	balance();
	uint64_t lost, overrun = rb.overrun;
	EXPECT_GT(overrun, 0u);
	EXPECT_EQ(read_one(&lost), (int64_t)overrun);
	EXPECT_EQ(lost, overrun);
	EXPECT_EQ(read_one(&lost), (int64_t)overrun + 1);
	EXPECT_EQ(lost, 0u);
	balance();
}

TEST_F(Ring, stop_mode_keeps_the_oldest_and_counts_the_dropped)
{
	make(2, false);
	int kept = 0;
	for (int i = 0; i < 1000; i++)
		kept += write();
	EXPECT_EQ(kept, 2 * 145);
	EXPECT_EQ(rb.dropped, 1000u - kept);
	EXPECT_EQ(rb.overrun, 0u);
	balance();
	uint64_t lost;
	for (int i = 0; i < kept; i++) {
		ASSERT_EQ(read_one(&lost), i);
		ASSERT_EQ(lost, 0u);
	}
	EXPECT_TRUE(write());
	balance();
}

TEST_F(Ring, a_gap_of_2_to_27_ns_or_more_becomes_a_time_extend)
{
	make(4);
	const uint64_t gaps[] = {1,	     (1u << 27) - 1, 1u << 27, (1u << 27) + 1,
				 1ull << 40, 1ull << 58};
	write();
	for (uint64_t gap : gaps)
		write(6, gap);
	uint64_t ts, expected = 1010;
	ASSERT_EQ(read_one(nullptr, &ts), 0);
	EXPECT_EQ(ts, expected);
	for (uint64_t gap : gaps) {
		ASSERT_GE(read_one(nullptr, &ts), 0);
		EXPECT_EQ(ts, expected += gap);
	}
	EXPECT_EQ(rb.read_bytes, 7u * 28 + 4 * 8);
}

TEST_F(Ring, long_events_carry_their_length_in_a_word)
{
	make(4);
	for (size_t words : {1, 27, 28, 29, 100, 1018})
		EXPECT_TRUE(write(words));
	EXPECT_FALSE(write(1019));
	balance();
	for (int i = 0; i < 6; i++)
		EXPECT_EQ(read_one(), i);
}

TEST_F(Ring, raw_pages_are_whole_and_say_what_was_missed)
{
	make(3);
	for (int i = 0; i < 2000; i++)
		write();
	rb_page out;
	uint32_t expected = rb.overrun;
	uint64_t n, sum = 0;
	bool first = true;
	while ((n = rb_read_page(&rb, &out))) {
		Page p = decode(&out);
		ASSERT_EQ(p.events.size(), n);
		EXPECT_EQ(p.missed, first);
		if (first && p.missed_count >= 0) {
			EXPECT_EQ((uint64_t)p.missed_count, rb.overrun);
		}
		for (auto &e : p.events) {
			ASSERT_EQ(e.words[0], expected);
			ASSERT_EQ(e.ts, 1010u + 10 * expected);
			expected++;
		}
		sum += n;
		first = false;
		balance();
	}
	EXPECT_EQ(expected, 2000u);
	EXPECT_EQ(sum, rb.read);
}

TEST_F(Ring, a_page_that_has_room_carries_the_number_of_missed_events)
{
	make(2);
	for (int i = 0; i < 20; i++)
		write(300);	/* three a page, with room left */
	rb_page out;
	ASSERT_GT(rb_read_page(&rb, &out), 0u);
	Page p = decode(&out);
	EXPECT_TRUE(p.missed);
	EXPECT_EQ((uint64_t)p.missed_count, rb.overrun);
}

TEST_F(Ring, the_rest_of_a_page_read_in_part_keeps_its_times)
{
	make(2);
	for (int i = 0; i < 10; i++)
		write();
	for (int i = 0; i < 4; i++)
		read_one();
	rb_page out;
	ASSERT_EQ(rb_read_page(&rb, &out), 6u);
	Page p = decode(&out);
	for (unsigned i = 0; i < 6; i++) {
		EXPECT_EQ(p.events[i].words[0], i + 4);
		EXPECT_EQ(p.events[i].ts, 1010u + 10 * (i + 4));
	}
	EXPECT_FALSE(p.missed);
	balance();
}

TEST_F(Ring, looking_does_not_consume)
{
	make(3);
	for (int i = 0; i < 300; i++)
		write();
	for (int i = 0; i < 20; i++)
		read_one();
	for (int twice = 0; twice < 2; twice++) {
		rb_page copy;
		rb_iter it;
		rb_event ev;
		uint32_t expected = 20;
		rb_iter_start(&it, &rb, &copy);
		for (; rb_iter_peek(&it, &ev); rb_iter_next(&it)) {
			ASSERT_EQ(*(const uint32_t *)ev.data, expected++);
			ASSERT_EQ(ev.lost, 0u);
		}
		EXPECT_EQ(expected, 300u);
	}
	balance();
	EXPECT_EQ(read_one(), 20);
}

TEST_F(Ring, a_look_ends_where_the_buffer_ended_when_it_began)
{
	make(8);
	for (int i = 0; i < 200; i++)
		write();
	rb_page copy;
	rb_iter it;
	rb_event ev;
	unsigned n = 0;
	rb_iter_start(&it, &rb, &copy);
	for (; rb_iter_peek(&it, &ev); rb_iter_next(&it), n++)
		write();
	EXPECT_EQ(n, 200u);
}

TEST_F(Ring, a_look_overtaken_by_the_writer_says_what_it_missed)
{
	make(3);
	for (int i = 0; i < 435; i++)
		write();
	rb_page copy;
	rb_iter it;
	rb_event ev;
	rb_iter_start(&it, &rb, &copy);
	ASSERT_TRUE(rb_iter_peek(&it, &ev));	/* a copy of the first page */
	for (int i = 0; i < 290; i++)
		write();		/* the first two are overwritten */
	uint64_t seen = 0, lost = 0;
	for (; rb_iter_peek(&it, &ev); rb_iter_next(&it), seen++)
		lost += ev.lost;
	EXPECT_EQ(lost, 145u);
	EXPECT_EQ(seen, 290u);
}

TEST_F(Ring, reset_empties_and_forgets)
{
	make(3);
	for (int i = 0; i < 1000; i++)
		write();
	read_one();
	rb_reset(&rb);
	tried = 0;
	EXPECT_EQ(read_one(), -1);
	EXPECT_EQ(rb_bytes(&rb), 0u);
	balance();
	write();
	EXPECT_EQ(read_one(), 0);
	balance();
}

TEST_F(Ring, a_resize_keeps_the_newest_and_counts_the_rest)
{
	make(8);
	for (int i = 0; i < 1000; i++)
		write();
	ASSERT_EQ(resize(&rb, 3), 0);
	balance();
	int64_t first = read_one();
	EXPECT_EQ((uint64_t)first, rb.overrun);
	ASSERT_EQ(resize(&rb, 20), 0);
	balance();
	for (int i = 0; i < 1000; i++)
		write();
	EXPECT_EQ(rb.overrun, (uint64_t)first);
	balance();
	for (int64_t i = first + 1; i < 2000; i++)
		ASSERT_EQ(read_one(), i);
	EXPECT_EQ(read_one(), -1);
}

TEST_F(Ring, a_resize_without_memory_changes_nothing)
{
	make(4);
	for (int i = 0; i < 1000; i++)
		write();
	uint64_t overrun = rb.overrun;
	pages_left = 3;
	EXPECT_EQ(resize(&rb, 100), -ENOMEM);
	EXPECT_EQ(rb.nr_slots, 4u);
	EXPECT_EQ(rb.overrun, overrun);
	balance();
	EXPECT_EQ(read_one(), (int64_t)overrun);
	EXPECT_EQ(resize(&rb, 1), -EINVAL);
}

TEST_F(Ring, buffers_change_together_or_not_at_all)
{
	ring_buffer_cpu other{};
	rb_resize to[2];

	make(4);
	ASSERT_EQ(resize(&other, 4), 0);
	for (int i = 0; i < 1000; i++)
		write();
	uint64_t overrun = rb.overrun;
	long out = pages_out, objects = objects_out;
	for (unsigned size : {40u, 2u}) {
		pages_left = 36;
		ASSERT_EQ(rb_resize_prepare(&rb, size, &to[0]), 0);
		if (size > 4) {
			EXPECT_EQ(rb_resize_prepare(&other, size, &to[1]), -ENOMEM);
		}
		rb_resize_cancel(&to[0]);
		EXPECT_EQ(pages_out, out);
		EXPECT_EQ(objects_out, objects);
		EXPECT_EQ(rb.nr_slots, 4u);
		EXPECT_EQ(rb.overrun, overrun);
		balance();
	}
	EXPECT_EQ(read_one(), (int64_t)overrun);
	rb_free(&other);
}

TEST_F(Ring, the_accounts_balance_after_any_operations)
{
	std::mt19937_64 random(7);
	make(2);
	int64_t last = -1;
	rb_page out;
	for (int step = 0; step < 8000; step++) {
		uint64_t lost = 0;
		int64_t number;
		switch (random() % 16) {
		default:
			for (int n = random() % 60; n; n--)
				write(1 + random() % (random() % 9 ? 8 : 900),
				      random() % 50 ? random() % 100 : random() % (1ull << 30));
			break;
		case 8 ... 11:
			for (int n = random() % 100; n; n--) {
				number = read_one(&lost);
				if (number < 0)
					break;
				ASSERT_GT(number, last);
				if (rb.overwrite && !rb.dropped) {
					ASSERT_EQ((uint64_t)(number - last - 1), lost);
				}
				last = number;
			}
			break;
		case 12:
			if (rb_read_page(&rb, &out))
				last = decode(&out).events.back().words[0];
			break;
		case 13:
			rb.overwrite = random() % 4;
			break;
		case 14:
			if (random() % 8 == 0) {
				ASSERT_EQ(resize(&rb, 2 + random() % 30), 0);
			}
			break;
		case 15:
			if (random() % 100 == 0) {
				rb_reset(&rb);
				tried = 0;
				last = -1;
			}
		}
		balance();
		if (HasFatalFailure())
			return;
	}
}

/* A writer and a consuming reader at full speed, and a reader that does not consume. */
void stress(unsigned pages, bool overwrite, bool raw)
{
	static const uint32_t count = 3000000;
	ring_buffer_cpu rb{};
	std::atomic<bool> done{false};
	rb.overwrite = overwrite;
	ASSERT_EQ(resize(&rb, pages), 0);
	std::thread writer([&] {
		for (uint32_t i = 0; i < count; i++) {
			rb_reserved r;
			size_t words = 1 + i % 9;
			uint32_t *e = (uint32_t *)rb_reserve(&rb, 1000 + i, words * 4, &r);
			if (!e)
				continue;
			for (size_t w = 0; w < words; w++)
				e[w] = i;
			rb_commit(&rb, &r);
		}
		done = true;
	});
	std::thread looker([&] {
		rb_page copy;
		while (!done) {
			rb_iter it;
			rb_event ev;
			int64_t last = -1;
			rb_iter_start(&it, &rb, &copy);
			for (; rb_iter_peek(&it, &ev); rb_iter_next(&it)) {
				const uint32_t *w = (const uint32_t *)ev.data;
				ASSERT_EQ(ev.len, 4 * (1 + w[0] % 9));
				ASSERT_EQ(ev.ts, 1000u + w[0]);
				ASSERT_GT((int64_t)w[0], last);
				last = w[0];
				ASSERT_LE(rb_entries(&rb), count) << "a count is never below 0";
			}
		}
	});
	uint64_t seen = 0, lost = 0;
	int64_t last = -1;
	auto one = [&](uint64_t ts, const uint32_t *w, size_t len, uint64_t missed) {
		ASSERT_EQ(len, 4 * (1 + w[0] % 9));
		ASSERT_EQ(w[len / 4 - 1], w[0]);
		ASSERT_EQ(ts, 1000u + w[0]);
		ASSERT_GT((int64_t)w[0], last);
		if (overwrite && !raw) {
			ASSERT_EQ((uint64_t)(w[0] - last - 1), missed);
		}
		last = w[0];
		seen++;
		lost += missed;
	};
	for (bool more = true; more;) {
		bool finished = done;
		rb_event ev;
		rb_page out;
		more = false;
		rb_lock(&rb);
		if (raw && rb_read_page(&rb, &out)) {
			for (auto &e : decode(&out).events)
				one(e.ts, e.words.data(), 4 * e.words.size(), 0);
			more = true;
		} else if (!raw && rb_peek(&rb, &ev)) {
			one(ev.ts, (const uint32_t *)ev.data, ev.len, ev.lost);
			rb_consume(&rb);
			more = true;
		}
		rb_unlock(&rb);
		more |= !finished;
		if (::testing::Test::HasFatalFailure())
			break;
	}
	writer.join();
	looker.join();
	EXPECT_EQ(seen, rb.read);
	EXPECT_EQ(rb.read + rb.overrun + rb.dropped, count);
	if (!raw) {
		EXPECT_EQ(lost, rb.overrun);
	}
	for (unsigned i = 0; i <= rb.nr_slots; i++)
		page_free(rb.pages[i].page, 0);
	kfree(rb.pages);
	kfree(rb.slots);
}

/* ---- The spare ---- */

class Swapped : public Ring
{
      protected:
	ring_buffer_cpu spare{};

	void make_two(unsigned pages, unsigned spare_pages)
	{
		make(pages);
		spare.overwrite = true;
		ASSERT_EQ(resize(&spare, spare_pages), 0);
		rb.spare = &spare;
		spare.live = &rb;
	}
	void TearDown() override
	{
		rb_free(&spare);
		rb_free(&rb);
		rb.pages = nullptr;
		rb.slots = nullptr;
		Ring::TearDown();
	}
	void swap()
	{
		rb.slow ^= RB_SWAP;
		rb_swap_pending(&rb);
	}
	/* The first and the last number of the events that a look shows; -1, -1: none. */
	std::pair<int64_t, int64_t> look(ring_buffer_cpu *at)
	{
		rb_page copy;
		rb_iter it;
		rb_event ev;
		int64_t first = -1, last = -1;
		rb_iter_start(&it, at, &copy);
		for (; rb_iter_peek(&it, &ev); rb_iter_next(&it)) {
			int64_t number = *(const uint32_t *)ev.data;
			EXPECT_TRUE(last < 0 || number > last);
			first = first < 0 ? number : first;
			last = number;
		}
		return {first, last};
	}
};
using Both = std::pair<int64_t, int64_t>;

TEST_F(Swapped, they_change_places_with_all_that_belongs_to_their_events)
{
	make_two(4, 9);
	for (int i = 0; i < 50; i++)
		write();
	EXPECT_EQ(read_one(), 0);
	swap();
	EXPECT_EQ(look(&rb), Both(-1, -1));
	EXPECT_EQ(look(&spare), Both(1, 49));
	EXPECT_EQ(spare.read, 1u);
	EXPECT_EQ(rb.nr_slots, 9u);
	for (int i = 0; i < 7; i++)
		write();
	EXPECT_EQ(look(&rb), Both(50, 56));
	swap();		/* and back: recording goes on behind the first events */
	EXPECT_EQ(look(&spare), Both(50, 56));
	write();
	EXPECT_EQ(look(&rb), Both(1, 57));
	EXPECT_EQ(read_one(), 1);
}

TEST_F(Swapped, asked_twice_they_stay)
{
	make_two(4, 4);
	write();
	rb.slow ^= RB_SWAP;
	rb.slow ^= RB_SWAP;
	rb_swap_pending(&rb);
	EXPECT_EQ(look(&rb), Both(0, 0));
}

TEST_F(Swapped, the_reasons_and_the_mode_stay_where_they_are)
{
	make_two(4, 4);
	rb.slow = RB_ASK;
	rb.overwrite = false;
	swap();
	EXPECT_EQ(rb.slow, (u64)RB_ASK);
	EXPECT_FALSE(rb.overwrite);
	EXPECT_TRUE(spare.overwrite);
}

TEST_F(Swapped, not_while_a_reader_is_in_one_of_them)
{
	make_two(4, 4);
	write();
	for (ring_buffer_cpu *at : {&rb, &spare}) {
		rb_lock(at);
		swap();
		EXPECT_EQ(read_one(), (int64_t)tried - 1);
		write();
		rb_unlock(at);
		rb_swap_pending(&rb);
		EXPECT_EQ(look(&spare), Both(tried - 1, tried - 1));
		swap();
	}
}

TEST_F(Swapped, a_reader_that_comes_has_it_done)
{
	make_two(4, 4);
	write();
	rb.slow ^= RB_SWAP;
	rb_lock(&spare);
	EXPECT_EQ(rb_entries(&spare), 1u);
	EXPECT_EQ(rb_entries(&rb), 0u);
	rb_unlock(&spare);
}

TEST_F(Swapped, a_look_that_has_begun_ends)
{
	make_two(4, 4);
	for (int i = 0; i < 400; i++)	/* three pages */
		write();
	rb_page copy;
	rb_iter it;
	rb_event ev;
	uint32_t n = 0;
	rb_iter_start(&it, &rb, &copy);
	ASSERT_TRUE(rb_iter_peek(&it, &ev));
	swap();
	for (int i = 0; i < 400; i++)
		write();
	for (; rb_iter_peek(&it, &ev); rb_iter_next(&it))
		ASSERT_EQ(*(const uint32_t *)ev.data, n++);
	EXPECT_EQ(n, 145u);		/* of the page that was copied */
}

/* A writer that asks for snapshots, and readers of both buffers: no event is lost uncounted. */
void stress_swap(unsigned pages, bool overwrite)
{
	static const uint32_t count = 1000000;
	ring_buffer_cpu rb[2]{};
	std::atomic<bool> done{false};
	rb[0].spare = &rb[1];
	rb[1].live = &rb[0];
	for (auto &b : rb) {
		b.overwrite = overwrite;
		ASSERT_EQ(resize(&b, pages), 0);
	}
	writer_runs = true;
	std::thread writer([&] {
		for (uint32_t i = 0; i < count; i++) {
			rb_reserved r;
			size_t words = 1 + i % 9;
			if (i % 97 == 0)
				__atomic_fetch_xor(&rb[0].slow, RB_SWAP, __ATOMIC_RELAXED);
			if (__atomic_load_n(&rb[0].slow, __ATOMIC_RELAXED)) {
				rb_swap_pending(&rb[0]);
				if (__atomic_load_n(&rb[0].slow, __ATOMIC_RELAXED))
					sched_yield(); /* a reader is in; let it leave */
			}
			uint32_t *e = (uint32_t *)rb_reserve(&rb[0], 1000 + i, words * 4, &r);
			if (!e)
				continue;
			for (size_t w = 0; w < words; w++)
				e[w] = i;
			rb_commit(&rb[0], &r);
		}
		done = true;
	});
	std::thread looker([&] {
		rb_page copy;
		for (unsigned n = 0; !done; n++) {
			rb_iter it;
			rb_event ev;
			int64_t last = -1;
			rb_iter_start(&it, &rb[n % 2], &copy);
			for (; rb_iter_peek(&it, &ev); rb_iter_next(&it)) {
				const uint32_t *w = (const uint32_t *)ev.data;
				ASSERT_EQ(ev.len, 4 * (1 + w[0] % 9));
				ASSERT_EQ(ev.ts, 1000u + w[0]);
				ASSERT_GT((int64_t)w[0], last);
				last = w[0];
			}
		}
	});
	std::vector<bool> seen(count);
	uint64_t read = 0;
	for (bool more = true; more && !::testing::Test::HasFatalFailure();) {
		bool finished = done;
		more = false;
		for (auto &b : rb) {
			rb_event ev;
			rb_lock(&b);
			if (rb_peek(&b, &ev)) {
				uint32_t i = *(const uint32_t *)ev.data;
				EXPECT_EQ(ev.len, 4 * (1 + i % 9));
				EXPECT_FALSE(seen[i]) << i;
				seen[i] = true;
				read++;
				rb_consume(&b);
				more = true;
			}
			rb_unlock(&b);
		}
		more |= !finished;
	}
	writer.join();
	looker.join();
	writer_runs = false;
	EXPECT_EQ(rb[0].read + rb[1].read, read);
	EXPECT_EQ(read + rb[0].overrun + rb[1].overrun + rb[0].dropped + rb[1].dropped, count);
	EXPECT_GT(rb[0].swaps, 0u);
	for (auto &b : rb)
		rb_free(&b);
}
TEST(Stress, swap_two_pages) { stress_swap(2, true); }
TEST(Stress, swap_many_pages) { stress_swap(50, true); }
TEST(Stress, swap_stop) { stress_swap(3, false); }

TEST(Stress, overwrite_two_pages) { stress(2, true, false); }
TEST(Stress, overwrite_many_pages) { stress(50, true, false); }
TEST(Stress, overwrite_raw) { stress(3, true, true); }
TEST(Stress, stop_two_pages) { stress(2, false, false); }
TEST(Stress, stop_raw) { stress(5, false, true); }

} // namespace
