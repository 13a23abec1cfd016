"""Run a program that is not trusted in a sandbox: a student's program, or a compiler with a student's file.

bubblewrap shows it the named files, read-only, and at most one folder to write
into: no other file, no network, none of the host's processes. Its time, memory
and output are limited. SANDBOX=no, for a machine on which bubblewrap cannot
work, leaves out the sandbox and keeps the limits: only for files of your own.
"""
import os
import platform
import re
import resource
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO

# For seccomp: the host's architecture, and its system calls that make a process, a connection or a namespace.
# (x86-64: socket, clone, fork, vfork, unshare, setns, clone3)
FORBIDDEN = {"x86_64": (0xC000003E, (41, 56, 57, 58, 272, 308, 435)), "aarch64": (0xC00000B7, (198, 220, 97, 268, 435))}
LOAD, JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
KILL, ALLOW = 0x80000000, 0x7FFF0000
SCRATCH = 64 << 20  # size of /tmp, for a program that may start processes


class Refused(Exception):
    """It was not done; the message says why, for the person who asked for it."""


@dataclass(frozen=True)
class Limits:
    seconds: int  # of processor time, for each process
    patience: int  # seconds of wall-clock time
    memory: int  # bytes, for each process
    file: int  # bytes, for each file that it writes and for its output


@dataclass(frozen=True)
class Ended:
    status: int  # as in a shell: 128 and the signal's number
    printed: bytes
    said: bytes  # its standard error


def run(command: list[str], sees: Iterable[str], limits: Limits, writes: str = "", processes: bool = False) -> Ended:
    """@sees: files and folders, at their own paths; @writes: the one folder, if any; @processes: it may start other programs, and has a /tmp."""
    with memory() as out, memory() as errors, memory() as seccomp, memory() as state:
        walls = os.environ.get("SANDBOX") != "no"
        within = [*_walls(sees, writes, processes, seccomp), "--json-status-fd", str(state.fileno())]
        words = [*within, *command] if walls else ["setpriv", "--pdeathsig", "KILL", *command]
        try:
            status = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, pass_fds=[seccomp.fileno(), state.fileno()],
                                    preexec_fn=lambda: _limit(limits), timeout=limits.patience, check=False).returncode
        except subprocess.TimeoutExpired:
            status = 128 + signal.SIGXCPU
        except FileNotFoundError as missing:
            raise Refused(f"{missing.filename} is not installed: type make setup") from None
        out.seek(0)
        errors.seek(0)
        state.seek(0)
        began = b"exit-code" in state.read()  # bubblewrap reports the program's end; without that the message is bubblewrap's own
        ended = Ended(status if status >= 0 else 128 - status, out.read(), errors.read())
    if walls and status and not began and re.match(rb"(bwrap|unshare|mount|chroot): ", ended.said):
        raise Refused(f"the sandbox cannot be made ({printable(ended.said[:500]).strip()}). Code that you did not write needs another machine, or root; "
                      "if you wrote the code yourself, type:  export SANDBOX=no")
    return ended


def memory() -> IO[bytes]:
    """A file in memory: what is written there is whole, however full the disk is."""
    return os.fdopen(os.memfd_create("walls"), "w+b")


def _walls(sees: Iterable[str], writes: str, processes: bool, seccomp: IO[bytes]) -> list[str]:
    """The command that runs another in the sandbox. As root it needs no user namespace."""
    if not shutil.which("bwrap"):
        raise Refused("bwrap is not installed: type make setup")
    words = ["bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
             "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    if processes:  # first: the named files may be below /tmp
        words += ["--size", str(SCRATCH), "--tmpfs", "/tmp", "--dir", os.getcwd(), "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "LC_ALL", "C"]
    elif platform.machine() in FORBIDDEN:
        seccomp.write(filter_program())
        seccomp.seek(0)
        words += ["--seccomp", str(seccomp.fileno())]
    for path in sees:
        words += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
    if writes:
        words += ["--bind", writes, writes]
    if os.geteuid():
        words.append("--unshare-user")
    return [*_rooted(), *words, "--remount-ro", "/", "--chdir", os.getcwd() if processes else "/"]


def _rooted() -> list[str]:
    """bubblewrap needs / to be a mount point, and in a chroot it is not: root can make it one, for this command."""
    with open("/proc/self/mountinfo") as mounts:
        if os.geteuid() or any(line.split()[4] == "/" for line in mounts):
            return []
    return ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c",
            'mount --rbind / /mnt && mount --make-rprivate /mnt && exec chroot /mnt "$@"', "sh"]


def filter_program() -> bytes:
    """For seccomp: a forbidden system call ends the program with SIGSYS; so does the host's second table of calls (x86-64: from 0x40000000)."""
    audit, calls = FORBIDDEN[platform.machine()]
    tests = [(JUMP_IF_EQUAL, call) for call in calls]
    if audit == 0xC000003E:
        tests.append((JUMP_IF_AT_LEAST, 0x40000000))
    rules = [(LOAD, 0, 0, 4), (JUMP_IF_EQUAL, 1, 0, audit), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
    rules += [(test, len(tests) - at, 0, value) for at, (test, value) in enumerate(tests)]  # jump past the later tests and ALLOW
    return b"".join(struct.pack("<HBBI", *rule) for rule in [*rules, (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, KILL)])


def _limit(limits: Limits) -> None:
    for what, most in ((resource.RLIMIT_CPU, limits.seconds), (resource.RLIMIT_AS, limits.memory), (resource.RLIMIT_FSIZE, limits.file),
                       (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (most, most))


def printable(data: bytes) -> str:
    return "".join(c if c in "\n\t" or c.isprintable() else "?" for c in data.decode(errors="replace"))
