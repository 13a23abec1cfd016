"""Edits, in which a wrong solution says how it differs: what they change, and what is refused."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

from grading.checks import rubric
from grading.selftest import edits
from grading.selftest.edits import TOP, Unusable
from qemu.machine import ARCHES, ROOT

C = """\
/* A comment that names second(). */
#include "a.h"

static int second(int x);

static int __attribute__((unused)) first(int x,
		 int y)
{
	call();
	x++;
	call();

	return x;
}

static int second(int x)
{
	x++;
	if (x)
		return 1;
	return x;
}
"""
S = """\
	.text
outer:
#if LAB_START == 3
inner:
	ret
#else
	nop
1:	addi a0, a0, 1
inner:
	nop
	ret
#endif
	.size outer, . - outer
"""
FILE, ASM = "kern/a.c", "kern/a.S"
NEVER = "the text must be there once, and is not there:\n"


def edit(part: str, old: str, new: str = "", file: str = FILE) -> str:
    """An edit of these lines. Without new lines they are removed."""
    return f"In {file}, {part}:\n{old}\n" + (f"becomes:\n{new}\n" if new else "is removed.\n")


class Edited(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="callsite-test-")
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name)
        (self.tree / "kern").mkdir()
        (self.tree / FILE).write_text(C)
        (self.tree / ASM).write_text(S)

    def read(self, *texts: str) -> list[edits.SourceEdit]:
        path = self.tree / "it.edit"
        path.write_text("\n".join(["Verdict: fail\n\nA sentence.\n", *texts]))
        before, found = edits.split(path)
        self.assertEqual(before, "Verdict: fail\n\nA sentence.\n\n")
        return found

    def becomes(self, want: str, *texts: str, file: str = FILE) -> None:
        self.assertEqual(edits.apply(self.read(*texts), self.tree), {file: want})

    def refused(self, why: str, *texts: str) -> None:
        """The sentence begins with the name of the edit's file."""
        with self.assertRaises(Unusable) as found:
            edits.apply(self.read(*texts), self.tree)
        self.assertIn(f"it.edit: {why}", str(found.exception))


class Changed(Edited):
    def test_a_text_is_looked_for_in_its_function_only(self) -> None:
        self.becomes(C.replace("{\n\tx++;", "{\n\tx--;"), edit("second", "\tx++;", "\tx--;"))
        self.becomes(C.replace(";\n\tx++;", ";\n\tx--;"), edit("first", "\tx++;", "\tx--;"))

    def test_lines_are_inserted(self) -> None:
        want = C.replace(";\n\tx++;", ";\n\tx++;\n\n\ty++;")
        self.becomes(want, edit("first", "\tx++;", "\tx++;\n\n\ty++;"))

    def test_lines_are_removed(self) -> None:
        old = "\tif (x)\n\t\treturn 1;"
        self.becomes(C.replace(f"{old}\n", ""), edit("second", old))

    def test_empty_lines_around_a_text_do_not_count(self) -> None:
        want = C.replace(";\n\tx++;", ";\n\tx--;")
        self.becomes(want, edit("first", "\n\tx++;\n", "\n\tx--;\n\n"))

    def test_a_function_begins_with_its_first_line(self) -> None:
        old, new = "static int __attribute__((unused)) first(int x,", "int first(int x,"
        self.becomes(C.replace(old, new), edit("first", old, new))

    def test_a_function_ends_with_its_brace(self) -> None:
        want = C.replace("}\n\nstatic", "}\nint z;\n\nstatic")
        self.becomes(want, edit("first", "}", "}\nint z;"))

    def test_at_the_top_level_is_what_no_body_contains(self) -> None:
        old, new = "static int second(int x)", "int z;\n\nstatic int second(int x)"
        self.becomes(C.replace(f"{old}\n", f"{new}\n"), edit(TOP, old, new))
        self.refused(f"{FILE}, {TOP}: {NEVER}\tif (x)", edit(TOP, "\tif (x)"))

    def test_all_texts_are_looked_for_in_the_file_as_it_was(self) -> None:
        want = C.replace("1;\n\treturn x;", "1;\n\treturn 0;")
        want = want.replace("{\n\tx++;", "{\n\treturn x;")
        two = edit("second", "\treturn x;", "\treturn 0;"), edit("second", "\tx++;", "\treturn x;")
        self.becomes(want, *two)
        self.becomes(want, *two[::-1])

    def test_edits_may_be_of_lines_beside_each_other(self) -> None:
        self.becomes(C.replace("if (x)\n\t\treturn 1;", "if (!x)\n\t\treturn 2;"),
                     edit("second", "\t\treturn 1;", "\t\treturn 2;"),
                     edit("second", "\tif (x)", "\tif (!x)"))

    def test_a_label_ends_at_the_next_one_that_the_solution_has(self) -> None:
        def becomes(want: str, part: str, old: str, new: str = "") -> None:
            self.becomes(want, edit(part, old, new, ASM), file=ASM)

        becomes(S.replace("#else\n\tnop\n", "#else\n"), "outer", "\tnop")
        becomes(S.replace("1:\taddi a0, a0, 1\n", ""), "outer", "1:\taddi a0, a0, 1")
        becomes(S.replace("\tnop\n\tret\n", "\tnop\n"), "inner", "\tret")
        becomes(S.replace(".text", ".data"), TOP, "\t.text", "\t.data")

    def test_a_file_is_replaced_or_new(self) -> None:
        for file in (FILE, "kern/new.c"):
            whole = f"Whole file {file}:\n\nint only;\n\nint it;\n\n"
            self.becomes("int only;\n\nint it;\n", whole, file=file)

    def test_the_functions_of_every_lab_are_found(self) -> None:
        """As many as there are bodies, in both architectures' files, and each by its name."""
        files = {file for lab in rubric.LABS for file in rubric.lab(lab).files}
        for file in sorted(files):
            text = (ROOT / file).read_text()
            found = edits.parts(file, text)
            with self.subTest(file=file):
                self.assertTrue(found)
                self.assertEqual(len({p.name for p in found}), len(found))
                if file.endswith(".S"):
                    self.assertTrue(all(text[p.start:].startswith(f"{p.name}:") for p in found))
                else:
                    self.assertEqual(len(found), text.count("\n{\n"))
                    self.assertTrue(all(f"{p.name}(" in text[p.start:p.body] for p in found))


class RefusedEdits(Edited):
    def test_a_text_that_is_there_twice(self) -> None:
        twice = "the text must be there once, and is there 2 times:\n\t"
        self.refused(f"{FILE}, first: {twice}call();", edit("first", "\tcall();"))
        (self.tree / ASM).write_text(S.replace("\tnop\n1:", "\tnop\n\tnop\n1:"))
        self.refused(f"{ASM}, outer: {twice}nop", edit("outer", "\tnop", file=ASM))

    def test_texts_that_begin_inside_each_other_are_two(self) -> None:
        (self.tree / FILE).write_text(C.replace("\tx++;", "\tx++;\n\tx++;\n\tx++;"))
        self.refused(f"{FILE}, second: the text must be there once, and is there 2 times",
                     edit("second", "\tx++;\n\tx++;"))

    def test_a_text_that_is_not_in_its_function(self) -> None:
        self.refused(f"{FILE}, first: {NEVER}\tif (x)", edit("first", "\tif (x)"))
        self.refused(f"{ASM}, inner: {NEVER}1:", edit("inner", "1:\taddi a0, a0, 1", file=ASM))

    def test_a_part_of_a_line(self) -> None:
        for text in ("\tif (", "if (x)", "int second(int x)"):
            self.refused(f"{FILE}, second: {NEVER}{text}", edit("second", text))

    def test_a_function_or_a_label_that_the_file_does_not_have(self) -> None:
        none = "the file has no such function or label"
        for name in ("third", "call", "irst"):
            self.refused(f"{FILE}, {name}: {none}", edit(name, "\tx++;"))
        for name in ("1", "ret"):
            self.refused(f"{ASM}, {name}: {none}", edit(name, "\tnop", file=ASM))

    def test_a_file_that_the_tree_does_not_have(self) -> None:
        absent = edit("first", "\tx++;", file="kern/b.c")
        self.refused("kern/b.c, first: there is no such file", absent)

    def test_edits_that_overlap(self) -> None:
        one = edit("second", "\tif (x)\n\t\treturn 1;")
        other = edit("second", "\t\treturn 1;\n\treturn x;")
        for two in ((one, other), (other, one), (one, one)):
            self.refused(f"{FILE}, second: it changes lines that another edit changes", *two)
        whole = f"Whole file {FILE}:\nint x;\n"
        self.refused(f"{FILE}: a whole file has no other edit", one, whole)

    def test_edits_of_a_function_and_of_the_top_level_that_overlap(self) -> None:
        old = "static int second(int x)"
        self.refused(f"{FILE}, second: it changes lines that another edit changes, {TOP}",
                     edit(TOP, old, f"int z;\n\n{old}"), edit("second", old, "int second(int x)"))

    def test_an_edit_that_changes_nothing(self) -> None:
        self.refused(f"{FILE}, second: it changes nothing", edit("second", "\tx++;", "\tx++;\n"))
        self.refused(f"{FILE}: it changes nothing", f"Whole file {FILE}:\n{C}")

    def test_an_edit_that_is_not_whole(self) -> None:
        at = f"{FILE}, second: "
        self.refused(f"{at}there is no new text", edit("second", "\tx++;", "\n"))
        self.refused(f"{FILE}: there is no new text", f"Whole file {FILE}:\n")
        self.refused(f"{at}there is no text that becomes another", edit("second", "", "\tx++;"))
        self.refused(f"{at}'becomes:' or 'is removed.' is there twice",
                     edit("second", "\tx++;", "\tx--;\nbecomes:\n\tx;"))
        whole = edit("second", "\tx++;")
        for text in (whole.replace("is removed.\n", ""), whole.replace(", second", ""),
                     whole.replace(":", ""), f"{whole}\tx--;\n"):
            first = text.split("\n")[0]
            self.refused(f"'{first}' must be 'In FILE, FUNCTION:'", text)

    def test_what_is_not_recognised_as_an_edit(self) -> None:
        good, bad = edit("second", "\tx++;", "\tx--;"), edit("first", "\tx++;", file="a.c")
        self.refused("'becomes:' or 'is removed.' is there before", bad, good)
        self.refused(f"{FILE}, second: 'becomes:' or 'is removed.' is there twice", good, bad)
        self.refused("it has no edit")


class ShownEdits(Edited):
    def test_the_diff_makes_the_edited_files(self) -> None:
        found = self.read(edit("second", "\tx++;", "\tx--;"), edit("inner", "\tret", file=ASM))
        want, text = edits.apply(found, self.tree), edits.diff(found, self.tree)
        self.assertIn("-\tx++;\n+\tx--;\n", text)
        subprocess.run(["git", "apply"], input=text, text=True, cwd=self.tree, check=True)
        self.assertEqual({file: (self.tree / file).read_text() for file in (FILE, ASM)}, want)

    def test_one_command_shows_a_wrong_solution(self) -> None:
        def shown(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(["make", "-s", "wrong", *words], cwd=ROOT,
                                  capture_output=True, text=True, check=False)

        said = shown("LAB=4", "NAME=argument-clobbered").stdout
        self.assertIn("Verdict: fail\n", said)
        for arch in ARCHES:
            file = f"kern/ftrace/{arch}/caller.S"
            self.assertIn(f"\n--- a/{file}\n+++ b/{file}\n@@", said)
        none = shown("LAB=4", "NAME=no-such")
        self.assertNotEqual(none.returncode, 0)
        self.assertIn("no wrong solution of lab 4 has such a name: no-such", none.stderr)
        self.assertIn("make wrong needs LAB=n NAME=..", shown("LAB=4").stderr)


if __name__ == "__main__":
    unittest.main()
