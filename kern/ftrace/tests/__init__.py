"""The tracer's tests."""
import unittest


def on_each_machine(mixin: type) -> list[type]:
    """The four test cases of a class that reads `arch` and `cpus`: riscv64 and arm64, with one CPU and with four."""
    return [type(f"On{cpus}{arch}", (mixin, unittest.TestCase), {"arch": arch, "cpus": cpus, "__module__": mixin.__module__})
            for arch in ("riscv64", "arm64") for cpus in (1, 4)]
