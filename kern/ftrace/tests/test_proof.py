"""The proof, tried on small kernels in which each kind of violation is planted."""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "kern/ftrace/tools"))

import proof  # noqa: E402
from qemu.isa import ISAS  # noqa: E402

# The instructions of the fragments below, for each architecture.
WORDS = {
    "riscv64": {
        "call": "call", "tail": "tail", "indirect": "jalr t1", "ijump": "jr t1", "ret": "ret",
        "branch": "beqz a0,", "resume": "jr t0", "mcount": "call _mcount",
        "flags": ["-march=rv64ima_zicsr_zifencei",
                  "-mno-relax"], "ld": ["-m", "elf64lriscv", "--no-relax"]
    },
    "arm64": {
        "call": "bl", "tail": "b", "indirect": "blr x10", "ijump": "br x10", "ret": "ret",
        "branch": "cbz x0,", "resume": "ret x9", "mcount": "bl _mcount", "flags": [],
        "ld": ["-m", "aarch64linux"]
    },
}

RULES = "with ftrace_caller\nftrace_caller: callback\nends: panic\n"
CLEAN = {
    "ftrace_caller": "{indirect}\n{resume}",
    "callback": "{branch} 1f\n{call} helper\n1: {tail} finish",
    "helper": "{ret}",
    "finish": "{call} panic\n{ret}",
    "panic": "{call} traced\n{ret}",
    "traced": "nop\n{ret}",
}


def kernel(arch: str, functions: dict[str, str], directory: Path,
           traced: tuple[str, ...] = ("traced",)) -> str:
    """Link functions into an ELF file as the build does; the functions `traced` have a call site.
    """
    words = WORDS[arch]
    text = [".text"]
    for name, body in functions.items():
        text.append(
            f".type {name}, %function\n.globl {name}\n{name}:\n{body.format(**words)}\n.size "
            f"{name}, . - {name}"
        )
    text.append('.section .data,"aw"\n.globl ftrace_records\nftrace_records:')
    text += [f".long {name} - _text\n.long 0" for name in traced]
    text.append(
        f".section .rodata\n.globl ftrace_record_count\nftrace_record_count: .long {len(traced)}\n")
    source, obj, elf = (directory / f"k.{suffix}" for suffix in ("s", "o", "elf"))
    source.write_text(".globl _text\n.text\n_text:\n" + "\n".join(text))
    cross = ISAS[arch].cross
    subprocess.run([cross + "as", *words["flags"], "-o", obj, source], check=True)
    subprocess.run([
        cross + "ld", *words["ld"], "-Ttext=0xffffffff80000000", "-Tdata=0xffffffff80020000",
        "--section-start=.rodata=0xffffffff80010000", "-e", "_text", "-o", elf, obj
    ], check=True, stderr=subprocess.DEVNULL)
    return str(elf)


def module(arch: str, functions: dict[str, str], directory: Path, traced: tuple[str, ...]) -> Path:
    """Assemble functions as a module; each has a section of its own, except that `near` is in that
    of the one before."""
    text = []
    for name, body in functions.items():
        text.append(f'.section .text.{name},"ax"' if name != "near" else "")
        text.append(
            f".type {name}, %function\n{name}:\n{body.format(**WORDS[arch])}\n.size {name}, . - "
            f"{name}"
        )
    # GCC 12 makes one section of all of them, GCC 14 and Clang one for each section of code
    for name in traced:
        text.append(f'.section __patchable_function_entries,"awo",%progbits,{name}\n.quad {name}')
    source, obj = directory / "m.s", directory / "m.ko"
    source.write_text("\n".join(text) + "\n")
    subprocess.run([f"{ISAS[arch].cross}as", *WORDS[arch]["flags"], "-o", obj, source], check=True)
    return obj


class Proof(unittest.TestCase):
    def prove(self, arch: str, changes: dict[str, str], rules: str = RULES,
              traced: tuple[str, ...] = ("traced",)) -> int:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            elf = kernel(arch, {**CLEAN, **changes}, directory, traced)
            path = directory / "rules"
            path.write_text(rules)
            loaded = proof.load(arch, elf)
            return proof.prove(loaded, proof.read_rules(path, loaded))

    def refused(self, message: str, changes: dict[str, str], rules: str = RULES,
                traced: tuple[str, ...] = ("traced",)) -> None:
        for arch in WORDS:
            with self.subTest(arch=arch), self.assertRaisesRegex(proof.Violation, message):
                self.prove(arch, changes, rules, traced)

    def test_a_jump_by_a_register_is_indirect_whatever_an_earlier_function_left_there(self) -> None:
        """objdump guesses a target from the register's value in earlier code, even of another
        function: here the start of text."""
        changes = {
            "callback": "lui t1, 0x80000\n{call} helper\n{ret}", "helper": "{indirect}\n{ret}"
        }
        with self.assertRaisesRegex(proof.Violation, "helper"):
            self.prove("riscv64", changes)
        self.assertGreater(self.prove("riscv64", changes, RULES + "helper: finish\n"), 0)

    def test_a_sound_kernel_is_accepted_and_panic_is_not_followed(self) -> None:
        for arch in WORDS:
            with self.subTest(arch=arch):
                self.assertEqual(self.prove(arch, {}), 4)

    def test_a_call_of_a_traced_function_is_refused_with_its_path(self) -> None:
        self.refused(r"reach traced.*\n.*ftrace_caller -> callback -> helper -> traced",
                     {"helper": "{call} traced\n{ret}"})

    def test_a_tail_call_of_a_traced_function_is_refused(self) -> None:
        self.refused("finish -> traced", {"finish": "{tail} traced"})

    def test_a_conditional_tail_call_of_a_traced_function_is_refused(self) -> None:
        self.refused("callback -> traced", {"callback": "{branch} traced\n{ret}"})

    def test_a_traced_callback_is_refused(self) -> None:
        self.refused("reach callback", {}, traced=("callback",))

    def test_a_call_of_mcount_is_a_call_site(self) -> None:
        self.refused("reach helper", {"helper": "{mcount}\n{ret}", "_mcount": "{ret}"})

    def test_a_branch_inside_of_mcount_is_no_call_site(self) -> None:
        for arch in WORDS:
            with self.subTest(arch=arch):
                self.assertEqual(self.prove(arch, {"_mcount": "{branch} 1f\n{ret}\n1: {ret}"}), 5)

    def test_an_indirect_call_that_is_not_listed_is_refused(self) -> None:
        self.refused("does not list: helper", {"helper": "{indirect}\n{ret}"})

    def test_an_indirect_tail_call_that_is_not_listed_is_refused(self) -> None:
        self.refused("does not list: helper", {"helper": "{ijump}"})

    def test_a_listed_target_is_followed(self) -> None:
        self.refused("helper -> traced", {"helper": "{indirect}\n{ret}"},
                     RULES + "helper: traced\n")

    def test_a_listed_target_that_is_missing_is_refused(self) -> None:
        self.refused("has no gone", {}, RULES + "helper: gone\n")

    def test_rules_for_another_stage_do_not_apply(self) -> None:
        for arch in WORDS:
            with self.subTest(arch=arch):
                self.assertEqual(self.prove(arch, {}, RULES + "with gone\nhelper: gone\n"), 4)

    def test_a_part_that_the_compiler_split_off_has_its_functions_rules(self) -> None:
        self.refused(
            "helper.part.0 -> traced",
            {"callback": "{call} helper.part.0\n{ret}", "helper.part.0": "{indirect}\n{ret}"},
            RULES + "helper: traced\n")

    def test_a_call_that_is_patched_goes_where_the_rules_say(self) -> None:
        self.refused("ftrace_caller -> traced", {"ftrace_caller": "{call} panic\n{resume}"},
                     "ftrace_caller: traced\nends: panic\n")

    def test_another_root_is_followed_too(self) -> None:
        """A probe's breakpoint: what its exception reaches has no call site, so that no probe is
        there."""
        path = {"exception": "{indirect}\n{ret}", "handler": "{call} traced\n{ret}"}
        rules = RULES + "with handler\nroots: exception\nexception: handler\n"
        self.refused("exception -> handler -> traced", path, rules)
        for arch in WORDS:
            with self.subTest(arch=arch):
                self.assertEqual(self.prove(arch, {**path, "handler": "{ret}"}, rules), 6)

    def prove_module(self, arch: str, functions: dict[str, str], traced: tuple[str,
                                                                               ...] = ()) -> int:
        with tempfile.TemporaryDirectory() as name:
            loaded = proof.load(arch, kernel(arch, CLEAN, Path(name)))
            path = Path(name) / "rules"
            path.write_text(RULES)
            callbacks = proof.add_module(arch, module(arch, functions, Path(name), traced), loaded)
            return proof.prove(loaded, proof.read_rules(path, loaded), callbacks)

    def test_a_module_s_functions_without_a_call_site_are_followed(self) -> None:
        """Calls, tail calls and branches; inside of the module, across its sections, and into the
        kernel."""
        site = {"site": "nop\n{ret}"}
        for arch in WORDS:
            with self.subTest(arch=arch):
                self.assertEqual(
                    self.prove_module(arch,
                                      {"callback": "{call} helper\n{branch} 1f\n1: {ret}", **site},
                                      ("site",)), 5)
                self.assertEqual(
                    self.prove_module(
                        arch,
                        {"init": "nop\n{call} site\n{call} traced\n{indirect}\n{ret}", **site},
                        ("init", "site")), 4)
            for body in ("{call} site\n{ret}", "{tail} site", "{call} traced\n{ret}",
                         "{tail} traced", "{call} near\n{ret}", "{tail} near"):
                functions = {"callback": body, "near": "nop\n{ret}", **site}
                with self.subTest(arch=arch, body=body), self.assertRaisesRegex(
                        proof.Violation, "can reach (traced|m/site|m/near), .*\n  m/callback -> "):
                    self.prove_module(arch, functions, ("near", "site"))
            with self.subTest(arch=arch), self.assertRaisesRegex(proof.Violation,
                                                                 "does not list: m/callback"):
                self.prove_module(arch, {"callback": "{indirect}\n{ret}"})

    def test_a_kernel_without_a_tracer_is_refused(self) -> None:
        for arch in WORDS:
            with self.subTest(arch=arch), self.assertRaisesRegex(proof.Violation,
                                                                 "the kernel has no trampoline"):
                with tempfile.TemporaryDirectory() as name:
                    elf = kernel(arch, {"traced": "nop\n{ret}"}, Path(name))
                    proof.prove(proof.load(arch, elf), proof.Rules())


# The definition of a callback (ftrace_func_t), or of a handler of function_graph, and its name.
CALLBACK = re.compile(
    r"^(?:[\w ]+[ *\n])?(\w+)\((?:"
    r"unsigned long \w+, unsigned long \w+,\s+struct ftrace_ops \*\w+,\s+struct ftrace_regs "
    r"\*\w+|struct ftrace_graph_(?:ent|ret) \*\w+,\s+struct fgraph_ops \*\w+(?:,\s+struct "
    r"ftrace_regs \*\w+)?)\)\s*\{", re.M)


class CallbacksOfTheTracer(unittest.TestCase):
    def test_each_is_in_the_rules(self) -> None:
        """The proof follows a callback only if the rules name it: without them nothing would show
        that it calls no traced function."""
        sources = [path for path in (ROOT / "kern/ftrace").rglob("*.c")
                   if "tests" not in path.relative_to(ROOT).parts]
        callbacks = {name: path.relative_to(ROOT) for path in sources
                     for name in CALLBACK.findall(path.read_text())}
        for name in ("function_trace_call", "trace_graph_entry", "trace_graph_gone"):
            self.assertIn(name, callbacks, "this test finds nothing")
        rules = (ROOT / "kern/ftrace/tools/indirect-calls").read_text()
        targets = set(re.findall(r"\w+", " ".join(re.findall(r"^\w+:(.*)", rules, re.M))))
        self.assertEqual([f"{path}: {name}" for name, path in callbacks.items()
                          if name not in targets], [],
                         "callbacks that kern/ftrace/tools/indirect-calls does not list")


if __name__ == "__main__":
    unittest.main()
