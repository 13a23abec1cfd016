"""
kern/ftrace/tools/mksyms.py --args: the place of each parameter, on both architectures. In small
programs of GCC and Clang; and for every function of the finished kernel and of args-program.c, the
calling convention against the compiler's locations.
"""
import re
import subprocess
import tempfile
import unittest
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kern.ftrace.tools import mksyms
from qemu.machine import ARCHES, FINISHED

ROOT = Path(__file__).resolve().parents[3]
COMPILER = {"riscv64": ["riscv64-linux-gnu-gcc", "-march=rv64ima_zicsr_zifencei", "-mabi=lp64"],
            "arm64": ["aarch64-linux-gnu-gcc", "-mgeneral-regs-only"]}
CLANG = {"riscv64": ["clang", "--target=riscv64-linux-gnu", "-march=rv64ima", "-mabi=lp64",
                     "-mcmodel=medany", "-mno-relax"],
         "arm64": ["clang", "--target=aarch64-linux-gnu", "-mgeneral-regs-only"]}

SOURCE = """
#include <stdbool.h>
typedef unsigned char byte; typedef const byte *bytes; typedef int (*callback)(void *);
enum colour { RED, BLUE };
struct one { int a; }; struct two { long a, b; }; struct large { long a[3]; };
union either { char c[4]; int i; }; union pair { long l[2]; };
#define F __attribute__((noinline, used))
F int nothing(void) { return 1; }
asm(".p2align 4\\n.skip 12\\n.globl tiny\\n.type tiny, @function\\ntiny: ret\\n.size tiny, 4");
F int signed_ones(signed char a, short b, int c, long d, long long e) { return a + b + c + d + e; }
F int unsigned_ones(byte a, unsigned short b, const unsigned c, volatile unsigned long d, bool e,
                    char f)
{ return a + b + c + d + e + f; }
F int addresses(bytes b, callback c, char *const argv[], struct two *t, int (*rows)[4])
{ return b && c && argv && t && rows; }
F int others(enum colour c, struct one o, struct two t, struct large l)
{ return c + o.a + t.b + l.a[2]; }
F int unions(union either e, union pair p) { return e.i + p.l[1]; }
F int odd(int, _Atomic int a, __int128 wide, int z) { return a + wide + z; }
F int wide(__int128 w) { return w; }
F int eight(int a, int b, int c, int d, int e, int f, int g, int h)
{ return a + b + c + d + e + f + g + h; }
F int nine(int a, int b, int c, int d, int e, int f, int g, int h, int i)
{ return a + b + c + d + e + f + g + h + i; }
F int no_room(int a, int b, int c, int d, int e, int f, int g, struct two t)
{ return a + b + c + d + e + f + g + t.b; }
F int more(const char *format, ...) { return format[0]; }
static inline int twice(int number) { return number * number; }
int (*out_of_line)(int) = twice;
F int inlined(int x) { return twice(x) + out_of_line(x); }
F void silent(void) { asm(""); }
F void silent_two(int a, struct two t) { asm("" : : "r"(a + t.b)); }
static inline void shy(int number) { asm("" : : "r"(number)); }
void (*shy_out_of_line)(int) = shy;
static __attribute__((noinline)) int cloned(const struct large *l, int unused, long last)
{ return l->a[0] + last; }
F int calls_a_clone(struct large *l) { return cloned(l, 7, l->a[1]); }
static __attribute__((noinline))
int many(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j)
{ return a + b + c + d + e + f + g + h + i + j; }
F int calls_many(int a)
{ return many(a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7, a + 8, a + 9); }
static __attribute__((noinline)) int dead(int a, int removed, struct two *t) { return a + t->b; }
F int calls_dead(int a, struct two *t) { return dead(a, 5, t); }
F struct large hidden(int k, int m) { struct large l = {{k, m, 3}}; return l; }
F struct two visible(int k, int m) { struct two t = {k, m}; return t; }
struct empty {}; struct bits { unsigned a : 3; int b : 20; };
struct flexible { int n; char data[]; };
struct inner { __attribute__((aligned(16))) long a; long b; };
struct __attribute__((aligned(16))) outer { long a, b; };
F int empty(int a, struct empty e, int b) { return a + b; }
F int bits(struct bits a, struct flexible b) { return a.b + b.n; }
F int inner(int a, struct inner t, int b) { return a + t.a + b; }
F int outer(int a, struct outer t, int b) { return a + t.a + b; }
F int stack(int a, int b, int c, int d, int e, int f, int g, int h, int i, __int128 j, int k)
{ return h + i + j + k; }
F int pair(int a, int b, int c, int d, int e, int f, int g, __int128 h, int i)
{ return a + g + h + i; }
"""

# Of both architectures, and of arm64 where it is another.
PARAMETERS = {
    "nothing": "0i", "silent": "0v", "silent_two": "3via,St,", "shy": "1vinumber,", "tiny": "",
    "signed_ones": "5iba,hb,ic,ld,le,",
    "unsigned_ones": "6iBa,Hb,Ic,Ld,Be,Bf,",  # char is unsigned on both
    "addresses": "5ipb,pc,pargv,pt,prows,", "others": "5iIc,so,St,pl,", "unions": "3iue,Up,",
    "odd": "5ii,ia,qwide,iz,", "wide": "2iqw,", "eight": "8iia,ib,ic,id,ie,if,ig,ih,",
    "nine": "8iia,ib,ic,id,ie,if,ig,ih,ii,", "no_room": "8iia,ib,ic,id,ie,if,ig,St,",
    "more": "1ipformat,", "inlined": "1iix,", "twice": "1iinumber,", "hidden": "3mi1k,im,",
    "visible": "2Sik,im,", "empty": "2iia,ee,ib,", "bits": "2isa,sb,", "inner": "4iia,St,ib,",
    "outer": "4iia,St,ib,", "stack": "8iia,ib,ic,id,ie,if,ig,ih,ii,q10j,ik,",
    "pair": "8iia,ib,ic,id,ie,if,ig,qh,ii,", "calls_a_clone": "1ipl,",
}
ON_ARM64 = {"no_room": "7iia,ib,ic,id,ie,if,ig,S8t,", "hidden": "2mik,im,", "inner": "5iia,S2t,ib,",
            "pair": "7iia,ib,ic,id,ie,if,ig,q8h,ii,"}
# Clang removes parameters without a new name, and passes some in t2 and t3. So of a local function
# only what its locations confirm is known.
LOCAL = {"many": "8?ia,ib,ic,id,ie,if,ig,ih,?i,?j,", "dead": "1?ia,?removed,?t,"}


class Mksyms(unittest.TestCase):
    maxDiff = None

    def symbols(self, compiler: list[str], *flags: str) -> dict[str, str]:
        """Each name with what follows it."""
        with tempfile.TemporaryDirectory() as name:
            source, elf = Path(name) / "a.c", Path(name) / "a.elf"
            source.write_text(SOURCE)
            subprocess.run([*compiler, "-g", "-O2", "-ffreestanding", "-fno-pic", "-c", *flags,
                            "-o", f"{elf}.o", str(source)], check=True, capture_output=True)
            machine = "riscv64" if "rv64" in str(compiler) else "aarch64"
            subprocess.run([f"{machine}-linux-gnu-ld", "-Ttext=0xffffffff80000000", "-e0",
                            "--defsym=_text=0xffffffff80000000",
                            "--defsym=_etext=0xffffffff80010000",
                            "--no-warnings", "--no-relax", "-o", str(elf), f"{elf}.o"],
                           check=True, capture_output=True)
            text = subprocess.run(
                ["/usr/bin/python3",
                 str(ROOT / "kern/ftrace/tools/mksyms.py"),
                 str(elf), "--args"], check=True, capture_output=True, text=True).stdout
        return dict(re.findall(r'\.asciz "([^"\\]+)\\000([^"]*)"', text))

    def check(self, arch: str, symbols: dict[str, str]) -> None:
        wanted = PARAMETERS | (ON_ARM64 if arch == "arm64" else {})
        self.assertEqual({name: symbols.get(name) for name in wanted}, wanted)

    def test_parameters(self) -> None:
        for arch, entry in (("riscv64", 1), ("arm64", 2)):
            for flags in ([], [f"-fpatchable-function-entry={entry}"], ["-pg"]):
                with self.subTest(arch=arch, flags=flags):
                    self.check(arch, self.symbols(COMPILER[arch], "-fno-toplevel-reorder", *flags))

    def test_of_clang(self) -> None:
        for arch, entry in (("riscv64", 1), ("arm64", 2)):
            with self.subTest(arch=arch):
                symbols = self.symbols(CLANG[arch], f"-fpatchable-function-entry={entry}")
                self.assertIn(symbols.pop("twice"), ("1?inumber,", "1iinumber,"))  # it is local
                self.check(arch, symbols | {"twice": PARAMETERS["twice"]})
                self.assertEqual({name: symbols[name] for name in LOCAL}, LOCAL)

    def test_a_clone_has_only_what_the_compiler_says(self) -> None:
        for arch in ARCHES:
            symbols = self.symbols(COMPILER[arch])
            clones = [text for name, text in symbols.items() if name.startswith("cloned.")]
            self.assertEqual(clones, ["2??l,?unused,l1last,"], arch)


Place = int | None


class ByConvention(mksyms.Unit):
    """Without the compiler's locations."""

    def located(self, parameter: mksyms.DIE, kind: mksyms.Kind, function: mksyms.DIE) -> int | None:
        return None


class EveryFunction(unittest.TestCase):
    """In a kernel: is each parameter where the compiler's location says?"""

    # Its type does not say it: a packed structure's members look like aligned ones.
    NOT_IN_DWARF = {("arm64", "of_packed")}

    def elf(self, arch: str, *program: str) -> Path:
        out = ROOT / f"build/{arch}/{FINISHED}{'-args-program' if program else ''}"
        subprocess.run(["make", "--no-print-directory", "-s", "-C", str(ROOT), f"ARCH={arch}",
                        *program, str((out / "Image").relative_to(ROOT))], check=True)
        return out / "first.elf"

    def parameters(self, elf: Path) -> Iterator[tuple[str, str, Place, Place, Place]]:
        """Function, parameter; places by the convention, the location, the table. Not of clones."""
        names = mksyms.symbols(mksyms.Elf(elf))[2]
        for start, (unit, function) in mksyms.functions_of(str(elf)).items():
            name = next((names[a] for a in (start, start - 4, start - 8) if a in names), ".")
            if "." in name:
                continue
            named = mksyms.origin(function, "DW_AT_name").attributes["DW_AT_name"]
            self.assertEqual(name, named.value.decode())
            by_convention = ByConvention(unit.unit, unit.lists, unit.isa).places(function, False)
            for die, (parameter, kind, place), (_, _, in_table) in zip(
                    mksyms.parameters_of(function), by_convention, unit.places(function, False)):
                yield name, parameter, place, unit.located(die, kind, function), in_table

    def agree(self, arch: str, elf: Path) -> Counter[str]:
        count: Counter[str] = Counter()
        for function, parameter, place, location, in_table in self.parameters(elf):
            count["all"] += 1
            count["located"] += location is not None
            with self.subTest(arch=arch, function=function, parameter=parameter):
                self.assertIsNotNone(in_table)
                if location is not None:
                    self.assertEqual(in_table, location)
                    if (arch, function) not in self.NOT_IN_DWARF:
                        self.assertEqual(place, location)
        return count

    def test_of_the_kernel(self) -> None:
        for arch in ARCHES:
            count = self.agree(arch, self.elf(arch))
            self.assertGreater(count["all"], 1500)
            self.assertGreater(count["located"], 0.99 * count["all"])

    def test_of_each_rule(self) -> None:
        for arch in ARCHES:
            self.agree(arch, self.elf(arch, "APP=kern/ftrace/tests/args-program.c"))


if __name__ == "__main__":
    unittest.main()
