/*
 * README of TRACEFS. Its text is README.txt beside this file. A line "@FILE" there is not
 * shown: the lines up to the next "@" are shown if FILE exists. "@" alone: they always are.
 */
#include "print.h"
#include "string.h"
#include "tracefs.h"

__asm__("	.section .rodata.readme, \"a\"\n"
	"readme_text:	.incbin \"kern/ftrace/files/README.txt\"\n"
	"	.byte 0\n"
	"	.previous");
extern const char readme_text[];

static bool exists(const char *name, int len)
{
	char path[80];

	snprintf(path, sizeof(path), "%s%.*s", TRACEFS, len, name);
	return file_lookup(NULL, path);
}

static int readme_show(struct seq *s, u64 item)
{
	bool shown = true;

	for (const char *line = readme_text, *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		if (*line == '@')
			shown = exists(line + 1, end - line - 1);
		else if (shown)
			seq_printf(s, "%.*s\n", (int)(end - line), line);
	}
	return 1;
}
TRACEFS_TEXT(readme, "README", TRACEFS_TOP, readme_show);
