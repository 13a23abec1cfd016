// needs: kern/ftrace/probes/kprobe_hit.c kern/ftrace/probes/kretprobe.c
// needs: kern/ftrace/probes/livepatch.c -Ikern/ftrace/tests/host -Ikern/ftrace/tests/host/arm64
// needs: -DCONFIG_KPROBES=1 -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul
#define ADDI 0x91000400u     /* add x0, x0, #1 */
#define BRANCH 0x14000002u   /* b . + 8 */
#define IS_JUMP(insn) ((insn) >> 26 == 5)
#define SET_BREAK(trap) ((trap).esr = 0xf2000000 | BREAK_NUMBER)
#include "kprobe_test.h"
