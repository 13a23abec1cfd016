"""What the observer logs for one-page kernels, and how an incomplete log is read."""

from __future__ import annotations

import subprocess
import unittest

from grading.machine import observer
from grading.machine.machine import Run
from grading.machine.observer import Kind, Record, decoded, saved
from grading.tests import tiny
from grading.truth.truth import KEPT_NOTHING
from grading.verdict import Stopped, Verdict
from qemu.isa import ARCHES, ISAS
from qemu.machine import FINISHED, ROOT

LOGS = ROOT / "build/tests/observer"
# by the kernels' `change`; of a call of it
CHANGED, LINK = {"riscv64": "s2", "arm64": "x20"}, {"riscv64": "t0", "arm64": "x30"}


def boot(arch: str, *lines: str) -> Run:
    return Run(tiny.machine(arch, "LIVE"), LOGS / f"{arch}.log", tiny.config(arch, "LIVE", *lines))


def seen(arch: str, command: str, *lines: str) -> list[Record]:
    """The records while the harness records and the kernel runs this command."""
    with boot(arch, *lines) as machine:
        machine.console.wait_ready(30)
        assert machine.observer
        first = machine.observer.written()
        with machine.observer.recording():
            machine.console.command(command)
        return list(machine.observer.records(first))


class Observed(unittest.TestCase):
    arch: str

    def on_both(self, command: str, *lines: str) -> list[list[Record]]:
        self.of: dict[str, list[Record]] = {arch: seen(arch, command, *lines) for arch in ARCHES}
        return [*self.of.values()]

    def at(self, arch: str, symbol: str, kind: Kind) -> Record:
        """The only record of this kind at this place."""
        name, _, offset = symbol.partition("+")
        address = tiny.symbols(arch, "LIVE")[name] + int(offset or 0)
        [found] = [r for r in self.of[arch] if (r.addr, r.kind) == (address, kind)]
        return found

    def names(self, arch: str, mask: int) -> set[str]:
        return {name for n, name in enumerate(ISAS[arch].names) if mask >> n & 1}


class Registers(Observed):
    def test_those_that_change_between_a_site_and_its_body_are_told(self) -> None:
        self.on_both("registers", "site changed_site", "body changed_site+4")
        for arch in ARCHES:
            self.assertEqual(self.names(arch,
                                        self.at(arch, "changed_site+4", Kind.BODY).v[0]),
                             {CHANGED[arch], LINK[arch]})

    def test_the_mask_of_interrupts_and_who_runs_where_are_registers_too(self) -> None:
        self.on_both("registers", "site unmasked_site", "body unmasked_site+4")
        for arch in ARCHES:
            self.assertEqual(self.names(arch,
                                        self.at(arch, "unmasked_site+4", Kind.BODY).v[0]),
                             {*ISAS[arch].names[32:], LINK[arch]})

    def test_what_an_exception_changes_and_gives_back_is_not_told(self) -> None:
        """A call that the exception's handler makes is compared at its own level."""
        self.on_both("registers", "vector vector", "fences", "site trapped_site",
                     "body trapped_site+4", "site inner_site", "body inner_site+4")
        for arch in ARCHES:
            outer, inner = self.at(arch, "trapped_site+4",
                                   Kind.BODY), self.at(arch, "inner_site+4", Kind.BODY)
            self.assertEqual(self.names(arch, outer.v[0]), {LINK[arch]})
            self.assertEqual(self.names(arch, inner.v[0]), {CHANGED[arch], LINK[arch]})
            self.assertEqual((outer.context, inner.context),
                             ((outer.thread, 0, 0), (outer.thread, 1, 1)))

    def test_a_site_with_a_nop_on_the_way_is_no_end_of_the_comparison(self) -> None:
        self.on_both("registers", "site changed_site", "site quiet_site 1", "body quiet_site+4",
                     "body changed_site+4")
        for arch in ARCHES:
            self.assertEqual(self.names(arch,
                                        self.at(arch, "changed_site+4", Kind.BODY).v[0]),
                             {CHANGED[arch], LINK[arch]})

    def test_where_a_call_really_comes_home_and_with_what(self) -> None:
        """`patched` returns through a handler, which changes a register."""
        self.on_both("registers", "exit answer_exit", "home home", "exit patched_exit",
                     "home patched_home")
        for arch in ARCHES:
            symbols = tiny.symbols(arch, "LIVE")
            left, back = self.at(arch, "answer_exit", Kind.EXIT), self.at(arch, "home", Kind.HOME)
            self.assertEqual((left.v[:2], back.v[:2]), ((symbols["home"], 0x2A), (0, 0x2A)))
            left, back = self.at(arch, "patched_exit",
                                 Kind.EXIT), self.at(arch, "patched_home", Kind.HOME)
            self.assertEqual((left.v[:2], back.v[1]), ((symbols["handler"], 0x2B), 0x2B))
            self.assertEqual(self.names(arch, back.v[0]), {CHANGED[arch]})

    def test_a_callback_with_its_arguments_frame_records_and_memory(self) -> None:
        self.on_both("registers", "callback callback 3 2")
        for arch in ARCHES:
            symbols, r = tiny.symbols(arch, "LIVE"), self.at(arch, "callback", Kind.CALLBACK)
            below = symbols["records"] + (32 if arch == "riscv64" else 16)
            self.assertEqual(r.v, (1, 2, symbols["words"], 4))
            self.assertEqual(
                r.more, (below, 0x1111, 0, 0x2222, 0, 0, 0, 0, 0x55, 0x66, 0x77, 0, 0, 0, 0, 0))

    def test_the_end_of_a_function_that_was_entered_behind_its_beginning(self) -> None:
        for begin, behind in (("answer", 0), ("callback", 1)):
            for records in self.on_both("registers", f"enter {begin}", "leave answer_exit"):
                self.assertEqual([r.kind for r in records], behind * [Kind.MIDDLE])

    def test_eight_arguments_of_a_function_that_is_asked_for_them(self) -> None:
        self.on_both("registers", "arguments callback")
        for arch in ARCHES:
            r = self.at(arch, "callback", Kind.HIT)
            self.assertEqual(r.more[:4], (1, 2, tiny.symbols(arch, "LIVE")["words"], 4))

    def test_the_parent_of_a_site_after_the_prologue_is_in_the_frame_record(self) -> None:
        self.on_both("registers", "mcount", "site callback")
        for arch in ARCHES:
            self.assertEqual(self.at(arch, "callback", Kind.SITE).v[1], 0x1111)

    def test_a_thread_that_begins_on_the_stack_of_another_is_another(self) -> None:
        self.on_both("registers", "point answer", "point change", "birth patched", "point callback")
        for arch, records in self.of.items():
            before, after = self.at(arch, "answer",
                                    Kind.POINT), self.at(arch, "callback", Kind.POINT)
            self.assertEqual({r.thread for r in records if r.seq < after.seq}, {before.thread})
            self.assertNotEqual(after.thread, before.thread)

    def test_a_thread_that_begins_inside_of_a_call_is_where_the_call_went(self) -> None:
        self.on_both("registers", "site changed_site", "birth change")
        for arch in ARCHES:
            self.assertEqual(self.names(arch,
                                        self.at(arch, "change", Kind.HOME).v[0]), {LINK[arch]})

    def test_what_was_kept_in_one_recording_is_compared_with_nothing_in_the_next(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch), boot(arch, "site changed_site") as machine:
                machine.console.wait_ready(30)
                for _ in range(2):
                    with machine.observer.recording():
                        machine.console.command("registers")
                        machine.console.command("registers")
                sites = [r for r in machine.observer.records() if r.kind == Kind.SITE]
                self.assertEqual([(r.size, r.v[0] == KEPT_NOTHING) for r in sites], [(1, True),
                                                                                     (1, False),
                                                                                     (2, True),
                                                                                     (2, False)])

    def test_a_site_that_nobody_follows_is_logged_unless_it_holds_the_nop(self) -> None:
        for line, words in (("site traced_site 0", 2), ("site traced_site 1", 1)):
            for arch in ARCHES:
                with self.subTest(arch=arch), boot(arch,
                                                   line) as machine, machine.observer.recording():
                    machine.console.wait_ready(30)
                    for command in ("now", "enable", "now"):
                        machine.console.command(command)
                    self.assertEqual(sum(r.kind == Kind.SITE for r in machine.observer.records()),
                                     words, line)

    def test_a_call_site_is_logged_while_the_harness_records_and_a_point_always(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch), boot(arch, "site traced_site", "hit traced",
                                               "point traced") as machine:
                machine.console.wait_ready(30)
                machine.console.command("now")
                with machine.observer.recording():
                    machine.console.command("now")
                machine.console.command("now")
                kinds = [r.kind for r in machine.observer.records()]
                self.assertEqual([kinds.count(k) for k in (Kind.SITE, Kind.HIT, Kind.POINT)],
                                 [1, 1, 3])


class KernelText(Observed):
    """Every executed instruction that was not linked there is logged."""

    def test_as_linked_nothing_is_told(self) -> None:
        for records in self.on_both("registers", "fences", "vector vector"):
            self.assertFalse({Kind.WORD, Kind.FOREIGN} & {r.kind for r in records})

    def patched(self, *lines: str) -> list[list[Record]]:
        found = []
        for arch in ARCHES:
            with boot(arch, *lines) as machine:
                machine.console.wait_ready(30)
                for command in ("now", "enable", "now"):
                    machine.console.command(command)
                call = machine.memory(tiny.symbols(arch, "LIVE")["traced_site"], 4)
                found.append(
                    [r for r in machine.observer.records() if r.kind in (Kind.WORD, Kind.FOREIGN)])
            self.assertEqual([(r.addr, r.word) for r in found[-1]], [(tiny.symbols(
                arch, "LIVE")["traced_site"], int.from_bytes(call, "little"))])
        return found

    def test_a_word_that_may_change_is_told_as_one(self) -> None:
        for line in ("site traced_site", "word traced_site"):
            for records in self.patched(line):
                self.assertEqual([r.kind for r in records], [Kind.WORD], line)

    def test_another_that_was_overwritten_is_foreign(self) -> None:
        for records in self.patched("point traced_site"):
            self.assertEqual([r.kind for r in records], [Kind.FOREIGN])

    def test_data_that_is_executed_is_foreign(self) -> None:
        self.on_both("copy")
        for arch in ARCHES:
            symbols = tiny.symbols(arch, "LIVE")
            self.assertEqual(self.at(arch, "copied", Kind.FOREIGN).addr, symbols["_etext"])

    def test_text_that_is_loaded_later_is_as_its_file_says(self) -> None:
        """If several modules have one address, each word of each of them may be executed."""
        for arch in ARCHES:
            s, image = tiny.symbols(arch, "LIVE"), tiny.build(arch, "LIVE").read_bytes()
            at = s["traced_site"] + 4 - s["_start"]
            right, other = image[at:at + 4], bytes(4)
            for modules, foreign in (([right], False), ([other], True), ([other, right], False),
                                     ([other, other], True), ([right + other, other], False)):
                config = tiny.config(arch, "LIVE")
                for text in modules:
                    config.add("module", s["copied"], s["copied"] + len(text), len(config.image))
                    config.image += text
                with Run(tiny.machine(arch, "LIVE"), LOGS / f"{arch}.log", config) as machine:
                    machine.console.wait_ready(30)
                    machine.console.command("copy")
                    self.assertEqual(
                        s["copied"]
                        in [r.addr for r in machine.observer.records() if r.kind == Kind.FOREIGN],
                        foreign, (arch, modules))

    def test_memory_of_the_firmware_s_is_foreign_to_a_kernel(self) -> None:
        at = tiny.symbols("riscv64", "LIVE")["_etext"]
        records = seen("riscv64", "copy", f"firmware _etext {at + 4096}")
        self.assertIn(at, [r.addr for r in records if r.kind == Kind.FOREIGN])

    def test_a_place_is_watched_at_every_address_that_it_is_mapped_at(self) -> None:
        """Text at any other virtual address is foreign."""
        self.on_both("item", "point answer", "fences")
        for arch, records in self.of.items():
            symbols = tiny.symbols(arch, "LIVE")
            self.assertEqual([r.addr for r in records if r.kind == Kind.POINT],
                             2 * [symbols["answer"]])
            self.assertEqual({r.addr - 0x40000000
                              for r in records if r.kind == Kind.FOREIGN}
                             & {symbols["answer"], symbols["change"]}, {symbols["answer"]})

    def test_what_the_page_tables_are_set_to(self) -> None:
        for arch, records in zip(ARCHES, self.on_both("item", "fences")):
            table, values = tiny.symbols(
                arch, "LIVE")["table"], [r.v[0] for r in records if r.kind == Kind.SETTING]
            self.assertEqual(values[:3],
                             [8 << 60
                              | table >> 12, 0] if arch == "riscv64" else [table, 0xFF, 0x803519])
            self.assertEqual(len(values), 2 if arch == "riscv64" else 5)

    def test_a_cache_operation_with_its_address(self) -> None:
        self.on_both("enable", "fences")
        site = tiny.symbols("arm64", "LIVE")["traced_site"]
        fences = [(r.word & ~31, r.v[0]) for r in self.of["arm64"] if r.kind == Kind.FENCE]
        self.assertEqual([v for word, v in fences if word in (0xD50B7B20, 0xD50B7520)],
                         [site, site])
        self.assertEqual(len(fences), 5)
        self.assertEqual([r.word for r in self.of["riscv64"] if r.kind == Kind.FENCE], [0x0000100F])

    def test_a_load_of_text_by_code_that_is_asked_about(self) -> None:
        self.on_both("enable", "looks enable poweroff")
        for arch in ARCHES:
            self.assertEqual(self.at(arch, "call", Kind.LOOK).vcpu, 0)

    def test_what_is_stored_below_sp_and_loaded_from_there(self) -> None:
        """An instruction that stores and lowers sp, or loads and raises sp, is not logged."""
        self.on_both("registers", "tracer unmask trap")
        for arch in ARCHES:
            places = [tiny.symbols(arch, "LIVE")[name] for name in ("unmask", "unmask_loads")]
            self.assertEqual([r.addr for r in self.of[arch] if r.kind == Kind.BELOW], places)

    def test_registers_that_an_interrupt_between_two_instructions_would_find_wrong(self) -> None:
        """In some calls, and four times for each instruction at most."""
        places = ("raised", "unaligned", "deep", "reserved", "no_frame")
        self.on_both("registers", "between astray astray_end 512", "site astray_site", "pick 1")
        for arch in ARCHES:
            symbols, isa = tiny.symbols(arch, "LIVE"), ISAS[arch]
            found = [r for r in self.of[arch] if r.kind == Kind.BETWEEN]
            self.assertEqual([r.addr for r in found], 4 * [symbols[name] for name in places])
            self.assertEqual([r.v[0] - r.v[1] + (1 << 64) * (r.v[0] < r.v[1]) for r in found[:5]],
                             [16, (1 << 64) - 8, (1 << 64) - 1024, 0, 0])
            self.assertEqual([self.names(arch, r.v[2]) for r in found[:5]],
                             [set(), set(), set(), {isa.names[isa.reserved[0]]},
                              {isa.names[isa.fp]}])

    def test_a_frame_that_is_not_too_large(self) -> None:
        for records in self.on_both("registers", "between deep reserved 1024", "site astray_site"):
            self.assertNotIn(Kind.BETWEEN, [r.kind for r in records])

    def test_a_store_into_text_with_its_value(self) -> None:
        for records in self.on_both("enable"):
            [store] = [r for r in records if r.kind == Kind.STORE]
            arch = "arm64" if records is self.of["arm64"] else "riscv64"
            symbols = tiny.symbols(arch, "LIVE")
            self.assertEqual((store.v[0], store.size),
                             (symbols["traced_site"] - symbols["_start"], 4))
            call = tiny.build(arch, "LIVE").read_bytes()[symbols["call"] - symbols["_start"]:][:4]
            self.assertEqual(store.v[1] & 0xFFFFFFFF, int.from_bytes(call, "little"))


def slot(kind: int, more: int = 0, addr: int = 0) -> bytes:
    return observer.SLOT.pack(kind, more, 0, 0, 0, 0, 0, 0, addr, 0, 0, 0, 0, 0)


WORDS = observer.WORDS[1].pack(*range(8))


class Waiting(unittest.TestCase):
    """A stopped CPU waits in a busy loop if an interrupt is pending: as long as the host does
    not run the caller."""

    def test_executes_nothing_that_a_grade_records(self) -> None:
        for arch in ARCHES:
            made = f"build/{arch}/{FINISHED}/kern/trap/stop.o"
            subprocess.run(["make", "-s", f"ARCH={arch}", made], cwd=ROOT, check=True)
            text = subprocess.run([f"{ISAS[arch].cross}objdump", "-d", "--no-show-raw-insn",
                                   "--disassemble=wait_while_stopping", made],
                                  cwd=ROOT, capture_output=True, text=True, check=True).stdout
            self.assertIn("wfi", text)
            self.assertNotRegex(text, r"\t(isb|dsb|fence\.i|dc|ic)\b", arch)


class Log(unittest.TestCase):
    def addresses(self, *slots: bytes) -> list[int]:
        return [r.addr for r in decoded(b"".join(slots))]

    def test_words_follow_a_record(self) -> None:
        [r] = decoded(slot(Kind.BODY, 2) + WORDS * 2)
        self.assertEqual((r.seq, r.more), (0, (*range(8), *range(8))))

    def test_an_unfinished_record_is_left_out_with_its_words(self) -> None:
        self.assertEqual(
            self.addresses(slot(Kind.HIT, addr=1), slot(0, 1, 2), WORDS, slot(Kind.HIT, addr=3)),
            [1, 3])

    def test_an_address_is_that_of_a_finished_record(self) -> None:
        """It may also be a word of a record: of a stack, which has return addresses. A CPU of a
        busy host may be stopped between its reservation of a record and the record's end."""
        words = observer.WORDS[1].pack(1, 0, 0x30, 0, 0, 0, 0, 0)
        slots = slot(Kind.BODY, 1, 0x10) + words + slot(Kind.HIT, addr=0x3003)
        for address, found in ((0x10, True), (0x30, False), (0x3003, True), (0x9, False)):
            self.assertEqual(observer.has_one(slots, {address}), found, address)
        self.assertTrue(observer.has_one(slots, [9, 0x3003]))
        self.assertFalse(observer.has_one(b"", [1]))
        slots = slot(Kind.BODY, 1, 1) + WORDS + slot(0, 0, 2) + slot(Kind.HIT, addr=3)
        self.assertEqual([observer.has_one(slots, {n}) for n in (1, 2, 3)], [True, False, False])

    def test_a_record_that_was_cut_off_is_left_out(self) -> None:
        whole = [slot(Kind.HIT, addr=1), slot(Kind.BODY, 1, 2), WORDS]
        for cut, addresses in ((1, [1]), (64, [1]), (65, [1]), (129, [])):
            self.assertEqual(self.addresses(b"".join(whole)[:-cut]), addresses,
                             f"{cut} bytes are missing")

    def test_garbage_is_an_error_of_the_harness(self) -> None:
        for bad in (slot(len(Kind) + 1), slot(255), slot(Kind.HIT, observer.MOST + 1)):
            with self.assertRaises(Stopped) as caught:
                self.addresses(slot(Kind.HIT), bad)
            self.assertEqual(caught.exception.verdict, Verdict.HARNESS)
            self.assertIn("garbage in slot 1", caught.exception.why)

    def test_a_qemu_that_was_killed_leaves_what_it_wrote(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch):
                with boot(arch, "point traced") as machine:
                    machine.console.wait_ready(30)
                    machine.console.command("now")
                    assert machine._process and machine.observer
                    machine._process.kill()
                    machine._process.wait()
                    whole = list(machine.observer.records())
                self.assertEqual([r.kind for r in whole], [Kind.START, Kind.POINT])
                self.assertEqual(list(saved(LOGS / f"{arch}.observer/observer.log")), whole)

    def test_one_that_is_full_is_counted_on_and_read_to_its_end(self) -> None:
        """The log ends with one free slot after records of two slots: the next record does not fit.
        """
        for arch in ARCHES:
            full = boot(arch, "arguments print+4")
            assert full.config
            full.config.capacity = 64
            with self.subTest(arch=arch), full as machine:
                machine.console.wait_ready(30)
                with machine.observer.recording():
                    machine.console.command("cat")
                self.assertEqual(len(list(machine.observer.records())), 1 + 31)
                self.assertEqual(machine.observer.lost(), machine.observer.written() - 64)
                self.assertGreater(machine.observer.lost(), 0)
                machine.budget = 1 << 40
                with self.assertRaises(Stopped) as caught:
                    machine.check_limits()
                self.assertEqual(caught.exception.verdict, Verdict.TIMEOUT)


if __name__ == "__main__":
    unittest.main()
