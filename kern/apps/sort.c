/*
 * sort [-n] [-r] [-k FIELD] [-o OUT] [FILE]: sort the lines of a file, or of standard input, by
 * their bytes, as `LC_ALL=C sort` does. -n: by a number; -r: backwards; -k: by what begins with
 * this field. A merge sort, so that the number of comparisons is bounded.
 */
#include "lib/text.h"

APP("[-nr] [-k field] [-o out] [file]", "sort lines by their bytes; -n: by a number");

struct order {
	bool numbers, backwards;
	size_t field; /* 1: the whole line */
};

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

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* What begins with this field. The blanks before a field are part of it. */
static struct line key_of(struct line line, size_t field)
{
	while (--field && line.length) {
		while (line.length && is_blank(*line.text))
			line = (struct line){line.text + 1, line.length - 1};
		while (line.length && !is_blank(*line.text))
			line = (struct line){line.text + 1, line.length - 1};
	}
	return line;
}

static int compare_bytes(const struct line *a, const struct line *b)
{
	size_t shorter = a->length < b->length ? a->length : b->length;
	int order = memcmp(a->text, b->text, shorter);

	return order ? order : (a->length > b->length) - (a->length < b->length);
}

static size_t count_digits(const char *p, const char *end)
{
	size_t n = 0;

	while (p + n < end && p[n] >= '0' && p[n] <= '9')
		n++;
	return n;
}

/* A number of any length: its sign, and its digits without zeros at either end. */
struct number {
	int sign;
	struct line whole, part;
};

static struct number number_of(struct line key)
{
	const char *p = key.text, *end = p + key.length;
	struct number n = {.sign = 1};

	while (p < end && is_blank(*p))
		p++;
	if (p < end && *p == '-') {
		n.sign = -1;
		p++;
	}
	while (p < end && *p == '0')
		p++;
	n.whole = (struct line){p, count_digits(p, end)};
	p += n.whole.length;
	if (p < end && *p == '.')
		n.part = (struct line){p + 1, count_digits(p + 1, end)};
	while (n.part.length && n.part.text[n.part.length - 1] == '0')
		n.part.length--;
	if (!n.whole.length && !n.part.length)
		n.sign = 0;
	return n;
}

static int compare_numbers(struct line a, struct line b)
{
	struct number x = number_of(a), y = number_of(b);
	int order;

	if (x.sign != y.sign)
		return x.sign - y.sign;
	order = (x.whole.length > y.whole.length) - (x.whole.length < y.whole.length);
	if (!order)
		order = compare_bytes(&x.whole, &y.whole);
	if (!order)
		order = compare_bytes(&x.part, &y.part);
	return order * x.sign;
}

/* Lines with equal keys are in the order of their bytes. */
static __attribute__((noinline)) int compare_lines(const struct line *a, const struct line *b,
						   const struct order *order)
{
	struct line x = key_of(*a, order->field), y = key_of(*b, order->field);
	int result = order->numbers ? compare_numbers(x, y) : compare_bytes(&x, &y);

	if (!result)
		result = compare_bytes(a, b);
	return order->backwards ? -result : result;
}

/* Merge the sorted halves of in[0, n) into out. */
static __attribute__((noinline)) void merge(const struct line *in, struct line *out, size_t half,
					    size_t n, const struct order *order)
{
	size_t a = 0, b = half;

	for (size_t i = 0; i < n; i++) {
		bool left = b == n || (a < half && compare_lines(&in[a], &in[b], order) <= 0);

		out[i] = left ? in[a++] : in[b++];
	}
}

static __attribute__((noinline)) void merge_sort(struct line *lines, struct line *scratch, size_t n,
						 const struct order *order)
{
	size_t half = n / 2;

	if (n < 2)
		return;
	merge_sort(lines, scratch, half, order);
	merge_sort(lines + half, scratch + half, n - half, order);
	merge(lines, scratch, half, n, order);
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

static long sort_data(const char *data, size_t size, const char *out, const struct order *order)
{
	size_t n = count_lines(data, size);
	struct line *lines = calloc(n + 1, 2 * sizeof(*lines));
	char *text = malloc(size + 1);
	long err = -12;

	if (lines && text) {
		split_lines(data, size, lines);
		merge_sort(lines, lines + n, n, order);
		err = write_file(out, text, join_lines(lines, n, text));
	}
	free(text);
	free(lines);
	return err;
}

static int sort(const char *path, const char *out, const struct order *order)
{
	void *data = NULL;
	long n = read_file(path, &data);

	if (n < 0) {
		printf("sort: %s: %s\n", path ? path : "input", strerror(-n));
	} else {
		n = sort_data(data, n, out, order);
		if (n < 0)
			printf("sort: the result cannot be written: %s\n", strerror(-n));
	}
	free(data);
	return n < 0;
}

int main(int argc, char **argv)
{
	enum { KEY, OUT };
	const char *value[] = {"1", NULL};
	bool seen[2] = {false};
	int first = parse_options(argc, argv, "nr", seen, "ko", value);
	struct order order = {seen[0], seen[1], 1};

	/* `sort FILE -o OUT` */
	if (first > 0 && argc - first == 3 && !strcmp(argv[first + 1], "-o")) {
		value[OUT] = argv[first + 2];
		argc = first + 1;
	}
	if (first < 0 || argc - first > 1 || !parse_count(value[KEY], &order.field) ||
	    !order.field) {
		printf("Usage: sort [-n] [-r] [-k field] [-o out] [file]\n");
		return 2;
	}
	return sort(first < argc ? argv[first] : NULL, value[OUT], &order);
}
