/* The text of an error number ("No such file or directory") and its name ("ENOENT"), as on Linux. @err is positive. */
#ifndef KERN_STRERROR_H
#define KERN_STRERROR_H

const char *strerror(int err), *errno_name(int err);

#endif
