/* wc [-l] [-w] [-c] [FILE...]: count lines, words and bytes. */
#include "lib/text.h"

APP("[-l] [-w] [-c] [file ...]", "count lines, words and bytes");

enum { LINES, WORDS, BYTES, COUNTS };

struct totals {
	bool shown[COUNTS];
	size_t sum[COUNTS];
	unsigned files;
};

static void print(const struct totals *t, const size_t *count, const char *name)
{
	bool several = t->shown[LINES] + t->shown[WORDS] + t->shown[BYTES] > 1;
	const char *space = "";

	for (int i = 0; i < COUNTS; i++) {
		if (!t->shown[i])
			continue;
		printf(several ? "%s%7zu" : "%s%zu", space, count[i]);
		space = " ";
	}
	printf("%s%s\n", name ? " " : "", name ? name : "");
}

static void add(size_t *count, const char *text, long n, bool *in_word)
{
	count[BYTES] += n;
	for (long i = 0; i < n; i++) {
		bool space = text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r');

		count[LINES] += text[i] == '\n';
		count[WORDS] += !space && !*in_word;
		*in_word = !space;
	}
}

static int count_file(const char *path, void *arg)
{
	struct totals *t = arg;
	size_t count[COUNTS] = {0};
	bool in_word = false;
	struct input in;
	long n = input_open(&in, path);

	while (n >= 0 && (n = read(in.fd, in.buf, sizeof(in.buf))) > 0)
		add(count, in.buf, n, &in_word);
	input_close(&in);
	if (n < 0)
		return complain("wc", path ? path : "input", n);
	print(t, count, path);
	t->files++;
	for (int i = 0; i < COUNTS; i++)
		t->sum[i] += count[i];
	return 0;
}

int main(int argc, char **argv)
{
	struct totals t = {0};
	int first = parse_options(argc, argv, "lwc", t.shown, NULL, NULL), status;

	if (first < 0) {
		printf("Usage: wc [-l] [-w] [-c] [file ...]\n");
		return 2;
	}
	if (!t.shown[LINES] && !t.shown[WORDS] && !t.shown[BYTES])
		t.shown[LINES] = t.shown[WORDS] = t.shown[BYTES] = true;
	status = for_each_input(argc, argv, first, count_file, &t);
	if (t.files > 1)
		print(&t, t.sum, "total");
	return status;
}
