"""What the book's pages type at the shell, typed: each block of a page at a kernel that has just booted.

A line that a page shows must be printed, whatever its numbers are; `...` stands
for any lines. A command that the page shows without output must not fail.
"""
import re
import subprocess
import unittest
from pathlib import Path

from docs.book import pages
from grading.machine import Run
from qemu.machine import FINISHED, ROOT, Machine

PROMPT = "callsite# "
Step = tuple[str, list[str]]  # a command, and what is shown of what it prints


def blocks(text: str) -> list[list[Step]]:
    """The page's blocks of commands."""
    found: list[list[Step]] = []
    open_block = False
    for _, line, is_prose in pages.prose(text):
        line = line.removeprefix("    ")
        if is_prose:
            open_block = False
        elif line.startswith(PROMPT):
            if not open_block:
                found.append([])
            open_block = True
            found[-1].append((line.removeprefix(PROMPT), []))
        elif open_block:
            found[-1][-1][1].append(line)
    return found


def plain(line: str) -> str:
    """Without what differs from run to run, and from one build to the next."""
    return re.sub(r"\s+", " ", re.sub(r"0x[0-9a-f]+|[0-9a-f]{16}|\d+(\.\d+)?|[0-9a-f]*\d[0-9a-f]*", "0", line)).strip()


class Transcripts:
    arch: str

    def test_what_the_pages_show_is_what_the_kernel_prints(self) -> None:
        image = ROOT / "build" / self.arch / FINISHED / "Image"
        subprocess.run(["make", "--no-print-directory", "-s", "-C", ROOT, f"ARCH={self.arch}", image.relative_to(ROOT), "build/initrd.cpio"],
                       check=True)
        held = 0
        for page in sorted(Path(ROOT / "docs").glob("*.md")):
            for number, block in enumerate(blocks(page.read_text()), 1):
                held += 1
                with self.subTest(page=page.name, block=number):  # type: ignore[attr-defined]
                    self.hold(Machine(self.arch, smp=2, image=image, initrd=ROOT / "build/initrd.cpio"), block)
        self.assertGreater(held, 15, "blocks of commands")  # type: ignore[attr-defined]

    def hold(self, machine: Machine, block: list[Step]) -> None:
        with Run(machine, ROOT / f"build/tests/transcript-{self.arch}.log") as run:
            run.console.wait_ready(60)
            for command, shown in block:
                printed = run.console.command(command, 60)
                lines = {plain(line) for line in printed.splitlines()}
                wrong = [line for line in shown if line.strip() and line.strip() != "..." and plain(line) not in lines]
                self.assertEqual(wrong, [], f"{command}: this is not printed, but:\n{printed[:2000]}")  # type: ignore[attr-defined]
                if not shown:
                    self.assertNotRegex(printed, r"\(E[A-Z]+\)$|unknown command", command)  # type: ignore[attr-defined]
            run.power_off()


class OnRiscv64(Transcripts, unittest.TestCase):
    arch = "riscv64"


class OnArm64(Transcripts, unittest.TestCase):
    arch = "arm64"


if __name__ == "__main__":
    unittest.main()
