"""Debian's U-Boot boots cards on QEMU's models of boards, and the tests inside the kernel run.

If something that a model needs cannot be had on this host, its test is skipped. docs/boards.md
shows what is printed.
"""
import os
import shutil
import subprocess
import unittest
from dataclasses import replace
from pathlib import Path

from boot import card
from kern.tests import board_trees, board_uboots
from kern.tests.run_qemu import Step, prints, promises, shows
from kern.tests.test_card import TYPES_BOOTI, TYPES_FIT, Booting, Case, cut, spoilt
from qemu.emulator import GRADES, Emulator, find, look
from qemu.isa import ISAS
from qemu.machine import ARCHES, BOARD_UBOOT, FETCHED, FINISHED, ROOT, Machine

LOGS = ROOT / "build/tests/boards"
EVERY = os.environ.get("EVERY") == "1"  # as in make soak: more than the default boot
FOUND = "Found /extlinux/extlinux.conf|Booting bootflow .* with extlinux"
NO_INITRD = ("Skipping callsite for failure retrieving initrd",
             r"EXTLINUX FAILED: continuing|Boot failed \(err=",
             "Callsite: the file initrd is missing: booting without it")
CONFIGURATIONS = {
    "bcm2837-rpi-3-b": "raspberrypi-3", "bcm2711-rpi-4-b": "raspberrypi-4",
    "bcm2712-rpi-5-b": "raspberrypi-5", "sun50i-a64-pine64": "pine64",
    "jh7110-starfive-visionfive-2-v1.3b": "jh7110", "jh7110-milkv-mars": "jh7110",
    "hifive-unmatched-a00": "hifive-unmatched", "mpfs-beaglev-fire": "beaglev-fire",
    "u-boot-sifive_unleashed": "hifive-unleashed", "u-boot-sifive_unmatched": "hifive-unmatched",
    "u-boot-starfive_visionfive2": "jh7110", "u-boot-pine64_plus": "pine64"
}
TRACER = ("kt_ops",
          *(("kt_fprobe", "kt_graph", "kt_kprobe", "kt_probe_events", "kt_livepatch") if EVERY else
            ()))
TESTS: list[Step] = [
    prints("echo nop > current_tracer; echo > set_ftrace_filter; echo > trace", ""),
    *(promises(test) for test in TRACER),
    shows("kt_sites", ", 0 unlike their record")
]


def cases(kernel: str, fit: str) -> dict[str, Case]:
    """The cases of a board. @kernel: the kernel's line about the board; @fit: its configuration in
    the FIT."""
    typed = tuple(line.replace("virtio", "mmc").replace("qemu-virt", fit) for line in TYPES_FIT)
    starts = (r"Starting kernel \.\.\.", kernel)
    return {
        case.name: case
        for case in
        (Case("extlinux", (FOUND, *starts)),
         Case("boot.scr", ("Found U-Boot script /boot.scr|Booting bootflow .* with script",
                           *starts), without=("extlinux/extlinux.conf",)),
         Case("booti", starts, types=tuple(line.replace("virtio", "mmc") for line in TYPES_BOOTI)),
         Case("a card without the initrd", (*NO_INITRD, *starts), without=("initrd",), whole=False),
         Case("a card without the kernel", ("Skipping callsite for failure retrieving kernel",),
              without=("Image",), ends="Callsite: the file Image is missing."),
         Case("bootm of the FIT", (f"Using '{fit}' configuration", r"sha256\+ OK", r"sha256\+ OK",
                                   *starts), types=typed),
         Case("bootm without support for a FIT", (
             "Wrong Image Type for bootm command",), types=typed, ends="can't get kernel image!"),
         Case("a FIT that is cut in half", (
             "Bad FIT kernel image format",), types=typed, fit=cut, ends="can't get kernel image!"))
    }


def board_qemu(arch: str, older_than: tuple[int, ...]) -> Emulator:
    """The newest QEMU of this host that is older than that."""
    installed = shutil.which(ISAS[arch].emulator)
    fit = [
        qemu for qemu in (find(arch), *([look(Path(installed))] if installed else []))
        if qemu.version < older_than
    ]
    if not fit:
        raise unittest.SkipTest(
            f"sifive_u: {find(arch)} refuses SEND_CID to a card on SPI, and U-Boot waits for its "
            f"answer without end"
        )
    return fit[0]


def tree(name: str) -> list[str]:
    file = FETCHED / f"{name}.dtb"
    if not file.exists():
        board_trees.main()
    if not file.exists():
        raise unittest.SkipTest(f"{name}.dtb could not be fetched from Debian")
    return ["-dtb", str(file)]


class Configurations(unittest.TestCase):
    def test_each_board_finds_its_own_in_the_fit(self) -> None:
        """U-Boot takes the configuration for the first name in its tree's `compatible` that has
        one."""
        for arch, boards in board_trees.BOARDS.items():
            for board in (*boards, *board_uboots.TREES[arch]):
                with self.subTest(board):
                    names = subprocess.check_output(["fdtget",
                                                     tree(board)[1], "/", "compatible"],
                                                    text=True).split()
                    fit = [
                        b.name for name in names for b in card.BOARDS[arch] if b.compatible == name
                    ]
                    self.assertEqual(fit[:1], [CONFIGURATIONS[board]])


class Boards(Booting):
    @classmethod
    def setUpClass(cls) -> None:
        LOGS.mkdir(parents=True, exist_ok=True)
        images = {arch: f"build/{arch}/{FINISHED}-tests/Image" for arch in ARCHES}
        subprocess.run([
            "make", "-s", "-C",
            str(ROOT), "TESTS=1", *images.values(), *(f"build/{arch}/initrd.cpio"
                                                      for arch in ARCHES)
        ], check=True)
        for arch, image in images.items():
            subprocess.run([
                "/usr/bin/python3", "boot/card.py", "--arch", arch, "--image", image, "--initrd",
                f"build/{arch}/initrd.cpio", "--folder", LOGS / arch, "--out", LOGS / f"{arch}.img"
            ], cwd=ROOT, check=True)

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """unittest only counts skipped tests; print the reasons, too."""
        before = len(result.skipped) if result else 0
        super().run(result)
        for _, why in result.skipped[before:] if result else ():
            print(f"skipped: {why}", flush=True)
        return result

    def boots(self, machine: Machine, kernel: str, fit: str, *names: str) -> None:
        """After the default boot functions are traced, and the kernel's tests keep their promises.
        In make soak more of them run, and the cases with these names."""
        if why := board_uboots.fetch(machine.arch,
                                     BOARD_UBOOT[machine.board].stem.removeprefix("u-boot-")):
            self.skipTest(why)
        machine.uboot = True
        for case in (case for name, case in cases(kernel, fit).items()
                     if name == "extlinux" or name in names and EVERY):
            stem = f"{machine.board}-{case.name.replace(' ', '-')}"
            card = spoilt(LOGS / f"{machine.arch}.img", case, LOGS / f"{stem}.img",
                          LOGS / machine.arch / "callsite.itb")
            usual = case.name == "extlinux"
            text = self.check(replace(machine, card=card), case, LOGS / f"{stem}.log",
                              TESTS if usual else [])
            if usual and text:
                self.assert_shown(machine.board, text)

    def test_sifive_u(self) -> None:
        """Any hart but 0, which has no MMU, may be its boot hart. All run in one thread: if one CPU
        writes code while another translates it, a QEMU older than 8.1 may keep the old translation,
        and kt_livepatch then finds calls of the old function (2 of 8 times, on virt, too)."""
        machine = Machine("riscv64", smp=5, memory=8192, board="sifive_u",
                          emulator=board_qemu("riscv64",
                                              GRADES), extra=["-accel", "tcg,thread=single"])
        self.boots(machine, "Unleashed A00: 4 CPUs", "hifive-unleashed", "boot.scr", "booti",
                   "a card without the initrd", "bootm of the FIT", "a FIT that is cut in half")

    def test_raspi3b(self) -> None:
        machine = Machine("arm64", smp=4, memory=1024, board="raspi3b",
                          extra=tree("bcm2837-rpi-3-b"))
        self.boots(machine, "Raspberry Pi 3 Model B: 4 CPUs", "raspberrypi-3", "boot.scr", "booti",
                   "a card without the initrd", "a card without the kernel",
                   "bootm without support for a FIT")

    def test_raspi4b(self) -> None:
        qemu = find("arm64")
        if qemu.version < GRADES:
            self.skipTest(f"raspi4b: {qemu} has no such machine")
        machine = Machine("arm64", smp=4, memory=2048, board="raspi4b",
                          extra=tree("bcm2711-rpi-4-b"))
        self.boots(machine, "Raspberry Pi 4 Model B: 4 CPUs", "raspberrypi-4", "boot.scr", "booti",
                   "a card without the initrd")

    @unittest.skip(
        "microchip-icicle-kit: Debian has neither U-Boot nor the Hart Software Services for the "
        "PolarFire SoC"
    )
    def test_microchip_icicle_kit(self) -> None:
        pass


if __name__ == "__main__":
    unittest.main()
