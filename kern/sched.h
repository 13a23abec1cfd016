/*
 * Between sched.c (who runs) and thread.c (who lives); nobody else's business.
 */
#ifndef KERN_SCHED_H
#define KERN_SCHED_H

#include "cpu.h"

void resched_curr(struct cpu *cpu);
void wake_up_new_task(struct thread *t);
void init_idle(struct thread *t, struct cpu *cpu);
struct thread *alloc_thread(const char *name); /* with its stack, no pid */
void sched_hook_born(struct thread *t);
void sched_hook_dies(void);
void sched_hook_freed(struct thread *t);

#endif
