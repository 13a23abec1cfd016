/*
 * A module's parameters: `insmod m delay=5 name=x`. The module has declared each
 * with module_param(), which leaves an entry in its section .table.module_param.
 */
#include "loader.h"
#include "string.h"

int module_table(const struct module_elf *elf, const char *section, size_t element,
		 const void **start, const void **end)
{
	size_t size = 0;
	unsigned long at = module_elf_section(elf, section, &size);

	if (size % element || at % sizeof(long)) {
		printk("module %s: section %s is not a table of %zu-byte entries, 8-byte aligned\n",
		       elf->name, section, element);
		return -ENOEXEC;
	}
	*start = (const void *)at;
	*end = (const void *)(at + size);
	return 0;
}

/* The bytes from @at to the module's end; 0: @at is not in the module. */
static size_t room_at(const struct module *m, const void *at)
{
	unsigned long addr = (unsigned long)at;

	return addr >= m->base && addr < m->end[MODULE_DATA] ? m->end[MODULE_DATA] - addr : 0;
}

bool module_has_name(const struct module *m, const char *name)
{
	size_t most = MIN(room_at(m, name), MODULE_SYMBOL_MAX + 1ul);

	return strnlen(name, most) < most;
}

static bool set_number(const struct module_param *p, const char *text)
{
	s64 value;

	if (kstrtos64(text, 0, &value))
		return false;
	if (p->type == MODULE_PARAM_long)
		*(long *)p->variable = value;
	else if (value == (int)value)
		*(int *)p->variable = value;
	else
		return false;
	return true;
}

static bool set_bool(bool *variable, const char *text)
{
	bool yes = !strcmp(text, "1") || !strcmp(text, "y");

	if (!yes && strcmp(text, "0") && strcmp(text, "n"))
		return false;
	*variable = yes;
	return true;
}

static bool set(const struct module_param *p, const char *text)
{
	switch (p->type) {
	case MODULE_PARAM_int:
	case MODULE_PARAM_long:
		return set_number(p, text);
	case MODULE_PARAM_bool:
		return set_bool(p->variable, text);
	case MODULE_PARAM_charp:
		/* in m->words, which stay as long as the module */
		*(const char **)p->variable = text;
		return true;
	}
	return false;
}

static int set_one(struct module *m, const struct module_param *p, const struct module_param *end,
		   const char *word)
{
	const char *equals = strchr(word, '=');
	size_t len = equals ? (size_t)(equals - word) : strlen(word);

	for (; p < end; p++) {
		if (strncmp(p->name, word, len) || p->name[len])
			continue;
		if (set(p, equals ? equals + 1 : "1"))
			return 0;
		printk("module %s: parameter '%s' refuses this value\n", m->name, word);
		return -EINVAL;
	}
	printk("module %s: it has no parameter '%.*s'\n", m->name, (int)len, word);
	return -EINVAL;
}

static size_t size_of(enum module_param_type type)
{
	return type == MODULE_PARAM_bool  ? sizeof(bool)
	       : type == MODULE_PARAM_int ? sizeof(int)
					  : sizeof(long);
}

/* The table is of the file, too: name and variable must lie in the module. */
static int check_table(const struct module *m, const struct module_param *p,
		       const struct module_param *end)
{
	for (; p < end; p++) {
		size_t size = size_of(p->type);

		if (module_has_name(m, p->name) && room_at(m, p->variable) >= size &&
		    (unsigned long)p->variable % size == 0)
			continue;
		printk("module %s: a pointer in section .table.module_param leads out of the "
		       "module\n",
		       m->name);
		return -ENOEXEC;
	}
	return 0;
}

/* m->words: a copy of the words, one after another. */
static int copy_words(struct module *m, int count, char **words)
{
	size_t size = 0;
	char *at;

	for (int i = 0; i < count; i++)
		size += strlen(words[i]) + 1;
	m->words = at = count ? kmalloc(size) : NULL;
	if (count && !at) {
		printk("module %s: no memory for its parameters\n", m->name);
		return -ENOMEM;
	}
	for (int i = 0; i < count; i++, at += size) {
		size = strlen(words[i]) + 1;
		memcpy(at, words[i], size);
	}
	return 0;
}

int module_set_params(struct module *m, const struct module_elf *elf, int count, char **params)
{
	const void *start = NULL, *end = NULL; /* GCC 14 does not see that they are set */
	const char *word;
	int err =
		module_table(elf, ".table.module_param", sizeof(struct module_param), &start, &end);

	err = err ?: check_table(m, start, end);
	err = err ?: copy_words(m, count, params);
	word = m->words;
	for (int i = 0; i < count && !err; i++, word += strlen(word) + 1)
		err = set_one(m, start, end, word);
	return err;
}
