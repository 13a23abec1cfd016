"""Chooses the QEMU for an architecture, and finds out its version.

QEMU_DIR names the folder that holds it. Without QEMU_DIR it is the newest of
the one that `make setup` unpacked in build/ (download.py) and the installed one.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from qemu.isa import ISAS

ROOT = Path(__file__).resolve().parent.parent
UNPACKED = ROOT / "build/qemu-10"
GRADES = (10, 0)  # the oldest version whose plugins can read all registers on both architectures


class Unfit(Exception):
    """The QEMU or the compiler of this host is missing or too old; the message is one sentence."""


@dataclass(frozen=True)
class Emulator:
    path: Path
    version_line: str  # the first line of --version

    @property
    def version(self) -> tuple[int, ...]:
        found = re.search(r"version (\d+)\.(\d+)(?:\.(\d+))?", self.version_line)
        return tuple(int(n) for n in found.groups() if n) if found else ()

    def command(self) -> list[str]:
        """The command, with the firmware beside it: a QEMU in another folder would otherwise use
        the installed firmware."""
        data = self.path.parent.parent / "share/qemu"
        moved = data.is_dir() and data != Path("/usr/share/qemu")
        return [str(self.path), *(["-L", str(data)] if moved else [])]

    def __str__(self) -> str:
        return f"QEMU {'.'.join(map(str, self.version))} ({short(self.path)})"


def short(path: Path) -> str:
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


@lru_cache
def look(path: Path) -> Emulator:
    """Run the emulator to get its version. Raises Unfit if it is no QEMU, or does not run on this
    host."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=600,
                              check=False)
        said = (done.stdout or done.stderr).strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    emulator = Emulator(path, said.partition("\n")[0])
    if not emulator.version:
        raise Unfit(
            f"{short(path)} does not print its version, but: {emulator.version_line or 'nothing'}")
    return emulator


def candidates(arch: str) -> list[Path]:
    """The emulators of this name, the preferred one first."""
    name = ISAS[arch].emulator
    if chosen := os.environ.get("QEMU_DIR"):
        folder = Path(chosen).resolve()
        return [file for file in (folder / name, folder / "bin" / name, folder / "usr/bin" / name)
                if file.exists()][:1]
    installed = shutil.which(name)
    return [file for file in (UNPACKED / "usr/bin" / name, Path(installed) if installed else None)
            if file and file.exists()]


def find(arch: str) -> Emulator:
    """The preferred emulator. Raises Unfit if there is none."""
    usable, unfit = [], None
    for path in candidates(arch):
        try:
            usable.append(look(path))
        except Unfit as why:
            unfit = why
    if usable:
        return max(usable, key=lambda e: e.version)
    chosen, name = os.environ.get("QEMU_DIR"), ISAS[arch].emulator
    raise unfit or Unfit(f"QEMU_DIR={chosen} has no {name}" if chosen else
                         f"{name} is not installed: type make setup")


def for_a_grade(arch: str) -> Emulator:
    """The emulator for a grade. Raises Unfit if it is too old."""
    emulator = find(arch)
    if emulator.version < GRADES:
        advice = "leave QEMU_DIR out" if os.environ.get(
            "QEMU_DIR") else "type make setup, or set QEMU_DIR to the folder of another"
        raise Unfit(f"a grade needs QEMU {'.'.join(map(str, GRADES))} or newer for {arch}, and "
                    f"this is {emulator}: {advice}")
    return emulator
