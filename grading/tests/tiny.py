"""Builds the one-page kernels of grading/tests/kernels/."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from grading.machine.observer import Config
from qemu.isa import ISAS, RISCV64
from qemu.machine import ROOT, Machine

FLAGS: dict[str, list[str]] = {
    "riscv64": ["-march=rv64ima_zicsr_zifencei", "-mabi=lp64", "-mno-relax"], "arm64": []
}


@lru_cache(maxsize=None)
def build(arch: str, part: str) -> Path:
    """The image of one part, linked at its load address. Beside it is the ELF file. Test files that
    run side by side boot the same parts: each file appears whole."""
    out = ROOT / "build/tests/tiny"
    out.mkdir(parents=True, exist_ok=True)
    source = ROOT / f"grading/tests/kernels/{arch}.S"
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        elf, image = Path(scratch, f"{arch}-{part}.elf"), Path(scratch, f"{arch}-{part}.img")
        subprocess.run([
            f"{ISAS[arch].cross}gcc", *FLAGS[arch], "-nostdlib", "-static", "-no-pie",
            f"-DPART_{part}",
            f"-Wl,-Ttext={ISAS[arch].ram + 0x200000:#x},--build-id=none,-e,_start", "-o",
            str(elf),
            str(source)
        ], check=True)
        subprocess.run(
            [f"{ISAS[arch].cross}objcopy", "-O", "binary", "-j", ".text",
             str(elf),
             str(image)], check=True)
        for file in (elf, image):
            os.replace(file, out / file.name)
    return out / image.name


@lru_cache(maxsize=None)
def symbols(arch: str, part: str) -> dict[str, int]:
    elf = build(arch, part).with_suffix(".elf")
    lines = subprocess.run([f"{ISAS[arch].cross}nm", str(elf)], check=True, capture_output=True,
                           text=True).stdout
    return {
        name: int(address, 16)
        for address, _, name in (line.split() for line in lines.splitlines())
    }


def machine(arch: str, part: str) -> Machine:
    return Machine(arch, image=build(arch, part))


def config(arch: str, part: str, *lines: str) -> Config:
    """The observer's configuration for a tiny kernel. `lines` have a role and a symbol: "body
    traced_site+4"."""
    s = symbols(arch, part)
    start, size = s["_start"], s["_etext"] - s["_start"]
    made = Config(image=build(arch, part).read_bytes()[:size])
    made.add("start", start)
    made.add("text", start, start, size)
    made.add("firmware", RISCV64.ram, start if arch == "riscv64" else RISCV64.ram)
    for role, *operands in map(str.split, lines):
        places = (o.partition("+") for o in operands)
        made.add(
            role,
            *(s[name] + int(offset or 0) if name in s else int(name) for name, _, offset in places))
    return made
