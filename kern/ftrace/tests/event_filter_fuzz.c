// needs: kern/ftrace/events/event_filter.c kern/ftrace/events/probe_parse.c
// needs: kern/base/glob.c kern/base/string.c kern/base/print.c -DKERNEL_NAMES
// needs: -Ikern/ftrace/tests/host -Ikern/tests -include kern/tests/host.h -Wno-pointer-sign
// seeds: filters
/*
 * libFuzzer's target for the filter of an event: any text; it begins with those of
 * test_probe_events.py. An accepted filter and its negation must disagree on an event. The
 * sanitizers see an access outside of the filter and of the event.
 */
#include "event_filter.h"
#include "probe_parse_host.h"

#include "print.h"
#include "thread.h"

void abort(void);
int dprintf(int fd, const char *fmt, ...);
int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

static struct thread thread = {.pid = 7, .comm = "fuzzer"};
__thread struct thread *host_current = &thread;
static unsigned long accepted;

/* A fuzzer whose texts are all refused tests little: make fuzz looks at this number. */
static __attribute__((destructor)) void report(void)
{
	dprintf(2, "stat::linked: %lu\n", accepted);
}

static struct probe_def *make_def(void)
{
	char line[] = "p vfs_read path=+0(file):string n=\\-3:s8 u=\\200:u8 list=+0(buf):x64[2]";
	struct probe_error error = {NULL};
	struct probe_def *def;

	if (probe_parse(line, &probe_host_names, &def, &error))
		abort();
	kfree(error.command);
	return def;
}

/* An event of make_def()'s, in exactly its size. */
static u8 *make_event(const struct probe_def *def)
{
	static const char path[] = "/etc/nosuch";
	u8 *event = calloc(1, def->size + sizeof(path));
	u32 where = sizeof(path) << 16 | def->size;

	memcpy(event + def->arg[0].offset, &where, sizeof(where));
	event[def->arg[1].offset] = -3;
	event[def->arg[2].offset] = 200;
	memcpy(event + def->size, path, sizeof(path));
	return event;
}

static struct event_filter *parse(const char *text, const struct probe_def *def)
{
	struct event_filter *filter;
	const char *error;
	unsigned column;
	int err = event_filter_parse(text, def, &filter, &error, &column);

	if (!err != !!filter || !err != !error || column > strlen(text) ||
	    (filter && strcmp(event_filter_text(filter), text)))
		abort();
	return filter;
}

static void check(const struct event_filter *filter, const char *text, const struct probe_def *def,
		  const u8 *event)
{
	size_t size = strlen(text) + sizeof("!()");
	char *negated = malloc(size);
	struct event_filter *negation;

	snprintf(negated, size, "!(%s)", text);
	negation = parse(negated, def);
	if (negation && event_filter_match(filter, event) == event_filter_match(negation, event))
		abort();
	kfree(negation);
	free(negated);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static struct probe_def *def;
	static u8 *event;
	char *text = malloc(size + 1);
	struct event_filter *filter;

	def = def ?: make_def();
	event = event ?: make_event(def);
	size -= size && data[size - 1] == '\n'; /* a seed's */
	memcpy(text, data, size);
	text[size] = 0;
	filter = parse(text, def);
	if (filter) {
		accepted++;
		check(filter, text, def, event);
	}
	kfree(filter);
	free(text);
	return 0;
}
