/* uniq [-c] [FILE]: leave out lines that are equal to the line before them. */
#include "lib/text.h"

#define ENOMEM 12

APP("[-c] [file]", "leave out repeated lines; -c: count them");

struct last {
	char *text;
	size_t length, room;
	size_t count; /* 0: there is none */
	bool counted;
};

static bool put_last(struct last *last)
{
	if (last->count && last->counted)
		printf("%7zu ", last->count);
	if (!last->count)
		return true;
	last->text[last->length] = '\n';
	return !write_file(NULL, last->text, last->length + 1);
}

static int remember(struct last *last, const char *line, size_t length)
{
	char *text = last->text;

	if (last->room < length + 1)
		text = realloc(last->text, length * 2 + 64);
	if (!text)
		return -ENOMEM;
	if (last->room < length + 1)
		last->room = length * 2 + 64;
	memcpy(text, line, length);
	*last = (struct last){text, length, last->room, 1, last->counted};
	return 0;
}

static int uniq(const char *path, bool counted)
{
	struct last last = {.counted = counted};
	bool put = true;
	struct input in;
	size_t length;
	int err = input_open(&in, path), more = err;

	while (!err && put && (more = input_line(&in, &length)) > 0) {
		if (last.count && last.length == length && !memcmp(last.text, in.line, length)) {
			last.count++;
			continue;
		}
		put = put_last(&last);
		err = remember(&last, in.line, length);
	}
	err = err ? err : more;
	if (put && err >= 0)
		put_last(&last);
	free(last.text);
	input_close(&in);
	return err < 0 ? complain("uniq", path ? path : "input", err) : 0;
}

int main(int argc, char **argv)
{
	bool counted = false;
	int first = parse_options(argc, argv, "c", &counted, NULL, NULL);

	if (first < 0 || argc - first > 1) {
		printf("Usage: uniq [-c] [file]\n");
		return 2;
	}
	return uniq(first < argc ? argv[first] : NULL, counted);
}
