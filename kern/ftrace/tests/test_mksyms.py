"""kern/ftrace/tools/mksyms.py --args on small programs: what it finds in DWARF of each parameter, on both architectures."""
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
COMPILER = {"riscv64": ["riscv64-linux-gnu-gcc", "-march=rv64ima_zicsr_zifencei", "-mabi=lp64"],
            "arm64": ["aarch64-linux-gnu-gcc"]}

SOURCE = """
#include <stdbool.h>
typedef unsigned char byte; typedef const byte *bytes; typedef int (*callback)(void *);
enum colour { RED, BLUE }; struct one { int a; }; struct two { long a, b; }; struct large { long a[3]; };
union either { char c[4]; int i; }; union pair { long l[2]; };
#define F __attribute__((noinline, used))
F int nothing(void) { return 1; }
asm(".p2align 4\\n.skip 12\\n.globl tiny\\n.type tiny, @function\\ntiny: ret\\n.size tiny, 4");
F int signed_ones(signed char a, short b, int c, long d, long long e) { return a + b + c + d + e; }
F int unsigned_ones(byte a, unsigned short b, const unsigned c, volatile unsigned long d, bool e, char f)
{ return a + b + c + d + e + f; }
F int addresses(bytes b, callback c, char *const argv[], struct two *t, int (*rows)[4]) { return b && c && argv && t && rows; }
F int others(enum colour c, struct one o, struct two t, struct large l) { return c + o.a + t.b + l.a[2]; }
F int unions(union either e, union pair p) { return e.i + p.l[1]; }
F int odd(int, _Atomic int a, __int128 wide, int z) { return a + wide + z; }
F int wide(__int128 w) { return w; }
F int eight(int a, int b, int c, int d, int e, int f, int g, int h) { return a + b + c + d + e + f + g + h; }
F int nine(int a, int b, int c, int d, int e, int f, int g, int h, int i) { return a + b + c + d + e + f + g + h + i; }
F int no_room(int a, int b, int c, int d, int e, int f, int g, struct two t) { return a + b + c + d + e + f + g + t.b; }
F int more(const char *format, ...) { return format[0]; }
static inline int twice(int number) { return number * number; }
int (*out_of_line)(int) = twice;
F int inlined(int x) { return twice(x) + out_of_line(x); }
F void silent(void) { asm(""); }
F void silent_two(int a, struct two t) { asm("" : : "r"(a + t.b)); }
static inline void shy(int number) { asm("" : : "r"(number)); }
void (*shy_out_of_line)(int) = shy;
static __attribute__((noinline)) int cloned(const struct large *l, int unused) { return l->a[0]; }
F int calls_a_clone(struct large *l) { return cloned(l, 7); }
"""

PARAMETERS = {
    "nothing": "", "silent": "@", "silent_two": "Cia,St,", "shy": "Ainumber,", "tiny": "", "signed_ones": "5ba,hb,ic,ld,le,", "addresses": "5pb,pc,pargv,pt,prows,",
    "others": "5Ic,so,St,pl,", "unions": "3ue,Up,", "odd": "2i,ia,.,", "wide": "0.,",
    "eight": "8ia,ib,ic,id,ie,if,ig,ih,", "nine": "8ia,ib,ic,id,ie,if,ig,ih,.,",
    "no_room": "7ia,ib,ic,id,ie,if,ig,.,", "more": "1pformat,", "inlined": "1ix,", "twice": "1inumber,",
    "unsigned_ones": "6Ba,Hb,Ic,Ld,Be,Bf,",  # char is unsigned on both
}


class Mksyms(unittest.TestCase):
    maxDiff = None

    def symbols(self, arch: str, *flags: str) -> dict[str, str]:
        """Each name with what stands behind it."""
        with tempfile.TemporaryDirectory() as name:
            source, elf = Path(name) / "a.c", Path(name) / "a.elf"
            source.write_text(SOURCE)
            subprocess.run([*COMPILER[arch], "-g", "-O2", "-nostdlib", "-static", "-ffreestanding", *flags,
                            "-Wl,-Ttext=0xffffffff80000000,--defsym=_text=0xffffffff80000000,-e0,--no-warnings",
                            "-Wl,--defsym=_etext=0xffffffff80010000", "-o", str(elf), str(source)],
                           check=True, capture_output=True)
            text = subprocess.run(["/usr/bin/python3", str(ROOT / "kern/ftrace/tools/mksyms.py"), str(elf), "--args"],
                                  check=True, capture_output=True, text=True).stdout
        return dict(re.findall(r'\.asciz "([^"\\]+)\\000([^"]*)"', text))

    def test_parameters(self) -> None:
        for arch, entry in (("riscv64", 1), ("arm64", 2)):
            for flags in ([], [f"-fpatchable-function-entry={entry}"], ["-pg"]):
                with self.subTest(arch=arch, flags=flags):
                    symbols = self.symbols(arch, "-fno-toplevel-reorder", *flags)
                    self.assertEqual({name: symbols.get(name) for name in PARAMETERS}, PARAMETERS)

    def test_a_clone_s_are_not_those_of_the_source(self) -> None:
        for arch in COMPILER:
            clones = {name: text for name, text in self.symbols(arch).items() if name.startswith("cloned.")}
            self.assertEqual(list(clones.values()), [""], clones)


if __name__ == "__main__":
    unittest.main()
