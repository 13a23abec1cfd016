"""Other machines that grade a class's submissions: make grade-class HOSTS='lab1 ann@lab2:2222'.

GNU parallel runs the jobs there over ssh (--sshlogin). A worker gets the lab's tree with this
program once, and for each submission one file; it gives back one file. It grades only if a grade
follows there from the same as here: the same Python, compilers, QEMU and firmware (tree.fittings).

    python3 -m grading.classroom.workers FOLDER

runs on the worker, in its copy of the tree, before the first job and after the last one: it waits
for the end of jobs that still run in FOLDER, empties it, and prints what the machine has.
"""

import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grading.classroom import intake, one, tree
from kern.ftrace.tools.walls import NoWalls
from qemu import disk
from qemu.emulator import Unfit
from qemu.machine import ROOT

FOLDER = ".cache/callsite"  # on a worker, in the home folder of the user who logs in
PATIENCE = 600  # seconds for the end of a job whose connection has ended
AT_ONCE = 8  # workers that get the tree at the same time
# A worker that does not answer for a minute is given up; its jobs run on the others.
SSH = "-o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15 -o ServerAliveCountMax=4"
HOST = re.compile(r"((?:[\w.-]+@)?[A-Za-z0-9][\w.-]*)(?::(\d+))?")


class Refusal(Exception):
    """A worker cannot grade; the message says why."""


@dataclass(frozen=True)
class Workers:
    ssh: str
    place: str  # of the tree and of the jobs, below FOLDER
    jobs: str
    logins: list[str]  # as parallel takes them
    checks: dict[str, list[str]]  # for each host, the command that ready() begins with

    def words(self, out: Path) -> list[str]:
        """What follows parallel's own options."""
        return ["--sshlogin", ",".join(self.logins), "--transferfile", f"{out}/./todo/{{}}.json",
                "--return", "{}.tar", "--cleanup", "--workdir", f"{FOLDER}/{self.jobs}", "cd",
                f"../{self.place}", "&&", "exec", "setpriv", "--pdeathsig", "TERM", sys.executable,
                "-m", "grading.classroom.one", '"$OLDPWD"', "{}", "."]

    def left(self) -> list[str]:
        """The workers on which something may be left, and why. Of the others the jobs' folders are
        empty."""
        found = []
        for host, command in self.checks.items():
            try:
                run(command)
            except Refusal as why:
                found.append(f"{host}: {why}")
        return found

    @property
    def settings(self) -> dict[str, str]:
        return {"PARALLEL_SSH": self.ssh, "PARALLEL_SHELL": "/bin/sh"}


def run(command: list[str], data: str = "") -> str:
    """What a command prints. Raises Refusal with the last line of its messages."""
    done = subprocess.run(command, input=data, capture_output=True, text=True, errors="replace",
                          check=False, env=tree.CLEAN)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise Refusal(
            intake.printable((lines or [f"{command[0]} ended with status {done.returncode}"])[-1]))
    return done.stdout


def connection(host: str, ssh: str) -> list[str]:
    """The command that connects to a host. Raises Refusal if that is no host."""
    named = HOST.fullmatch(host)
    if not named:
        raise Refusal("a host is written  name, user@name or user@name:port")
    login, port = named.groups()
    return [*shlex.split(ssh), *(["-p", port] if port else []), login]


def ready(host: str, ssh: str, at: Path, about: dict[str, Any], place: str,
          jobs: str) -> tuple[str, list[str]]:
    """Prepare a worker. Returns its name for parallel's --sshlogin, and the command that checks it.
    Raises Refusal if it cannot grade."""
    *rsh, login = connection(host, ssh)
    run([*rsh, login, f"mkdir -p {FOLDER}/{place} {FOLDER}/{jobs}"])
    run(["rsync", "-azR", "--copy-unsafe-links", f"--rsh={shlex.join(rsh)}", f"{at}/./",
         f"{ROOT}/./grading/classroom", f"{login}:{FOLDER}/{place}/"])
    check = [*rsh, login,
             f"cd {FOLDER}/{place} && exec {sys.executable} -m grading.classroom.workers ../{jobs}"]
    has = json.loads(run(check))
    for name in tree.FITTINGS:
        if has[name] != about[name]:
            here, there = (json.dumps(of) for of in differing(about[name], has[name]))
            raise Refusal(intake.printable(f"its grades could differ from this machine's: {name} "
                                           f"is {there}, and here {here}"))
    return f"{has['processors']}/{host}", check


def differing(here: Any, there: Any) -> tuple[Any, Any]:
    """Both, or of two dictionaries the first entry that is not the same."""
    if isinstance(here, dict) and isinstance(there, dict):
        name = next(name for name in {**here, **there} if here.get(name) != there.get(name))
        return {name: here.get(name)}, {name: there.get(name)}
    return here, there


def prepare(hosts: list[str], ssh: str, out: Path, at: Path, about: dict[str, Any]) -> Workers:
    """Prepare the hosts as workers. Returns those that can grade, and prints of each of the others
    why it cannot. Raises NoWalls if none can."""
    if not shutil.which("rsync") or not shutil.which(shlex.split(ssh)[0]):
        raise NoWalls("rsync or ssh is not installed: type make setup")
    own, ssh = ssh, f"{ssh} {SSH}"
    place = f"{at.name}-{str(about['grader'])[:16]}"
    jobs = "jobs-" + hashlib.sha256(f"{platform.node()}:{out}".encode()).hexdigest()[:16]

    def asked(host: str) -> tuple[str, list[str]] | Refusal:
        try:
            return ready(host, ssh, at, about, place, jobs)
        except Refusal as why:
            return why

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(asked, hosts))
    for host, said in zip(hosts, found):
        if isinstance(said, Refusal):
            print(f"{intake.printable(host)} grades nothing: {said}", file=sys.stderr, flush=True)
    ready_ones = {host: said for host, said in zip(hosts, found) if not isinstance(said, Refusal)}
    if not ready_ones:
        first = next((shlex.join(connection(host, own)) for host in hosts if HOST.fullmatch(host)),
                     "")
        raise NoWalls(f"no host can grade. {f'Try:  {first}  and see' if first else 'See'} "
                      "docs/instructors.md, \"On many machines\"")
    return Workers(ssh, place, jobs, [login for login, _ in ready_ones.values()],
                   {host: check for host, (_, check) in ready_ones.items()})


def collect(out: Path) -> None:
    """Put the results that workers gave back into OUT/graded, each at once."""
    for path in sorted((out / "returned").glob("*.tar")):
        new = Path(tempfile.mkdtemp(prefix=".", dir=out / "returned"))
        try:
            shutil.unpack_archive(path, new)
            one.on_disk(*(new / path.stem).rglob("*"), new / path.stem)
            (out / "graded").mkdir(exist_ok=True)
            # of an attempt in which the harness failed
            shutil.rmtree(out / "graded" / path.stem, ignore_errors=True)
            (new / path.stem).rename(out / "graded" / path.stem)
        except (shutil.ReadError, tarfile.TarError, EOFError, OSError) as why:
            if disk.why(why):  # the result is whole
                shutil.rmtree(new)
                raise
            print(f"{path.name} cannot be read, and is graded again: {why}", file=sys.stderr)
        shutil.rmtree(new)
        path.unlink()


def main() -> int:
    folder = Path(sys.argv[1])
    try:
        one.await_ends(folder, PATIENCE)  # of a connection that has just ended
        shutil.rmtree(folder)
        (folder / "tmp").mkdir(parents=True)
        print(json.dumps({"processors": os.cpu_count(), **tree.fittings()}))
    except (NoWalls, Unfit) as why:
        print(why, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
