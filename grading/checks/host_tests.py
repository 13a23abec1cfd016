"""Runs a lab's host tests, linked with the student's C files, in a sandbox.

They decide what no boot reaches, such as a module exactly at the end of a call's reach. make builds
them after the kernels (labs/begun.mk). A test that is not built is lost: a file may compile for the
kernel and not for the host.

The student's code runs in the test's own process. So only a test that has printed its last line,
with as many cases as it said it would run, has passed; and a handed-in object may use only names
that the kernel's headers declare and the C library does not define, except memcpy() and its like,
and have nothing that runs before main().
"""

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from elftools.elf.elffile import ELFFile  # type: ignore[import]

from grading.checks.checks import Check
from grading.elf.elf import Kernel
from grading.elf.handed_in import Rule, declared, identifiers, rules
from grading.evidence.finding import Finding
from kern.ftrace.tools.walls import COMPILER, SUBMISSION, Ended, Limits, printable, run
from qemu.machine import ROOT

# AddressSanitizer reserves 16 TiB of addresses. A test keeps its text in a file.
LIMITS = Limits(seconds=300, processor=20, memory=1 << 45, file=256 << 20, together=1 << 30)
# AddressSanitizer reads /proc, which a class's sandbox cannot mount again; some tests run the
# assembler.
SANDBOX = replace(COMPILER, mounts=(*COMPILER.mounts, "--ro-bind", "/proc", "/proc", "--dev",
                                    "/dev"))
HEADERS = "kern/ftrace/tests/host/**/*.h"  # which take the place of an architecture's
FROM_THE_C_LIBRARY = re.compile(r"mem\w+|str\w+|v?snprintf")  # what a handed-in file may use
LONGEST = 600  # characters of a failure that are shown
SANITIZERS = ("__asan_", "__ubsan_", "__odr_asan", "_GLOBAL_OFFSET_TABLE_")  # their names
THEIR_ARRAY = re.compile(r"\.(init|fini)_array\.00099")  # one entry: AddressSanitizer's own
ARRAY = re.compile(r"\.(preinit_array|init_array|fini_array|ctors|dtors|init|fini)\b")


def passed(*names: str) -> Check:
    """The check of a rung: all cases of these host tests pass; <arch> is the architecture."""
    return lambda e: lost(e.kernel, e.lab, [name.replace("<arch>", e.arch) for name in names])


def lost(kernel: Kernel, lab: int, names: Sequence[str]) -> Finding | None:
    """A finding about the first of these host tests that does not pass."""
    return next(filter(None, (_failure(kernel, lab, name) for name in names)), None)


def built(kernel: Path, name: str) -> Path | None:
    """A host test that was built with this kernel; its objects are in the folder NAME.d beside it.
    None: it was not built."""
    places = (folder / "host" / name for folder in kernel.absolute().parents[:3])
    return next((place for place in places if place.exists()), None)


def typed(lab: int, name: str, case: str = "") -> str:
    """The line that builds and runs a host test, or one case of it."""
    staff = f" STAFF={shlex.quote(os.environ['STAFF'])}" if os.environ.get("STAFF") else ""
    one = f" --gtest_filter={shlex.quote(case)}" if case else ""
    return f"make LAB={lab}{staff} build/host/{name} && build/host/{name}{one}"


def _failure(kernel: Kernel, lab: int, name: str) -> Finding | None:
    test, case = built(kernel.path, name), ""
    if not test:
        return Finding(f"the host test {name} was not built: do your files compile for it?",
                       by_hand=typed(lab, name))
    handed_in = rules(kernel.arch)
    why = next(filter(None, (_refused(test, of, handed_in) for of in handed_in)), "")
    if not why:
        case, why = told(run([str(test), "--gtest_color=no"], [*SUBMISSION.sees, test.parent],
                             LIMITS, SANDBOX))
    return Finding(f"the host test {name}{f', {case}' if case else ''}: {why}",
                   by_hand=typed(lab, name, case)) if why else None


def told(ended: Ended) -> tuple[str, str]:
    """The first case that failed, and its first message; "" if all passed."""
    text = printable(ended.output)
    if failed := re.search(r"^\[ RUN      \] (\S+)\n((?:(?!\[ RUN|\[       OK).*\n)*?)"
                           r"\[  FAILED  \] \1", text, re.M):
        first = re.search(r"^(\S+:\d+:) Failure\n((?:(?!\S+:\d+: Failure).*\n)*)", failed[2], re.M)
        return failed[1], _short(" ".join(first.groups()) if first else failed[2])
    count = re.search(r"^\[==========\] Running (\d+) tests", text, re.M)
    if ended.status == 0 and count and text.endswith(f"\n[  PASSED  ] {count[1]} tests.\n"):
        return "", ""
    case = (re.findall(r"^\[ RUN      \] (\S+)", text, re.M) or [""])[-1]
    said = re.search(r"(^\S+: runtime error: .*|(?<=^SUMMARY: ).*)", printable(ended.errors), re.M)
    why = said[0] if said else f"it ended with status {ended.status}, before its last case"
    return case, _short(ended.over or why)


def _short(text: str) -> str:
    """As one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST].rpartition(' ')[0]} ..."


def _refused(test: Path, of: str, all_rules: dict[str, Rule]) -> str:
    """A sentence about what this handed-in object, if it is linked with the test, may not have."""
    path, rule = test.with_suffix(".d") / of, all_rules[of]
    if not path.exists():
        return ""
    with path.open("rb") as file, test.open("rb") as whole:
        elf = ELFFile(file)
        outside = {s.name: s["st_shndx"] == "SHN_UNDEF" for s in
                   ELFFile(whole).get_section_by_name(".dynsym").iter_symbols()
                   if not FROM_THE_C_LIBRARY.fullmatch(s.name)}
        for section in elf.iter_sections():
            own = THEIR_ARRAY.fullmatch(section.name) and section["sh_size"] == 8
            if ARRAY.match(section.name) and not own:
                return f"{rule.source} has a section {section.name}, which would run before main()"
        known = declared() | identifiers(*ROOT.glob(HEADERS)) | {
            name for of in all_rules.values() for name in (*of.defines, *of.refers)}
        for symbol in elf.get_section_by_name(".symtab").iter_symbols():
            name, undefined = symbol.name, symbol["st_shndx"] == "SHN_UNDEF"
            theirs = name in outside and outside[name] >= undefined
            if symbol["st_info"]["bind"] != "STB_LOCAL" and not name.startswith(SANITIZERS) and (
                    theirs or not {name, name.removesuffix("_hook")} & known):
                return (f"{rule.source} {'refers to' if undefined else 'defines'} {name}, which no "
                        "header of the kernel declares")
    return ""
