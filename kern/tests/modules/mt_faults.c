/* For module_kt.c: its init faults, after it has done what the parameter says. */
#include "file.h"
#include "lock.h"
#include "module.h"
#include "tracer.h"

static const char *after = "";
module_param(after, charp);

static const struct file_ops ops;
static notrace void see_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
}
static struct ftrace_ops op = {.func = see_call, .slot = -1};
static struct mutex mutex = MUTEX_INIT;

int mt_read(const int *at);
__noinline int mt_read(const int *at)
{
	barrier();
	return *at;
}

static int faults_init(void)
{
	if (*after == 'f')
		file_make("/mt_faults", 0444, &ops, NULL);
	if (*after == 'o')
		register_ftrace_function(&op);
	if (*after == 'm')
		mutex_lock(&mutex);
	if (*after == 'p')
		preempt_disable();
	return mt_read((const int *)8);
}
module_init(faults_init);
