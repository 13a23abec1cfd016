/*
 * Objects of any size: from slabs of one size class each, and whole pages
 * for the large ones.
 *
 *	| struct slab | object | object | ... |		16 KiB, aligned to it
 *
 * A slab begins with its header, so none of its objects lies where an allocated
 * block of pages begins: this is how kfree() tells the two apart.
 */
#include "list.h"
#include "lock.h"
#include "memory.h"
#include "print.h"
#include "string.h"
#include "tracepoint.h"

#define SLAB_ORDER 2
#define SLAB_SIZE  ((unsigned long)PAGE_SIZE << SLAB_ORDER)
#define SLAB_MAGIC 0x736c6162u /* "slab" */

static const u16 class_size[] = {16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4080};
#define CLASSES ARRAY_SIZE(class_size)

struct object {
	struct object *next;
	u64 mark; /* DEBUG: OBJECT_FREE in a free object */
};

struct slab {
	u32 magic;
	u16 index, used;
	struct object *free;	   /* freed objects */
	char *fresh;		   /* from here to the slab's end: never used */
	struct list_node room;	   /* entry in with_room[index]; link NULL: not in it */
} __aligned(16);

static struct list_node *with_room[CLASSES];
static struct spinlock kmalloc_lock;

#ifdef CONFIG_DEBUG
#define OBJECT_FREE 0x6b6b6b6b6b6b6bf4ull
#define POISON	    0x6b

static void poison(struct object *o, unsigned size)
{
	if (o->mark == OBJECT_FREE)
		panic("kfree: the %u-byte object at %p was already freed", size, o);
	memset(o, POISON, size);
	o->mark = OBJECT_FREE;
}

static void check_poison(struct object *o, unsigned size)
{
	bool intact = o->mark == OBJECT_FREE;

	for (u8 *p = (u8 *)(o + 1); p < (u8 *)o + size; p++)
		intact &= *p == POISON;
	if (!intact)
		panic("kmalloc: the %u-byte object at %p was written after it was freed", size, o);
	memset(o, 0xa5, size);
}
#else
static void poison(struct object *o, unsigned size)
{
}
static void check_poison(struct object *o, unsigned size)
{
}
#endif

static unsigned class_of(size_t size)
{
	unsigned index = 0;

	while (index < CLASSES && class_size[index] < size)
		index++;
	return index;
}

static unsigned order_of(size_t size)
{
	unsigned order = 0;

	while (order <= PAGE_ORDER_MAX && ((size_t)PAGE_SIZE << order) < size)
		order++;
	return order;
}

static bool has_fresh(const struct slab *s)
{
	return s->fresh + class_size[s->index] <= (char *)s + SLAB_SIZE;
}

static struct slab *slab_new(unsigned index)
{
	struct slab *s = page_alloc(SLAB_ORDER);

	if (!s)
		return NULL;
	*s = (struct slab){SLAB_MAGIC, index, .fresh = (char *)(s + 1)};
	list_add(&with_room[index], &s->room);
	return s;
}

static void *slab_take(struct slab *s)
{
	struct object *o = s->free;

	if (o) {
		s->free = o->next;
		check_poison(o, class_size[s->index]);
	} else {
		o = (struct object *)s->fresh;
		s->fresh += class_size[s->index];
#ifdef CONFIG_DEBUG
		memset(o, 0xa5, class_size[s->index]);
#endif
	}
	s->used++;
	if (!s->free && !has_fresh(s)) {
		list_remove(&s->room);
		s->room.link = NULL;
	}
	return o;
}

void *kmalloc(size_t size)
{
	unsigned index = class_of(size);

	if (index == CLASSES) {
		void *pages = order_of(size) > PAGE_ORDER_MAX ? NULL : page_alloc(order_of(size));

		TRACE(kmalloc, __builtin_return_address(0), pages, size,
		      (size_t)PAGE_SIZE << order_of(size));
		return pages;
	}

	unsigned long flags = spin_lock_irqsave(&kmalloc_lock);
	struct list_node *room = with_room[index];
	struct slab *s = room ? container_of(room, struct slab, room) : slab_new(index);
	void *p = s ? slab_take(s) : NULL;

	spin_unlock_irqrestore(&kmalloc_lock, flags);
	TRACE(kmalloc, __builtin_return_address(0), p, size, class_size[index]);
	return p;
}

void *kzalloc(size_t size)
{
	void *p = kmalloc(size);

	return p ? memset(p, 0, size) : NULL;
}

/* The slab with an object that begins at @p, or NULL. */
static struct slab *find_slab(const void *p)
{
	struct slab *s = (struct slab *)ALIGN_DOWN((unsigned long)p, SLAB_SIZE);
	bool object = page_order(s) == SLAB_ORDER && s->magic == SLAB_MAGIC &&
		      ((char *)p - (char *)(s + 1)) % class_size[s->index] == 0;

	return object ? s : NULL;
}

static struct slab *slab_of(const void *p)
{
	struct slab *s = find_slab(p);

	if (!s)
		panic("kfree: %p is not an object (freed before?)", p);
	return s;
}

bool is_kmalloc_object(const void *p)
{
	return page_order(p) >= 0 || find_slab(p);
}

static size_t object_size(const void *p)
{
	int order = page_order(p);

	return order >= 0 ? (size_t)PAGE_SIZE << order : class_size[slab_of(p)->index];
}

void *krealloc(void *p, size_t size)
{
	void *q = kmalloc(size);

	if (q && p) {
		memcpy(q, p, MIN(object_size(p), size));
		kfree(p);
	}
	return q;
}

/* An empty slab's pages are freed, unless it is the only one with room. */
static void slab_give(struct slab *s, struct object *o)
{
	poison(o, class_size[s->index]);
	o->next = s->free;
	s->free = o;
	s->used--;
	if (!s->room.link)
		list_add(&with_room[s->index], &s->room);
	if (!s->used && (s->room.next || with_room[s->index] != &s->room)) {
		list_remove(&s->room);
		s->magic = 0;
		page_free(s, SLAB_ORDER);
	}
}

void kfree(void *p)
{
	TRACE(kfree, __builtin_return_address(0), p);
	if (!p)
		return;
	if (page_order(p) >= 0) {
		page_free(p, page_order(p));
		return;
	}

	unsigned long flags = spin_lock_irqsave(&kmalloc_lock);

	slab_give(slab_of(p), p);
	spin_unlock_irqrestore(&kmalloc_lock, flags);
}
