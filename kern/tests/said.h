/*
 * A printk() for host tests: what the kernel's code printed is in `said`. Include it before host.h,
 * which gives vsnprintf another name.
 */
#ifndef TESTS_SAID_H
#define TESTS_SAID_H

#include <cstdarg>
#include <cstdio>
#include <string>

static std::string said;

extern "C" int printk(const char *fmt, ...)
{
	char line[512];
	va_list args;

	va_start(args, fmt);
	int n = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	said += line;
	return n;
}

#endif
