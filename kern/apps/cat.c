/* cat [FILE...]: copy files, one after the other, or standard input, to the output. */
#include "lib/text.h"

APP("[file ...]", "copy files to the output");

static int cat(const char *path, void *arg)
{
	char buf[4096];
	bool named = path && strcmp(path, "-");
	int fd = named ? open(path, O_RDONLY) : 0;
	long n = fd;

	while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0)
		if (write(1, buf, n) < 0)
			break; /* the shell prints the error */
	if (fd > 0) {
		int err = close(fd);

		n = n < 0 ? n : err;
	}
	return n < 0 ? complain("cat", named ? path : "input", n) : 0;
}

int main(int argc, char **argv)
{
	return for_each_input(argc, argv, 1, cat, NULL);
}
