/* Shared by the tests inside the kernel; see kt.h. */
#include "kt.h"
#include "file.h"
#include "memory.h"
#include "print.h"
#include "ring_buffer.h"
#include "string.h"
#include "tracefs.h"

unsigned kt_passed, kt_failed;

void kt_begin(void)
{
	kt_passed = kt_failed = 0;
}

int kt_end(void)
{
	out_printf("%u passed, %u failed\n", kt_passed, kt_failed);
	return kt_failed != 0;
}

bool kt_promise(bool kept, const char *fmt, ...)
{
	char text[160];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	*(kept ? &kt_passed : &kt_failed) += 1;
	out_printf("%s %s\n", kept ? "ok    " : "FAILED", text);
	return kept;
}

int kt_echo(const char *text, const char *file, bool append)
{
	char path[96];
	struct file *f;
	int err, close_err;

	snprintf(path, sizeof(path), TRACEFS "%s", file);
	err = file_open(file_root(), path, O_WRONLY | (append ? O_APPEND : O_TRUNC), &f);
	if (err)
		return err;
	err = file_write(f, text, strlen(text));
	close_err = file_close(f);
	return err < 0 ? err : close_err;
}

u64 kt_events(struct ring_buffer_cpu *rb)
{
	struct rb_page *copy = page_alloc(0);
	struct rb_event ev;
	struct rb_iter it;
	u64 n = 0;

	rb_iter_start(&it, rb, copy);
	for (; rb_iter_peek(&it, &ev); rb_iter_next(&it))
		n++;
	page_free(copy, 0);
	return n;
}

notrace u64 kt_text_hash(void)
{
	u64 hash = 0xcbf29ce484222325;

	for (unsigned long at = (unsigned long)_text; at < (unsigned long)_etext; at += 4)
		hash = (hash ^ *(const u32 *)at) * 0x100000001b3;
	return hash;
}

static int text_hash_command(int argc, char **argv)
{
	out_printf("text %016lx\n", kt_text_hash());
	return 0;
}
SHELL_COMMAND("kt_text", text_hash_command, "", "hash of all instructions");
