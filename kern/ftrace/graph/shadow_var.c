/*
 * A word for each thread and user, in the thread's shadow stack. It is set to 0
 * again for each new user of the slot; a new user has another birth.
 */
#include "shadow.h"

#include "fgraph.h"

unsigned long *fgraph_get_task_var(struct fgraph_ops *gops)
{
	struct shadow_stack *s = shadow_of(current);
	unsigned long flags;

	if (READ_ONCE(s->var_owner[gops->idx]) == gops->birth)
		return &s->var[gops->idx];
	flags = irq_save(); /* an interrupt may have set the word to 0 since, and used it */
	if (READ_ONCE(s->var_owner[gops->idx]) != gops->birth) {
		shadow_store(s->var[gops->idx], 0);
		shadow_store(s->var_owner[gops->idx], gops->birth);
	}
	irq_restore(flags);
	return &s->var[gops->idx];
}
