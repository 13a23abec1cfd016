/* rmdir PATH...: remove empty directories, and the tracer's instances. */
#include "app.h"

#define ENOTDIR 20

APP("path ...", "remove empty directories, and the tracer's instances");

static int remove_directory(const char *path)
{
	struct stat st;
	int err = stat(path, &st);

	if (!err && !(st.mode & S_DIR))
		err = -ENOTDIR;
	return err ? err : remove(path);
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc < 2) {
		printf("Usage: rmdir path ...\n");
		return 2;
	}
	for (int i = 1; i < argc; i++) {
		int err = remove_directory(argv[i]);

		if (err)
			status = complain("rmdir", argv[i], err);
	}
	return status;
}
