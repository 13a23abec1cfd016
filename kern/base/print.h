/*
 * The room base/: what all other rooms stand on. It knows none of them.
 *
 *	string.c, strerror.c	memory and strings; the names of error numbers
 *	print.c			formatted text
 *	printk.c		printk(), which prints it; panic()
 *	ksyms.c			the names of text: the kernel's, and that of modules
 *	fdt.c, param.c		the device tree; boot arguments
 *	cpus.c			the table of CPUs; current.h has struct cpu and struct thread
 *	list.h, lock.h		lists; spinlocks
 *	<arch>/firmware_call.c	how the firmware is called: SBI, PSCI
 *
 * Everybody calls it, in any context if nothing else is said. Where it needs more than it
 * knows, it is told: the console's output by printk_to(), the tables of modules' symbols by
 * loader/ksym_tables.c. A panic's report and the boot arguments' handlers are in the linker's
 * tables (PANIC_HOOK, PARAM).
 */

/*
 * Formatted text. %d %i %u %x %X %o %c %s %p %% with flags "-0+ #", width,
 * precision, '*', and length h hh l ll z; %ps prints the symbol of a text
 * address ("schedule", "show [hello]" in a module), %pS symbol+offset/size ("schedule+0x10/0x120"),
 * %pB the same for a return address.
 * No floating point. snprintf always ends the buffer with a NUL (size > 0)
 * and returns the length that the whole text would have.
 */
#ifndef BASE_PRINT_H
#define BASE_PRINT_H

#include "types.h"

int vsnprintf(char *buf, size_t size, const char *fmt, va_list args);
int snprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);
/* As snprintf, but returns the length that was stored (without the NUL), for appending. */
int scnprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);

/*
 * Print to the console, in any context. Messages of different CPUs are never
 * mixed. A message from before the console is known is kept and printed later.
 */
int printk(const char *fmt, ...) __printf(1, 2);
void console_write(const char *s, size_t n); /* raw bytes, '\n' becomes "\r\n" */
/*
 * The console is known: @write sends to it, in any context, without a call site. What was
 * kept until now is printed. Context: boot, one CPU.
 */
void printk_to(void (*write)(const char *s, size_t n));
/*
 * From now on copy all output into @buf as well; NULL: no more. Return: the bytes printed since
 * the last call, also those for which there was no room.
 */
size_t console_keep(char *buf, size_t size);
bool console_is_kept(void);
void console_panic_mode(void); /* from now on print without the lock: for panics only */

/*
 * Report why the kernel cannot go on, and end the machine. Any context. A report needs stack
 * walks and all CPUs, which are in later rooms: so it is a hook, called first of all, which
 * does not return. (Without one, this CPU only stops.)
 */
void __noreturn panic(const char *fmt, ...) __printf(1, 2);
struct panic_hook {
	void __noreturn (*fn)(const char *fmt, va_list args);
};
/* Called at the end of a panic's report, when no other CPU runs. It takes no lock. */
struct panic_end {
	void (*fn)(void);
};
#define PANIC_END(f) TABLE_ENTRY(const struct panic_end, panic_end, f##_end) = {f}
#define PANIC_HOOK(f) TABLE_ENTRY(const struct panic_hook, panic_hook, f##_hook) = {f}

#endif
