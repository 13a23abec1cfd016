/*
 * The names of a module's functions, for %pS, stack traces, filters and traces.
 */
#include "ftrace_module.h"
#include "ksyms.h"
#include "loader.h"
#include "string.h"

/* each is inserted among all others, and its name compared with all others */
#define FUNCTIONS_MAX 2048

static bool is_function(const struct module_elf *elf, const struct elf_symbol *s)
{
	return (s->info & 15) == STT_FUNC && s->section && s->section < elf->section_count &&
	       elf->place[s->section] != NOT_LOADED && elf->region[s->section] == MODULE_TEXT;
}

/* Insert in the order of addresses. Of several names for one address the first stays. */
static int add(struct ksym_table *table, unsigned long addr, const char *name)
{
	u32 i = table->count;

	while (i && table->symbol[i - 1].addr > addr)
		i--;
	if (i && table->symbol[i - 1].addr == addr)
		return 0;
	memmove(&table->symbol[i + 1], &table->symbol[i],
		(table->count - i) * sizeof(table->symbol[0]));
	table->symbol[i].addr = addr;
	table->symbol[i].name = ksym_name(name);
	table->count++;
	return table->symbol[i].name ? 0 : -ENOMEM;
}

/* A walk of the stack knows the tracer's entry code by this name (unwind_in_tracer_entry()). */
static int add_trampolines(struct module *m, size_t room)
{
	char name[80];

	m->symbols->tracer = m->base + room;
	m->symbols->tracer_end = m->base + room + ftrace_module_room();
	snprintf(name, sizeof(name), "ftrace_island_%s", m->name);
	return add(m->symbols, m->symbols->tracer, name);
}

static int add_functions(struct module *m, const struct module_elf *elf, size_t room)
{
	int err = 0;

	m->symbols->start = m->base;
	m->symbols->end = m->end[MODULE_TEXT];
	m->symbols->module = ksym_name(m->name);
	m->symbols->count = 0;
	for (u32 i = 0; i < elf->symbol_count && !err; i++)
		if (is_function(elf, &elf->symbols[i]))
			err = add(m->symbols, elf->symbols[i].value,
				  elf->strings + elf->symbols[i].name);
	err = err ?: add_trampolines(m, room);
	return err ?: (m->symbols->module ? 0 : -ENOMEM);
}

int module_name_functions(struct module *m, const struct module_elf *elf, size_t room)
{
	u32 count = 0;

	for (u32 i = 0; i < elf->symbol_count; i++)
		count += is_function(elf, &elf->symbols[i]);
	if (count > FUNCTIONS_MAX)
		return module_elf_refuse(elf, -ENOEXEC,
					 "the file has %u functions; at most %u are allowed", count,
					 FUNCTIONS_MAX);
	m->symbols = ksym_table_new(count + 1);
	if (!m->symbols || add_functions(m, elf, room))
		return module_elf_refuse(elf, -ENOMEM,
					 "no memory for the names of its %u functions", count);
	return 0;
}
