/*
 * kretprobe: an fprobe on one function, whose entry data are the instance, and a count of the calls
 * in flight.
 */
#include "kretprobe.h"

#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "errno.h"

static int enter_call(struct fprobe *fp, unsigned long ip, unsigned long ret_ip,
		      struct ftrace_regs *regs, void *data)
{
#if LAB_START == 8
	return 1;
#else
	struct kretprobe *rp = container_of(fp, struct kretprobe, fp);
	struct kretprobe_instance *ri = data;

	if (unlikely(current->state == THREAD_DEAD))
		return 1;
	if (__atomic_fetch_add(&rp->active, 1, __ATOMIC_RELAXED) >= rp->maxactive) {
		__atomic_fetch_add(&rp->nmissed, 1, __ATOMIC_RELAXED);
		fprobe_lose_soon();
		goto out;
	}
	ri->rp = rp;
	ri->ret_addr = ret_ip;
	if (!rp->entry_handler || !rp->entry_handler(ri, regs))
		return 0;
out:
	__atomic_fetch_sub(&rp->active, 1, __ATOMIC_RELAXED);
	return 1;
#endif
}

static void leave_call(struct fprobe *fp, unsigned long ip, unsigned long ret_ip,
		       struct ftrace_regs *regs, void *data)
{
#if LAB_START != 8
	struct kretprobe *rp = container_of(fp, struct kretprobe, fp);

	__atomic_fetch_sub(&rp->active, 1, __ATOMIC_RELAXED);
	rp->handler(data, regs); /* last, so that it is a tail call */
#endif
}

static void lose_call(struct fprobe *fp, void *data)
{
#if LAB_START != 8
	__atomic_fetch_sub(&container_of(fp, struct kretprobe, fp)->active, 1, __ATOMIC_RELAXED);
#endif
}

int register_kretprobe(struct kretprobe *rp)
{
#if LAB_START == 8
	rp->fp = (struct fprobe){enter_call, leave_call, lose_call};
	return -ENOSYS;
#else
	if (!rp || !rp->handler || !rp->kp.symbol_name == !rp->kp.addr)
		return -EINVAL;
	if (rp->data_size < 0 || rp->data_size > KRETPROBE_DATA_MAX)
		return -E2BIG;
	if (rp->fp.birth)
		return -EEXIST;
	if (rp->maxactive <= 0)
		rp->maxactive = MAX(10, 2 * (int)nr_cpus);
	rp->active = 0;
	rp->nmissed = 0;
	rp->fp = (struct fprobe){enter_call, leave_call, lose_call,
				 sizeof(struct kretprobe_instance) + rp->data_size};
	return rp->kp.addr ? register_fprobe_ips(&rp->fp, &rp->kp.addr, 1) :
			     register_fprobe_syms(&rp->fp, &rp->kp.symbol_name, 1);
#endif
}

void unregister_kretprobe(struct kretprobe *rp)
{
	unregister_fprobe(&rp->fp);
}
