/* Lines and options, for programs that read text. */
#include "text.h"

#define ENOMEM 12

int input_open(struct input *in, const char *path)
{
	*in = (struct input){0};
	if (path && strcmp(path, "-"))
		in->fd = open(path, O_RDONLY);
	return in->fd < 0 ? in->fd : 0;
}

void input_close(struct input *in)
{
	if (in->fd > 0)
		close(in->fd);
	free(in->line);
}

/* Add the bytes to the line, and a NUL. */
static int append(struct input *in, size_t *length, const char *bytes, size_t n)
{
	size_t room = in->room ? in->room : 256;
	char *line;

	while (room < *length + n + 2)
		room *= 2;
	if (room > in->room) {
		line = realloc(in->line, room);
		if (!line)
			return -ENOMEM;
		in->line = line;
		in->room = room;
	}
	memcpy(in->line + *length, bytes, n);
	*length += n;
	in->line[*length] = 0;
	return 0;
}

/* Return: 1, or 0 at the end; -errno. */
static long fill(struct input *in)
{
	long n = in->ended ? 0 : read(in->fd, in->buf, sizeof(in->buf));

	in->ended = n <= 0;
	in->at = 0;
	in->len = n > 0 ? n : 0;
	return n < 0 ? n : n > 0;
}

int input_line(struct input *in, size_t *length)
{
	bool some = false, whole = false;

	*length = 0;
	while (!whole) {
		long more = in->at < in->len ? 1 : fill(in);
		size_t n = 0;

		if (more < 0)
			return more;
		if (!more)
			return some;
		while (in->at + n < in->len && in->buf[in->at + n] != '\n')
			n++;
		if (append(in, length, in->buf + in->at, n))
			return -ENOMEM;
		some = true;
		whole = in->at + n < in->len;
		in->at += n + whole;
	}
	return 1;
}

bool put_line(struct input *in, size_t length)
{
	bool put;

	in->line[length] = '\n'; /* append() has left room for it and the NUL */
	put = write_file(NULL, in->line, length + 1) == 0;
	in->line[length] = 0;
	return put;
}

static int index_of(const char *letters, char letter)
{
	const char *at = letter && letters ? strchr(letters, letter) : NULL;

	return at ? (int)(at - letters) : -1;
}

/* The letters of one argument. Return: how many arguments follow it as a value; -1: wrong. */
static int parse_letters(const char *word, const char *next, const char *flags, bool *seen,
			 const char *values, const char **value)
{
	for (word++; *word; word++) {
		int flag = index_of(flags, *word), with = index_of(values, *word);

		if (with >= 0) {
			value[with] = word[1] ? word + 1 : next;
			return !value[with] ? -1 : !word[1];
		}
		if (flag < 0)
			return -1;
		seen[flag] = true;
	}
	return 0;
}

int parse_options(int argc, char **argv, const char *flags, bool *seen, const char *values,
		  const char **value)
{
	int i = 1;

	while (i < argc && argv[i][0] == '-' && argv[i][1]) {
		int more;

		if (!strcmp(argv[i], "--"))
			return i + 1;
		more = parse_letters(argv[i], i + 1 < argc ? argv[i + 1] : NULL, flags, seen,
				     values, value);
		if (more < 0)
			return -1;
		i += 1 + more;
	}
	return i;
}

bool parse_count(const char *text, size_t *count)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	*count = n;
	return end > text && !*end && *text >= '0' && *text <= '9' && n < 1ull << 48;
}

int parse_lines(int argc, char **argv, size_t *count)
{
	const char *value = "10";
	int first;

	if (argc > 1 && argv[1][0] == '-' && parse_count(argv[1] + 1, count))
		return 2;
	first = parse_options(argc, argv, NULL, NULL, "n", &value);
	return first >= 0 && parse_count(value, count) ? first : -1;
}

int for_each_input(int argc, char **argv, int first, int (*fn)(const char *path, void *arg),
		   void *arg)
{
	int status = first < argc ? 0 : fn(NULL, arg);

	for (int i = first; i < argc; i++) {
		int its = fn(argv[i], arg);

		status = its > status ? its : status;
	}
	return status;
}
