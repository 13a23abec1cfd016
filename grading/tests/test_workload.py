"""The seeded workload: properties for every seed, and the host's generator compared with the
program itself."""

from __future__ import annotations

import bisect
import os
import platform
import random
import re
import subprocess
import tempfile
import unittest
from fnmatch import filter as matching
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from grading.session.session import filters
from grading.stimulus import workload
from grading.stimulus.workload import ExpectedCall, OpChanges, ExpectedRun
from kern.tests import app_host

SEEDS = 1000
CPUS = [1, 2, 3, 4, 5, 6, 7, 8]


def fan_out(calls: list[ExpectedCall]) -> int:
    """The greatest number of calls that one call makes."""
    widest, path = 0, [0] * 64
    for call in calls:
        path[call.depth] = 0
        path[call.depth - 1] += 1
        if call.depth > 1:
            widest = max(widest, path[call.depth - 1])
    return widest


def made(calls: list[ExpectedCall]) -> set[tuple[str, str]]:
    return {(call.maker, call.function) for call in calls}


class EverySeed(unittest.TestCase):
    """Properties of a thousand random trees on four CPUs, and of some on other numbers of CPUs."""

    runs: list[ExpectedRun]

    @classmethod
    def setUpClass(cls) -> None:
        rng = random.Random(1)
        cls.runs = [workload.expect(rng.getrandbits(64), 4) for _ in range(SEEDS)]
        cls.runs += [
            workload.expect(rng.getrandbits(64), CPUS[i % 8]) for i in range(200)
            if CPUS[i % 8] != 4
        ]

    def each_context(self) -> list[tuple[str, list[ExpectedCall]]]:
        return [
            (f"seed {run.seed:016x} on {run.cpus} CPUs, {name}", calls)
            for run in self.runs
            for name, calls in run.contexts.items()
            if name != "main"
        ]

    def test_no_two_seeds_give_the_same_tree(self) -> None:
        runs = [run for run in self.runs if run.cpus == 4]
        trees = {
            hash(
                tuple((n, c.function, c.caller) for n, calls in run.contexts.items()
                      for c in calls))
            for run in runs
        }
        self.assertEqual((len(runs), len(trees)), (SEEDS, SEEDS))

    def test_as_many_calls_as_the_page_says(self) -> None:
        for run in self.runs:
            more = 150 * max(0, run.cpus - 4)
            # each thread's budget is rounded down
            self.assertIn(run.calls - more, range(603 - run.cpus, 1203), run.line)

    def test_every_cpu_has_a_thread_and_an_interrupt(self) -> None:
        for run in self.runs:
            self.assertEqual(len(run.contexts), 1 + 2 * run.cpus)
            self.assertTrue(all(run.contexts.values()))

    def test_depth_of_8(self) -> None:
        for where, calls in self.each_context():
            self.assertGreaterEqual(max(c.depth for c in calls), 8, where)

    def test_depth_is_bounded(self) -> None:
        """The calls fit on a thread's stack of 16 KiB, which interrupts use too."""
        for where, calls in self.each_context():
            self.assertLessEqual(max(c.depth for c in calls), 16, where)

    def test_three_children(self) -> None:
        for where, calls in self.each_context():
            inner = [c._replace(depth=c.depth - 1) for c in calls if c.depth > 1]
            self.assertGreaterEqual(fan_out(inner), 3, where)

    def test_direct_and_mutual_recursion_and_a_tail_call(self) -> None:
        for where, calls in self.each_context():
            edges = made(calls)
            self.assertTrue(any(a == b for a, b in edges), where)
            self.assertTrue(any((b, a) in edges for a, b in edges if a != b), where)
            self.assertTrue(any(c.tail for c in calls), where)
            self.assertTrue(all(c.maker.startswith("wl_tail_") for c in calls if c.tail), where)

    def test_a_tail_calls_parent_never_is_who_made_it(self) -> None:
        for where, calls in self.each_context():
            self.assertFalse(any(c.caller.startswith("wl_tail_") for c in calls if c.tail), where)

    def test_every_function_is_called(self) -> None:
        for run in self.runs:
            called = {c.function for calls in run.contexts.values() for c in calls}
            self.assertEqual(called, set(workload.FUNCTIONS), run.line)

    def test_a_filter_has_a_glob_and_names_and_functions_that_are_left_out(self) -> None:
        kernel: Any = SimpleNamespace(sites=[
            SimpleNamespace(function=SimpleNamespace(name=name)) for name in workload.FUNCTIONS])
        for seed in range(SEEDS):
            chosen = filters(kernel, seed)[1]
            glob, *names = chosen.filter.split()
            by_glob = set(matching(workload.FUNCTIONS, glob))
            self.assertTrue(by_glob & chosen.names, seed)
            self.assertTrue(set(names) - by_glob and set(names) & chosen.names, seed)
            self.assertTrue(by_glob - chosen.names, seed)


class Received(unittest.TestCase):
    """The arguments that the host computes for each function."""

    def calls(self, changes: OpChanges = OpChanges()) -> list[ExpectedCall]:
        run = workload.expect(0x0123456789ABCDEF, 2, changes)
        return [call for calls in run.contexts.values() for call in calls]

    def test_every_function_of_the_tree_its_value(self) -> None:
        for call in self.calls():
            if call.function != workload.WIDE:
                self.assertEqual(call.received, (call.x,) if call.function in workload.TREE else (),
                                 call)

    def test_the_wide_one_all_that_its_result_follows_from(self) -> None:
        same, added = ([
            call for call in self.calls(OpChanges({workload.WIDE: add}))
            if call.function == workload.WIDE
        ] for add in (0, 5 << 60 | 3))
        for call in (*same, *added):
            self.assertEqual(len(call.received), len(workload.PASSED[workload.WIDE]))
        self.assertEqual([call.received[0] for call in added],
                         [(call.x + (5 << 60 | 3)) & workload.MASK for call in added])
        self.assertEqual([call.received[0] for call in same], [call.x for call in same])

    def test_what_ops_change(self) -> None:
        changes = OpChanges({"wl_leaf_ash": 3, "wl_step_brook": 4},
                            {"wl_step_brook": "wl_leaf_ash"})
        calls = self.calls(changes)
        for call, following in zip(calls, calls[1:]):
            if call.function == "wl_leaf_ash":
                self.assertEqual(call.received, ((call.x + 3) & workload.MASK,))
            elif call.function == "wl_step_brook":
                self.assertEqual((call.received, following.function, following.x),
                                 ((), "wl_leaf_ash", (call.x + 4) & workload.MASK))


class Program:
    """Run kern/apps/workload.c on the host. Returns its output and its calls."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.path = app_host.build("workload", app_host.TRACE, folder)
        symbols = subprocess.run(["nm", str(self.path)], capture_output=True, text=True, check=True)
        table = sorted(
            (int(line.split()[0], 16), line.split()[2])
            for line in symbols.stdout.splitlines()
            if len(line.split()) == 3 and line.split()[1] in "tT"
        )
        self.addresses, self.names = [a for a, _ in table], [n for _, n in table]

    def name(self, address: str) -> str:
        name = self.names[bisect.bisect_right(self.addresses, int(address, 16)) - 1]
        return "app_main_workload" if name == "app_main" else name

    def run(self, seed: int, cpus: int) -> tuple[str, dict[str, list[tuple[str, str, int, int]]]]:
        env = os.environ | {"HOST_CPUS": str(cpus), "HOST_LOG": str(self.log)}
        done = subprocess.run([str(self.path), f"{seed:016x}"], capture_output=True, text=True,
                              check=True, env=env)
        contexts: dict[str, list[tuple[str, str, int, int]]] = {}
        for line in self.log.read_text().splitlines():
            context, function, parent, x, room = line.split("|")
            if self.name(function).startswith("wl_"):
                event = (self.name(function), self.name(parent), int(x, 16),
                         int(room, 16) & 0xFFFFFFFF)
                contexts.setdefault(context, []).append(event)
        return done.stdout, contexts


@unittest.skipUnless(platform.machine() == "x86_64", "calls are logged on x86-64 hosts only")
class TheProgramItself(unittest.TestCase):
    """The compiled program executes exactly the calls that the host computes."""

    def test_same_calls_same_parents_same_arguments_same_result(self) -> None:
        rng = random.Random(3)
        with tempfile.TemporaryDirectory() as folder:
            program = Program(Path(folder))
            for i in range(200):
                seed, cpus = rng.getrandbits(64), CPUS[i % 8]
                self.compare(workload.expect(seed, cpus), *program.run(seed, cpus))

    def compare(self, run: ExpectedRun, printed: str,
                executed: dict[str, list[tuple[str, str, int, int]]]) -> None:
        self.assertEqual(printed, run.line + "\n")
        self.assertEqual(set(executed), set(run.contexts))
        for name, calls in run.contexts.items():
            expected = [(c.function, c.caller) for c in calls]
            self.assertEqual([e[:2] for e in executed[name]], expected, f"{run.line}, {name}")
            arguments = [(c.x, c.room) for c in calls if c.function in workload.TREE]
            seen = [e[2:] for e in executed[name] if e[0] in workload.TREE]
            self.assertEqual(seen, arguments, f"{run.line}, {name}")

    def test_a_bad_seed_is_refused_with_a_sentence(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = app_host.build("workload", app_host.SANITIZE, Path(folder))
            bad: list[list[str]] = [[], ["12"], ["0123456789abcdeg"], ["00112233445566778"],
                                    ["0x23456789abcdef"], ["0" * 16, "x"]]
            for words in bad:
                done = subprocess.run([str(program), *words], capture_output=True, text=True,
                                      check=False)
                self.assertEqual((done.returncode, done.stdout),
                                 (2, "usage: workload SEED (16 hexadecimal digits)\n"))


class TheKernelsObject(unittest.TestCase):
    """The kernel's object has jumps between functions exactly where the description has tail calls.
    """

    LINKERS = {"riscv64": "riscv64-linux-gnu-", "arm64": "aarch64-linux-gnu-"}
    JUMP = re.compile(r"\t(?:b|j|jr)\s.*<(wl_\w+)>$")

    def jumps(self, arch: str, lab: int) -> set[tuple[str, str]]:
        """Every pair (function, target function of a jump) of the linked object."""
        made = f"build/{arch}/lab{lab}/kern/apps/workload.o"
        subprocess.run(["make", "-s", f"ARCH={arch}", f"LAB={lab}", made], cwd=app_host.ROOT,
                       check=True)
        tool = self.LINKERS[arch]
        with tempfile.NamedTemporaryFile() as elf:
            link = [
                tool + "ld", "--no-relax", "-e", "0", "--unresolved-symbols=ignore-all", "-o",
                elf.name, made
            ]
            subprocess.run(link, cwd=app_host.ROOT, check=True)
            text = subprocess.run([tool + "objdump", "-d", elf.name], capture_output=True,
                                  text=True, check=True).stdout
        found, function = set(), ""
        for line in text.splitlines():
            if line.endswith(">:"):
                function = line.split("<")[1][:-2]
            elif match := self.JUMP.search(line):
                found.add((function, match[1]))
        return found

    def test_tail_calls_are_jumps_in_both_hook_styles_and_nothing_else_is(self) -> None:
        described = {(name, target)
                     for name, (_, *targets) in workload.TAILS.items() for target in targets}
        for arch in self.LINKERS:
            for lab in (3, 4):
                self.assertEqual(self.jumps(arch, lab), described, f"{arch}, lab {lab}")


if __name__ == "__main__":
    unittest.main()
