"""A module is loaded and removed, step by step: it is stopped before each step, while another CPU
calls it, returns to it, or changes tracers.

The mover is the thread that loads or removes the module. It is stopped at a step by a breakpoint;
then its registers are exchanged, so that it calls steps_park(), as if an interrupt had preempted it
there, and afterwards they are put back. steps_park() (module_steps_kt.c) lets the actor, a thread
on the other CPU, do its action, and returns when the action has ended, or waits for a lock that the
mover holds. The kernel checks each round; this file decides what the mover's result must be, and
where it must wait.
"""
from __future__ import annotations

import os
import re
import subprocess
import unittest
from collections import Counter
from typing import NamedTuple
from zlib import crc32

from grading.elf.elf import Kernel
from grading.machine.gdbstub import PC, QemuError, Stub
from grading.machine.machine import Run
from grading.stimulus.schedules import stepping
from grading.truth.returns import calls_to
from grading.verdict import Stopped
from qemu.machine import FINISHED, ROOT, Machine

# 1, as in make soak: every action at every step, near and far
EVERY = int(os.environ.get("EVERY", "2"))
AGAIN = 4  # a function is a step of its own this many times
STORES = 2  # and a store
LOCKS = 9  # and mutex_lock()
EBUSY = -16
MOVER = 1  # its CPU
GRACE = 4  # a grace period that asks so often in vain does not end
LONGEST = 30.0  # seconds for the way from one stop to the next
REGISTERS = {"riscv64": (10, 1), "arm64": (0, 30)}  # the first argument, the return address
HOW = {
    1: "done", 2: "waits for module_lock", 3: "waits for ftrace_lock",
    4: "begun while all CPUs are stopped"
}
SOURCES = [
    "kern/loader/module.c", "kern/loader/ksym_tables.c", "kern/loader/names.c",
    "kern/ftrace/modules/ftrace_module.c", "kern/ftrace/core/table.c", "kern/ftrace/core/patch.c"
]
OWN = ("mt_steps_init", "mt_steps_made", "mt_steps_exit")
# Each of these functions is a step, and they come in this order.
ORDER = {
    "load": ("module_elf_open", "module_memory_alloc", "module_elf_copy", "module_resolve",
             "module_elf_resolve", "module_elf_relocate", "module_set_params",
             "module_name_functions", "ftrace_module_prepare", "module_memory_protect",
             "text_alias_add", "arch_sync_all", "module_elf_close", "ksym_add", "synchronize_sched",
             "ftrace_module_enable", "ftrace_add_table", "ftrace_batch_begin", "ftrace_make_call",
             "ftrace_batch_end", "ftrace_mod_coming", "ftrace_batch_begin", "ftrace_modify_call",
             "ftrace_batch_end", "mt_steps_init", "mt_steps_made"),
    "remove": ("file_ops_going", "stop_machine", "look_inside", "ftrace_returns_through",
               "mt_steps_exit", "stop_machine", "ftrace_module_release", "ftrace_batch_begin",
               "ftrace_make_nop", "ftrace_batch_end", "synchronize_sched", "profile_forget_modules",
               "synchronize_sched", "file_ops_forget", "stop_machine", "look_inside",
               "file_ops_end", "ksym_remove", "synchronize_sched", "module_drop_uses",
               "module_memory_free", "text_alias_remove", "mmu_unmap"),
}
# all other CPUs are stopped there
STOPPED = ("look_inside", "ftrace_returns_through", "search_frames")


class Step(NamedTuple):
    """Before this instruction, for the nth time. @named: it is the first of a function of ORDER,
    which has it n times or more."""

    address: int
    nth: int
    name: str
    named: bool

    def __str__(self) -> str:
        return self.name + (f" (time {self.nth})" if self.nth > 1 else "")


class Round(NamedTuple):
    """The stops of the mover, in order, and its result. @what: the actor's action; @action: its
    name in the kernel, where a return after the check for users is an "enter" with two stops.
    @blocked: at the last stop the mover waits for a grace period."""

    what: str
    action: str
    stops: tuple[Step, ...]
    result: int = 0
    blocked: bool = False


class OnAMachine:
    arch: str

    @classmethod
    def setUpClass(cls) -> None:
        directory = ROOT / "build" / cls.arch / f"{FINISHED}-tests"
        initrd = ROOT / f"build/{cls.arch}/initrd-tests.cpio"
        subprocess.run([
            "make", "--no-print-directory", "-s", "-C",
            str(ROOT), f"ARCH={cls.arch}", "TESTS=1",
            str(initrd.relative_to(ROOT)), *(str((directory / name).relative_to(ROOT))
                                             for name in ("Image", "callsite.map"))
        ], check=True)
        cls.kernel = kernel = Kernel(directory / "callsite.elf", cls.arch, any_name=True)
        machine = Machine(cls.arch, 2, image=directory / "Image", initrd=initrd)
        cls.run_ = cls.enterClassContext(
            Run(machine, ROOT / f"build/tests/module-steps-{cls.arch}.log"))
        cls.run_.console.wait_ready(60)
        places = re.findall(r"^([01]) (\w+) ([0-9a-f]+)$",
                            cls.run_.console.command("kt_modsteps where"), re.M)
        cls.places = tuple({name: int(at, 16)
                            for which, name, at in places if which == far} for far in "01")
        cls.stores = set(stepping(kernel, SOURCES))
        cls.begin, cls.park, cls.parked, cls.changed, cls.sleep, cls.end = map(
            kernel.symbol,
            ("steps_change", "steps_park", "steps_parked", "steps_changed", "sleep_ns", "kt_end"))
        # in its loop; the compiler may have inlined yield()
        cls.waiting = max(call for function in ("yield", "__schedule")
                          for call in calls_to(kernel, function,
                                               kernel.extent("synchronize_sched")))

    # ---- The machine is stopped between two of these ----

    def to(self, *places: int) -> int:
        """All CPUs run until the mover is about to execute one of these, or the kernel's command
        ends (returns 0)."""
        stub, wanted = self.stub, {*places, self.end}
        for place in self.breakpoints - wanted:
            stub.breakpoint(place, False)
        for place in wanted - self.breakpoints:
            stub.breakpoint(place, True)
        self.breakpoints = wanted
        while True:
            for cpu in range(2):
                at = stub.pc(cpu)
                while at in wanted and stub.pc(cpu) == at:
                    stub.step_one(cpu)
            stub.go_on_with(range(2))
            if not stub.stopped(LONGEST):
                stub.hold()
                self.fail(
                    f"{self.doing}: nobody goes on; the CPUs are at "
                    f"{' and '.join(self.name(stub.pc(cpu)) for cpu in range(2))}"
                )
            pcs = [stub.pc(cpu) for cpu in range(2)]
            if self.end in pcs:
                return 0
            if pcs[MOVER] in places:
                return pcs[MOVER]

    def name(self, address: int) -> str:
        for places in self.places:
            for name in OWN:
                if places[name] == address:
                    return name
        return self.kernel.name_at(address)

    def wait_here(self) -> str:
        """The mover calls steps_park(). Return: what became of the action."""
        stub, (first, link) = self.stub, REGISTERS[self.arch]
        at = stub.pc(MOVER)
        before = stub.ask("g")  # of the CPU that was selected last
        stub.do(f"P{PC:x}={self.park.to_bytes(8, 'little').hex()}")
        stub.do(f"P{link:x}={at.to_bytes(8, 'little').hex()}")
        if self.to(self.parked) != self.parked:
            self.fail(f"{self.doing}: the action does not end: {self.said()}")
        how = HOW[stub.register(MOVER, first)]
        stub.do("G" + before.decode())
        return how

    def said(self) -> str:
        """The machine goes on to the end of the command, or to its own."""
        self.finish()
        try:
            self.stub.go_on()
            text = self.run_.console.wait_ready(LONGEST)
            self.stub.hold()
        except (Stopped, QemuError) as why:
            text = f"{why}\n{self.run_.console.drain(1)[-3000:]}"
        return text

    def finish(self) -> None:
        for place in self.breakpoints:
            self.stub.breakpoint(place, False)
        self.breakpoints = set()
        for cpu in range(2):
            self.stub.pc(cpu)

    # ---- Steps ----

    def steps(self, change: str, far: int) -> list[Step]:
        """The steps of a change that nobody disturbs."""
        named = {
            self.places[far].get(name) or self.kernel.symbol(name): name
            for name in ORDER[change]
        }
        self.assertNotIn(0, named,
                         "a function is not there, or the compiler has put it into another")
        left = {
            **{a: STORES
               for a in self.stores}, **{a: AGAIN
                                         for a in named},
            self.kernel.symbol("mutex_lock"): LOCKS
        }
        found, seen = [], Counter()
        self.doing = f"{change}, undisturbed"
        with self.run_.held() as self.stub:
            self.breakpoints = set()
            self.run_.console.begin(f"taskset -c 0 kt_modsteps {change} none {far} 1")
            self.assertEqual(self.to(self.begin), self.begin)
            while (at := self.to(*(a for a in left if seen[a] < left[a]),
                                 self.changed)) not in (0, self.changed):
                seen[at] += 1
                found.append(
                    Step(at, seen[at], self.name(at),
                         seen[at] <= ORDER[change].count(named.get(at, ""))))
            self.finish()
        self.assertIn("1 passed, 0 failed", self.run_.console.wait_ready(60))
        order = iter(step.name for step in found)
        for name in ORDER[change]:
            self.assertTrue(
                name in order,
                f"{change}: {name} does not come, or comes too early: {', '.join(map(str, found))}")
        return found

    def parts(self, change: str, steps: list[Step]) -> tuple[int, int, int]:
        """The numbers of the first and the last step at which all CPUs are stopped, and of the
        module's exit."""
        if change == "load":
            return -1, -1, -1
        stopped = [n for n, s in enumerate(steps) if s.name == "look_inside"]
        return stopped[0], stopped[-1], [s.name for s in steps].index("mt_steps_exit")

    # ---- Rounds ----

    def rounds(self, change: str, steps: list[Step], n: int) -> list[Round]:
        """The actions that are possible at step n."""
        check, last, leave = self.parts(change, steps)
        step, can = steps[n], [Round(a, a, (steps[n],)) for a in ("batch", "filter", "read")]
        again = Step(self.sleep, 1, "sleep_ns", False)  # rmmod waits until the actor has left
        if change == "load":
            both = [Round("call", "call", (step,)), Round("return", "return", (step,))]
            known = EVERY == 1 or n >= [s.name for s in steps].index("ksym_add")
            # before, nothing of it can be called
            return can + (both if known else both[n % 2:][:1])
        if step.name.partition("+")[0] in STOPPED:
            return can
        if n >= last:
            return can + [Round("call", "find", (step,))]
        can.append(Round("call", "call", (step,)))
        if n < check:
            return can + [
                Round("enter", "enter", (step,), EBUSY),
                Round("run", "run", (step,), EBUSY),
                Round("tail", "tail", (step,), EBUSY),
                Round("return", "return", (step,))
            ]
        if n > leave:
            can.append(Round("return", "enter", (steps[leave], step)))
        return can + [Round("enter", "enter", (step, again)),
                      Round("run", "run", (step, again))] + [
                          Round("tail", "tail", (step, again))
                          for _ in range(n <= [s.name
                                               for s in steps].index("ftrace_module_release"))
                      ]

    def spins(self, change: str, steps: list[Step]) -> list[Round]:
        """The actor enters a callback before the nth grace period, which must wait for it."""
        graces = [n for n, step in enumerate(steps) if step.name == "synchronize_sched"]
        first = next(
            n for n, s in enumerate(steps)
            if s.name == ("mt_steps_exit" if change == "remove" else "module_memory_protect"))
        begins = [first, *(n + 1 for n in graces[:-1])]
        return [
            Round("spin", "spin", (steps[b], steps[g]), 0, True) for b, g in zip(begins, graces)
        ]

    def reach(self, round_: Round, wanted: Step, passed: Counter[int]) -> None:
        while passed[wanted.address] < wanted.nth:
            at = self.to(*(stop.address for stop in round_.stops), self.changed)
            if at in (0, self.changed):
                self.fail(f"{self.doing}: the mover does not come to {wanted}: {self.said()}")
            passed[at] += 1

    def blocked(self) -> None:
        """The mover is at a grace period, which does not end."""
        self.to(self.waiting)
        for _ in range(GRACE):
            at = self.to(self.waiting, self.changed, *self.stores)
            if at != self.waiting:
                self.fail(
                    f"{self.doing}: the grace period ended while a callback ran: {self.name(at)} "
                    f"is reached: {self.said()}"
                )

    def one(self, round_: Round) -> str:
        passed, hows = Counter[int](), list[str]()
        if self.to(self.begin) != self.begin:
            self.fail(f"{self.before}: {self.said()}")
        for stop in round_.stops:
            self.reach(round_, stop, passed)
            if round_.blocked and hows:
                self.blocked()
            hows.append(self.wait_here())
        if any("stopped" in how for how in hows) and round_.action in ("call", "enter", "return"):
            self.fail(
                f"{self.doing}: interrupts are masked there, which this test does not expect: "
                f"{self.said()}"
            )
        return hows[0]

    def play(self, change: str, action: str, far: int, rounds: list[Round]) -> list[str]:
        hows, self.doing = list[str](), ""
        try:
            with self.run_.held() as self.stub:
                self.breakpoints = set()
                self.run_.console.begin(
                    f"taskset -c 0 kt_modsteps {change} {action} {far} {len(rounds)}")
                for round_ in rounds:
                    self.before, self.doing = (
                        self.doing,
                        f"{change} {'far' if far else 'near'}, {round_.what} at "
                        f"{', '.join(map(str, round_.stops))}"
                    )
                    hows.append(self.one(round_))
                self.finish()
        except Stopped as why:
            self.fail(f"{self.doing}: {why}")
        said = self.run_.console.wait_ready(60)
        results = [int(n) for n in re.findall(r"^round \d+: (-?\d+)", said, re.M)]
        self.assertIn("1 passed, 0 failed", said, self.doing)
        self.assertEqual([(str(r.stops), r.result) for r in rounds],
                         [(str(r.stops), n) for r, n in zip(rounds, results)], said)
        return hows

    def chosen(self, change: str) -> list[list[Round]]:
        """Near and far. A function's step has every second action, near or far; a store has one,
        mutex_lock() two; if EVERY is 1, all have all."""
        steps, chosen = [self.steps(change, far)
                         for far in range(2)], [list[Round](), list[Round]()]
        self.planned = {str(step) for which in steps for step in which}
        for far in range(2):
            others = {str(step) for step in steps[1 - far]}
            for n, step in enumerate(steps[far]):
                can, number = self.rounds(change, steps[far], n), crc32(str(step).encode())
                if step.name == "mutex_lock" and EVERY > 1:
                    can = can[:2]  # what was locked before may be free: batch and filter
                elif EVERY > 1:
                    can = can[number // 2 % 2::2] if step.named else can[number // 2 %
                                                                         len(can)::len(can)]
                chosen[far] += [round_ for k, round_ in enumerate(can)
                                if EVERY == 1 or str(step) not in others or (number + k) % 2 == far]
            chosen[far] += self.spins(change, steps[far])
        return chosen

    def all(self, change: str) -> None:
        done, hows, chosen = set[str](), Counter[str](), self.chosen(change)
        for far in range(2):
            for action in sorted({round_.action for round_ in chosen[far]}):
                rounds = [round_ for round_ in chosen[far] if round_.action == action]
                hows.update(f"{round_.what} {how}"
                            for round_, how in zip(rounds, self.play(change, action, far, rounds)))
                done |= {str(stop) for round_ in rounds for stop in round_.stops}
        print(
            f"{self.arch}, {change}: {len(done & self.planned)} of {len(self.planned)} steps x "
            f"{len({how.split()[0] for how in hows})} actions, "
            f"{sum(hows.values())} rounds: " + ", ".join(f"{how} {count}"
                                                         for how, count in sorted(hows.items())),
            flush=True)
        self.assertEqual(self.planned - done, set(), "steps without any action")

    def test_load(self) -> None:
        self.all("load")

    def test_remove(self) -> None:
        self.all("remove")


class TestRiscv64(OnAMachine, unittest.TestCase):
    arch = "riscv64"


class TestArm64(OnAMachine, unittest.TestCase):
    arch = "arm64"


if __name__ == "__main__":
    unittest.main()
