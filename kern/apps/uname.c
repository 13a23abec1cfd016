/* uname [-a]: the kernel's name; -a: with the machine's architecture and CPUs. */
#include "app.h"

APP("[-a]", "print the kernel's name; -a: with the architecture");

#ifdef __riscv
#define ARCHITECTURE "riscv64"
#else
#define ARCHITECTURE "aarch64"
#endif

int main(int argc, char **argv)
{
	bool all = argc == 2 && !strcmp(argv[1], "-a");

	if (argc > 1 && !all) {
		printf("Usage: uname [-a]\n");
		return 2;
	}
	printf(all ? "Callsite callsite SMP PREEMPT %s\n" : "Callsite\n", ARCHITECTURE);
	return 0;
}
