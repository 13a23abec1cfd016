"""Rules for the files of the tree: none is empty, the two architectures have the same files, and
the kernel names no lab and no harness."""
import ast
import re
import subprocess
import unittest
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from qemu.isa import ARCHES, ARM64, RISCV64
from qemu.machine import ROOT

# a package of Python's, and files that are empty on Linux too
EMPTY = ("__init__.py", "error_log.txt", "set_event.txt")
# Interrupt controllers; the text that riscv64's short jumps need; entries that one of the two has.
ONE_ARCHITECTURE = {
    "aia.c", "bcm2836.c", "islands.S", "unexpected", "lost_lottery", "boot_lottery",
    "invalidate_tables", "read_affinity", "drop_to_el1"
}
# Of the classes in qemu/isa/.
ONE_CLASS = {"far_call", "mov_x9_x30", "cleans", "invalidates", "invalidates_all", "completes"}
CODE = (".c", ".h", ".cc", ".S", ".py", ".mk")
SCRIPT = re.compile(rb"#!.*sh\n")
EACH_KIND = ("Makefile", "kern/kernel.mk", ".ci/run", "kern/main.c", "kern/tests/test_tree.py")
# names that another macro makes
PASTED = re.compile(r"TRACE_RESTS_|TRACE_(FIELD|MEMBER)_|STATIC_(FIELD|MEMBER|SIZE)_")


def files(*folders: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.split()
    return [Path(name) for name in listed if (ROOT / name).is_file()]


def is_code(path: Path) -> bool:
    """Is it C, assembly, Python, a make file or a shell script?"""
    if path.suffix in CODE or path.name == "Makefile":
        return True
    return SCRIPT.match((ROOT / path).read_bytes()) is not None


def product(*folders: str) -> list[Path]:
    return [path for path in files(*folders) if "tests" not in path.parts]


def named_twice(scope: ast.Module | ast.ClassDef) -> Iterator[tuple[str, int]]:
    """The functions, classes and constants of a module, or of its classes, whose name another one
    had before, and their lines."""
    seen = set()
    for node in scope.body:
        names = []
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.decorator_list:
            names = [node.name]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [
                found.id for target in targets for found in ast.walk(target)
                if isinstance(found, ast.Name)
            ]
        if isinstance(node, ast.ClassDef):
            yield from named_twice(node)
        yield from ((name, node.lineno) for name in names if name in seen)
        seen.update(names)


def letters(scope: ast.Module) -> Iterator[str]:
    """The parameters of one letter of public functions, with the function and the line."""
    for node in ast.walk(scope):
        if isinstance(node,
                      (ast.FunctionDef, ast.AsyncFunctionDef)) and (node.name.startswith("__") or
                                                                    not node.name.startswith("_")):
            given = node.args
            several = (*given.posonlyargs, *given.args, *given.kwonlyargs)
            for parameter in (*several, given.vararg, given.kwarg):
                if parameter and re.fullmatch("[A-Za-z]", parameter.arg):
                    yield f"{node.lineno}: {node.name}({parameter.arg})"


class Tree(unittest.TestCase):
    def test_no_line_is_wider_than_100_columns(self) -> None:
        """Of C, assembly, Python, make files and shell scripts, those of tests too."""
        found = {path for path in files() if is_code(path)}
        self.assertLessEqual({Path(name) for name in EACH_KIND}, found)
        wide = [f"{path}:{number}" for path in sorted(found)
                for number, line in enumerate((ROOT / path).read_text().splitlines(), 1)
                if len(line.expandtabs(8)) > 100]
        self.assertEqual(wide, [])

    def test_no_file_is_empty(self) -> None:
        self.assertEqual(
            [str(p) for p in files() if not (ROOT / p).stat().st_size and p.name not in EMPTY], [])

    def test_both_architectures_have_the_same_files(self) -> None:
        for folder in ("boot", "kern/arch", "kern/ftrace"):
            one, other = ({
                str(p.relative_to(f"{folder}/{arch}"))
                for p in product(f"{folder}/{arch}")
            } for arch in ARCHES)
            self.assertTrue(one, folder)
            self.assertEqual((one ^ other) - ONE_ARCHITECTURE, set(), folder)

    def test_the_kernel_names_no_lab_and_no_harness(self) -> None:
        naming = re.compile(r"\b(labs|grading)(/[\w<]|\.\w+ import)")
        self.assertEqual(
            [
                f"{path}:{n}: {line.strip()}" for path in product("kern", "boot")
                # the build links what a student hands in
                if str(path) not in ("kern/kernel.mk", "kern/variant.mk")
                for n, line in enumerate((ROOT / path).read_text().splitlines(), 1)
                if naming.search(line)
            ],
            [])

    def test_code_is_called_through_tables_and_not_through_pointers_that_it_stores(self) -> None:
        """TABLE_ENTRY (kern/types.h) needs no call at boot, and lets more than one hook be there.
        """
        self.assertEqual([
            f"{path}: {line}" for path in product("kern") if path.suffix == ".h"
            for line in re.findall(r"^extern .*\(\*\w+\)\(.*", (ROOT / path).read_text(), re.M)
        ], [])

    def test_few_python_files_name_an_architecture(self) -> None:
        """They ask a class of qemu/isa/ for what is different."""
        naming = [str(path) for path in product("*.py") if path.parts[:2] != ("qemu", "isa")
                  and any(isinstance(node, ast.Constant) and node.value in ARCHES
                          for node in ast.walk(ast.parse((ROOT / path).read_text())))]
        self.assertLessEqual(len(naming), 10, naming)
        self.assertIn("boot/card.py", naming, "this test finds nothing")

    def test_both_architectures_have_the_same_class(self) -> None:
        one, other = ([name for name in vars(type(isa)) if name not in ONE_CLASS and name[0] != "_"]
                      for isa in (RISCV64, ARM64))
        self.assertEqual(one, other)

    def test_no_promise_of_a_test_is_a_constant(self) -> None:
        self.assertEqual([
            str(path) for path in files("kern/*.c")
            if re.search(r"kt_promise\((true|false|!?\d+),", (ROOT / path).read_text())
        ], [])

    def test_a_callback_that_guards_itself_is_in_the_tracer_s_section(self) -> None:
        """kern/ftrace/core/ftrace.h, FTRACE_OPS_FL_RECURSION."""
        for path in product("kern/apps"):
            text = (ROOT / path).read_text()
            if "FTRACE_OPS_FL_RECURSION" in text:
                callbacks = re.findall(
                    r"^(.*)\n?(\w+)\(unsigned long ip, unsigned long parent_ip, struct ftrace_ops "
                    r"\*op",
                    text, re.M)
                self.assertEqual(
                    [name for before, name in callbacks if not before.startswith("CALLBACK")], [],
                    path)

    def test_no_python_name_is_defined_twice(self) -> None:
        """The second would silently take the place of the first."""
        twice = [f"{path}:{line}: {name} is defined again" for path in files("*.py")
                 for name, line in named_twice(ast.parse((ROOT / path).read_text()))]
        self.assertEqual(twice, [])
        self.assertEqual(
            list(
                named_twice(
                    ast.parse(
                        "A = 1\nclass B:\n    def f(self): pass\n    def f(self): pass\nA, C = 2, 3"
                    ))), [("f", 4), ("A", 5)])

    def test_a_parameter_of_a_public_function_is_a_word(self) -> None:
        """Loop variables, lambdas and functions that begin with _ may have letters."""
        text = """
def f(a, *, b=1, **c): pass
class K:
    def __init__(self, d): pass
    def g(self, word, _): pass
    def _h(self, e): pass
x = lambda y: [z for z in y]
"""
        self.assertEqual(
            ["2: f(a)", "2: f(b)", "2: f(c)", "4: __init__(d)"], list(letters(ast.parse(text)))
        )
        found = [
            f"{path}:{letter}"
            for path in product("grading/*.py", "qemu/*.py", "labs/*.py")
            for letter in letters(ast.parse((ROOT / path).read_text()))
        ]
        self.assertEqual([], found)

    def test_each_event_has_a_number_of_its_own(self) -> None:
        """The printer of an event is found by it; events of probes have those from FIRST_ID on."""
        text = (ROOT / "kern/ftrace/trace/event_type.h").read_text()
        numbers = [int(number) for number in re.findall(r"^\tTRACE_\w+ = (\d+),", text, re.M)]
        self.assertGreater(len(numbers), 5)
        self.assertEqual([n for n, times in Counter(numbers).items() if times > 1], [])
        first, = (int(number) for path in product("kern/ftrace/*.c")
                  for number in re.findall(r"^#define FIRST_ID (\d+)", (ROOT / path).read_text(),
                                           re.M))
        self.assertLess(max(numbers), first)

    def test_every_macro_is_used(self) -> None:
        sources = [
            path for path in files("kern", "boot", "labs")
            if path.suffix in (".c", ".h", ".S", ".cc", ".edit")
        ]
        words = Counter(word for path in sources
                        for word in re.findall(r"\w+", (ROOT / path).read_text()))
        macros = {
            name
            for path in product("kern", "boot") if path.suffix in (".c", ".h", ".S")
            for name in re.findall(r"^#define (\w+)", (ROOT / path).read_text(), re.M)
            if not PASTED.match(name)
        }
        self.assertIn("likely", macros)
        self.assertEqual({name for name in macros if words[name] < 2}, set())


def labels(text: str) -> list[tuple[str, str]]:
    """The named labels of an assembly file, and the first sentence of each of its steps, in their
    order."""
    return re.findall(r"^([A-Za-z_]\w*):|^\t/\* (\d\. [^.;:]*)", text, re.M)


class Assembly(unittest.TestCase):
    """Both architectures' files can be read side by side."""

    def sources(self, folder: str) -> dict[str, list[str]]:
        """Each assembly file's text, of both architectures."""
        return {
            name: [(ROOT / folder / arch / name).read_text() for arch in ARCHES]
            for name in sorted(p.name for p in files(f"{folder}/{ARCHES[0]}")
                               if p.suffix == ".S" and p.name not in ONE_ARCHITECTURE)
        }

    def test_the_tracer_s_labels_and_steps_are_the_same(self) -> None:
        for name, (one, other) in self.sources("kern/ftrace").items():
            with self.subTest(name=name):
                self.assertEqual(labels(one), labels(other))
                self.assertTrue([step for _, step in labels(one) if step], "it has no steps")

    def test_the_kernel_s_labels_are_the_same(self) -> None:
        for folder in ("boot", "kern/arch"):
            for name, texts in self.sources(folder).items():
                one, other = ([
                    label for label, _ in labels(text) if label and label not in ONE_ARCHITECTURE
                ] for text in texts)
                self.assertEqual(one, other, name)

    def test_each_plan_is_carried_out(self) -> None:
        """A comment that numbers its steps is followed by code with these steps."""
        for folder in ("boot", "kern/arch", "kern/ftrace"):
            for name, texts in self.sources(folder).items():
                for text in texts:
                    self.assertEqual(sorted(re.findall(r"^ \* (\d)\. ", text, re.M)),
                                     sorted(re.findall(r"^\t/\* (\d)\. ", text, re.M)), name)


if __name__ == "__main__":
    unittest.main()
