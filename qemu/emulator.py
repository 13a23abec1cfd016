"""Which QEMU is used for an architecture, and what it can do.

QEMU_DIR names the folder that holds it. Without QEMU_DIR it is the newest of
the one that `make setup` unpacked in build/ (download.py) and the installed one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNPACKED = ROOT / "build/qemu-10"
NAMES = {"riscv64": "qemu-system-riscv64", "arm64": "qemu-system-aarch64"}
GRADES = (10, 0)  # the oldest whose plugins read all registers on both architectures as the observer does


class Unfit(Exception):
    """The QEMU or the compiler of this machine cannot do what is asked; the message is one sentence."""


@dataclass(frozen=True)
class Emulator:
    path: Path
    told: str  # the first line of --version

    @property
    def version(self) -> tuple[int, ...]:
        found = re.search(r"version (\d+)\.(\d+)(?:\.(\d+))?", self.told)
        return tuple(int(n) for n in found.groups() if n) if found else ()

    def command(self) -> list[str]:
        """With the firmware that lies beside it: a QEMU that was moved would take the installed one's."""
        data = self.path.parent.parent / "share/qemu"
        moved = data.is_dir() and data != Path("/usr/share/qemu")
        return [str(self.path), *(["-L", str(data)] if moved else [])]

    def __str__(self) -> str:
        return f"QEMU {'.'.join(map(str, self.version))} ({short(self.path)})"


def short(path: Path) -> str:
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


@lru_cache
def look(path: Path) -> Emulator:
    """Raise Unfit if it is none, or does not run here."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
        said = (done.stdout or done.stderr).strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    emulator = Emulator(path, said.partition("\n")[0])
    if not emulator.version:
        raise Unfit(f"{short(path)} does not say its version, but: {emulator.told or 'nothing'}")
    return emulator


def candidates(arch: str) -> list[Path]:
    """The files of that name, the preferred one first."""
    name = NAMES[arch]
    if chosen := os.environ.get("QEMU_DIR"):
        folder = Path(chosen).resolve()
        return [file for file in (folder / name, folder / "bin" / name, folder / "usr/bin" / name) if file.exists()][:1]
    installed = shutil.which(name)
    return [file for file in (UNPACKED / "usr/bin" / name, Path(installed) if installed else None) if file and file.exists()]


def find(arch: str) -> Emulator:
    """Raise Unfit if there is none."""
    usable, unfit = [], None
    for path in candidates(arch):
        try:
            usable.append(look(path))
        except Unfit as why:
            unfit = why
    if usable:
        return max(usable, key=lambda e: e.version)
    chosen = os.environ.get("QEMU_DIR")
    raise unfit or Unfit(f"QEMU_DIR={chosen} has no {NAMES[arch]}" if chosen else f"{NAMES[arch]} is not installed: type make setup")


def for_a_grade(arch: str) -> Emulator:
    """Raise Unfit if it is too old."""
    emulator = find(arch)
    if emulator.version < GRADES:
        advice = "leave QEMU_DIR out" if os.environ.get("QEMU_DIR") else "type make setup, or say QEMU_DIR=folder of another"
        raise Unfit(f"a grade needs QEMU {'.'.join(map(str, GRADES))} or newer for {arch}, and here is {emulator}: {advice}")
    return emulator
