/*
 * From head.S to the prompt.
 *
 * kernel_main() runs on the boot CPU with interrupts masked. It initialises what
 * all other code needs; each step depends on the ones before. The rest of the boot
 * is main_thread(), an ordinary thread, which becomes the shell.
 */
#include "console.h"
#include "cpu.h"
#include "fdt.h"
#include "file.h"
#include "ftrace.h"
#include "irq.h"
#include "memory.h"
#include "print.h"
#include "shell.h"
#include "string.h"
#include "uart.h"

u64 boot_counter, prompt_counter;

static void __noreturn stop(const char *why)
{
	printk("boot: %s. The machine stops.\n", why);
	firmware_poweroff(true);
}

static const char *bootargs; /* "": none */

static const char *find_bootargs(void)
{
	int chosen = fdt_path(boot_fdt, "/chosen");

	return (chosen < 0 ? NULL : fdt_string(boot_fdt, chosen, "bootargs")) ?: "";
}

static void banner(void)
{
	int root = fdt_path(boot_fdt, "/");

	printk("Callsite " ARCH_NAME " on %s: %u CPU%s, %lu MiB free\n",
	       fdt_string(boot_fdt, root, "model") ?: "an unnamed machine", nr_cpus,
	       nr_cpus == 1 ? "" : "s", pages_free_count() >> 8);
	if (*bootargs)
		printk("Command line: %s\n", bootargs);
}

static int cmdline_show(struct seq *s, u64 item)
{
	seq_printf(s, "%s\n", bootargs);
	return 1;
}
TEXT_OPS(cmdline_ops, cmdline_show, NULL);

static void make_files(void)
{
	file_make("/proc/cmdline", 0444, &cmdline_ops, NULL);
	file_make("/tmp", S_DIR | 0777, NULL, NULL);
	if (initrd.end)
		cpio_unpack(phys_to_virt(initrd.start), initrd.end - initrd.start);
}

static void run_initcalls(void)
{
	TABLE_FOR_EACH(const struct initcall, initcall, p)
	{
		int err = p->fn();

		if (err)
			printk("boot: %s failed, error %d\n", p->name, err);
	}
}

static int main_thread(void *unused)
{
	smp_init();
	console_init();
	banner();
	make_files();
	run_initcalls();
	param_parse(bootargs, false);
	prompt_counter = arch_counter();
	return shell_main(NULL);
}

void kernel_main(void)
{
	boot_fdt = mmu_map_fdt(boot_fdt_pa);
	uart_init(boot_fdt);
	if (!boot_fdt)
		stop("firmware gave no device tree, or a broken one");
	firmware_init(boot_fdt);
	if (!uart_present())
		firmware_poweroff(true); /* a reset tells more than a machine that is silent */
	cpus_init(boot_fdt);
	clock_init(boot_fdt);
	bootargs = find_bootargs();
	param_parse(bootargs, true);
	if (memory_init(boot_fdt) || mmu_init() || page_init())
		stop("there is no memory to work with");
	if (irqchip_init(boot_fdt))
		stop("there is no interrupt controller that Callsite knows");
	init_idle(&boot_thread, this_cpu());
	ftrace_init(); /* while no other CPU runs */
	arch_init_cpu();
	irqchip_init_cpu();
	timer_init_cpu();
	if (!kthread_run(main_thread, NULL, -1, "shell"))
		stop("there is no memory for the first thread");
	irq_enable();
	do_idle();
}
