/* What the shell's parser needs of the kernel, for the host tests that link it. */
#ifndef KERN_SHELL_HOST_H
#define KERN_SHELL_HOST_H

#include <cstdarg>
#include <cstdio>

extern "C" {
#include "parse.h"

int scnprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	int n = vsnprintf(buf, size, fmt, args);
	va_end(args);
	return n;
}
}

#endif
