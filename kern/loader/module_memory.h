/*
 * Memory for modules: physical pages out of module_ram (kern/mm/memory.h), and
 * virtual addresses between the kernel's image and KERNEL_BASE + 1 GiB.
 *
 * Order: module_memory_alloc(); the loader writes the module; module_memory_protect();
 * ksym_add(); the module runs; ksym_remove(); module_memory_free(). At no moment is a
 * page of a module writable and executable, at any of its addresses. (In a batch of
 * patches the alias of text is writable on the batch's CPU: text_alias_open().)
 *
 * Context of all: thread, interrupts on, module_lock held.
 */
#ifndef LOADER_MODULE_MEMORY_H
#define LOADER_MODULE_MEMORY_H

#include "module.h"

/*
 * Give @m pages for regions of @size[] bytes, one region after the other, each from a
 * page boundary on: zeroed, readable and writable, not executable. Sets m->base and
 * m->end[]. @at is one of:
 *	MODULE_NEAR	the lowest free addresses after the image. A call from any byte
 *			of text reaches every stub of the tracer.
 *	MODULE_FAR	the lowest free addresses that are out of reach of such a call
 *	an address	of a page
 * Return: 0, or after one printed message: -ENOMEM (no pages, no page table, or no
 * room that is near), -EINVAL (@at is misaligned or outside), -EEXIST (@at is taken).
 */
int module_memory_alloc(struct module *m, const size_t size[MODULE_REGIONS], unsigned long at);

/*
 * The module is written. (1) Clean its text out of the data caches; (2) text becomes
 * R-X, with an entry in the text alias's tables, and rodata R--; (3) every CPU executes
 * the new words. Return: 0; -ENOMEM after a message: the module can only be freed.
 */
int module_memory_protect(struct module *m);

/*
 * Take back the pages: (1) remove the alias and the mappings, on every CPU; (2) the
 * pages are free. No CPU may execute the text or use an address in it any more. Does
 * nothing for a module without pages (all zero, or freed). Page tables are kept: at
 * most one for each 2 MiB of address space, and as many for the alias.
 */
void module_memory_free(struct module *m);

unsigned module_pages_free(void);

#endif
