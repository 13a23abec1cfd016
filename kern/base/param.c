/*
 * Boot arguments: the kernel's command line, split at blanks.
 *
 * `name` or `name=value`; a value in "..." may contain blanks. Each argument goes
 * to the PARAM() of its name; a refused one is reported and ignored. The unknown ones
 * are reported together: a board's firmware may add many that are for Linux.
 */
#include "errno.h"
#include "fdt.h"
#include "print.h"
#include "strerror.h"
#include "string.h"

/* A CR comes with an `append` line that an editor ended with CR LF: U-Boot passes it on. */
static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The next argument, without its quotes; advances *@text. False at the end. */
static bool next_argument(const char **text, char *arg, size_t size)
{
	const char *p = *text;
	size_t len = 0;
	bool quoted = false;

	while (is_blank(*p))
		p++;
	if (!*p)
		return false;
	for (; *p && (quoted || !is_blank(*p)); p++) {
		if (*p == '"')
			quoted = !quoted;
		else if (len < size - 1)
			arg[len++] = *p;
	}
	arg[len] = '\0';
	*text = p;
	return true;
}

static bool has_name(const struct param *param, const char *arg)
{
	size_t len = 0;

	while (arg[len] && arg[len] != '=')
		len++;
	return !strncmp(param->name, arg, len) && !param->name[len];
}

static void parse_one(const char *arg, bool early)
{
	const char *equals = strchr(arg, '=');

	TABLE_FOR_EACH(const struct param, param, p) {
		int err = p->early == early && has_name(p, arg) ? p->set(equals ? equals + 1 : "")
								: 0;

		if (err)
			printk("boot argument '%s' is refused (%s), ignored\n", arg,
			       errno_name(-err));
	}
}

static bool is_known(const char *arg)
{
	TABLE_FOR_EACH(const struct param, param, p)
		if (has_name(p, arg))
			return true;
	return false;
}

static void report_unknown(const char *bootargs)
{
	const char *before = "boot arguments that are not known, ignored:";
	char arg[256];

	while (next_argument(&bootargs, arg, sizeof(arg))) {
		if (is_known(arg))
			continue;
		printk("%s %s", before, arg);
		before = "";
	}
	if (!*before)
		printk("\n");
}

void param_parse(const char *bootargs, bool early)
{
	const char *rest = bootargs;
	char arg[256];

	while (next_argument(&rest, arg, sizeof(arg)))
		parse_one(arg, early);
	if (!early) /* reported once */
		report_unknown(bootargs);
}
