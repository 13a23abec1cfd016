/*
 * The kernel's interface to applications. The linker collects them, sorted by name, from
 * kern/apps/ and APP= in the table app: struct app and APP() of app.h.
 */
#ifndef KERN_APPRUN_H
#define KERN_APPRUN_H

struct app;

const struct app *app_find(const char *name);

/*
 * Run @app in the calling thread, with that thread's standard output, and wait
 * until all threads of it have ended. Files that it left open are closed. After
 * Ctrl-C app_run() may not return: memory that must be freed then must be known to
 * the thread that joins this one. Context: thread of no program.
 * Return: the exit status (0 to 255), or -ENOMEM.
 */
int app_run(const struct app *app, int argc, char **argv);

/*
 * The main thread of a program is about to exit because of Ctrl-C or EPIPE: close its redirections
 * and pipes. If it is the shell's thread, the shell goes on in another one.
 */
void shell_thread_ends(void);

#endif
