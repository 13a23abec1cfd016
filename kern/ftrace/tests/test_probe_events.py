"""Trace events by probes, typed at the console of a booted kernel: kprobe_events, dynamic_events,
error_log, and each event's files."""
import re
import unittest

from kern.ftrace.tests.one_boot import OneBoot

COMMON = ("\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
          "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
          "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
          "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n")

# What kprobe_syntax_errors.tc and fprobe_syntax_errors.tc of Linux's ftracetest expect: ^ is not
# written, the log's mark is under what follows it.
LONG = "1234567890" * 6 + "12345"
AVAILABLE = ("# Available triggers:\n"
             "# traceon traceoff snapshot stacktrace enable_event disable_event\n")
ERRORS_OF_ALL = (  # p and f
    ("p ^non_exist_func", "Invalid probed address or symbol"),
    ("p ^hoge-fuga", "Invalid probed address or symbol"),
    ("p ^hoge+1000-1000", "Invalid probed address or symbol"),
    ("p file_read^%hoge", "Invalid probed address suffix"),
    ("p:^/bar file_read", "Group name is not specified"),
    (f"p:^{LONG}/bar file_read", "Group name is too long"),
    ("p:^foo.1/bar file_read", "Group name must follow the same rules as C identifiers"),
    ("p:^ file_read", "Event name is not specified"),
    (f"p:foo/^{LONG} file_read", "Event name is too long"),
    ("p:foo/^bar.1 file_read", "Event name must follow the same rules as C identifiers"),
    ("p file_read ^$stack10000", "Invalid stack number"),
    ("p file_read ^$arg10000", "Invalid argument number"),
    ("p file_read ^$none_var", "Invalid $-valiable specified"),
    ("p file_read ^@12345678abcde", "Invalid memory address"),
    ("p file_read ^@+10", "File offset is not available with kprobe"),
    ("p file_read arg1=\\^x", "Invalid immediate value"),
    ('p file_read arg1=\\"abcd^', "String is not closed with '\"'"),
    ("p file_read ^+0@0)", "Dereference needs a brace"),
    ("p file_read ^+0ab1(@0)", "Invalid dereference offset"),
    ("p file_read +0(+0(@0^)", "Dereference brace is not closed"),
    ("p file_read +0(^$comm)", "$comm can not be dereferenced"),
    ("p file_read ^&1", "Invalid fetch argument"),
    ("p file_read +0(^" + "+0(" * 13 + "@0" + ")" * 14, "Dereference is too much nested"),
    ("p file_read +0(@11):u8[10^", "Array is not closed"),
    ("p file_read +0(@11):u8[10]^a", "Array has wrong suffix"),
    ("p file_read +0(@11):u8[^10a]", "Invalid array size"),
    ("p file_read +0(@11):u8[^256]", "Array number is too big"),
    ("p file_read @11:^unknown_type", "Unknown type is specified"),
    ("p file_read $stack0:^string", "String accepts only memory argument"),
    ("p file_read @11:^b10@a/16", "Invalid bitfield"),
    ("p file_read ^arg123456789012345678901234567890=@11", "Argument name is too long"),
    ("p file_read ^=@11", "Argument name is not specified"),
    ("p file_read ^var.1=@11", "Argument name must follow the same rules as C identifiers"),
    ("p file_read var1=@11 ^var1=@12", "This argument name is already used"),
    ("p file_read ^" + "+1234567(" * 6 + "@1234" + ")" * 6, "Argument expression is too long"),
    ("p file_read arg1=^", "No argument expression"),
    ("p file_read args=^$arg*", "$arg* must be an independent parameter without name etc."),
    ("p file_read +0(^$arg*)", "$arg* must be an independent parameter without name etc."),
    ("p file_read $arg* ^$arg*", "$arg* can be used only once in the parameters"),
    ("p file_read ^hoge", "This variable is not found at this probe point"),
    ("p kfree ^$arg10", "This variable is not found at this probe point"),
    ("p file_open ^path:string", "This type does not fit for string."),
)
ERRORS_OF_EACH = (
    ("p^100 file_read", "Maxactive is only for function exit"),
    ("p:up ^/bin/bash:0x4245c0", "A file has no probes here: there are no uprobes"),
    ("r^1a111 file_read", "Invalid maxactive number"),
    ("r^100000 file_read", "Maxactive is too big"),
    ("r ^file_read+10", "Retprobe address must be an function entry"),
    ("p ^file_read+10%return", "Retprobe address must be an function entry"),
    ("p file_read ^$retval", "$retval is not available on probe"),
    ("p file_read ^%none_reg", "Invalid register name"),
    ("p file_read+20 ^$arg*", "$arg* can be used only on function entry or exit"),
    ("r kfree ^$retval", "This function returns 'void' type"),
    ("f^100 file_read", "Maxactive is only for function exit"),
    ("f^1a111 file_read", "Invalid maxactive number"),
    ("f^100000 file_read", "Maxactive is too big"),
    ("f ^file_read+10", "Invalid probed address or symbol"),
    ("f file_read ^%sp", "Invalid $-valiable specified"),
    ("f kfree%return ^$retval", "This function returns 'void' type"),
)


class OnAMachine(OneBoot):
    """One boot for each class."""

    name = "probe-events"

    def setUp(self) -> None:
        self.sh("rmmod ramfs")
        for name in self.sh("ls instances").split():
            self.assertEqual(self.sh(f"rmdir instances/{name}"), "")
        for line in ("echo 0 > events/enable", "echo 1 > tracing_on", "echo > dynamic_events",
                     "echo > trace", "echo > error_log"):
            self.assertEqual(self.sh(line), "", line)
        self.assertEqual(self.sh("cat dynamic_events error_log enabled_functions"), "")

    def define(self, *lines: str, file: str = "dynamic_events") -> None:
        for line in lines:
            self.assertEqual(self.sh(f"echo '{line}' >> {file}"), "", line)

    def refused(self, line: str, errno: str, file: str = "dynamic_events",
                operator: str = ">>") -> None:
        self.assertRegex(self.sh(f"echo '{line}' {operator} {file}"), rf"\({errno}\)$", line)

    def logged(self, line: str, mark: int, why: str, subsystem: str = r"trace_[kf]probe") -> None:
        """error_log has this error and no other."""
        self.assertRegex(
            self.sh("cat error_log"), rf"^\[ *\d+\.\d{{6}}\] {subsystem}: error: {re.escape(why)}\n"
            rf"  Command: {re.escape(line)}\n {{{11 + mark}}}\^\n$")
        self.assertEqual(self.sh("echo > error_log"), "")

    def events(self, command: str, *groups: str) -> list[str]:
        """What the events of the groups printed while the command ran, without the columns before
        the event's name."""
        for group in groups or ("kprobes",):
            self.assertEqual(self.sh(f"echo 1 > events/{group}/enable"), "")
        self.sh(command)
        for group in groups or ("kprobes",):
            self.assertEqual(self.sh(f"echo 0 > events/{group}/enable"), "")
        return [
            line[0] for line in re.findall(r"^ +\S+-\d+ +\[\d+\] [^:]+: ((\w+): .*)$",
                                           self.sh("cat trace"), re.M)
        ]

    def named(self, name: str, lines: list[str]) -> list[str]:
        found = [line for line in lines if line.startswith(name + ": ")]
        self.assertNotEqual(found, [], f"no event {name} among {lines[:20]}")
        return found


class OnProbeEvents(OnAMachine):
    # ---- Each kind of probe ----

    def test_a_probe_at_an_entry(self) -> None:
        self.define("p file_open path=+0($arg2):string flags $arg4", file="kprobe_events")
        self.assertEqual(
            self.sh("cat kprobe_events"),
            "p:kprobes/p_file_open_0 file_open path=+0($arg2):string flags=flags file=file\n")
        lines = self.named("p_file_open_0", self.events("cat /etc/nosuch"))
        self.assertRegex(
            "\n".join(lines),
            r'p_file_open_0: \(file_open\+0x0/0x[0-9a-f]+\) path="/etc/nosuch" flags=0 '
            r'file=0x[0-9a-f]+'
        )

    def test_a_probe_in_a_body_and_at_a_return(self) -> None:
        self.define("p:body file_open+16 $stack",
                    "r:ret file_open path=+0(path):string $retval:s32",
                    "p:suffix file_open%return $retval:x32")
        self.assertRegex(
            self.sh("cat kprobe_events"),
            r"p:kprobes/body file_open\+16 arg1=\$stack\nr\d+:kprobes/ret file_open "
            r"path=\+0\(path\):string arg2=\$retval:s32\nr\d+:kprobes/suffix file_open "
            r"arg1=\$retval:x32\n"
        )
        lines = self.events("cat /etc/nosuch")
        self.assertRegex(
            self.named("body", lines)[0],
            r"^body: \(file_open\+0x10/0x[0-9a-f]+\) arg1=0x[0-9a-f]{16}$")
        self.assertRegex("\n".join(self.named("ret", lines)),
                         r'ret: \(\w+\+0x\w+/0x\w+ <- file_open\) path="/etc/nosuch" arg2=-2')
        self.assertIn("<- file_open) arg1=0xfffffffe", "\n".join(self.named("suffix", lines)))

    def test_fprobes(self) -> None:
        self.define("f file_open", "f:mine/out file_open%return path=+0($arg2):string $retval:s32")
        self.assertEqual(self.sh("cat kprobe_events"), "")
        self.assertEqual(self.sh("cat dynamic_events"), "f:fprobes/file_open__entry file_open\n"
                         "f:mine/out file_open%return path=+0($arg2):string arg2=$retval:s32\n")
        lines = self.events("cat /etc/nosuch", "fprobes", "mine")
        self.assertRegex(
            self.named("file_open__entry", lines)[0],
            r"^file_open__entry: \(file_open\+0x0/0x[0-9a-f]+\)$")
        self.assertRegex("\n".join(self.named("out", lines)),
                         r'out: \(\w+\+0x\w+/0x\w+ <- file_open\) path="/etc/nosuch" arg2=-2')

    def test_with_the_function_tracer(self) -> None:
        """As kprobe_ftrace.tc."""
        self.define("p:both file_open")
        self.addCleanup(lambda:
                        (self.sh("echo nop > current_tracer"), self.sh("echo > set_ftrace_filter")))
        self.assertEqual(self.sh("echo file_open > set_ftrace_filter"), "")
        for probe, tracer in ((1, "nop"), (1, "function"), (0, "function"), (1, "function"),
                              (1, "nop")):
            for line in (f"echo {probe} > events/kprobes/both/enable",
                         f"echo {tracer} > current_tracer", "echo > trace"):
                self.assertEqual(self.sh(line), "", line)
            self.sh("cat /etc/nosuch")
            text = self.sh("cat trace")
            self.assertEqual(("both:" in text, "file_open <-" in text),
                             (probe == 1, tracer == "function"), text)

    def test_every_instruction_and_every_function(self) -> None:
        """As kprobe_insn_boundary.tc and multiple_kprobes.tc: on every word of a function, and on
        256 functions (four CPUs: 64)."""
        def make(places: list[str], most: int) -> int:
            made = 0
            while places and made < most:
                made += self.sh(f"echo p {places.pop(0)} >> kprobe_events") == ""
            return made

        self.assertGreater(make([f"file_open+{offset}" for offset in range(256)], 64), 50)
        names = self.sh("cat available_filter_functions").split()
        self.assertEqual(
            make([name for name in names if "." not in name and name != "file_open"],
                 256 // self.cpus), 256 // self.cpus)
        for line in ("echo 1 > events/kprobes/enable", "cat tracing_on",
                     "echo 0 > events/kprobes/enable"):
            self.assertNotIn("(E", self.sh(line), line)
        hits = re.findall(r"^  p_file_open_\d+ +(\d+) ", self.sh("cat kprobe_profile"), re.M)
        self.assertGreater(len([number for number in hits if number != "0"]), 10, hits)

    def test_the_entry_s_argument_at_the_return(self) -> None:
        """As kretprobe_entry_arg.tc and fprobe_entry_arg.tc."""
        self.define("p:mine/a file_open arg=$arg2", "r:mine/b file_open arg=$arg2",
                    "f:mine/c file_open arg=$arg2", "f:mine/d file_open%return arg=$arg2")
        lines = self.events("cat /etc/nosuch", "mine")
        self.assertEqual(len({self.named(name, lines)[0].split("arg=")[1]
                              for name in "abcd"}), 1, lines)

    # ---- What is fetched ----

    def test_every_type(self) -> None:
        types = [f"{kind}{bits}" for kind in "usx" for bits in (8, 16, 32, 64)]
        self.define("p:t file_open " + " ".join(f"{t}=\\0xfffffffffffffff5:{t}"
                                                for t in types) + " c=\\65:char")
        line = self.named("t", self.events("cat /etc/nosuch"))[0]
        for kind, shown in (("u", lambda bits: 2**bits - 11), ("s", lambda bits: -11),
                            ("x", lambda bits: hex(2**bits - 11))):
            for bits in (8, 16, 32, 64):
                self.assertIn(f" {kind}{bits}={shown(bits)} ", line)
        self.assertTrue(line.endswith(" c='A'"), line)

    def test_what_linux_s_tests_fetch_and_what_they_must_not(self) -> None:
        """As kprobe_args_syntax.tc."""
        reg = "%a0" if self.arch == "riscv64" else "%x0"
        for fetch in (reg, "@file_open", "@file_open+10", "@file_open-10", "$stack", "$stack0",
                      "$stack1", "$comm", f"+0({reg})", f"-0({reg})", "+10($stack)", "+0($stack1)",
                      "+10(@file_open-10)", "+0(+10(+20($stack)))", f"varname={reg}", f"{reg}:x16",
                      "$comm:string", "+0($stack):string"):
            self.define(f"p file_read {fetch}", "-:p_file_read_0")
        for fetch in ("%ax", "@", "@nosuch", "@file_open*10", "@file_open/10", "@file_open%10",
                      "@file_open&10", "@file_open|10", "$stackp", "$stack0+10", "$stack1-10",
                      f"+({reg})", f"({reg}+10)", f"-({reg})", f"({reg})", "+10($comm)",
                      f"+0({reg})+10", f"varname=varname2={reg}", f"{reg}::x16", f"{reg}:y16",
                      f"x16:{reg}", "$comm:x64", "$stack:string", f"{reg}:string"):
            self.refused(f"p file_read {fetch}", "E(INVAL|NOENT)")

    def test_an_argument_by_number_has_its_parameter_s_name(self) -> None:
        self.define("p:a file_open $arg2 $arg3:u8 n=$arg2", "f:b file_open $arg1",
                    "r:c file_open $arg*", "p:d name_of.constprop.0 $arg1")
        self.assertEqual(
            re.sub("^r[0-9]+", "r", self.sh("cat dynamic_events"), flags=re.M),
            "p:kprobes/a file_open path=path flags=flags:u8 n=$arg2\nf:fprobes/b file_open "
            "cwd=cwd\n"
            "r:kprobes/c file_open cwd=cwd path=path flags=flags file=file\np:kprobes/d "
            "name_of.constprop.0 path=path\n"
        )

    def test_memory_arrays_symbols_and_faults(self) -> None:
        self.define(
            'p:m file_open a=+0(path):char[4] b=+1(path):u8 bad=+0(\\0x10):string '
            'deep=+0(+8(\\0x10)):u32 '
            'n=+0(\\16):x64[2] imm=\\"text" me=$comm bits=\\0xabcd:b4@4/16 s=@file_open:x32 '
            'zero=\\0:symbol'
        )
        line = "\n".join(self.named("m", self.events("cat /etc/nosuch")))
        self.assertRegex(line, r"a=\{'/','e','t','c'\} b=101 bad=\(fault\) deep=0 n=\{0x0,0x0\} "
                         r'imm="text" me="\w+" bits=12 s=0x[0-9a-f]+ zero=0x0')

    def test_addresses_and_registers(self) -> None:
        address = next(line.split()[0]
                       for line in self.sh("cat available_filter_functions_addrs").splitlines()
                       if line.endswith(" file_open"))
        stack, link = ("%sp", "%ra") if self.arch == "riscv64" else ("%sp", "%lr")
        self.define(
            f"p:r 0x{address} a={stack} b=$stack c={link}:symbol d=$stack0 f=\\0x{address}:symbol")
        line = self.named("r", self.events("cat /etc/nosuch"))[0]
        self.assertRegex(line, r"a=(0x\w+) b=\1 c=\w+\+0x\w+/0x\w+ d=0x[0-9a-f]+ f=file_open\+0x")

    def test_registers_that_are_not_saved_are_refused(self) -> None:
        """At an entry, however it is written; at a return; and in a module, when it is loaded."""
        none, results, argument = ("%s3", ("%a0", "%a1"),
                                   "%a2") if self.arch == "riscv64" else ("%x19", ("%x0", "%x7"),
                                                                          "%x8")
        self.define(f"p file_open {argument}", f"p file_open+8 {none}", "p:mine/e file_open",
                    "-:mine/e", *(f"r file_open {result}" for result in results), "r file_open %sp")
        first, second = self.neighbours()
        for line in (f"p file_open {none}", f"r file_open {none}", f"r file_open {argument}"):
            self.refused(line, "EINVAL")
            self.logged(line,
                        len(line) - len(none if none in line else argument),
                        "Invalid register name")
        for place in (f"0x{first:x}", f"0x{second:x}", f"file_open+{second - first}",
                      *(["file_open+4"] if self.arch == "arm64" else [])):
            self.refused(f"p {place} x={none}", "EINVAL")
            self.logged(f"p {place} x={none}", 2, "Failed to register probe event")
            self.define(f"p:mine/fine {place} x={argument}", "-:mine/fine")
        self.assertEqual(self.sh("echo > dynamic_events"), "")
        self.define(f"p:late ramfs:ram_read+0 x={argument}", f"p:body ramfs:ram_read+8 x={none}")
        if self.arch == "arm64":
            self.define(f"p:never ramfs:ram_read+4 x={none}")
        said = self.sh("insmod ramfs")
        self.assertEqual(
            re.findall(r"kprobes/\w+ cannot be set in module ramfs", said),
            ["kprobes/never cannot be set in module ramfs"] if self.arch == "arm64" else [])

    def neighbours(self) -> tuple[int, int]:
        """The addresses of file_open's call site and of that of the next function which has one."""
        sites = sorted((int(line.split()[0], 16), line.split()[1])
                       for line in self.sh("cat available_filter_functions_addrs").splitlines())
        at = next(i for i, (_, name) in enumerate(sites) if name == "file_open")
        return sites[at][0], sites[at + 1][0]

    def test_the_format_file(self) -> None:
        self.define('p:one file_open u=path:u8 s=+0(path):string a=+0(path):u16[2]',
                    "r:two file_open $retval:s32")
        number = self.sh("cat events/kprobes/one/id").strip()
        self.assertEqual(
            self.sh("cat events/kprobes/one/format"), f"name: one\nID: {number}\nformat:\n{COMMON}"
            "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n"
            "\tfield:u8 u;\toffset:16;\tsize:1;\tsigned:0;\n"
            "\tfield:__data_loc char[] s;\toffset:17;\tsize:4;\tsigned:1;\n"
            "\tfield:u16 a[2];\toffset:21;\tsize:4;\tsigned:0;\n\n"
            'print fmt: "(%lx) u=%u s=\\"%s\\" a={%u,%u}", REC->__probe_ip, REC->u, __get_str(s), '
            'REC->a[0], REC->a[1]\n'
        )
        self.assertIn(
            "\tfield:unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;\n"
            "\tfield:unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;\n"
            "\tfield:s32 arg1;\toffset:24;\tsize:4;\tsigned:1;\n\n"
            'print fmt: "(%lx <- %lx) arg1=%d", REC->__probe_func, REC->__probe_ret_ip, '
            "REC->arg1\n",
            self.sh("cat events/kprobes/two/format"))

    def test_the_flags_are_those_of_the_probed_code(self) -> None:
        self.define("p:plain handle_timer", "p:args handle_timer $stack", "p:thread file_open",
                    "p:body file_open+16", "r:ret file_open")
        for name in ("plain", "args", "thread", "body", "ret"):
            self.assertEqual(self.sh(f"echo 1 > events/kprobes/{name}/enable"), "")
        self.sh("sleep 1")
        self.sh("cat /etc/nosuch")
        self.sh("echo 0 > events/kprobes/enable")
        flags = {
            name: seen
            for seen, name in re.findall(r" \[\d+\] (\S{5}) +[\d.]+: (\w+): ", self.sh("cat trace"))
        }
        for name in ("plain", "args"):
            self.assertRegex(flags[name], r"^d.h..$", name)
        for name in ("thread", "body", "ret"):
            self.assertRegex(flags[name], r"^\....\.$", name)

    # ---- The list ----

    def test_removal_and_busy(self) -> None:
        self.define("p:mine/a file_open", "p:mine/b file_read x=$arg1", "p:c file_open")
        self.assertEqual(self.sh("echo 1 > events/mine/b/enable"), "")
        self.assertEqual(
            self.sh("cat events/mine/enable events/mine/a/enable events/mine/b/enable"),
            "X\n0\n1\n")
        self.refused("-:mine/b", "EBUSY")
        self.refused("", "EBUSY", operator=">")
        self.refused("-:mine/nosuch", "ENOENT")
        self.refused("-:", "EINVAL")
        self.refused("-", "EINVAL")
        self.define("-:a", "-:c file_open")
        self.assertEqual(self.sh("cat dynamic_events"), "p:mine/b file_read x=$arg1\n")
        self.sh("echo 0 > events/mine/enable")
        self.define("-:mine/ file_read x=$arg1")
        self.assertEqual(self.sh("cat dynamic_events"), "")
        self.assertNotIn("mine", self.sh("ls events"))

    def test_one_of_several_probes(self) -> None:
        """As kprobe_multiprobe.tc and generic_clear_event.tc; and emptying kprobe_events leaves
        fprobes."""
        self.define("p:mine/two file_open", "p:mine/two file_read", "f file_open",
                    "-:mine/two file_open")
        self.assertEqual(self.sh("cat dynamic_events"),
                         "p:mine/two file_read\nf:fprobes/file_open__entry file_open\n")
        self.refused("p:mine/two file_open $stack", "EEXIST")
        self.define("p:mine/two file_open", "r:ret file_open", "-:mine/two", "!r:ret file_open",
                    "p file_read")
        self.assertEqual(self.sh("echo > kprobe_events"), "")
        self.assertEqual(self.sh("cat dynamic_events"), "f:fprobes/file_open__entry file_open\n")

    def test_128_arguments(self) -> None:
        """As dynevent_limitations.tc."""
        for kind in "pf":
            most = f"{kind} file_read" + "".join(f" \\{number}" for number in range(128))
            self.define(most)
            self.refused(most + " \\128", "E2BIG")

    def test_all_events_at_once(self) -> None:
        self.assertEqual(self.sh("cat events/enable"), "0\n")
        self.define("p:mine/a file_open", "f file_open")
        for number in "10":
            self.assertEqual(self.sh(f"echo {number} > events/enable"), "")
            self.assertEqual(
                self.sh("cat events/enable events/mine/a/enable events/fprobes/enable"),
                3 * f"{number}\n")
        self.assertEqual(self.sh("echo 1 > events/mine/enable"), "")
        self.assertEqual(self.sh("cat events/enable"), "X\n")

    def test_a_name_twice(self) -> None:
        self.define("p:two file_open n=$arg1", "p:two file_read n=$arg2")
        for line, mark, why in (("p:two file_open n=$arg1", 0,
                                 "There is already the exact same probe event"),
                                ("p:two file_write m=$arg1", 17,
                                 "Argument type or name is different from existing probe"),
                                ("p:two file_write n=$arg1:u8", 17,
                                 "Argument type or name is different from existing probe"),
                                ("p:two file_write", 17,
                                 "Argument type or name is different from existing probe"),
                                ("r:two file_write n=$arg1", 0,
                                 "Probe type is different from existing probe"),
                                ("f:kprobes/two file_write n=$arg1", 0,
                                 "Given group/event name is already used by another event"),
                                ("p:ftrace/function file_write", 0,
                                 "Given group/event name is already used by another event")):
            self.refused(line, "EEXIST")
            self.logged(line, mark, why)
        lines = self.named("two", self.events("cat /etc/motd"))
        self.assertTrue(
            {"file_open", "file_read"} <= {line.split("(")[1].split("+")[0]
                                           for line in lines} | {"file_read"}, lines)

    def test_errors_have_a_mark_and_eight_are_kept(self) -> None:
        for marked, why in (*ERRORS_OF_ALL, *(("f" + line[1:], why)
                                              for line, why in ERRORS_OF_ALL), *ERRORS_OF_EACH):
            mark, line = marked.index("^"), marked.replace("^", "")
            self.refused(line, "E(INVAL|NOENT)")
            self.logged(line, mark, why, "trace_fprobe" if line[0] == "f" else "trace_kprobe")
        for number in range(9):
            self.refused(f"p nosuch{number}", "EINVAL")
        names = re.findall(r"Command: p nosuch(\d)\n {13}\^", self.sh("cat error_log"))
        self.assertEqual(names, [str(number) for number in range(1, 9)])
        self.assertEqual(self.sh("echo > error_log"), "")
        self.assertEqual(self.sh("cat error_log"), "")
        for line in ("x file_open", "p", "f file_open", " f file_open", "\tf:x file_open"):
            self.refused(line, "EINVAL", file="kprobe_events")
        self.assertEqual(self.sh("cat error_log dynamic_events"), "")

    def test_kinds_that_are_not_here(self) -> None:
        self.refused("t:one nosuch", "EINVAL")
        self.logged("t:one nosuch", 6, "Tracepoint is not found", "trace_fprobe")
        self.refused("e:one sched/nosuch pid=$pid", "ENODEV")
        self.logged("e:one sched/nosuch pid=$pid", 6, "Attached event does not exist",
                    "event_probe")
        self.refused("s:x u64 y", "EINVAL")
        self.logged("s:x u64 y", 0, "There are no synthetic events", "synthetic_events")
        for line in ("t:one nosuch", "e:one sched/nosuch", "s:x u64 y", "f file_open"):
            self.refused(line, "EINVAL", file="kprobe_events")
        for line in ("total x", "x file_open"):
            self.refused(line, "EINVAL")
        self.assertEqual(self.sh("cat error_log dynamic_events"), "")

    def test_places_that_cannot_be_probed(self) -> None:
        for line in ("p 0x10", "p file_open+2", "p function_trace_call", "p file_open+0x100000"):
            self.refused(line, "EINVAL")
        self.assertEqual(
            self.sh("cat error_log").count("trace_kprobe: error: Failed to register probe event\n"),
            4)
        self.refused("f function_trace_call", "ENOENT")
        self.refused("p begin", "EINVAL")
        self.assertIn("error: The symbol is not unique\n", self.sh("cat error_log"))
        self.assertEqual(self.sh("cat dynamic_events"), "")

    def test_the_profile_counts_hits(self) -> None:
        self.define("p:hits file_open", "r:returns file_open")
        self.events("cat /etc/nosuch")
        rows = dict(re.findall(r"^  (\w+) {37,42} +(\d+) +0$", self.sh("cat kprobe_profile"), re.M))
        self.assertGreater(int(rows["hits"]), 1)
        self.assertLessEqual(abs(int(rows["hits"]) - int(rows["returns"])), 2)
        self.assertRegex(self.sh("cat kprobe_profile"), r"^  hits {40} {14}[ \d]\d {15}0\n")

    # ---- filter, trigger ----

    def test_filters(self) -> None:
        self.define("p:f file_open path=+0(path):string n=\\-3:s8 u=\\200:u8")
        self.assertEqual(self.sh("cat events/kprobes/f/filter"), "none\n")
        for text, kept in (('path == "/etc/nosuch"', True), ('path ~ "*such"',
                                                             True), ('path ~ "/tmp*"', False),
                           ("n < 0 && u > 100", True), ("n == -3 && (u == 1 || u & 8)", True),
                           ("!(n == -3)", False), ("u <= 199 || n >= -2", False),
                           ('path != "/etc/nosuch" && n == -3 && path ~ "/etc/*"',
                            False), ("common_pid == 99999 || comm ~ \"?*\"", True)):
            self.assertEqual(self.sh(f"echo '{text}' > events/kprobes/f/filter"), "", text)
            self.assertEqual(self.sh("cat events/kprobes/f/filter"), text + "\n")
            self.sh("echo > trace")
            self.assertEqual(any("/etc/nosuch" in line for line in self.events("cat /etc/nosuch")),
                             kept, text)
        for text, column, why in (("nosuch == 1", 0, "Field not found"),
                                  ("n + 1", 2, "Invalid operator"), ("n == x", 5,
                                                                     "Illegal integer value"),
                                  ("(n == 1", 0, "Too many '('"), ("n == 1)", 6, "Too few '('"),
                                  ('path == "x', 8, "Missing matching quote"),
                                  ("path < x", 5, "Illegal operation for field type"),
                                  ('n == "x"', 5,
                                   "Expecting numeric field"), ("n == 1 &&", 9,
                                                                "Meaningless filter expression")):
            self.refused(text, "EINVAL", file="events/kprobes/f/filter", operator=">")
            self.logged(text, column, why, "event filter parse error")
        self.assertEqual(self.sh("echo 0 > events/kprobes/f/filter"), "")
        self.assertEqual(self.sh("cat events/kprobes/f/filter"), "none\n")

    def test_triggers(self) -> None:
        self.define("p:g file_open path=+0(path):string")
        trigger = "events/kprobes/g/trigger"
        self.assertEqual(self.sh(f"cat {trigger}"), AVAILABLE)
        for text in ("snapshots", "traceoff:x", "traceoff:1 if u", "traceoff if",
                     "traceoff unless path == x"):
            self.refused(text, "EINVAL", file=trigger, operator=">")
        self.assertEqual(self.sh(f"cat {trigger}"), AVAILABLE)
        self.define("traceoff:2", file=trigger)
        self.refused("traceoff", "EEXIST", file=trigger)
        self.assertEqual(self.sh(f"cat {trigger} tracing_on"), "traceoff:count=1\n0\n")
        self.refused("-:g", "EBUSY")
        self.define("traceon", "!traceoff", file=trigger)
        self.assertEqual(self.sh(f"cat {trigger} tracing_on"), "traceon:unlimited\n1\n")
        self.define("!traceon", file=trigger)
        self.refused("!traceon", "ENOENT", file=trigger)

    def test_a_trigger_with_a_filter(self) -> None:
        """As on Linux the event that matches is the last one that is recorded."""
        self.define("p:g file_open path=+0(path):string")
        trigger = "events/kprobes/g/trigger"
        self.define('traceoff:3 if path == "/etc/nosuch"', file=trigger)
        self.assertEqual(self.sh(f"cat {trigger} tracing_on"),
                         'traceoff:count=3 if path == "/etc/nosuch"\n1\n')
        lines = self.events("cat /etc/other /etc/nosuch /etc/third")
        self.assertRegex("\n".join(lines), r'path="/etc/other"\n(?s:.*)path="/etc/nosuch"$')
        self.assertEqual(self.sh(f"cat {trigger} tracing_on"),
                         'traceoff:count=2 if path == "/etc/nosuch"\n0\n')
        self.define("!traceoff", file=trigger)
        self.assertEqual(self.sh(f"cat {trigger}"), AVAILABLE)

    def test_set_event(self) -> None:
        self.define("p:one/a file_open", "p:one/b file_open", "f:two/a file_open")
        for words, enabled in (("one:a two:a", "one:a two:a"), ("one", "one:a one:b"),
                               ("a", "one:a two:a"), ("*:a", "one:a two:a"), ("two:", "two:a"),
                               ("one:* *:a !one:b", "one:a two:a")):
            self.assertEqual(self.sh(f"echo '{words}' > set_event"), "", words)
            self.assertEqual(self.sh("cat set_event").split(), enabled.split(), words)
        self.define("one:b", file="set_event")
        self.assertEqual(self.sh("cat set_event events/one/b/enable events/enable"),
                         "one:a\none:b\ntwo:a\n1\nX\n")
        self.refused("nosuch", "EINVAL", file="set_event")
        self.refused("one:nosuch", "EINVAL", file="set_event")
        self.assertEqual(self.sh("echo > set_event") + self.sh("cat set_event"), "")

    # ---- Instances ----

    THERE = ("", "instances/a/", "instances/b/")

    def everywhere(self, read: str) -> list[str]:
        return [self.sh(f"cat {there}{read}") for there in self.THERE]

    def recorded(self, pattern: str, command: str) -> list[set[str]]:
        """What the pattern finds in the trace of the top directory, of a and of b after the
        command."""
        for there in self.THERE:
            self.assertEqual(self.sh(f"echo > {there}trace"), "")
        self.sh(command)
        return [set(re.findall(pattern, text)) for text in self.everywhere("trace")]

    def two_instances(self) -> None:
        """An event that is older than the instances, and one that is younger."""
        self.define("p:mine/old file_open path=+0(path):string")
        self.assertEqual(self.sh("mkdir instances/a") + self.sh("mkdir instances/b"), "")
        self.define("f:mine/new file_open%return $retval:s32")

    def test_each_instance_enables_for_itself(self) -> None:
        self.two_instances()
        for name in ("old", "new"):
            self.assertEqual(
                len(set(self.sh(f"ls {there}events/mine/{name}") for there in self.THERE)), 1)
            self.assertEqual(len(set(self.everywhere(f"events/mine/{name}/format"))), 1)
        self.assertEqual(self.everywhere("events/enable"), ["0\n"] * 3)
        self.define("1", file="events/mine/new/enable")
        self.define("mine:old", file="instances/a/set_event")
        self.define("1", file="instances/b/events/mine/enable")
        self.assertEqual(self.everywhere("set_event"),
                         ["mine:new\n", "mine:old\n", "mine:old\nmine:new\n"])
        self.assertEqual(self.everywhere("events/mine/enable"), ["X\n", "X\n", "1\n"])
        self.assertEqual(self.recorded(r": (\w+): \(", "cat /etc/nosuch"),
                         [{"new"}, {"old"}, {"old", "new"}])
        self.define("0", file="events/mine/new/enable")
        self.define("!mine:old", file="instances/a/set_event")
        self.assertEqual(self.recorded(r": (\w+): \(", "cat /etc/nosuch"),
                         [set(), set(), {"old", "new"}])

    def test_an_event_without_arguments_in_several_instances(self) -> None:
        """The top directory alone has a shorter path for it."""
        self.two_instances()
        self.define("p:mine/plain file_open")
        for there, on in (("", 1), ("instances/a/", 1), ("", 0), ("instances/b/", 1), ("", 1),
                          ("instances/a/", 0), ("instances/b/", 0)):
            self.define(str(on), file=f"{there}events/mine/plain/enable")
            want = [{"plain"} if enabled == "1\n" else set()
                    for enabled in self.everywhere("events/mine/plain/enable")]
            self.assertEqual(self.recorded(r": (\w+): \(", "cat /etc/nosuch"), want)

    def test_each_instance_has_its_filter_and_its_triggers(self) -> None:
        self.two_instances()
        for there in self.THERE:
            self.define("1", file=f"{there}events/mine/old/enable")
        self.define('path == "/etc/1"', file="instances/a/events/mine/old/filter")
        self.define('path == "/etc/2"', file="instances/b/events/mine/old/filter")
        self.assertEqual(self.everywhere("events/mine/old/filter"),
                         ["none\n", 'path == "/etc/1"\n', 'path == "/etc/2"\n'])
        paths = self.recorded(r'path="/etc/(\d)"', "cat /etc/1 /etc/2")
        self.assertEqual(paths, [{"1", "2"}, {"1"}, {"2"}])
        self.refused("path <", "EINVAL", file="instances/a/events/mine/old/filter")
        self.assertEqual(["Command: path <" in text for text in self.everywhere("error_log")],
                         [False, True, False])
        self.assertEqual(self.sh("echo > instances/b/error_log") + self.sh("cat error_log"), "")
        self.define('traceoff if path == "/etc/3"', file="instances/a/events/mine/old/trigger")
        self.sh("cat /etc/3")
        self.assertEqual(self.everywhere("tracing_on"), ["1\n", "0\n", "1\n"])
        self.assertEqual(self.sh("cat instances/b/events/mine/old/trigger"),
                         AVAILABLE)

    def test_an_event_that_an_instance_has_enabled_stays(self) -> None:
        self.two_instances()
        self.define("1", file="instances/a/events/mine/old/enable")
        self.refused("-:mine/old", "EBUSY")
        self.refused("", "EBUSY", operator=">")
        self.define("0", file="instances/a/events/mine/old/enable")
        self.assertEqual(self.sh("cd instances/b/events/mine/old"), "")
        self.refused("-:mine/old", "EBUSY", file="/sys/kernel/tracing/dynamic_events")
        self.assertEqual(self.sh("cd /sys/kernel/tracing"), "")
        self.assertEqual(self.everywhere("events/mine/old/enable"), ["0\n"] * 3)
        self.define("-:mine/old", "-:mine/new")
        self.assertEqual(["mine" in self.sh(f"ls {there}events") for there in self.THERE],
                         [False] * 3)

    def test_rmdir_ends_what_an_instance_had_enabled(self) -> None:
        self.two_instances()
        for name in ("old", "new"):
            self.define("1", file=f"instances/a/events/mine/{name}/enable")
        self.define("1", file="events/mine/new/enable")
        self.define('path != "x"', file="instances/a/events/mine/old/filter")
        self.define('traceoff:3 if path == "/etc/3"', file="instances/a/events/mine/old/trigger")
        self.assertEqual(self.sh("rmdir instances/a"), "")
        self.define("-:mine/old")
        self.refused("-:mine/new", "EBUSY")
        self.define("0", file="events/mine/new/enable")
        self.assertEqual(self.sh("cat enabled_functions"), "")
        self.define("-:mine/new")

    # ---- Modules ----

    def test_a_function_of_a_module(self) -> None:
        self.define("r:early ramfs:ram_read $retval")
        self.assertEqual(self.sh("insmod ramfs") + self.sh("echo hello > /ram/x"), "")
        self.define("p:entry ram_read n=$arg3", "p:body ram_read+16", "f:kprobes/fp ram_read")
        lines = self.events("cat /ram/x")
        self.assertRegex(
            self.named("entry", lines)[0], r"^entry: \(ram_read\+0x0/0x\w+ \[ramfs\]\) n=0x\w+$")
        self.assertRegex(
            self.named("body", lines)[0], r"^body: \(ram_read\+0x10/0x\w+ \[ramfs\]\)$")
        self.assertRegex(self.named("early", lines)[0], r" <- ram_read \[ramfs\]\) arg1=0x6$")
        self.sh("echo 1 > events/kprobes/enable")
        self.assertEqual(self.sh("rmmod ramfs"), "")
        self.assertEqual(self.sh("cat enabled_functions"), "")
        self.assertEqual(len(self.sh("cat dynamic_events").splitlines()), 4)
        self.assertEqual(
            self.sh("echo > trace") + self.sh("insmod ramfs") + self.sh("echo hello > /ram/x"), "")
        lines = self.events("cat /ram/x")
        for name in ("early", "entry", "body", "fp"):
            self.named(name, lines)

    def test_an_address_of_a_removed_module(self) -> None:
        """The probe is not set in another module that gets the address, and is set again with its
        own module, if that is there again."""
        path = f"/lib/modules/{self.arch}/"
        self.assertEqual(self.sh("insmod maple"), "")
        base = self.sh("cat /proc/modules").split()[5]
        leaf = next(line.split()[0] for line in self.sh("cat /proc/kallsyms").splitlines()
                    if line.endswith(" maple_leaf\t[maple]"))
        self.define(f"p:leaf 0x{leaf}", "p:wide maple_leaf")
        grow = "echo 0123456789abcdef > /proc/"
        lines = self.events(f"{grow}maple")
        self.assertEqual(len(self.named("leaf", lines)), len(self.named("wide", lines)))
        self.sh("echo 1 > events/kprobes/enable")
        self.assertEqual(self.sh("rmmod maple; echo > trace; insmod stone; rmmod stone"), "",
                         "a module without functions is none of the probes' business")
        self.assertEqual(self.sh(f"insmod pine at={base}"), "",
                         "nor is another module at the address")
        self.sh(f"{grow}pine")
        self.assertNotIn("leaf: ", self.sh("cat trace"))
        self.assertEqual(self.sh("rmmod pine; echo > trace; insmod maple at=far"), "",
                         "nor the module, if it is elsewhere")
        self.assertFalse(
            [line for line in self.events(f"{grow}maple") if line.startswith("leaf: ")])
        self.assertEqual(self.sh(f"rmmod maple; echo > trace; insmod maple at={base}"), "")
        self.named("leaf", self.events(f"{grow}maple"))
        self.assertEqual(
            self.sh(f"rmmod maple; cat {path}maple.ko > /tmp/elm.ko; insmod /tmp/elm.ko"), "",
            "an equal module of another name is another module")
        self.assertIn("probe_events: kprobes/wide cannot be set in module maple\n",
                      self.sh("insmod maple"), "a name of two functions is set in none")
        self.assertEqual(self.sh("rmmod elm"), "")

    def test_nothing_is_left_after_many_rounds(self) -> None:
        self.define("p:warm file_open $arg1", "-:warm")
        text = self.sh("cat enabled_functions")
        for number in range(20):
            self.define(f"p:r{number} file_open $arg1:u8 x=$comm", f"r:s{number} file_open $retval",
                        f"f:t{number} file_open")
            self.sh(f"echo 1 > events/kprobes/r{number}/enable")
            self.sh(f"echo 0 > events/kprobes/r{number}/enable")
            self.refused("p file_open $nothing", "EINVAL")
            self.assertEqual(self.sh("echo > dynamic_events"), "")
        self.assertEqual(self.sh("cat enabled_functions"), text)


class Riscv64(OnProbeEvents, unittest.TestCase):
    arch, cpus = "riscv64", 1


class Arm64(OnProbeEvents, unittest.TestCase):
    arch, cpus = "arm64", 1


class Riscv64Four(OnProbeEvents, unittest.TestCase):
    arch, cpus = "riscv64", 4


class Arm64Four(OnProbeEvents, unittest.TestCase):
    arch, cpus = "arm64", 4


if __name__ == "__main__":
    unittest.main()
