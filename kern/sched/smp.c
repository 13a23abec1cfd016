/*
 * Calls from one CPU to another.
 *
 * A call is a request on the caller's stack, pushed on the target's list. The
 * caller waits with interrupts on, so two CPUs that call each other do not deadlock.
 */
#include "cpu.h"
#include "irq.h"
#include "print.h"

void smp_push_call(struct cpu *cpu, struct smp_call *call)
{
	call->next = READ_ONCE(cpu->calls);
	while (!__atomic_compare_exchange_n(&cpu->calls, &call->next, call, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	ipi_send(cpu->index, IPI_CALL);
}

/*
 * In interrupt context. A request must not be accessed after `done` is set: it is on its caller's
 * stack.
 */
void smp_run_calls(void)
{
	struct smp_call *call = __atomic_exchange_n(&this_cpu()->calls, NULL, __ATOMIC_ACQUIRE);

	while (call) {
		struct smp_call *next = call->next;

		WRITE_ONCE(this_cpu()->called, call->fn);
		call->fn(call->arg);
		__atomic_store_n(&call->done, 1, __ATOMIC_RELEASE);
		call = next;
	}
	WRITE_ONCE(this_cpu()->called, NULL);
}

/* Context: preemption off. */
static void call_each(unsigned long mask, void (*fn)(void *), void *arg)
{
	struct smp_call calls[NR_CPUS];

	for (unsigned i = 0; i < NR_CPUS; i++) {
		calls[i] = (struct smp_call){fn, arg, .done = !(mask >> i & 1)};
		if (!calls[i].done)
			smp_push_call(cpu_of(i), &calls[i]);
	}
	for (unsigned i = 0; i < NR_CPUS; i++)
		while (!__atomic_load_n(&calls[i].done, __ATOMIC_ACQUIRE)) {
			watchdog_touch();
			cpu_relax();
		}
}

void smp_call(unsigned index, void (*fn)(void *), void *arg)
{
	if (index >= nr_cpus || !cpu_of(index)->online)
		panic("smp_call(): CPU %u is not online", index);
	preempt_disable();
	call_each(1ul << index, fn, arg);
	preempt_enable();
}

void smp_call_others(void (*fn)(void *), void *arg)
{
	preempt_disable();
	call_each(other_cpus(), fn, arg);
	preempt_enable();
}
