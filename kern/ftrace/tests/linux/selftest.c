/*
 * The work that Linux's ftrace selftests trace: functions with the names that they look for,
 * where this kernel has no function of the name, and threads that begin and end.
 *
 *	selftest &	the worker: does one round of work for each request
 *	selftest round	request a round, and wait for its end
 */
#include "app.h"

#define NAMED static __attribute__((noipa)) /* a call site of its own, under this name */
#define EIO 5

static mutex_t lock;
static cond_t changed;
static unsigned wanted, done; /* rounds; @lock held */
static volatile long sink;

NAMED long raw_spin_lock(long x)
{
	return sink += x;
}

NAMED long raw_spin_unlock(long x)
{
	return sink -= x;
}

NAMED long rcu_read_enter(long x)
{
	return raw_spin_lock(x) + raw_spin_unlock(x);
}

NAMED long console_unlock(long x)
{
	return sink = x;
}

NAMED long vfs_read(void *file, char *buf, unsigned long count, long *pos)
{
	return sink = count;
}

NAMED int vfs_open(const void *path, void *file)
{
	return sink = 0;
}

NAMED int dput(void *dentry)
{
	return sink = 1;
}

NAMED int inet_csk_accept(void *sk)
{
	return sink = 1;
}

NAMED int tracefs_create_dir(const char *name, void *parent)
{
	return sink = 0;
}

NAMED int proc_reg_write(void)
{
	return sink = -EIO;
}

NAMED int do_execveat_common(void)
{
	return sink = 0;
}

NAMED void do_exit(long code)
{
	sink = code;
}

static int child(void *unused)
{
	do_execveat_common();
	do_exit(0);
	return 0;
}

NAMED int kernel_clone(long x)
{
	thread_t thread;
	int err = thread_create(&thread, child, NULL);

	return err ? err : thread_join(thread) + 3;
}

static void work(void)
{
	vfs_open("path", "file");
	vfs_read("file", "text", 4, NULL);
	dput("dentry");
	inet_csk_accept("sock");
	tracefs_create_dir("test", NULL);
	proc_reg_write();
	console_unlock(1);
	rcu_read_enter(1);
	kernel_clone(3);
}

int main(int argc, char **argv)
{
	bool requests = argc > 1;
	unsigned round;

	mutex_acquire(&lock);
	round = requests ? ++wanted : done;
	cond_broadcast(&changed);
	while (requests && done < round)
		cond_wait(&changed, &lock);
	while (!requests) {
		while (done == wanted)
			cond_wait(&changed, &lock);
		mutex_release(&lock);
		work();
		mutex_acquire(&lock);
		done++;
		cond_broadcast(&changed);
	}
	mutex_release(&lock);
	return 0;
}
