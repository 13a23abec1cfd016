/*
 * Wait queues and the mutex. A waiter joins the queue before it tests its
 * condition. So a wake-up between the test and the sleep is not lost.
 */
#include "print.h"
#include "thread.h"

/* The link that points to this thread, or the last waiter's link (NULL). */
static struct thread **place_in(struct wait_queue *wq)
{
	struct thread **at = &wq->waiters;

	while (*at && *at != current)
		at = &(*at)->wait_next;
	return at;
}

void prepare_to_wait(struct wait_queue *wq)
{
	unsigned long flags = spin_lock_irqsave(&wq->lock);
	struct thread **at = place_in(wq);

	if (!*at) {
		current->wait_next = NULL;
		*at = current;
	}
	current->waits_in = wq;
	current->state = THREAD_SLEEPING;
	smp_mb(); /* store state before reading the condition; pairs with thread_interrupt() */
	spin_unlock_irqrestore(&wq->lock, flags);
}

void finish_wait(struct wait_queue *wq)
{
	unsigned long flags = spin_lock_irqsave(&wq->lock);
	struct thread **at = place_in(wq);

	current->state = THREAD_RUNNING;
	current->waits_in = NULL;
	if (*at)
		*at = current->wait_next;
	spin_unlock_irqrestore(&wq->lock, flags);
}

void wake_up(struct wait_queue *wq)
{
	unsigned long flags = spin_lock_irqsave(&wq->lock);
	struct thread *t = wq->waiters, *next;

	for (wq->waiters = NULL; t; t = next) {
		next = t->wait_next;
		wake_up_process(t);
	}
	spin_unlock_irqrestore(&wq->lock, flags);
}

bool mutex_trylock(struct mutex *m)
{
	struct thread *none = NULL;
	bool free = __atomic_compare_exchange_n(&m->owner, &none, current, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED);

	current->mutexes += free;
	return free;
}

void mutex_lock(struct mutex *m)
{
	if (likely(mutex_trylock(m)))
		return;
	if (m->owner == current)
		panic("mutex_lock: this thread already holds the mutex at %p",
		      m);
	wait_event(&m->waiters, mutex_trylock(m));
}

void mutex_unlock(struct mutex *m)
{
	mutex_assert_held(m);
	__atomic_store_n(&m->owner, NULL, __ATOMIC_RELEASE);
	current->mutexes--;
	/* either the waiter sees the mutex free, or this thread sees the waiter in the queue */
	smp_mb();
	if (READ_ONCE(m->waiters.waiters))
		wake_up(&m->waiters);
}
