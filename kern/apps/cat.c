/* cat FILE...: copy files, one after the other, to the output. */
#include "app.h"

APP("file ...", "copy files to the output");

static int cat(const char *path)
{
	char buf[4096];
	int fd = open(path, O_RDONLY);
	long n = fd;

	while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0)
		if (write(1, buf, n) < 0)
			break; /* the shell prints the error */
	if (fd >= 0) {
		int err = close(fd);

		n = n < 0 ? n : err;
	}
	return n < 0 ? complain("cat", path, n) : 0;
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc < 2) {
		printf("Usage: cat file ...\n");
		return 2;
	}
	for (int i = 1; i < argc; i++)
		status |= cat(argv[i]);
	return status;
}
