"""What the pages and handouts type at the shell, typed: each block of a page at a kernel that has just booted.

A line that a page shows must be printed, whatever its numbers are; `...` stands
for any lines. A command that is shown without output must not fail. A block
that begins with `$ make run` names its machine; the others of a handout are the
lab's own.
"""
import re
import shlex
import subprocess
import unittest
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from docs.book import pages
from grading.machine import Run
from qemu.machine import LAST_LAB, ROOT, Machine

PROMPT = "callsite# "
NOT_TYPED = {
    ("labs/0-boot/handout.md", "collatz 27"): "a program that the student writes, and gdb",
    ("labs/5-function-graph/handout.md", "workload 0123456789abcdef"): "a kernel with a mistake",
    ("labs/6-graph-many-users/handout.md", "graph 0 see wl_leaf_elm"): "fourteen of its commands are left out",
}


@dataclass
class Block:
    """Commands in a row, each with what is shown of what it prints; and what `make run` was given."""

    words: dict[str, str]
    steps: list[tuple[str, list[str]]] = field(default_factory=list)


def blocks(text: str) -> list[Block]:
    """The page's blocks of commands."""
    found: list[Block] = []
    words: dict[str, str] = {}
    open_block = False
    for _, line, is_prose in pages.prose(text):
        line = line.removeprefix("    ")
        if is_prose or line.startswith(("$ ", "```")):
            open_block, words = False, {}
            if line.startswith("$ make run"):
                words = dict(word.split("=", 1) for word in shlex.split(line) if "=" in word)
        elif line.startswith(PROMPT):
            if not open_block:
                found.append(Block(words))
            open_block = True
            found[-1].steps.append((line.removeprefix(PROMPT), []))
        elif open_block:
            found[-1].steps[-1][1].append(line)
    return found


def page_blocks(arch: str) -> Iterator[tuple[str, int, Block]]:
    """Each page, the number of the lab whose kernel it speaks of, and a block that can be typed."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "labs").glob("*/handout.md"))]:
        name = str(path.relative_to(ROOT))
        lab = max(1, int(path.parent.name[0])) if name.startswith("labs/") else LAST_LAB
        for block in blocks(path.read_text()):
            if block.words.get("ARCH", arch) == arch and "APP" not in block.words and (name, block.steps[0][0]) not in NOT_TYPED:
                yield name, int(block.words.get("LAB", lab)), block


def plain(line: str) -> str:
    """Without what differs from run to run, and from one build to the next."""
    line = re.sub(r"^( +\d+\)) [+!#*@$] ", r"\1   ", line)  # a call that took long
    return re.sub(r"\s+", " ", re.sub(r"0x[0-9a-f]+|[0-9a-f]{16}|\d+(\.\d+)?|[0-9a-f]*\d[0-9a-f]*", "0", line)).strip()


class Transcripts:
    arch: str

    def machine(self, lab: int, block: Block) -> Machine:
        variant = f"lab{lab}" + ("-tests" if "TESTS" in block.words else "")
        image = ROOT / "build" / self.arch / variant / "Image"
        subprocess.run(["make", "--no-print-directory", "-s", "-C", ROOT, f"ARCH={self.arch}", f"LAB={lab}",
                        f"TESTS={block.words.get('TESTS', '')}", image.relative_to(ROOT), "build/initrd.cpio"], check=True)
        return Machine(self.arch, smp=int(block.words.get("SMP", 1)), image=image, initrd=ROOT / "build/initrd.cpio",
                       extra=block.words.get("QEMU_EXTRA", "").split())

    def test_what_the_pages_show_is_what_the_kernel_prints(self) -> None:
        held = 0
        for page, lab, block in page_blocks(self.arch):
            held += 1
            with self.subTest(page=page, block=block.steps[0][0]):  # type: ignore[attr-defined]
                self.hold(self.machine(lab, block), block)
        self.assertGreater(held, 25, "blocks of commands")  # type: ignore[attr-defined]

    def hold(self, machine: Machine, block: Block) -> None:
        with Run(machine, ROOT / f"build/tests/transcript-{self.arch}.log") as run:
            run.console.wait_ready(60)
            for command, shown in block.steps:
                if command == "poweroff":
                    break
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
