/*
 * The text of an error number ("No such file or directory") and its name ("ENOENT"), as on Linux.
 * @err is positive.
 */
#ifndef BASE_STRERROR_H
#define BASE_STRERROR_H

const char *strerror(int err), *errno_name(int err);

#endif
