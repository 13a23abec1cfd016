"""`make gdb`: a machine that waits, and gdb-multiarch attached to it.

QEMU's stub and the guest's console are unix sockets in a directory of this
run's own, so any number of people can debug on one host. gdb's commands for
the kernel are in debugger/.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from qemu.machine import ROOT, WITH_US, Machine  # noqa: E402
from qemu.run import missing, parse, terminal_settings, restore_terminal  # noqa: E402

GDB = "gdb-multiarch"
MISSING = f"{GDB} is not installed: sudo apt-get install {GDB} (or make setup)"


def qemu_command(machine: Machine, scratch: Path) -> list[str]:
    disk = scratch / "disk"
    disk.mkdir()
    serial = ["-chardev", f"socket,id=console,path={scratch}/console,server=on,wait=off", "-serial",
              "chardev:console"]
    stub = ["-chardev", f"socket,id=gdb,path={scratch}/gdb,server=on,wait=off", "-gdb",
            "chardev:gdb", "-S"]
    return machine.command(serial, disk) + stub


def wait_for_sockets(qemu: subprocess.Popen[bytes], scratch: Path) -> bool:
    deadline = time.monotonic() + 600  # for a QEMU that neither listens nor ends
    while not all((scratch / name).exists() for name in ("console", "gdb")):
        if qemu.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def gdb_command(elf: Path, extra: list[str]) -> list[str]:
    """gdb's command line. `extra` comes before our script, so that its settings of gdb are in
    effect from the beginning."""
    return [GDB, "-q", *extra, "-ex", f"source {ROOT}/qemu/debugger/start.py", str(elf)]


def run_gdb(scratch: Path, arch: str, elf: Path, extra: list[str], about: dict[str, str]) -> int:
    """Run gdb until the user ends it. `about`: additional environment variables for our script."""
    settings = terminal_settings()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for end in (signal.SIGTERM, signal.SIGHUP):  # the terminal was closed: end QEMU too
        signal.signal(end, lambda *_: sys.exit(1))
    try:
        return subprocess.run(
            gdb_command(elf, extra), check=False,
            env={**os.environ, "CALLSITE_GDB": str(scratch), "CALLSITE_ARCH": arch, **about},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)).returncode
    finally:
        restore_terminal(settings)


def debug(machine: Machine, elf: Path, extra: list[str], moment: str = "") -> int:
    """Start the machine and gdb. `moment`: a file with the moment up to which a graded boot is
    repeated first."""
    with tempfile.TemporaryDirectory(prefix="callsite-gdb-") as name:
        scratch = Path(name)
        # QEMU has its own process group, so that Ctrl-C goes to gdb only.
        qemu = subprocess.Popen(WITH_US + qemu_command(machine, scratch), stdin=subprocess.DEVNULL,
                                start_new_session=True)
        try:
            if not wait_for_sockets(qemu, scratch):
                print("QEMU did not start.", file=sys.stderr)
                return 2
            return run_gdb(scratch, machine.arch, elf, extra,
                           {"CALLSITE_MOMENT": moment} if moment else {})
        finally:
            qemu.kill()
            qemu.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="qemu/debug.py", add_help=False)
    parser.add_argument("--elf", type=Path, required=True, help="the kernel with its symbols")
    parser.add_argument("--gdb", action="append", default=[],
                        help="one more word of gdb's command line")
    own, rest = parser.parse_known_args()
    machine, _ = parse([*rest, "--image", str(own.elf.with_name("Image"))])
    if why := missing(machine, own.elf) if shutil.which(GDB) else MISSING:
        print(why, file=sys.stderr)
        return 2
    return debug(machine, own.elf, own.gdb)


if __name__ == "__main__":
    sys.exit(main())
