/*
 * sort FILE [-o OUT]: sort the lines of a file by their bytes, as `LC_ALL=C sort`
 * does. A merge sort, so that equal lines keep their order
 * and the number of comparisons is bounded.
 */
#include "app.h"

APP("file [-o out]", "sort a file's lines by their bytes");

struct line {
	const char *text;
	size_t length;
};

static size_t count_lines(const char *data, size_t size)
{
	size_t lines = 0;

	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	return lines + (size && data[size - 1] != '\n');
}

static __attribute__((noinline)) void split_lines(const char *data, size_t size, struct line *lines)
{
	const char *end = data + size, *start = data;

	for (const char *p = data; p < end; p++) {
		if (*p == '\n') {
			*lines++ = (struct line){start, p - start};
			start = p + 1;
		}
	}
	if (start < end)
		*lines = (struct line){start, end - start};
}

static __attribute__((noinline)) int compare_lines(const struct line *a, const struct line *b)
{
	size_t shorter = a->length < b->length ? a->length : b->length;
	int order = memcmp(a->text, b->text, shorter);

	return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* Merge the sorted halves of in[0, n) into out. */
static __attribute__((noinline)) void merge(const struct line *in, struct line *out, size_t half,
					    size_t n)
{
	size_t a = 0, b = half;

	for (size_t i = 0; i < n; i++) {
		bool left = b == n || (a < half && compare_lines(&in[a], &in[b]) <= 0);

		out[i] = left ? in[a++] : in[b++];
	}
}

static __attribute__((noinline)) void merge_sort(struct line *lines, struct line *scratch, size_t n)
{
	size_t half = n / 2;

	if (n < 2)
		return;
	merge_sort(lines, scratch, half);
	merge_sort(lines + half, scratch + half, n - half);
	merge(lines, scratch, half, n);
	memcpy(lines, scratch, n * sizeof(*lines));
}

static __attribute__((noinline)) size_t join_lines(const struct line *lines, size_t n, char *out)
{
	char *p = out;

	for (size_t i = 0; i < n; i++) {
		memcpy(p, lines[i].text, lines[i].length);
		p += lines[i].length;
		*p++ = '\n';
	}
	return p - out;
}

static long sort_data(const char *data, size_t size, const char *out)
{
	size_t n = count_lines(data, size);
	struct line *lines = calloc(n + 1, 2 * sizeof(*lines));
	char *text = malloc(size + 1);
	long err = -12;

	if (lines && text) {
		split_lines(data, size, lines);
		merge_sort(lines, lines + n, n);
		err = write_file(out, text, join_lines(lines, n, text));
	}
	free(text);
	free(lines);
	return err;
}

int main(int argc, char **argv)
{
	const char *out = argc == 4 && !strcmp(argv[2], "-o") ? argv[3] : NULL;
	void *data = NULL;
	long n;

	if (argc != 2 && !out) {
		printf("usage: sort FILE [-o OUT]\n");
		return 2;
	}
	n = read_file(argv[1], &data);
	if (n < 0) {
		printf("sort: %s: %s\n", argv[1], strerror(-n));
	} else {
		n = sort_data(data, n, out);
		if (n < 0)
			printf("sort: the result cannot be written: %s\n", strerror(-n));
	}
	free(data);
	return n < 0;
}
