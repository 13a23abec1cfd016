/*
 * Types, attributes and the small macros that every file uses.
 *
 * Nothing here touches the machine; the host tests include it too.
 */
#ifndef KERN_TYPES_H
#define KERN_TYPES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int32_t s32;
typedef int64_t s64;
#ifdef __STDC_HOSTED__
#if __STDC_HOSTED__
#include <sys/types.h>
#else
typedef long ssize_t;
#endif
#endif

#define KiB(n) ((unsigned long)(n) << 10)
#define MiB(n) ((unsigned long)(n) << 20)
#define GiB(n) ((unsigned long)(n) << 30)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define ALIGN_DOWN(x, a) ((x) & ~((__typeof__(x))(a) - 1))
#define ALIGN_UP(x, a) ALIGN_DOWN((x) + ((__typeof__(x))(a) - 1), a)
#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
/* Is @p, an address of data or of a function, in [start, start + size)? */
#define IS_WITHIN(p, start, size) ((unsigned long)(p) - (start) < (size))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))
#define barrier() __asm__ volatile("" ::: "memory")

#define __noinline __attribute__((noinline))
#undef __always_inline /* the host's C library has one, too */
#define __always_inline	    inline __attribute__((always_inline))
#define __noreturn	    __attribute__((noreturn))
#define __aligned(n) __attribute__((aligned(n)))
#define __used __attribute__((used))
#define __printf(fmt, args) __attribute__((format(printf, fmt, args)))

/*
 * No call site, in either hook style: neither the nops of
 * -fpatchable-function-entry nor the call of -pg. For every function that the
 * tracer's callbacks may reach; the build proves it (kern/ftrace/tools/proof.py).
 */
#if defined(__riscv) || defined(__aarch64__)
#define notrace __attribute__((patchable_function_entry(0, 0), no_instrument_function))
#else
#define notrace
#endif

/* The first traced function of an interrupt: function_graph draws its arrows around it. */
#if defined(__riscv) || defined(__aarch64__)
#define __irq_entry __attribute__((section(".text.irqentry")))
#else
#define __irq_entry
#endif

/*
 * Which parts this kernel has. The compiler removes a call that is made only `if (HAS_MODULES)`, so
 * a kernel without modules is linked without the function.
 */
#ifdef CONFIG_MODULES
#define HAS_MODULES true
#else
#define HAS_MODULES false
#endif
#ifdef CONFIG_KPROBES
#define HAS_PROBES true
#else
#define HAS_PROBES false
#endif

/*
 * Linker-collected tables: linking an object adds its entries; no file lists them.
 * TABLE_ENTRY(type, table) defines one entry; TABLE_FOR_EACH walks them, in
 * link order. The section is .table.<table>, gathered by boot/callsite.lds.S.
 */
/* a test reaches an entry by its name; a section so named has its ends from the linker */
#ifdef HOST_TEST
#define TABLE_ENTRY(type, table, name)                                                        \
	extern type name;                                                                     \
	type name __used __attribute__((section("table_" #table), aligned(8)))
#else
#define TABLE_ENTRY(type, table, name)                                                        \
	static type name __used __attribute__((section(".table." #table), aligned(8)))
#endif
#define TABLE_FOR_EACH(type, table, p)                                                        \
	for (type *p = ({ extern type __start_table_##table[]; __start_table_##table; });     \
	     p < ({ extern type __stop_table_##table[]; __stop_table_##table; }); p++)

#endif
