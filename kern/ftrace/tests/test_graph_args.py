"""funcgraph-args in a booted kernel, on both architectures: the arguments follow from the seed."""
import re
import unittest
from collections import Counter

from grading.stimulus.workload import expect
from kern.ftrace.tests import on_each_machine
from kern.ftrace.tests.one_boot import OneBoot

SEED = 0x0123456789ABCDEF
CALL = re.compile(
    r" (wl_\w+)\(w=0xffff[0-9a-f]{12}, x=(-?\d+), room=(\d+)((?:, [d-h]=-?\d+)*)\)(?:;| \{)$", re.M)


class OnAMachine(OneBoot):
    """The tests that are the same everywhere; one boot."""

    name = "graph-args"

    def tearDown(self) -> None:
        self.quiet("echo 0 > options/funcgraph-args", "echo 0 > options/funcgraph-retaddr",
                   "echo nop > current_tracer", "echo > set_ftrace_filter")

    def trace(self, functions: str, *options: str) -> str:
        self.quiet(f"echo '{functions}' > set_ftrace_filter",
                   *(f"echo 1 > options/{option}" for option in options),
                   "echo function_graph > current_tracer")
        self.work(SEED)
        return self.sh("cat trace")

    def test_arguments_are_the_seed_s(self) -> None:
        found = Counter((m[1], int(m[2]) % 2**64, int(m[3])) for m in
                        CALL.finditer(self.trace("wl_[lpsrtfw]*", "funcgraph-args")))
        calls = [
            call for calls in expect(SEED, self.cpus).contexts.values() for call in calls
            if re.match("wl_[lpsrtfw]", call.function) and call.function not in ("wl_first",
                                                                                 "wl_rest")
        ]
        for name in ("wl_first", "wl_rest"):  # their arguments do not follow from the seed
            found = Counter({k: n for k, n in found.items() if k[0] != name})
        self.assertEqual(found, Counter((call.function, call.x, call.room) for call in calls))

    def test_as_many_as_there_are_registers(self) -> None:
        calls = CALL.findall(self.trace("wl_wide_oak", "funcgraph-args"))
        self.assertTrue(calls)
        for _, _, _, more in calls:
            self.assertEqual(re.findall(r"[d-h](?==)", more), list("defgh"))

    def test_not_without_the_option_and_not_with_the_return_address(self) -> None:
        self.assertRegex(self.trace("wl_leaf_elm"), r"wl_leaf_elm\(\);\n")
        self.assertRegex(self.trace("wl_leaf_elm", "funcgraph-args", "funcgraph-retaddr"),
                         r"wl_leaf_elm\(\); /\* <-wl_\w+\+0x")
        self.quiet("echo 0 > options/funcgraph-retaddr", "echo > trace")
        text = self.trace("wl_leaf_elm", "funcgraph-args")
        self.assertNotIn("()", text)
        self.quiet("echo 0 > options/funcgraph-args")
        self.assertEqual(self.sh("cat trace"), text, "what was recorded stays")

    def test_each_instance_has_its_option(self) -> None:
        self.quiet("mkdir instances/plain", "echo wl_leaf_elm > instances/plain/set_ftrace_filter",
                   "echo function_graph > instances/plain/current_tracer")
        try:
            self.assertRegex(self.trace("wl_leaf_*", "funcgraph-args"), r"wl_leaf_elm\(w=0x")
            plain = self.sh("cat instances/plain/trace")
            self.assertIn("wl_leaf_elm();", plain)
            self.assertNotIn("w=0x", plain)
        finally:
            self.quiet("rmdir instances/plain")

    def test_the_kernel_s_own(self) -> None:
        """Arguments have the names of the source; an integer is decimal, a pointer an address."""
        self.quiet("echo 'file_open mutex_lock' > set_ftrace_filter",
                   "echo 1 > options/funcgraph-args", "echo function_graph > current_tracer")
        text = self.sh("cat README") and self.sh("cat trace")
        self.assertRegex(
            text,
            r"file_open\(cwd=0xffff[0-9a-f]{12}, path=0xffff[0-9a-f]{12}, flags=0, "
            r"file=0xffff[0-9a-f]{12}\)"
        )
        self.assertRegex(text, r"mutex_lock\(m=0xffff[0-9a-f]{12}\);")


On1Riscv64, On4Riscv64, On1Arm64, On4Arm64 = on_each_machine(OnAMachine)


if __name__ == "__main__":
    unittest.main()
