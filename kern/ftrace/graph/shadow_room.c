/*
 * Room on a full shadow stack: frames of calls that the program has jumped out of are dropped
 * when a call shows that nothing will return to them.
 */
#include "shadow.h"

#include "cpu.h"
#include "fgraph.h"

/*
 * The caller of a function runs with its own sp when it makes the call, @regs->sp. A call
 * that was made with this sp or a lower one does not run any more: its frame was left. After
 * a tail call the frame that has the caller's return address has the same sp, and is in use.
 *
 * Only in a thread: an interrupt leaves the frames of the thread as they are, because the
 * thread may be between two stores of a push. Only on the thread's own stack: of another
 * stack it is not known what is above it.
 */
bool shadow_make_room(struct shadow_stack *s, const struct ftrace_regs *regs)
{
	unsigned long base = (unsigned long)current->stack;
	unsigned long limit =
		regs->link == (unsigned long)return_to_handler ? regs->sp : regs->sp + 1;

	if (this_cpu()->context_bit == 1 /* a thread's */ &&
	    IS_WITHIN(regs->sp, base, THREAD_SIZE)) {
		shadow_store(s->last, shadow_last(s));
		while (s->top && s->top->sp < limit && s->top->sp >= base)
			ftrace_graph_gone(s);
	}
	return s->free <= shadow_last(s);
}
