/*
 * A pipe: what is written to one file is read from another.
 *
 * The shell makes it, and gives the ends to two stages of a pipeline. Any thread of these may read
 * and write, on any CPU; no interrupt does. The bytes and their counters change under the pipe's
 * lock. A waiting thread looks at the counters without the lock, so the order is: (1) change them
 * under the lock; (2) unlock; (3) wake_up(). The thread that was woken takes the lock and looks
 * again. An end is closed once, by the last file_close(): (1) store under the lock that it is
 * closed, after all that was written; (2) unlock; (3) wake_up(); (4) count the end. The one that
 * counts second frees the pipe: the other end's thread does not touch it after its (4).
 *
 * A read waits for bytes, and returns 0 when there are none and the writing end is closed. A write
 * waits for room for all of it, or for PIPE_ATOMIC bytes at a time, which other writers do not
 * divide; it returns -EPIPE when the reading end is closed. Both return -EINTR when the thread is
 * interrupted.
 */
#ifndef KERN_PIPE_H
#define KERN_PIPE_H

#include "file.h"

#define PIPE_SIZE 16384UL /* a power of two */
#define PIPE_ATOMIC 4096UL

/* Return: 0 or -ENOMEM. */
int pipe_make(struct file **reader, struct file **writer);

#endif
