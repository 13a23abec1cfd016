/*
 * Allocates a shadow stack for every thread while function_graph has a user, and
 * ends graph tracing after a bad frame (ftrace_graph_stop()).
 *
 * A stack is stored in the thread with one compare-and-exchange, so a thread that
 * is created while shadow_users_begin() runs gets exactly one. A stack is taken
 * back when it is empty and no frame can be pushed: the thread is off its CPU, or
 * no site calls the tracer any more.
 */
#include "shadow.h"

#include "cpu.h"
#include "errno.h"
#include "fgraph.h"
#include "print.h"
#include "string.h"

_Static_assert(sizeof(struct shadow_stack) == SHADOW_SIZE, "a page");
_Static_assert(SHADOW_VARS == FGRAPH_USERS, "each user has a variable");

/*
 * True while every thread needs a shadow stack. Changed under shadow_lock, which
 * is held, too, while a stack is taken back. shadow_lock is a leaf lock: it is
 * taken with threads_lock or a run-queue lock held, and no lock is taken inside it.
 */
static bool shadow_on;
static struct spinlock shadow_lock;

bool ftrace_graph_dead;
static struct {
	unsigned long func, expected, found;
	u32 claimed;
	bool said;            /* the message is printed; changed under lock */
	struct spinlock lock; /* held while it is printed, so that others wait for it */
} bad_frame;

static void alloc_stack(struct thread *t, void *failed)
{
	struct shadow_stack *s, *none = NULL;

	if (t->ftrace)
		return;
	s = page_alloc(0);
	if (!s) {
		*(bool *)failed = true;
		return;
	}
	memset(s, 0, sizeof(*s));
	shadow_init(s);
	if (!__atomic_compare_exchange_n(&t->ftrace, (void **)&none, s, false, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED))
		page_free(s, 0);
}

static void set_shadow_on(bool on)
{
	unsigned long flags = spin_lock_irqsave(&shadow_lock);

	shadow_on = on;
	spin_unlock_irqrestore(&shadow_lock, flags);
}

/*
 * Take back @t's stack into the list at @old, if it is empty. The list is linked
 * by `last`, because another CPU may still store `free` at the end of its last pop.
 */
static void take_stack(struct thread *t, void *old)
{
	unsigned long flags = spin_lock_irqsave(&shadow_lock);
	struct shadow_stack *s = t->ftrace, **list = old;

	if (s && !shadow_on && !READ_ONCE(s->top)) {
		WRITE_ONCE(t->ftrace, NULL);
		s->last = (unsigned long *)*list;
		*list = s;
	}
	spin_unlock_irqrestore(&shadow_lock, flags);
}

static void free_old(struct shadow_stack *s)
{
	while (s) {
		struct shadow_stack *next = (struct shadow_stack *)s->last;

		page_free(s, 0);
		s = next;
	}
}

/*
 * After a bad frame: when this returns, the message is printed. A CPU that switches to
 * the shell after a program calls this, and so does the thread that unregisters the last
 * user. So the message precedes the shell's prompt.
 */
static void say_bad_frame(void)
{
	unsigned long flags;

	if (likely(!READ_ONCE(ftrace_graph_dead) || READ_ONCE(bad_frame.said)))
		return;
	smp_rmb(); /* ftrace_graph_dead was read before bad_frame */
	flags = spin_lock_irqsave(&bad_frame.lock);
	if (!bad_frame.said)
		printk("function_graph: %pS was called with sp %lx and returned with %lx: "
		       "graph tracing is off for good\n",
		       (void *)bad_frame.func, bad_frame.expected, bad_frame.found);
	WRITE_ONCE(bad_frame.said, true);
	spin_unlock_irqrestore(&bad_frame.lock, flags);
}

void shadow_users_end(void)
{
	struct shadow_stack *old = NULL;

	say_bad_frame();
	set_shadow_on(false);
	threads_and_idle_for_each(take_stack, &old);
	synchronize_sched(); /* a CPU may be at the end of its last pop */
	free_old(old);
}

int shadow_users_begin(void)
{
	bool failed = false;

	set_shadow_on(true);
	threads_and_idle_for_each(alloc_stack, &failed);
	if (failed)
		shadow_users_end();
	return failed ? -ENOMEM : 0;
}

/*
 * @t was inside a traced function when the last user was unregistered. It leaves
 * its CPU now, so it is in no pop: take back its stack if that is empty.
 */
static void take_leftover(struct thread *t)
{
	struct shadow_stack *old = NULL;

	take_stack(t, &old);
	free_old(old);
}

static void shadow_thread(enum thread_event event, struct thread *prev, struct thread *next)
{
	bool failed = false;

	if (event == THREAD_BORN && READ_ONCE(shadow_on))
		alloc_stack(next, &failed);
	if (failed)
		printk("function_graph: no memory for thread %d's calls: they are not traced\n",
		       next->pid);
	if (event == THREAD_FREED && prev->ftrace)
		page_free(prev->ftrace, 0);
	if (event != THREAD_SWITCH)
		return;
	if (unlikely(prev->ftrace && !READ_ONCE(shadow_on)))
		take_leftover(prev);
	say_bad_frame();
}
THREAD_HOOK(shadow_thread);

void ftrace_graph_stop(unsigned long func, unsigned long expected, unsigned long found)
{
	if (__atomic_exchange_n(&bad_frame.claimed, 1, __ATOMIC_RELAXED))
		return;
	bad_frame.func = func;
	bad_frame.expected = expected;
	bad_frame.found = found;
	smp_wmb();
	WRITE_ONCE(ftrace_graph_dead, true);
}
