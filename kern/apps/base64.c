/*
 * base64 FILE: print a binary file as text (RFC 4648, lines of 76), for a console
 * that carries only text. Of a file like trace_pipe it prints the available data
 * and does not wait for more.
 */
#include "app.h"

#define EAGAIN 11
#define COLUMNS 76

APP("file", "print a binary file as text; does not wait for more data");

struct base64 {
	uint8_t carry[3];
	unsigned carried, column;
};

static int put_group(struct base64 *b)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = b->carry[0] << 16 | b->carry[1] << 8 | b->carry[2];
	char out[5];
	int n = 4;

	for (int i = 0; i < 4; i++)
		out[i] = i <= (int)b->carried ? digits[bits >> (18 - 6 * i) & 63] : '=';
	b->column += 4;
	if (b->column == COLUMNS) {
		out[n++] = '\n';
		b->column = 0;
	}
	memset(b->carry, 0, sizeof(b->carry));
	b->carried = 0;
	return write(1, out, n) < 0;
}

static int put_bytes(struct base64 *b, const uint8_t *bytes, long n)
{
	for (long i = 0; i < n; i++) {
		b->carry[b->carried++] = bytes[i];
		if (b->carried == 3 && put_group(b))
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct base64 b = {0};
	uint8_t buf[4096];
	int fd = argc == 2 ? open(argv[1], O_RDONLY | O_NONBLOCK) : 0;
	long n = fd;

	if (argc != 2) {
		printf("Usage: base64 file\n");
		return 2;
	}
	while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0)
		if (put_bytes(&b, buf, n))
			break;
	if (fd >= 0)
		close(fd);
	if (b.carried)
		put_group(&b);
	if (b.column)
		write(1, "\n", 1);
	return n < 0 && n != -EAGAIN ? complain("base64", argv[1], n) : 0;
}
