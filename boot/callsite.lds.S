/*
 * The layout of the image, for both architectures: it is linked at
 * KERNEL_BASE, and no page holds sections of different permissions.
 *
 *	_start  text      R-X   header and head.S, kernel, the tracer's section, applications
 *	_rodata rodata    R--   constants, tables, symbols
 *	_data   data      RW-   call-site records too
 *	_bss    zeroed    RW-   after _ebss: head.S's page tables
 *
 * The tracer's section is between the kernel and the applications, so that
 * `jal` (1 MiB either way, riscv64) reaches it from both. A larger text has
 * islands between the object files that follow (kern/ftrace/tools/islands.py).
 */
#include "islands.h"
#include "layout.h"

ENTRY(_start)

/* `?` matches the slash of a path: a slash before a star would begin a comment. */
#define OTHERS EXCLUDE_FILE(*kern/ftrace?*.o *kern/apps?*.o *app?*.o *sites.o)
/* In link order; the entries in sections .table.NAME.KEY (programs) by their keys. */
#define TABLE(name)                                                                           \
	. = ALIGN(8);                                                                         \
	__start_table_##name = .;                                                             \
	KEEP(*(.table.name))                                                                  \
	KEEP(*(SORT_BY_NAME(.table.name.*)))                                                  \
	__stop_table_##name = .;

SECTIONS
{
	. = KERNEL_BASE;

	.text : {
		_start = .;
		_text = .;
		*(.head.text)
		*(.text.low .text.low.*)
		__irqentry_text_start = .;
		*(.text.irqentry)
		__irqentry_text_end = .;
		*(OTHERS .text OTHERS .text.*)
		*kern/ftrace/tests?*.o(.text .text.*)
		. = ALIGN(64);
		__ftrace_text_start = .;
		*(.ftrace.text)
		*kern/ftrace?*.o(.text .text.*)
		. = ALIGN(64);
		__ftrace_text_end = .;
		_apps = .;
		*kern/apps?*.o(.text .text.*)
		FTRACE_ISLANDS_TEXT
		*(.text .text.*)
		. = ALIGN(4096);
		_etext = .;
	}

	.rodata : {
		_rodata = .;
		*(.rodata .rodata.* .srodata .srodata.*)
		TABLE(initcall)
		TABLE(export)
		TABLE(param)
		TABLE(shell_command)
		TABLE(app)
		TABLE(panic_hook)
		TABLE(thread_hook)
		TABLE(tick_hook)
		TABLE(unwind_hook)
		TABLE(exception_hook)
		TABLE(module_hook)
		TABLE(instance_hook)
		TABLE(print_hook)
		TABLE(filter_commands)
		TABLE(panic_end)
		TABLE(fixup)
		TABLE(kprobe_blacklist)
		TABLE(static_event)
		TABLE(tracepoint_site)
		TABLE(tracefs_file)
		TABLE(tracer)
		TABLE(trace_event_type)
		/* The tracer's section, then the islands: {start, end}. */
		__start_table_ftrace_text = .;
		QUAD(__ftrace_text_start)
		QUAD(__ftrace_text_end)
		KEEP(*(.table.ftrace_text))
		__stop_table_ftrace_text = .;
		. = ALIGN(8);
		*(.ksyms)
		. = ALIGN(4096);
		_erodata = .;
	}

	.data : {
		_data = .;
		*(.data .data.* .sdata .sdata.*)
		. = ALIGN(8);
		KEEP(*(.ftrace_records))
		ftrace_records_end = .;
		. = ALIGN(4096);
		_edata = .;
	}

	.bss (NOLOAD) : {
		_bss = .;
		*(.bss .bss.* .sbss .sbss.* COMMON)
		. = ALIGN(4096);
		_ebss = .;
		/*
		 * Two roots, middle tables for the image and the identity map, and a last-level
		 * table for each 2 MiB.
		 */
		_early_tables = .;
		. += 4096 * (8 + (_ebss - _text) / 0x200000);
		_early_tables_end = .;
		_end = .;
	}

	/*
	 * The compiler's list of call sites, for recordmcount: in the ELF file, not in the image.
	 */
	__patchable_function_entries 0 (INFO) : { KEEP(*(__patchable_function_entries)) }

	/DISCARD/ : { *(.comment) *(.note .note.*) *(.eh_frame) *(.riscv.attributes) }
}
