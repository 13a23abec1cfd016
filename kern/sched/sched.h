/*
 * Shared by sched.c (which thread runs), thread.c (creation and exit) and kern/secondary.c
 * (idle threads) only.
 */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include "cpu.h"

void resched_curr(struct cpu *cpu);
void wake_up_new_task(struct thread *t);
struct thread *alloc_thread(const char *name); /* with its stack, no pid */
void run_thread_hooks(enum thread_event event, struct thread *prev, struct thread *next);

#endif
