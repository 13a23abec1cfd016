"""Filters, enabled functions and corrupted sites in a booted kernel, on both architectures."""
import re
import subprocess
import unittest
from pathlib import Path

from grading.machine.machine import Run
from qemu.machine import ROOT, Machine

MAKE = ["make", "--no-print-directory", "-s", "-C", str(ROOT)]
ALL = "#### all functions enabled ####\n"
NONE = "#### no functions disabled ####\n"


class OnAMachine:
    """The tests that are the same on both architectures; one boot for each class."""

    arch: str
    lab: int
    machine: Run

    @classmethod
    def setUpClass(cls) -> None:
        image = ROOT / "build" / cls.arch / f"lab{cls.lab}-tests" / "Image"
        subprocess.run([
            *MAKE, f"ARCH={cls.arch}", f"LAB={cls.lab}", "TESTS=1",
            str(image.relative_to(ROOT)), f"build/{cls.arch}/initrd.cpio"
        ], check=True)
        config = Machine(cls.arch, smp=2, image=image,
                         initrd=ROOT / f"build/{cls.arch}/initrd.cpio")
        cls.machine = Run(config, ROOT / f"build/tests/filters-{cls.arch}-lab{cls.lab}.log")
        cls.machine.__enter__()
        cls.machine.console.wait_ready(60)
        cls.functions = cls.sh("cat available_filter_functions").splitlines()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.machine.__exit__(None, None, None)

    @classmethod
    def sh(cls, line: str) -> str:
        return cls.machine.console.command(line)

    def setUp(self) -> None:
        for line in ("echo nop > current_tracer", "echo > set_ftrace_filter",
                     "echo > set_ftrace_notrace"):
            self.assertEqual(self.sh(line), "")

    def filter(self, words: str, operator: str = ">", file: str = "set_ftrace_filter") -> list[str]:
        self.assertEqual(self.sh(f"echo {words} {operator} {file}"), "")
        return self.sh(f"cat {file}").splitlines()

    def enabled(self) -> dict[str, int]:
        rows = [re.fullmatch(r"(\S+) \((\d+)\) {11}(\ttramp: .*)?", line)
                for line in self.sh("cat enabled_functions").splitlines()]
        self.assertNotIn(None, rows)
        return {row[1]: int(row[2]) for row in rows}

    def test_empty_lists_say_so(self) -> None:
        self.assertEqual(self.sh("cat set_ftrace_filter"), ALL)
        self.assertEqual(self.sh("cat set_ftrace_notrace"), NONE)

    def test_a_name_names_every_function_of_that_name(self) -> None:
        name = max(set(self.functions), key=self.functions.count)
        self.assertEqual(self.filter(name), [name] * self.functions.count(name))

    def test_globs(self) -> None:
        for pattern, wanted in (("mutex_*", r"mutex_.*"), ("'*_lock'", r".*_lock"), ("'*lock*'",
                                                                                     r".*lock.*"),
                                ("'mutex_[lt]*'", r"mutex_[lt].*"), ("'mutex_loc?'", r"mutex_loc."),
                                ("'m*x*k'", r"m.*x.*k"), ("'mutex_[!l]*'", r"mutex_[^l].*")):
            with self.subTest(pattern=pattern):
                self.assertEqual(self.filter(pattern),
                                 [f for f in self.functions if re.fullmatch(wanted, f)])

    def test_append_and_remove(self) -> None:
        self.assertEqual(self.filter("mutex_lock"), ["mutex_lock"])
        self.assertCountEqual(self.filter("schedule", ">>"), ["mutex_lock", "schedule"])
        self.assertEqual(self.filter("'!mutex_lock'", ">>"), ["schedule"])
        self.assertEqual(self.filter("mutex_unlock"), ["mutex_unlock"])
        self.assertEqual(self.filter("'!mutex_*'", ">>"), [ALL.strip()])

    def test_several_words_and_a_comment(self) -> None:
        self.assertCountEqual(self.filter("'mutex_lock  schedule # and not this: kfree'"),
                              ["mutex_lock", "schedule"])

    def test_a_word_may_come_in_pieces(self) -> None:
        self.assertIn("5 passed, 0 failed", self.sh("kt_pieces"))

    def test_a_number_is_a_line_of_the_list(self) -> None:
        self.assertEqual(self.filter("12"), [self.functions[11]])
        self.assertEqual(self.filter("'1 2'"), self.functions[:2])

    def test_what_names_nothing_is_refused_and_said(self) -> None:
        for word in ("nosuch", "nosuch_*", "0", "999999", "12x", "'!nosuch'", "kfree:traceoff",
                     "x" * 200):
            with self.subTest(word=word):
                said = self.sh(f"echo {word} > set_ftrace_filter")
                self.assertIn("set_ftrace_filter: no function matches", said)
                self.assertRegex(said, r"echo: .*(invalid|22|EINVAL)|(?i:invalid argument)")

    def test_where_main_is(self) -> None:
        self.assertIn("no function matches 'main' (main() of a program NAME is app_main_NAME)\n",
                      self.sh("echo main > set_ftrace_filter"))
        self.assertNotIn("app_main", self.sh("echo main_ > set_ftrace_filter"))
        self.assertEqual(self.filter("app_main_cat"), ["app_main_cat"])

    def test_a_refused_word_still_emptied_the_filter(self) -> None:
        self.filter("mutex_lock")
        self.sh("echo nosuch > set_ftrace_filter")
        self.assertEqual(self.sh("cat set_ftrace_filter"), ALL)

    def test_notrace_wins_and_both_list(self) -> None:
        self.filter("'mutex_*'")
        self.assertEqual(self.filter("mutex_unlock", file="set_ftrace_notrace"), ["mutex_unlock"])
        self.assertIn("mutex_unlock", self.sh("cat set_ftrace_filter"))
        self.sh("echo function > current_tracer")
        self.assertEqual(set(self.enabled()),
                         {f
                          for f in self.functions if f.startswith("mutex_")} - {"mutex_unlock"})

    def test_enabled_functions_follow_the_filter_while_tracing(self) -> None:
        self.sh("echo function > current_tracer")
        self.assertEqual(len(self.sh("cat enabled_functions").splitlines()), len(self.functions))
        self.filter("schedule")
        self.assertEqual(self.enabled(), {"schedule": 1})
        self.filter("mutex_lock", ">>")
        self.assertEqual(self.enabled(), {"schedule": 1, "mutex_lock": 1})
        self.sh("echo nop > current_tracer")
        self.assertEqual(self.sh("cat enabled_functions"), "")

    def test_only_filtered_functions_leave_events(self) -> None:
        self.filter("kfree")
        self.sh("echo function > current_tracer")
        traced = set(re.findall(r": (\S+) <-", self.sh("cat trace")))
        self.assertEqual(traced, {"kfree"})

    def test_addresses_are_those_of_the_list(self) -> None:
        rows = [
            line.split(" ")
            for line in self.sh("cat available_filter_functions_addrs").splitlines()
        ]
        self.assertEqual([name for _, name in rows], self.functions)
        addresses = [int(address, 16) for address, _ in rows]
        self.assertEqual(addresses, sorted(set(addresses)))

    def test_total_is_the_number_of_records(self) -> None:
        total = re.fullmatch(r"(\d+) pages:(\d+) groups: 1\n", self.sh("cat dyn_ftrace_total_info"))
        self.assertIsNotNone(total)
        self.assertEqual(int(total[1]), len(self.functions))
        self.assertEqual(int(total[2]), (8 * len(self.functions) + 4095) // 4096)

    def test_zz_a_corrupted_site_is_refused_and_named(self) -> None:
        """The last test: afterwards no function can be traced any more."""
        text = self.sh("kt_text")
        said = self.sh("kt_corrupt kt_calm")
        word = re.search(r"was ([0-9a-f]{8})", said)
        self.assertIsNotNone(word, said)
        said = self.sh("echo function > current_tracer")
        self.assertRegex(said, rf"refused to write the call site of kt_calm at 0x[0-9a-f]+")
        self.assertRegex(said, rf"expected {word[1]} +nop")
        self.assertRegex(said, r"found +00000000 ")
        self.assertEqual(self.sh("cat current_tracer"), "nop\n")
        self.assertEqual(self.sh("cat enabled_functions"), "")
        self.sh(f"kt_corrupt kt_calm {word[1]}")
        self.assertEqual(self.sh("kt_text"), text)
        self.assertNotEqual(self.sh("echo function > current_tracer"), "")
        self.assertEqual(self.sh("kt_text"), text)
        self.assertEqual(self.sh("cat /proc/sys/kernel/ftrace_enabled"), "0\n")
        for number in "01":
            self.assertIn("(ENODEV)", self.sh(f"echo {number} > /proc/sys/kernel/ftrace_enabled"))
        self.assertEqual(self.sh("echo alive"), "alive\n")


class OpsByHand(OnAMachine):
    """The shell command `op`."""

    def test_op_does_what_it_says_and_is_gone_afterwards(self) -> None:
        text, line = self.sh("kt_text"), "workload 0123456789abcdef"
        result = self.sh(line)
        for command in ("op 0 see 'wl_leaf_*'", "op 1 add 0x1f wl_leaf_ash",
                        "op 2 patch wl_leaf_elm wl_leaf_fir"):
            self.assertEqual(self.sh(command), "")
        self.assertNotEqual(self.sh(line), result)
        counts = {
            row.split()[0]: row.split()[1]
            for row in self.sh("cat enabled_functions").splitlines()
        }
        self.assertEqual((counts["wl_leaf_ash"], counts["wl_leaf_birch"], counts["wl_leaf_fir"]),
                         ("(2)", "(1)", "(2)"))
        for number in range(3):
            self.assertEqual(self.sh(f"op {number} off"), "")
        self.assertEqual((self.sh("cat enabled_functions"), self.sh(line), self.sh("kt_text")),
                         ("", result, text))

    def test_op_refuses_what_it_does_not_understand(self) -> None:
        for words in ("", "0", "0 see", "8 see wl_*", "x see wl_*", "0 look wl_*",
                      "0 add ten wl_leaf_ash", "0 add 5", "0 patch nobody wl_leaf_ash",
                      "0 patch schedule wl_leaf_ash", "0 patch wl_leaf_ash"):
            self.assertIn("usage: op", self.sh(f"op {words}"), words)
        for words, why in (("0 off", "ENOENT"), ("0 see nosuch", "EINVAL"), ("0 see wl_nosuch",
                                                                             "EINVAL"),
                           ("0 add 1 schedule", "EINVAL"), ("0 see wl_leaf_ash 'sch*'", "EINVAL"),
                           ("0 patch wl_leaf_elm wl_leaf_elm",
                            "EINVAL"), ("0 patch wl_leaf_elm 'wl_leaf_*'", "EINVAL")):
            self.assertIn(f"({why})", self.sh(f"op {words}"), words)
        self.assertEqual(self.sh("cat enabled_functions"), "")

    def test_op_refuses_what_would_go_round_in_a_circle(self) -> None:
        for words in ("0 patch wl_leaf_elm wl_leaf_fir", "1 patch wl_leaf_ash wl_leaf_elm"):
            self.assertEqual(self.sh(f"op {words}"), "")
        for words in ("2 patch wl_leaf_fir wl_leaf_ash",
                      "2 patch wl_leaf_fir wl_leaf_birch wl_leaf_ash"):
            self.assertIn("(EINVAL)", self.sh(f"op {words}"), words)
        self.assertEqual(self.sh("op 2 patch wl_leaf_fir wl_leaf_birch"), "")
        self.assertEqual("".join(self.sh(f"op {number} off") for number in range(3)), "")
        self.assertEqual(self.sh("cat enabled_functions"), "")

    def test_op_is_busy_when_its_number_or_pc_is_taken(self) -> None:
        self.assertEqual(self.sh("op 0 patch wl_leaf_elm wl_leaf_fir"), "")
        for words in ("0 see wl_leaf_ash", "1 patch wl_leaf_ash 'wl_leaf_f*'"):
            self.assertIn("(EBUSY)", self.sh(f"op {words}"))
        self.assertEqual(self.sh("op 1 patch wl_leaf_ash wl_leaf_holly"), "")
        self.assertEqual(self.sh("op 0 off") + self.sh("op 1 off"), "")
        self.assertEqual(self.sh("cat enabled_functions"), "")


class Riscv64Ops(OpsByHand, unittest.TestCase):
    arch, lab = "riscv64", 4


class Arm64Ops(OpsByHand, unittest.TestCase):
    arch, lab = "arm64", 4


class Riscv64Single(OnAMachine, unittest.TestCase):
    arch, lab = "riscv64", 3


class Arm64Single(OnAMachine, unittest.TestCase):
    arch, lab = "arm64", 3


if __name__ == "__main__":
    unittest.main()
