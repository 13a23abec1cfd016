/* The pointers of the tracepoints, and the table of their places in text. */
#include "tracepoint.h"

#if STAGE >= 8
#define TRACEPOINT_VARIABLE(name, ...) void (*tracepoint_##name)(__VA_ARGS__);
TRACEPOINTS(TRACEPOINT_VARIABLE)

notrace bool tracepoint_is_site(unsigned long ip)
{
	TABLE_FOR_EACH(const struct tracepoint_site, tracepoint_site, site)
		if (site->ip == ip)
			return true;
	return false;
}
#endif
