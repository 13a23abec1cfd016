"""The machines that Callsite runs on under QEMU, as command lines.

Everything that starts QEMU uses this one description: `make run`, `make grade`,
the tests. It only builds the command line and does not start QEMU.
"""

import os
import re
import shlex
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from qemu.emulator import ROOT as ROOT, Emulator, find
from qemu.isa import ARCHES as ARCHES, ISAS, Isa
from qemu.isa.common import MIB

# The last lab, whose solution is the finished kernel. It is built when no lab is named.
LAST_LAB = int(
    re.findall(r"^STAGES :=.*?(\d+)$", (ROOT / "kern/ftrace/stages.mk").read_text(), re.M)[0])
FINISHED = f"lab{LAST_LAB}"

# As many CPUs as the kernel uses.
MOST_CPUS = int(
    re.findall(r"^#define NR_CPUS (\d+)$", (ROOT / "kern/base/current.h").read_text(), re.M)[0])
FETCHED = ROOT / "build/boards"  # kern/tests/board_uboots.py
BOARD_UBOOT = {board: FETCHED / f"u-boot-{name}.bin" for board, name in
               (("sifive_u", "sifive_unleashed"), ("raspi3b", "rpi_3"), ("raspi4b", "rpi_4"))}
PI = ("raspi3b", "raspi4b")
# A prefix for a command: it is killed when the thread that started it ends, even by SIGKILL.
WITH_US = ["setpriv", "--pdeathsig", "KILL"]


def extra_options() -> list[str]:
    """Options for QEMU's command line from the environment, as make exports them."""
    return shlex.split(os.environ.get("QEMU_EXTRA", ""))


def initrd_of(arch: str, tests: bool = False) -> Path:
    """The initrd that the build makes for an architecture; with `tests`, the one of TESTS=1."""
    return ROOT / "build" / arch / f"initrd{'-tests' if tests else ''}.cpio"


@dataclass
class Machine:
    """One machine with one kernel; the defaults are those of `make run`."""

    arch: str
    smp: int = 1
    memory: int = 128  # MiB
    append: str = ""
    image: Path | None = None  # default: the finished kernel's
    initrd: Path | None = None
    uboot: bool = False
    # with uboot: boots from this, a card's image or a folder that QEMU serves by TFTP; default:
    # make_boot_disk()
    card: Path | None = None
    load: int | None = None  # U-Boot loads the image there (physical, 2 MiB-aligned)
    gic: int = 2
    board: str = "virt"  # or another of QEMU's machines
    el2: bool = False  # arm64: the kernel is entered at EL2
    any_first: bool = False  # riscv64: the device tree decides which CPU boots, not Run
    icount: bool = False
    plugin: str | None = None  # -plugin's argument
    emulator: Emulator | None = None  # default: what find() prefers
    extra: list[str] = field(default_factory=list)

    @property
    def isa(self) -> Isa:
        return ISAS[self.arch]

    def image_path(self) -> Path:
        return self.image or ROOT / "build" / self.arch / FINISHED / "Image"

    def load_address(self) -> int:
        """The physical address of the image's first byte when the kernel is entered."""
        base = self.ram().start
        if self.isa.after_firmware and not self.uboot:
            return self.isa.after_firmware
        if self.load is not None:
            return self.load
        offset = image_header(self.image_path().read_bytes()).text_offset
        if self.uboot:
            return base + offset if self.isa.uboot_moves else base + 4 * MIB
        return base + (offset if offset >= 0x1000 else offset + 2 * MIB)

    def _machine(self) -> list[str]:
        virt = self.board == "virt"
        return self.isa.virt(self.gic, self.el2) if virt else ["-M", self.board]

    def _boot(self, scratch: Path) -> list[str]:
        if self.uboot and self.board in BOARD_UBOOT:
            return ["-kernel", str(BOARD_UBOOT[self.board]), "-drive",
                    f"if=sd,format=raw,snapshot=on,file={self.card}"]
        if self.uboot:
            return [self.isa.uboot_option, self.isa.uboot, *self._boot_device(scratch)]
        boot = ["-kernel", str(self.image_path())]
        if self.initrd:
            boot += ["-initrd", str(self.initrd)]
        return boot + (["-append", self.append] if self.append else [])

    def _boot_device(self, scratch: Path) -> list[str]:
        if self.card and self.card.is_dir():
            return ["-netdev", f"user,id=tftp,tftp={self.card}", "-device",
                    "virtio-net-device,netdev=tftp"]
        if not self.card:
            make_boot_disk(self, scratch)
        return ["-drive",
                f"if=none,id=boot,format=raw,readonly=on,file={self.card or f'fat:{scratch}'}",
                "-device", "virtio-blk-device,drive=boot"]

    def ram(self) -> range:
        """The physical addresses of RAM."""
        size = max(self.memory, 256) if self.uboot else self.memory  # U-Boot's script is at 193 MiB
        base = 0 if self.board in PI else self.isa.ram
        return range(base, base + size * MIB)

    def bounded(self) -> list[str]:
        """A prefix that limits QEMU's memory: the guest's RAM, translated code, the observer's log
        and its data about translated code."""
        return ["prlimit", f"--as={max(6144 * MIB, len(self.ram()) + 4096 * MIB)}"]

    def command(self, serial: list[str], scratch: Path, memory: int | None = None) -> list[str]:
        """QEMU's command line. `serial`: options for the console; `memory`: a file descriptor to
        use as RAM."""
        size = f"{len(self.ram()) // MIB}M"
        if self.board in PI:  # its console is the second serial line
            serial = ["-serial", "null", *serial]
        line = [*(self.emulator or find(self.arch)).command(), *self._machine(), "-smp",
                str(self.smp), "-m", size, "-nodefaults", "-nic", "none", "-display", "none",
                "-monitor", "none", "-no-reboot", *serial, *self._boot(scratch)]
        if memory is not None:
            line += [
                "-object",
                f"memory-backend-file,id=ram,mem-path=/proc/self/fd/{memory},share=on,size={size}",
                "-M", "memory-backend=ram"]
        if self.icount:
            line += ["-icount", "shift=0"]  # sleep=off starves the console while the guest idles
        if self.plugin:
            line += ["-plugin", self.plugin]
        return line + self.extra + extra_options()


@dataclass(frozen=True)
class ImageHeader:
    """The first 64 bytes of an image, which a boot loader reads; the same for both architectures.
    """

    text_offset: int
    image_size: int
    flags: int
    magic: bytes


def image_header(image: bytes) -> ImageHeader:
    if len(image) < 64:
        raise ValueError("image: shorter than its 64-byte header")
    _, _, offset, size, flags = struct.unpack_from("<IIQQQ", image)
    magic = image[56:60]
    if magic not in (b"ARM\x64", b"RSC\x05"):
        raise ValueError(f"image: no Linux Image header (magic {magic!r})")
    return ImageHeader(offset, size, flags, magic)


def _moved(image: bytes, machine: Machine) -> bytes:
    """The image with another text_offset, if U-Boot moves it to RAM + text_offset."""
    if machine.isa.uboot_moves and machine.load is not None:
        offset = machine.load - machine.isa.ram
        return image[:8] + struct.pack("<Q", offset) + image[16:]
    return image


def boot_script(machine: Machine) -> str:
    base = machine.isa.ram
    at = base + 64 * MIB if machine.isa.uboot_moves else machine.load_address()
    initrd_at = base + 80 * MIB
    lines = [f"setenv bootargs '{machine.append}'", f"load virtio 0:1 {at:#x} /Image"]
    initrd = "-"
    if machine.initrd:
        lines.append(f"load virtio 0:1 {initrd_at:#x} /initrd")
        initrd = f"{initrd_at:#x}:${{filesize}}"
    lines.append(f"booti {at:#x} {initrd} ${{fdtcontroladdr}}")
    return "\n".join(lines) + "\n"


def uboot_script_image(script: str) -> bytes:
    """A script in the format of U-Boot's `source`: its legacy 64-byte header, then the text."""
    text = script.encode()
    data = struct.pack(">II", len(text), 0) + text
    fields = (0x27051956, 0, 0, len(data), 0, 0, zlib.crc32(data), 17, 0, 6, 0)
    layout = ">IIIIIIIBBBB32s"  # os linux, type script
    header = struct.pack(layout, *fields, b"callsite")
    checked = struct.pack(layout, fields[0], zlib.crc32(header), *fields[2:], b"callsite")
    return checked + data


def make_boot_disk(machine: Machine, directory: Path) -> None:
    """Fill the directory that QEMU presents to U-Boot as a FAT disk; U-Boot's standard boot order
    finds boot.scr."""
    image = machine.image_path().read_bytes()
    (directory / "Image").write_bytes(_moved(image, machine))
    if machine.initrd:
        (directory / "initrd").write_bytes(machine.initrd.read_bytes())
    (directory / "boot.scr").write_bytes(uboot_script_image(boot_script(machine)))
