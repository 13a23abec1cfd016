"""Lab 7's checks, with modules, texts and records made by hand; and the harness's linking of
modules, compared with GNU ld's."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from dataclasses import replace
from errno import EINVAL, ERANGE
from pathlib import Path

from elftools.elf.elffile import ELFFile  # type: ignore[import]

from grading.checks import integrity, module_checks
from grading.elf.elf import Function, Kernel, Site
from qemu.isa import ISAS
from qemu.isa.common import Way, Words
from grading.checks.rubric import checks_of
from grading.elf.link import PAGE, Layout
from grading.elf.module import TRAMPOLINE, Module
from grading.evidence.evidence import Evidence, Loaded, Overwritten, Redirected
from grading.evidence.finding import Finding
from grading.machine.observer import Kind
from grading.session.module_session import INSIDE
from grading.tests.test_registers import HandMade, record
from grading.truth.truth import TRAMPOLINE_ENCODER, TRAMPOLINE_READER, TRAMPOLINE_WORDS
from grading.verdict import Stopped
from qemu.machine import ARCHES

FROM = 0x4000000334  # a page's offset of its own
BASE, STUBS, ROOM = 0x40000000, (0x11E00, 0x11E0C), 0x100
NAMES = ("pine_init", "pine_leaf", "pine_nap", "pine_exit")
lab7 = checks_of(7)


def patched(module: Module, text: bytes, words: dict[int, int]) -> bytes:
    """The text with these words, by address."""
    new = bytearray(text)
    for address, word in words.items():
        new[address - module.base:address - module.base + 4] = word.to_bytes(4, "little")
    return bytes(new)


def module_of(kernel: Kernel) -> Module:
    """Four functions of 64 bytes, each with a call site at its second word, and two trampolines."""
    functions = tuple(
        Function(f"{name} [pine]", BASE + 64 * n, BASE + 64 * (n + 1))
        for n, name in enumerate(NAMES))
    sites = tuple(Site(f.start + 4, f, kernel.isa.nop, kernel.isa.nop) for f in functions)
    made = Module("pine", BASE, bytes(PAGE), functions, sites, BASE + ROOM, len(STUBS))
    words = {a: 0x01000000 + a - BASE
             for a in range(BASE, BASE + ROOM, 4)} | {s.address: kernel.isa.nop
                                                      for s in sites}
    for n, stub in enumerate(STUBS):
        at = made.trampoline(n)
        words |= {at + 4 * i: word for i, word in enumerate(kernel.isa.trampoline_to(at, stub))}
    return replace(made, text=patched(made, made.text, words))


class HandMadeModule(unittest.TestCase):
    def made(self, arch: str) -> tuple[Evidence, Module]:
        kernel = HandMade(arch, "entry")
        kernel.symbols |= {f"ftrace_stub_{n}": at for n, at in enumerate(STUBS)}
        module = module_of(kernel)
        kernel.place((module,))
        return Evidence(arch, 7, 1, 0, kernel, Path()), module

    def assert_finding(self, found: Finding | None, words: str, mistake: str = "") -> None:
        assert found, f"nothing was found: {words}"
        self.assertIn(words, found.why)
        self.assertEqual(found.mistake, mistake)

    def call(self, e: Evidence, module: Module, site: Site, trampoline: int = 0) -> int:
        return e.kernel.isa.call(site.address, module.trampoline(trampoline),
                                 e.kernel.link_register)


class Text(HandMadeModule):
    def test_each_word_before_and_after_the_trampolines_is_as_linked(self) -> None:
        for arch in ARCHES:
            e, module = self.made(arch)
            for far in (False, True):
                e.loaded = [Loaded(module, far, module.text)]
                self.assertIsNone(module_checks.modules_at_rest(e))
                for at in (*range(BASE, BASE + ROOM, 4), module.trampoline(len(STUBS)),
                           module.end - 4):
                    e.loaded = [Loaded(module, far, patched(module, module.text, {at: 0x01FFFFFF}))]
                    self.assert_finding(
                        module_checks.modules_at_rest(e),
                        f"{'out of' if far else 'in'} reach of the stubs: the word at "
                        f"{e.kernel.name_at(at)} is wrong"
                    )

    def test_while_it_is_traced_the_sites_alone_may_differ(self) -> None:
        for arch in ARCHES:
            e, module = self.made(arch)
            traced = patched(module, module.text,
                             {s.address: self.call(e, module, s)
                              for s in module.sites})
            e.loaded = [Loaded(module, True, module.text, traced)]
            self.assertIsNone(module_checks.modules_at_rest(e))
            e.loaded = [Loaded(module, True, module.text, patched(module, traced, {BASE + 8: 0}))]
            self.assert_finding(module_checks.modules_at_rest(e),
                                "the word at pine_init [pine]+0x8 is wrong")

    def test_a_module_that_was_not_loaded(self) -> None:
        e, module = self.made("arm64")
        e.loaded = [Loaded(module, True)]
        self.assert_finding(module_checks.modules_at_rest(e), "it was not loaded")


class Called(HandMadeModule):
    def test_a_trampoline_that_leads_elsewhere_is_said_first(self) -> None:
        for arch in ARCHES:
            e, module = self.made(arch)
            first = zip(range(module.room, module.room + TRAMPOLINE, 4),
                        e.kernel.isa.trampoline_to(module.room, STUBS[0] + PAGE))
            wrong = patched(module, module.text, dict(first))
            for why in ("", "a page fault"):
                e.why, e.loaded = why, [Loaded(module, True, wrong)]
                self.assert_finding(module_checks.called(e), "trampoline 0, at",
                                    "trampoline-off-by-a-page")
            e.loaded = [Loaded(module, True, module.text)]
            self.assertIsNone(module_checks.called(e))  # the report says how the boot ended
            e.why = ""
            self.assert_finding(module_checks.called(e), "no traced function of a far module")


class ExecutedWords(HandMadeModule):
    """Each executed word of a module is judged."""

    def test_another_word_than_the_linked_one(self) -> None:
        for arch in ARCHES:
            e, _ = self.made(arch)
            self.assertIsNone(integrity.as_linked(e))
            e.truth.foreign = [record(Kind.FOREIGN, BASE + 0x48, word=0x13)]
            self.assert_finding(
                integrity.as_linked(e),
                "at pine_leaf [pine]+0x8, where 01000048 was linked: this is not a call site")
            e.truth.foreign = [record(Kind.FOREIGN, BASE + PAGE, word=0x13)]
            self.assert_finding(integrity.as_linked(e), "which is outside of the kernel's text")

    def words(self, e: Evidence, *words: tuple[int, int]) -> None:
        e.truth.words = [record(Kind.WORD, at, word=word) for at, word in words]

    def test_a_site_holds_the_nop_or_a_call(self) -> None:
        for arch in ARCHES:
            e, module = self.made(arch)
            site = module.sites[1]
            self.words(e, (site.address, e.kernel.isa.nop),
                       (site.address, self.call(e, module, site)))
            self.assertIsNone(integrity.as_linked(e))
            self.words(e, (site.address, e.kernel.isa.idle(5)))
            self.assert_finding(integrity.as_linked(e), "pine_leaf [pine]+0x4 held")
            e.overwritten_sites = [Overwritten(Loaded(module, True), site, e.kernel.isa.idle(5), 0)]
            self.assertIsNone(integrity.as_linked(e), "the harness wrote it")

    def test_a_trampoline_leads_to_its_stub_when_it_is_executed(self) -> None:
        for arch in ARCHES:
            e, module = self.made(arch)
            e.loaded = [Loaded(module, True, module.text)]
            self.assertIsNone(module_checks.trampolines_lead(e))
            for n, stub in enumerate(STUBS):
                for word in range(TRAMPOLINE // 4):
                    at = module.trampoline(n) + 4 * word
                    self.words(e, (at, 0x01FFFFFF))
                    self.assertIsNone(integrity.as_linked(e),
                                      "the rung of the trampolines judges them")
                    found = module_checks.trampolines_lead(e)
                    self.assert_finding(found, "CPU 0 executed another word in a trampoline")
                    assert found
                    self.assertIn(f"trampoline {n} at {at:#x}", found.site)


class Computed(HandMadeModule):
    """The two functions of trampoline.c, by what the program trampolines asked them."""

    def asked(self, e: Evidence, name: str, ip: int, second: int, returned: int, words: Words,
              target: int = 0) -> None:
        hits = {
            name: (ip, second), "answer": (returned % (1 << 64),),
            TRAMPOLINE_WORDS: (words[0] | words[1] << 32, words[2], target)
        }
        e.truth.hits.clear()
        for seq, (hit, v) in enumerate(hits.items()):
            e.truth.hits[hit].append(record(Kind.HIT, 0, *v, seq=seq))

    def test_words_are_made_for_what_is_in_reach_and_for_nothing_else(self) -> None:
        ends = {
            "riscv64": (-(1 << 31) - 0x800, (1 << 31) - 0x804),
            "arm64": (-(1 << 32) - FROM % 4096, (1 << 32) - 4 - FROM % 4096)
        }
        for arch in ARCHES:
            e, _ = self.made(arch)
            for off in ends[arch]:
                beyond = off + (4 if off > 0 else -4)
                right = e.kernel.isa.trampoline_to(FROM, FROM + off)
                other = e.kernel.isa.trampoline_to(FROM, FROM + off - 4096 * (1 if off > 0 else -1))
                for distance, returned, words, why, mistake in (
                    (off, 0, right, "", ""),
                    (off, -ERANGE, (0, 0, 0), "returned -ERANGE: it must return 0",
                     "trampoline-wrong-reach"),
                    (off, 0, other, "made words that lead to", "trampoline-off-by-a-page"),
                    (off, 0, (0, 0, 0), "made words that are no trampoline", ""),
                    (beyond, -ERANGE, (0, 0, 0), "", ""),
                    (beyond, 0, right, "returned 0: it must return -ERANGE",
                     "trampoline-wrong-reach"),
                    (beyond, -EINVAL, (0, 0, 0), "returned -EINVAL", "trampoline-wrong-reach"),
                    (beyond, -ERANGE, right, "returned -ERANGE and stored words", "")):
                    self.asked(e, TRAMPOLINE_ENCODER, FROM, FROM + distance, returned, words)
                    found = module_checks.trampolines_computed(e)
                    self.assert_finding(found, why, mistake) if why else self.assertIsNone(found)

    def test_words_lead_to_one_target_or_are_no_trampoline(self) -> None:
        for arch in ARCHES:
            e, _ = self.made(arch)
            right = e.kernel.isa.trampoline_to(FROM, FROM - 0x12345678)
            for words, returned, target, why, mistake in ((right, 1, FROM - 0x12345678, "",
                                                           ""), (right, 0, 0,
                                                                 "are no trampoline; they lead to",
                                                                 "trampoline-misread"),
                                                          (right, 1, FROM + 0x12345678,
                                                           "they lead to", "trampoline-misread"),
                                                          (e.kernel.isa.flipped(1, 7)(right), 0, 5,
                                                           "", ""), (e.kernel.isa.flipped(1,
                                                                                          7)(right),
                                                                     1, FROM - 0x12345678,
                                                                     "they are no trampoline",
                                                                     "instructions-not-compared")):
                self.asked(e, TRAMPOLINE_READER, FROM, 0, returned, words, target)
                found = module_checks.trampolines_computed(e)
                self.assert_finding(found, why, mistake) if why else self.assertIsNone(found)
            unlike = e.kernel.isa.flipped(2, 3)(right)
            self.asked(e, TRAMPOLINE_READER, FROM, 0, 1, unlike, FROM - 0x12345678)
            found = module_checks.trampolines_computed(e)
            self.assert_finding(
                found, "they are no trampoline",
                "instructions-not-compared") if arch == "arm64" else self.assertIsNone(found)


class OtherWords(HandMadeModule):
    """The harness overwrote trampolines, or call sites."""

    def redirected(self, e: Evidence, module: Module, way: Way, wanted: str,
                   number: int) -> Redirected:
        """This trampoline was overwritten. Nothing was written, and it was reported."""
        loaded = Loaded(module, True, module.text)
        words = {
            module.trampoline(number) + 4 * i: w
            for i, w in enumerate(way(loaded.trampoline(module.text, number)))
        }
        if wanted != "traced":
            words |= {s.address: self.call(e, module, s) for s in module.sites}
        text = patched(module, module.text, words)
        return Redirected(loaded, wanted, "ftrace: its trampoline at 0x1 must lead to", text, text,
                          e.kernel.rest_text(7))

    def test_a_trampoline_that_leads_elsewhere_is_reported_and_nothing_is_written(self) -> None:
        for arch in ARCHES:
            e, module = self.made(arch)
            self.assert_finding(lab7.followed(e), "the boot ended before")
            site, isa = module.sites[2], e.kernel.isa
            for way, number, wanted, slug in (
                (isa.aside(TRAMPOLINE), 0, "traced", "trampoline-not-followed"),
                (isa.flipped(0, 0), 0, "traced", "instructions-not-compared"),
                (isa.aside(TRAMPOLINE), 0, "no longer traced", "old-trampoline-not-followed"),
                (isa.aside(TRAMPOLINE), 0, "traced twice", "old-trampoline-not-followed"),
                (isa.aside(TRAMPOLINE), 1, "traced twice", "new-trampoline-not-followed")):
                right = self.redirected(e, module, way, wanted, number)
                for was, why, mistake in ((right, "", ""), (replace(right, after=b""),
                                                            "the boot ended before", ""),
                                          (replace(
                                              right, after=patched(
                                                  module, right.after,
                                                  {site.address: self.call(e, module, site, 1)})),
                                           f"pine_nap [pine] was to be {wanted}",
                                           slug), (replace(right, after=patched(
                                               module, right.after, {BASE + 8: 0})),
                                                   "other words of its text were written", ""),
                                          (replace(right, kernel=bytes(len(right.kernel))),
                                           "text was changed at wl_a", ""),
                                          (replace(right, printed=2 * right.printed),
                                           "reported both", ""),
                                          (replace(right,
                                                   printed="nothing"), "did not report it", "")):
                    e.redirected = [right, was]
                    self.assert_finding(lab7.followed(e), why,
                                        mistake) if why else self.assertIsNone(lab7.followed(e))

    def test_the_site_of_a_disabled_record_is_left_alone(self) -> None:
        for arch in ARCHES:
            e, module = self.made(arch)
            self.assertIsNone(lab7.disabled(e))
            right = self.redirected(e, module, e.kernel.isa.aside(TRAMPOLINE), "removed", 0)
            for after, why in ((right.after, ""), (patched(
                    module, right.after, {module.sites[2].address: e.kernel.isa.nop}),
                    "the trampoline that pine_nap [pine] called led elsewhere")):
                e.disabled = replace(right, after=after)
                found = lab7.disabled(e)
                self.assert_finding(found, why) if why else self.assertIsNone(found)

    def test_a_failure_of_function_graph_is_printed(self) -> None:
        e, module = self.made("arm64")
        refused = "refused [pine]\nthe site is left alone and no further tracing is started\n"
        for printed, why in ((refused, "No message with the name pine"), ("", ""),
                             (refused + "ftrace: module pine: not graphed", "")):
            e.overwritten_sites = [replace(self.overwritten(e, module), printed=printed)]
            found = lab7.failure_printed(e)
            self.assert_finding(found, why) if why else self.assertIsNone(found)

    def test_the_batches_of_sites_are_counted(self) -> None:
        begin, call = "ftrace_batch_begin", "ftrace_make_call"
        for steps, count in (([begin], 0), ([begin, call, call, begin, "ftrace_make_nop"], 1),
                             ([begin, call, begin, call], 2)):
            self.assertEqual(lab7._batches(steps, call), count)

    def overwritten(self, e: Evidence, module: Module) -> Overwritten:
        site, word = module.sites[1], e.kernel.isa.idle(7)
        before = patched(module, module.text, {site.address: word})
        others = {s.address: self.call(e, module, s) for s in module.sites if s is not site}
        printed = (
            f"ftrace: refused to write the call site of pine_leaf [pine] at {site.address:#x} "
            f"(error -22)\n"
            f"ftrace:   expected {e.kernel.isa.nop:08x}  nop\nftrace:   found    {word:08x}  "
            f"neither the nop nor a call\n"
        )
        return Overwritten(Loaded(module, True), site, word, e.kernel.isa.nop, printed, before,
                           patched(module, before, others))

    def test_one_is_reported_with_both_words_and_left_alone(self) -> None:
        for arch in ARCHES:
            e, module = self.made(arch)
            self.assert_finding(lab7.refused(e), "the boot ended before")
            right = self.overwritten(e, module)
            site, words = right.site.address, right.printed.split("\n")
            call = self.call(e, module, right.site)
            for was, why, mistake in (
                (right, "", ""),
                (replace(right, after=b""), "the boot ended before", ""),
                (replace(right, after=patched(module, right.after, {site: call})),
                 "The site was written", "site-not-read"),
                (replace(right, after=patched(module, right.after, {site: e.kernel.isa.nop})),
                 "The site was written", "site-not-read"),
                (replace(right, after=patched(module, right.after, {BASE + 8: 0})),
                 "words of pine that are not call sites", ""),
                (replace(right, after=patched(module, right.after, {module.trampoline(1): 0})),
                 "words of pine that are not call sites", ""),
                (replace(right,
                         printed=right.printed + "ftrace: its trampoline at 0x1 must lead to"),
                 "no trampoline begins", "call-taken-for-a-trampoline"),
                (replace(right, printed=""), "did not report it", "site-refused-in-silence"),
                (replace(right, printed=right.printed.replace("leaf", "nap")),
                 "did not report it", "site-refused-in-silence"),
                (replace(right, printed="\n".join((words[0], words[1]))),
                 "did not report both", ""),
                (replace(right, printed="\n".join((words[0], words[2]))),
                 "did not report both", "")):
                e.overwritten_sites = [was]
                if why:
                    self.assert_finding(lab7.refused(e), why, mistake)
                else:
                    self.assertIsNone(lab7.refused(e))
            e.overwritten_sites = [right, replace(right, printed="")]
            self.assert_finding(lab7.refused(e), "did not report it", "site-refused-in-silence")


class Inside(HandMadeModule):
    def test_a_module_with_a_call_inside_is_busy(self) -> None:
        busy = ("module pine: a traced call will return through it\nrmmod: pine: Device or "
                "resource busy (EBUSY)")
        e, _ = self.made("arm64")
        self.assert_finding(lab7.inside(e), "no module was removed")
        right = {**dict.fromkeys(INSIDE, busy), "another": "", "awake": ""}
        self.assertEqual(set(lab7.WITHIN), set(INSIDE))
        e.inside = right
        self.assertIsNone(lab7.inside(e))
        for case, (what, slug) in lab7.WITHIN.items():
            e.inside = {**right, case: ""}
            self.assert_finding(lab7.inside(e), what, slug)
        for case in ("another", "awake"):
            e.inside = {**right, case: busy}
            self.assert_finding(lab7.inside(e), "EBUSY")


# Each kind of relocation that grading/elf/link.py knows and a module's text may have, but for the
# GOT's and entries for calls.
SOURCE = {
    "riscv64": """
	.option norelax
back:	beq a0, a1, ahead
	jal t0, back
	call outside
	tail ahead
1:	auipc a0, %pcrel_hi(constant)
	addi a0, a0, %pcrel_lo(1b)
2:	auipc a1, %pcrel_hi(variable + 8)
	sd a0, %pcrel_lo(2b)(a1)
	ld a2, %pcrel_lo(2b)(a1)
	lui a3, %hi(small)
	addi a3, a3, %lo(small)
	sw a3, %lo(small)(a3)
	.space 3000
ahead:	bne a0, a1, back
""",
    "arm64": """
back:	cbz x0, ahead
	tbnz x0, #3, ahead
	b.ne back
	bl outside
	b ahead
	adr x0, back
	adrp x1, constant
	add x1, x1, :lo12:constant
	ldrb w2, [x1, :lo12:constant]
	ldrh w2, [x1, :lo12:constant]
	ldr w2, [x1, :lo12:variable]
	ldr x2, [x1, :lo12:variable + 8]
	ldr q2, [x1, :lo12:variable]
	ldr x3, variable
	.space 3000
ahead:	nop
""",
}
DATA = """
	.section .rodata
	.space 24
constant: .quad 1
	.data
	.space 32
variable: .quad 2, 3
"""


class Linked(unittest.TestCase):
    """GNU ld gets the address of each section."""

    def layout(self, arch: str, folder: Path, source: str) -> Layout:
        (folder / "m.s").write_text(f"{source}\n")
        subprocess.run([f"{ISAS[arch].cross}as", "-o", folder / "m.ko", folder / "m.s"], check=True)
        kernel = HandMade(arch, "entry")
        kernel.symbols |= {"outside": BASE + 0x40000, "small": 0x12345FF0}
        return Layout(folder / "m.ko", kernel)

    def test_text_is_what_gnu_ld_makes_of_it(self) -> None:
        for arch in ARCHES:
            for base in (BASE, BASE + 0x7000):
                with tempfile.TemporaryDirectory(prefix="callsite-test-") as name:
                    folder, end = Path(name), base + 2 * PAGE
                    layout = self.layout(
                        arch, folder,
                        SOURCE[arch].replace("back:", "\t.text\n\t.globl back, ahead\nback:") +
                        DATA)
                    subprocess.run([
                        f"{ISAS[arch].cross}ld", "--no-relax", f"-Ttext={base:#x}",
                        f"--section-start=.rodata={end:#x}", f"-Tdata={end + PAGE:#x}",
                        f"--defsym=outside={BASE + 0x40000:#x}", "--defsym=small=0x12345ff0", "-e",
                        "0", "-o", folder / "m.elf", folder / "m.ko"
                    ], check=True)
                    with (folder / "m.elf").open("rb") as file:
                        want = ELFFile(file).get_section_by_name(".text").data()
                    self.assertEqual(
                        layout.linked(base, end)[:len(want)].hex(" ", 4), want.hex(" ", 4),
                        f"{arch} at {base:#x}")

    def test_what_is_not_known_is_refused(self) -> None:
        for arch, source in (("riscv64", ".reloc 0, R_RISCV_TPREL_HI20, x\nlui a0, 0\n.data\nx:"),
                             ("arm64", "movz x0, #:abs_g0:x\n.data\nx:"), ("arm64", "bl missing")):
            with tempfile.TemporaryDirectory(
                    prefix="callsite-test-") as name, self.assertRaises(Stopped):
                self.layout(arch, Path(name), source).linked(BASE, BASE + PAGE)


if __name__ == "__main__":
    unittest.main()
