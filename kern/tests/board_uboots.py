"""Fetches Debian's U-Boot for boards: build/boards/u-boot-<name>.bin, and the device tree in it,
u-boot-<name>.dtb.

The packages are for other architectures than the host's. They are unpacked, not installed. Those
that cannot be fetched are named, and the tests with them are skipped. A Raspberry Pi's U-Boot has
no tree: it takes the firmware's.
"""
from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from qemu.download import lists, unpack  # noqa: E402
from qemu.emulator import Unfit  # noqa: E402
from qemu.machine import FETCHED  # noqa: E402

SUITE = "trixie"  # the oldest Debian with riscv64
PACKAGES = {
    "riscv64": {
        "u-boot-sifive": ("sifive_unleashed", "sifive_unmatched"),
        "u-boot-starfive": ("starfive_visionfive2",)
    }, "arm64": {"u-boot-rpi": ("rpi_3", "rpi_4"), "u-boot-sunxi": ("pine64_plus",)}
}
TREES = {
    arch: [
        f"u-boot-{name}" for package, names in of.items() if package != "u-boot-rpi"
        for name in names
    ]
    for arch, of in PACKAGES.items()
}
MAGIC = b"\xd0\x0d\xfe\xed"


def own_tree(uboot: bytes) -> bytes:
    """The device tree at the end of a U-Boot's file, or b"" if the file has none."""
    at = uboot.rfind(MAGIC)
    return uboot[at:] if at >= 0 and int.from_bytes(uboot[at + 4:at +
                                                          8], "big") == len(uboot) - at else b""


def files(name: str) -> list[Path]:
    """What is kept of a U-Boot."""
    return [
        FETCHED / f"u-boot-{name}{suffix}"
        for suffix in ((".bin",) if name.startswith("rpi") else (".bin", ".dtb"))
    ]


def fetch(arch: str, *names: str) -> str:
    """Fetch these U-Boots of the architecture, or all. Returns why they are missing, or ""."""
    wanted = {
        package: [name for name in of if name in names or not names]
        for package, of in PACKAGES[arch].items()
    }
    missing = [
        package for package, of in wanted.items()
        if not all(file.exists() for name in of for file in files(name))
    ]
    if not missing:
        return ""
    FETCHED.mkdir(parents=True, exist_ok=True)
    told = []
    with tempfile.TemporaryDirectory(prefix="u-boot-", dir=FETCHED) as here:
        try:
            conf = lists(Path(here), SUITE, arch)
        except (Unfit, OSError) as why:
            return f"Debian's {' and '.join(missing)} of {SUITE} could not be fetched: {why}"
        for package in missing:
            try:
                unpacked = unpack(conf, package)
                for name in wanted[package]:
                    uboot = (unpacked / "usr/lib/u-boot" / name / "u-boot.bin").read_bytes()
                    for file, data in zip(files(name), (uboot, own_tree(uboot))):
                        (Path(here) / file.name).write_bytes(data)
                        (Path(here) / file.name).replace(file)
            except (Unfit, OSError) as why:
                told.append(f"Debian's {package} of {SUITE} could not be fetched: {why}")
    return "; ".join(told)


def main() -> int:
    missing = [why for why in map(fetch, PACKAGES) if why]
    print("\n".join(missing), end="\n" if missing else "")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
