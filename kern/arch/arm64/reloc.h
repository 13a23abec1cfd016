/* arm64: what the reader of module files must know. */
#ifndef ASM_RELOC_H
#define ASM_RELOC_H

#define ELF_MACHINE 183	  /* EM_AARCH64 */
#define PLT_ENTRY_SIZE 12 /* adrp x16; add x16; br x16 */

#endif
