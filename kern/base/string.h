/* The C library's string functions that the kernel needs; same contracts. */
#ifndef BASE_STRING_H
#define BASE_STRING_H

#include "types.h"

void *memcpy(void *d, const void *s, size_t n);
void *memmove(void *d, const void *s, size_t n);
void *memset(void *d, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);
void *memchr(const void *s, int c, size_t n);
size_t strlen(const char *s);
size_t strnlen(const char *s, size_t n);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);
char *strchr(const char *s, int c);
/* Copies at most size-1 bytes and ends with NUL; returns strlen(s). */
size_t strlcpy(char *d, const char *s, size_t size);
/* glob.c: does @name match @pattern, @len bytes: * ? [a-z] [!a-z] and backslash? Any context. */
bool glob_match(const char *pattern, size_t len, const char *name);
/*
 * The whole string as a number; base 0: by its prefix. A trailing newline is allowed. Return: 0,
 * -EINVAL, -ERANGE.
 */
int kstrtou64(const char *s, int base, u64 *value);
int kstrtos64(const char *s, int base, s64 *value); /* with a sign */

/*
 * GCC calls these for __builtin_clzl() and __builtin_ctzl() where the instruction set has no such
 * instruction (riscv64); not for 0.
 */
int __clzdi2(u64 v);
int __ctzdi2(u64 v);

#endif
