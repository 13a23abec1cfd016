/*
 * tail [-n COUNT] [FILE...]: the last lines of files, or of standard input. The last lines are kept
 * in a ring of their own memory, so the input may have any length.
 */
#include "lib/text.h"

#define ENOMEM 12

APP("[-n count | -count] [file ...]", "print the last lines, 10 by default");

struct kept {
	char *text;
	size_t length;
};

/* Keep a copy of the line in the place of the oldest one. */
static int keep(struct kept *kept, const char *line, size_t length)
{
	char *text = malloc(length + 1);

	if (!text)
		return -ENOMEM;
	memcpy(text, line, length);
	text[length] = '\n';
	free(kept->text);
	kept->text = text;
	kept->length = length + 1;
	return 0;
}

static void put_kept(struct kept *ring, size_t count, size_t lines)
{
	bool put = true;

	for (size_t i = lines > count ? lines - count : 0; i < lines && put; i++)
		put = !write_file(NULL, ring[i % count].text, ring[i % count].length);
	for (size_t i = 0; i < count; i++)
		free(ring[i].text);
}

static int tail(const char *path, void *arg)
{
	size_t count = *(const size_t *)arg, lines = 0, length;
	struct kept *ring = calloc(count ? count : 1, sizeof(*ring));
	struct input in;
	int more = input_open(&in, path), err = ring ? more : -ENOMEM;

	while (!err && (more = input_line(&in, &length)) > 0) {
		if (count)
			err = keep(&ring[lines % count], in.line, length);
		lines++;
	}
	err = err ? err : more;
	if (ring)
		put_kept(ring, count, lines);
	free(ring);
	input_close(&in);
	return err < 0 ? complain("tail", path ? path : "input", err) : 0;
}

int main(int argc, char **argv)
{
	size_t count;
	int first = parse_lines(argc, argv, &count);

	if (first < 0) {
		printf("Usage: tail [-n count | -count] [file ...]\n");
		return 2;
	}
	return for_each_input(argc, argv, first, tail, &count);
}
