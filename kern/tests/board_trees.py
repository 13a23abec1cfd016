"""Fetches the device trees of the boards that the tests are about: build/boards/<board>.dtb, from
Debian's kernel packages, and U-Boot's own.

They are unpacked, not installed, and the repository has no copy of them. Debian 14's linux-base
packages have little else in them; an older Debian's kernel packages have the same trees. Trees that
cannot be fetched are named, and their tests are skipped.
"""
from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kern.tests import board_uboots  # noqa: E402
from qemu.download import lists, run, unpack  # noqa: E402
from qemu.emulator import Unfit  # noqa: E402
from qemu.machine import ROOT  # noqa: E402

BOARDS = {
    "arm64": ("bcm2711-rpi-4-b", "bcm2712-rpi-5-b", "bcm2837-rpi-3-b", "sun50i-a64-pine64"),
    "riscv64": ("jh7110-starfive-visionfive-2-v1.3b", "jh7110-milkv-mars", "hifive-unmatched-a00",
                "mpfs-beaglev-fire")
}
# suite, and how the package's name begins
SOURCES = (("forky", "linux-base-"), ("trixie", "linux-image-"))
INTO = ROOT / "build/boards"


def fetch(architecture: str, suite: str, prefix: str) -> str:
    """Fetch the trees from the packages of one suite. Returns why trees are missing, or ""."""
    INTO.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="boards-", dir=INTO) as here:
        try:
            conf = lists(Path(here), suite, architecture)
            names = run("apt-cache", "-c", str(conf), "pkgnames", prefix).split()
            kernels = sorted(name for name in names
                             if re.fullmatch(rf"{prefix}\d[^-]*-{architecture}", name))
            if not kernels:
                return f"{suite} has no package {prefix}*-{architecture}"
            found = {path.name: path for path in unpack(conf, kernels[-1]).rglob("*.dtb")}
        except Unfit as why:
            return f"{suite}, {architecture}: {why}"
        missing = [board for board in BOARDS[architecture] if f"{board}.dtb" not in found]
        for board in set(BOARDS[architecture]) - set(missing):
            shutil.copy(found[f"{board}.dtb"], INTO)
    return f"{kernels[-1]} has no {', '.join(missing)}" if missing else ""


def main() -> int:
    told = []
    for architecture, boards in BOARDS.items():
        for source in SOURCES:
            if not all((INTO / f"{board}.dtb").exists() for board in boards):
                told += [missing] if (missing := fetch(architecture, *source)) else []
    told += [missing for architecture in BOARDS if (missing := board_uboots.fetch(architecture))]
    whole = all((INTO / f"{board}.dtb").exists()
                for boards in (*BOARDS.values(), *board_uboots.TREES.values()) for board in boards)
    (INTO / "missing").write_text("" if whole else "; ".join(told))
    if not whole:
        print(f"Device trees of boards are missing, and their tests are skipped: {'; '.join(told)}")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
