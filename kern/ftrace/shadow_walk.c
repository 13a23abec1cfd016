/*
 * What else is kept on a shadow stack, for one user or sixteen: the way back,
 * which a stack walk asks for, and a word for each thread and user.
 */
#include "shadow.h"

#include "fgraph.h"
#include "unwind.h"

/* Of a chain of tail calls, all with one fp, only the outermost knows its caller. */
unsigned long ftrace_graph_ret_addr(struct thread *t, unsigned long ret, unsigned long fp)
{
#if LAB_START == 6
	return ret;
#else
	struct shadow_stack *s = shadow_of(t);

	if (ret != (unsigned long)return_to_handler || !s)
		return ret;
	for (struct shadow_frame *f = READ_ONCE(s->top); f; f = f->below)
		if (f->fp == fp && f->ret != ret)
			return f->ret;
	return ret;
#endif
}
UNWIND_HOOK(ftrace_graph_ret_addr);

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
