"""Kernels with one mistake, for the tests of the harness: a few words of a lab's kernel are
overwritten, in the ELF file and in the image alike, so what the harness reads is what runs.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from grading.elf.elf import Kernel
from qemu.machine import ARCHES, ROOT

SEED = 0x0123456789ABCDEF
RETURN_0 = {"riscv64": [0x00000513, 0x00008067], "arm64": [0x52800000, 0xD65F03C0]}
NOP = {"riscv64": [0x00000013], "arm64": [0xD503201F]}
# In ftrace_caller: the load that restores the second argument.
LOADS_ARGUMENT = {"riscv64": 0x00813583, "arm64": 0xA94007E0}

Mistake = Callable[[Kernel], tuple[int, list[int]]]  # the address and the words to write there


def returns_at_once(name: str) -> Mistake:
    """The extent of a function; GCC gives its copies of a function names like name.isra.0."""
    return lambda kernel: (next(a for n, a in kernel.symbols.items()
                                if n.split(".")[0] == name), RETURN_0[kernel.arch])


def forgets_an_argument(kernel: Kernel) -> tuple[int, list[int]]:
    lo, hi = kernel.extent("ftrace_caller")
    at = next(a for a in range(lo, hi, 4) if kernel.word(a) == LOADS_ARGUMENT[kernel.arch])
    return at, NOP[kernel.arch]


def build(lab: int = 4) -> None:
    images = [f"build/{a}/lab{lab}/Image" for a in ARCHES]
    subprocess.run([
        "make", "-s", "-C",
        str(ROOT), f"LAB={lab}", *(f"build/{arch}/initrd.cpio" for arch in ARCHES), *images
    ], check=True)


def wrong_kernel(arch: str, name: str, mistake: Mistake, lab: int) -> Kernel:
    """A copy of a lab's kernel with the mistake written into it."""
    right = ROOT / f"build/{arch}/lab{lab}"
    out = ROOT / f"build/tests/wrong/{arch}-{name}"
    out.mkdir(parents=True, exist_ok=True)
    kernel = Kernel(right / "callsite.elf", arch)
    address, words = mistake(kernel)
    data = b"".join(w.to_bytes(4, "little") for w in words)
    around = kernel.read(address, 512)  # long enough to be unique in the file
    (out / "callsite.map").write_bytes((right / "callsite.map").read_bytes())
    for file in ("callsite.elf", "Image"):
        content = bytearray((right / file).read_bytes())
        at = content.index(around)
        content[at:at + len(data)] = data
        (out / file).unlink(missing_ok=True)  # a test may have left a link to the right kernel
        (out / file).write_bytes(content)
    return Kernel(out / "callsite.elf", arch)
