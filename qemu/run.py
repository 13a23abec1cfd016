"""`make run`: runs a kernel on this terminal.

QEMU's exit status is not enough to tell a power-off from a panic (a reset with
-no-reboot also gives 0), so the reason is read from its control socket.
"""

import argparse
import os
import select
import shlex
import subprocess
import sys
import tempfile
import termios
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from qemu.emulator import Unfit, find  # noqa: E402
from qemu.machine import ARCHES, MOST_CPUS, WITH_US, Machine, extra_options, initrd_of  # noqa: E402
from qemu.reason import Reason  # noqa: E402


def terminal_settings() -> list[Any] | None:
    return termios.tcgetattr(0) if os.isatty(0) else None


def restore_terminal(settings: list[Any] | None) -> None:
    """Restore the terminal: a killed QEMU leaves it raw, and its files non-blocking."""
    for fd in (0, 1, 2):
        os.set_blocking(fd, True)
    if settings:
        termios.tcsetattr(0, termios.TCSADRAIN, settings)


def end_with_terminal(qemu: subprocess.Popen[bytes]) -> None:
    """End QEMU when the terminal closes. The hang-up signal goes only to the session's leader: a
    make, which then waits for us."""
    hangup = select.poll()
    hangup.register(0, 0)
    hangup.poll()
    qemu.kill()


def pass_on(qemu: subprocess.Popen[bytes]) -> None:
    """Pass a file or a pipe on to the console of a machine with firmware. The firmware discards the
    first byte, so an empty line is sent first."""
    assert qemu.stdin
    with suppress(BrokenPipeError), qemu.stdin:
        data = b"\n"
        while data:
            qemu.stdin.write(data)
            data = os.read(0, 4096)


def run(machine: Machine) -> int:
    settings = terminal_settings()
    with tempfile.TemporaryDirectory(prefix="callsite-") as name, closing(Reason()) as reason:
        serial = ["-chardev", "stdio,id=console,mux=on,signal=off", "-serial", "chardev:console"]
        command = machine.command(serial, Path(name)) + reason.options()
        try:
            passed_on = bool(machine.isa.after_firmware and not settings)
            qemu = subprocess.Popen(WITH_US + command, bufsize=0, pass_fds=[reason.fileno()],
                                    stdin=subprocess.PIPE if passed_on else None)
            if settings or passed_on:
                threading.Thread(target=end_with_terminal if settings else pass_on, args=[qemu],
                                 daemon=True).start()
            status = qemu.wait()
        finally:
            restore_terminal(settings)
        why = reason.read()
    if status == 0 and why in ("guest-reset", "guest-panic"):
        status = 1
    if status:
        print(f"\nThe kernel did not power off ({why or 'QEMU failed'}): status {status}.",
              file=sys.stderr)
    return status


def cpus(text: str) -> int:
    """A number of CPUs that the kernel uses all."""
    if text not in map(str, range(1, MOST_CPUS + 1)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of CPUs from 1 to {MOST_CPUS}")
    return int(text)


def parse(arguments: list[str]) -> tuple[Machine, bool]:
    parser = argparse.ArgumentParser(prog="qemu/run.py",
                                     usage="make help lists what make run takes",
                                     description="Start a kernel on this terminal.")
    parser.add_argument("--arch", choices=ARCHES, required=True)
    parser.add_argument("--smp", type=cpus, default=1, help="CPUs")
    parser.add_argument("--memory", type=int, default=128, help="MiB")
    parser.add_argument("--append", default=os.environ.get("APPEND", ""),
                        help="boot arguments; default: $APPEND")
    parser.add_argument("--boot", choices=("direct", "uboot"), default="direct")
    parser.add_argument("--load", type=lambda s: int(s, 0),
                        help="U-Boot: physical address of the image")
    parser.add_argument("--gic", type=int, choices=(2, 3), default=2,
                        help="arm64: interrupt controller")
    parser.add_argument("--el", type=int, choices=(1, 2), default=1,
                        help="arm64: exception level at entry")
    parser.add_argument("--image", type=Path)
    parser.add_argument("--initrd", type=Path,
                        help="default: build/<arch>/initrd.cpio, if it is there")
    parser.add_argument("--icount", action="store_true",
                        help="count instructions exactly (one CPU)")
    parser.add_argument("--print", action="store_true", help="print QEMU's command line and stop")
    a = parser.parse_args(arguments)
    initrd = a.initrd or initrd_of(a.arch)
    machine = Machine(a.arch, a.smp, a.memory, a.append, a.image,
                      initrd if initrd.exists() else None, uboot=a.boot == "uboot", load=a.load,
                      gic=a.gic, el2=a.el == 2, icount=a.icount)
    return machine, a.print


def missing(machine: Machine, *files: Path) -> str:
    """A sentence if this machine cannot be started, with the kernel's image and these files, or
    ''."""
    try:
        find(machine.arch)
    except Unfit as why:
        return str(why)
    return next((f"{file} does not exist: type make ARCH={machine.arch}"
                 for file in (*files, machine.image_path()) if not file.exists()), "")


def main() -> int:
    machine, only_print = parse(sys.argv[1:])
    try:
        extra_options()
    except ValueError as error:
        print(f"QEMU_EXTRA: {error}", file=sys.stderr)
        return 2
    if why := missing(machine):
        print(why, file=sys.stderr)
        return 2
    if only_print:
        with tempfile.TemporaryDirectory() as disk:
            print(shlex.join(machine.command(["-serial", "stdio"], Path(disk))))
        return 0
    print(f"{machine.arch}, {machine.smp} CPU{'s' if machine.smp > 1 else ''}: Ctrl-C goes to the "
          "kernel, Ctrl-A X ends QEMU, `poweroff` ends both.", flush=True)
    return run(machine)


if __name__ == "__main__":
    sys.exit(main())
