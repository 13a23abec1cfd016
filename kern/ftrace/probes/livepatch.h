/*
 * Live patches: functions are replaced while every CPU calls them, and put back.
 *
 *	the call site -> ftrace_caller -> klp_call(): set pc to the new function
 *
 * All patched functions have one op, which may change pc, and a table says which
 * patches a function has (sites.h). The newest enabled patch is used. To disable an older
 * one changes nothing; when the newest one is disabled, the newest of the others is used.
 * Linux has an op for each patched function instead; here an op needs one of 32 stubs.
 *
 * Which of the two functions a call runs is decided once, at its call site:
 * - A call that began in a function finishes in it.
 * - A call that begins after klp_enable_patch() has returned 0 runs the new
 *   function; one that begins after klp_disable_patch() has returned does not.
 * - While one of these two runs, a call may run either function. All functions of a
 *   patch change at one store (patch->enabled): a thread that has called one new
 *   function calls no old one of that patch afterwards, as long as it is enabled. But
 *   a call that began in the old version of one function may call the new version of
 *   another.
 * A call that does not go through the call site (inlined, or a copy that the
 * compiler made) is not replaced. Calls by the tracer's handlers are.
 *
 * When klp_disable_patch() has returned, no new call of the new function begins, but
 * threads may still be inside it. If its memory is a module's, it may be freed when
 * a check of all stacks finds no thread there.
 *
 * Conflicts: a function has at most one op that may change pc. While a patch has the
 * function, registering another such op fails with -EBUSY. While another such op has
 * the function, enabling a patch of it fails with -EBUSY.
 */
#ifndef FTRACE_LIVEPATCH_H
#define FTRACE_LIVEPATCH_H

#include "sites.h"

struct klp_func {
	const char *old_name; /* one of the two; neither: the end of the list */
	unsigned long old_addr;
	void *new_func; /* with the same arguments and result */

	/* Written by livepatch.c only. */
	struct klp_patch *patch;
	struct probe_site site;
};

struct klp_patch {
	struct klp_func *funcs;
	bool enabled; /* written by livepatch.c only; klp_call() reads it */
};

/*
 * Errors: -EINVAL (no functions, no new_func, both or several old functions for a
 * name; disable: not enabled), -ENOENT (no such function with a call site), -EBUSY
 * (enabled already; another op that may change pc has one of the functions),
 * -ENOMEM, -ENOSPC (no stub is free for the op), -ENODEV (tracing was disabled by a bad site).
 * On an error nothing is changed. Context: thread.
 */
int klp_enable_patch(struct klp_patch *patch);
int klp_disable_patch(struct klp_patch *patch);
/*
 * Is the struct klp_func of an enabled patch, or its new function, in [start, end)? Context:
 * thread.
 */
bool klp_within(unsigned long start, unsigned long end);

#endif
