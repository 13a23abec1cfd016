# mypy: no-warn-return-any, allow-subclassing-any
"""gdb's side of `make gdb`: connect, load the commands, and run to the first line of C."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import gdb  # type: ignore[import]

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from qemu.debugger import console, events, guest, replay, sites, stacks  # noqa: E402

SCRATCH = Path(os.environ["CALLSITE_GDB"])


class PowerOff(gdb.Breakpoint):
    """Stop a kernel that panicked before it ends its machine."""

    def __init__(self) -> None:
        super().__init__("firmware_poweroff", internal=True)
        self.silent = True

    def stop(self) -> bool:
        if failed := bool(gdb.parse_and_eval("failure")):
            console.CONSOLE.muted = False
            console.CONSOLE.settle()
            gdb.write("\nThe kernel has ended by a panic, and its memory is still there: bt, "
                      "threads, trace.\n")
        return failed


def main() -> None:
    # After remotetimeout's two seconds gdb repeats a packet, and then takes the first answer to one
    # for that to the next: a busy host may let QEMU wait longer.
    for setting in ("pagination off", "confirm off", "print thread-events off",
                    "print inferior-events off", "remotetimeout 600"):
        gdb.execute(f"set {setting}")
    gdb.execute(f"target remote {SCRATCH}/gdb", to_string=True)
    console.CONSOLE.connect(SCRATCH / "console")
    for command in (console.ConsoleCommand, events.TraceCommand, sites.Callsites, sites.WhoPatches,
                    stacks.Threads, stacks.BtThread):
        command()
    stacks.install()
    held = os.environ.get("CALLSITE_HELD", "")
    if not held:
        # Until head.S has turned paging on, nothing is mapped at the symbols' addresses. So this
        # is a hardware breakpoint: gdb need not read or write memory there.
        gdb.execute("thbreak *kernel_main", to_string=True)
        with console.aside():
            gdb.execute("continue")
    PowerOff()
    gdb.write(f"{guest.ARCH}, {'in a schedule' if held else 'stopped at the first line of C'}. "
              "Ours: callsites [glob], threads, bt-thread PID,\ntrace [n], who-patches "
              f"FUNCTION|ADDR, console [LINE]; `help NAME` says more.\n{held}")
    if "CALLSITE_MOMENT" in os.environ:
        replay.replay(Path(os.environ["CALLSITE_MOMENT"]))


main()
