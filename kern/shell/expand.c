/*
 * Globs: an argument becomes the names of the files that it matches, in their order, as in sh. '/'
 * divides a glob: each part is matched with the names in a directory, and a name that begins with
 * '.' needs a '.' there.
 */
#include "errno.h"
#include "parse.h"
#include "shell.h"
#include "string.h"

#define DEPTH_MAX 12 /* parts; '..' among them could lead to many more paths than there are files */
#define NAME_SIZE 256

/* Only the shell's thread uses it. */
static char path[NAME_SIZE + 2 * LINE_MAX];

static int add_path(struct command_line *c)
{
	size_t size = strlen(path) + 1;

	if (c->argc == WORDS_MAX || c->len + size > GLOBS_SIZE)
		return -E2BIG;
	c->argv[c->argc++] = memcpy(c->text + c->len, path, size);
	c->len += size;
	return 0;
}

/* Add each path that begins with the first @len letters of `path`, and then matches @glob. */
static int expand(struct command_line *c, size_t len, const char *glob, int depth)
{
	char *name = path + len;
	struct node entry;
	struct file *dir;
	size_t n = 0;
	int err = 0;

	if (depth > DEPTH_MAX || len > LINE_MAX)
		return -E2BIG;
	while (*glob == '/')
		*name++ = *glob++;
	*name = 0;
	if (!*glob)
		return file_stat(shell_cwd(), path, &entry) ? 0 : add_path(c);
	while (glob[n] && glob[n] != '/')
		n++;
	if (n <= 2 && !memcmp(glob, "..", n)) {
		memcpy(name, glob, n);
		return expand(c, name + n - path, glob + n, depth + 1);
	}
	if (file_open(shell_cwd(), *path ? path : ".", O_RDONLY, &dir))
		return 0;
	while (!err && file_entry(dir, &entry, name, NAME_SIZE) > 0)
		if ((*name != '.' || *glob == '.') && glob_match(glob, n, name))
			err = expand(c, name + strlen(name) - path, glob + n, depth + 1);
	file_close(dir);
	return err;
}

int shell_expand(struct command_line *c, const char *glob)
{
	int before = c->argc, err = expand(c, 0, glob, 0);

	return err ?: c->argc - before;
}
