/* sleep SECONDS: wait; 0.5 is half a second. */
#include "app.h"

#define EINVAL 22
#define ERANGE 34
#define MOST 1000000000

APP("seconds", "wait; 0.5 is half a second");

/* "1", "0.25": seconds as nanoseconds. */
static int parse_seconds(const char *s, uint64_t *ns)
{
	uint64_t unit = 1000000000, value = 0;
	const char *start = s;

	for (; *s >= '0' && *s <= '9'; s++) {
		value = value * 10 + *s - '0';
		if (value > MOST)
			return -ERANGE;
	}
	value *= unit;
	if (*s == '.')
		for (s++; *s >= '0' && *s <= '9'; s++) {
			unit /= 10;
			value += (*s - '0') * unit;
		}
	*ns = value;
	return *s || s == start || !strcmp(start, ".") ? -EINVAL : 0;
}

int main(int argc, char **argv)
{
	uint64_t ns;
	int err;

	if (argc != 2) {
		printf("Usage: sleep seconds\n");
		return 2;
	}
	err = parse_seconds(argv[1], &ns);
	if (err)
		return complain("sleep", argv[1], err);
	sleep_ns(ns);
	return 0;
}
