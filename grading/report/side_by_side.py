"""Grades several architectures at the same time, each in its own process, with one line of progress
for each."""

import ctypes
import multiprocessing
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from qemu import disk

Say = Callable[[str], None]
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _work(work: Callable[[str, Say], Any], arch: str, pipe: Connection) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    try:
        pipe.send(("done", work(arch, lambda text: pipe.send(("says", text)))))
    except Exception as error:  # pylint: disable=broad-except
        if said := disk.why(error):
            print(f"{arch}: {said}.", file=sys.stderr, flush=True)
        else:
            traceback.print_exc()


def run(work: Callable[[str, Say], Any], arches: list[str], console: Console) -> dict[str, Any]:
    """The results by architecture. That of a process that died is missing; it is printed why."""
    fork = multiprocessing.get_context("fork")
    says, done = dict.fromkeys(arches, "starting"), dict[str, Any]()
    pipes: dict[Any, str] = {}
    workers = []
    try:
        for arch in arches:
            ours, theirs = fork.Pipe(False)
            worker = fork.Process(target=_work, args=(work, arch, theirs), daemon=False)
            worker.start()
            workers.append(worker)
            theirs.close()
            pipes[ours] = arch
        with Live(_shown(says), console=console, transient=True, auto_refresh=False) as live:
            while pipes:
                for pipe in wait(list(pipes)):
                    _hear(pipe, pipes, says, done)
                live.update(_shown(says), refresh=sys.stdout.isatty())
        for arch, worker in zip(arches, workers):
            worker.join()
            if arch not in done and worker.exitcode and worker.exitcode < 0:
                print(f"{arch}: the process that grades it was ended by "
                      f"{signal.Signals(-worker.exitcode).name}.", file=sys.stderr, flush=True)
    finally:  # after a signal no process may be left
        for worker in workers:
            worker.terminate()
    return done


def _hear(pipe: Any, pipes: dict[Any, str], says: dict[str, str], done: dict[str, Any]) -> None:
    arch = pipes[pipe]
    try:
        kind, what = pipe.recv()
    except EOFError:
        del pipes[pipe]
        return
    if kind == "says":
        says[arch] = what
    else:
        done[arch], says[arch] = what, "judged"


def _shown(says: dict[str, str]) -> Text:
    return Text("\n".join(f"{arch}: {text}" for arch, text in says.items()), style="cyan")
