/* riscv64: what the reader of module files must know. */
#ifndef ASM_RELOC_H
#define ASM_RELOC_H

#define ELF_MACHINE 243	 /* EM_RISCV */
#define PLT_ENTRY_SIZE 0 /* no entries: a call reaches 2 GiB */

#endif
