/*
 * The page allocator: a buddy allocator for each range of free memory.
 *
 * Each range starts with one state byte for each of its pages, which says what
 * begins at the page: nothing (0), a free block (FREE | order) or an allocated
 * one (USED | order). A free block's first two words are its list_node.
 */
#include "errno.h"
#include "list.h"
#include "lock.h"
#include "memory.h"
#include "print.h"
#include "string.h"

#define FREE	     0x80
#define USED	     0x40
#define BLOCK(order) ((unsigned long)PAGE_SIZE << (order))

struct zone {
	unsigned long start, end; /* physical */
	u8 *state;
};

static struct zone zones[RANGES_MAX];
static unsigned zone_count;
static struct list_node *free_list[PAGE_ORDER_MAX + 1];
static unsigned long free_pages, total_pages;
static struct spinlock page_lock;

static struct zone *zone_of(unsigned long pa)
{
	for (struct zone *z = zones; z < zones + zone_count; z++)
		if (pa >= z->start && pa < z->end)
			return z;
	return NULL;
}

static u8 *state_of(struct zone *z, unsigned long pa)
{
	return &z->state[(pa - z->start) >> PAGE_SHIFT];
}

static void push(struct zone *z, unsigned long pa, unsigned order)
{
	*state_of(z, pa) = FREE | order;
	list_add(&free_list[order], phys_to_virt(pa));
}

/* Merge the block with its free buddy as long as there is one. */
static void free_block(struct zone *z, unsigned long pa, unsigned order)
{
	*state_of(z, pa) = 0;
	free_pages += 1ul << order;
	for (; order < PAGE_ORDER_MAX; order++) {
		unsigned long buddy = pa ^ BLOCK(order);

		if (buddy < z->start || buddy >= z->end || *state_of(z, buddy) != (FREE | order))
			break;
		list_remove(phys_to_virt(buddy));
		*state_of(z, buddy) = 0;
		pa = MIN(pa, buddy);
	}
	push(z, pa, order);
}

static void *take_block(unsigned order)
{
	unsigned found = order;

	while (found <= PAGE_ORDER_MAX && !free_list[found])
		found++;
	if (found > PAGE_ORDER_MAX)
		return NULL;

	struct list_node *b = free_list[found];
	unsigned long pa = virt_to_phys(b);
	struct zone *z = zone_of(pa);

	list_remove(b);
	while (found-- > order)
		push(z, pa + BLOCK(found), found);
	*state_of(z, pa) = USED | order;
	free_pages -= 1ul << order;
	return b;
}

void *page_alloc(unsigned order)
{
	unsigned long flags = spin_lock_irqsave(&page_lock);
	void *p = take_block(order);

	spin_unlock_irqrestore(&page_lock, flags);
	return p;
}

void page_free(void *p, unsigned order)
{
	if (!p)
		return;
	if (page_order(p) != order)
		panic("page_free: no block of %lu bytes begins at %p", BLOCK(order), p);

#ifdef CONFIG_DEBUG
	memset(p, 0x6b, BLOCK(order));
#endif
	unsigned long flags = spin_lock_irqsave(&page_lock), pa = virt_to_phys(p);

	free_block(zone_of(pa), pa, order);
	spin_unlock_irqrestore(&page_lock, flags);
}

int page_order(const void *p)
{
	unsigned long pa = virt_to_phys(p);
	struct zone *z = (unsigned long)p % PAGE_SIZE ? NULL : zone_of(pa);
	u8 state = z ? *state_of(z, pa) : 0;

	return state & USED ? state & ~USED : -1;
}

unsigned long pages_free_count(void)
{
	return READ_ONCE(free_pages);
}

unsigned long pages_total_count(void)
{
	return total_pages;
}

/* Add a range of free memory: state bytes first, then the largest blocks that fit. */
static void add_zone(struct range r)
{
	unsigned long pages = (r.end - r.start) >> PAGE_SHIFT;
	struct zone *z = &zones[zone_count];

	if (pages < 16)
		return;
	zone_count++;
	*z = (struct zone){r.start, r.end, phys_to_virt(r.start)};
	memset(z->state, 0, pages);
	r.start += ALIGN_UP(pages, PAGE_SIZE);
	while (r.start < r.end) {
		unsigned order = PAGE_ORDER_MAX;

		while (r.start % BLOCK(order) || r.end - r.start < BLOCK(order))
			order--;
		free_block(z, r.start, order);
		r.start += BLOCK(order);
	}
}

int page_init(void)
{
	static struct range_list free;

	free = ram;
	for (unsigned i = 0; i < taken.count; i++)
		range_remove(&free, taken.range[i].start, taken.range[i].end);
	for (unsigned i = 0; i < free.count; i++)
		add_zone(free.range[i]);
	total_pages = free_pages;
	return total_pages ? 0 : -ENOMEM;
}
