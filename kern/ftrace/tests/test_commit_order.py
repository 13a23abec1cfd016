"""The order of stores and fences, checked in the machine code: an event's data, a fence, its
commit; and the two fences of a pass.

QEMU runs on a machine that hides a missing fence, so no run can prove the order.
In each function that commits an event, only the commit and stores that no other
CPU reads may follow the fence.
"""
import re
import subprocess
import unittest

from qemu.machine import FINISHED, ROOT

OBJDUMP = {"riscv64": "riscv64-linux-gnu-objdump", "arm64": "aarch64-linux-gnu-objdump"}
FENCE = {"riscv64": re.compile(r"\tfence\tw,w"), "arm64": re.compile(r"\tdmb\tishst")}
STORE = {"riscv64": re.compile(r"\t(s[bhwd])\t\w+,(-?\d+)\((\w+)\)"),
         "arm64": re.compile(r"\t(st\w+)\t(?:\w+, )+\[(\w+)(?:, #(-?\d+))?\]")}
RETURN = {"riscv64": re.compile(r"\tret\b"), "arm64": re.compile(r"\tret\b")}
COMMIT = 8  # offset of commit in struct rb_page, and of recursion in struct cpu
COMMITTERS = ("function_trace_call", "trace_end")


def disassembly(arch: str, function: str) -> list[str]:
    elf = ROOT / "build" / arch / FINISHED / "callsite.elf"
    text = subprocess.run(
        [OBJDUMP[arch], "-d", "--no-show-raw-insn", f"--disassemble={function}",
         str(elf)], check=True, capture_output=True, text=True).stdout
    return [line for line in text.splitlines() if "\t" in line]


def stores(arch: str, lines: list[str]) -> list[tuple[str, int]]:
    """Width and offset of each store."""
    found = []
    for line in lines:
        match = STORE[arch].search(line)
        if match and arch == "riscv64" and match[3] != "sp":
            found.append((match[1], int(match[2])))
        elif match and arch == "arm64" and match[2] != "sp":
            found.append((match[1], int(match[3] or 0)))
    return found


def complaint(arch: str, lines: list[str]) -> str:
    """The error in the order, or ""."""
    fences = [i for i, line in enumerate(lines) if FENCE[arch].search(line)]
    if len(fences) != 1:
        return f"{len(fences)} fences"
    end = next(i for i in range(fences[0], len(lines)) if RETURN[arch].search(lines[i]))
    behind = stores(arch, lines[fences[0]:end])
    if not behind or behind[0][1] != COMMIT:
        return "the store behind the fence is not the commit"
    whole = {"riscv64": "sd", "arm64": "str"}[arch]
    if len(behind) > 2 or any(store != (whole, COMMIT) for store in behind):
        return f"stores behind the fence: {behind}"
    return ""


def setUpModule() -> None:
    for arch in OBJDUMP:
        subprocess.run(["make", "--no-print-directory", "-s", "-C", str(ROOT), f"ARCH={arch}",
                        f"build/{arch}/{FINISHED}/callsite.elf"], check=True)


class CommitOrder(unittest.TestCase):
    def test_the_fence_stands_between_data_and_commit(self) -> None:
        for arch in OBJDUMP:
            for function in COMMITTERS:
                with self.subTest(arch=arch, function=function):
                    self.assertEqual(complaint(arch, disassembly(arch, function)), "")

    def test_every_word_of_the_event_is_stored_before(self) -> None:
        for arch, words in (("riscv64", 7), ("arm64", 4)):  # arm64 stores both addresses at once
            lines = disassembly(arch, "function_trace_call")
            fence = next(i for i, line in enumerate(lines) if FENCE[arch].search(line))
            narrow = {"riscv64": ("sw",), "arm64": ("stur", "stp", "str")}[arch]
            before = [s for s in stores(arch, lines[:fence]) if s[0] in narrow]
            self.assertGreaterEqual(len(before), words, arch)

    def test_a_missing_fence_is_found(self) -> None:
        for arch in OBJDUMP:
            lines = [
                s for s in disassembly(arch, "function_trace_call") if not FENCE[arch].search(s)
            ]
            self.assertEqual(complaint(arch, lines), "0 fences")

    def test_data_behind_the_fence_is_found(self) -> None:
        for arch in OBJDUMP:
            lines = disassembly(arch, "function_trace_call")
            fence = next(i for i, line in enumerate(lines) if FENCE[arch].search(line))
            data = max(i for i in range(fence) if STORE[arch].search(lines[i]))
            lines.insert(fence, lines.pop(data))  # the fence has moved up by one line
            self.assertNotEqual(complaint(arch, lines), "")


FULL = {"riscv64": re.compile(r"\tfence\trw,rw"), "arm64": re.compile(r"\tdmb\tish$")}
COUNTED = {"riscv64": r"ld\t(\w+),(\d+)\((\w+)\).*addi?\t\1,\1,1.*sd\t\1,\2\(\3\)",
           "arm64": r"ldr\t(\w+), \[(\w+), #(\d+)\].*add\t\1, \1, #0x1.*str\t\1, \[\2, #\3\]"}


def passes(arch: str, lines: list[str]) -> bool:
    """Is the count of passes stored between two full fences, with nothing else between them?"""
    fences = [i for i, line in enumerate(lines) if FULL[arch].search(line)]
    return any(b - a == 4 and re.search(COUNTED[arch], " ".join(lines[a + 1:b]))
               for a, b in zip(fences, fences[1:]))


class GracePeriod(unittest.TestCase):
    """The waiting CPU unpublishes, executes a fence, then reads the count; a passing CPU counts,
    executes a fence, then reads published data."""

    def test_a_pass_is_counted_between_two_fences(self) -> None:
        for arch in OBJDUMP:
            lines = disassembly(arch, "__schedule")
            self.assertTrue(passes(arch, lines), arch)
            for missing in [i for i, line in enumerate(lines) if FULL[arch].search(line)][:2]:
                self.assertFalse(passes(arch, lines[:missing] + lines[missing + 1:]), arch)


if __name__ == "__main__":
    unittest.main()
