// needs: kern/ftrace/events/probe_parse.c kern/base/string.c kern/base/print.c -DKERNEL_NAMES
// needs: -Ikern/ftrace/tests/host -Ikern/tests -include kern/tests/host.h -Wno-pointer-sign
// seeds: probes
/*
 * libFuzzer's target for the parser of probes: any text; it begins with the lines of the parser's
 * test. The sanitizers find an access outside of the line, or outside of the objects that are made
 * from it.
 */
#include "probe_parse_host.h"

#include "print.h"

void abort(void);
int dprintf(int fd, const char *fmt, ...);
int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

static unsigned long accepted;

/* A fuzzer whose lines are all refused tests little: make fuzz checks this number. */
static __attribute__((destructor)) void report(void)
{
	dprintf(2, "stat::linked: %lu\n", accepted);
}

static void check(const struct probe_def *def)
{
	u32 size = def->is_return ? 24 : 16;
	char text[200];

	accepted++;
	for (u32 i = 0; i < def->arg_count; i++) {
		const struct probe_arg *arg = &def->arg[i];

		if (arg->offset != size || arg->derefs > PROBE_DEREFS_MAX ||
		    arg->count > PROBE_ARRAY_MAX || arg->width + arg->shift > 8 * arg->type->size ||
		    !probe_good_name(arg->name, '_'))
			abort();
		size += arg->type->size * MAX(arg->count, 1);
	}
	if (size != def->size || def->arg_count > PROBE_ARGS_MAX ||
	    !probe_good_name(def->event, '_') || !probe_good_name(def->group, '-'))
		abort();
	probe_describe(text, sizeof(text), def);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	char *line = malloc(size + 1);
	struct probe_error error = {0};
	struct probe_def *def;
	int err;

	memcpy(line, data, size);
	line[size] = 0;
	err = probe_parse(line, &probe_host_names, &def, &error);
	if (!err != !!def || (error.text && (!err || error.column > strlen(error.command) + 1)))
		abort();
	if (def)
		check(def);
	kfree(def);
	kfree(error.command);
	free(line);
	return 0;
}
