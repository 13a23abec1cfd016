"""Build an application of kern/apps/ for the host, against kern/app.h and app_host.c."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RENAMED = ["open", "read", "write", "clock", "main", "strtoull"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# Logs every call at the function's entry, tail calls left as jumps.
TRACE = ["-pg", "-mfentry", "-foptimize-sibling-calls"]


def build(name: str, options: list[str], out: Path) -> Path:
    """Compile kern/apps/<name>.c with these options. Returns the path of the program."""
    out.mkdir(parents=True, exist_ok=True)
    program = out / name
    common = ["gcc", "-std=gnu11", "-O2", "-g", "-fno-pie", "-fno-builtin", "-Wall", "-Wextra",
              "-Wno-unused-parameter"]
    against = [*options, "-iquote", str(ROOT / "kern"), *(f"-D{n}=app_{n}" for n in RENAMED)]
    against.append(f'-DAPP_NAME="{name}"')
    sources = (f"kern/apps/{name}.c", "kern/apps/lib/applib.c", "kern/apps/lib/text.c")
    for source in sources:
        o = f"{program}-{Path(source).stem}.o"
        subprocess.run([*common, *against, "-c", "-o", o, str(ROOT / source)], check=True)
    sanitize = [o for o in options if o.startswith("-fsanitize")]
    subprocess.run(
        [*common, "-no-pie", "-pthread", *sanitize, "-o", str(program)]
        + [f"{program}-{Path(source).stem}.o" for source in sources]
        + [str(ROOT / "kern/tests/app_host.c")],
        check=True,
    )
    return program
