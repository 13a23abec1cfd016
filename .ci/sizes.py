"""Lines of code by cloc, beside what DESIGN.md allows: `make sizes`.

Tests and generated files are not counted, of a lab's two states the solution is; cloc leaves out blanks and comments. The
shell, with what runs programs for it, is beside the kernel: what a person talks to.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

LABS = re.compile(r"kern/ftrace/(riscv64/|arm64/)?(mcount|recordmcount|records|patch|caller|mcount_caller|graph|graph_caller|shadow_frame|fgraph)\.[cSh]$")
PARTS = [
    ("what the labs build", 2000, lambda f: bool(LABS.match(f))),
    ("kern/ftrace/", 6500, lambda f: f.startswith("kern/ftrace/") and not f.endswith(".py")),
    ("kern/ without ftrace, apps, shell", 6000,
     lambda f: f.startswith("kern/") and not f.startswith(("kern/ftrace/", "kern/apps/", "kern/shell/")) and not f.endswith(".py")),
    ("kern/shell/", None, lambda f: f.startswith("kern/shell/")),
    ("build tools in kern/ (Python)", None, lambda f: f.startswith("kern/") and f.endswith(".py")),
    ("kern/apps/", None, lambda f: f.startswith("kern/apps/")),
    ("boot/", None, lambda f: f.startswith("boot/")),
    ("grading/ and qemu/", None, lambda f: f.startswith(("grading/", "qemu/"))),
]


def solution(file: str) -> str:
    """Where the file's solution lies: itself, if it holds no other state."""
    text = Path(file).read_text()
    if file.endswith(".py") or "LAB_START" not in text:
        return file
    resolved = Path("build/sizes", file)
    resolved.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["unifdef", "-ULAB_START", "-o", resolved, file], check=False)
    if done.returncode > 1:
        sys.exit(f"unifdef cannot read {file}")
    return str(resolved)


def main() -> int:
    files = [f for f in subprocess.check_output(["git", "ls-files"], text=True).split()
             if f.endswith((".c", ".h", ".S", ".py")) and "/tests/" not in f]
    listing = Path("build/sizes.txt")
    listing.parent.mkdir(exist_ok=True)
    listing.write_text("\n".join(map(solution, files)) + "\n")
    out = subprocess.check_output(["cloc", "--quiet", "--json", "--by-file", f"--list-file={listing}"], text=True)
    counts = {f.removeprefix("./").removeprefix("build/sizes/"): v["code"] for f, v in json.loads(out).items() if f not in ("header", "SUM")}
    over = False
    for name, limit, belongs in PARTS:
        n = sum(code for f, code in counts.items() if belongs(f))
        over |= limit is not None and n > limit
        print(f"{name:34} {n:6}" + (f" of {limit:,}" if limit else ""))
    return 1 if over else 0


sys.exit(main())
