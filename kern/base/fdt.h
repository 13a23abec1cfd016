/*
 * A read-only reader of the flattened device tree (Devicetree Specification
 * 0.4, chapter 5). Every access is bounds-checked against the header's sizes:
 * a broken tree gives -EINVAL, never a fault. The caller has aligned the tree to
 * 8 bytes. A node is an offset into the structure block (0: the root), or a negative errno.
 */
#ifndef BASE_FDT_H
#define BASE_FDT_H

#include "types.h"

#define FDT_MAGIC 0xd00dfeed

int fdt_check(const void *fdt, size_t max_size); /* 0, -EINVAL: magic, version, sizes */
size_t fdt_size(const void *fdt);
int fdt_next_node(const void *fdt, int node, int *depth); /* in order; -ENOENT at the end */
int fdt_parent(const void *fdt, int node);
int fdt_path(const void *fdt, const char *path);          /* also "alias" or "alias:options" */
const char *fdt_name(const void *fdt, int node);
const void *fdt_prop(const void *fdt, int node, const char *name, int *len); /* NULL if none */
int fdt_u32(const void *fdt, int node, const char *name, u32 *value);
/* NULL unless NUL-terminated */
const char *fdt_string(const void *fdt, int node, const char *name);
bool fdt_compatible(const void *fdt, int node, const char *compatible);
bool fdt_available(const void *fdt, int node); /* status absent, "okay" or "ok" */
/* after: -1 to start */
int fdt_find_compatible(const void *fdt, int after, const char *compatible);
/*
 * The first available node that is compatible with one of @names (ends with NULL); earlier names
 * are preferred.
 */
int fdt_find_device(const void *fdt, const char *const *names);
/*
 * The index-th interrupt of @node: its cells, at most 3. Return: the controller's node or -errno.
 */
int fdt_interrupt(const void *fdt, int node, int index, u32 cell[3]);
/*
 * The next node after @node (-1 to start) of a CPU that can run this kernel, and the
 * CPU's id (FDT_NO_HWID: no reg). Only those whose status is okay, and no RISC-V harts
 * without an MMU (no mmu-type, or "riscv,none"). -ENOENT at the end.
 */
#define FDT_NO_HWID (~0ul)
int fdt_next_cpu(const void *fdt, int node, u64 *hwid);
int fdt_by_phandle(const void *fdt, u32 phandle);
/* The index-th (address, size) of reg, translated through every parent's ranges. */
int fdt_reg(const void *fdt, int node, int index, u64 *addr, u64 *size);
/* The index-th entry of the memory reservation block. */
int fdt_reservation(const void *fdt, int index, u64 *addr, u64 *size);
u32 fdt_be32(const void *p);

extern const void *boot_fdt; /* mapped, checked; NULL when there is none */

/*
 * Boot arguments, from /chosen/bootargs: "name" or "name=value". An unknown name, or a
 * value that the handler refuses, is reported on the console and ignored. The handlers run in
 * the shell's thread after the initcalls; those of EARLY_PARAM() before
 * memory_init(), when there is a console and nothing else. A name may have both.
 */
struct param {
	const char *name;
	int (*set)(const char *value); /* value "" when there was no '=' */
	bool early;
};
#define PARAM(n, fn) TABLE_ENTRY(const struct param, param, fn##_param) = {n, fn, false}
#define EARLY_PARAM(n, fn) TABLE_ENTRY(const struct param, param, fn##_param) = {n, fn, true}
void param_parse(const char *bootargs, bool early);

#endif
