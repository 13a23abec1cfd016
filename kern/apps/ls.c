/* ls [-l] [PATH...]: list the names in a directory, sorted; -l: with permissions and size. */
#include "app.h"

APP("[-l] [path ...]", "list directories");

static void print_entry(const char *name, const struct stat *st, bool longer)
{
	static const char letters[] = "rwxrwxrwx";
	const char *slash = st->mode & S_DIR ? "/" : "";
	char mode[11];

	mode[0] = st->mode & S_DIR ? 'd' : '-';
	for (int i = 0; i < 9; i++)
		mode[1 + i] = st->mode >> (8 - i) & 1 ? letters[i] : '-';
	mode[10] = 0;
	if (longer)
		printf("%s %9zu %s%s\n", mode, st->size, name, slash);
	else
		printf("%s%s\n", name, slash);
}

static const char *last_name(const char *path)
{
	const char *name = path;

	for (; *path; path++)
		if (path[0] == '/' && path[1])
			name = path + 1;
	return name;
}

static int list(const char *path, bool longer)
{
	struct dirent entry;
	int fd, err = stat(path, &entry.stat);

	if (err)
		return complain("ls", path, err);
	if (!(entry.stat.mode & S_DIR)) {
		print_entry(last_name(path), &entry.stat, longer);
		return 0;
	}
	fd = open(path, O_RDONLY);
	while ((err = fd < 0 ? fd : readdir(fd, &entry)) > 0)
		print_entry(entry.name, &entry.stat, longer);
	if (fd >= 0)
		close(fd);
	return err ? complain("ls", path, err) : 0;
}

int main(int argc, char **argv)
{
	bool longer = argc > 1 && !strcmp(argv[1], "-l");
	int status = 0;

	if (argc - longer == 1)
		return list(".", longer);
	for (int i = 1 + longer; i < argc; i++)
		status |= list(argv[i], longer);
	return status;
}
