"""Lab 8: what the observer logs about probes, and what the records mean.

Hits are logged at each probed instruction, at each word of the slots, and at the program's three
functions for the observer (kern/apps/probe.c). A record has the word that is executed there and the
first three argument registers before it.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from grading.elf.elf import Kernel
from grading.machine.observer import Config, Record
from grading.truth import returns

SLOTS = 256
BEFORE, AFTER, SAID = "probe_before", "probe_after", "probe_said"
# enum said
(CALL, RESULT, COUNTS, STALE, RETURN, KRETPROBE, PATCH, REFUSED, NESTED, TRAP, TRAPPED, INSN,
 INSTANCE, MASKED, LONG, NOBODYS, CONTEXT, COUNTERS, LEFT, ENABLED, ENTERED, NEXT,
 FAR) = range(23)
SECOND_WORD, FIRST_WORD, FAULT, NO_TRAP, PLAIN_FAULT = range(5)  # enum trap
PRE, POST, TWO = range(3)  # enum how
STEPS = "probe_steps_first", "probe_steps_end"
NEW_TRACED, NEW_SECOND, SECOND = "probe_new_traced", "probe_new_second", "calls_second"
FREES, UPDATES = "kprobe_wait_and_free", "kprobe_update_point"
# with a kretprobe: their returns are logged, with the value
RETURNING = "probe_value", "probe_deep", "probe_tail", "probe_outer", "probe_left"
# Functions whose first instruction is logged, with their arguments and return address.
CALLED = ("probe_value", "probe_deep", "probe_tail", "probe_outer", "probe_exits", "probe_one",
          "probe_two", "probe_three", "probe_new_one", "probe_new_two", "probe_new_three",
          "probe_newest_one", "probe_long", "probe_new_long", NEW_TRACED, NEW_SECOND, SECOND)


def signed(value: int) -> int:
    return value - (value >> 63 << 64)


def steps(kernel: Kernel) -> range:
    """The addresses of the instructions of probe_steps."""
    return range(kernel.symbol(STEPS[0]), kernel.symbol(STEPS[1]), 4)


def slots(kernel: Kernel) -> range:
    """The addresses of the slots' words; each slot has two words."""
    return range(kernel.symbol("kprobe_slots"), kernel.symbol("kprobe_slots") + 8 * SLOTS, 4)


def own(kernel: Kernel) -> set[int]:
    """The instructions that only kern/apps/probe.c probes."""
    first = kernel.symbol("probe_trapped_first")
    return {*steps(kernel), kernel.symbol("probe_inner_first"), first, first + 4,
            on_schedule(kernel), on_schedule(kernel) + 8}


def on_schedule(kernel: Kernel) -> int:
    """The instruction of calls_traced that is probed."""
    return kernel.symbol("calls_traced") + 8


def body(kernel: Kernel, function: str) -> int:
    """The instruction after the function's call site."""
    return next((s.address + 4 for s in kernel.sites if s.function.name == function), 0)


@cache
def entered_with(kernel: Kernel, function: str) -> list[int]:
    """The instructions that are executed once in each call: from the second one after the call site
    to the first jump or the first target of one."""
    start, end = kernel.extent(function)
    site = next(s.address for s in kernel.sites if s.function.name == function)
    out = subprocess.run([f"{kernel.isa.cross}objdump", "-d", "--no-show-raw-insn",
                          f"--start-address={start:#x}", f"--stop-address={end:#x}",
                          str(kernel.path)], capture_output=True, text=True, check=True).stdout
    targets = {start + int(offset, 16)
               for offset in re.findall(rf"<{re.escape(function)}\+0x([0-9a-f]+)>", out)}
    found = list[int]()
    for address in range(site + 8, end, 4):
        if address in targets or kernel.isa.depends_on_pc(
                kernel.word(address)) or not kernel.isa.plain(kernel.word(address)):
            break
        found.append(address)
    return found


def add(kernel: Kernel, config: Config, probed: Iterable[int]) -> Config:
    """Add to the observer's configuration the addresses that probes change and execute."""
    for address in {*own(kernel), *probed}:
        config.add("hit", address)
        config.add("word", address)
    for address in slots(kernel):
        config.add("hit", address)
        config.add("word", address)
    for name in (BEFORE, AFTER, SAID):
        config.add("hit", kernel.symbol(name))
    for name in CALLED:
        config.add("hit", body(kernel, name))
    for address in {a for name in RETURNING for a in kernel.exits(name)}:
        config.add("hit", address)
    for name in ("klp_enable_patch", "klp_disable_patch", FREES, UPDATES):
        for address in (kernel.symbol(name), *returns.ends(kernel, name)):
            config.add("hit", address)
    for code in kernel.code_of(*(f"kern/ftrace/probes/{name}.c"
                                 for name in ("kprobe_hit", "kretprobe", "livepatch"))):
        config.add("order", *code)
    return config


def permitted(kernel: Kernel, probed: Iterable[int], address: int, word: int) -> bool:
    """May this address hold this word while probes are registered?"""
    if not kernel.symbol("kprobe_slots"):
        return False
    changed = {*own(kernel), *probed}
    if address in changed:
        return word in (kernel.isa.brk, kernel.word(address))
    if address not in slots(kernel):
        return False
    jump = kernel.isa.jump(address, word)
    if (address - slots(kernel).start) % 8 == 0:
        return word == kernel.isa.brk or word in {kernel.word(a) for a in changed}
    return word == kernel.isa.brk or bool(jump and jump[1] == 0 and jump[0] - 4 in changed)


# ---- calls of probe_steps -----------------------------------------------------------------

@dataclass
class StepsCall:
    """One call of probe_steps: the hits between the two calls of probe_said() before and after it.
    """

    probed: int  # 0: no instruction; 1: all of them; else the one
    how: int  # PRE, POST, TWO
    seq: int
    hits: list[Record] = field(default_factory=list)
    result: tuple[int, int] | None = None

    def is_probed(self, address: int) -> bool:
        return self.probed in (1, address)

    def has_post(self, kernel: Kernel, address: int) -> bool:
        return self.how != PRE and (self.probed != 1 or
                                    (address - steps(kernel).start) // 4 % 2 == 1)


def calls_of_steps(kernel: Kernel, hits: list[Record]) -> list[StepsCall]:
    found, going, said = list[StepsCall](), dict[int, StepsCall](), kernel.symbol(SAID)
    for r in hits:
        if r.addr == said and r.v[0] == CALL:
            found.append(StepsCall(r.v[1], r.v[2], r.seq))
            going[r.thread] = found[-1]
        elif r.addr == said and r.v[0] == RESULT and r.thread in going:
            going.pop(r.thread).result = r.v[1], r.v[2]
        elif r.thread in going:
            going[r.thread].hits.append(r)
    return found


def said(kernel: Kernel, hits: list[Record], what: int) -> Iterator[Record]:
    at = kernel.symbol(SAID)
    return (r for r in hits if r.addr == at and r.v[0] == what)
