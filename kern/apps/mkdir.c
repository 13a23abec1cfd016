/* mkdir PATH...: make directories. */
#include "app.h"

APP("path ...", "make directories");

int main(int argc, char **argv)
{
	int status = 0;

	if (argc < 2) {
		printf("Usage: mkdir path ...\n");
		return 2;
	}
	for (int i = 1; i < argc; i++) {
		int err = mkdir(argv[i]);

		if (err)
			status = complain("mkdir", argv[i], err);
	}
	return status;
}
