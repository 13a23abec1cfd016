/* rm PATH...: remove files. */
#include "app.h"

#define EISDIR 21

APP("path ...", "remove files");

static int remove_file(const char *path)
{
	struct stat st;
	int err = stat(path, &st);

	if (!err && st.mode & S_DIR)
		err = -EISDIR;
	return err ? err : remove(path);
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc < 2) {
		printf("Usage: rm path ...\n");
		return 2;
	}
	for (int i = 1; i < argc; i++) {
		int err = remove_file(argv[i]);

		if (err)
			status = complain("rm", argv[i], err);
	}
	return status;
}
