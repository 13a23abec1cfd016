/* rm PATH...: remove files and empty directories. */
#include "app.h"

const char *const program_help[] = {"path ...", "remove files and empty directories"};

int main(int argc, char **argv)
{
	int status = 0;

	if (argc < 2) {
		printf("Usage: rm path ...\n");
		return 2;
	}
	for (int i = 1; i < argc; i++) {
		int err = remove(argv[i]);

		if (err)
			status = complain("rm", argv[i], err);
	}
	return status;
}
