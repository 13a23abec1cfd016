/* The text of each error number, as on Linux. */
#include "strerror.h"

#include "errno.h"
#include "types.h"

#define E(n, text) {n, #n, text}
static const struct {
	int err;
	const char *name, *text;
} errors[] = {
	E(EPERM, "Operation not permitted"),
	E(ENOENT, "No such file or directory"),
	E(EINTR, "Interrupted system call"),
	E(EIO, "Input/output error"),
	E(ENOEXEC, "Exec format error"),
	E(E2BIG, "Argument list too long"),
	E(EBADF, "Bad file descriptor"),
	E(EAGAIN, "Resource temporarily unavailable"),
	E(ENOMEM, "Cannot allocate memory"),
	E(EACCES, "Permission denied"),
	E(EFAULT, "Bad address"),
	E(EBUSY, "Device or resource busy"),
	E(EEXIST, "File exists"),
	E(ENODEV, "No such device"),
	E(ENOTDIR, "Not a directory"),
	E(EISDIR, "Is a directory"),
	E(EINVAL, "Invalid argument"),
	E(EMFILE, "Too many open files"),
	E(EFBIG, "File too large"),
	E(ENOSPC, "No space left on device"),
	E(EPIPE, "Broken pipe"),
	E(ERANGE, "Numerical result out of range"),
	E(ENAMETOOLONG, "File name too long"),
	E(ENOSYS, "Function not implemented"),
	E(ENOTEMPTY, "Directory not empty"),
	E(EOVERFLOW, "Value too large for defined data type"),
	E(EOPNOTSUPP, "Operation not supported"),
	E(ETIMEDOUT, "Connection timed out"),
};

const char *strerror(int err)
{
	for (unsigned i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].err == err)
			return errors[i].text;
	return "Unknown error";
}

const char *errno_name(int err)
{
	for (unsigned i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].err == err)
			return errors[i].name;
	return "?";
}
