/* A list whose entries are removed without a search. The list is a pointer to its first entry. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "types.h"

struct list_node {
	struct list_node *next, **link; /* link: the pointer that points to this entry */
};

static __always_inline void list_add(struct list_node **list, struct list_node *n)
{
	n->next = *list;
	n->link = list;
	if (n->next)
		n->next->link = &n->next;
	*list = n;
}

static __always_inline void list_remove(struct list_node *n)
{
	*n->link = n->next;
	if (n->next)
		n->next->link = n->link;
}

#endif
