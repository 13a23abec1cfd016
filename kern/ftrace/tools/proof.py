#!/usr/bin/python3
"""Prove, on a linked kernel, that the tracer never traces itself.

    proof.py riscv64|arm64 callsite.elf [m.ko ...] [--rules indirect-calls]

Disassembles the kernel, starts at what call sites call (the stubs,
their islands, ftrace_caller, _mcount) and follows every call, tail call and branch. Fails,
and prints the path, if a function that can be reached has a call site, if an
indirect call is not in the rules, or if the rules name a target that does not
exist. The file of rules (indirect-calls) describes its format.

In a module it starts at every function without a call site: a callback of a module's
tracer is one of these, because the kernel refuses one that has a call site.
"""

import argparse
import bisect
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

sys.path.append(str(Path(__file__).resolve().parents[3]))
from kernel_elf import Elf  # noqa: E402
from qemu.isa import ARCHES, ISAS  # noqa: E402

ROOTS = re.compile(
    r"ftrace_stub_\d+|ftrace_island_\d+(_stub_\d+)?|ftrace_caller|_mcount|return_to_handler")

LABEL = re.compile(r"^([0-9a-f]{16}) <([^>]+)>:$")
TARGET = re.compile(r"<([^>+]+)(?:\+0x[0-9a-f]+)?>")
# A module: in a line of `objdump -dr -w`, the relocation of a call or branch, or of the auipc
# before it.
SECTION = re.compile(r"^Disassembly of section (\S+):$")
RELOCATED = re.compile(
    r"\tR?[0-9a-f]+: "
    r"R_(?:RISCV_(?:CALL|CALL_PLT|JAL|BRANCH)|AARCH64_(?:CALL26|JUMP26|CONDBR19|TSTBR14))"
    r"\t([^+\s]+)(?:\+0x([0-9a-f]+))?"
)


class Violation(Exception):
    """The kernel breaks the rule; the message is for the person who built it."""


@dataclass
class Function:
    calls: list[str] = field(default_factory=list)
    indirect: list[str] = field(default_factory=list)  # the instructions
    falls_into: Optional[str] = None
    calls_mcount: bool = False  # at its first instruction: with HOOK=mcount that is a call site


@dataclass
class CallGraph:
    functions: dict[str, Function]
    labels: set[str]  # symbols in text that are no functions
    sites: set[str]  # functions with a call site


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_guess(instruction: list[str], before: str) -> bool:
    """objdump shows a target beside a riscv64 jump through a register. Is it a guess, from a value
    that earlier code, perhaps of another function, put into the register? It is no guess if the
    instruction before is the auipc of the same register."""
    if instruction[0] not in ("jalr", "jr") or len(instruction) < 2:
        return False
    register = re.split(r"\W", instruction[1].rstrip(")"))[-1]
    return before != f"auipc {register}"


def disassemble(arch: str, elf: str) -> dict[str, Function]:
    functions: dict[str, Function] = {}
    now: Optional[Function] = None
    ended, before = True, ""
    isa = ISAS[arch]
    text = run(f"{isa.cross}objdump", "-d", "-w", "-j", ".text", "--no-show-raw-insn", elf)
    for line in text.splitlines():
        if line[:1] != " " and (label := LABEL.match(line)):
            if now and not ended:
                now.falls_into = label[2]
            now = functions.setdefault(label[2], Function())
            continue
        part = line.split(None, 3)
        if now is None or len(part) < 2 or part[0][-1] != ":":
            continue
        mnemonic, formed = part[1], before
        before = " ".join(part[1:3]).split(",")[0]
        ended = mnemonic in isa.ends
        if not isa.jumps.fullmatch(mnemonic) or (mnemonic, " ".join(part[2:])) == isa.resumes:
            continue
        if is_guess(part[1:], formed):
            line = line.partition("#")[0]
            part = line.split()
        target = TARGET.search(line)
        if target:
            now.calls.append(target[1])
            now.calls_mcount |= target[0] == "<_mcount>"
        else:
            now.indirect.append(" ".join(part[1:]))
    return functions


class Module:
    """The symbols of a module: a place is a section and an offset."""

    def __init__(self, path: Path) -> None:
        self.name, elf = path.stem, Elf(path)
        self.places = {s.name: (s.section, s.value) for s in elf.table if s.section[:4] != "SHN_"}
        self.functions: dict[tuple[str, int], list[str]] = {}
        for s in elf.table:
            if s.kind == "STT_FUNC":
                self.functions.setdefault((s.section, s.value), []).append(s.name)
        self.starts = sorted(self.functions)
        self.sites = {self.function(s.name, at) for s, at in elf.entry_places}

    def function(self, name: str, addend: int = 0) -> str:
        """The function that has the place symbol + addend; a symbol that the module does not define
        is the kernel's."""
        if name not in self.places:
            return name
        where, offset = self.places[name]
        index = bisect.bisect_right(self.starts, (where, offset + addend)) - 1
        return f"{self.name}/{self.functions[self.starts[index]][0]}"


def add_module(arch: str, path: Path, kernel: CallGraph) -> set[str]:
    """Add the functions of a module, as MODULE/FUNCTION. Return: those without a call site."""
    module, isa = Module(path), ISAS[arch]
    now, target, where = Function(), "", ""
    for line in run(f"{isa.cross}objdump", "-dr", "-w", "--no-show-raw-insn",
                    str(path)).splitlines():
        if found := SECTION.match(line):
            where = found[1]
        elif label := LABEL.match(line):
            if (where, int(label[1], 16)) in module.functions:
                now = kernel.functions.setdefault(module.function(label[2]), Function())
        elif len(part := line.split(None, 3)) > 1 and part[0][-1] == ":":
            if found := RELOCATED.search(line):
                target = module.function(found[1], int(found[2] or "0", 16))
            if isa.jumps.fullmatch(part[1]):
                if local := not target and not is_guess(part[1:], "") and TARGET.search(line):
                    target = module.function(local[1])
                now.calls += [target] if target else []
                now.indirect += [] if target else [" ".join(part[1:])]
            if part[1] != "auipc":
                target = ""
    names = {module.function(names[0]) for names in module.functions.values()}
    kernel.sites |= module.sites
    return names - module.sites


def load(arch: str, path: str) -> CallGraph:
    elf, functions = Elf(path), disassemble(arch, path)
    entries = sorted((s.value, s.name) for s in elf.table if s.kind == "STT_FUNC")
    starts = [value for value, _ in entries]
    sites = {entries[bisect.bisect_right(starts, ip) - 1][1] for ip, _ in elf.records()}
    sites |= {name for name, f in functions.items() if f.calls_mcount}
    typed = {name for _, name in entries}
    return CallGraph(functions, set(functions) - typed, sites)


@dataclass
class Rules:
    targets: dict[str, list[str]] = field(default_factory=dict)
    ends: set[str] = field(default_factory=set)
    roots: set[str] = field(default_factory=set)


def read_rules(path: Path, kernel: CallGraph) -> Rules:
    rules = Rules()
    applies = True
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        if line.startswith("with "):
            applies = line.split()[1] in kernel.functions
            continue
        caller, colon, targets = line.partition(":")
        if not colon:
            raise Violation(f"{path}:{number}: not 'caller: targets' and not 'with function'")
        if not applies:
            continue
        if caller in ("ends", "roots"):
            getattr(rules, caller).update(targets.split())
            continue
        for target in targets.split():
            if target not in kernel.functions:
                raise Violation(
                    f"{path}:{number}: {caller} may call {target}, but the kernel has no {target}")
        rules.targets.setdefault(caller, []).extend(targets.split())
    return rules


def base(name: str) -> str:
    """A function's own name: GCC calls its parts and copies name.part.0, name.cold, ..."""
    return name.split(".")[0]


def next_functions(name: str, kernel: CallGraph, rules: Rules, path: str) -> list[str]:
    function = kernel.functions[name]
    found = [call for call in function.calls if call != name]
    if function.falls_into in kernel.labels:
        found.append(function.falls_into)
    # In a function without an indirect call the rule is for a call that is patched (lab 3's
    # ftrace_call).
    permitted = rules.targets.get(base(name)) if function.indirect else rules.targets.get(name)
    if function.indirect and permitted is None:
        labels = (
            "\n  Inside of _mcount only mcount_trace, mcount_call and local labels (1:, .Lback:) "
            "may stand."
            if "_mcount" in path else "")
        raise Violation(
            "a call through a register that kern/ftrace/tools/indirect-calls does not list: "
            f"{name}: {function.indirect[0]}\n  {path}{labels}")
    return found + (permitted or [])


def prove(kernel: CallGraph, rules: Rules, callbacks: set[str] = set()) -> int:
    """The number of functions that the tracer, and callbacks of modules, can reach. Raises
    Violation if one of them has a call site."""
    stubs = [name for name in kernel.functions if ROOTS.fullmatch(name)]
    roots = sorted({*stubs, *rules.roots, *callbacks})
    if not stubs:
        raise Violation("the kernel has no trampoline: neither ftrace_caller nor _mcount")
    paths = {root: root for root in roots}
    queue = roots
    while queue:
        name = queue.pop(0)
        if name in kernel.sites:
            raise Violation(
                f"the tracer can reach {name}, which has a call site:\n  {paths[name]}\n"
                f"  Mark {name} notrace, or do not call it. If you did not write this call, the "
                f"table is wrong: a call that\n"
                "  is not to _mcount is in it (every-call-recorded, in the handout of lab 2).")
        for target in next_functions(name, kernel, rules, paths[name]):
            if target in paths or target not in kernel.functions or base(target) in rules.ends:
                continue
            paths[target] = f"{paths[name]} -> {target}"
            queue.append(target)
    return len(paths)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arch", choices=ARCHES)
    parser.add_argument("elf")
    parser.add_argument("modules", nargs="*", type=Path)
    parser.add_argument("--rules", type=Path, default=Path(__file__).parent / "indirect-calls")
    args = parser.parse_args()
    try:
        kernel = load(args.arch, args.elf)
        callbacks = {name for path in args.modules for name in add_module(args.arch, path, kernel)}
        prove(kernel, read_rules(args.rules, kernel), callbacks)
    except Violation as violation:
        print(f"proof: {args.elf}: {violation}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
