/*
 * What the tracer does for modules: their call sites are added when a module is
 * loaded, and removed when it is removed.
 *
 * The loader calls, in this order:
 *	prepare		text is still writable: records, trampolines
 *	enable		the call sites are published; registered ops trace them from now on
 *	release		no op traces them any more, and no filter has them
 *
 * A module whose text is out of reach of the kernel's stubs has a trampoline for each
 * stub, in its own text. A call site calls a trampoline, and the trampoline jumps to the
 * stub:
 *
 *	site: jal t0 / bl  ->  trampoline n: auipc, jalr / adrp, add, br  ->  ftrace_stub_n
 *
 * Before such a site is written, the tracer decodes its call and the trampoline that it
 * leads to: the trampoline must jump to the stub that the record says (FTRACE_FL_FOLLOW).
 * Trampolines are text of the tracer: a thread in one is not preempted (in_tracer()). For
 * that the loader lists them in the module's struct ksym_table, from before enable until
 * release has returned.
 */

/*
 * The folder modules/ (from lab 7 on). module_records.h says which of its files does
 * what for call sites. ftrace_exports.c has what modules may use of the tracer.
 * <arch>/trampoline.c implements trampoline.h.
 *
 * The loader (kern/loader/) calls the functions of this header. This room may use all
 * others except events/, which comes after it; it uses no probe.
 *
 * What the other rooms know of modules:
 * - core/: struct ftrace_table, ftrace_removals; FTRACE_HASH_GONE and the list of hashes
 *   (hash.h)
 * - filters/: ":mod:" in filters (mod_filter.c)
 * - graph/: ftrace_graph_new_table(), fgraph_user_within()
 * - trace/: profile_forget_modules()
 * - probes/ and events/: kern/module.h. A function of a module that is about to be
 *   removed gets no probe (module_is_going()); events/ is told of each module that is
 *   loaded or removed (MODULE_HOOK).
 */
#ifndef FTRACE_MODULE_H
#define FTRACE_MODULE_H

#include "module.h"

/* Bytes of a module's text to reserve for trampolines, 4-byte aligned, after its last function. */
size_t ftrace_module_room(void);

/*
 * @entries: the module's __patchable_function_entries, @count of them. @room: the address in text
 * of ftrace_module_room() bytes. Makes m->sites (NULL: @count is 0), and writes into text without
 * the text alias: arm64's `mov x9, x30`, and the trampolines at @room if they are needed. Before:
 * m->base and m->end[] are set, and text is relocated, writable, and executed by no CPU. After: the
 * loader makes text read-only and synchronises the instruction caches. An entry that is faulty
 * (misaligned, outside of text, listed twice, overlapping another one, without the nops that the
 * compiler leaves there, out of reach) gets no record, and nothing is written for it (of an entry
 * that is listed twice, the first one counts); the first 16 faulty entries are printed. Return: 0;
 * -ENOMEM after a message. Context: thread.
 */
int ftrace_module_prepare(struct module *m, const unsigned long *entries, u32 count,
			  unsigned long room);

/*
 * Publish the call sites. From now on each registered op and each user of
 * function_graph traces those that it selects. Requests for this module (":mod:") are
 * carried out, so filters that have one select its functions, too. Context: thread,
 * without ftrace_lock, before the module's first function is called; its symbols are
 * known (ksym_add()).
 */
void ftrace_module_enable(struct module *m);

/*
 * Undo prepare and enable, or prepare alone, or nothing. When it returns:
 * 1. the call sites are nops, and no CPU is in a callback or trampoline for one of them;
 * 2. no record, trampoline or table of the module can be found;
 * 3. all filters have lost its functions, those of ops that are not registered too.
 * A filter that had only such functions selects none then, and not every function.
 * m->sites is NULL. Context: thread, without ftrace_lock.
 */
void ftrace_module_release(struct module *m);

/*
 * Does an op that may change pc (a live patch's, for example) trace a function of @m? Context:
 * thread, without ftrace_lock.
 */
bool ftrace_module_replaced(const struct module *m);

/*
 * Is an op or a user of function_graph registered that lies in @m, or whose handlers do? Context:
 * thread, without ftrace_lock.
 */
bool ftrace_module_registered(const struct module *m);

/*
 * Will a thread return to [start, end) or out of it? It will if a shadow frame's
 * return address or function is there. Context: all other CPUs are stopped.
 */
bool ftrace_returns_through(unsigned long start, unsigned long end);

#endif
