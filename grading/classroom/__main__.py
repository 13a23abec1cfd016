"""Grade a class: many submissions of one lab, code that is not trusted, with one command.

    make grade-class LAB=3 IN=handed-in OUT=graded [JOBS=2] [SEED=..] [HOSTS='lab1 ann@lab2:2222']

IN holds one folder, tar, zip or git repository for each student, or what Gradescope, Moodle, Canvas
or GitHub Classroom lets you download, unpacked. Of each, the files that labs/<n>-<name>/rubric.toml
names are taken, nothing else. Every submission is built and graded on both architectures with the
same two seeds, in a process and a sandbox of its own. A rung counts if it is reached with both
seeds; one that is reached with one seed only makes the result flaky, and you should look at it.
After an error of the harness, which is never a score, the submission is graded again, at most
twice. With HOSTS the submissions are graded on these machines, over ssh.

OUT holds class.csv, index.html, feedback for each student, and more (docs/instructors.md). You can
end the command at any time, with Ctrl-C for example; type it again, and it grades what is not
graded yet. What was graded with another grader, other seeds or other files stays in OUT/graded.
"""

import argparse
import base64
import hashlib
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from jsonschema import Draft202012Validator  # type: ignore[import]

from grading.checks import rubric
from grading.classroom import intake, late, layouts, likeness, one, pages, results, tree, workers
from grading.classroom.intake import Taken, printable
from grading.classroom.layouts import Submission
from grading.machine.machine import ended_by_signals
from kern.ftrace.tools import walls
from kern.ftrace.tools.walls import NoWalls
from qemu import disk
from qemu.emulator import Unfit
from qemu.machine import ARCHES, ROOT

SEEDS = 2
RETRIES = 3  # of a submission for which the harness failed
SCHEMA = Path(__file__).with_name("result.schema.json")


@dataclass(frozen=True)
class Entry:
    """One student, with what was taken and what came of it."""

    submission: Submission
    taken: Taken
    key: str


class Arguments(argparse.ArgumentParser):
    """What is wrong is said in one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"grade-class: {re.sub('^argument [^ ]+: (?=[A-Z]+=)', '', message)}\n")


T = TypeVar("T")


def given(name: str, read: Callable[[str], T], like: str) -> Callable[[str], T]:
    """Reads an argument as @read does, which raises ValueError; the message then shows one that is
    right."""
    def reads(text: str) -> T:
        try:
            return read(text)
        except (ValueError, OverflowError) as why:
            raise argparse.ArgumentTypeError(
                f"{name}={printable(text)} is not understood: write for example {name}={like}"
            ) from why
    return reads


def positive(text: str) -> int:
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def load(text: str) -> str:
    """As GNU parallel takes it, but not 0, with which it would start nothing."""
    if not re.fullmatch(r"\d+(\.\d+)?%?", text) or not float(text.rstrip("%")):
        raise ValueError(text)
    return text


def command(text: str) -> str:
    """A command's words, as a shell reads them."""
    if not shlex.split(text):
        raise ValueError(text)
    return text


def arguments() -> argparse.Namespace:
    parser = Arguments(prog="grading.classroom", description=__doc__,
                       formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", type=int, required=True, choices=sorted(rubric.LABS))
    parser.add_argument("--in", type=Path, required=True, dest="handed_in", metavar="IN",
                        help="the folder with what the students handed in")
    parser.add_argument("--out", type=Path, required=True,
                        help="the folder for the results; it may be there already")
    parser.add_argument("--jobs", type=given("JOBS", positive, "4"),
                        help="the number of submissions that are graded at the same time on each "
                        "host; default: its number of processors")
    parser.add_argument(
        "--seed", help="the number that both seeds follow from; default: that of OUT, or a new one")
    parser.add_argument("--tag", default="",
                        help="of a repository: the commit with this tag, not the newest")
    parser.add_argument(
        "--before", type=given("BEFORE", late.until, "'2030-02-01 23:59'"), metavar="TIME",
        help="of a repository: the last commit before this time, written like a deadline")
    parser.add_argument("--alone", action="store_true", help="IN is one submission, for a platform "
                        "that calls a program for each; the results are in OUT/students/submission")
    parser.add_argument("--prepare", action="store_true", help="grade nothing: write the jobs to "
                        "OUT/todo and their names to OUT/todo/keys, for a cluster. Type the same "
                        "command without it to grade what is left")
    parser.add_argument("--late",
                        type=given("LATE", late.policy, "'10%/day, at most 50%, after 15 minutes'"),
                        metavar="POLICY", help="what lateness costs, with --deadline: '10%%/day', "
                        "'5%%/hour, at most 50%%, after 15 minutes'")
    parser.add_argument("--deadline", type=given("DEADLINE", late.until, "'2030-02-01 23:59'"),
                        metavar="TIME", help="2030-02-01 23:59, with a time zone or in this "
                        "machine's; a date alone is the end of that day")
    parser.add_argument(
        "--load", type=given("LOAD", load, "80%"),
        help="start no submission while the load is higher: 80%%, 1.5 (see parallel --load)")
    parser.add_argument(
        "--hosts", default="",
        help="grade on these machines, over ssh: names, user@name or user@name:port")
    parser.add_argument("--ssh", type=given("SSH", command, "'ssh -F file'"), default="ssh",
                        help="the command for a connection: 'ssh -F file'")
    options = parser.parse_args()
    if bool(options.late) != bool(options.deadline):
        parser.error("LATE and DEADLINE belong together: write for example LATE=10%/day "
                     "DEADLINE='2030-02-01 23:59'")
    return options


def manifest_before(options: argparse.Namespace) -> dict[str, Any]:
    """The manifest of the run before in OUT, or an empty one. Raises NoWalls if that run graded
    another lab."""
    path = options.out / "manifest.json"
    try:
        before: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    except (OSError, ValueError) as why:
        raise NoWalls(f"{path} cannot be read: {why}") from why
    if before and before.get("lab") != options.lab:
        raise NoWalls(f"OUT={printable(str(options.out))} has the results of lab "
                      f"{before.get('lab')}: name another folder for lab {options.lab}")
    return before


def seeds(options: argparse.Namespace) -> list[str]:
    """The seeds of all submissions: of --seed, or of the run before, or new ones."""
    before = manifest_before(options)
    if not options.seed and before:
        return list(before["seeds"])
    first = options.seed or f"{secrets.randbits(64):016x}"
    return [hashlib.sha256(f"{first} {n}".encode()).hexdigest()[:16] for n in range(SEEDS)]


def key_of(manifest: dict[str, Any], taken: Taken) -> str:
    files = [f"{name}\0".encode() + data for name, data in sorted(taken.files.items())]
    return tree.digest(json.dumps(manifest, sort_keys=True).encode(), taken.why.encode(), *files)


def take(options: argparse.Namespace, manifest: dict[str, Any],
         found: layouts.Class) -> list[Entry]:
    wanted = tree.written(options.lab)
    # with its time zone: git is in a sandbox, which has none
    before = options.before.isoformat() if options.before else ""
    entries = []
    for submission in found.submissions:
        taken = Taken(missing=list(wanted),
                      refused=submission.refused) if submission.refused else intake.taken(
                          submission.path, wanted, options.tag, before)
        entries.append(Entry(submission, taken, key_of(manifest, taken)))
    return entries


def possible(lab: int) -> int:
    return len(ARCHES) * sum(rung.points for rung in rubric.lab(lab).rungs)


def result_of(options: argparse.Namespace, key: str) -> dict[str, Any]:
    """The result of this key. If there is none, or it cannot be read, returns a harness error: the
    tables of the class are written all the same."""
    path = options.out / "graded" / key / "result.json"
    try:
        whole: dict[str, Any] = json.loads(path.read_text())
        if errors := sorted(
                Draft202012Validator(json.loads(SCHEMA.read_text())).iter_errors(whole), key=str):
            raise ValueError(f"it is not what {SCHEMA.name} says: {errors[0].message[:200]}")
        return whole
    except (OSError, ValueError) as why:
        full = disk.lacks(options.out) if not path.exists() else ""
        return one.without_grade(key, options.lab, possible(options.lab), one.HARNESS, full
                                 or f"there is no result in {path}: {why}")


def usable(options: argparse.Namespace, key: str) -> bool:
    """Is there a result, and no harness error?"""
    return bool(result_of(options, key)["state"] != one.HARNESS)


def write_jobs(options: argparse.Namespace, manifest: dict[str, Any], entries: list[Entry],
               at: Path) -> list[str]:
    """A file in OUT/todo for each result that is missing; what cannot be graded has its result at
    once. Returns the jobs' keys."""
    shutil.rmtree(options.out / "todo", ignore_errors=True)
    (options.out / "todo").mkdir(parents=True)
    todo: dict[str, list[Entry]] = {}
    for entry in entries:
        if not usable(options, entry.key):
            todo.setdefault(entry.key, []).append(entry)
    for key, (entry, *more) in list(todo.items()):
        if entry.taken.refused or not entry.taken.files:
            state = one.REFUSED if entry.taken.refused else one.NOTHING
            one.write(options.out, key, one.without_grade(key, options.lab, possible(options.lab),
                                                          state, entry.taken.why))
            del todo[key]
            continue
        files = {name: base64.b64encode(data).decode() for name, data in entry.taken.files.items()}
        students = ", ".join(e.submission.student for e in (entry, *more))
        (options.out / "todo" / f"{key}.json").write_text(
            json.dumps({"key": key, "lab": options.lab, "seeds": manifest["seeds"], "tree": str(at),
                        "files": files, "possible": possible(options.lab), "students": students}))
    return list(todo)


def others(entries: list[Entry], keys: list[str]) -> str:
    """What is said of the submissions that are not graded now. With those that are, the numbers add
    up to all submissions."""
    refused = sum(bool(entry.taken.refused) for entry in entries)
    whole = [entry.key for entry in entries if entry.taken.files and not entry.taken.refused]
    counts = ((len(set(whole)) - len(keys), "graded before"), (len(whole) - len(set(whole)),
                                                               "equal to another one"),
              (refused, "refused"), (len(entries) - refused - len(whole), "empty"))
    return "".join(f"; {count} {what}" for count, what in counts if count)


def grade(options: argparse.Namespace, keys: list[str],
          there: workers.Workers | None = None) -> None:
    """
    Let GNU parallel run the jobs. A job that ends with a status other than 0 is an error of the
    harness, and is tried again.

    A signal ends parallel, which ends its jobs, but not a job that it has only just started. So
    each job also gets SIGTERM when its parent ends (PR_SET_PDEATHSIG), and so does parallel itself.
    `exec` makes parallel the parent, and not a shell. On a worker the parent is a program of
    parallel's that ends the job when the connection has ended.
    """
    (options.out / "todo/keys").write_text("".join(f"{key}\n" for key in keys))
    (options.out / "returned").mkdir(exist_ok=True)
    ended_too = ["setpriv", "--pdeathsig", "TERM"]
    job = there.words(options.out) if there else [
        "exec", *ended_too, sys.executable, "-m", "grading.classroom.one",
        shlex.quote(str(options.out))]
    command = [*ended_too, "parallel", "--plain", "--will-cite",
               "--jobs", str(options.jobs or ("100%" if there else os.cpu_count())),
               "--retries", str(RETRIES), "--joblog", str(options.out / "joblog"), "--line-buffer",
               "--termseq", "TERM,10000,KILL,100", *(["--bar"] if sys.stderr.isatty() else []),
               *(["--load", options.load] if options.load else []),
               "--arg-file", str(options.out / "todo/keys"), *job]
    process = subprocess.Popen(command, cwd=options.out / "returned" if there else ROOT,
                               stdin=subprocess.DEVNULL,
                               env=tree.CLEAN | (there.settings if there else {}))
    try:
        process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        workers.collect(options.out)
    if why := own_error(process.returncode, options.out / "joblog", len(keys)):
        print(f"grade-class: {why}: some submissions are not graded", file=sys.stderr)


def own_error(status: int, log: Path, jobs: int) -> str:
    """What ended GNU parallel, if it was not the end of all jobs. A status up to 101 is the number
    of jobs that failed."""
    if status < 0:
        return f"GNU parallel was ended by {signal.Signals(-status).name}"
    ended = len(log.read_text(errors="replace").splitlines()) - 1 if log.exists() else 0
    return (f"GNU parallel ended with status {status}"
            if status > 101 or status and ended < jobs else "")


def rows(options: argparse.Namespace, entries: list[Entry]) -> list[results.Row]:
    """A row for each student. A student's history gets a line if the result is another than before.
    """
    made = []
    for entry in entries:
        folder = options.out / "students" / entry.submission.student
        folder.mkdir(parents=True, exist_ok=True)
        result = result_of(options, entry.key)
        history = [
            json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()
        ] if (folder / "history.jsonl").exists() else []
        now = {"key": entry.key, "state": result["state"], "points": result["points"]}
        is_new = not history or {name: history[-1][name] for name in now} != now
        if is_new:
            history.append({"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **now})
            one.write_whole(folder / "history.jsonl",
                            "".join(json.dumps(line) + "\n" for line in history))
        policy = late.applied(options.late, options.deadline, entry.submission, entry.taken,
                              result["points"], result["possible"]) if options.late else None
        made.append(results.Row(entry.submission, entry.taken, result, history, policy, is_new))
    return made


def unfinished(out: Path) -> list[Path]:
    """Folders of jobs, and results that were not written, unpacked or received to their end."""
    return [*(out / "tmp").iterdir(), *(out / "graded").glob(".*"), *(out / "returned").glob(".*")]


def left(out: Path) -> list[str]:
    """Processes of this class that still run, and files that they left."""
    return [*map(str, unfinished(out)), *(f"process {process}" for process in one.running(out))]


def make_out(out: Path, handed_in: Path) -> None:
    """Make the folder OUT. Raises NoWalls if it cannot be made, or if what is written there would
    be taken for submissions. A run removes what an earlier one left unfinished: so OUT is new,
    empty, or an earlier run's, which has the lock."""
    if out.resolve().is_relative_to(handed_in.resolve()):
        raise NoWalls(
            f"OUT={printable(str(out))} is inside IN, or IN itself: name a folder outside of IN")
    try:
        if out.is_dir() and any(out.iterdir()) and not (out / "lock").exists():
            raise NoWalls(f"OUT={printable(str(out))} has files of something else: name a new "
                          "folder, or that of an earlier run")
        (out / "tmp").mkdir(parents=True, exist_ok=True)
        (out / "lock").touch()
    except OSError as why:
        raise NoWalls(
            f"OUT={printable(str(out))} is not a folder that can be written: {why.strerror}"
        ) from why


def main() -> int:
    options = arguments()
    options.out = options.out.absolute()
    try:
        if not options.handed_in.is_dir():
            raise NoWalls(f"IN={printable(str(options.handed_in))} is not a folder")
        if not shutil.which("parallel"):
            raise NoWalls("GNU parallel is not installed: type make setup")
        make_out(options.out, options.handed_in)
        with tree.locked(options.out / "lock", wait=False):
            return run(options)
    except (NoWalls, Unfit) as why:
        print(f"grade-class: {why}", file=sys.stderr)
        return 2
    except OSError as why:
        full = disk.why(why, options.out)
        print(f"grade-class: {printable(full)}. The same command goes on." if full
              else f"grade-class: {printable(str(why.filename or ''))}: {why.strerror or why}",
              file=sys.stderr)
        return 3 if full else 2
    except SystemExit:  # a signal
        print("grade-class: ended. The same command goes on.", file=sys.stderr)
        raise


def run(options: argparse.Namespace) -> int:
    """Grade what is not graded yet, and write the tables and pages. Raises NoWalls or Unfit if
    nothing can be graded. No other run uses OUT."""
    manifest_before(options)
    one.await_ends(options.out, walls.PATIENCE)
    for path in unfinished(options.out):
        shutil.rmtree(path) if path.is_dir() else path.unlink()  # of a run that was ended
    workers.collect(options.out)
    manifest = tree.manifest(options.lab, seeds(options))
    found = layouts.alone(options.handed_in) if options.alone else layouts.find(options.handed_in)
    ignored = f" Ignored: {', '.join(found.ignored)}" if found.ignored else ""
    if not found.submissions:
        raise NoWalls(f"IN={printable(str(options.handed_in))} has no submission.{ignored}")
    print(f"{len(found.submissions)} submission{'s'[len(found.submissions) == 1:]}: "
          f"{found.layout}.{ignored}", flush=True)
    for name, time_given in (("deadline", options.deadline), ("commits before", options.before)):
        if time_given:
            print(f"{name}: {time_given.isoformat(' ', 'seconds')}", flush=True)
    at = tree.prepare(options.lab, manifest)
    entries = take(options, manifest, found)
    for entry in entries:
        if entry.taken.refused:
            print(f"refused: {entry.submission.student}, {entry.taken.refused}")
        elif entry.taken.why:
            print(f"nothing handed in: {entry.submission.student}, {entry.taken.notes[0]}")
    if not options.alone and not any(entry.taken.files or entry.taken.refused for entry in entries):
        print(f"grade-class: no submission has a file of lab {options.lab}: are LAB and IN right?",
              file=sys.stderr)
    one.write_whole(options.out / "manifest.json", json.dumps(manifest, indent=1) + "\n")
    keys = write_jobs(options, manifest, entries, at)
    if options.prepare:
        (options.out / "todo/keys").write_text("".join(f"{key}\n" for key in keys))
        print(
            f"{len(keys)} to grade{others(entries, keys)}. A line for each: {options.out}/todo/keys"
        )
        return 0
    if keys:
        there = workers.prepare(options.hosts.split(), options.ssh, options.out, at,
                                manifest) if options.hosts else None
        on = (f"on {', '.join(there.logins)}"
              if there else f"{options.jobs or os.cpu_count()} at a time")
        print(f"{len(keys)} to grade, {on}{others(entries, keys)}.", flush=True)
        if not there:
            # without a sandbox no submission can be graded
            walls.run(["true"], [], one.LIMITS, walls.SUBMISSION)
        grade(options, keys, there)
        for worker in there.left() if there else ():
            print(f"grade-class: something may be left on {worker}", file=sys.stderr)
    made = rows(options, entries)
    results.write(options.out, options.lab, made)
    pages.write(options.out, options.lab, made)
    if not options.alone:
        names = tree.written(options.lab)
        likeness.write(options.out,
                       options.lab, made, {name: (at / name).read_bytes() for name in names},
                       {name: tree.solution(name) for name in names}, at)
    results.say(made, options.out)
    if remains := left(options.out):
        print(f"grade-class: still there: {', '.join(remains[:5])}", file=sys.stderr)
        return 3
    if any(row.result["state"] == one.HARNESS for row in made):
        print("grade-class: the harness failed for some, which have no score: type the same "
              "command again", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    ended_by_signals()
    sys.exit(main())
