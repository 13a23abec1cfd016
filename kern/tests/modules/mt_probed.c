/*
 * For module_kt.c: its init fails, and leaves a kprobe in the module. The export tells the test
 * where that is.
 */
#include "kprobes.h"
#include "module.h"

int mt_probed(int x);
__noinline int mt_probed(int x)
{
	barrier();
	return x + 1;
}

static bool see_hit(struct kprobe *p, struct kprobe_regs *regs)
{
	return false;
}

static struct kprobe mt_probe = {.symbol_name = "mt_probed", .pre_handler = see_hit};
EXPORT_SYMBOL(mt_probe);

static int probed_init(void)
{
	return register_kprobe(&mt_probe) ?: mt_probed(1) == 2 ? -EIO : -EINVAL;
}
module_init(probed_init);
