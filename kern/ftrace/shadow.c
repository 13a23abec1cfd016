/*
 * A shadow stack for every thread while function_graph has a user, and the
 * end of graph tracing when one of them turns out to be wrong.
 *
 * A stack is given with one compare-and-exchange, so a thread that is born
 * while the others are given theirs gets one, and one only. It is taken back
 * when nothing is on it and nothing can come: the thread is off its CPU, or no
 * site calls the tracer any more.
 */
#include "shadow.h"

#include "cpu.h"
#include "errno.h"
#include "fgraph.h"
#include "print.h"
#include "string.h"

_Static_assert(sizeof(struct shadow_stack) == SHADOW_SIZE, "a page");

static bool shadow_on;		       /* threads have one; changed under shadow_lock */
static struct spinlock shadow_lock;    /* taking one back against shadow_users_begin() */
static struct shadow_stack *shadow_old; /* taken back, not yet freed; linked by `free` */

bool ftrace_graph_dead;
static struct {
	unsigned long func, expected, found;
	bool said;
} bad_frame;

static void for_all_threads(void (*fn)(struct thread *t, void *arg), void *arg)
{
	threads_for_each(fn, arg);
	for (unsigned i = 0; i < nr_cpus; i++)
		fn(cpu_of(i)->idle, arg);
}

static void give(struct thread *t, void *failed)
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

/* Take @t's back if nothing is on it; shadow_lock held. */
static void take(struct thread *t, void *unused)
{
	struct shadow_stack *s = t->ftrace;

	if (!s || READ_ONCE(s->top))
		return;
	t->ftrace = NULL;
	s->free = (unsigned long *)shadow_old;
	shadow_old = s;
}

static void free_old(struct shadow_stack *s)
{
	while (s) {
		struct shadow_stack *next = (struct shadow_stack *)s->free;

		page_free(s, 0);
		s = next;
	}
}

static struct shadow_stack *take_all(void)
{
	unsigned long flags = spin_lock_irqsave(&shadow_lock);
	struct shadow_stack *old;

	shadow_on = false;
	for_all_threads(take, NULL);
	old = shadow_old;
	shadow_old = NULL;
	spin_unlock_irqrestore(&shadow_lock, flags);
	return old;
}

void shadow_users_end(void)
{
	struct shadow_stack *old = take_all();

	synchronize_sched(); /* a CPU may be at the end of its last pop */
	free_old(old);
}

int shadow_users_begin(void)
{
	unsigned long flags = spin_lock_irqsave(&shadow_lock);
	bool failed = false;

	shadow_on = true;
	spin_unlock_irqrestore(&shadow_lock, flags);
	for_all_threads(give, &failed);
	if (failed)
		shadow_users_end();
	return failed ? -ENOMEM : 0;
}

/* A thread that was still inside a traced function when the last user left, and is not any more. */
static void take_leftover(struct thread *t)
{
	struct shadow_stack *old;

	spin_lock(&shadow_lock);
	if (!shadow_on)
		take(t, NULL);
	old = shadow_old;
	shadow_old = NULL;
	spin_unlock(&shadow_lock);
	free_old(old);
}

static void say_bad_frame(void)
{
	bad_frame.said = true;
	printk("function_graph: %pS was called with sp %lx and returned with %lx: "
	       "graph tracing is off for good\n",
	       (void *)bad_frame.func, bad_frame.expected, bad_frame.found);
}

static void shadow_thread(enum thread_event event, struct thread *prev, struct thread *next)
{
	bool failed;

	if (event == THREAD_BORN && READ_ONCE(shadow_on))
		give(next, &failed);
	if (event == THREAD_FREED && prev->ftrace)
		page_free(prev->ftrace, 0);
	if (event != THREAD_SWITCH)
		return;
	if (unlikely(prev->ftrace && !READ_ONCE(shadow_on)))
		take_leftover(prev);
	if (unlikely(READ_ONCE(ftrace_graph_dead) && !bad_frame.said))
		say_bad_frame();
}
THREAD_HOOK(shadow_thread);

void ftrace_graph_stop(unsigned long func, unsigned long expected, unsigned long found)
{
	if (ftrace_graph_dead)
		return;
	bad_frame.func = func;
	bad_frame.expected = expected;
	bad_frame.found = found;
	smp_wmb();
	WRITE_ONCE(ftrace_graph_dead, true);
}
