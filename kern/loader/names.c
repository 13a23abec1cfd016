/*
 * The names that ksym_name() keeps, each once. The names of a module that was published stay for
 * ever, even if its init fails. module_lock held.
 */
#include "ksyms.h"
#include "loader.h"
#include "memory.h"
#include "string.h"

/* In each page: strings with two NULs, then zeroes; a page's last byte is always zero. */
static char *name_pages[KSYM_NAMES_MAX / PAGE_SIZE];
static unsigned name_page_count;
static size_t name_used = PAGE_SIZE; /* of the last page */

static const char *find_name(const char *name)
{
	for (unsigned i = 0; i < name_page_count; i++)
		for (const char *p = name_pages[i]; *p; p += strlen(p) + 2)
			if (!strcmp(p, name))
				return p;
	return NULL;
}

static bool new_name_page(void)
{
	char *page = name_page_count < ARRAY_SIZE(name_pages) ? page_alloc(0) : NULL;

	if (!page)
		return false;
	memset(page, 0, PAGE_SIZE);
	name_pages[name_page_count++] = page;
	name_used = 0;
	return true;
}

const char *ksym_name(const char *name)
{
	size_t size = strlen(name) + 2;
	const char *found = find_name(name);
	char *copy;

	if (!*name)
		return "\0";
	if (found)
		return found;
	if (size >= PAGE_SIZE || (name_used + size >= PAGE_SIZE && !new_name_page()))
		return NULL;
	copy = name_pages[name_page_count - 1] + name_used;
	memcpy(copy, name, size - 1);
	name_used += size;
	return copy;
}

struct ksym_names ksym_names_mark(void)
{
	return (struct ksym_names){name_page_count, name_used};
}

void ksym_names_forget(struct ksym_names mark)
{
	while (name_page_count > mark.pages)
		page_free(name_pages[--name_page_count], 0);
	name_used = mark.used;
	if (mark.pages)
		memset(name_pages[mark.pages - 1] + mark.used, 0, PAGE_SIZE - mark.used);
}
