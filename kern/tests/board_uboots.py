"""Fetches Debian's U-Boot for boards: build/boards/u-boot-<name>.bin, and the device tree in it, u-boot-<name>.dtb.

The packages are for other architectures than the host's. They are unpacked, not installed. Those that cannot be fetched are named, and the
tests with them are skipped. A Raspberry Pi's U-Boot has no tree: it takes the firmware's.
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
PACKAGES = {"riscv64": ("u-boot-sifive", "u-boot-starfive"), "arm64": ("u-boot-rpi", "u-boot-sunxi")}
NAMES = {"riscv64": ("sifive_unleashed", "sifive_unmatched", "starfive_visionfive2"), "arm64": ("rpi_3", "rpi_4", "pine64_plus")}
TREES = {"riscv64": ("u-boot-sifive_unleashed", "u-boot-sifive_unmatched", "u-boot-starfive_visionfive2"), "arm64": ("u-boot-pine64_plus",)}
MAGIC = b"\xd0\x0d\xfe\xed"


def own_tree(uboot: bytes) -> bytes:
    """The device tree behind a U-Boot's code; b"": it has none."""
    at = uboot.rfind(MAGIC)
    return uboot[at:] if at >= 0 and int.from_bytes(uboot[at + 4:at + 8], "big") == len(uboot) - at else b""


def fetch(arch: str) -> str:
    """Fetch the architecture's U-Boots. Returns why they are missing, or ""."""
    wanted = {name: FETCHED / f"u-boot-{name}.bin" for name in NAMES[arch]}
    if all(file.exists() for file in wanted.values()):
        return ""
    FETCHED.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="u-boot-", dir=FETCHED) as here:
        try:
            packages = unpack(lists(Path(here), SUITE, arch), *PACKAGES[arch])
            for name, file in wanted.items():
                uboot = packages / "usr/lib/u-boot" / name / "u-boot.bin"
                if tree := own_tree(uboot.read_bytes()):
                    file.with_suffix(".dtb").write_bytes(tree)
                shutil.copy(uboot, file)
        except (Unfit, OSError) as why:
            return f"Debian's {' and '.join(PACKAGES[arch])} of {SUITE} could not be fetched: {why}"
    return ""


def main() -> int:
    missing = [why for why in map(fetch, PACKAGES) if why]
    print("\n".join(missing), end="\n" if missing else "")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
