/*
 * The arch.h contract for the tracer's host tests: one CPU a pthread, full
 * barriers. A test imitates interrupts by a hook, which is called while they are not masked.
 */
#include "types.h"

struct context {
	unsigned long unused;
};
/* What the tracer uses of it, of both architectures. */
struct trap_frame {
	unsigned long x[32];
	unsigned long sp, pc, status, cause, pstate, esr;
};
struct cpu;
struct thread;
extern __thread struct cpu *host_cpu;
extern __thread struct thread *host_current;

__attribute__((weak)) bool host_irqs_masked;
static inline unsigned long irq_save(void)
{
	bool masked = host_irqs_masked;

	host_irqs_masked = true;
	return masked;
}
static inline void irq_restore(unsigned long flags)
{
	host_irqs_masked = flags;
}
static inline bool irqs_off(unsigned long flags)
{
	return false;
}
static inline struct cpu *this_cpu(void)
{
	return host_cpu;
}
static inline struct thread *get_current(void)
{
	return host_current;
}
__attribute__((weak)) bool host_is_cortex_a53;
static inline bool cpu_is_cortex_a53(void)
{
	return host_is_cortex_a53;
}
__attribute__((weak)) u64 host_counter;
static inline u64 arch_counter(void)
{
	return host_counter;
}
void arch_sync_line(unsigned long text_va, unsigned long alias_va);
static inline void cpu_relax(void)
{
}
#define smp_mb() __sync_synchronize()
#define smp_rmb() __sync_synchronize()
#define smp_wmb() __sync_synchronize()
