"""The tracer's tests.

    *_kt.c      in a kernel with TESTS=1: commands of the shell that check promises (kt.h);
                kern/tests/run_qemu.py types them, stages.mk says which lab's kernel has which
    bench*      what tracing costs, in instructions: bench.py (`make bench`) and bench*_kt.c
    *_test.cc   on the host: files of the kernel, which the first lines name (`// needs:`);
                fake_* has what they call of other files; `make host-tests`
    *_test.h    such a test of both architectures, for two .cc files
    *_fuzz.c    on the host, under libFuzzer: `make fuzz`
    test_*.py   a unittest that boots a kernel and uses its files, or runs a program of tools/
    golden/     the content of files of tracefs after boot, for test_tracefs.py and
                test_instances.py
    linux/      Linux's own selftests of ftrace: `make test-linux`
    host/       for host tests: an arch.h, and for each architecture the link asm-ftrace

checked_qsort.c is a part of recordmcount in each build. mksites.py and far-program.c make
large kernels. Tests may use every room; no room includes a header of theirs.
"""
import subprocess
import unittest

from qemu.machine import FINISHED, ROOT, Machine


def finished(arch: str, cpus: int, append: str = "") -> Machine:
    """Build the finished kernel. Returns a machine with it and these boot arguments."""
    image = ROOT / "build" / arch / FINISHED / "Image"
    subprocess.run([
        "make", "--no-print-directory", "-s", "-C", str(ROOT), f"ARCH={arch}",
        str(image.relative_to(ROOT)), f"build/{arch}/initrd.cpio"
    ], check=True)
    return Machine(arch, smp=cpus, image=image, append=append,
                   initrd=ROOT / f"build/{arch}/initrd.cpio")


def on_each_machine(mixin: type) -> list[type]:
    """The four test cases of a class that reads `arch` and `cpus`: riscv64 and arm64, with one CPU
    and with four."""
    return [
        type(f"On{cpus}{arch}", (mixin, unittest.TestCase),
             {"arch": arch, "cpus": cpus, "__module__": mixin.__module__})
        for arch in ("riscv64", "arm64") for cpus in (1, 4)
    ]
