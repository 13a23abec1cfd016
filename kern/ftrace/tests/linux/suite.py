"""The suite, in a namespace of mounts and pids whose first process this is. run.py starts it."""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from fusepy import FUSE  # type: ignore[import]

from kern.ftrace.tests.linux import OURS, SUITE
from kern.ftrace.tests.linux.bridge import Bridge
from kern.ftrace.tests.linux.guest import CPUS, Guest, build
from qemu.machine import ARCHES, ROOT, Machine

EXPECTED = Path(__file__).with_name("expected.txt")
SECONDS = 300  # for a file of tests
ENDING = 10  # for the last test, when the bridge has ended
LAST_LINES = 12
FIRST_PID = 10000  # a test's pid has five digits, and so is no part of a number in a trace
UNAME = {"arm64": "aarch64"}  # what uname prints, if it is not the architecture's name
TRACING = Path("/sys/kernel/tracing")
# Programs that come first in PATH. The kernel works while a test sleeps, its machine has its own
# architecture and number of CPUs, and the host's modules are left alone.
PROGRAMS = {
    "sleep": 'echo > /proc/sys/kernel/selftest\nexec /usr/bin/sleep "$@"',
    "uname": '[ "$1" != -m ] || { echo "$MACHINE"; exit; }\nexec /usr/bin/uname "$@"',
    "nproc": f"echo {CPUS}",
    **dict.fromkeys(("ping", "usleep", "modprobe", "insmod", "rmmod"), "exit 1")
}
RESULT = re.compile(r"^\[\d+\]( \(instance\) )?.*?(?:\t\[([A-Z]+)\])?$", re.M)
# By the test's name, which is that of its file, with " (instance)" for the run in an instance:
Results = dict[str, str]
Expected = dict[str, tuple[str, str]]  # the result, and the reason if it does not pass


def expected() -> Expected:
    found: Expected = {}
    for line in EXPECTED.read_text().splitlines():
        if not line.startswith("#"):
            parts = re.fullmatch(r"(\S+(?: \(instance\))?) ([A-Z]+)(?: (.+))?", line)
            assert parts and (parts[2] == "PASS" or parts[3]), f"no result, or no reason: {line}"
            found[parts[1]] = parts[2], parts[3] or ""
    return found


def mount(*words: str | Path) -> None:
    subprocess.run(["mount", *words], check=True)


def hide_the_host() -> None:
    """Its tracing; its CPUs, which a test would take offline; and a program with which a test would
    check the suite's own scripts."""
    for line in reversed(Path("/proc/mounts").read_text().splitlines()):
        _, at, kind, *_ = line.split()
        if kind in ("tracefs", "debugfs"):
            subprocess.run(["umount", "--lazy", at], check=True)
    mount("-t", "tmpfs", "none", "/sys/devices/system/cpu")
    mount("-t", "tmpfs", "none", "/sys/kernel")
    TRACING.mkdir()
    if program := shutil.which("checkbashisms"):
        mount("--bind", "/dev/null", program)


def show_the_kernel(stage: Path) -> None:
    """Put the bridge's files where the tests look. ftracetest takes the first line of /proc/mounts
    that has the word tracefs, so the bridge's own mount must not be there any more."""
    mount("--bind", stage / "tracing", TRACING)
    mount("--bind", stage / "kernel", "/proc/sys/kernel")
    for file in (stage / "proc").iterdir():
        mount("--bind", file, Path("/proc", file.name))
    subprocess.run(["umount", stage], check=True)
    mounts = Path("/proc/mounts").read_text().splitlines()
    first = next(line for line in mounts if "tracefs" in line)
    if not first.startswith(f"tracefs {TRACING} fuse ") or any(
            line.split()[2] in ("tracefs", "debugfs") for line in mounts):
        sys.exit(f"the host's tracing is in the way of the tests: {first}")


def unmount() -> None:
    """Then the bridge ends."""
    for line in reversed(Path("/proc/mounts").read_text().splitlines()):
        if line.startswith("tracefs "):
            subprocess.run(["umount", "--lazy", line.split()[1]], check=False)


class Suite:
    """The tests on one kernel, whose files are where the tests look."""

    def __init__(self, machine: Machine) -> None:
        self._logs = OURS / machine.arch
        self._stage, programs = self._logs / "stage", self._logs / "bin"
        shutil.rmtree(self._logs, ignore_errors=True)
        for folder in (self._stage, programs):
            folder.mkdir(parents=True)
        for name, body in PROGRAMS.items():
            (programs / name).write_text(f"#!/bin/sh\n{body}\n")
            (programs / name).chmod(0o755)
        self._environment = {
            **os.environ, "PATH": f"{programs}:{os.environ['PATH']}",
            "MACHINE": UNAME.get(machine.arch, machine.arch)
        }
        self._next_pid = Path("/proc/sys/kernel/ns_last_pid").open("w")  # hidden by the bridge's
        self._guest = Guest(machine, self._logs / "console.log")

    def run(self, files: list[str]) -> Results:
        hide_the_host()
        bridge = Bridge(self._guest)
        with ThreadPoolExecutor(1) as pool:
            results = pool.submit(self._while_mounted, bridge, files)
            try:
                FUSE(bridge, str(self._stage), foreground=True, direct_io=True,
                     atomic_o_trunc=True, fsname="tracefs", entry_timeout=0, attr_timeout=0,
                     negative_timeout=0)
            finally:
                bridge.mounted.set()
            wait([results], timeout=ENDING)
            if not results.done():  # a signal has ended the bridge
                os._exit(1)  # and with this process all others of the namespace
            return results.result()

    def _while_mounted(self, bridge: Bridge, files: list[str]) -> Results:
        bridge.mounted.wait()
        try:
            show_the_kernel(self._stage)
            results: Results = {}
            for file in files or self._all_files():
                results |= self._one_file(bridge, file)
            return results
        finally:
            unmount()

    @staticmethod
    def _all_files() -> list[str]:
        tests = SUITE / "test.d"
        return sorted(str(path.relative_to(tests)) for path in tests.rglob("*.tc"))

    def _one_file(self, bridge: Bridge, file: str) -> Results:
        """Most files are one test, some are run in an instance, too."""
        self._guest.note(f"=== {file}")
        boots, folder = self._guest.boots, self.logs_of(self._logs, file)
        print(FIRST_PID, file=self._next_pid, flush=True)
        with subprocess.Popen(["./ftracetest", "-k", "-l", folder, f"test.d/{file}"], cwd=SUITE,
                              env=self._environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              start_new_session=True) as process:
            try:
                said, _ = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                said, _ = process.communicate()
        (folder / "said").write_text(said)
        results = {
            file + (instance or "").rstrip(): result or "TIMEOUT"
            for instance, result in RESULT.findall(said)
        }
        if "TIMEOUT" in results.values():
            self._guest.boot()
            bridge.forget()
        elif self._guest.boots != boots:
            results = dict.fromkeys(results, "GONE")  # the kernel has ended
        return results

    @staticmethod
    def logs_of(logs: Path, file: str) -> Path:
        return logs / file.replace("/", "-").removesuffix(".tc")


def last_lines(arch: str, test: str) -> Iterator[str]:
    """Of the test's log, which has its commands as `set -x` prints them."""
    file, _, instance = test.partition(" ")
    logs = Suite.logs_of(OURS / arch, file)
    for log in sorted(logs.glob(f"{2 if instance else 1}-*")):
        yield from log.read_text(errors="replace").splitlines()[-LAST_LINES:]


def compare(arch: str, results: Results, wanted: Expected) -> int:
    """Print each result that differs, and how many tests passed. Returns the exit status."""
    failed, tests = 0, [*wanted, *(test for test in results if test not in wanted)]
    for test in tests:
        want, reason = wanted.get(test, ("no such test", ""))
        found = results.get(test, "no result")
        if found != want:
            failed += 1
            print(f"FAIL {arch} {test}: expected {want}{f' ({reason})' if reason else ''}, "
                  f"found {found}")
            print("".join(f"     {line}\n" for line in last_lines(arch, test)), end="")
    for kind, where in (("files", False), ("runs in an instance", True)):
        of_kind = [result for test, result in results.items() if (" " in test) == where]
        print(f"{arch}: {of_kind.count('PASS')} of {len(of_kind)} {kind}: PASS")
    print(f"{len(results)} results: logs are in {OURS.relative_to(ROOT)}/{arch}/")
    print(f"{len(tests) - failed} passed, {failed} failed", flush=True)
    return int(failed > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arch", choices=ARCHES)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    results = Suite(build(options.arch)).run(options.files)
    (OURS / options.arch / "results.txt").write_text("".join(f"{test} {result}\n"
                                                            for test, result in results.items()))
    return compare(options.arch, results, {
        test: want
        for test, want in expected().items()
        if not options.files or test.split()[0] in options.files
    })


if __name__ == "__main__":
    sys.exit(main())
