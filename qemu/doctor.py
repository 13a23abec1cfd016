"""`make doctor`: prints each tool's version, the version that is needed, and what to do."""
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from qemu.emulator import Unfit, candidates, find, for_a_grade, look  # noqa: E402
from qemu.isa import ARCHES  # noqa: E402

# Tool, the option that prints its version, the oldest version with which Callsite was tried, its
# package.
TOOLS = [
    ("make", "make --version", (4, 3), "make"),
    ("riscv64 gcc", "riscv64-linux-gnu-gcc -dumpfullversion", (12, 2), "gcc-riscv64-linux-gnu"),
    ("arm64 gcc", "aarch64-linux-gnu-gcc -dumpfullversion", (12, 2), "gcc-aarch64-linux-gnu"),
    ("riscv64 ld", "riscv64-linux-gnu-ld --version", (2, 40), "binutils-riscv64-linux-gnu"),
    ("arm64 ld", "aarch64-linux-gnu-ld --version", (2, 40), "binutils-aarch64-linux-gnu"),
    ("host gcc", "gcc -dumpfullversion", (12, 2), "gcc"),
    ("host g++", "g++ -dumpfullversion", (12, 2), "g++"),
    ("python3", "/usr/bin/python3 --version", (3, 11), "python3"),
    ("bubblewrap", "bwrap --version", (0, 8), "bubblewrap"),
    ("cpio", "cpio --version", (2, 13), "cpio"),
    ("dtc", "dtc --version", (1, 6), "device-tree-compiler"),
    ("cloc", "cloc --version", (1, 96), "cloc"),
    ("cppcheck", "cppcheck --version", (2, 10), "cppcheck"),
    ("shellcheck", "shellcheck --version", (0, 9), "shellcheck"),
    ("mypy", "mypy --version", (1, 0), "mypy"),
    ("gdb", "gdb-multiarch --version", (13, 1), "gdb-multiarch"),
    ("clang-format", "clang-format --version", (14, 0), "clang-format"),
    ("clang", "clang --version", (14, 0), "clang"),
]


def version(command: str) -> tuple[int, ...] | None:
    try:
        done = subprocess.run(command.split(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
    except OSError:
        return None
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(n) for n in found.groups() if n) if found else None


def installed(package: str) -> bool:
    done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout == "installed"


def described(arch: str, path: Path) -> str:
    try:
        return str(look(path))
    except Unfit as why:
        return str(why)


def qemu(arch: str) -> bool:
    """Print which QEMU is used for which purpose, and why. Is it sufficient for all of them?"""
    try:
        used = find(arch)
        others = [described(arch, path) for path in candidates(arch) if path != used.path]
        why = "QEMU_DIR names it" if os.environ.get(
            "QEMU_DIR") else f"no older than {others[0]}" if others else "the only one here"
        print(f"{arch}: make run uses {used}: {why}.")
        for_a_grade(arch)
        print(f"{arch}: make grade uses the same.")
    except Unfit as why:
        print(f"{arch}: {why}.")
        return False
    return True


def main() -> int:
    ill = 0
    print(f"{'tool':14} {'found':10} {'wanted':10} what to do")
    for tool, command, wanted, package in TOOLS:
        found = version(command)
        good = found is not None and found >= wanted
        ill += not good
        shown = ".".join(map(str, found)) if found else "none"
        advice = "" if good else f"sudo apt-get install {package}"
        print(f"{tool:14} {shown:10} {'.'.join(map(str, wanted)):10} {advice}")
    ill += sum(not qemu(arch) for arch in ARCHES)
    if missing := [p for p in sys.argv[1:] if not installed(p)]:
        print("packages not installed: " + " ".join(missing) + "\n  make setup")
    return 1 if ill or missing else 0


sys.exit(main())
