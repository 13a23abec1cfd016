"""Run a program that is not trusted in a sandbox: a student's, or another with a student's files.

bubblewrap shows it the files that its profile and the caller name, no other file, no network, and
none of the host's processes. Its time, memory and output are limited. All that it starts is in one
process namespace: when bubblewrap ends, the host's kernel ends all of it, and run() waits for that.

A build has the profile PROGRAM or COMPILER. A class's submission has SUBMISSION, and in its sandbox
make builds with a second one. SANDBOX=no, for a machine on which bubblewrap cannot work, leaves out
the sandbox of a build and keeps its limits: only for files of your own.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

# System calls that make a process, a connection or a namespace. An architecture need not have all.
FORBIDDEN = ("socket", "clone", "fork", "vfork", "unshare", "setns", "clone3")
NOBODY = 65534
LOOK = 0.5  # seconds between two looks at the memory
PATIENCE = 300  # seconds for the end of processes that are killed

AnyPath = str | os.PathLike[str]


class Refused(Exception):
    """It was not done; the message says why, for the person who asked for it."""


class NoWalls(Refused):
    """The sandbox cannot be made, or does not end. That is never a student's fault."""


@dataclass(frozen=True)
class Profile:
    """What a sandbox has besides the files that the caller names."""

    cannot: str  # the message where bubblewrap cannot work; {} is what bubblewrap says
    optional: bool = True  # SANDBOX=no leaves it out
    alone: bool = False  # a system call of FORBIDDEN ends it with SIGSYS
    own_user: bool = False  # root, too, gets a user namespace; the user is NOBODY
    sees: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()  # bubblewrap's words
    settings: Mapping[str, str] = field(default_factory=dict)  # of the environment


OF_A_BUILD = ("the sandbox cannot be made ({}). Code that you did not write needs another machine, "
              "or root; if you wrote the code yourself, type:  export SANDBOX=no")
PROGRAM = Profile(OF_A_BUILD, alone=True)
COMPILER = Profile(OF_A_BUILD, mounts=("--size", str(64 << 20), "--tmpfs", "/tmp"),
                   settings={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
SUBMISSION = Profile(
    "the walls cannot be built: {}", optional=False, own_user=True,
    sees=("/bin", "/sbin", "/lib", "/lib64", "/usr", "/etc/alternatives", "/etc/ld.so.cache",
          "/etc/debian_version"),
    mounts=("--proc", "/proc", "--dev", "/dev", "--size", str(256 << 20), "--tmpfs", "/tmp"),
    settings={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/tmp"})


@dataclass(frozen=True)
class Limits:
    seconds: int  # of the clock, for all
    file: int  # bytes of each file that is written, and of the output
    # bytes of addresses, for each process; QEMU's translated code takes most of it
    memory: int = 6 << 30
    processor: int | None = None  # seconds of a processor, for each process
    processes: int | None = None
    together: int | None = None  # bytes of memory, for all processes


@dataclass(frozen=True)
class Ended:
    status: int | None  # as in a shell: 128 and the signal's number; None: @over
    output: bytes
    errors: bytes
    over: str = ""  # the limit for which run() ended it
    memory: int = 0  # bytes that its processes had at most, as far as was seen


def run(command: list[str], sees: Iterable[AnyPath], limits: Limits, profile: Profile, *,
        writes: Iterable[AnyPath] = (), at: AnyPath = "/",
        settings: Mapping[str, str] | None = None) -> Ended:
    """
    Run a command in a sandbox, in the folder @at, and wait until all that it started has ended.

    @sees and @writes are at their own paths. One of @sees that is a symbolic link is the same link
    in there; one that does not exist is left out. @settings: of the environment, besides the
    profile's.

    Raises NoWalls if the sandbox cannot be made, or a process does not end.
    """
    walled = not profile.optional or os.environ.get("SANDBOX") != "no"
    # in the sandbox: outside of it others of the same user count, too
    if limits.processes is not None:
        command = ["prlimit", f"--nproc={limits.processes}", *command]
    with memory() as output, memory() as errors, memory() as seccomp, memory() as state:
        words = ["setpriv", "--pdeathsig", "KILL", *command]
        if walled:
            within = _within(profile, sees, writes, os.fspath(at),
                             {**profile.settings, **(settings or {})})
            if profile.alone:
                write_filter(seccomp)
                within += ["--seccomp", str(seccomp.fileno())]
            words = [*within, "--json-status-fd", str(state.fileno()), "--", *command]
        process = subprocess.Popen([*_limited(limits), *words], stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=errors,
                                   pass_fds=[seccomp.fileno(), state.fileno()])
        try:
            status, over, most = _await(process, limits)
        finally:  # a signal, too, ends it
            _end(process, state if walled else None)
        for file in (state, output, errors):
            file.seek(0)
        # bubblewrap reports the program's end; without that the message is its own
        began = b"exit-code" in state.read()
        ended = Ended(status, output.read(limits.file), errors.read(limits.file), over, most)
    if walled and status and not began:
        raise NoWalls(profile.cannot.format(printable(ended.errors[:500]).strip()))
    return ended


def memory() -> IO[bytes]:
    """A file in memory: what is written there is whole, however full the disk is."""
    return os.fdopen(os.memfd_create("walls"), "w+b")


def _limited(limits: Limits) -> list[str]:
    """The words before a command that limit each of its processes."""
    processor = [f"--cpu={limits.processor}"] if limits.processor is not None else []
    return ["prlimit", f"--fsize={limits.file}", "--core=0", f"--as={limits.memory}", *processor]


def _within(profile: Profile, sees: Iterable[AnyPath], writes: Iterable[AnyPath], at: str,
            settings: Mapping[str, str]) -> list[str]:
    """The words before a command that run it in the sandbox."""
    if not shutil.which("bwrap"):
        raise NoWalls("bwrap is not installed: type make setup")
    words = [
        "bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
        "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--clearenv",
        "--cap-drop", "ALL", *profile.mounts
    ]
    if profile.own_user:
        words += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    elif os.geteuid():
        words.append("--unshare-user")
    words += ["--dir", at] if at != "/" else []
    for path in dict.fromkeys(os.fspath(path) for path in (*profile.sees, *sees)):
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            words += ["--ro-bind", path, path]
    for path in [os.fspath(path) for path in writes]:
        words += ["--bind", path, path]
    for name, value in settings.items():
        words += ["--setenv", name, value]
    return [*([] if profile.own_user else _rooted()), *words, "--remount-ro", "/", "--chdir", at]


def _rooted() -> list[str]:
    """bubblewrap needs / to be a mount point, and in a chroot it is not: root can make it one."""
    with open("/proc/self/mountinfo") as mounts:
        if os.geteuid() or any(line.split()[4] == "/" for line in mounts):
            return []
    script = 'mount --rbind / /mnt && mount --make-rprivate /mnt && exec chroot /mnt "$@"'
    return ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", script, "sh"]


def write_filter(file: IO[bytes]) -> None:
    """
    Write the program for bubblewrap's --seccomp: a call of FORBIDDEN ends the process with SIGSYS,
    and so does one of the host's other tables of calls (x86-64: i386, x32).
    """
    try:
        import seccomp  # type: ignore[import]  # only recordmcount needs it
    except ImportError:
        raise NoWalls("python3-seccomp is not installed: type make setup") from None
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    rules.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    for call in FORBIDDEN:
        rules.add_rule(seccomp.KILL_PROCESS, call)
    rules.export_bpf(file)
    file.seek(0)


def _await(process: subprocess.Popen[bytes], limits: Limits) -> tuple[int | None, str, int]:
    """Wait until it ends or is over a limit: its status, the limit, the most memory that it had."""
    over, most, until = "", 0, time.monotonic() + limits.seconds
    while not over:
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(LOOK)
            return status if status >= 0 else 128 - status, "", most
        most = max(most, _memory(process.pid)) if limits.together is not None else 0
        if time.monotonic() > until:
            over = f"it took more than {limits.seconds} seconds"
        elif limits.together is not None and most > limits.together:
            over = f"it had more than {limits.together >> 20} MiB of memory"
    return None, over, most


def _memory(process: int) -> int:
    """
    The bytes of memory that a process and all that it started have. In a process namespace even
    those whose parent has ended are children of its first process.

    A limit of the host's (a cgroup) would need systemd or root; this one is looked at every LOOK
    seconds, and needs neither.
    """
    at = Path(f"/proc/{process}")
    try:
        kept = re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB", (at / "status").read_text(), re.M)
        children = [child for task in (at / "task").iterdir()
                    for child in (task / "children").read_text().split()]
    except OSError:
        return 0  # it has just ended
    return sum(int(kib) << 10 for kib in kept) + sum(_memory(int(child)) for child in children)


def _end(process: subprocess.Popen[bytes], state: IO[bytes] | None) -> None:
    """
    End bubblewrap, if it has not ended, and the first process of the namespace. Wait for the end of
    the first process: by then the host's kernel has ended all others in the namespace. Without a
    sandbox (@state is None) end the program alone.

    The first process ends with bubblewrap (--die-with-parent) only after it has built the walls. So
    it gets a SIGKILL of its own. bubblewrap writes its process number into @state before it lets
    the process begin.
    """
    number = _first(process, state) if state else 0
    try:
        first = os.pidfd_open(number) if number else -1
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
        raise NoWalls(f"a process of the sandbox does not end: {number}")


def _first(process: subprocess.Popen[bytes], state: IO[bytes]) -> int:
    """The namespace's first process, once bubblewrap has written its number; 0: it ended before."""
    until = time.monotonic() + PATIENCE
    while True:
        found = re.search(rb'"child-pid": (\d+)\D', os.pread(state.fileno(), 1 << 16, 0))
        if found or process.poll() is not None or time.monotonic() > until:
            return int(found[1]) if found else 0
        time.sleep(0.01)


def printable(data: bytes) -> str:
    return "".join(c if c in "\n\t" or c.isprintable() else "?"
                   for c in data.decode(errors="replace"))
