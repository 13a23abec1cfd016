"""What U-Boot boots Callsite from: an SD card's image, or a folder that a TFTP server serves (`make
sdcard`, `make tftp`).

Both hold the same files. The card has a partition table and one FAT partition, made with mtools: no
root is needed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from qemu import disk  # noqa: E402
from qemu.isa import ARCHES, ISAS  # noqa: E402
from qemu.machine import ROOT, uboot_script_image  # noqa: E402

MIB = 1 << 20
SECTOR = 512
BEGIN, SIZE = 1 * MIB, 63 * MIB  # of the partition
# U-Boot looks at active partitions first; a Raspberry Pi's ROM wants this type
FAT32_LBA, ACTIVE = 0x0C, 0x80


@dataclass(frozen=True)
class Board:
    """A configuration of the FIT. U-Boot compares @compatible with its own device tree's; `bootm
    addr#name` names one."""

    name: str
    compatible: str
    # where U-Boot puts the kernel: 2 MiB-aligned RAM that neither U-Boot nor its device tree
    # occupies
    load: int


# The first of each is the default. docs/boards.md says which of them were run.
BOARDS = {
    "riscv64": [Board("qemu-virt", "riscv-virtio", 0x80200000),
                Board("hifive-unleashed", "sifive,hifive-unleashed-a00", 0x80200000),
                Board("hifive-unmatched", "sifive,hifive-unmatched-a00", 0x80200000),
                Board("jh7110", "starfive,jh7110", 0x40200000),
                Board("beaglev-fire", "microchip,mpfs", 0x80200000)],
    "arm64": [Board("qemu-virt", "linux,dummy-virt", 0x40400000),
              Board("raspberrypi-3", "raspberrypi,3-model-b", 0x00200000),
              Board("raspberrypi-4", "raspberrypi,4-model-b", 0x00200000),
              Board("raspberrypi-5", "raspberrypi,5-model-b", 0x00200000),
              Board("pine64", "allwinner,sun50i-a64", 0x40200000)],
}

# U-Boot sets devtype, and for a card devnum, distro_bootpart and prefix, before it runs a script
# that it has found. As for extlinux.conf, the device tree is at fdt_addr, where that is set: the
# kernel may be loaded over U-Boot's own tree.
SCRIPT = """\
if test "${{devtype}}" = "dhcp"; then
	setenv get tftpboot
else
	setenv get load ${{devtype}} ${{devnum}}:${{distro_bootpart}}
fi
setenv bootargs '{append}'
if test -n "${{fdt_addr}}"; then
	setenv fdt ${{fdt_addr}}
else
	setenv fdt ${{fdtcontroladdr}}
fi
if ${{get}} ${{kernel_addr_r}} ${{prefix}}Image; then
	if ${{get}} ${{ramdisk_addr_r}} ${{prefix}}initrd; then
		booti ${{kernel_addr_r}} ${{ramdisk_addr_r}}:${{filesize}} ${{fdt}}
	else
		echo "Callsite: the file initrd is missing: booting without it, so /data and \
/lib/modules are missing."
		booti ${{kernel_addr_r}} - ${{fdt}}
	fi
else
	echo "Callsite: the file Image is missing."
fi
"""

# The same on a card and, under the name PXE, on a TFTP server, where a name has no slash before it.
EXTLINUX = """\
default callsite
prompt 0
timeout 0

label callsite
	menu label Callsite
	kernel {root}Image
	initrd {root}initrd
"""
ON_CARD, PXE = "extlinux/extlinux.conf", "pxelinux.cfg/default"


def fit_source(arch: str, kernel: Path, initrd: Path) -> str:
    """The FIT in mkimage's language: the kernel once for each load address, the initrd, a
    configuration for each board."""
    def image(name: str, path: Path, kind: str, more: str) -> str:
        return (
            f'\t\t{name} {{ description = "Callsite {name}"; data = /incbin/("{path}"); type = '
            f'"{kind}"; arch = "{ISAS[arch].fit}"; os = "linux";'
            f' compression = "none"; {more} hash-1 {{ algo = "sha256"; }}; }};\n')

    boards = BOARDS[arch]
    images = "".join(
        image(f"kernel-{load:x}", kernel, "kernel", f"load = <{load:#x}>; entry = <{load:#x}>;")
        for load in sorted({b.load
                            for b in boards}))
    images += image("initrd", initrd, "ramdisk", "")
    configurations = "".join(
        f'\t\t{b.name} {{ description = "{b.name}"; compatible = "{b.compatible}"; kernel = '
        f'"kernel-{b.load:x}"; ramdisk = "initrd"; }};\n'
        for b in boards)
    return (
        f'/dts-v1/;\n/ {{\n\tdescription = "Callsite for {arch}";\n\t#address-cells = '
        f'<1>;\n\timages {{\n{images}\t}};\n'
        f'\tconfigurations {{\n\t\tdefault = "{boards[0].name}";\n{configurations}\t}};\n}};\n')


class NoCard(Exception):
    """The card, or the folder, cannot be made; the message says why."""


def run(*command: str) -> None:
    """Run a quiet command; what it printed is shown when it fails."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
    except FileNotFoundError:
        raise NoCard(f"{command[0]} is not installed: type make setup") from None
    if done.returncode:
        raise NoCard(
            disk.told(done.stdout, ROOT / "build") or f"{' '.join(command)}:\n{done.stdout}")


def fill(folder: Path, arch: str, image: Path, initrd: Path, append: str, on_card: bool) -> None:
    """Write all that U-Boot needs into the folder, under the names that it looks for on a card or
    on a TFTP server."""
    config, script, root = (ON_CARD, "boot.scr", "/") if on_card else (PXE, "boot.scr.uimg", "")
    if "'" in append or "\n" in append:
        raise NoCard(f"APPEND={append}: U-Boot's script cannot hold a quote or a newline")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / config).parent.mkdir(parents=True)
    shutil.copyfile(image, folder / "Image")
    shutil.copyfile(initrd, folder / "initrd")
    (folder /
     config).write_text(EXTLINUX.format(root=root) + (f"\tappend {append}\n" if append else ""))
    (folder / script).write_bytes(uboot_script_image(SCRIPT.format(append=append)))
    shutil.copyfile(ROOT / "boot/card-readme.txt", folder / "README.txt")
    with tempfile.NamedTemporaryFile("w", suffix=".its") as source:
        source.write(fit_source(arch, image.absolute(), initrd.absolute()))
        source.flush()
        run("mkimage", "-f", source.name, str(folder / "callsite.itb"))


def partition_table() -> bytes:
    """The first sector: one active FAT partition, in the four entries that begin at byte 446."""
    no_cylinders = b"\xfe\xff\xff"
    entry = struct.pack("<B3sB3sII", ACTIVE, no_cylinders, FAT32_LBA, no_cylinders, BEGIN // SECTOR,
                        SIZE // SECTOR)
    return bytes(446) + entry + bytes(48) + b"\x55\xaa"


def check_out(out: Path) -> None:
    """The image replaces what has its name. So that may only be a file: root could replace a card's
    device."""
    if not out.parent.is_dir():
        raise NoCard(f"OUT={out}: there is no folder {out.parent}")
    if out.is_dir():
        raise NoCard(f"OUT={out} is a folder: name a file in it")
    if out.exists() and not out.is_file():
        raise NoCard(
            f"OUT={out} is no file: make a card's image in a file, and write that to the card with "
            f"dd"
        )


def pack(folder: Path, out: Path) -> None:
    """Write a card's image with the folder's files, and then give it its name."""
    made = out.with_name(out.name + ".new")
    try:
        with made.open("wb") as file:
            # a full disk is said here, and not by mtools
            os.posix_fallocate(file.fileno(), 0, BEGIN + SIZE)
            file.write(partition_table())
        copy(folder, made)
        made.rename(out)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def copy(folder: Path, made: Path) -> None:
    fat = f"{made}@@{BEGIN}"
    run("mformat", "-i", fat, "-F", "-T", str(SIZE // SECTOR), "-H", str(BEGIN // SECTOR), "-v",
        "CALLSITE", "-N", "ca115173", "::")
    run("mcopy", "-i", fat, "-s", "-m", *(str(path) for path in sorted(folder.iterdir())), "::")


def main() -> int:
    parser = argparse.ArgumentParser(prog="boot/card.py",
                                     description="Make what U-Boot boots from.")
    parser.add_argument("--arch", choices=ARCHES, required=True)
    parser.add_argument("--image", type=Path, required=True)
    parser.add_argument("--initrd", type=Path, required=True)
    parser.add_argument("--append", default=os.environ.get("APPEND", ""),
                        help="boot arguments; default: $APPEND")
    parser.add_argument("--folder", type=Path, required=True, help="the files are written here")
    parser.add_argument("--out", type=Path, help="and packed into this image of a card")
    a = parser.parse_args()
    try:
        if a.out:
            check_out(a.out)
        fill(a.folder, a.arch, a.image, a.initrd, a.append, bool(a.out))
        if a.out:
            pack(a.folder, a.out)
    except (NoCard, OSError) as why:
        sys.exit(f"card: {disk.what(why, a.out or a.folder)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
