/*
 * cut -f LIST [-d CHARACTER] | -c LIST, [FILE...]: fields or bytes of each line. A list is "2",
 * "1,3", "2-4", "-3", "3-". As elsewhere, a line without the delimiter is printed whole.
 */
#include "lib/text.h"

APP("-f list [-d char] | -c list [file ...]", "print fields or bytes of each line");

struct what {
	const char *list;
	bool fields;
	char delimiter;
};

/* Read a range: "low", "low-high", "low-" or "-high". *@p becomes the first byte after it. */
static bool next_range(const char **p, size_t *low, size_t *high)
{
	char *end;

	if ((**p < '0' || **p > '9') && **p != '-')
		return false;
	*low = **p == '-' ? 1 : strtoull(*p, &end, 10);
	if (**p != '-')
		*p = end;
	*high = *low;
	if (**p == '-') {
		++*p;
		*high = **p >= '0' && **p <= '9' ? strtoull(*p, &end, 10) : SIZE_MAX;
		if (*high != SIZE_MAX)
			*p = end;
	}
	return *low && *low <= *high && (!**p || **p == ',');
}

static bool is_list(const char *list)
{
	size_t low, high;

	while (next_range(&list, &low, &high)) {
		if (!*list)
			return true;
		list++;
	}
	return false;
}

static bool selected(const char *list, size_t n)
{
	size_t low, high;

	while (next_range(&list, &low, &high)) {
		if (low <= n && n <= high)
			return true;
		if (!*list++)
			break;
	}
	return false;
}

/* Keep the selected bytes of the line, in place. Return: its new length. */
static size_t cut_bytes(char *line, size_t length, const char *list)
{
	size_t out = 0;

	for (size_t i = 0; i < length; i++)
		if (selected(list, i + 1))
			line[out++] = line[i];
	return out;
}

/* The same with its fields, and a delimiter between them. */
static size_t cut_fields(char *line, size_t length, const struct what *what)
{
	bool keeps = selected(what->list, 1), begun = keeps;
	size_t out = 0, field = 1;

	for (size_t i = 0; i < length; i++) {
		bool ends = line[i] == what->delimiter;

		if (ends)
			keeps = selected(what->list, ++field);
		if (keeps && (begun || !ends))
			line[out++] = line[i];
		begun |= keeps;
	}
	return field > 1 ? out : length;
}

static size_t cut_line(char *line, size_t length, const struct what *what)
{
	return what->fields ? cut_fields(line, length, what)
			    : cut_bytes(line, length, what->list);
}

static int cut(const char *path, void *arg)
{
	struct input in;
	size_t length;
	int more = input_open(&in, path);

	if (!more)
		while ((more = input_line(&in, &length)) > 0)
			if (!put_line(&in, cut_line(in.line, length, arg)))
				break;
	input_close(&in);
	return more < 0 ? complain("cut", path ? path : "input", more) : 0;
}

int main(int argc, char **argv)
{
	enum { DELIMITER, FIELDS, BYTES };
	const char *value[3] = {"\t"};
	int first = parse_options(argc, argv, NULL, NULL, "dfc", value);
	struct what what = {value[FIELDS] ? value[FIELDS] : value[BYTES], value[FIELDS],
			    value[DELIMITER][0]};

	if (first < 0 || !value[FIELDS] == !value[BYTES] || !is_list(what.list) ||
	    strlen(value[DELIMITER]) != 1) {
		printf("Usage: cut -f list [-d char] [file ...], or cut -c list [file ...]\n"
		       "A list is numbers and ranges: 1,3-5,7-\n");
		return 2;
	}
	return for_each_input(argc, argv, first, cut, &what);
}
