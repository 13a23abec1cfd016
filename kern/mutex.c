/*
 * Wait queues, and the mutex made of one. A waiter is in the queue before it
 * tests its condition, so a wake-up between the test and the sleep finds it.
 */
#include "print.h"
#include "thread.h"

static void remove_waiter(struct wait_queue *wq, struct thread *t)
{
	struct thread *before = NULL, *at = wq->waiters.head;

	while (at && at != t) {
		before = at;
		at = at->wait_next;
	}
	if (!at)
		return;
	if (before)
		before->wait_next = t->wait_next;
	else
		wq->waiters.head = t->wait_next;
	if (wq->waiters.tail == t)
		wq->waiters.tail = before;
}

void prepare_to_wait(struct wait_queue *wq)
{
	unsigned long flags = spin_lock_irqsave(&wq->lock);

	remove_waiter(wq, current);
	current->wait_next = NULL;
	if (wq->waiters.tail)
		wq->waiters.tail->wait_next = current;
	else
		wq->waiters.head = current;
	wq->waiters.tail = current;
	current->state = THREAD_SLEEPING;
	smp_mb(); /* asleep before the condition is read; thread_interrupt() has the other half */
	spin_unlock_irqrestore(&wq->lock, flags);
}

void finish_wait(struct wait_queue *wq)
{
	unsigned long flags = spin_lock_irqsave(&wq->lock);

	current->state = THREAD_RUNNING;
	remove_waiter(wq, current);
	spin_unlock_irqrestore(&wq->lock, flags);
}

void wake_up(struct wait_queue *wq)
{
	unsigned long flags = spin_lock_irqsave(&wq->lock);
	struct thread *t = wq->waiters.head;

	wq->waiters.head = wq->waiters.tail = NULL;
	while (t) {
		struct thread *next = t->wait_next;

		wake_up_process(t);
		t = next;
	}
	spin_unlock_irqrestore(&wq->lock, flags);
}

bool mutex_trylock(struct mutex *m)
{
	struct thread *nobody = NULL;

	return __atomic_compare_exchange_n(&m->owner, &nobody, current, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

void mutex_lock(struct mutex *m)
{
	if (likely(mutex_trylock(m)))
		return;
	BUG_ON(m->owner == current);
	wait_event(&m->waiters, mutex_trylock(m));
}

void mutex_unlock(struct mutex *m)
{
	BUG_ON(m->owner != current);
	__atomic_store_n(&m->owner, NULL, __ATOMIC_RELEASE);
	smp_mb(); /* a waiter either finds the mutex free or is found in the queue */
	if (READ_ONCE(m->waiters.waiters.head))
		wake_up(&m->waiters);
}
