"""A file system whose files are those of a booted kernel. Each operation is a command at the
console, as a person would type it:

    open, read              cat F; what it prints stays the same until the file is closed
    open to truncate, write echo ... > F; further writes with the same descriptor: >>
    open to append, write   echo ... >> F
    open to truncate, close > F
    mkdir, rmdir, readdir   mkdir, rmdir, ls
    read of trace_pipe      cat trace_pipe, and Ctrl-C when it is quiet

A message of the kernel's programs ends with the name of an error, "(EINVAL)". The operation fails
with that error.

Linux has other work to do beside a test. Here each write is followed by `selftest round`
(selftest.c): some functions of Linux's names are called, and a thread begins and ends.

The top folder has three others, which run.py binds to where the tests look:

    tracing/    for /sys/kernel/tracing
    kernel/     for /proc/sys/kernel: stack_tracer_enabled is the kernel's; sched_rt_runtime_us is a
                number that is kept here; a write to selftest does a round
    proc/       for files in /proc: kallsyms is the kernel's; a write to interrupts fails with EIO

A test writes its own pid to set_ftrace_pid and the like, but its process is none of the kernel's
threads. So a write of that pid to such a file writes the pid of the thread of `selftest &`, and a
read gives the test its own pid back. Nothing else is changed: `trace` has the kernel's own pids.
"""
import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event, Lock
from typing import Any, NoReturn

from fusepy import FuseOSError, Operations  # type: ignore[import]

from kern.ftrace.tests.linux.guest import Gone, Guest

ERROR = re.compile(r"^(?:[\w./-]+|shell): .*\((E[A-Z0-9]+)\)$")
WORD = re.compile(r"[\w./:=,+-]+")
PIDS = re.compile(r"set_(ftrace|event)_(notrace_)?pid$")
ROUND = "selftest round"
KERNEL = ("stack_tracer_enabled", "sched_rt_runtime_us", "selftest")
PROC = ("kallsyms", "interrupts")
HERE = ("/kernel/sched_rt_runtime_us", "/kernel/selftest", "/proc/interrupts")
LONG = 900  # characters; the kernel's shell takes lines of 1023
PIECE = 800
EVENTS_COME = 30  # seconds: a reader of trace_pipe that was killed does not end its request


@dataclass
class Handle:
    """An open file."""

    path: str
    flags: int
    truncates: bool  # the next write does
    content: str | None = None
    unread: str = ""  # of a trace_pipe

    @property
    def reads(self) -> bool:
        return self.flags & os.O_ACCMODE != os.O_WRONLY


def quoted(text: str) -> str:
    """One word for the kernel's shell."""
    if WORD.fullmatch(text) and text != "-n":
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def fail_if_refused(printed: str) -> None:
    """If the last line is a complaint, the operation fails with its error."""
    last = printed.rstrip("\n").rpartition("\n")[2]
    refused = ERROR.match(last)
    if refused:
        raise FuseOSError(getattr(errno, refused[1], errno.EIO))
    if last.startswith("shell: "):
        raise FuseOSError(errno.EINVAL)


class Bridge(Operations):  # type: ignore[misc]
    use_ns = True

    def __init__(self, guest: Guest) -> None:
        self.mounted = Event()
        self._guest = guest
        self._folders: dict[str, dict[str, bool]] = {}  # of tracing/: its names; is it a folder?
        self._open: dict[int, Handle] = {}
        self._last = 0  # number of a handle
        self._lock = Lock()
        self._runtime = "950000\n"
        self._pid = ""  # that a test wrote

    def init(self, path: str) -> None:
        self.mounted.set()

    def forget(self) -> None:
        """The machine has been booted again."""
        self._folders.clear()

    def _run(self, line: str) -> str:
        try:
            return self._guest.run(line)
        except Gone as why:
            self.forget()
            raise FuseOSError(errno.EIO) from why

    def _do(self, line: str) -> None:
        """For a command that prints nothing, unless it is refused."""
        fail_if_refused(self._run(line))

    # ---- names ----

    @staticmethod
    def _name(path: str) -> str:
        """How the kernel's shell, whose folder is /sys/kernel/tracing, names the file."""
        top, _, rest = path.strip("/").partition("/")
        return {"kernel": "/proc/sys/kernel/", "proc": "/proc/"}.get(top, "") + rest

    def _listing(self, folder: str) -> dict[str, bool]:
        with self._guest.lock:
            if folder not in self._folders:
                printed = self._run(f"ls {quoted(folder)}" if folder else "ls")
                fail_if_refused(printed)
                self._folders[folder] = {
                    name.rstrip("/"): name.endswith("/")
                    for name in printed.split("\n") if name
                }
            return self._folders[folder]

    def _is_folder(self, name: str) -> bool | None:
        """None: it does not exist."""
        if not name:
            return True
        above, _, last = name.rpartition("/")
        return self._listing(above).get(last) if self._is_folder(above) else None

    def _kind(self, path: str) -> bool | None:
        top, _, rest = path.strip("/").partition("/")
        if top == "tracing":
            return self._is_folder(rest)
        names = {"kernel": KERNEL, "proc": PROC}.get(top)
        if not rest:
            return True if names or not top else None
        return False if names and rest in names else None

    def _changed(self, under: str) -> None:
        """Folders that have this one in their path may have changed."""
        for folder in [name for name in self._folders if under in ("", *name.split("/"))]:
            del self._folders[folder]

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        folder = self._kind(path)
        if folder is None:
            raise FuseOSError(errno.ENOENT)
        now = time.time_ns()
        return {
            "st_mode": stat.S_IFDIR | 0o755 if folder else stat.S_IFREG | 0o644,
            "st_nlink": 2 if folder else 1,
            "st_mtime": now,
            "st_ctime": now,
            "st_atime": now
        }

    def readdir(self, path: str, fh: int) -> Iterator[str]:
        top, _, rest = path.strip("/").partition("/")
        yield from (".", "..")
        if top == "tracing":
            yield from self._listing(rest)
        else:
            yield from {"": ("tracing", "kernel", "proc"), "kernel": KERNEL, "proc": PROC}[top]

    def mkdir(self, path: str, mode: int) -> None:
        with self._guest.lock:
            self._changed("instances")
            self._do(f"mkdir {quoted(self._name(path))}")

    def rmdir(self, path: str) -> None:
        with self._guest.lock:
            if any(handle.reads and handle.path.startswith(path + "/")
                   for handle in list(self._open.values())):
                raise FuseOSError(errno.EBUSY)  # the kernel has no such open file
            self._changed("instances")
            self._do(f"rmdir {quoted(self._name(path))}")

    def unlink(self, path: str) -> NoReturn:
        self._do(f"rm {quoted(self._name(path))}")
        raise FuseOSError(errno.EPERM)

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        self._do(f"echo -n > {quoted(self._name(path))}")
        self._changed("")
        return self.open(path, os.O_WRONLY)

    def chmod(self, path: str, mode: int) -> None:
        pass

    def chown(self, path: str, uid: int, gid: int) -> None:
        pass

    def utimens(self, path: str, times: Any = None) -> None:
        pass

    # ---- read ----

    def open(self, path: str, flags: int) -> int:
        with self._lock:
            self._last += 1
            self._open[self._last] = Handle(path, flags, bool(flags & os.O_TRUNC))
            return self._last

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        handle = self._open[fh]
        if path.endswith("/trace_pipe"):
            return self._read_pipe(handle, size).encode("latin-1")
        if handle.content is None:
            handle.content = self._content(path)
        return handle.content[offset:offset + size].encode("latin-1")

    def _content(self, path: str) -> str:
        if path == "/kernel/sched_rt_runtime_us":
            return self._runtime
        if path in HERE:
            return ""
        if path.endswith("trace_pipe_raw"):
            raise FuseOSError(errno.EIO)  # it is binary
        printed = self._run(f"cat {quoted(self._name(path))}")
        if printed.rstrip("\n").rpartition("\n")[2].startswith("cat: "):
            fail_if_refused(printed)
        if PIDS.search(path) and self._pid:
            return re.sub(rf"^{self._guest.worker}$", self._pid, printed, flags=re.M)
        return printed

    def _read_pipe(self, handle: Handle, size: int) -> str:
        end = time.monotonic() + EVENTS_COME
        while not handle.unread and time.monotonic() < end:
            printed = self._guest.pipe(quoted(self._name(handle.path)))
            fail_if_refused(printed)
            handle.unread = printed
            if not printed:
                time.sleep(0.1)
        data, handle.unread = handle.unread[:size], handle.unread[size:]
        return data

    # ---- write ----

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """The files of tracefs have no positions: the first write truncates if open() was told to,
        all others append."""
        handle = self._open[fh]
        arrow, handle.truncates = ">" if handle.truncates else ">>", False
        text = data.decode("latin-1")
        if path == "/kernel/sched_rt_runtime_us":
            self._runtime = text
        elif path == "/kernel/selftest":
            self._do(ROUND)
        elif path == "/proc/interrupts":
            self._run(ROUND)  # the worker calls proc_reg_write
            raise FuseOSError(errno.EIO)
        elif re.search(r"[^\n -~]", text):
            raise FuseOSError(errno.EINVAL)  # it cannot be typed
        else:
            self._put(path, text, arrow)
        return len(data)

    def _put(self, path: str, text: str, arrow: str) -> None:
        if path.endswith("_events"):
            self._changed("events")  # a line makes a folder, or removes one
        if PIDS.search(path) and text.strip().isdigit():
            self._pid = text.strip()
            text = text.replace(self._pid, self._guest.worker)
        target = quoted(self._name(path))
        body = text.removesuffix("\n")
        if "\n" in body or len(body) > LONG:
            with self._guest.lock:
                self._stage(text)
                self._do(f"cat /tmp/staged {arrow} {target}; {ROUND}")
        else:
            end = "" if text.endswith("\n") and body != "-n" else " -n"
            self._do(f"echo{end}{' ' + quoted(body) if body else ''} {arrow} {target}; {ROUND}")

    def _stage(self, text: str) -> None:
        """Write a text that is too long for a line, or has several, into /tmp/staged."""
        arrow = ">"
        for line in text.splitlines(True):
            body = line.rstrip("\n")
            for at in range(0, len(body) or 1, PIECE):
                last = at + PIECE >= len(body) and line.endswith("\n")
                self._do(f"echo {'' if last else '-n '}{quoted(body[at:at + PIECE])} {arrow} "
                         "/tmp/staged")
                arrow = ">>"

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        handle = self._open.get(fh or 0)
        if handle:
            handle.truncates = True
        else:
            self._empty(path)

    def release(self, path: str, fh: int) -> None:
        handle = self._open.pop(fh, None)
        if handle and handle.truncates:
            self._empty(path)

    def _empty(self, path: str) -> None:
        if path.endswith("_events"):
            self._changed("events")
        if path not in HERE:
            self._do(f"> {quoted(self._name(path))}; {ROUND}")
