/*
 * What modules may use of the kernel, and of each other.
 *
 * A symbol is found by its name: first among the kernel's exports, then among those of each module,
 * which is usable only if the module is live. The tracer's exports are in ftrace/modules/.
 */
#include "cpu.h"
#include "file.h"
#include "irq.h"
#include "loader.h"
#include "lock.h"
#include "shell.h"
#include "string.h"

EXPORT_SYMBOL(printk);
EXPORT_SYMBOL(snprintf);
EXPORT_SYMBOL(vsnprintf);
EXPORT_SYMBOL(panic);

EXPORT_SYMBOL(kmalloc);
EXPORT_SYMBOL(kzalloc);
EXPORT_SYMBOL(krealloc);
EXPORT_SYMBOL(kfree);
EXPORT_SYMBOL(page_alloc);
EXPORT_SYMBOL(page_free);

EXPORT_SYMBOL(memcpy);
EXPORT_SYMBOL(memmove);
EXPORT_SYMBOL(memset);
EXPORT_SYMBOL(memcmp);
EXPORT_SYMBOL(strlen);
EXPORT_SYMBOL(strcmp);
EXPORT_SYMBOL(strncmp);
EXPORT_SYMBOL(strchr);

EXPORT_SYMBOL(mutex_lock);
EXPORT_SYMBOL(mutex_trylock);
EXPORT_SYMBOL(mutex_unlock);
EXPORT_SYMBOL(prepare_to_wait);
EXPORT_SYMBOL(finish_wait);
EXPORT_SYMBOL(wake_up);
EXPORT_SYMBOL(nr_cpus);
EXPORT_SYMBOL(schedule);
EXPORT_SYMBOL(yield);
EXPORT_SYMBOL(sleep_ns);
EXPORT_SYMBOL(kthread_run);
EXPORT_SYMBOL(thread_join);
EXPORT_SYMBOL(thread_interrupt);
EXPORT_SYMBOL(wake_up_process);
EXPORT_SYMBOL(clock_hz);
EXPORT_SYMBOL(_local_irq_save);
EXPORT_SYMBOL(_local_irq_restore);
EXPORT_SYMBOL(preempt_disable);
EXPORT_SYMBOL(preempt_enable);
EXPORT_SYMBOL(synchronize_sched);

EXPORT_SYMBOL(file_make);
EXPORT_SYMBOL(file_make_at);
EXPORT_SYMBOL(file_unmake);
EXPORT_SYMBOL(file_lookup);
EXPORT_SYMBOL(file_open);
EXPORT_SYMBOL(file_read);
EXPORT_SYMBOL(file_write);
EXPORT_SYMBOL(file_close);
EXPORT_SYMBOL(seq_open);
EXPORT_SYMBOL(seq_read);
EXPORT_SYMBOL(seq_release);
EXPORT_SYMBOL(seq_printf);

static unsigned long find_in(const struct export *e, const struct export *end, const char *name)
{
	for (; e < end; e++)
		if (!strcmp(e->name, name))
			return e->value;
	return 0;
}

unsigned long module_find_export(const char *name, struct module **owner)
{
	unsigned long value;

	*owner = NULL;
	TABLE_FOR_EACH(const struct export, export, e)
		if (!strcmp(e->name, name))
			return e->value;
	for (struct module *m = modules; m; m = m->next) {
		value = find_in(m->exports, m->exports_end, name);
		if (value) {
			*owner = m;
			return m->state == MODULE_LIVE ? value : 0;
		}
	}
	return 0;
}

/* @m uses an export of @owner. False: of too many modules. */
static bool add_use(struct module *m, struct module *owner)
{
	for (u32 i = 0; i < ARRAY_SIZE(m->uses); i++) {
		if (m->uses[i] == owner)
			return true;
		if (!m->uses[i]) {
			m->uses[i] = owner;
			owner->users++;
			return true;
		}
	}
	printk("module %s: it uses the exports of more than %zu modules\n", m->name,
	       ARRAY_SIZE(m->uses));
	return false;
}

struct search {
	struct module *m;
	int err;
};

static unsigned long find(void *arg, const char *name)
{
	struct search *search = arg;
	struct module *owner;
	unsigned long value = module_find_export(name, &owner);

	if (!value && owner) {
		printk("module %s: '%s' belongs to module %s, which is being loaded or removed\n",
		       search->m->name, name, owner->name);
		search->err = -EEXIST;
	} else if (owner && !add_use(search->m, owner)) {
		search->err = -ENOSPC;
	}
	return value;
}

int module_resolve(struct module *m, struct module_elf *elf)
{
	struct search search = {m, 0};
	int err = module_elf_resolve(elf, find, &search);

	return err ?: search.err;
}

void module_drop_uses(struct module *m)
{
	for (u32 i = 0; i < ARRAY_SIZE(m->uses) && m->uses[i]; i++)
		m->uses[i]->users--;
}
