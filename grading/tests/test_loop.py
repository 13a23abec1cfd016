"""The student's commands: grade one rung, repeat a seed, gdb at the moment of a finding, the best
score, the tar to hand in."""

from __future__ import annotations

import argparse
import fcntl
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

import pexpect  # type: ignore[import]
from rich.console import Console

from grading import __main__ as program
from grading import seeds
from grading.checks import rubric
from grading.elf.elf import Kernel
from grading.evidence.evidence import Evidence
from grading.evidence.finding import Defect, Finding
from grading.machine.observer import HEADER, SLOT, Kind
from grading.report import progress, replay, report, side_by_side, submit, typed
from grading.selftest import mutants, wrong
from grading.tests.mutants import Mistake, build, forgets_an_argument, returns_at_once, wrong_kernel
from grading.tests.test_recordmcount import COMPARES
from grading.verdict import Refused
from qemu import plugin
from qemu.machine import ARCHES, ROOT
from qemu.tests.terminal import hang_up

LAB = 4
# a limit only against hanging: a boot is graded and repeated, and the host may be busy
SECONDS = 1800
UNDEFINED = {"riscv64": [0], "arm64": [0]}


def forgets_the_second_argument(kernel: Kernel) -> tuple[int, list[int]]:
    """The mutant that loses the second argument. arm64 loads the first one with the same
    instruction, and must still do so."""
    at, words = forgets_an_argument(kernel)
    return at, [0xA9407FE0] if kernel.arch == "arm64" else words  # ldp x0, xzr, [sp]


def is_undefined(name: str) -> Mistake:
    return lambda kernel: (kernel.symbol(name), UNDEFINED[kernel.arch])


def spins(name: str) -> Mistake:
    to_itself = {"riscv64": 0x0000006F, "arm64": 0x14000000}
    return lambda kernel: (kernel.symbol(name), [to_itself[kernel.arch]])


def grading(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "grading", "--lab",
                           str(LAB), *words], cwd=ROOT, text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, env={**os.environ, **environment}, check=False)


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="callsite-loop-")
        self.addCleanup(scratch.cleanup)
        self.out = Path(scratch.name)


class TestMistyped(Folder):
    """A wrong option gives an error message before anything is booted."""

    @classmethod
    def setUpClass(cls) -> None:
        build(LAB)

    def refused(self, sentence: str, *words: str, **environment: str) -> None:
        done = grading("--kernels", str(self.kernels()), "--out", str(self.out), *words,
                       **environment)
        self.assertEqual(done.returncode, 2)
        self.assertIn(sentence, done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def kernels(self) -> Path:
        for arch in ARCHES:
            if not (self.out / arch).exists():
                (self.out / arch).symlink_to(ROOT / f"build/{arch}/lab{LAB}")
        return self.out

    def test_a_rung_that_there_is_not(self) -> None:
        for rung in ("nonsense", "0", "15", "-1", ""):
            self.refused(f"RUNG={rung} is not a rung of lab 4. Its rungs are:\n   1 called\n",
                         f"--rung={rung}")

    def test_a_seed_that_is_none(self) -> None:
        for seed in ("xyz", "0123456789abcdef0", "-1", "1_0"):
            self.refused(f"REPLAY={seed} is not a seed", f"--seed={seed}")

    def test_a_number_of_cpus_of_no_grade(self) -> None:
        for smp in ("2", "0", "7", "16", "-1", "04", "four", ""):
            self.refused(f"SMP={smp}: a grade boots with 1, 3, 4, 5 or 6 CPUs", "--smp", smp)

    def test_a_schedule_that_there_is_not(self) -> None:
        changes = ", ".join(change.name for change in rubric.lab(LAB).schedules)
        for schedule in ("nonsense", "nonsense:*"):
            self.refused(
                f"SCHEDULE={schedule} is not a schedule of lab {LAB}. Its changes are: {changes}\n",
                f"--schedule={schedule}")

    def test_a_place_of_a_machine_that_is_none(self) -> None:
        for place in ("bogus", "serial:/dev/ttyS0@x", "telnet:localhost", "telnet:localhost:x"):
            self.refused(
                f"MACHINE={place} is not serial:DEVICE[@BAUD], pty:PATH, unix:PATH or "
                f"telnet:HOST:PORT\n",
                "--lab=3", "--arch=arm64", f"--machine={place}")

    def test_a_terminal_that_is_none(self) -> None:
        self.refused("GDB=1 needs a terminal", "--gdb")

    def test_a_schedule_of_two_machines(self) -> None:
        self.refused("SCHEDULE= with GDB=1 needs ARCH=riscv64 or ARCH=arm64", "--gdb",
                     "--schedule=register:*")

    def test_no_gdb(self) -> None:
        self.refused("sudo apt-get install gdb-multiarch", "--gdb", PATH="/nowhere")

    def test_another_grade(self) -> None:
        (self.out / "grade").mkdir()
        with (self.out / "grade/lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.refused("another grade writes its results into ")

    def test_no_kernel(self) -> None:
        self.refused("there is no kernel for arm64", "--arch=arm64", f"--kernels={self.out}/none")


def graded(arch: str, lost: set[str], seed: int = 5) -> report.Grade:
    """A grade in which these rungs are lost with one CPU."""
    findings: report.Findings = [{1: Finding("so") if r.name in lost else None, 4: None}
                                 for r in rubric.lab(LAB).rungs]
    return report.grade_of(arch, LAB, seed, [], findings)


class TestMoment(Folder):
    def test_a_record_that_words_follow(self) -> None:
        """The third record is the CPU's second arrival there since the line was typed."""
        e = Evidence("arm64", LAB, 1, 0, mock.Mock(), self.out / "it.log", typed=[(1, "before"),
                                                                                  (2, "workload")])
        slots = b"".join(
            SLOT.pack(kind, more, 0, 0, 0, 0, 0, 0, addr, 0, 0, 0, 0, 0) + bytes(64 * more)
            for kind, more, addr in ((Kind.START, 0, 1), (Kind.CALLBACK, 0, 2),
                                     (Kind.CALLBACK, 2, 2), (Kind.CALLBACK, 2, 2), (Kind.HIT, 0,
                                                                                    3)))
        (self.out / "it.observer").mkdir()
        (self.out / "it.observer/observer.log").write_bytes(bytes(HEADER) + slots)
        m = replay.moment(e, Finding("so", seq=5))
        self.assertEqual((m.line, m.address, m.nth, m.vcpu), ("workload", 2, 2, None))


class TestProgress(Folder):
    def remember(self, *grades: report.Grade) -> str:
        said = io.StringIO()
        best = progress.remember(list(grades), self.out / "best.json")
        progress.show(list(grades), best, Console(file=said, width=200))
        return said.getvalue()

    def test_the_best_score_stays(self) -> None:
        self.assertNotIn("best", self.remember(graded("arm64", {"filter"})))
        said = self.remember(graded("arm64", {"filter", "off"}))
        self.assertIn("best so far: 90/100 on arm64", said)
        self.assertNotIn("best", self.remember(graded("arm64", set())))
        kept = json.loads((self.out / "best.json").read_text())
        self.assertEqual(kept["lab4"]["arm64"]["points"], 100)
        self.assertEqual(len(kept["lab4"]["arm64"]["reached"]), len(rubric.lab(LAB).rungs))

    def test_the_next_rung_is_the_lowest_of_both(self) -> None:
        said = self.remember(graded("riscv64", {"parents", "live patch"}),
                             graded("arm64", {"arguments"}))
        self.assertIn("Next: arguments on arm64 (10 points)", said)
        self.assertIn("make grade LAB=4 ARCH=arm64 REPLAY=0000000000000005 RUNG=3 GDB=1\n", said)
        self.assertEqual(self.remember(graded("riscv64", set())), "")

    def test_too_little_observed_is_said_last(self) -> None:
        """It may be a consequence of what another rung's check found."""
        lost = graded("arm64", {"called", "parents"})
        lost.results[0].findings[1] = Finding("few calls", kind=Defect.TOO_LITTLE)
        report.show(lost, Console(file=(said := io.StringIO()), width=200))
        self.assertLess(said.getvalue().index("parents (1 CPU): so"),
                        said.getvalue().index("called (1 CPU): few calls"))
        self.assertRegex(said.getvalue(), r"under gdb: .* RUNG=8 GDB=1\n")
        self.assertIn("Next: parents on arm64", self.remember(lost))
        report.write_json([lost], self.out / "grade.json")
        rungs = json.loads((self.out / "grade.json").read_text())["grades"][0]["rungs"]
        self.assertEqual([r["name"] for r in rungs if r["cause"]], ["parents"])

    def test_a_rung_that_is_lost_alone_is_said(self) -> None:
        lost = graded("arm64", {"called"})
        lost.results[0].findings[1] = Finding("few calls", kind=Defect.TOO_LITTLE)
        self.assertEqual(lost.causes, [lost.results[0]])

    def test_a_file_that_is_damaged_begins_again(self) -> None:
        (self.out / "best.json").write_text("{")
        self.remember(graded("arm64", set()))
        self.assertIn("lab4", json.loads((self.out / "best.json").read_text()))


class TestTyped(Folder):
    """A line that a grade prints to be typed is taken, and asks for what it was printed for."""

    def tree(self) -> Path:
        """The sources, with folders of the staff's objects, as a student has them."""
        (self.out / "build").mkdir()
        for lab in rubric.LABS:
            for part in [*range(1, lab), *(("4.1", "4.2") if lab == 4 else ())]:
                for arch in ARCHES:
                    (self.out / f"labs/staff/{arch}/lab{lab}/{part}").mkdir(parents=True)
        host = self.out / "labs/staff" / os.uname().machine
        host.mkdir(exist_ok=True)
        (host / "recordmcount").touch()
        for name in ("Makefile", "boot", "kern", "grading", "qemu", ".ci", "docs"):
            (self.out / name).symlink_to(ROOT / name)
        for path in (ROOT / "labs").iterdir():
            (self.out / "labs" / path.name).symlink_to(path)
        shutil.copy2(ROOT / "build/.setup", self.out / "build")
        return self.out

    def printed(self, schedule: str = "", **environment: str) -> list[str]:
        """The lines of `make grade` in the report of a lost rung, with these variables of make."""
        with mock.patch.dict(os.environ, environment), io.StringIO() as said:
            lost = graded("arm64", {"arguments"}, 0xAB)
            lost.results[2].findings[4] = Finding("schedule", schedule=schedule)
            console = Console(file=said, width=80)
            report.show(lost, console)
            progress.show([lost], {"arm64": 0}, console)
            return sorted(set(re.findall(r"make grade .*", said.getvalue())))

    def typed(self, line: str) -> argparse.Namespace:
        """The options with which the line, typed in a shell, begins a grade."""
        variables = (*typed.ASKED, *typed.GIVEN)
        clean = {name: value for name, value in os.environ.items()
                 if name not in variables and not name.startswith(("MAKE", "MFLAGS"))}
        done = subprocess.run(["sh", "-c", line.replace("make ", "make -n ", 1)], cwd=self.out,
                              capture_output=True, text=True, check=True, env=clean)
        command = shlex.split(done.stdout[done.stdout.index(f"{sys.executable} -m grading"):])
        with mock.patch("sys.argv", command[2:]):
            return program.arguments()

    def test_each_kind(self) -> None:
        self.tree()
        schedule = "unregister:ftrace_shutdown+0x98:op_see"
        lines = self.printed(schedule, STAFF="2,3,4.2", SMP="4", SANDBOX="no")
        self.assertEqual([("GDB" in line, "SCHEDULE" in line) for line in lines],
                         [(False, False), (True, False), (False, True)])
        for line in lines:
            options = self.typed(line)
            self.assertEqual((options.lab, options.arch, program.seed_of(options.seed),
                              options.smp, options.staff, options.variant),
                             (LAB, ["arm64"], 0xAB, ["4"], ["4.2"], "lab4-staff234.2"))
            self.assertEqual(options.gdb, "GDB" in line)
            self.assertEqual(options.schedule, schedule if "SCHEDULE" in line else "")
            rung = program.wanted_rung(options)
            self.assertEqual(rung and rung.name, "arguments" if "RUNG" in line else None)

    def test_the_kernel_and_the_qemu_are_those_that_were_graded(self) -> None:
        """Also its tests, and the kernel that is debugged."""
        self.tree()
        (self.out / "my.c").touch()
        chosen = {"QEMU_DIR": "/opt/my qemu", "QEMU_EXTRA": "-icount shift=0"}
        for line in self.printed(TESTS="1", DEBUG="1", APP="my.c", **chosen):
            self.assertEqual(self.typed(line).variant, "lab4-tests-debug-my")
            self.assertLessEqual({f"{name}={value}" for name, value in chosen.items()},
                                 set(shlex.split(line)))

    def test_those_of_the_pages_and_handouts(self) -> None:
        self.tree()
        pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("labs/*/handout.md"), ROOT / "README.md",
                 ROOT / "labs/student.md"]
        lines = {" ".join(re.sub(r"\s{2,}#.*", "", line).split()): page for page in pages
                 for line in re.findall(r"`(make (?:grade|submit) [^`]+)`|"
                                        r"^(?:    |\$ )(?:\s*again: )?(make (?:grade|submit) .+)$",
                                        page.read_text(), re.M)
                 for line in line if line}
        self.assertGreater(len(lines), 25)
        for line, page in lines.items():
            if re.search(r"\.\.\.|LAB=n|=NAME", line):  # the reader fills it in
                continue
            with (self.subTest(line=line, page=page.name),
                  mock.patch.object(replay, "needs"),  # a terminal
                  mock.patch.object(program, "lock", side_effect=Begins)):
                options = self.typed(line)
                options.make = None
                self.assertRaises(Begins, program.refuse, options)

    def test_the_programs_that_a_page_for_instructors_names(self) -> None:
        """Begun, up to the arguments: names may not follow an option that takes several words."""
        found = []
        for name, words in re.findall(r"-m grading\.selftest\.(wrong|mutants) (.*)",
                                      (ROOT / "docs/instructors.md").read_text()):
            with mock.patch("sys.argv", [name, *shlex.split(words.partition("  #")[0])]):
                given = wrong.arguments() if name == "wrong" else mutants.arguments()
            found.append((given.lab, given.arch, given.names))
        self.assertEqual(found, [([1], list(ARCHES), ["return-address-lost"]),
                                 ([4], ["riscv64"], ["publish_op: smp_wmb();"]),
                                 ([6], ["arm64"], ["order"])])

    def test_words_that_a_shell_would_change(self) -> None:
        self.tree()
        board = {"MACHINE": "serial:/dev/ttyUSB0", "POWER": "pdu outlet 3",
                 "UBOOT": "dhcp; bootefi $a", "UBOOT_PROMPT": "=> "}
        for line in self.printed("unregister:*", **board):
            options = self.typed(line)
            self.assertEqual([options.machine, options.power, *options.uboot, options.uboot_prompt],
                             [*board.values()])
            self.assertEqual(options.schedule, "unregister:*" if "SCHEDULE" in line else "")

    def test_with_the_staffs_objects(self) -> None:
        self.tree()
        with mock.patch.dict(os.environ, {"ARCH": "arm64", "SEED": "ab", "RUNG": "one CPU"}):
            options = self.typed(typed.with_staff(LAB, "2,3"))
        self.assertEqual((options.arch, options.seed, options.rung, options.variant),
                         (["arm64"], "ab", "one CPU", "lab4-staff23"))


    def test_a_student_of_a_class_has_another_qemu(self) -> None:
        with (mock.patch.object(typed, "GIVEN", typed.GIVEN),
              mock.patch("sys.argv", ["grading.seeds", "arm64", str(self.out), ""])):
            seeds.main()
            lines = self.printed(STAFF="2,3", QEMU_DIR="/opt/qemu", QEMU_EXTRA="-sandbox on")
        self.assertIn(" STAFF=2,3", lines[0])
        self.assertNotIn("QEMU", "".join(lines))

    def test_a_part_of_the_wrong_solutions_again(self) -> None:
        choices: list[list[str]] = [["--lab", "3", "--arch", "arm64"], ["--arch", "arm64"], []]
        for chosen in choices:
            words = ["--part", "--seed", "17"]
            with (mock.patch("sys.argv", ["wrong", *chosen, *words]), io.StringIO() as said,
                  mock.patch.multiple(wrong, run=mock.DEFAULT, end=mock.DEFAULT),
                  redirect_stdout(said)):
                wrong.main()
                line = said.getvalue().partition("again: ")[2].rstrip(")\n")
            done = subprocess.run(["sh", "-c", line.replace("make ", "make -n ", 1)], cwd=ROOT,
                                  capture_output=True, text=True, check=True)
            self.assertIn(["-m", "grading.selftest.wrong", *chosen, *words],
                          [command.split()[1:] for command in done.stdout.splitlines()])

    def test_a_submit_is_typed_again_as_a_submit(self) -> None:
        def said(lab: int, _: list[str], __: list[str], command: str) -> str:
            return typed.with_staff(lab, "2", command)

        with (mock.patch.object(program, "as_handed_out", side_effect=said),
              mock.patch("sys.argv", ["grading", "--lab", "4", "--submit"]),
              self.assertRaisesRegex(Refused, "^make submit LAB=4 .*STAFF=2")):
            program.refuse(program.arguments())


class Begins(Exception):
    """Nothing spoke against the grade."""


class TestSubmit(Folder):
    def test_the_tar_has_the_labs_files_and_nothing_else(self) -> None:
        for lab in rubric.LABS:
            with tarfile.open(submit.write(lab, self.out)) as tar:
                self.assertEqual(tuple(tar.getnames()), rubric.lab(lab).files)
                for entry in tar:
                    data = tar.extractfile(entry)
                    assert data
                    self.assertEqual(data.read(), (ROOT / entry.name).read_bytes())
                    self.assertEqual((entry.mtime, entry.uid, entry.uname, entry.mode),
                                     (0, 0, "", 0o644))

    def test_a_file_that_is_missing_is_named(self) -> None:
        with mock.patch.object(submit, "ROOT", self.out), self.assertRaises(Refused) as raised:
            submit.write(LAB, self.out)
        self.assertIn("kern/ftrace/arm64/caller.S", str(raised.exception))
        self.assertFalse((self.out / "lab4.tar").exists())


class TestSideBySide(unittest.TestCase):
    def test_one_that_dies_takes_no_other_along(self) -> None:
        def work(arch: str, say: Callable[[str], None]) -> str:
            say("begins")
            if arch == "arm64":
                os._exit(3)
            return arch.upper()

        with Console(file=io.StringIO()) as console:
            self.assertEqual(side_by_side.run(work, list(ARCHES), console), {"riscv64": "RISCV64"})


class OnWrongKernels(Folder):
    lab = LAB

    @classmethod
    def setUpClass(cls) -> None:
        build(cls.lab)

    def kernel(self, arch: str, name: str, mistake: Mistake) -> Kernel:
        kernel = wrong_kernel(arch, name, mistake, LAB)
        (self.out / arch).symlink_to(kernel.path.parent)
        return kernel

    def words(self, arch: str, smp: int, *more: str) -> list[str]:
        return [
            "--lab",
            str(self.lab), "--arch", arch, "--smp",
            str(smp), "--seed", "0123456789abcdef", "--kernels",
            str(self.out), "--out",
            str(self.out), *more
        ]


class TestReplay(OnWrongKernels):
    def test_the_same_seed_types_the_same_lines_and_finds_the_same(self) -> None:
        self.kernel("arm64", "argument", forgets_an_argument)
        seen = []
        for _ in range(2):
            self.assertEqual(grading(*self.words("arm64", 1)).returncode, 1)
            judged = json.loads((self.out / "grade.json").read_text())["grades"][0]
            typed = re.findall(r"callsite# (.*)",
                               (self.out /
                                f"grade/arm64-lab{LAB}-1cpu.log").read_text(errors="replace"))
            seen.append((typed, [(r["name"], r["points"], r["boots"]) for r in judged["rungs"]]))
        self.assertEqual(seen[0], seen[1])

    def test_a_kernel_that_is_built_meanwhile_is_not_graded(self) -> None:
        """It is replaced when the grade has begun to build the observer, which it does after it has
        taken its copies."""
        self.kernel("arm64", "meanwhile", returns_at_once("function_trace_call"))

        def replace(arch: str) -> None:
            for name in ("callsite.elf", "Image"):
                (self.out / arch / name).unlink()
                (self.out / arch / name).symlink_to(ROOT / f"build/{arch}/lab{LAB}/{name}")
            plugin.build(arch)

        with mock.patch("sys.argv",
                        ["grading", *self.words("arm64", 1, "--rung=6")]), mock.patch.object(
                            program, "plugin", build=replace), redirect_stdout(io.StringIO()):
            self.assertEqual(program.main(), program.EXIT_FAIL)

    def test_one_rung_is_judged_alone(self) -> None:
        self.kernel("arm64", "no-event", returns_at_once("function_trace_call"))
        self.assertEqual(grading(*self.words("arm64", 1, "--rung=arguments")).returncode, 0)
        self.assertEqual(grading(*self.words("arm64", 1, "--rung=6")).returncode, 1)
        judged = json.loads((self.out / "grade.json").read_text())["grades"][0]
        self.assertEqual([r["name"] for r in judged["rungs"]], ["one CPU"])
        self.assertFalse((self.out / "best.json").exists())


class UnderGdb(OnWrongKernels):
    def stopped(self, arch: str, smp: int, *more: str) -> pexpect.spawn:
        gdb = pexpect.spawn(sys.executable,
                            ["-m", "grading", *self.words(arch, smp, "--gdb", *more)],
                            cwd=str(ROOT), encoding="utf-8", codec_errors="replace",
                            timeout=SECONDS, echo=False, dimensions=(50, 250),
                            env={**os.environ, "TERM": "dumb"})
        self.addCleanup(hang_up, gdb)
        gdb.delaybeforesend = None
        gdb.expect_exact("(gdb) ")
        self.said = gdb.before.replace("\r", "")
        return gdb

    def ask(self, gdb: pexpect.spawn, line: str) -> str:
        gdb.sendline(line)
        gdb.expect_exact("(gdb) ")
        return str(gdb.before)


class TestUnderGdb(UnderGdb):
    """make grade GDB=1 stops at the moment of the finding."""

    def at(self) -> tuple[str, int]:
        found = re.search(
            r"\nThis is during 'workload [0-9a-f]+', when .* at (\w+)\S* \((0x[0-9a-f]+)\) for "
            r"time \d+\.\n",
            self.said)
        assert found, self.said
        return found[1], int(found[2], 16)

    def test_an_argument_stops_where_it_is_received(self) -> None:
        for arch, smp in (("riscv64", 4), ("arm64", 1)):
            with self.subTest(arch=arch):
                self.kernel(arch, "second", forgets_the_second_argument)
                gdb = self.stopped(arch, smp)
                function, address = self.at()
                self.assertTrue(function.startswith("wl_"), function)
                self.assertIn(f"{address:#x}", self.ask(gdb, "p/x $pc"))
                self.assertIn(f"{function} (", self.ask(gdb, "bt"))

    def test_an_event_that_is_not_printed_stops_at_its_call_site(self) -> None:
        kernel = self.kernel("riscv64", "no-event", returns_at_once("function_trace_call"))
        gdb = self.stopped("riscv64", 1, "--rung=one CPU")
        _, address = self.at()
        self.assertIn(address, kernel.site_at)
        self.assertIn(f"{address:#x}", self.ask(gdb, "p/x $pc"))

    def test_a_site_that_is_not_restored_stops_where_it_is_executed(self) -> None:
        kernel = self.kernel("arm64", "no-nop", returns_at_once("ftrace_make_nop"))
        gdb = self.stopped("arm64", 4, "--rung=off")
        function, address = self.at()
        self.assertIn(address, kernel.site_at)
        self.assertRegex(self.ask(gdb, f"callsites {function}"), r"-> stub \d+|-> list")

    def test_a_panic_is_held(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch):
                self.kernel(arch, "undefined", is_undefined("ftrace_make_call"))
                gdb = self.stopped(arch, 1)
                self.assertIn("The kernel has ended by a panic", self.said)
                self.assertIn(
                    "This is during 'echo function > current_tracer', before the machine ends.",
                    self.said)
                stack = re.findall(r"^#\d+ .*?(\w+) \(", self.ask(gdb, "bt"), re.M)
                for function in ("die", "exception_vector", "ftrace_make_call",
                                 "current_tracer_set", "thread_start_asm"):
                    self.assertIn(function, stack)

    def test_what_never_comes_back_is_stopped_where_it_is(self) -> None:
        self.kernel("arm64", "spins", spins("ftrace_make_call"))
        gdb = self.stopped("arm64", 1, "--budget=200000000")
        self.assertRegex(
            self.said,
            r"This is during 'echo function > current_tracer', when no prompt has come for \d+ "
            r"seconds\."
        )
        self.assertIn("ftrace_make_call", self.ask(gdb, "bt"))

    def test_what_runs_for_ever_is_shown_and_no_interrupt(self) -> None:
        for arch, smp in (("riscv64", 1), ("arm64", 4)):
            with self.subTest(arch=arch):
                self.kernel(arch, "leaf", spins("wl_leaf_elm"))
                gdb = self.stopped(arch, smp, "--budget=200000000")
                self.assertRegex(
                    self.said,
                    r"This is during 'workload \w+', when no prompt has come for \d+ seconds\.")
                self.assertRegex(self.ask(gdb, "bt 3"), r"^#0 .*wl_leaf_elm \(.*\n#1 .*wl_")

    def test_a_schedule_is_played_up_to_where_its_cpus_are_held(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch):
                (self.out / arch).symlink_to(ROOT / f"build/{arch}/lab{LAB}")
                kernel = Kernel(self.out / arch / "callsite.elf", arch)
                gdb = self.stopped(arch, 4, "--schedule=unregister:*:op_see")
                found = re.search(
                    r"CPU 0 runs 'op 0 off' and is at (\S+) \(gdb's thread 1\); CPU 1 calls "
                    r"calls_traced and is at op_see \(thread 2\)\.\n"
                    r"Next in the schedule: CPU 0 continues until unregister_ftrace_function "
                    r"returns",
                    self.said)
                assert found, self.said
                name, _, offset = found[1].partition("+")
                for cpu, address in ((0, kernel.address_of(name) + int(offset, 16)),
                                     (1, kernel.symbol("op_see"))):
                    self.ask(gdb, f"thread {cpu + 1}")
                    self.assertIn(f"{address:#x}", self.ask(gdb, "p/x $pc"))
                self.ask(gdb, "console")
                self.assertIn("\nalive", self.ask(gdb, "console echo alive").replace("\r", ""))

    def test_a_rung_that_is_reached_has_no_moment(self) -> None:
        self.kernel("arm64", "right", lambda kernel: (kernel.text[0], []))
        gdb = pexpect.spawn(sys.executable,
                            ["-m", "grading", *self.words("arm64", 1, "--gdb", "--rung=life")],
                            cwd=str(ROOT), encoding="utf-8", timeout=SECONDS,
                            env={**os.environ, "TERM": "dumb"})
        gdb.expect(pexpect.EOF)
        gdb.wait()
        gdb.close()
        self.assertIn("life is reached: there is no moment at which to stop.", gdb.before)
        self.assertEqual(gdb.exitstatus, 0)


class TestManyUsersUnderGdb(UnderGdb):
    lab = 6

    def test_a_stale_frame_stops_in_the_handler_that_must_not_be_told(self) -> None:
        stale = wrong.Wrong(6, rubric.LABS[6] / "wrong/stale-handler-called.edit")
        wrong.prepare(6)
        for arch in ARCHES:
            with self.subTest(arch=arch):
                self.assertEqual(wrong.build(stale, arch), "")
                (self.out / arch).symlink_to(wrong.scratch(6, arch) / f"build/{arch}/lab6")
                gdb = self.stopped(arch, 1, "--rung=leaving")
                stack = re.findall(r"^#\d+ .*?(\w+) \(", self.ask(gdb, "bt"), re.M)
                self.assertLess(stack.index("hand_return"), stack.index("ftrace_graph_return"))
                self.assertIn("return_to_handler", stack)


class TestByHand(Folder):
    """A rung lost on the host has no moment in a kernel: GDB=1 says so, and prints the command that
    repeats it."""

    def test_a_recordmcount_that_does_not_sort_is_done_again_by_hand(self) -> None:
        build(2)
        source = (ROOT / "kern/ftrace/tools/recordmcount.c").read_text()
        self.assertIn(COMPARES, source)
        (self.out / "wrong.c").write_text(source.replace(COMPARES, "return 0;"))
        for arch in ARCHES:
            with self.subTest(arch=arch):
                (self.out / arch).mkdir()
                for name in ("callsite.elf", "Image"):
                    (self.out / arch / name).symlink_to(ROOT / f"build/{arch}/lab2/{name}")
                subprocess.run([
                    "gcc", "-O1", "-static", "-o", self.out / arch / "recordmcount",
                    self.out / "wrong.c"
                ], check=True)
                words = [
                    "--lab=2", f"--arch={arch}", "--smp=1", f"--kernels={self.out}",
                    f"--out={self.out}", "--rung=sorted", "--gdb"
                ]
                gdb = pexpect.spawn(sys.executable, ["-m", "grading", *words], cwd=str(ROOT),
                                    encoding="utf-8", timeout=SECONDS, dimensions=(50, 250))
                gdb.expect([pexpect.EOF, "\\(gdb\\) "])
                said, status = gdb.before.replace(
                    "\r", ""), gdb.wait() if gdb.after is pexpect.EOF else None
                hang_up(gdb)
                self.assertIn("sorted was lost by your program on this host", said)
                self.assertEqual(status, 1)
                again = re.findall(rf"^(?:by hand: +)?(\S*python3 .*/{arch}-lab2-entries\.elf)$",
                                   said, re.M)
                self.assertEqual(len(again), 2, said)
                done = subprocess.run(again[1], shell=True, cwd=ROOT, text=True,
                                      capture_output=True, check=True)
                self.assertEqual(done.stdout,
                                 (self.out / f"grade/{arch}-lab2-entries.S").read_text())
                table = re.findall(r"\.quad (\w+)", done.stdout)
                self.assertNotEqual(table, sorted(table, key=lambda n: int(n, 0)))


if __name__ == "__main__":
    unittest.main()
