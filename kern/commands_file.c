/* The shell's own commands, those about files. */
#include "errno.h"
#include "print.h"
#include "shell.h"
#include "string.h"

#define CHUNK 4096

static int usage(const char *text)
{
	printk("Usage: %s\n", text);
	return 2;
}

static int pwd_main(int argc, char **argv)
{
	char path[512];

	file_path(shell_cwd(), path, sizeof(path));
	return out_printf("%s\n", path) < 0;
}
SHELL_COMMAND("pwd", pwd_main, "", "the directory we stand in");

static int cd_main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/";
	struct node *n = file_lookup(shell_cwd(), path);

	if (!n || !(n->mode & S_DIR))
		return shell_error("cd", path, n ? ENOTDIR : ENOENT);
	current->cwd = n;
	return 0;
}
SHELL_COMMAND("cd", cd_main, "[directory]", "stand in another directory; without one, in /");

static void ls_line(const struct node *n, bool longer)
{
	static const char letters[] = "rwxrwxrwx";
	char mode[11] = "-";

	if (!longer) {
		out_printf("%s%s\n", n->name, n->mode & S_DIR ? "/" : "");
		return;
	}
	mode[0] = n->mode & S_DIR ? 'd' : '-';
	for (int i = 0; i < 9; i++)
		mode[1 + i] = n->mode >> (8 - i) & 1 ? letters[i] : '-';
	out_printf("%s %9lu %s%s\n", mode, (unsigned long)n->size, n->name,
		   n->mode & S_DIR ? "/" : "");
}

static int ls_path(const char *path, bool longer)
{
	struct file *f;
	struct node n;
	char name[256];
	int err = file_open(shell_cwd(), path, O_RDONLY, &f);

	if (err == -ENOENT || err == -ENOTDIR || err == -ENAMETOOLONG)
		return shell_error("ls", path, err);
	if (err || !(f->node->mode & S_DIR)) {
		struct node *file = file_lookup(shell_cwd(), path);

		if (!err)
			file_close(f);
		if (file)
			ls_line(file, longer);
		return 0;
	}
	for (unsigned i = 0; !file_entry(f, i, &n, name, sizeof(name)) && !interrupted(); i++)
		ls_line(&n, longer);
	file_close(f);
	return 0;
}

static int ls_main(int argc, char **argv)
{
	bool longer = argc > 1 && !strcmp(argv[1], "-l");
	int status = 0;

	if (argc - longer == 1)
		return ls_path(".", longer);
	for (int i = 1 + longer; i < argc; i++)
		status |= ls_path(argv[i], longer);
	return status;
}
SHELL_COMMAND("ls", ls_main, "[-l] [path ...]", "list directories");

/*
 * Give @fn each chunk of a file until it ends, fails or is interrupted.
 * fn returns 0 to go on. Return: exit status.
 */
static int each_chunk(const char *command, const char *path, int flags,
		      int (*fn)(void *arg, const char *buf, size_t n), void *arg)
{
	struct file *f;
	char *buf = kmalloc(CHUNK);
	int err = buf ? file_open(shell_cwd(), path, O_RDONLY | flags, &f) : -ENOMEM;
	ssize_t n = 0;

	if (err) {
		kfree(buf);
		return shell_error(command, path, err);
	}
	while (!interrupted()) {
		n = file_read(f, buf, CHUNK);
		if (n <= 0 || fn(arg, buf, n))
			break;
	}
	err = file_close(f);
	kfree(buf);
	if (n < 0 && !interrupted() && !(n == -EAGAIN && flags & O_NONBLOCK))
		return shell_error(command, path, n);
	return err ? shell_error(command, path, err) : 0;
}

static int cat_chunk(void *arg, const char *buf, size_t n)
{
	return out_write(buf, n) < 0;
}

static int cat_main(int argc, char **argv)
{
	int status = 0;

	if (argc < 2)
		return usage("cat file ...");
	for (int i = 1; i < argc && !interrupted(); i++)
		status |= each_chunk("cat", argv[i], 0, cat_chunk, NULL);
	return status;
}
SHELL_COMMAND("cat", cat_main, "file ...", "copy files to the output");

/* All words in one write: special files parse what one write carries. */
static int echo_main(int argc, char **argv)
{
	int first = argc > 1 && !strcmp(argv[1], "-n") ? 2 : 1;
	size_t size = 2, len = 0;
	char *text;
	ssize_t put;

	for (int i = first; i < argc; i++)
		size += strlen(argv[i]) + 1;
	text = kmalloc(size);
	if (!text)
		return shell_error("echo", "text", ENOMEM);
	for (int i = first; i < argc; i++)
		len += scnprintf(text + len, size - len, "%s%s", i > first ? " " : "", argv[i]);
	if (first == 1)
		text[len++] = '\n';
	put = len ? out_write(text, len) : 0;
	kfree(text);
	return put < 0;
}
SHELL_COMMAND("echo", echo_main, "[-n] word ...", "write words");

/* POSIX cksum: CRC-32 by 0x04c11db7, highest bit first, the length after the data. */
struct cksum {
	u32 crc;
	u64 length;
};

static u32 crc_byte(u32 crc, u8 byte)
{
	crc ^= (u32)byte << 24;
	for (int bit = 0; bit < 8; bit++)
		crc = crc << 1 ^ (crc >> 31 ? 0x04c11db7 : 0);
	return crc;
}

static int cksum_chunk(void *arg, const char *buf, size_t n)
{
	struct cksum *c = arg;

	c->length += n;
	for (size_t i = 0; i < n; i++)
		c->crc = crc_byte(c->crc, buf[i]);
	return 0;
}

static int cksum_main(int argc, char **argv)
{
	int status = 0;

	if (argc < 2)
		return usage("cksum file ...");
	for (int i = 1; i < argc && !interrupted(); i++) {
		struct cksum c = {0};
		int err = each_chunk("cksum", argv[i], 0, cksum_chunk, &c);

		status |= err;
		for (u64 n = c.length; n; n >>= 8)
			c.crc = crc_byte(c.crc, n);
		if (!err && !interrupted())
			out_printf("%u %lu %s\n", ~c.crc, (unsigned long)c.length, argv[i]);
	}
	return status;
}
SHELL_COMMAND("cksum", cksum_main, "file ...", "the checksum and length that cksum prints");

/* RFC 4648, lines of 76. */
struct base64 {
	u8 carry[3];
	unsigned carried, column;
};

static int base64_group(struct base64 *b)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	u32 bits = b->carry[0] << 16 | b->carry[1] << 8 | b->carry[2];
	char out[5];
	int n = 4;

	for (int i = 0; i < 4; i++)
		out[i] = i <= (int)b->carried ? digits[bits >> (18 - 6 * i) & 63] : '=';
	b->column += 4;
	if (b->column == 76) {
		out[n++] = '\n';
		b->column = 0;
	}
	memset(b->carry, 0, sizeof(b->carry));
	b->carried = 0;
	return out_write(out, n) < 0;
}

static int base64_chunk(void *arg, const char *buf, size_t n)
{
	struct base64 *b = arg;

	for (size_t i = 0; i < n; i++) {
		b->carry[b->carried++] = buf[i];
		if (b->carried == 3 && base64_group(b))
			return 1;
	}
	return 0;
}

static int base64_main(int argc, char **argv)
{
	struct base64 b = {0};
	int status;

	if (argc != 2)
		return usage("base64 file");
	status = each_chunk("base64", argv[1], O_NONBLOCK, base64_chunk, &b);
	if (b.carried)
		base64_group(&b);
	if (b.column)
		out_write("\n", 1);
	return status;
}
SHELL_COMMAND("base64", base64_main, "file", "a binary file as text; takes what is there, waits for no more");

static int each_path(int argc, char **argv, int (*fn)(struct node *cwd, const char *path))
{
	int status = 0;

	if (argc < 2)
		return usage("rm path ... | mkdir path ...");
	for (int i = 1; i < argc; i++) {
		int err = fn(shell_cwd(), argv[i]);

		if (err)
			status = shell_error(argv[0], argv[i], err);
	}
	return status;
}

static int rm_main(int argc, char **argv)
{
	return each_path(argc, argv, file_remove);
}
SHELL_COMMAND("rm", rm_main, "path ...", "remove files and empty directories");

static int mkdir_main(int argc, char **argv)
{
	return each_path(argc, argv, file_mkdir);
}
SHELL_COMMAND("mkdir", mkdir_main, "path ...", "make directories");

static int make_tmp(void)
{
	return file_make("/tmp", S_DIR | 0777, NULL, NULL) ? 0 : -ENOMEM;
}
INITCALL(make_tmp);
