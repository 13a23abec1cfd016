"""
Where arguments and results are, by each rule of the calling conventions: args-program.c on both
architectures, traced with funcgraph-args and by probes. What it passes is compared with what is
printed.
"""
import re
import subprocess
import unittest

from grading.machine.machine import Run
from qemu.machine import FINISHED, ROOT, Machine

PROGRAM = "kern/ftrace/tests/args-program.c"
ADDRESS = "0xffff[0-9a-f]{12}"

# What funcgraph-args prints, as a pattern. "..." is where the arguments on the stack begin.
# CONSTANT, SCALARS: the names of the clones, which are not the same everywhere.
SEVEN = "a=1, b=2, c=3, d=4, e=5, f=6, g=7"
PRINTED = {
    "three_result": "k=41, m=42", "three_of_nothing": "", "three_of_three": f"t={ADDRESS}, m=43",
    "two_result": "k=44, m=45", "one_result": "k=46", "wide_result": "k=47",
    "narrow_result": "k=305419904", "bool_result": "k=48", "text_result": f"text={ADDRESS}",
    "no_result": "k=49",
    "by_words": r"a=101, o=\(STRUCT\)\[0x[0-9a-f]*66\], t=\(STRUCT\)\[0x67:0x68\], b=105",
    "by_address": f"a=111, t={ADDRESS}, b=112",
    "of_nine": r"a=121, n=\(STRUCT\)\[0x807060504030201:0x[0-9a-f]*9\], b=122",
    "of_nothing": r"a=131, e=\(STRUCT\)\[\], b=132",
    "of_bits": rf"a=141, f=\(STRUCT\)\[0x[0-9a-f]*{5 | 100 << 3 | (1 << 20) - 2 << 10:x}\], b=142",
    "of_rows": r"a=151, r=\(STRUCT\)\[0x200000001:0x400000003\], b=152",
    "of_flexible": r"a=161, f=\(STRUCT\)\[0x[0-9a-f]*a2\], b=163",
    "of_unions": r"a=171, u=\(UNION\)\[0xac\], p=\(UNION\)\[0xad:0xae\], b=175",
    "of_wide": "a=201, w=0xca00000000000000cb, b=204",
    "of_member": r"a=211, t=\(STRUCT\)\[0xd4:0xd5\], b=214",
    "of_type": r"a=221, t=\(STRUCT\)\[0xde:0xdf\], b=224",
    "of_packed": r"a=231, t=\(STRUCT\)\[0xe9:0xe8\], b=234",
    "of_ten": SEVEN + r", h=8, \.\.\.",
    "half": SEVEN + r", \.\.\.", "half_wide": SEVEN + r", \.\.\.",
    "aligned_on_stack": SEVEN + r", h=8, \.\.\.",
    "narrow": "a=1, b=-2, c=253, d=-4, e=65531, f=-6, g=4294967289",
    "enums": "c=77, s=200", "function": f"fn={ADDRESS}, b=301",
    "variadic": f"format={ADDRESS}, n=311",
    "CONSTANT": r"a=321, removed=\?, b=331",
    "SCALARS": r"a=341, s=\?, b=351",  # what is passed in place of s is a member of *s
}

# A probe, and what its event prints after the place. At a return the arguments are the entry's.
EVENTS = (
    ("p three_result k m", "k=41 m=42"), ("p three_result $arg*", "k=41 m=42"),
    ("p three_result x=$arg2", "x=0x2a"), ("r three_result k m", "k=41 m=42"),
    ("f three_result k m", "k=41 m=42"), ("f three_result%return k m", "k=41 m=42"),
    ("p three_of_three +8(t):u64 m", "arg1=12 m=43"), ("p two_result m", "m=45"),
    ("p by_words b", "b=105"), ("p by_address +16(t):u64 b", "arg1=13 b=112"),
    ("p of_nothing $arg3", "b=132"), ("p of_wide b", "b=204"),
    ("p of_member b x=$arg2", "b=214 x=0xd4"), ("p of_type b", "b=224"),
    ("p of_packed b x=$arg2", "b=234 x=0xe9"), ("p of_ten h i j", "h=8 i=-9 j=10"),
    ("p of_ten $arg*", "a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=-9 j=10"),
    ("f of_ten i x=$arg10", "i=-9 x=0xa"), ("p half h", "h=-10"), ("p half_wide h", "h=-10"),
    ("p aligned_on_stack i j", "i=9 j=11"),
    ("p narrow $arg*", "a=1 b=-2 c=253 d=-4 e=65531 f=-6 g=4294967289"),
    ("r narrow $arg*", "a=1 b=-2 c=253 d=-4 e=65531 f=-6 g=4294967289"),
    ("p enums c s", "c=77 s=200"), ("p variadic n x=$arg3", "n=311 x=0x138"),
    ("p CONSTANT b a", "b=331 a=321"), ("p SCALARS b $arg1", "b=351 a=341"),
    ("r two_result $retval", "arg1=0x2c"), ("r one_result $retval:u32", "arg1=46"),
    ("r wide_result $retval", "arg1=0x2f"), ("r narrow_result $retval", "arg1=-128"),
    ("r bool_result $retval", "arg1=1"), ("r of_nothing $retval", "arg1=263"),
    ("f text_result +0($retval):string", 'arg1="text"'), ("r CONSTANT $retval", "arg1=657"),
)

UNKNOWN = "The place of this argument is not known"
ON_STACK = "This argument is on the stack, so only a probe at the entry has it"
NO_STRUCTURE = "Non pointer structure/union argument is not supported."
REFUSED = (
    ("p CONSTANT ^removed", UNKNOWN), ("p CONSTANT ^$arg2", UNKNOWN),
    ("p CONSTANT x=^$arg2", UNKNOWN), ("p CONSTANT x=^$arg4", UNKNOWN), ("p SCALARS ^s", UNKNOWN),
    ("f of_ten%return ^i", ON_STACK), ("r of_ten x=^$arg9", ON_STACK),
    ("p of_wide ^w", "An integer of 16 bytes is not supported"), ("p of_nothing ^e", NO_STRUCTURE),
    ("p half ^t", NO_STRUCTURE),
    ("r three_result ^$retval", "This function returns a structure in memory, not in a register"),
    ("r SCALARS ^$retval", "It is not known whether this function has kept its result"),
    ("r no_result ^$retval", "This function returns 'void' type"),
)


class OnAMachine:
    """One boot of a kernel with the program."""

    arch: str
    machine: Run
    clones: dict[str, str]

    @classmethod
    def setUpClass(cls) -> None:
        variant = f"{FINISHED}-args-program"
        image = f"build/{cls.arch}/{variant}/Image"
        subprocess.run(["make", "--no-print-directory", "-s", "-C", str(ROOT), f"ARCH={cls.arch}",
                        f"APP={PROGRAM}", image, f"build/{cls.arch}/initrd.cpio"], check=True)
        config = Machine(cls.arch, image=ROOT / image,
                         initrd=ROOT / f"build/{cls.arch}/initrd.cpio")
        cls.machine = Run(config, ROOT / f"build/tests/arg-places-{cls.arch}.log")
        cls.machine.__enter__()
        cls.machine.console.wait_ready(60)
        known = cls.machine.console.command("cat available_filter_functions", 120)
        cls.clones = {name.upper(): re.findall(rf"(?m)^{name}\.\S+", known)[0]
                      for name in ("constant", "scalars")}

    @classmethod
    def tearDownClass(cls) -> None:
        cls.machine.__exit__(None, None, None)

    def sh(self, line: str) -> str:
        return self.machine.console.command(line, 120)

    def with_names(self, text: str) -> str:
        return re.sub("CONSTANT|SCALARS", lambda found: self.clones[found[0]], text)

    def quiet(self, *lines: str) -> None:
        for line in lines:
            self.assertEqual(self.sh(line), "", line)

    def tearDown(self) -> None:
        self.quiet("echo nop > current_tracer", "echo > set_ftrace_filter",
                   "echo 0 > events/enable", "echo > dynamic_events", "echo > trace")

    def test_funcgraph_args(self) -> None:
        self.quiet(*(self.with_names(f"echo {name} >> set_ftrace_filter") for name in PRINTED),
                   "echo 1 > options/funcgraph-args", "echo function_graph > current_tracer",
                   "args-program", "echo 0 > tracing_on")
        text = self.sh("cat trace")
        self.quiet("echo 1 > tracing_on", "echo 0 > options/funcgraph-args")
        for name, arguments in PRINTED.items():
            with self.subTest(name):
                name = re.escape(self.with_names(name))
                self.assertRegex(text, rf"(?m)\| +{name}\({arguments}\)(;| {{)$")

    def test_probes(self) -> None:
        for start in range(0, len(EVENTS), 12):
            some = list(enumerate(EVENTS))[start:start + 12]
            for n, (line, _) in some:
                line = self.with_names(f"{line[0]}:places/e{n} {line[2:]}")
                self.quiet(f"echo '{line}' >> dynamic_events")
            self.quiet("echo 1 > events/places/enable", "args-program",
                       "echo 0 > events/places/enable")
            text = self.sh("cat trace")
            for n, (line, printed) in some:
                with self.subTest(line):
                    self.assertRegex(text, rf"(?m): e{n}: \([^)]*\) {re.escape(printed)}$")
            self.quiet("echo > dynamic_events", "echo > trace")

    def test_what_is_refused(self) -> None:
        for line, why in REFUSED:
            with self.subTest(line):
                line = self.with_names(line)
                at, text = line.index("^"), line.replace("^", "")
                self.assertIn("Invalid argument", self.sh(f"echo '{text}' >> dynamic_events"))
                last = self.sh("cat error_log").splitlines()[-3:]
                self.assertRegex(last[0], re.escape(f": error: {why}") + "$")
                self.assertEqual(last[1].strip(), f"Command: {text}")
                self.assertEqual(last[2].index("^") - last[1].index(text), at)


class OnRiscv64(OnAMachine, unittest.TestCase):
    arch = "riscv64"


class OnArm64(OnAMachine, unittest.TestCase):
    arch = "arm64"


if __name__ == "__main__":
    unittest.main()
