"""`make test-mutants`: the changes, their names, which mutants are dropped, and the results of
their grades."""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from grading.checks import rubric
from grading.evidence.finding import Finding
from grading.report.report import Grade, Result
from grading.selftest import mutants, mutations, wrong
from grading.selftest.edits import Unusable
from grading.selftest.mutations import Mutant
from grading.verdict import Verdict
from qemu.machine import ARCHES, ROOT

C = """\
/* if (a < b) in a comment */
static int find(struct list *l, int n)
{
	if (n > 9)
		return -1;
#if LAB_START == 4
	return n + 1;
#else
	struct node *node = l->first;
	if (!node || node->value == 0x10) /* < */
		return -2;
	node->next = l->first;
	node->value = long_name(n,
				n);
	call("a < b", n);
	return 0;
#endif
}

void publish(struct node *node)
{
	node->value = 1;
	smp_wmb();
	WRITE_ONCE(first, node);
	synchronize_sched();
}
"""
RISCV = """\
	.type caller, @function
caller:
#if LAB_START == 4
	ret
#else
	addi sp, sp, -16	/* room */
1:	auipc t0, %pcrel_hi(there)
	ld a7, SIZE + 8(t0)
	bne a0, a1, caller
#endif
"""
ARM = """\
	.type caller, @function
caller:
#if LAB_START != 4
	stp x29, x30, [sp, #-32]!
	ldr x2, [x2, #:lo12:there]
	b.ne caller
#endif
"""


LOOPS = """\
static int copy(const struct list *from, struct list *to, int n)
{
#if LAB_START != 4
	unsigned long size = from->size;
	int err = 0;

	if (!n)
		return -EINVAL;
	if (n > 9 && size | to->room)
		return -ERANGE;
	for (int i = first; i < n; i++)
		if (from->flags & LIST_END)
			continue;
	for (node = from->first; node; node = node->next)
		to->flags |= LIST_NONE;
	smp_mb();
	err = move(from, to->room);
	add(to, n);
	return err ? err : count(to);
#endif
}
"""


def changes(text: str, name: str = "a.c") -> dict[str, set[tuple[str, str]]]:
    """By kind of change: the old and the new text."""
    found: dict[str, set[tuple[str, str]]] = {}
    for mutant in mutations.mutants(name, text, 4):
        found.setdefault(mutant.kind, set()).add((mutant.old, mutant.new))
    return found


class TestMutations(unittest.TestCase):
    def test_c(self) -> None:
        if_, got = "if (!node || node->value == 0x10)", changes(C)
        self.assertEqual(got["operator"], {(if_, if_.replace("||", "&&")),
                                           (if_, if_.replace("==", "!="))})
        self.assertEqual(got["condition"], {(if_, "if (!(!node || node->value == 0x10))"),
                                            (if_, if_.replace("!node", "node"))})
        numbers = {(if_, if_.replace("10", "11")), (if_, if_.replace("10", "f")),
                   ("return 0;", "return 1;"), ("return -2;", "return -1;"),
                   ("return -2;", "return -3;")}
        self.assertEqual(got["constant"], numbers)
        self.assertEqual({old
                          for old, _ in got["statement"]}, {
                              "return -2;", "node->next = l->first;",
                              "node->value = long_name(n, / n);", "call( , n);"
                          })
        self.assertEqual({new for _, new in got["statement"]}, {mutations.LEFT_OUT})

    def test_what_orders_is_left_out_wherever_it_is(self) -> None:
        first, last = "node->value = 1;", "WRITE_ONCE(first, node);"
        self.assertEqual(
            changes(C)["order"],
            {("smp_wmb();", mutations.LEFT_OUT), ("smp_wmb();", "barrier();"),
             ("synchronize_sched();", mutations.LEFT_OUT),
             (f"{first} / smp_wmb(); / {last}", f"{last} / smp_wmb(); / {first}"),
             (f"{last} / synchronize_sched();", f"synchronize_sched(); / {last}")})

    def test_two_stores_are_exchanged(self) -> None:
        text = C.replace("node->value = long", "node->other = n;\n\tnode->value = long")
        self.assertEqual(
            changes(text)["exchanged stores"], {("node->next = l->first; / node->other = n;",
                                                 "node->other = n; / node->next = l->first;")})

    def is_made(self, kind: str, *expected: tuple[str, str], text: str = LOOPS,
                name: str = "a.c") -> None:
        self.assertLessEqual(set(expected), changes(text, name).get(kind, set()))

    def test_a_condition_is_always_or_never_true(self) -> None:
        self.is_made("guard", ("if (!n)", "if (0 && (!n))"), ("if (!n)", "if (1 || (!n))"))
        old = "return err ? err : count(to);"
        self.is_made("guard", (old, old.replace("err ?", "0 && (err) ?")),
                     (old, old.replace("err ?", "1 || (err) ?")))

    def test_an_operand_is_left_out(self) -> None:
        self.is_made("operand", *(("if (n > 9 && size | to->room)", f"if ({new})") for new in (
            "n > 9", "size | to->room", "n > 9 && size", "n > 9 && to->room")))

    def test_an_error_is_another_or_lost(self) -> None:
        self.is_made("error", ("return -ERANGE;", "return -EINVAL;"),
                     ("return -EINVAL;", "return -EFAULT;"), ("return -EINVAL;", "return 0;"),
                     ("err = move(from, to->room);", "err = 0 * move(from, to->room);"))

    def test_two_checks_are_exchanged(self) -> None:
        first = "if (!n) / return -EINVAL;"
        second = "if (n > 9 && size | to->room) / return -ERANGE;"
        self.assertEqual(changes(LOOPS)["exchanged checks"],
                         {(f"{first} / {second}", f"{second} / {first}")})

    def test_two_arguments_are_exchanged(self) -> None:
        self.assertEqual(changes(LOOPS)["arguments"], {
            ("err = move(from, to->room);", "err = move(to->room, from);"),
            ("add(to, n);", "add(n, to);")})

    def test_a_name_is_exchanged_for_another_of_its_kind(self) -> None:
        self.is_made("name", ("to->flags |= LIST_NONE;", "to->room |= LIST_NONE;"),  # a field
                     ("to->flags |= LIST_NONE;", "to->flags |= LIST_END;"),  # a constant
                     ("to->flags |= LIST_NONE;", "from->flags |= LIST_NONE;"),  # a parameter
                     ("add(to, n);", "add(to, err);"))

    def test_a_loop_begins_late_or_ends_early(self) -> None:
        old = "for (int i = first; i < n; i++)"
        self.is_made("loop", (old, old.replace("first", "first + 1")),
                     (old, old.replace("< n", "< n - 1")))
        old = "for (node = from->first; node; node = node->next)"
        self.is_made("loop", (old, old.replace("; node;", "; node && node->next;")))
        self.is_made("jump", ("continue;", "break;"))

    def test_a_narrower_type(self) -> None:
        old = "unsigned long size = from->size;"
        self.is_made("width", (old, old.replace("unsigned long", "unsigned")))

    def test_a_weaker_barrier(self) -> None:
        self.is_made("order", ("smp_mb();", "smp_wmb();"))

    def test_a_function_returns_early(self) -> None:
        self.is_made("return", ("add(to, n);", "return 0;"))
        self.is_made("return", ("smp_mb();", "return;"), text=LOOPS.replace("int copy", "void f"))

    def test_a_statement_is_executed_twice_or_after_the_next(self) -> None:
        self.is_made("twice", ("add(to, n);", "add(to, n); add(to, n);"))
        self.is_made("exchanged", ("err = move(from, to->room); / add(to, n);",
                                   "add(to, n); / err = move(from, to->room);"))

    def test_an_instruction_is_executed_twice_or_after_the_next(self) -> None:
        old = "addi sp, sp, -16"
        self.is_made("twice", (old, f"{old}; {old}"), text=RISCV, name="a.S")
        two = RISCV.replace("\tbne", "\tsd a7, 8(sp)\n\tbne")
        self.is_made("exchanged", ("ld a7, SIZE + 8(t0) / sd a7, 8(sp)",
                                   "sd a7, 8(sp) / ld a7, SIZE + 8(t0)"), text=two, name="a.S")
        self.assertNotIn("sd a7, 8(sp) / bne a0, a1, caller",
                         [old for old, _ in changes(two, "a.S")["exchanged"]])

    def test_a_narrower_load_or_store(self) -> None:
        old = "ld a7, SIZE + 8(t0)"
        self.is_made("width", (old, old.replace("ld", "lw")), text=RISCV, name="a.S")
        self.is_made("width", ("stp x29, x30, [sp, #-32]!", "stp w29, w30, [sp, #-32]!"),
                     ("ldr x2, [x2, #:lo12:there]", "ldr w2, [x2, #:lo12:there]"), text=ARM,
                     name="a.S")

    def test_two_registers_are_exchanged(self) -> None:
        self.is_made("register", ("bne a0, a1, caller", "bne a1, a0, caller"), text=RISCV,
                     name="a.S")

    def test_assembly(self) -> None:
        got = changes(RISCV, "a.S")
        self.assertEqual(
            got["offset"], {("addi sp, sp, -16", "addi sp, sp, -16 + 8"),
                            ("ld a7, SIZE + 8(t0)", "ld a7, SIZE + 8 + 8(t0)")})
        self.assertEqual(got["condition"], {("bne a0, a1, caller", "beq a0, a1, caller")})
        self.assertLessEqual(
            {("ld a7, SIZE + 8(t0)", "ld a6, SIZE + 8(t0)"),
             ("ld a7, SIZE + 8(t0)", "ld a7, SIZE + 8(t1)")}, got["register"])
        self.assertEqual(len(got["instruction"]), 4)
        self.assertEqual({m.function for m in mutations.mutants("a.S", RISCV, 4)}, {"caller"})
        self.assertIn(
            "\n1:\t\n",
            next(m.text for m in mutations.mutants("a.S", RISCV, 4)
                 if m.kind == "instruction" and m.old.startswith("1:")))

    def test_assembly_of_arm64(self) -> None:
        got = changes(ARM, "a.S")
        self.assertEqual(got["offset"],
                         {("stp x29, x30, [sp, #-32]!", "stp x29, x30, [sp, #-32 + 8]!")})
        self.assertEqual(got["condition"], {("b.ne caller", "b.eq caller")})
        self.assertIn(("ldr x2, [x2, #:lo12:there]", "ldr x2, [x3, #:lo12:there]"), got["register"])

    def test_each_differs_from_the_solution_in_its_own_lines_alone(self) -> None:
        for text, name in ((C, "a.c"), (LOOPS, "a.c"), (RISCV, "a.S"), (ARM, "a.S")):
            for mutant in mutations.mutants(name, text, 4):
                was, now = text.split("\n"), mutant.text.split("\n")
                self.assertEqual(len(was), len(now))
                differ = [n for n, pair in enumerate(zip(was, now), 1) if pair[0] != pair[1]]
                self.assertTrue(
                    differ and differ[0] == mutant.line and differ[-1] < mutant.line + 4, mutant)

    def test_ids_do_not_depend_on_where_a_line_is(self) -> None:
        before, after = (mutations.mutants("a.c", text, 4)
                         for text in (C,
                                      "int x;\n\n" + C.replace("\treturn -1;", "\treturn -1;\n\n")))
        self.assertEqual([m.id for m in before], [m.id for m in after])
        self.assertNotEqual([m.line for m in before], [m.line for m in after])
        self.assertIn("a.c publish: smp_wmb(); => (left out)", [m.id for m in before])
        twice = mutations.mutants("a.c", C.replace("\tWRITE_ONCE", "\tsmp_wmb();\n\tWRITE_ONCE"), 4)
        self.assertIn("a.c publish: smp_wmb(); => (left out) #2", [m.id for m in twice])

    def test_every_lab_has_enough_and_each_its_own_name(self) -> None:
        for lab in rubric.LABS:
            for arch in ARCHES:
                found = mutants.of_files(lab, arch)
                self.assertGreaterEqual(len(found), 60)
                self.assertEqual(len({mutant.id for mutant in found}), len(found))
                self.assertFalse([
                    m for m in found
                    if "LAB_START" in m.old or m.text == (ROOT / m.file).read_text()
                ])


def some(count: int, file: str = "a.c", kind: str = "operator") -> list[Mutant]:
    return [Mutant(file, n, kind, kind, str(n), "x", "") for n in range(count)]


class TestWhich(unittest.TestCase):
    def test_the_choice_follows_from_the_seed_and_takes_of_each_file_and_kind(self) -> None:
        found = some(50) + some(3, kind="order") + some(5, "b.c")
        first = mutants.spread(found, "1")
        self.assertEqual(first, mutants.spread(found, "1"))
        self.assertNotEqual(first, mutants.spread(found, "2"))
        self.assertEqual(sorted(first, key=str), sorted(found, key=str))
        self.assertEqual({(m.file, m.kind)
                          for m in first[:3]}, {("a.c", "operator"), ("a.c", "order"),
                                                ("b.c", "operator")})
        self.assertEqual(len([m for m in first[:9] if m.kind == "order"]), 3)

    def test_a_line_that_is_about_no_mutant_or_gives_no_reason_is_refused(self) -> None:
        self.assertEqual(
            mutants.equivalent("a.c f: x => y because z is 0\n\n", {"a.c f: x => y"}, "arm64"),
            {"a.c f: x => y"})
        for line, why in (("a.c f: x => z because it is\n",
                           "no such mutant any more: a.c f: x => z"),
                          ("a.c f: x => y\n", "no reason"), ("a.c f: x => y because \n",
                                                             "no reason")):
            with self.assertRaisesRegex(Unusable, why):
                mutants.equivalent(line, {"a.c f: x => y"}, "arm64")

    def test_a_line_may_be_about_every_change_of_one(self) -> None:
        known = {"a.c f: x => y", "a.c f: x => z", "a.c f: xx => y"}
        self.assertEqual(
            mutants.equivalent("a.c f: x => * because it is not run\n", known, "arm64"),
            {"a.c f: x => y", "a.c f: x => z"})
        with self.assertRaisesRegex(Unusable, "no such mutant"):
            mutants.equivalent("a.c f: q => * because it is not run\n", known, "arm64")

    def test_a_line_may_be_about_one_architecture(self) -> None:
        for arch, want in (("arm64", {"b"}), ("riscv64", {"a", "b"})):
            self.assertEqual(
                mutants.equivalent("on riscv64: a because x\nb because y\n", {"a", "b"}, arch),
                want)

    def test_those_that_are_listed_are_there(self) -> None:
        for lab in rubric.LABS:
            mutants.equivalents(lab, "arm64")


class TestBuilt(unittest.TestCase):
    """Without a compiler: the object of a text is the text without blanks, and a text with a `?`
    does not compile."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="callsite-test-")
        self.addCleanup(folder.cleanup)
        self.tree = mutants.ScratchTree(Path(folder.name), 4, "arm64")
        self.file = "kern/ftrace/core/hash.c"
        self.place = self.tree.path / self.file
        self.place.parent.mkdir(parents=True)
        self.right = (ROOT / self.file).read_text()
        self.place.write_text(self.right)
        self.made = mock.Mock(returncode=0, stderr="", stdout="")

    def code(self, _: str) -> str:
        text = self.place.read_text()
        return "" if "?" in text else "".join(text.split())

    def result(self, text: str, seen: set[str] | None = None,
               graded: Any = (mutants.SURVIVED, "")) -> tuple[str, str]:
        with mock.patch.multiple(self.tree, create=True, code=self.code, make=lambda *_: self.made,
                                 _graded=lambda _: graded):
            line = self.tree.result_of(Mutant(self.file, 1, "f", "operator", "a", "b", text), 1,
                                       seen or set())
        self.assertEqual(self.place.read_text(), self.right, "the copy is not as it was")
        return line["result"], line["message"]

    def test_what_does_not_differ_or_not_compile_is_none(self) -> None:
        self.assertEqual(self.result(self.right + "\n"), (mutants.SAME, ""))
        self.assertEqual(self.result(self.right + "?"), (mutants.INVALID, ""))
        self.assertEqual(self.result(self.right + "x"), (mutants.SURVIVED, ""))
        self.assertEqual(self.result("x", {"x"}), (mutants.SAME, ""))

    def test_what_the_build_refuses_is_caught_by_its_sentence(self) -> None:
        self.made = mock.Mock(returncode=2, stderr="\nit \x1b has an odd entry\nmake: ***",
                              stdout="")
        self.assertEqual(self.result("x"), (mutants.BY_BUILD, "it \\x1b has an odd entry"))
        self.made.stderr = "build/arm64/a.o: in function `f': undefined reference to `g'"
        self.assertEqual(self.result("x"), (mutants.INVALID, ""))

    def test_the_copy_is_as_it_was_after_an_interruption(self) -> None:
        self.made = mock.Mock(side_effect=SystemExit)
        with mock.patch.multiple(self.tree, create=True, code=self.code,
                                 make=self.made), self.assertRaises(SystemExit):
            self.tree.result_of(Mutant(self.file, 1, "f", "operator", "a", "b", "x"), 1, set())
        self.assertEqual(self.place.read_text(), self.right)


def graded(*findings: Finding | None, verdict: Verdict = Verdict.PASS, why: str = "") -> Grade:
    e = mock.Mock(verdict=verdict, why=why, smp=1, ending=lambda: f"{verdict.value}: {why}")
    rungs = rubric.lab(4).rungs
    return Grade("arm64", 4, 1, [Result(rung, {1: found}) for rung, found in zip(rungs, findings)],
                 [e])


class TestCame(unittest.TestCase):
    def test_by_which_rung(self) -> None:
        ended, other = Finding("panic: at f"), Finding("the table is empty")
        self.assertEqual(mutants.result_of(graded(None, None)), (mutants.SURVIVED, ""))
        self.assertEqual(mutants.result_of(graded(None, other)),
                         (mutants.BY_RUNG, "life: the table is empty"))
        panic: dict[str, Any] = {"verdict": Verdict.PANIC, "why": "at f"}
        self.assertEqual(mutants.result_of(graded(ended, ended, **panic)),
                         (mutants.BY_END, "panic: at f"))
        self.assertEqual(mutants.result_of(graded(ended, other, **panic)),
                         (mutants.BY_RUNG, "life: the table is empty"))
        self.assertEqual(
            mutants.result_of(graded(Finding("panic: at f", mistake="x"), ended, **panic)),
            (mutants.BY_RUNG, "called: panic: at f (x)"))
        self.assertEqual(mutants.result_of(graded(ended, verdict=Verdict.HARNESS, why="no QEMU")),
                         (mutants.HARNESS, "no QEMU"))

    def test_the_score_and_the_survivors_are_said(self) -> None:
        def lines(**counts: int) -> list[dict[str, Any]]:
            return [{"id": f"{result} {n}", "result": getattr(mutants, result), "message": ""}
                    for result, count in counts.items() for n in range(count)]

        cases: list[tuple[bool, dict[str,
                                     int]]] = [(True, {"BY_RUNG": 81, "BY_END": 14, "SURVIVED": 5}),
                                               (False, {"BY_RUNG": 94, "SURVIVED": 6}),
                                               (False, {"BY_RUNG": 84, "BY_END": 16}),
                                               (True, {"BY_BUILD": 19, "HARNESS": 1}), (False, {})]
        for good, counts in cases:
            with redirect_stdout(io.StringIO()) as out:
                self.assertEqual(mutants.summary(4, "arm64", lines(**counts), 3), good, counts)
            self.assertEqual(out.getvalue().count("SURVIVED: SURVIVED"), counts.get("SURVIVED", 0))
            self.assertIn("3 more are listed as equivalent", out.getvalue())


class TestRun(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="callsite-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        found = [*some(30), *some(30, kind="order")]
        patches: dict[str, Any] = {
            "FOLDER": self.folder, "of_files": lambda *_: found, "made_of": lambda *_: "a",
            "equivalents": lambda *_: {found[0].id}
        }
        self.fresh = mock.Mock()
        for patch in (mock.patch.multiple(mutants, **patches),
                      mock.patch.multiple(wrong, prepare=mock.DEFAULT, fresh=self.fresh)):
            patch.start()
            self.addCleanup(patch.stop)

    def run_cell(self, count: int, jobs: int = 1, result: str = mutants.BY_RUNG,
                 names: list[str] | None = None) -> list[dict[str, Any]]:
        options = argparse.Namespace(count=count, seed="5", names=names or [], jobs=jobs)
        line = {"result": result, "message": "", "code": ""}
        dropped = {"result": mutants.SAME, "message": "", "code": ""}
        with mock.patch.object(
                mutants.ScratchTree, "result_of", lambda _, mutant, seed, seen: dropped
                if int(mutant.old) % 3 == 0 else line), redirect_stdout(io.StringIO()):
            return mutants.Cell(4, "arm64", options).run()

    def test_it_goes_on_where_it_was_ended(self) -> None:
        first = self.run_cell(5)
        self.assertEqual(len(first), 5)
        with (self.folder / "arm64-lab4.jsonl").open("a") as log:
            log.write('{"id": "half')
        self.assertEqual(self.run_cell(9, result=mutants.SURVIVED)[:5], first)
        self.assertEqual([line["result"] for line in self.run_cell(9)].count(mutants.SURVIVED), 4)

    def test_what_the_harness_failed_at_is_done_again(self) -> None:
        self.assertEqual({line["result"]
                          for line in self.run_cell(4, result=mutants.HARNESS)}, {mutants.HARNESS})
        self.assertEqual({line["result"] for line in self.run_cell(4)}, {mutants.BY_RUNG})

    def test_each_copy_is_made_anew_and_once(self) -> None:
        """A run that was killed left its mutant in the copy, and the tree may have changed since.
        """
        for jobs, count in ((1, 3), (2, 9)):
            self.run_cell(count, jobs)
            self.assertEqual([call.args[0].name for call in self.fresh.call_args_list],
                             [f"arm64-lab4-{n}" for n in reversed(range(jobs))])
            self.fresh.reset_mock()
        self.run_cell(9)
        self.fresh.assert_not_called()  # all results are in the log

    def test_several_at_a_time_are_the_same_ones(self) -> None:
        one = self.run_cell(8)
        (self.folder / "arm64-lab4.jsonl").unlink()
        self.assertEqual(self.run_cell(8, jobs=3), one)

    def test_each_is_done_once_and_no_listed_one(self) -> None:
        lines = self.run_cell(100)
        self.assertEqual(len(lines), 40)
        logged = [
            json.loads(line)["id"]
            for line in (self.folder / "arm64-lab4.jsonl").read_text().splitlines()[1:]
        ]
        self.assertEqual(len(logged), len(set(logged)))
        self.assertEqual(len(logged), 59)

    def test_those_that_are_named_are_done_anew(self) -> None:
        self.run_cell(9, names=["r: 7 =>"])
        self.assertEqual([
            line["result"] for line in self.run_cell(9, names=["r: 7 =>"], result=mutants.SURVIVED)
        ], [mutants.SURVIVED, mutants.SURVIVED])
        self.assertEqual({line["kind"] for line in self.run_cell(9, names=["order"])}, {"order"})

    def test_a_stale_line_ends_it_with_its_name(self) -> None:
        def stale(_: int, __: str) -> set[str]:
            raise Unusable("labs/4/equivalent: there is no such mutant any more: x")

        with mock.patch.object(mutants, "equivalents", stale), mock.patch(
                "sys.argv", ["mutants", "--lab", "4"]), redirect_stderr(io.StringIO()) as said:
            self.assertEqual(mutants.main(), 2)
        self.assertIn("no such mutant any more: x", said.getvalue())


if __name__ == "__main__":
    unittest.main()
