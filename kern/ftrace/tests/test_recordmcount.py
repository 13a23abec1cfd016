"""recordmcount: the table that it writes, and its messages about faulty files. Built with ASan and
UBSan."""
import random
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CROSS = {"riscv64": "riscv64-linux-gnu-", "arm64": "aarch64-linux-gnu-"}
FLAGS = {"riscv64": ["-march=rv64ima_zicsr_zifencei", "-mno-relax"], "arm64": []}
LD = {"riscv64": ["-m", "elf64lriscv", "--no-relax"], "arm64": ["-m", "aarch64linux"]}
NOPS = {"riscv64": 1, "arm64": 2}
BASE = 0xFFFFFFFF80000000
ENDS = ".globl _text, _etext, __ftrace_text_start, __ftrace_text_end\n"


def entry_source(arch: str, site: str = "nop", where: str = "{f}") -> str:
    """Three functions with patchable entries, as the compiler leaves them."""
    text = (ENDS +
            ".text\n_text:\n__ftrace_text_start: nop\nftrace_stubs: nop\n__ftrace_text_end: nop\n")
    table = '.section __patchable_function_entries,"a"\n.balign 8\n'
    for name in ("first", "second", "third"):
        text += f".globl {name}\n{name}:\n" + f"\t{site}\n" * NOPS[arch] + "\tret\n"
    for name in ("third", "first", "second"):  # the linker orders by file
        table += f"\t.quad {where.format(f=name)}\n"
    return text + "_etext:\n" + table


def mcount_source(arch: str) -> str:
    call = "call _mcount" if arch == "riscv64" else "bl _mcount"
    return (
        ENDS +
        ".globl _mcount\n.text\n_text:\n__ftrace_text_start:\n_mcount: ret\n__ftrace_text_end: "
        "nop\n"
        f"first:\n\tnop\n\t{call}\n\tret\nsecond:\n\t{call}\n\tret\n_etext: nop\n")


def far_source(islands: list[int], sites: list[int], arch: str = "riscv64",
               island_size: int = 396) -> str:
    """A tracer of 32 KiB with its stubs in it, islands and sites, at these offsets from _text."""
    text = (
        ENDS +
        ".text\n_text:\n__ftrace_text_start: nop\nftrace_stubs: nop\n.org "
        "0x8000\n__ftrace_text_end: nop\n"
    )
    for at, what in sorted([(at, f"island_{n}")
                            for n, at in enumerate(islands, 1)] + [(at, "site") for at in sites]):
        text += f".org {at:#x}\n"
        if what != "site":
            text += (
                f".globl ftrace_{what}, ftrace_{what}_end\nftrace_{what}: .zero "
                f"{island_size}\nftrace_{what}_end: nop\n"
            )
        else:
            text += "\tnop\n" * NOPS[arch]
    return text + '_etext: nop\n.section __patchable_function_entries,"a"\n.balign 8\n' + "".join(
        f"\t.quad _text + {at:#x}\n" for at in sites)


class Recordmcount(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = Path(tempfile.mkdtemp(prefix="recordmcount"))
        cls.tool = cls.directory / "recordmcount"
        subprocess.run([
            "gcc", "-std=gnu11", "-g", "-O1", "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all", "-o", cls.tool, ROOT / "kern/ftrace/tools/recordmcount.c"
        ], check=True)

    @classmethod
    def tearDownClass(cls) -> None:
        subprocess.run(["rm", "-r", cls.directory], check=True)

    def link(self, arch: str, source: str) -> Path:
        asm, obj, elf = (self.directory / f"k.{s}" for s in ("s", "o", "elf"))
        asm.write_text(source)
        subprocess.run([CROSS[arch] + "as", *FLAGS[arch], "-o", obj, asm], check=True)
        subprocess.run(
            [CROSS[arch] + "ld", *LD[arch], f"-Ttext={BASE:#x}", "-e", "_text", "-o", elf, obj],
            check=True, stderr=subprocess.DEVNULL)
        return elf

    def run_tool(self, path: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.tool, path], capture_output=True, text=True, check=False,
                              env={"ASAN_OPTIONS": "detect_leaks=0"})

    def offsets(self, path: Path) -> list[int]:
        done = self.run_tool(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        table = [int(word, 16) for word in re.findall(r"\.quad (0x[0-9a-f]+)", done.stdout)]
        self.assertIn(f".long {len(table)}", done.stdout)
        return table

    def refused(self, path: Path, sentence: str) -> None:
        done = self.run_tool(path)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, sentence)

    def address(self, elf: Path, arch: str, name: str) -> int:
        rows = subprocess.check_output([CROSS[arch] + "nm", elf], text=True).splitlines()
        return next(int(row.split()[0], 16) for row in rows if row.split()[2] == name)

    def test_entries_are_sorted_and_name_the_word_that_is_toggled(self) -> None:
        for arch in CROSS:
            with self.subTest(arch=arch):
                elf = self.link(arch, entry_source(arch))
                toggled = 4 * (NOPS[arch] - 1)
                self.assertEqual(self.offsets(elf), [self.address(elf, arch, name) - BASE + toggled
                                                     for name in ("first", "second", "third")])

    def test_calls_of_mcount_are_found(self) -> None:
        for arch, last in (("riscv64", 4), ("arm64", 0)):
            with self.subTest(arch=arch):
                elf = self.link(arch, mcount_source(arch))
                self.assertEqual(self.offsets(elf), [
                    self.address(elf, arch, "first") - BASE + 4 + last,
                    self.address(elf, arch, "second") - BASE + last
                ])

    def test_a_site_without_its_nop_is_refused(self) -> None:
        for arch in CROSS:
            with self.subTest(arch=arch):
                self.refused(self.link(arch, entry_source(arch, site="ret")), "does not hold a nop")

    def test_a_misaligned_site_is_refused(self) -> None:
        self.refused(self.link("arm64", entry_source("arm64", where="{f} + 2")),
                     "not 4-byte aligned")

    def test_a_site_outside_of_text_is_refused(self) -> None:
        self.refused(self.link("arm64", entry_source("arm64", where="{f} + 0x100000")),
                     "is not in .text")

    def test_a_site_that_is_there_twice_is_refused(self) -> None:
        self.refused(self.link("arm64", entry_source("arm64", where="first")), "is there twice")

    def test_a_kernel_without_sites_is_refused(self) -> None:
        source = entry_source("arm64").split(".section")[0]
        self.refused(self.link("arm64", source), "no call site")

    def test_a_missing_symbol_is_named(self) -> None:
        source = entry_source("arm64").replace("__ftrace_text_end", "another")
        self.refused(self.link("arm64", source), "no symbol __ftrace_text_end")

    def test_a_site_out_of_reach_is_listed_counted_and_disabled(self) -> None:
        source = entry_source("riscv64").replace(".globl first", ".space 2 << 20, 0\n.globl first")
        done = self.run_tool(self.link("riscv64", source))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 of 3 call sites are out of reach", done.stderr)
        self.assertEqual(len(re.findall(r"\.quad 0x1[0-9a-f]{14}\n", done.stdout)), 3)

    def regions(self, path: Path) -> list[tuple[int, int]]:
        """(first record, stubs) of each region, and of the region that ends the table."""
        done = self.run_tool(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = re.findall(r"^\t\.long (\S+), (\S+)$", done.stdout, re.M)
        return [(int(first, 0), int(stubs, 0)) for first, stubs in rows]

    def far(self, path: Path) -> list[int]:
        """The sites that are out of reach, as offsets."""
        return [word & 0xFFFFFFFF for word in self.offsets(path) if word >> 56 & 1]

    def test_a_small_text_is_one_region_that_calls_the_tracer(self) -> None:
        elf = self.link("riscv64", far_source([], [0x8010, 0x9000]))
        self.assertEqual(self.regions(elf), [(0, 4), (2, 0)])

    def test_a_site_calls_the_tracer_if_it_can_and_else_the_nearest_island(self) -> None:
        sites = [0x8010, 0xFFFFC, 0x100000, 0x100004, 0x180000, 0x207FFC, 0x208004, 0x2F0000]
        elf = self.link("riscv64", far_source([0x110000, 0x300000], sites))
        self.assertEqual(self.regions(elf), [(0, 4), (3, 0x110000), (6, 0x300000), (8, 0)])
        self.assertEqual(self.far(elf), [])

    def test_what_is_beyond_every_island_stays_out_of_reach(self) -> None:
        last = 0x180000 + 0x100000  # from there jal just reaches the island's first stub, at -1 MiB
        first = 0x180000 + 396 - 0x100000 + 4  # and from here its last one
        sites = [0x8010, first, last, last + 4, last + 0x200000]
        elf = self.link("riscv64", far_source([0x180000], sites))
        self.assertEqual(self.regions(elf), [(0, 4), (2, 0x180000), (5, 0)])
        self.assertEqual(self.far(elf), [last + 4, last + 0x200000])
        self.assertIn("2 of 5 call sites are out of reach", self.run_tool(elf).stderr)

    def test_a_site_that_reaches_half_an_island_does_not_call_it(self) -> None:
        site = 0x300000
        for start, reached in ((site + 0x100000 - 4 - 396, True), (site + 0x100000 - 396, False)):
            with self.subTest(start=f"{start:#x}"):
                self.assertEqual(
                    self.far(self.link("riscv64", far_source([start], [0x8010, site]))),
                    [] if reached else [site])

    def test_a_kernel_that_patches_nothing_has_all_in_reach(self) -> None:
        source = far_source([], [0x8010, 0x900000]).replace("ftrace_stubs:", "mcount_trace:")
        self.assertEqual(self.far(self.link("riscv64", source)), [])

    def test_arm64_needs_no_island(self) -> None:
        elf = self.link("arm64", far_source([], [0x8010, 0x800000], "arm64"))
        self.assertEqual((self.regions(elf), self.far(elf)), ([(0, 4), (2, 0)], []))

    def test_an_island_without_its_end_is_refused(self) -> None:
        source = far_source([0x110000], [0x8010]).replace("ftrace_island_1_end", "another")
        self.refused(self.link("riscv64", source), "no symbol ftrace_island_1_end")

    def test_what_is_no_kernel_is_named(self) -> None:
        self.refused(self.directory / "nothing", "cannot be opened")
        self.refused(Path("/dev/null"), "not a 64-bit little-endian ELF")
        self.refused(ROOT / "LICENSE", "not a 64-bit little-endian ELF")
        self.refused(Path("/bin/true"), "neither riscv64 nor arm64")
        elf = self.link("arm64", entry_source("arm64"))
        self.refused(elf.with_suffix(".o"), "not a linked kernel")

    def test_a_broken_file_ends_in_a_sentence_and_never_in_a_crash(self) -> None:
        whole = self.link("riscv64", entry_source("riscv64")).read_bytes()
        broken = self.directory / "broken.elf"
        dice = random.Random(5)
        for _ in range(400):
            image = bytearray(whole[:dice.randrange(len(whole))] if dice.random() < 0.5 else whole)
            for _ in range(dice.randrange(1, 4)):
                if image:
                    image[dice.randrange(len(image))] = dice.randrange(256)
            broken.write_bytes(image)
            done = self.run_tool(broken)
            self.assertIn(done.returncode, (0, 1))
            self.assertNotIn("Sanitizer", done.stderr)
            self.assertNotIn("runtime error", done.stderr)


if __name__ == "__main__":
    unittest.main()
