"""The sandbox of recordmcount: its limits on the program, and the checks of the program's output.
"""
import contextlib
import io
import json
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from grading.checks import recordmcount
from qemu.machine import ROOT

sys.path.insert(0, str(ROOT / "kern/ftrace/tools"))
import mkrecords  # noqa: E402
import walls  # noqa: E402

OFFSETS = [8, 64, 24]
TABLE = """\t.section .ftrace_records, "aw"
\t.balign 8
\t.globl ftrace_records
ftrace_records:
\t.quad 0x8
\t.quad 0x18
\t.quad 0x100000000000040
\t.section .rodata
\t.balign 4
\t.globl ftrace_record_count
ftrace_record_count:
\t.long 3
\t.section .rodata
\t.balign 4
\t.globl ftrace_regions
ftrace_regions:
\t.long 0, 0
\t.long 3, 0
"""
HEAD = """#define _GNU_SOURCE
#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
"""
FORMS = [  # a line to replace, the line printed instead, and the message that it causes
    ("\t.quad 0x18\n", '\t.incbin "/etc/passwd"\n', r"line 6 .*\.incbin \"/etc/passwd\""),
    ("\t.quad 0x18\n", "\tj .\n", "line 6 of its output belongs to no table"),
    ("\t.quad 0x18\n", "\t.quad 0x18; .incbin 0\n", "line 6"),
    ("\t.quad 0x18\n", "\t.quad secret\n", "line 6"),
    ("\t.quad 0x18\n", "\t.quad 0x18, 0x20\n", "line 6"),
    ("\t.quad 0x18\n", "\t.quad 0x18 # \x1b[2J\n", r"line 6 .*\?\[2J"),
    ("\t.quad 0x18\n", "\n\t.quad 0x18\n", "line 6"),
    (".ftrace_records,", ".text,", "line 1"),
    ("\t.long 3, 0\n", "\t.long 3, 0\n\t.include \"x\"\n", "line 19"),
    ("\t.long 3, 0\n", "", "its regions do not cover"),
    ("\t.long 3, 0\n", "\t.long 3, 0", "line 19 .*the end"),
    ("\t.globl ftrace_regions\n", "", "line 15"),
    (TABLE, "", "line 1 .*the end"),
    ("\t.quad 0x18\n", "\t.quad 0x100000\n", "record 1 is outside of text: 0xffffffff80100000"),
    ("\t.quad 0x18\n", "\t.quad 0xffffffff80000018\n", "record 1 is outside of text|state"),
    ("\t.quad 0x18\n", "\t.quad 0x1a\n", "record 1 is not 4-byte aligned"),
    ("\t.quad 0x18\n", "\t.quad 0x200000018\n", "record 1 has state 0x2"),
    ("\t.long 3\n", "\t.long 4\n", "there are 4 records, and prints 3"),
    ("\t.long 3\n", "\t.long 3\n\t.long 3\n", "line 14"),
    ("\t.long 0, 0\n", "\t.long 0, 0x18\n",
     "a region calls 0xffffffff80000018, where there are no stubs"),
    ("\t.long 0, 0\n", "\t.long 1, 0\n", "its regions do not cover"),
    ("\t.long 3, 0\n", "\t.long 4, 0\n", "its regions do not cover"),
]


def prints(text: str) -> str:
    return f"fputs({json.dumps(text)}, stdout);"


class Sandbox(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="callsite-")))
        cls.elf = cls.folder / "kernel.elf"
        cls.elf.write_bytes(recordmcount.entry_elf("riscv64", OFFSETS))

    def hurry(self) -> None:
        """A program that does not end is stopped soon; one that ends may need the usual time on a
        busy host."""
        self.enterContext(mock.patch.object(mkrecords, "SECONDS", 1))

    def gone(self, words: str) -> None:
        """A killed process may be in the list a moment longer."""
        deadline = time.monotonic() + 600
        while words in subprocess.check_output(["ps", "-eo", "args"], text=True):
            self.assertLess(time.monotonic(), deadline, f"{words} still runs")

    def tool(self, body: str) -> str:
        path = self.folder / "tool"
        path.with_suffix(".c").write_text(HEAD + f"int main(int argc, char **argv) {{ {body} }}")
        subprocess.run(["gcc", "-O1", "-w", "-static", "-o", path,
                        path.with_suffix(".c")], check=True)
        return str(path)

    def table(self, body: str) -> str:
        return mkrecords.assembly(mkrecords.table_of(self.tool(body), str(self.elf)))

    def refused(self, body: str, sentence: str) -> None:
        with self.assertRaisesRegex(mkrecords.Refused, sentence):
            self.table(body)

    # ---- the program -------------------------------------------------------

    def test_a_table_goes_through(self) -> None:
        self.assertEqual(
            self.table(prints(TABLE)),
            TABLE.replace("\t.long 0, 0\n", "\t.long 0, 0x0\n").replace("3, 0\n", "3, 0x0\n"))

    def test_it_sees_its_kernel_and_no_other_file(self) -> None:
        secret = self.folder / "secret"
        secret.write_text("secret")
        for path in ("/etc/passwd", str(Path.home()), str(secret), "/proc/self/mem", "/dev/sda",
                     str(ROOT / "Makefile")):
            with self.subTest(path=path):
                self.refused(f'return access("{path}", F_OK) ? 7 : 0;', "it ended with status 7")
        self.refused("return fopen(argv[1], \"r\") ? 7 : 0;", "it ended with status 7")
        self.refused(
            'FILE *f = fopen("/etc/passwd", "r"); char c[80]; fgets(c, 80, f); fputs(c, stdout);',
            "it ended with SIGSEGV")

    def test_it_has_no_environment_and_no_open_files(self) -> None:
        os.environ["CALLSITE_SECRET"] = "1"
        self.addCleanup(os.environ.pop, "CALLSITE_SECRET")
        self.refused('return getenv("CALLSITE_SECRET") ? 6 : 7;', "status 7")
        self.refused(
            "for (int i = 3; i < 100; i++) if (lseek(i, 0, SEEK_CUR) != -1 || close(i) == 0) "
            "return 6; return 7;",
            "status 7")

    def test_it_writes_no_file(self) -> None:
        before = self.elf.read_bytes(), os.listdir(self.folder)
        body = " ".join(f'fopen("{path}", "{mode}") && (n = 6);' for mode in ("w", "a", "r+")
                        for path in ("/tmp/callsite-was-here", "/callsite", self.elf,
                                     self.folder / "tool", self.folder / "new",
                                     Path.home() / ".callsite"))
        self.refused(f"int n = 7; {body} return n;", "status 7")
        self.assertEqual(before[0], self.elf.read_bytes())
        self.assertEqual({*before[1], "tool", "tool.c"}, set(os.listdir(self.folder)))
        self.assertFalse(Path("/tmp/callsite-was-here").exists())

    def test_it_opens_no_connection(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(0.2)
            self.refused(
                f"""int s = socket(AF_INET, SOCK_STREAM, 0);
                struct sockaddr_in a = {{AF_INET, htons({server.getsockname()[1]}),
                                         {{htonl(INADDR_LOOPBACK)}}}};
                connect(s, (void *)&a, sizeof(a)); write(s, "x", 1);""",
                "asked for another process or a connection and was stopped")
            with self.assertRaises(TimeoutError):
                server.accept()

    def test_it_leaves_no_process(self) -> None:
        for call in ("fork()", "vfork()", "syscall(435, 0, 0)", 'system("sleep 1001")',
                     'popen("sleep 1001", "r")', "unshare(0x10000000)"):
            with self.subTest(call=call):
                self.refused(
                    f"if ({call} == 0) sleep(1001); {prints(TABLE)}",
                    "asked for another process or a connection and was stopped"
                    if "(\"" not in call else "stopped|line 1|SIGSEGV|status")
        self.refused("for (int i = 0; i < 8; i++) fork();", "another process")
        self.gone("sleep 1001")

    def test_each_forbidden_call_ends_it(self) -> None:
        """Without the filter the call fails or returns 0, and the program ends with status 7."""
        self.assertEqual({"socket", "clone", "fork", "vfork", "unshare", "setns", "clone3"},
                         set(walls.FORBIDDEN))
        for name in walls.FORBIDDEN:
            with self.subTest(name):
                self.refused(f"""
#ifdef SYS_{name}
                    if (syscall(SYS_{name}, -1, -1, -1) == 0) _exit(0);
#else
                    kill(getpid(), SIGSYS);
#endif
                    return 7;""", "asked for another process or a connection and was stopped")
        self.refused("syscall(SYS_getpid); return 7;", "^it ended with status 7$")

    @unittest.skipUnless(platform.machine() == "x86_64",
                         "this machine has one table of system calls")
    def test_the_hosts_other_tables_of_calls_end_it(self) -> None:
        for name, call in {"i386": """int pid = 20; __asm__ volatile("int $0x80" : "+a"(pid));""",
                           "x32": "syscall(0x40000000 + SYS_getpid);"}.items():
            with self.subTest(name):
                # of a kernel without the table
                self.refused(f"{call} return 7;", "was stopped:|SIGSEGV")

    def test_it_ends(self) -> None:
        self.hurry()
        self.refused("while (1);", "it does not end: it was stopped after 1 seconds")
        with mock.patch.object(mkrecords, "PATIENCE", 6):
            self.refused("sleep(1001);", "it does not end")
        self.gone(str(self.folder))

    def test_its_output_and_its_complaints_end(self) -> None:
        self.refused(
            'while (1) puts("\\t.quad 0x8");',
            r"it prints more than a table of this kernel can be: it was stopped at \d+ bytes")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.refused('while (1) fputs("flood", stderr);', "it was stopped at")
        self.assertEqual(said.getvalue(), 800 * "flood" + "\n")

    def test_its_memory_ends(self) -> None:
        self.refused("volatile char *p; while (p = malloc(1 << 20)) *p = 1; return 7;", "status 7")

    def test_a_complaint_is_passed_on_without_control_characters(self) -> None:
        tool = self.tool('fputs("why \\x1b]0;x\\a not\\n", stderr); return 3;')
        done = subprocess.run([sys.executable, mkrecords.__file__, tool, self.elf],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr,
                         f"why ?]0;x? not\nrecordmcount: {self.elf}: it ended with status 3\n")

    def test_a_crash_has_an_exit_status_of_its_own(self) -> None:
        for body, status in (("*(volatile int *)0 = 1;", mkrecords.CRASHED), ("return 3;", 1)):
            done = subprocess.run([sys.executable, mkrecords.__file__, self.tool(body), self.elf],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, status)

    # ---- its output -----------------------------------------------------

    def test_only_a_table_of_this_kernel_is_believed(self) -> None:
        kernel = mkrecords.read_kernel(str(self.elf))
        for was, now, sentence in FORMS:
            with self.subTest(printed=now):
                self.assertEqual(TABLE.count(was), 1)
                with self.assertRaisesRegex(mkrecords.Refused, sentence):
                    mkrecords.check(*mkrecords.parse(TABLE.replace(was, now)), kernel)

    def test_what_is_linked_is_written_here(self) -> None:
        self.refused(prints(TABLE.replace("\t.quad 0x18\n", '\t.incbin "/etc/passwd"\n')),
                     "line 6 of its output")

    def test_the_empty_table(self) -> None:
        done = subprocess.run([sys.executable, mkrecords.__file__, "--empty"], capture_output=True,
                              text=True, check=True)
        self.assertEqual(re.findall(r"\t\.(?:long|quad) (.*)", done.stdout),
                         ["0", "0, 0x0", "0, 0x0"])

    # ---- without a sandbox ----------------------------------------

    def test_without_bubblewrap_nothing_runs(self) -> None:
        was = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", was)
        os.environ["PATH"] = str(self.folder)
        tool = self.folder / "ready"
        tool.write_text("#!/bin/sh\ntouch ran\n")
        tool.chmod(0o755)
        with self.assertRaisesRegex(mkrecords.Refused, "bwrap is not installed: type make setup"):
            mkrecords.run(str(tool), str(self.elf), 65536)
        bwrap = self.folder / "bwrap"
        bwrap.write_text(
            "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
        bwrap.chmod(0o755)
        self.addCleanup(bwrap.unlink)
        os.environ["PATH"] += f":{was}"  # in a chroot, unshare and others come before bwrap
        with self.assertRaisesRegex(
                mkrecords.Refused,
                r"the sandbox cannot be made \(bwrap: No permissions.*type:  export SANDBOX=no$"):
            mkrecords.run(str(tool), str(self.elf), 65536)

    def test_without_the_package_of_the_filter_nothing_runs(self) -> None:
        with mock.patch.dict(sys.modules, {"seccomp": None}):
            self.refused('fputs("it runs\\n", stderr); return 7;',
                         "^python3-seccomp is not installed: type make setup$")

    def test_what_says_that_it_is_bubblewrap_is_not(self) -> None:
        self.refused('fputs("bwrap: No permissions to create new namespace\\n", stderr); return 1;',
                     "^it ended with status 1$")

    def test_without_walls_the_limits_stay(self) -> None:
        os.environ["SANDBOX"] = "no"
        self.addCleanup(os.environ.pop, "SANDBOX")
        self.hurry()
        self.refused("while (1);", "it does not end")
        self.refused("while (1) puts(\"x\");", "it was stopped at")
        self.refused(prints(TABLE.replace("0x18", "0x1a")), "not 4-byte aligned")
        self.assertIn("0x18", self.table(prints(TABLE)))


if __name__ == "__main__":
    unittest.main()
