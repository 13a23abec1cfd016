/*
 * The static events: what each is made of when its tracepoint is reached, and its text. Their
 * groups, names, fields and texts are Linux 6.12's; a field that this kernel has nothing for is
 * left out. README.md lists them.
 */
#include "static_event.h"

#include "cpu.h"
#include "fgraph.h"
#include "init.h"
#include "irq.h"
#include "ksyms.h"
#include "string.h"
#include "tracefs.h"
#include "unwind.h"

typedef int pid_t;

static void put_comm(char comm[16], const struct thread *t)
{
	memcpy(comm, t->comm, sizeof(t->comm));
}

/* Copy the start of @text to offset @at of the event; at most @room bytes. Return: the field. */
static u32 put_text(void *event, u32 at, size_t room, const char *text)
{
	size_t length = MIN(strlen(text), room - 1);

	memcpy((char *)event + at, text, length);
	return (length + 1) << 16 | at; /* the array is zero after it */
}

#define __get_str(field) ((const char *)REC + (REC->field & 0xffff))

struct flag_name {
	unsigned long flag;
	const char *name;
};
static const char *flag_name(unsigned long flag, const struct flag_name *names)
{
	while (names->flag && names->flag != flag)
		names++;
	return names->name;
}
#define __print_flags(flag, delimiter, ...)                                                   \
	flag_name(flag, (const struct flag_name[]){__VA_ARGS__, {0, "?"}})

/* ---- sched ---- */

#define STATE_SLEEPING 0x1
#define STATE_DEAD 0x20
#define STATE_PREEMPTED 0x100

static long state_of(const struct thread *t, bool preempted)
{
	if (!t->pid)
		return 0; /* an idle thread, as on Linux */
	if (preempted)
		return STATE_PREEMPTED;
	return t->state == THREAD_SLEEPING ? STATE_SLEEPING
	       : t->state == THREAD_DEAD   ? STATE_DEAD
					   : 0;
}

#define SCHED_SWITCH_FIELDS(_)                                                                \
	_(comm, prev_comm) _(value, pid_t, prev_pid) _(value, int, prev_prio)                 \
	_(value, long, prev_state)                                                            \
	_(comm, next_comm) _(value, pid_t, next_pid) _(value, int, next_prio)
STATIC_EVENT(100, sched, sched_switch, SCHED_SWITCH_FIELDS,
	     "prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> "
	     "next_comm=%s next_pid=%d next_prio=%d",
	     REC->prev_comm, REC->prev_pid, REC->prev_prio,
	     (REC->prev_state & 0xff) ? __print_flags(REC->prev_state & 0xff, "|",
						      { 0x00000001, "S" }, { 0x00000020, "Z" })
				      : "R",
	     REC->prev_state & 0x100 ? "+" : "", REC->next_comm, REC->next_pid, REC->next_prio);
static void sched_switch_hit(bool preempted, const struct thread *prev, const struct thread *next)
{
	struct sched_switch_event e = {.prev_pid = prev->pid,
				       .prev_prio = PRIO,
				       .prev_state = state_of(prev, preempted),
				       .next_pid = next->pid,
				       .next_prio = PRIO};

	put_comm(e.prev_comm, prev);
	put_comm(e.next_comm, next);
	RECORD(sched_switch, e);
	latency_switch(next, CALLER);
}

#define SCHED_WAKEUP_FIELDS(_)                                                                \
	_(comm, comm) _(value, pid_t, pid) _(value, int, prio) _(value, int, target_cpu)
#define SCHED_WAKEUP_EVENT(id, name)                                                          \
	STATIC_EVENT(id, sched, name, SCHED_WAKEUP_FIELDS,                                    \
		     "comm=%s pid=%d prio=%d target_cpu=%03d", REC->comm, REC->pid, REC->prio, \
		     REC->target_cpu);                                                        \
	static void name##_hit(const struct thread *t)                                        \
	{                                                                                     \
		struct name##_event e = {.pid = t->pid, .prio = PRIO, .target_cpu = t->cpu};  \
                                                                                              \
		put_comm(e.comm, t);                                                          \
		RECORD(name, e);                                                              \
		latency_wakeup(t, CALLER);                                                    \
	}
SCHED_WAKEUP_EVENT(101, sched_waking)
SCHED_WAKEUP_EVENT(102, sched_wakeup)
SCHED_WAKEUP_EVENT(103, sched_wakeup_new)

int static_event_pid(u16 id, const void *bytes)
{
	if (id == sched_switch_state.id)
		return ((const struct sched_switch_event *)bytes)->next_pid;
	if (id == sched_waking_state.id || id == sched_wakeup_state.id ||
	    id == sched_wakeup_new_state.id)
		return ((const struct sched_waking_event *)bytes)->pid;
	return current->pid;
}

#define SCHED_MIGRATE_FIELDS(_)                                                               \
	_(comm, comm) _(value, pid_t, pid) _(value, int, prio) _(value, int, orig_cpu)        \
	_(value, int, dest_cpu)
STATIC_EVENT(104, sched, sched_migrate_task, SCHED_MIGRATE_FIELDS,
	     "comm=%s pid=%d prio=%d orig_cpu=%d dest_cpu=%d", REC->comm, REC->pid, REC->prio,
	     REC->orig_cpu, REC->dest_cpu);
static void sched_migrate_task_hit(const struct thread *t, int to)
{
	struct sched_migrate_task_event e = {
		.pid = t->pid, .prio = PRIO, .orig_cpu = t->cpu, .dest_cpu = to};

	put_comm(e.comm, t);
	RECORD(sched_migrate_task, e);
	latency_migrate(t, to);
}

#define SCHED_FORK_FIELDS(_)                                                                  \
	_(comm, parent_comm) _(value, pid_t, parent_pid)                                      \
	_(comm, child_comm) _(value, pid_t, child_pid)
STATIC_EVENT(105, sched, sched_process_fork, SCHED_FORK_FIELDS,
	     "comm=%s pid=%d child_comm=%s child_pid=%d", REC->parent_comm, REC->parent_pid,
	     REC->child_comm, REC->child_pid);
static void sched_process_fork_hit(const struct thread *parent, const struct thread *child)
{
	struct sched_process_fork_event e = {.parent_pid = parent->pid, .child_pid = child->pid};

	put_comm(e.parent_comm, parent);
	put_comm(e.child_comm, child);
	RECORD(sched_process_fork, e);
}

#define SCHED_EXIT_FIELDS(_) _(comm, comm) _(value, pid_t, pid) _(value, int, prio)
STATIC_EVENT(106, sched, sched_process_exit, SCHED_EXIT_FIELDS, "comm=%s pid=%d prio=%d",
	     REC->comm, REC->pid, REC->prio);
static void sched_process_exit_hit(const struct thread *t)
{
	struct sched_process_exit_event e = {.pid = t->pid, .prio = PRIO};

	put_comm(e.comm, t);
	RECORD(sched_process_exit, e);
}

/* ---- irq, ipi, timer ---- */

#define IRQ_ENTRY_FIELDS(_) _(value, int, irq) _(text, name)
STATIC_EVENT(110, irq, irq_handler_entry, IRQ_ENTRY_FIELDS, "irq=%d name=%s", REC->irq,
	     __get_str(name));
/* Interrupts have no names here: the handler's. */
static void irq_handler_entry_hit(int irq, void (*handler)(void))
{
	struct {
		struct irq_handler_entry_event event;
		char name[48];
	} e = {.event.irq = irq};
	const char *name = ksym_lookup((unsigned long)handler, NULL, NULL);

	e.event.name = put_text(&e, offsetof(typeof(e), name), sizeof(e.name), name ?: "?");
	RECORD(irq_handler_entry, e);
}

#define IRQ_EXIT_FIELDS(_) _(value, int, irq) _(value, int, ret)
STATIC_EVENT(111, irq, irq_handler_exit, IRQ_EXIT_FIELDS, "irq=%d ret=%s", REC->irq,
	     REC->ret ? "handled" : "unhandled");
static void irq_handler_exit_hit(int irq, bool handled)
{
	struct irq_handler_exit_event e = {.irq = irq, .ret = handled};

	RECORD(irq_handler_exit, e);
}

static const char *const ipi_reasons[] = {[IPI_RESCHEDULE] = "Rescheduling interrupts",
					  [IPI_CALL] = "Function call interrupts"};
/* The texts to which events point, with their addresses: for programs that read raw events. */
static int printk_formats_show(struct seq *s, u64 item)
{
	if (ipi_reasons[item])
		seq_printf(s, "0x%lx : \"%s\"\n", (unsigned long)ipi_reasons[item],
			   ipi_reasons[item]);
	return item + 1 == ARRAY_SIZE(ipi_reasons);
}
TRACEFS_TEXT(printk_formats, "printk_formats", TRACEFS_TOP, printk_formats_show);

#define IPI_FIELDS(_) _(value, const char *, reason)
#define IPI_EVENT(id, name)                                                                   \
	STATIC_EVENT(id, ipi, name, IPI_FIELDS, "(%s)", REC->reason);                         \
	static void name##_hit(int ipi)                                                       \
	{                                                                                     \
		struct name##_event e = {.reason = ipi_reasons[ipi]};                         \
                                                                                              \
		RECORD(name, e);                                                              \
	}
IPI_EVENT(120, ipi_entry)
IPI_EVENT(121, ipi_exit)

/* Times are counter values. */
#define TIMER_ENTRY_FIELDS(_)                                                                 \
	_(value, void *, timer) _(value, unsigned long, now) _(value, void *, function)       \
	_(value, unsigned long, baseclk)
STATIC_EVENT(130, timer, timer_expire_entry, TIMER_ENTRY_FIELDS,
	     "timer=%p function=%ps now=%lu baseclk=%lu", REC->timer, REC->function, REC->now,
	     REC->baseclk);
static void timer_expire_entry_hit(const void *timer, void (*function)(void), u64 deadline)
{
	struct timer_expire_entry_event e = {.timer = (void *)timer,
					     .now = arch_counter(),
					     .function = function,
					     .baseclk = deadline};

	RECORD(timer_expire_entry, e);
}

#define TIMER_EXIT_FIELDS(_) _(value, void *, timer)
STATIC_EVENT(131, timer, timer_expire_exit, TIMER_EXIT_FIELDS, "timer=%p", REC->timer);
static void timer_expire_exit_hit(const void *timer)
{
	struct timer_expire_exit_event e = {.timer = (void *)timer};

	RECORD(timer_expire_exit, e);
}

/* ---- kmem ---- */

/* The text of the allocator's functions: they are in one file. */
static unsigned long allocator = ~0ul, allocator_end;

static bool is_allocator(unsigned long pc)
{
	return pc - allocator < allocator_end - allocator;
}

static int allocator_init(void)
{
	static void *const functions[] = {kmalloc, kzalloc, krealloc, kfree};

	for (unsigned i = 0; i < ARRAY_SIZE(functions); i++) {
		unsigned long start = (unsigned long)functions[i], size = 0;

		ksym_lookup(start, NULL, &size);
		allocator = MIN(allocator, start);
		allocator_end = MAX(allocator_end, start + size);
	}
	return 0;
}
INITCALL(allocator_init);

/*
 * The caller that wants the memory. kmalloc() may be called by kzalloc(), and while that is
 * traced it returns to return_to_handler. A walk up the stack finds the caller then.
 */
static __noinline unsigned long walk_to_caller(void)
{
	unsigned long flags = irq_save();
	struct unwind u;

	unwind_start_here(&u);
	while (!is_allocator(u.pc) && unwind_next(&u))
		;
	while (is_allocator(u.pc) && unwind_next(&u))
		;
	irq_restore(flags);
	return u.pc;
}

static inline unsigned long caller_of(const void *call_site)
{
	unsigned long pc = (unsigned long)call_site;

	if (unlikely(pc == (unsigned long)return_to_handler) || unlikely(is_allocator(pc)))
		return walk_to_caller();
	return pc;
}

#define KMALLOC_FIELDS(_)                                                                     \
	_(value, unsigned long, call_site) _(value, const void *, ptr)                        \
	_(value, size_t, bytes_req) _(value, size_t, bytes_alloc)
STATIC_EVENT(140, kmem, kmalloc, KMALLOC_FIELDS,
	     "call_site=%pS ptr=%p bytes_req=%zu bytes_alloc=%zu", (void *)REC->call_site,
	     REC->ptr, REC->bytes_req, REC->bytes_alloc);
static void kmalloc_hit(const void *call_site, const void *p, size_t wanted, size_t size)
{
	struct kmalloc_event e = {.call_site = caller_of(call_site),
				  .ptr = p,
				  .bytes_req = wanted,
				  .bytes_alloc = size};

	RECORD(kmalloc, e);
}

#define KFREE_FIELDS(_) _(value, unsigned long, call_site) _(value, const void *, ptr)
STATIC_EVENT(141, kmem, kfree, KFREE_FIELDS, "call_site=%pS ptr=%p", (void *)REC->call_site,
	     REC->ptr);
static void kfree_hit(const void *call_site, const void *p)
{
	struct kfree_event e = {.call_site = caller_of(call_site), .ptr = p};

	RECORD(kfree, e);
}

/* ---- module ---- */

#define MODULE_FIELDS(_) _(text, name)
#define MODULE_EVENT(id, event_name)                                                          \
	STATIC_EVENT(id, module, event_name, MODULE_FIELDS, "%s", __get_str(name));           \
	static void event_name##_hit(const char *name)                                        \
	{                                                                                     \
		struct {                                                                      \
			struct event_name##_event event;                                      \
			char name[56];                                                        \
		} e = {0};                                                                    \
                                                                                              \
		e.event.name =                                                                \
			put_text(&e, offsetof(typeof(e), name), sizeof(e.name), name);        \
		RECORD(event_name, e);                                                        \
	}
MODULE_EVENT(150, module_load)
MODULE_EVENT(151, module_free)
