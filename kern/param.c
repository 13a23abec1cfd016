/*
 * Boot arguments: the kernel's command line, split at blanks.
 *
 * `name` or `name=value`; a value in "..." may contain blanks. Each argument goes
 * to the PARAM() of its name; an unknown or refused one is reported and ignored.
 */
#include "errno.h"
#include "fdt.h"
#include "print.h"
#include "shell.h"
#include "string.h"

/* The next argument, without its quotes; advances *@text. False at the end. */
static bool next_argument(const char **text, char *arg, size_t size)
{
	const char *p = *text;
	size_t len = 0;
	bool quoted = false;

	while (*p == ' ' || *p == '\t' || *p == '\n')
		p++;
	if (!*p)
		return false;
	for (; *p && (quoted || (*p != ' ' && *p != '\t' && *p != '\n')); p++) {
		if (*p == '"')
			quoted = !quoted;
		else if (len < size - 1)
			arg[len++] = *p;
	}
	arg[len] = '\0';
	*text = p;
	return true;
}

static void parse_one(const char *arg, bool early)
{
	const char *equals = strchr(arg, '=');
	size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
	bool known = early; /* reported once */
	int err;

	TABLE_FOR_EACH(const struct param, param, p) {
		if (strncmp(p->name, arg, len) || p->name[len])
			continue;
		known = true;
		err = p->early == early ? p->set(equals ? equals + 1 : "") : 0;
		if (err)
			printk("boot argument '%s' is refused (%s), ignored\n", arg, errno_name(-err));
	}
	if (!known)
		printk("boot argument '%s' is not known, ignored\n", arg);
}

void param_parse(const char *bootargs, bool early)
{
	char arg[256];

	while (next_argument(&bootargs, arg, sizeof(arg)))
		parse_one(arg, early);
}
