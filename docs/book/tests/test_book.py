"""The book: code that pages show by its name, pages that are built from the tree, and no dead
links. mkdocs is not needed here."""
import re
import tempfile
import unittest
from pathlib import Path

from docs.book import pages, site, source
from grading.checks import rubric

ROOT = Path(__file__).resolve().parents[3]

C = """/*
 * A file.
 */
#define TWICE(x) \\
\t((x) + (x))

/* Its contract. */
int add(int a, int b);
static void other(void)
{
\tadd(1, 2);
}

/*
 * Adds.
 */
int add(int a, int b)
{
#if LAB_START == 3
\treturn -ENOSYS;
#else
#ifdef LOUD
\tprint(a);
#endif
\treturn a + b;
#endif
}

struct pair {
\tint a, b; /* both */
};
static unsigned long counted[4]; /* how often */
"""
ASM = """/* Opens. */
\t.globl caller, call_here
\t.type caller, @function
caller:
\tnop
call_here:
\tjalr t1

\tret
\t.size caller, . - caller
"""


class DocumentedTree(unittest.TestCase):
    """A small tree: one page, one handout, two sources."""

    def setUp(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.root = Path(self.directory.name)
        self.write("labs/instructor.mk", "")
        self.write("kern/a.c", C)
        self.write("kern/a.S", ASM)
        self.write("docs/index.md", "# Start\n\n## A part\n")
        self.write(
            "labs/2-two/handout.md",
            "# Lab 2\n\n## Named mistakes\n\n### Wrong `offset`, one\n\nIt is [off\nby](#next) "
            "one.\n\nMore.\n\n## Next\n"
        )

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def staged(self, text: str) -> tuple[str, list[str]]:
        """The page with this text, and what is wrong with it."""
        self.write("docs/page.md", text)
        book = pages.Book(self.root, self.root / "out")
        pages.stage(book)
        return (self.root / "out/page.md").read_text(), book.errors


class CodeByName(DocumentedTree):
    def test_a_function_comes_with_its_comment_and_without_a_labs_start(self) -> None:
        self.assertEqual(
            source.named(self.root, "kern/a.c", "add"),
            "/*\n * Adds.\n */\nint add(int a, int b)\n{\n#ifdef LOUD\n        print(a);\n#endif\n "
            "       return a + b;\n}"
        )

    def test_types_macros_and_variables_have_names(self) -> None:
        self.assertIn("int a, b; /* both */\n};", source.named(self.root, "kern/a.c", "pair"))
        self.assertIn("((x) + (x))", source.named(self.root, "kern/a.c", "TWICE"))
        self.assertEqual(source.named(self.root, "kern/a.c", "counted"),
                         "static unsigned long counted[4]; /* how often */")

    def test_a_label_ends_at_its_size_or_its_paragraph(self) -> None:
        self.assertTrue(
            source.named(self.root, "kern/a.S", "caller").endswith(".size caller, . - caller"))
        self.assertEqual(source.named(self.root, "kern/a.S", "call_here"),
                         "call_here:\n        jalr t1")

    def test_a_name_that_is_gone_is_an_error_with_its_line(self) -> None:
        _, errors = self.staged("# P\n\n@code kern/a.c add subtract\n")
        self.assertEqual(errors, ["docs/page.md:3: kern/a.c: there is no subtract"])

    def test_a_file_that_is_gone_is_an_error(self) -> None:
        _, errors = self.staged(
            "@code kern/b.c add\n\n@opening kern/b.c\n\n@picture none A picture\n")
        self.assertEqual(len(errors), 3, errors)

    def test_a_tree_that_was_handed_out_says_so_on_the_page(self) -> None:
        (self.root / "labs/instructor.mk").unlink()
        text, errors = self.staged("@code kern/a.c subtract\n\n[x](gone.md)\n")
        self.assertEqual(errors, [])
        self.assertIn("kern/a.c: there is no subtract", text)
        self.assertTrue(text.endswith("\nx\n"))

    def test_an_unknown_directive_is_an_error(self) -> None:
        self.assertTrue(self.staged("@cdoe kern/a.c add\n")[1])

    def test_code_on_the_page_has_its_file_and_no_tabs(self) -> None:
        text, errors = self.staged("@code kern/a.c other\n\n    @code in an example\n")
        self.assertEqual(errors, [])
        self.assertIn('title="kern/a.c"', text)
        self.assertIn("        add(1, 2);", text)


class LinksOfBook(DocumentedTree):
    def test_links_between_pages_and_handouts_follow_them(self) -> None:
        text, errors = self.staged(
            "[s](index.md#a-part) [m](../labs/2-two/handout.md#wrong-offset-one)\n")
        self.assertEqual(errors, [])
        self.assertEqual(text, "[s](index.md#a-part) [m](lab-2-two.md#wrong-offset-one)\n")

    def test_a_link_may_span_two_lines(self) -> None:
        self.assertEqual(self.staged("see [a\npart](index.md#a-part).\n"),
                         ("see [a\npart](index.md#a-part).\n", []))
        self.assertEqual(len(self.staged("see [a\npart](index.md#gone).\n")[1]), 1)

    def test_a_link_to_a_source_becomes_its_name(self) -> None:
        self.assertEqual(self.staged("[the file](../kern/a.c)\n"), ("the file (`kern/a.c`)\n", []))

    def test_a_dead_link_and_a_dead_section_are_errors(self) -> None:
        _, errors = self.staged(
            "[x](gone.md)\n\n[y](index.md#gone)\n\n[z](#gone)\n\n    [in code](gone.md)\n")
        self.assertEqual([e.split(": ")[1] for e in errors], ["gone.md", "index.md#gone", "#gone"])

    def test_a_site_with_a_planted_dead_link_is_refused(self) -> None:
        self.write("site/index.html",
                   '<h1 id="top">x</h1><a href="b.html#two">b</a><a href="#top">t</a>')
        self.write(
            "site/b.html",
            '<h1 id="two">x</h1><a href="https://example.org/">elsewhere</a><img src="index.html" '
            'alt="words">'
        )
        self.assertEqual(site.check(self.root / "site"), [])
        for planted in ('<a href="c.html">', '<a href="b.html#three">', '<img src="p.svg" alt="w">',
                        '<img src="b.html">', '<script src="https://example.org/x.js">',
                        '<link rel="stylesheet" href="//example.org/x.css">'):
            self.write("site/index.html", planted)
            self.assertEqual(len(site.check(self.root / "site")), 1, planted)

    def test_a_sheet_that_fetches_a_font_is_refused(self) -> None:
        self.write("site/x.css",
                   "@import url(https://example.org/font.css); a { background: url(data:x) }")
        self.assertEqual(len(site.check(self.root / "site")), 1)


class Mistakes(DocumentedTree):
    def test_the_index_is_the_handouts_sections(self) -> None:
        text, errors = self.staged("# Index\n\n@mistakes\n")
        self.assertEqual(errors, [])
        self.assertIn("## Lab 2\n", text)
        self.assertIn(
            "**[Wrong `offset`, one](lab-2-two.md#wrong-offset-one)** (`wrong-offset-one`)<br>\nIt "
            "is [off\nby](lab-2-two.md#next) one.\n",
            text)
        self.assertNotIn("More.", text)
        self.assertNotIn("Next", text)


SOURCES = [p for p in (ROOT / "kern").rglob("*.c") if "tests" not in p.relative_to(ROOT).parts]
FILE = re.compile(
    r"TRACEFS_(FILE|INSTANCE_FILE|CPU_FILE|ENTRY|TEXT|CONTROL|U64|FILTER)"
    r'\(\w+,\s*"([^"]+)",\s*(?:TRACEFS_(\w+))?')
WHERE = {"FILE": "TOP", "INSTANCE_FILE": "INSTANCE", "CPU_FILE": "CPU", "ENTRY": "EACH_CPU"}


class TracefsReference(unittest.TestCase):
    """docs/tracefs.md against the files that the kernel's sources make."""

    page = (ROOT / "docs/tracefs.md").read_text()

    def files(self, *places: str) -> set[str]:
        found = {(m[3] or WHERE[m[1]], m[2])
                 for source in SOURCES for m in FILE.finditer(source.read_text())}
        return {re.sub("%u", "N", path) for where, path in found if where in places}

    def test_every_file_has_its_section(self) -> None:
        told = {
            name
            for line in self.page.splitlines() if line.startswith("### ")
            for name in re.findall("`([^`]+)`", line)
        }
        made = self.files("TOP", "INSTANCE", "CPU", "EACH_CPU")
        self.assertEqual(
            told - {
                "options/", "instances/", "instances/last_boot", "events/ftrace/NAME/format",
                "events/GROUP/EVENT/"
            }, made - {"instances"})

    def test_every_option_is_in_the_table(self) -> None:
        options = re.findall(r'option\(\w+, "([a-z_-]+)"\)',
                             (ROOT / "kern/ftrace/trace/trace.h").read_text())
        self.assertEqual(re.findall(r"^\| `([a-z_-]+)` \| [01] \|", self.page, re.M), options)

    def test_what_an_instance_has_not_is_said(self) -> None:
        sentence = re.search(r"all of them but (.*?)\.\s", self.page, re.S)
        assert sentence
        self.assertEqual(set(re.findall("`([^`]+)`", sentence[1])),
                         {name for name in self.files("TOP") if not name.startswith("/")} |
                         {"trace_stat/functionN"})


class Handouts(unittest.TestCase):
    """What a handout says about the grader is what the grader uses."""

    def handouts(self) -> list[tuple[rubric.Lab, Path]]:
        return [(rubric.lab(n), folder / "handout.md") for n, folder in rubric.LABS.items()
                if (folder / "handout.md").is_file()]

    def test_the_ladder_is_the_rubrics(self) -> None:
        for lab, handout in self.handouts():
            with self.subTest(lab=lab.number):
                rows = re.findall(r"^\| ([^|]+) \| (\d+) \|", handout.read_text(), re.M)
                self.assertEqual([(name.strip(), int(points)) for name, points in rows],
                                 [(r.name, r.points) for r in lab.rungs])

    def test_each_mistake_that_the_grader_names_has_its_section(self) -> None:
        there = {(m.page, m.slug) for m in pages.mistakes(pages.Book(ROOT, ROOT / "build"))}
        for lab, handout in self.handouts():
            for slug in lab.mistakes:
                self.assertIn((str(handout.relative_to(ROOT)), slug), there)


    def test_a_handout_asks_for_no_later_lab(self) -> None:
        """The tree that a student has ends with his lab; that of lab 0 has lab 1."""
        for handout in sorted(ROOT.glob("labs/*/handout.md")):
            number = max(1, int(handout.parent.name[0]))
            asked = {int(n) for n in re.findall(r"(?:LAB=|/lab)(\d)\b", handout.read_text())}
            self.assertLessEqual(max(asked), number, handout)


class ThisBook(unittest.TestCase):
    def test_every_name_and_link_of_this_book_is_there(self) -> None:
        with tempfile.TemporaryDirectory() as out:
            book = pages.Book(ROOT, Path(out))
            pages.stage(book)
            self.assertEqual(book.errors, [])

    def test_every_word_of_the_glossary_is_used(self) -> None:
        """In the sources of the kernel or of the labs; and each entry says in which labs."""
        sources = [
            p for top in ("kern", "labs") for p in (ROOT / top).rglob("*")
            if p.suffix in {".c", ".h", ".S", ".md", ".py", ".toml"}
        ]
        text = " ".join(" ".join(p.read_text() for p in sources).replace("*", " ").split()).lower()
        for entry in re.split(r"^### ", (ROOT / "docs/glossary.md").read_text(), flags=re.M)[1:]:
            with self.subTest(word := re.split(r" [({]", entry)[0]):
                self.assertTrue(re.search(rf"\b{word}s?\b", text))
                self.assertRegex(entry, r"\b[Ll]abs?\s\d|all\slabs")

    def test_every_path_that_a_text_names_is_there(self) -> None:
        """In prose and in code; <arch> and NAME stand for any name."""
        if pages.Book(ROOT, ROOT).handed_out:
            self.skipTest("the handed-out tree lacks files")
        path = re.compile(r"(?<![\w/.-])((?:boot|docs|grading|kern|labs|qemu|\.ci)/"
                          r"[\w./*<>-]*[\w/*>])")
        texts = [*ROOT.glob("docs/*.md"), *ROOT.glob("labs/*.md"), *ROOT.glob("labs/*/handout.md"),
                 *ROOT.glob("kern/**/README.md"), ROOT / "README.md"]
        named = [(text, name) for text in texts for name in path.findall(text.read_text())]
        self.assertIn((ROOT / "docs/add.md", "kern/arch/<arch>/irqchip.c"), named)
        self.assertEqual([
            f"{text.relative_to(ROOT)}: {name}" for text, name in named
            if not any(ROOT.glob(re.sub(r"<\w+>|\bNAME\b", "*", name).rstrip("/")))], [])

    def test_every_page_is_in_the_contents(self) -> None:
        contents = (ROOT / "docs/mkdocs.yml").read_text()
        for page in (ROOT / "docs").glob("*.md"):
            self.assertIn(f"- {page.name}\n", contents)


if __name__ == "__main__":
    unittest.main()
