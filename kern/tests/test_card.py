"""Debian's U-Boot boots what `make sdcard` and `make tftp` make, in each way in which U-Boot starts
a kernel; and cards with missing or damaged files.

Debian 12's U-Boot is 2023.01 and Debian 13's is 2025.01. On arm64 the newer one has another default
boot command, which prints other messages and asks a TFTP server for another file.
"""
import os
import re
import shutil
import subprocess
import unittest
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from docs.book.tests.test_transcripts import plain, shows as first_difference
from grading.machine.console import PROMPT
from grading.machine.machine import Run
from grading.verdict import Stopped
from kern.tests.run_qemu import HANGS, Step, shows, works
from qemu.isa import ARCHES, ISAS
from qemu.machine import FINISHED, ROOT, Machine

LOGS = ROOT / "build/tests/card"
PAGE = ROOT / "docs/boards.md"
UBOOT_PROMPTS = ("=> ", "U-Boot> ")
PARTITION = "@@1M"
LOAD = "setenv to 0x80200000; load virtio 0:1 ${to} Image"  # where riscv64's kernel stays
# after the file's end: the kernel clears that memory for its data
AFTER = "setexpr at ${to} + ${filesize}"
LOAD_FIT = "load virtio 0:1 ${ramdisk_addr_r} callsite.itb"
FIT = "${ramdisk_addr_r}#qemu-virt"


@dataclass
class Case:
    """A boot. Without `types` no key is pressed, and U-Boot's default boot command finds the
    kernel."""

    name: str
    says: tuple[str, ...]  # the boot's output has each of these expressions, in this order
    types: tuple[str, ...] = ()  # at U-Boot's prompt
    tftp: bool = False  # over the network, not from a card
    without: tuple[str, ...] = ()  # files that are removed from the card
    fit: Callable[[bytes], bytes] | None = None  # what becomes of the FIT
    ends: str = ""  # U-Boot's last words; "": the kernel boots
    whole: bool = True  # the kernel has its initrd
    crlf: bool = False  # extlinux.conf was saved with CR LF


def cut(fit: bytes) -> bytes:
    return fit[:len(fit) // 2]


def one_byte_changed(fit: bytes) -> bytes:
    """Change a byte of the magic number in the header of each kernel of the FIT."""
    return fit.replace(b"RSC\x05", b"RSC\x06").replace(b"ARM\x64", b"ARM\x65")


TYPES_BOOTI = ("load virtio 0:1 ${kernel_addr_r} Image", "load virtio 0:1 ${ramdisk_addr_r} initrd",
               "booti ${kernel_addr_r} ${ramdisk_addr_r}:${filesize} ${fdtcontroladdr}")
TYPES_FIT = (LOAD_FIT, f"bootm {FIT} {FIT} ${{fdtcontroladdr}}")
TYPES_TFTP = ("dhcp ${scriptaddr} boot.scr.uimg", "setenv devtype dhcp", "source ${scriptaddr}")
# a U-Boot with this in its environment asks a TFTP server for that file
ASKS_FOR_SCRIPT = b"boot_script_dhcp=boot.scr.uimg"
KERNEL = (r"Starting kernel \.\.\.", ": 4 CPUs, ")
FROM_TFTP = ("Filename 'boot.scr.uimg'", "Filename 'Image'", "Filename 'initrd'", *KERNEL)
NO_EXTLINUX = r"EXTLINUX FAILED: continuing|Boot failed \(err="
CASES = [
    Case("extlinux", ("Found /extlinux/extlinux.conf|Booting bootflow .* with extlinux", *KERNEL)),
    Case("boot.scr", ("Found U-Boot script /boot.scr|Booting bootflow .* with script", *KERNEL),
         without=("extlinux/extlinux.conf",)),
    Case("booti", KERNEL, types=TYPES_BOOTI),
    Case("bootm of the FIT",
         ("Using 'qemu-virt' configuration", r"sha256\+ OK", r"sha256\+ OK", *KERNEL),
         types=TYPES_FIT),
    Case("bootm of the FIT, its configuration not named",
         ("Using 'qemu-virt' configuration", *KERNEL),
         types=(LOAD_FIT, "bootm ${ramdisk_addr_r} ${ramdisk_addr_r} ${fdtcontroladdr}")),
    Case(
        "boot.scr, whose device tree is at fdt_addr", KERNEL,
        types=("setenv fdt_addr ${fdtcontroladdr}; setenv fdtcontroladdr 0",
               "setenv devtype virtio; setenv devnum 0; setenv distro_bootpart 1",
               "load virtio 0:1 ${scriptaddr} boot.scr; source ${scriptaddr}")),
    Case("TFTP", FROM_TFTP, tftp=True),
    Case("TFTP, typed", FROM_TFTP, types=TYPES_TFTP, tftp=True),
    Case("PXE, typed", (r"Retrieving file: pxelinux.cfg/default\n", "Filename 'initrd'",
                        "Filename 'Image'", *KERNEL),
         types=("setenv autoload no", "dhcp", "pxe get", "pxe boot"), tftp=True),
    Case("a card without the initrd",
         ("Skipping callsite for failure retrieving initrd", NO_EXTLINUX,
          "Callsite: the file initrd is missing", *KERNEL), without=("initrd",), whole=False),
    Case("extlinux.conf with CR LF",
         ("Retrieving file: /initrd", "Skipping callsite for failure retrieving initrd",
          NO_EXTLINUX, "Found U-Boot script /boot.scr|with script", *KERNEL), crlf=True),
    Case("a card without the kernel",
         ("Skipping callsite for failure retrieving kernel", NO_EXTLINUX), without=("Image",),
         ends="Callsite: the file Image is missing."),
    Case("a FIT that is cut in half", ("Bad FIT kernel image format",), types=TYPES_FIT, fit=cut,
         ends="can't get kernel image!"),
    Case("a FIT with a changed byte", ("Verifying Hash Integrity", "Bad hash value for 'hash-1'"),
         types=TYPES_FIT, fit=one_byte_changed, ends="can't get kernel image!"),
    *(Case(f"{what} in the kernel's memory",
           (), types=(LOAD, AFTER, "setexpr at ${at} + 0x1000", booti),
           ends=f"ERROR: {name} image overlaps OS image") for what, name, booti in
      (("an initrd", "RD", "booti ${to} ${at}:1000 ${fdtcontroladdr}"),
       ("a device tree", "FDT",
        "fdt addr ${fdtcontroladdr}; fdt move ${fdtcontroladdr} ${at} 8000; booti ${to} - ${at}"))),
]


def cases(arch: str) -> list[Case]:
    """The cases that this architecture's U-Boot can do."""
    asks = ASKS_FOR_SCRIPT in Path(ISAS[arch].uboot).read_bytes()
    return [
        case for case in CASES
        if (asks or case.name != "TFTP") and (arch == "riscv64" or case not in CASES[-2:])
    ]


def card(arch: str, case: Case) -> Path:
    """The architecture's card with the case's changes; or the folder for TFTP."""
    if case.tftp:
        return ROOT / "build" / arch / "tftp"
    whole = ROOT / "build" / arch / "sdcard.img"
    if not case.without and not case.fit and not case.crlf:
        return whole
    return spoilt(whole, case, LOGS / f"{arch}-{case.name.replace(' ', '-')}.img",
                  ROOT / "build" / arch / "card/callsite.itb")


def spoilt(whole: Path, case: Case, made: Path, fit: Path) -> Path:
    """The card with the case's changes."""
    shutil.copyfile(whole, made)
    for name in case.without:
        subprocess.run(["mdel", "-i", f"{made}{PARTITION}", f"::{name}"], check=True)
    if case.crlf:
        conf = ["-i", f"{made}{PARTITION}", "::extlinux/extlinux.conf"]
        lines = subprocess.run(["mtype", *conf], capture_output=True, check=True).stdout
        subprocess.run(["mcopy", "-o", *conf[:2], "-", conf[2]],
                       input=lines.replace(b"\n", b"\r\n"), check=True)
    if case.fit:
        subprocess.run(["mcopy", "-o", "-i", f"{made}{PARTITION}", "-", "::callsite.itb"],
                       input=case.fit(fit.read_bytes()), check=True)
    return made


def boot(run: Run, case: Case) -> str:
    """The output up to the kernel's prompt, or up to U-Boot's last words."""
    text = ""
    if case.types:
        # a key is kept from here on: the countdown lasts two seconds of the host
        text += run.console.wait_for(lambda _: run.console.has("\nNet: "), HANGS, "U-Boot")
        run.console.send(b" ")
    for line in case.types:
        text += run.console.wait_for(lambda said: said.endswith(UBOOT_PROMPTS), HANGS,
                                     "U-Boot's prompt")
        run.console.send(line.encode() + b"\r")
    if case.ends:
        return text + run.console.wait_for(lambda _: run.console.has(case.ends), HANGS,
                                           "U-Boot's last words")
    return text + run.console.wait_ready(HANGS)


def shown(heading: str) -> list[str]:
    """The lines that the page shows below this heading."""
    section = PAGE.read_text().partition(f"\n### {heading}\n")[2].partition("\n#")[0]
    return printed("\n".join(line.strip() for line in re.findall(r"^    (.*)", section, re.M)))


def printed(text: str) -> list[str]:
    """The text without the date of U-Boot's build, the countdown's earlier figures, the cursor's
    moves, and U-Boot's remarks on a busy host, which may be in the middle of a line."""
    text = re.sub(r"(U-Boot \S+) \(.* [+-]\d{4}\)", r"\1", text)
    text = re.sub(r"cyclic function .*\r*\n", "", text)
    text = re.sub(r"(stop autoboot:).*(?=\d)", r"\1 ", text)
    return [
        line for line in (plain(re.sub(r"\x1b[78]|[\x00-\x08\x0b-\x1f]", "", line))
                          for line in text.split("\n")) if line
    ]


class WhatIsPrinted(unittest.TestCase):
    def test_what_a_busy_host_adds_is_left_out(self) -> None:
        """U-Boot prints its remark at any place, also in the middle of a line."""
        busy = "cyclic function video_init took too long: 5874us vs 5000us max\r\n"
        quiet = ("Net:   No ethernet found.\r\nHit any key to stop autoboot:  2 \b\b\b 1 \b\b\b 0 "
                 "\r\nScanning\r\n")
        self.assertEqual(printed(quiet),
                         ["Net: No ethernet found.", "Hit any key to stop autoboot: 0", "Scanning"])
        for at in (0, quiet.index("No"), quiet.index("\b"), quiet.index(" 1 "), quiet.rindex("\b"),
                   quiet.index("Scan")):
            with self.subTest(at=at):
                self.assertEqual(printed(quiet[:at] + busy + quiet[at:]), printed(quiet))


class Booting(unittest.TestCase):
    def assert_shown(self, heading: str, text: str) -> None:
        """The page has a listing below this heading, and the text has its lines."""
        lines = printed(text)
        self.assertTrue(shown(heading), f"{PAGE.name} has nothing about it")
        self.assertEqual(first_difference(shown(heading), lines, whole=False), "",
                         f"is shown in {PAGE.name} and not printed; printed:\n" + "\n".join(lines))

    def check(self, machine: Machine, case: Case, log: Path, more: Sequence[Step] = ()) -> str:
        """Boot the case and check its output. Returns the output up to the prompt."""
        text = ""
        with self.subTest(board=machine.board, arch=machine.arch, el2=machine.el2,
                          case=case.name), Run(machine, log) as run:
            try:
                text = boot(run, case)
                self.found(text, case.says)
                if not case.ends:
                    self.traces(run, case.whole)
                for step in more:
                    self.assertEqual(step(run), "")
            except Stopped as why:
                self.fail(f"{why}; see {log}")
        return text

    def found(self, text: str, says: tuple[str, ...]) -> None:
        """The text has each of these expressions, in this order."""
        at = 0
        for words in says:
            match = re.compile(words).search(text, at)
            self.assertIsNotNone(match, f"the boot does not say '{words}' but:\n{text[-1500:]}")
            at = match.end() if match else 0

    def traces(self, run: Run, whole: bool) -> None:
        """All CPUs run the workload, and its functions are traced on each."""
        steps = [
            shows("ls /data", "^words.txt$" if whole else "ENOENT"),
            shows("echo 'wl_*n*' > set_ftrace_filter; echo function > current_tracer"),
            works(1, 4),
            shows("cat trace", *(rf"\[00{cpu}\] .* wl_\w+ <-" for cpu in range(4)))
        ]
        for step in steps:
            self.assertEqual(step(run), "")


class Boots(Booting):
    def case(self, arch: str, case: Case, el2: bool = False) -> None:
        text = self.check(
            Machine(arch, smp=4, memory=256, uboot=True, el2=el2, card=card(arch, case)), case,
            LOGS / f"{arch}{'-el2' if el2 else ''}-{case.name.replace(' ', '-')}.log")
        if case.name == "extlinux" and text and "U-Boot 2023.01" in text:
            with self.subTest("the page", arch=arch, el2=el2):
                self.assert_shown(f"virt, {arch}", text)

    @classmethod
    def setUpClass(cls) -> None:
        LOGS.mkdir(parents=True, exist_ok=True)
        subprocess.run(["make", "-s", "-C", str(ROOT), "sdcard", "tftp"], check=True)

    def test_each_way_to_boot(self) -> None:
        for arch in ARCHES:
            for case in cases(arch):
                self.case(arch, case)

    def test_each_way_to_boot_at_el2(self) -> None:
        for case in cases("arm64"):
            if not case.ends and case.whole:
                self.case("arm64", case, el2=True)


class ThroughACrash(Booting):
    """The next boot is again U-Boot's, which loads its files and lies in RAM itself."""

    @classmethod
    def setUpClass(cls) -> None:
        """Cards of their own: other tests read those of make sdcard."""
        LOGS.mkdir(parents=True, exist_ok=True)
        images = {arch: f"build/{arch}/{FINISHED}/Image" for arch in ARCHES}
        subprocess.run([
            "make", "-s", "-C",
            str(ROOT), *images.values(), *(f"build/{arch}/initrd.cpio" for arch in ARCHES)
        ], check=True)
        for arch, image in images.items():
            subprocess.run([
                "/usr/bin/python3", "boot/card.py", "--arch", arch, "--image", image, "--initrd",
                f"build/{arch}/initrd.cpio", "--folder", LOGS / f"{arch}-last-boot", "--out",
                LOGS / f"{arch}-last-boot.img"
            ], cwd=ROOT, env={**os.environ, "APPEND": "last_boot=4M"}, check=True)

    def crashes(self, arch: str, el2: bool = False) -> None:
        card, name = LOGS / f"{arch}-last-boot.img", f"{arch}{'-el2' if el2 else ''}"
        machine = Machine(arch, smp=4, memory=256, uboot=True, el2=el2, card=card,
                          extra=["-action", "reboot=reset"])
        with self.subTest(name), Run(machine, LOGS / f"{name}-last-boot.log") as run:
            run.console.wait_ready(HANGS)
            for step in (shows("echo 'wl_*' > set_ftrace_filter; echo function > current_tracer"),
                         works(1, 4), shows("echo 0 > tracing_on")):
                self.assertEqual(step(run), "")
            before = self.events(run, "trace")
            self.assertEqual({line.split("[")[1][:3]
                              for line in before}, {f"{cpu:03}"
                                                    for cpu in range(4)})
            run.console.begin("panic now")
            said = run.console.wait_for(
                lambda text: "\nlast_boot: " in text and text.endswith(PROMPT), HANGS,
                "prompt of the next boot")
            self.found(
                said,
                (r"panic: ", r"U-Boot 20\d\d", r"Starting kernel \.\.\.",
                 f"last_boot: instances/last_boot has {len(before)} events of the boot before"))
            self.assertEqual(self.events(run, "instances/last_boot/trace"), before)

    def events(self, run: Run, path: str) -> list[str]:
        """The events, without the threads' names, which only their own boot knows."""
        return [
            line.partition("[")[1] + line.partition("[")[2]
            for line in run.console.command(f"cat {path}", HANGS).splitlines()
            if not line.startswith("#")
        ]

    def test_its_events_are_read_in_the_next_boot(self) -> None:
        self.crashes("riscv64")
        self.crashes("arm64")
        self.crashes("arm64", el2=True)


if __name__ == "__main__":
    unittest.main()
