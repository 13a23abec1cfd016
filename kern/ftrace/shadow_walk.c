/*
 * Lab 6: where a function that is traced will really return to. A stack walk
 * asks; the frame pointer that the walk has come to says which frame knows.
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

	if (ret == (unsigned long)return_to_handler && s)
		for (struct shadow_frame *f = READ_ONCE(s->top); f; f = f->below)
			if (f->fp == fp && f->ret != ret)
				return f->ret;
	return ret;
#endif
}
UNWIND_HOOK(ftrace_graph_ret_addr);
