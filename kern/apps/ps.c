/* ps [-s [PID]]: list the threads; -s: their stacks, too. */
#include "app.h"

#include "cpu.h"
#include "errno.h"
#include "irq.h"
#include "string.h"
#include "unwind.h"

APP("[-s [pid]]", "list the threads with their CPU, state and CPU time; -s: their stacks");

#define PS_MAX (256 + NR_CPUS)
struct ps {
	bool one; /* only the thread @pid */
	u64 pid;
	unsigned count, more;
	struct thread rows[PS_MAX];
	unsigned long entries[STACK_FRAMES_MAX];
};

static void ps_add(struct thread *t, void *arg)
{
	struct ps *ps = arg;

	if (ps->one && (u64)t->pid != ps->pid)
		return;
	if (ps->count == PS_MAX) {
		ps->more++;
		return;
	}
	ps->rows[ps->count] = *t;
	ps->rows[ps->count++].runtime = thread_runtime(t);
}

static void ps_row(const struct thread *t)
{
	static const char *const states[] = {"ready", "sleeps", "dead"};
	u64 ms = ticks_to_ns(t->runtime) / 1000000;
	char pinned[8] = "";

	if (t->pinned >= 0 && t->pid)
		snprintf(pinned, sizeof(pinned), "%d", t->pinned);
	printf("%4d %3u %3s %-7s %5lu.%03lu %s\n", t->pid, t->cpu, pinned,
		   t->on_cpu ? "running" : states[t->state], (unsigned long)(ms / 1000),
		   (unsigned long)(ms % 1000), t->comm);
}

static void ps_line(unsigned long pc, bool exact)
{
	printf("       %pB\n", (void *)pc);
}

static void ps_stack(const struct thread *t, unsigned long *entries)
{
	unsigned count = stack_trace_save_pid(t->pid, t->cpu, entries, STACK_FRAMES_MAX);
	struct stack_lines lines = {ps_line, printf, "       "};

	for (unsigned i = 0; i < count; i++)
		stack_line(&lines, entries[i], false);
	stack_lines_end(&lines);
}

int main(int argc, char **argv)
{
	bool stacks = argc > 1 && !strcmp(argv[1], "-s"), one = argc == 3, found;
	struct ps *ps;
	u64 pid = 0;

	if (argc > 3 || (argc > 1 && !stacks) || (one && kstrtou64(argv[2], 10, &pid)))
		{
		printf("Usage: ps [-s [pid]]\n");
		return 2;
	}
	ps = calloc(1, sizeof(*ps));
	if (!ps)
		return complain("ps", "list", ENOMEM);
	ps->one = one;
	ps->pid = pid;
	threads_and_idle_for_each(ps_add, ps);
	found = ps->count;
	printf(" PID CPU PIN STATE        TIME NAME\n");
	while (ps->count) {
		const struct thread *t = &ps->rows[--ps->count];

		ps_row(t);
		if (stacks)
			ps_stack(t, ps->entries);
	}
	if (ps->more)
		printf("and %u more\n", ps->more);
	free(ps);
	if (!found)
		printf("ps: there is no thread %s.\n", argv[2]);
	return !found;
}
