"""The sandbox of one submission: a command that sees the toolchain and what is named, no other file, no network, and none of the host's
processes. In this sandbox make runs the compiler in a second one (kern/ftrace/tools/walls.py), and QEMU runs with a filter of system calls.

All that a command starts is in one process namespace: when bubblewrap ends, the host's kernel ends all of it, and run() waits for that.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kern.ftrace.tools.walls import memory as in_memory

SYSTEM = ("/bin", "/sbin", "/lib", "/lib64", "/usr", "/etc/alternatives", "/etc/ld.so.cache", "/etc/debian_version")
NOBODY = 65534
LOOK = 0.5  # seconds between two looks at the memory
JOB = b"grading.classroom.one"  # the module's name on a job's command line; the next word is OUT
PATIENCE = 300  # seconds for the end of processes that are killed
QEMU_SANDBOX = "-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny"


class NoWalls(Exception):
    """The sandbox cannot be made; the message says why. That is never a student's fault."""


@dataclass(frozen=True)
class Limits:
    seconds: int  # of the clock, for all
    file: int  # bytes of each file that is written, and of the output
    processes: int = 512
    memory: int = 6 << 30  # bytes of addresses, for each process; QEMU's translated code takes most of it
    together: int = 2 << 30  # bytes of memory, for all processes


@dataclass(frozen=True)
class Came:
    status: int | None  # None: it was ended, because a limit was reached
    output: bytes
    errors: bytes
    over: str = ""  # which limit ended it
    memory: int = 0  # bytes that its processes had at most, as far as was seen


def words(sees: Iterable[Path | str], writes: Iterable[Path | str], settings: dict[str, str], at: Path | str) -> list[str]:
    """The words before a command that run it in the sandbox. A path of `sees` that is a symbolic link is the same link in there; one that does not exist is
    left out. Raises NoWalls if bubblewrap is not installed."""
    if not shutil.which("bwrap"):
        raise NoWalls("bwrap is not installed: type make setup")
    command = ["bwrap", "--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY), "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
               "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--clearenv", "--proc", "/proc", "--dev", "/dev", "--size", str(256 << 20), "--tmpfs", "/tmp"]
    for path in (*SYSTEM, *map(str, sees)):
        if os.path.exists(path):
            command += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
    for path in map(str, writes):
        command += ["--bind", path, path]
    for name, value in {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/tmp", **settings}.items():
        command += ["--setenv", name, value]
    return [*command, "--remount-ro", "/", "--chdir", str(at), "--"]


def run(command: list[str], sees: Iterable[Path | str] = (), writes: Iterable[Path | str] = (), *, limits: Limits, at: Path | str = "/",
        settings: dict[str, str] | None = None) -> Came:
    """Run a command in a sandbox, and wait until every process that it started has ended. Raises NoWalls if the sandbox cannot be made, or a process does not end."""
    within = ["prlimit", f"--nproc={limits.processes}", f"--fsize={limits.file}", "--core=0", f"--as={limits.memory}", *command]
    with in_memory() as output, in_memory() as errors, in_memory() as state:
        outer = words(sees, writes, settings or {}, at)
        outer[1:1] = ["--json-status-fd", str(state.fileno())]
        process = subprocess.Popen([*outer, *within], stdin=subprocess.DEVNULL, stdout=output, stderr=errors, pass_fds=[state.fileno()])
        over, memory = "", 0
        try:
            until = time.monotonic() + limits.seconds
            while not over and (status := _waited(process)) is None:
                memory = max(memory, _memory(process.pid))
                over = (f"it took more than {limits.seconds} seconds" if time.monotonic() > until else
                        f"it had more than {limits.together >> 20} MiB of memory" if memory > limits.together else "")
        finally:  # a signal, too, ends it
            _end(process, state)
        for file in (state, output, errors):
            file.seek(0)
        status_lines = state.read()
        ended = Came(status, output.read(limits.file), errors.read(limits.file), over, memory)
        if status and b"exit-code" not in status_lines:  # bubblewrap reports the program's end; without that the message is its own
            raise NoWalls(f"the walls cannot be built: {ended.errors[:500].decode(errors='replace').strip()}")
    return ended


def _waited(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(LOOK)
    except subprocess.TimeoutExpired:
        return None


def _memory(process: int) -> int:
    """
    The bytes of memory that a process and all that it started have. In a process namespace even those whose parent has ended are children of its first process.

    A limit of the host's (a cgroup) would need systemd or root; this one is looked at every LOOK seconds, and needs neither.
    """
    at = Path(f"/proc/{process}")
    try:
        own = sum(int(kib) << 10 for kib in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB", (at / "status").read_text(), re.M))
        children = [int(child) for task in (at / "task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:
        return 0  # it has just ended
    return own + sum(map(_memory, children))


def running(out: Path) -> list[int]:
    """The processes of jobs in OUT: those that grade a submission (one.py), which remove its folder at the end, and those within the sandbox."""
    out, found = out.resolve(), []
    mark = f"{out}/tmp/job-".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
            words = line.split(b"\0")
            grades = words[words.index(JOB) + 1] if JOB in words[:-1] else b""
            if mark in line or grades and (process / "cwd" / os.fsdecode(grades)).resolve() == out:
                found.append(int(process.name))
        except OSError:
            pass  # it has just ended
    return found


def await_ends(out: Path, seconds: float) -> None:
    """Wait until the jobs of an earlier run in OUT have ended, which may have lost its parallel just now. Raises NoWalls if they go on for so long."""
    until = time.monotonic() + seconds
    while found := running(out):
        if time.monotonic() > until:
            raise NoWalls(f"process {found[0]} of an earlier run's job does not end")
        time.sleep(0.1)


def _end(process: subprocess.Popen[bytes], state: IO[bytes]) -> None:
    """
    End bubblewrap, if it has not ended, and the first process of the namespace. Wait for the end of the first process: by then the host's
    kernel has ended all others in the namespace.

    The first process ends with bubblewrap (--die-with-parent) only after it has built the walls. So it gets a SIGKILL of its own. bubblewrap
    writes its process number into @state before it lets the process begin.
    """
    until = time.monotonic() + PATIENCE
    while not (found := re.search(rb'"child-pid": (\d+)\D', os.pread(state.fileno(), 1 << 16, 0))) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    try:
        first = os.pidfd_open(int(found[1])) if found else -1
    except ProcessLookupError:
        first = -1
    if first >= 0 and process.poll() is None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(first, signal.SIGKILL)
    process.kill()
    process.wait()
    gone = first < 0 or bool(select.select([first], [], [], PATIENCE)[0])
    if first >= 0:
        os.close(first)
    if not gone:
        raise NoWalls(f"a process of the sandbox does not end: {found[1].decode() if found else ''}")
