"""A CPU that starts just when the boot stops waiting for it: either it is online like any other, or
it never does anything."""
import subprocess
import unittest

from grading.elf.elf import Kernel
from grading.machine.hold import interleaved
from grading.machine.machine import Run
from grading.truth.returns import calls_to
from qemu.machine import ARCHES, FINISHED, ROOT, Machine

INSNS = 1 << 40  # as many as the firmware and five seconds of waiting may take
GIVEN_UP = "is not used"
WAITS = 5.5  # seconds; START_TIMEOUT_NS is less
# seconds of the host for those of the guest, whose clock stops while the CPUs are stopped
PATIENCE = 120


class Late(unittest.TestCase):
    def boot(self, arch: str, place: str) -> tuple[str, str, bool]:
        """Hold CPU 1 where secondary_main() calls this ("": at its first instruction) until the
        boot has stopped waiting for it. Returns what the boot printed until then, what a program
        that is to run on CPU 1 prints, and whether that CPU is online."""
        image = ROOT / "build" / arch / FINISHED / "Image"
        subprocess.run([
            "make", "-s", "-C",
            str(ROOT), f"ARCH={arch}", f"build/{arch}/{FINISHED}/Image", f"build/{arch}/initrd.cpio"
        ], check=True)
        kernel = Kernel(image.with_name("callsite.elf"), arch, any_name=True)
        held = {kernel.symbol("secondary_main")}
        if place:
            held = set(calls_to(kernel, place, kernel.extent("secondary_main")))
        config = Machine(arch, smp=2, image=image, initrd=ROOT / f"build/{arch}/initrd.cpio",
                         memory=64)
        with Run(config, ROOT / f"build/tests/late-{arch}.log", stopped=True) as run:
            with interleaved(run) as cpus:
                self.assertEqual(cpus.reach(held, insns=INSNS), 1)
                until = run.clock() + (WAITS if place else PATIENCE)
                while not cpus.run(lambda: run.console.has(GIVEN_UP) or run.clock() > until,
                                   insns=INSNS):
                    pass
                said = "given up" if run.console.has(GIVEN_UP) else ""
            run.console.wait_ready(60)
            answer = run.console.command("taskset -c 1 echo here")
            online = kernel.symbol("cpus") + (members :=
                                              kernel.members("cpu"))[""] + members["online"]
            return said, answer, run.read(run.machine.load_address() + online - kernel.text[0],
                                          1) != b"\0"

    def test_one_that_comes_after_it_was_given_up(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch):
                self.assertEqual(self.boot(arch, ""),
                                 ("given up", "taskset: there is no CPU 1.\n", False))

    def test_one_that_had_come_is_waited_for(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch):
                self.assertEqual(self.boot(arch, "timer_init_cpu"), ("", "here\n", True))


if __name__ == "__main__":
    unittest.main()
