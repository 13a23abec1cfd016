// needs: kern/ftrace/probes/kprobe_hit.c kern/ftrace/probes/kretprobe.c
// needs: kern/ftrace/probes/livepatch.c -Ikern/ftrace/tests/host -Ikern/ftrace/tests/host/riscv64
// needs: -DCONFIG_KPROBES=1 -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul
#define ADDI 0x00150513u     /* addi a0, a0, 1 */
#define BRANCH 0x0080006fu   /* j . + 8 */
#define IS_JUMP(insn) (((insn) & 0xfffu) == INSN_JAL)
#define SET_BREAK(trap) ((trap).cause = 3)
#include "kprobe_test.h"
