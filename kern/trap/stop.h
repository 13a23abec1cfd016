/*
 * For code that removes text, or changes more than one word of it: run a function
 * while no other CPU runs, and find out there which threads are inside a range of
 * text.
 */
#ifndef TRAP_STOP_H
#define TRAP_STOP_H

#include "thread.h"

/*
 * Run fn(arg) on this CPU while every other online CPU waits: (1) an interrupt brings each
 * other CPU into a handler, where it waits with interrupts masked, in wfi; (2) this CPU masks
 * its interrupts and runs fn(arg), which sees all that the others have stored; (3) the others
 * go on, and see all that fn has stored. So no CPU is inside a section that masks
 * interrupts during (2), and the spinlocks of such sections are free.
 *
 * fn must not sleep and not wait for another CPU: no smp_call(), no arch_sync_all() (it
 * makes calls on arm64); arch_tlb_flush_all() is allowed. Calls that other CPUs make
 * meanwhile are run after (3). One caller at a time; a second one sleeps until then.
 * Context: thread, interrupts on, no spinlock held. Return: what fn returned; or -ETIMEDOUT,
 * after a message that names the CPU, if the watchdog reports a CPU that has not stopped: then
 * fn was not called, so the caller knows nothing of what fn would have found.
 */
int stop_machine(int (*fn)(void *), void *arg);

/*
 * Inside stop_machine(): the number of threads that will execute text in [start, end) without
 * being called there again: an address of it is on the thread's stack, or its interrupted pc is
 * there. @own: count the threads whose first function is there as well. *one (NULL: not wanted):
 * one of them. The walk ends at text that is unknown, so call it before ksym_remove(). Returns
 * that a tracer has patched are seen through its UNWIND_HOOK. If a tracer keeps anything else
 * about calls in progress, its own code must be asked.
 */
unsigned threads_inside(unsigned long start, unsigned long end, bool own, struct thread **one);

#endif
