"""Fetches Debian's U-Boot for the boards that QEMU models: build/boards/u-boot-<name>.bin.

The packages are for other architectures than the host's. They are unpacked, not installed. Those that cannot be fetched are named, and the
boots with them are skipped.
"""
from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from qemu.download import lists, unpack  # noqa: E402
from qemu.emulator import Unfit  # noqa: E402
from qemu.machine import FETCHED  # noqa: E402

SUITE = "trixie"  # the oldest Debian with riscv64
PACKAGES = {"riscv64": ("u-boot-sifive", ["sifive_unleashed"]), "arm64": ("u-boot-rpi", ["rpi_3", "rpi_4"])}


def fetch(arch: str) -> str:
    """Fetch the architecture's U-Boots. Returns why they are missing, or ""."""
    package, names = PACKAGES[arch]
    wanted = {name: FETCHED / f"u-boot-{name}.bin" for name in names}
    if all(file.exists() for file in wanted.values()):
        return ""
    FETCHED.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="u-boot-", dir=FETCHED) as here:
        try:
            tree = unpack(lists(Path(here), SUITE, arch), package)
            for name, file in wanted.items():
                shutil.copy(tree / "usr/lib/u-boot" / name / "u-boot.bin", file)
        except (Unfit, OSError) as why:
            return f"Debian's {package} of {SUITE} could not be fetched: {why}"
    return ""


def main() -> int:
    missing = [why for why in map(fetch, PACKAGES) if why]
    print("\n".join(missing), end="\n" if missing else "")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
