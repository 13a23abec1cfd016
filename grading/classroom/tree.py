"""The tree in which a class is graded: what students were given, built once, with the starts where
students write.

It is what `make handout` writes: labs before this one are the staff's objects, so that a mistake in
an earlier lab is not graded again. Each submission gets a copy of it, in which only the files that
were handed in differ; make compiles these alone.
"""

import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from grading.checks import rubric
from grading.elf import halves
from kern.ftrace.tools.walls import NoWalls
from qemu import disk, plugin
from qemu.emulator import for_a_grade
from qemu.isa import ARCHES, ISAS
from qemu.machine import ROOT

TOOLS = (["riscv64-linux-gnu-gcc"], ["aarch64-linux-gnu-gcc"], ["riscv64-linux-gnu-ld"],
         ["aarch64-linux-gnu-ld"], ["gcc"], ["g++"], ["make"], ["bwrap"])
# with these the Makefile builds another kernel, or says more
OF_MAKE = ("APP", "ARCH", "BENCH_SITES", "CI", "DEBUG", "HOOK", "MODULE", "SMP", "STAFF", "START",
           "TESTS", "V")
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if name not in OF_MAKE and not name.startswith(("MAKE", "MFLAGS"))
}

# Of each object of the files in $FILES the operations of its instructions, a line for each. Of an
# object that was built several times: the newest.
OPERATIONS, OF_SOLUTION = "operations.txt", "operations-of-solution.txt"
LIST_OPERATIONS = r"""
for tools in riscv64 aarch64; do
	for file in $FILES; do
		object=$(ls -t build/${tools/aarch64/arm64}/lab*/${file%.*}.o 2>/dev/null | head -1)
		[ ! "$object" ] || $tools-linux-gnu-objdump -d --no-show-raw-insn "$object" |
			awk -F'\t' 'NF > 1 { print $2 }'
	done
done
"""


def digest(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()


def known(*folders: str) -> list[bytes]:
    """The names of the files in these folders (in all: none named) that git knows. Raises NoWalls
    if git cannot say it."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", *folders], cwd=ROOT,
                            capture_output=True, check=False)
    if listed.returncode:
        raise NoWalls(f"{ROOT} must be a clone of this repository, because git lists its files: "
                      f"{(listed.stderr.decode(errors='replace').split(chr(10)) + [''])[0]}")
    return sorted(listed.stdout.split(b"\0")[:-1])


def sources(*folders: str, but: tuple[str, ...] = ()) -> str:
    """A digest of the files in these folders that git knows, as they are now."""
    names = known(*folders)
    files = [name for name in names if (ROOT / os.fsdecode(name)).is_file()
             and not os.fsdecode(name).startswith(but)]
    return digest(*(name + b"\0" + (ROOT / os.fsdecode(name)).read_bytes() for name in files))


FITTINGS = ("python", "tools", "qemu", "firmware")


def fittings() -> dict[str, object]:
    """What this machine has, and a grade follows from. Raises qemu.emulator.Unfit."""
    versions = {words[0]: subprocess.run([*words, "--version"], capture_output=True, text=True,
                                         check=False).stdout.partition("\n")[0] for words in TOOLS}
    emulators = {arch: for_a_grade(arch) for arch in ARCHES}
    places = [folder / isa.firmware for isa in ISAS.values() if isa.firmware
              for folder in (emulators[isa.name].path.parent.parent / "share/qemu",
                             Path("/usr/share/qemu"))]
    firmware = next((path for path in places if path.exists()), None)
    return {"python": platform.python_version(), "tools": versions,
            "qemu": {arch: {"version": emulator.version_line, "sha256": _sha256(emulator.path)}
                     for arch, emulator in emulators.items()},
            "firmware": _sha256(firmware) if firmware else ""}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def manifest(lab: int, seeds: list[str]) -> dict[str, object]:
    """All that a grade follows from, besides what was handed in. Raises qemu.emulator.Unfit."""
    return {"lab": lab, "seeds": seeds,
            "tree": sources("Makefile", "boot", "kern", "labs", "grading", "qemu",
                            but=("grading/tests/", "grading/selftest/", "grading/classroom/")),
            "grader": sources("grading/classroom/one.py", "grading/classroom/tree.py"),
            **fittings()}


def staff(lab: int, staffed: Sequence[str] = ()) -> str:
    """The value of STAFF=: the labs before this one, and this lab's first half if `staffed` has it.
    It need not name a later half: while a file of that half is as handed out, make itself links the
    staff's objects for the half."""
    first = next(iter(halves.files(rubric.LABS[lab] / "rubric.toml", ARCHES)))
    return ",".join([*map(str, range(1, lab)), *(half for half in staffed if half == first)])


def make(lab: int, arch: str, staffed: Sequence[str] = ()) -> list[str]:
    """The command that builds a submission's kernel for this architecture, in the submission's
    tree."""
    linked = staff(lab, staffed)
    return ["make", "-s", f"LAB={lab}", *([f"STAFF={linked}"] if linked else []), f"ARCH={arch}",
            "all"]


def make_tests(lab: int, arch: str, staffed: Sequence[str] = ()) -> list[str]:
    """The command that builds a submission's host tests, after the kernel; none: the lab has none.
    """
    tests = [f"build/host/{name}" for name in rubric.lab(lab).tests(arch, staff=staffed)]
    return [*make(lab, arch, staffed)[:-1], "--keep-going", "graded=1", *tests] if tests else []


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold this file's lock, which ends with the process. Raises NoWalls if another process has it,
    and this one shall not wait."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as why:
            raise NoWalls(f"another run uses {path.parent}: wait for its end, or end it") from why
        except OSError:
            pass  # a file system without locks
        yield


def prepare(lab: int, about: dict[str, object], folder: Path = ROOT / "build/classroom") -> Path:
    """The tree for a lab, built if it is not there. Raises NoWalls with what went wrong: that is no
    student's fault."""
    made_of = {name: value for name, value in about.items() if name != "seeds"}
    tree = folder / f"lab{lab}-{digest(json.dumps(made_of, sort_keys=True).encode())[:16]}"
    if not tree.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / "lock"):
            if not tree.exists():  # another run may just have built it
                _build(lab, tree)
    return tree


def _build(lab: int, tree: Path) -> None:
    print(f"Preparing the tree of lab {lab}, once: {tree}", file=sys.stderr, flush=True)
    new = tree.with_name(f"{tree.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    _run("make", "-s", "-C", ROOT, "handout", f"OUT={new}", f"LABS=0-{lab}")
    (new / "build").mkdir()
    if (ROOT / "build/qemu-10").exists():
        (new / "build/qemu-10").symlink_to(ROOT / "build/qemu-10")
    (new / "build/.setup").touch()
    for arch in ARCHES:
        _run(*make(lab, arch), at=new)
        _run(*(make_tests(lab, arch) or ["true"]), at=new)
    for compiled in (new / "build/host").glob("*.gch"):  # large, and only for what is built now
        times = compiled.stat()
        os.truncate(compiled, 0)
        os.utime(compiled, ns=(times.st_atime_ns, times.st_mtime_ns))
    later = [name for number, names in list(halves.files(rubric.LABS[lab] / "rubric.toml",
                                                         ARCHES).items())[1:] for name in names]
    if later:  # also build the kernels of a submission in which the second half was begun
        for name in later:
            with (new / name).open("a") as file:
                file.write("\n")
        for arch in ARCHES:
            _run(*make(lab, arch), at=new)
        _run("git", "-C", new, "checkout", "-q", "--", *later)
    _run("make", "-s", "-C", ROOT, f"LAB={lab}",
         *(f"build/{arch}/lab{lab}/callsite.elf" for arch in ARCHES))
    for name, of in ((OPERATIONS, new), (OF_SOLUTION, ROOT)):
        (new / "build" / name).write_text(
            _run("/bin/bash", "-c",
                 f"cd {shlex.quote(str(of))}\nFILES='{' '.join(written(lab))}'\n{LIST_OPERATIONS}"))
    for arch in ARCHES:
        (new / "build/qemu").mkdir(exist_ok=True)
        shutil.copy2(plugin.build(arch), new / "build/qemu")
    shutil.rmtree(new / "build/ccache", ignore_errors=True)
    _run(sys.executable, "-m", "compileall", "-q", new / "grading", new / "qemu",
         new / "kern/ftrace/tools", new / "labs")
    new.rename(tree)


def _run(*command: str | Path, at: Path | None = None) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, env=CLEAN, cwd=at)
    if done.returncode:
        raise NoWalls(disk.told(done.stdout + done.stderr, ROOT / "build")
                      or f"{' '.join(str(word) for word in command[:5])} ... "
                      f"failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def written(lab: int) -> tuple[str, ...]:
    """The files that students write."""
    return rubric.lab(lab).files


def staffed(tree: Path, lab: int, files: dict[str, bytes], arch: str) -> list[str]:
    """The halves of this lab that get no points on this architecture, because a file of each is as
    handed out: the staff's objects are linked for them. If that is so of every half, the first is
    graded as it is."""
    parts = halves.files(rubric.LABS[lab] / "rubric.toml", (arch,))
    still = [number for number, names in parts.items()
             if any(name not in files or files[name] == (tree / name).read_bytes()
                    for name in names)]
    return still if len(still) < len(parts) else still[1:]


def resolved(text: bytes, start: int = 0) -> bytes:
    """A student's file as the solution has it, or as the start of a lab has it. unifdef's status 1
    says only that there was something to resolve."""
    done = subprocess.run(["unifdef", f"-DLAB_START={start}"], input=text, capture_output=True,
                          check=False)
    assert done.returncode < 2, done.stderr
    return done.stdout


def solution(name: str) -> bytes:
    return resolved((ROOT / name).read_bytes())
