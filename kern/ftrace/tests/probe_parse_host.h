/* What the parser of probes asks a kernel, for its host test and its fuzzer. */
#ifndef TESTS_PROBE_PARSE_HOST_H
#define TESTS_PROBE_PARSE_HOST_H

#include "probe_parse.h"
#include "string.h"

#ifndef __cplusplus
void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void free(void *p);
#endif
void *kmalloc(size_t size);
void *kzalloc(size_t size);
void kfree(void *p);
const char *ksym_lookup(unsigned long addr, unsigned long *offset, unsigned long *size);
const char *ksym_module(unsigned long addr);

void *kmalloc(size_t size)
{
	return malloc(size);
}
void *kzalloc(size_t size)
{
	return calloc(1, size);
}
void kfree(void *p)
{
	free(p);
}
const char *ksym_lookup(unsigned long addr, unsigned long *offset, unsigned long *size)
{
	return NULL;
}
const char *ksym_module(unsigned long addr)
{
	return NULL;
}

static unsigned host_functions(const char *name, unsigned long *addr)
{
	static const char *const names[] = {"vfs_read", "plain", "structs", "part.isra.0",
					    "nothing",	"twice", "twice",   "large",
					    "variadic", "many"};
	unsigned count = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(names[i], name)) {
			*addr = 0x1000 * (i + 1);
			count++;
		}
	return count;
}

static const char *host_parameters(unsigned long func)
{
	static const char *const functions[] = {"",
						"3lpfile,pbuf,Lcount,",
						"",
						"3SSpair,b8low,",
						"4??a,?gone,B2more,",
						"0v",
						"",
						"",
						"4mi1k,m,Q4wide,",
						"2Biformat,inumber,",
						"8sia,ib,ic,id,ie,if,ig,ih,hi,eempty,lj,"};

	return func / 0x1000 < ARRAY_SIZE(functions) ? functions[func / 0x1000] : "";
}

/* x8 is not saved at a return, and x9 only in a body. */
static int host_register(const char *name, enum probe_place place)
{
	if ((place == PROBE_AT_RETURN && !strcmp(name, "x8")) ||
	    (place != PROBE_IN_BODY && !strcmp(name, "x9")))
		return -1;
	return name[0] == 'x' && name[1] >= '0' && name[1] <= '9' && !name[2] ? name[1] - '0' : -1;
}

static const struct probe_names probe_host_names = {host_functions, host_parameters, host_register};

#endif
