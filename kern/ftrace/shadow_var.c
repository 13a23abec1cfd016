/*
 * A word for each thread and user, on the shadow stack. It is 0 again when its
 * user is another one: the user's birth says so.
 */
#include "shadow.h"

#include "fgraph.h"

unsigned long *fgraph_get_task_var(struct fgraph_ops *gops)
{
	struct shadow_stack *s = shadow_of(current);

	if (s->var_owner[gops->idx] != gops->birth) {
		shadow_store(s->var[gops->idx], 0);
		barrier();
		shadow_store(s->var_owner[gops->idx], gops->birth);
	}
	return &s->var[gops->idx];
}
