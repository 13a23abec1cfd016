/*
 * The initrd: a cpio archive in the newc format. Files are not copied: their
 * nodes point into the archive.
 *
 *	| 110 bytes of header | name, NUL | pad to 4 | data | pad to 4 | header ...
 *
 * The header is "070701" and thirteen numbers of eight hexadecimal digits.
 */
#include "errno.h"
#include "file.h"
#include "print.h"
#include "string.h"

#define HEADER_SIZE 110
enum { MODE = 1, FILE_SIZE = 6, NAME_SIZE = 11, FIELDS = 13 };

#define MODE_TYPE 0170000
#define MODE_DIR  0040000
#define MODE_FILE 0100000

struct entry {
	const char *name; /* ends with NUL, inside the archive */
	const u8 *data;
	u32 mode;
	size_t size;
};

static bool hex_field(const u8 *p, u32 *value)
{
	*value = 0;
	for (int i = 0; i < 8; i++) {
		u8 c = p[i];

		if (c >= '0' && c <= '9')
			c -= '0';
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			c = (c | 0x20) - 'a' + 10;
		else
			return false;
		*value = *value << 4 | c;
	}
	return true;
}

/*
 * Read the entry at *@pos and move *@pos past it. Return: NULL, or the error as text.
 */
static const char *read_entry(const u8 *archive, size_t size, size_t *pos, struct entry *e)
{
	const u8 *header = archive + *pos;
	u32 field[FIELDS];
	size_t left = size - *pos, data;

	if (left < HEADER_SIZE)
		return "cut short inside a header";
	if (memcmp(header, "070701", 6) && memcmp(header, "070702", 6))
		return "not a cpio archive (newc) here";
	for (int i = 0; i < FIELDS; i++)
		if (!hex_field(header + 6 + 8 * i, &field[i]))
			return "a header field is not hexadecimal";
	data = ALIGN_UP(HEADER_SIZE + (size_t)field[NAME_SIZE], 4);
	if (!field[NAME_SIZE] || data > left || header[HEADER_SIZE + field[NAME_SIZE] - 1])
		return "cut short inside a name";
	if (field[FILE_SIZE] > left - data)
		return "cut short inside a file";
	*e = (struct entry){(const char *)header + HEADER_SIZE, header + data, field[MODE],
			    field[FILE_SIZE]};
	*pos = MIN(*pos + ALIGN_UP(data + e->size, 4), size);
	return NULL;
}

static int make_node(const struct entry *e)
{
	char path[256] = "/";
	u32 type = e->mode & MODE_TYPE;
	const char *name = strncmp(e->name, "./", 2) ? e->name : e->name + 2;
	struct node *n;

	if (!*name || strcmp(name, ".") == 0)
		return 0;
	if (type != MODE_FILE && type != MODE_DIR)
		return -EOPNOTSUPP;
	if (strlcpy(path + 1, name, sizeof(path) - 1) >= sizeof(path) - 1)
		return -ENAMETOOLONG;
	n = file_make(path, (e->mode & 07777) | (type == MODE_DIR ? S_DIR : 0), NULL, NULL);
	if (!n)
		return -ENOMEM;
	if (type == MODE_FILE) {
		n->data = (void *)e->data;
		n->size = e->size;
	}
	return 0;
}

int cpio_unpack(const void *archive, size_t size)
{
	struct entry e;

	for (size_t pos = 0; pos < size;) {
		size_t at = pos;
		const char *wrong = read_entry(archive, size, &pos, &e);

		if (wrong) {
			printk("initrd: %s, at byte %zu of %zu; the files before it are kept\n",
			       wrong, at, size);
			return -EINVAL;
		}
		if (strcmp(e.name, "TRAILER!!!") == 0)
			return 0;
		int err = make_node(&e);

		if (err)
			printk("initrd: '%s' is skipped, error %d\n", e.name, err);
	}
	printk("initrd: the trailer is missing; all %zu bytes were read\n", size);
	return -EINVAL;
}
