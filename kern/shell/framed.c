/*
 * Commands for a program that types here over a serial line that may lose, double or change bytes.
 *
 *	ask NUMBER CRC "COMMAND"	Run the command, and keep what is printed meanwhile. It does
 *					not run if the CRC is not that of "NUMBER COMMAND", nor if
 *					the number is not the last one's plus 1.
 *	lines FIRST COUNT [FILE]	Print these lines of the file, or of what the last command
 *					printed, as frames.
 *
 *	text				Print the CRC of each KiB of the kernel's text, as it is in
 *					memory now.
 *
 * A frame is a line: a kind, the number of the last command, an index, a CRC and a text, as in ":7
 * 0 1a2b3c4d some text". The CRC is that of ":7 0 some text". Kinds: ':' a whole line; '+' a part
 * of one, which goes on in the next frame; '.' the end, whose index is the number of frames before
 * it, and whose text is "cut" if more was printed than is kept. The CRC is zlib's crc32.
 */
#include "errno.h"
#include "job.h"
#include "memory.h"
#include "print.h"
#include "string.h"

#define KEPT 65536
#define TEXT_BLOCK 1024
#define TEXT_MAX 160 /* a short frame is seldom damaged */

static char *kept; /* KEPT bytes, from the first command on */
static size_t kept_len;
static u64 number; /* the last command's; the first has 1 */

static u32 crc32(u32 crc, const char *s, size_t n)
{
	crc = ~crc;
	while (n--) {
		crc ^= (u8)*s++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

static int ask_main(int argc, char **argv)
{
	u64 asked, crc;
	u32 sum;

	if (argc != 4 || kstrtou64(argv[1], 10, &asked) || kstrtou64(argv[2], 16, &crc))
		return shell_usage("ask number crc \"command\"");
	sum = crc32(crc32(crc32(0, argv[1], strlen(argv[1])), " ", 1), argv[3], strlen(argv[3]));
	if (sum != crc) {
		printk("ask: the command's CRC is %08x; it was not run.\n", sum);
		return 1;
	}
	if (asked != number + 1) {
		printk("ask: the last command's number is %lu; this one was not run.\n",
		       (unsigned long)number);
		return 1;
	}
	if (!kept && !(kept = kmalloc(KEPT)))
		return complain("ask", argv[3], ENOMEM);
	number = asked;
	console_keep(kept, KEPT);
	shell_run_line(argv[3]);
	kept_len = console_keep(NULL, 0);
	return 0;
}
SHELL_COMMAND("ask", ask_main, "number crc \"..\"",
	      "for a program on an unreliable serial line: run a command once and keep its output",
	      .alone = true);

/* A source of text: a file, or what was kept. */
struct text {
	struct file *file;
	char buf[512];
	size_t len, at;
	size_t kept_at;
};

static int next_byte(struct text *t)
{
	if (!t->file)
		return t->kept_at < MIN(kept_len, (size_t)KEPT) ? (u8)kept[t->kept_at++] : -1;
	if (t->at == t->len) {
		ssize_t n = file_read(t->file, t->buf, sizeof(t->buf));

		t->len = n > 0 ? n : 0;
		t->at = 0;
	}
	return t->at < t->len ? (u8)t->buf[t->at++] : -1;
}

static bool send_frame(char kind, u64 index, const char *text, size_t n)
{
	char frame[TEXT_MAX + 64], *end = frame;
	u32 crc;

	end += scnprintf(frame, 64, "%c%lu %lu ", kind, (unsigned long)number,
			 (unsigned long)index);
	crc = crc32(crc32(0, frame, end - frame), text, n);
	end += scnprintf(end, 16, "%08x ", crc);
	memcpy(end, text, n);
	end[n] = '\n';
	return out_write(frame, end + n + 1 - frame) < 0;
}

static int send_frames(struct text *t, u64 first, u64 count)
{
	char text[TEXT_MAX];
	u64 index = 0;
	int c = 0;

	for (; !interrupted(); index++) {
		int n = 0;

		while (n < TEXT_MAX && (c = next_byte(t)) >= 0 && c != '\n')
			text[n++] = c;
		if (!n && c < 0)
			return send_frame('.', index, "cut", !t->file && kept_len > KEPT ? 3 : 0);
		if (index - first < count)
			send_frame(n < TEXT_MAX && c == '\n' ? ':' : '+', index, text, n);
		else if (index >= first)
			break;
	}
	return 0;
}

static int lines_main(int argc, char **argv)
{
	static struct text t; /* only the shell's own thread runs this */
	u64 first, count;
	int err = 0, status;

	if (argc < 3 || argc > 4 || kstrtou64(argv[1], 10, &first) ||
	    kstrtou64(argv[2], 10, &count))
		return shell_usage("lines first count [file]");
	memset(&t, 0, sizeof(t));
	if (argc == 4)
		err = file_open(shell_cwd(), argv[3], O_RDONLY, &t.file);
	if (err)
		return complain("lines", argv[3], err);
	status = send_frames(&t, first, count);
	if (t.file)
		file_close(t.file);
	return status;
}
SHELL_COMMAND("lines", lines_main, "first count [file]",
	      "the same: lines of a file, or of what was kept, each with a CRC", .alone = true);

static int text_main(int argc, char **argv)
{
	for (const char *p = _text; p < _etext; p += TEXT_BLOCK)
		out_printf("%08x\n", crc32(0, p, MIN(TEXT_BLOCK, _etext - p)));
	return 0;
}
SHELL_COMMAND("text", text_main, "", "the same: a CRC for each KiB of the kernel's text");
