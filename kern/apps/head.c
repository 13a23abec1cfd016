/* head [-n COUNT] [FILE...]: the first lines of files, or of standard input. */
#include "lib/text.h"

APP("[-n count | -count] [file ...]", "print the first lines, 10 by default");

static int head(const char *path, void *arg)
{
	const size_t *count = arg;
	struct input in;
	size_t length;
	int more = input_open(&in, path);

	for (size_t i = 0; !more && i < *count; i++) {
		more = input_line(&in, &length);
		if (more <= 0 || !put_line(&in, length))
			break;
		more = 0;
	}
	input_close(&in);
	return more < 0 ? complain("head", path ? path : "input", more) : 0;
}

int main(int argc, char **argv)
{
	size_t count;
	int first = parse_lines(argc, argv, &count);

	if (first < 0) {
		printf("Usage: head [-n count | -count] [file ...]\n");
		return 2;
	}
	return for_each_input(argc, argv, first, head, &count);
}
