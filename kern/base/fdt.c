/*
 * The device tree's reader; fdt.h has the contract. It allocates no memory and
 * trusts no size: token(), the only function that goes through the structure block,
 * returns -EINVAL for a token that is not completely inside it. What it reads is
 * aligned to 4 bytes, as the tree is.
 */
#include "fdt.h"

#include "errno.h"
#include "string.h"

/* Tokens, as a little-endian processor reads them: the tree is big-endian. */
#define TOKEN(n)       ((n) << 24)
#define FDT_BEGIN_NODE TOKEN(1u)
#define FDT_END_NODE   TOKEN(2u)
#define FDT_PROP       TOKEN(3u)
#define FDT_NOP	       TOKEN(4u)
#define FDT_END	       TOKEN(9u)

#define DEPTH_MAX 32

/* Indices of the header's big-endian words. */
enum { MAGIC, TOTAL_SIZE, OFF_STRUCT, OFF_STRINGS, OFF_RESERVED, VERSION, COMPATIBLE_VERSION };
enum { SIZE_STRINGS = 8, SIZE_STRUCT, HEADER_WORDS };

const void *boot_fdt;

u32 fdt_be32(const void *p)
{
	u32 word = *(const u32 *)p;

	return word << 24 | (word & 0xff00) << 8 | (word >> 8 & 0xff00) | word >> 24;
}

static u32 header(const void *fdt, int word)
{
	return fdt_be32((const u8 *)fdt + 4 * word);
}

size_t fdt_size(const void *fdt)
{
	return header(fdt, TOTAL_SIZE);
}

static bool inside(const void *fdt, u32 offset, u32 size, size_t align)
{
	return offset % align == 0 && offset <= fdt_size(fdt) && size <= fdt_size(fdt) - offset;
}

/*
 * The structure block, of which a boot reads some thousand tokens: the header is read once for each
 * node.
 */
struct block {
	const char *at;
	int size;
};

static struct block structure(const void *fdt)
{
	return (struct block){(const char *)fdt + header(fdt, OFF_STRUCT),
			      header(fdt, SIZE_STRUCT)};
}

/* *tag: the token at @off. Return: the next token's offset. */
static inline int token(struct block block, int off, u32 *tag)
{
	int next = off + 4;

	if (off < 0 || off % 4 || off > block.size - 4)
		return -EINVAL;
	*tag = *(const u32 *)(block.at + off);
	if (*tag == FDT_PROP) {
		if (block.size - next < 8 ||
		    fdt_be32(block.at + next) > (u32)(block.size - next - 8))
			return -EINVAL;
		next += 8 + fdt_be32(block.at + next);
	} else if (*tag == FDT_BEGIN_NODE) {
		int len = strnlen(block.at + next, block.size - next);

		if (len == block.size - next)
			return -EINVAL;
		next += len + 1;
	} else if (*tag != FDT_END_NODE && *tag != FDT_NOP && *tag != FDT_END) {
		return -EINVAL;
	}
	return ALIGN_UP(next, 4);
}

static int node_body(const void *fdt, int node)
{
	u32 tag;
	int next = token(structure(fdt), node, &tag);

	return next >= 0 && tag != FDT_BEGIN_NODE ? -EINVAL : next;
}

int fdt_check(const void *fdt, size_t max_size)
{
	if (max_size < 4 * HEADER_WORDS || header(fdt, MAGIC) != FDT_MAGIC)
		return -EINVAL;
	if (fdt_size(fdt) < 4 * HEADER_WORDS || fdt_size(fdt) > MIN(max_size, MiB(1024)))
		return -EINVAL;
	if (header(fdt, VERSION) < 17 || header(fdt, COMPATIBLE_VERSION) > 17)
		return -EINVAL;
	if (!inside(fdt, header(fdt, OFF_STRUCT), header(fdt, SIZE_STRUCT), 4) ||
	    !inside(fdt, header(fdt, OFF_STRINGS), header(fdt, SIZE_STRINGS), 1) ||
	    !inside(fdt, header(fdt, OFF_RESERVED), 16, 8))
		return -EINVAL;
	return node_body(fdt, 0) < 0 ? -EINVAL : 0;
}

int fdt_next_node(const void *fdt, int node, int *depth)
{
	struct block block = structure(fdt);
	u32 tag;
	int off = node < 0 ? 0 : node_body(fdt, node), unused = 0;

	for (depth = depth ?: &unused; off >= 0;) {
		int here = off;

		off = token(block, here, &tag);
		if (off < 0)
			break;
		if (tag == FDT_BEGIN_NODE) {
			++*depth;
			return here;
		}
		if (tag == FDT_END || (tag == FDT_END_NODE && --*depth < 0 && depth != &unused))
			return -ENOENT;
	}
	return off;
}

int fdt_parent(const void *fdt, int node)
{
	int path[DEPTH_MAX], depth = -1;

	for (int n = fdt_next_node(fdt, -1, &depth); n >= 0; n = fdt_next_node(fdt, n, &depth)) {
		if (depth < 0 || depth >= DEPTH_MAX)
			return -EINVAL;
		path[depth] = n;
		if (n == node)
			return depth ? path[depth - 1] : -ENOENT;
	}
	return -EINVAL;
}

const char *fdt_name(const void *fdt, int node)
{
	if (node_body(fdt, node) < 0)
		return NULL;
	return (const char *)fdt + header(fdt, OFF_STRUCT) + node + 4;
}

/* "memory" also matches memory@80000000. */
static bool name_matches(const char *name, const char *want, size_t len)
{
	if (strncmp(name, want, len))
		return false;
	return name[len] == '\0' || (name[len] == '@' && !memchr(want, '@', len));
}

static int child(const void *fdt, int node, const char *name, size_t len)
{
	int depth = 0;

	for (int n = fdt_next_node(fdt, node, &depth); n >= 0 && depth > 0;
	     n = fdt_next_node(fdt, n, &depth))
		if (depth == 1 && name_matches(fdt_name(fdt, n), name, len))
			return n;
	return -ENOENT;
}

static size_t component(const char *path)
{
	size_t len = 0;

	while (path[len] && path[len] != '/' && path[len] != ':')
		len++;
	return len;
}

static int walk_path(const void *fdt, int node, const char *path)
{
	while (node >= 0) {
		while (*path == '/')
			path++;
		size_t len = component(path);

		if (!len)
			return node;
		node = child(fdt, node, path, len);
		path += len;
	}
	return node;
}

int fdt_path(const void *fdt, const char *path)
{
	char alias[64];
	size_t len = component(path);

	if (*path == '/')
		return walk_path(fdt, 0, path);
	if (!len || len >= sizeof(alias))
		return -ENOENT;
	memcpy(alias, path, len);
	alias[len] = '\0';

	int aliases = walk_path(fdt, 0, "/aliases");
	const char *target = aliases < 0 ? NULL : fdt_string(fdt, aliases, alias);

	if (!target || *target != '/')
		return -ENOENT;
	return walk_path(fdt, walk_path(fdt, 0, target), path + len);
}

const void *fdt_prop(const void *fdt, int node, const char *name, int *len)
{
	struct block block = structure(fdt);
	const char *strings = (const char *)fdt + header(fdt, OFF_STRINGS);
	size_t strings_size = header(fdt, SIZE_STRINGS), size = strlen(name) + 1;
	int off = node_body(fdt, node);

	while (off >= 0) {
		u32 tag, at;
		int next = token(block, off, &tag);

		if (next < 0 || (tag != FDT_PROP && tag != FDT_NOP))
			break;
		at = tag == FDT_PROP ? fdt_be32(block.at + off + 8) : ~0u;
		if (at < strings_size && size <= strings_size - at &&
		    !memcmp(strings + at, name, size)) {
			if (len)
				*len = fdt_be32(block.at + off + 4);
			return block.at + off + 12;
		}
		off = next;
	}
	return NULL;
}

int fdt_u32(const void *fdt, int node, const char *name, u32 *value)
{
	int len;
	const void *p = fdt_prop(fdt, node, name, &len);

	if (!p)
		return -ENOENT;
	if (len < 4)
		return -EINVAL;
	*value = fdt_be32(p);
	return 0;
}

const char *fdt_string(const void *fdt, int node, const char *name)
{
	int len;
	const char *p = fdt_prop(fdt, node, name, &len);

	return p && len > 0 && p[len - 1] == '\0' ? p : NULL;
}

/* Is @want one of the strings of a property of @len bytes? */
static bool has_string(const char *p, int len, const char *want)
{
	size_t size = strlen(want) + 1;

	if (!p || len <= 0 || p[len - 1])
		return false;
	for (const char *end = p + len; p < end; p += strlen(p) + 1)
		if (size <= end - p && memcmp(p, want, size) == 0)
			return true;
	return false;
}

bool fdt_compatible(const void *fdt, int node, const char *compatible)
{
	int len = 0;
	const char *p = fdt_prop(fdt, node, "compatible", &len);

	return has_string(p, len, compatible);
}

bool fdt_available(const void *fdt, int node)
{
	const char *status = fdt_string(fdt, node, "status");

	if (!status)
		return fdt_prop(fdt, node, "status", NULL) == NULL;
	return strcmp(status, "okay") == 0 || strcmp(status, "ok") == 0;
}

int fdt_find_compatible(const void *fdt, int after, const char *compatible)
{
	int n = fdt_next_node(fdt, after, NULL);

	while (n >= 0 && !fdt_compatible(fdt, n, compatible))
		n = fdt_next_node(fdt, n, NULL);
	return n;
}

int fdt_find_device(const void *fdt, const char *const *names)
{
	int found = -ENOENT, best = 0;

	while (names[best])
		best++;
	for (int n = fdt_next_node(fdt, -1, NULL); n >= 0 && best;
	     n = fdt_next_node(fdt, n, NULL)) {
		int i = 0, len = 0;
		const char *p = fdt_prop(fdt, n, "compatible", &len);

		while (i < best && !has_string(p, len, names[i]))
			i++;
		if (i < best && fdt_available(fdt, n)) {
			best = i;
			found = n;
		}
	}
	return found;
}

int fdt_by_phandle(const void *fdt, u32 phandle)
{
	u32 value;

	for (int n = fdt_next_node(fdt, -1, NULL); n >= 0; n = fdt_next_node(fdt, n, NULL))
		if ((fdt_u32(fdt, n, "phandle", &value) == 0 ||
		     fdt_u32(fdt, n, "linux,phandle", &value) == 0) &&
		    value == phandle)
			return n;
	return -ENOENT;
}

static u64 cells(const u8 *p, int count)
{
	return count == 2 ? (u64)fdt_be32(p) << 32 | fdt_be32(p + 4) : count ? fdt_be32(p) : 0;
}

/*
 * The numbers of cells in the reg of @node's children; only up to two cells (64 bits) are
 * supported.
 */
static int cell_counts(const void *fdt, int node, u32 *address, u32 *size)
{
	*address = 2;
	*size = 1;
	fdt_u32(fdt, node, "#address-cells", address);
	fdt_u32(fdt, node, "#size-cells", size);
	return *address >= 1 && *address <= 2 && *size <= 2 ? 0 : -EINVAL;
}

/* Translate *addr from the address space of @bus's children to that of @bus. */
static int translate(const void *fdt, int bus, u64 *addr)
{
	int len, parent = fdt_parent(fdt, bus);
	const u8 *p = fdt_prop(fdt, bus, "ranges", &len);
	u32 ac, sc, parent_ac, unused;

	if (!p || parent < 0 || cell_counts(fdt, bus, &ac, &sc) ||
	    cell_counts(fdt, parent, &parent_ac, &unused))
		return -EINVAL;
	if (!len)
		return 0;
	for (int entry = 4 * (ac + parent_ac + sc); len >= entry; len -= entry, p += entry) {
		u64 from = cells(p, ac), to = cells(p + 4 * ac, parent_ac);
		u64 size = cells(p + 4 * (ac + parent_ac), sc);

		if (*addr >= from && *addr - from < size) {
			*addr = *addr - from + to;
			return 0;
		}
	}
	return -EINVAL;
}

int fdt_reg(const void *fdt, int node, int index, u64 *addr, u64 *size)
{
	int len, bus = fdt_parent(fdt, node), err = 0;
	const u8 *reg = fdt_prop(fdt, node, "reg", &len);
	u32 ac, sc;

	if (!reg || bus < 0)
		return -ENOENT;
	if (cell_counts(fdt, bus, &ac, &sc))
		return -EINVAL;
	if (index < 0 || index >= len / (int)(4 * (ac + sc)))
		return -ENOENT;
	reg += index * 4 * (ac + sc);
	*addr = cells(reg, ac);
	*size = cells(reg + 4 * ac, sc);
	/* Without a size, reg is a number (of a CPU), not an address. */
	for (; sc && bus > 0 && !err; bus = fdt_parent(fdt, bus))
		err = translate(fdt, bus, addr);
	return err;
}

/* The controller of `interrupts` is named by the node, or by the nearest parent that names one. */
static int interrupt_parent(const void *fdt, int node)
{
	u32 phandle;

	while (node >= 0 && fdt_u32(fdt, node, "interrupt-parent", &phandle))
		node = fdt_parent(fdt, node);
	return node < 0 ? -ENOENT : fdt_by_phandle(fdt, phandle);
}

/* Of interrupts-extended, whose entries may have different lengths, only the first is read. */
int fdt_interrupt(const void *fdt, int node, int index, u32 cell[3])
{
	int len, controller;
	const u8 *p = fdt_prop(fdt, node, "interrupts-extended", &len);
	u32 count;

	if (p) {
		controller = len < 4 || index ? -EINVAL : fdt_by_phandle(fdt, fdt_be32(p));
		p += 4;
		len -= 4;
	} else {
		p = fdt_prop(fdt, node, "interrupts", &len);
		controller = p ? interrupt_parent(fdt, node) : -ENOENT;
	}
	if (controller < 0)
		return controller;
	if (fdt_u32(fdt, controller, "#interrupt-cells", &count) || !count || count > 3 ||
	    index < 0 || index >= len / 4 / (int)count)
		return -EINVAL;
	for (u32 i = 0; i < 3; i++)
		cell[i] = i < count ? fdt_be32(p + 4 * (index * count + i)) : 0;
	return controller;
}

static bool runs_this_kernel(const void *fdt, int node)
{
	const char *type = fdt_string(fdt, node, "device_type");
	const char *mmu = fdt_string(fdt, node, "mmu-type");

	if (!type || strcmp(type, "cpu") || !fdt_available(fdt, node))
		return false;
	if (mmu)
		return strcmp(mmu, "riscv,none") != 0;
	return !fdt_prop(fdt, node, "riscv,isa", NULL) &&
	       !fdt_prop(fdt, node, "riscv,isa-base", NULL);
}

int fdt_next_cpu(const void *fdt, int node, u64 *hwid)
{
	u64 unused;

	do
		node = fdt_next_node(fdt, node, NULL);
	while (node >= 0 && !runs_this_kernel(fdt, node));
	if (node >= 0 && fdt_reg(fdt, node, 0, hwid, &unused))
		*hwid = FDT_NO_HWID;
	return node;
}

int fdt_reservation(const void *fdt, int index, u64 *addr, u64 *size)
{
	u32 offset = header(fdt, OFF_RESERVED);

	if (index < 0 || (u64)index * 16 + 16 > fdt_size(fdt) - offset)
		return -ENOENT;

	const u8 *p = (const u8 *)fdt + offset + 16 * (u32)index;

	*addr = cells(p, 2);
	*size = cells(p + 8, 2);
	return *addr || *size ? 0 : -ENOENT;
}
