"""`make test-linux`: Linux's own tests of ftrace, its selftests, against our files of tracefs.

    run.py        takes the suite from a Debian package, and starts suite.py
    suite.py      runs each test, and compares the results
    expected.txt  the result of each test, and the reason if it is not PASS
    bridge.py     a file system (FUSE) whose files are those of a booted kernel
    guest.py      the console of that kernel
    selftest.c    a program of that kernel: the work that the tests trace

The suite is a folder of shell scripts that read and write the files of /sys/kernel/tracing. They
run on this host, unchanged, where the bridge's files are at that place; so an operation of a script
is a command that is typed at the kernel's prompt. The host's own tracing is never touched.
"""
from qemu.machine import ROOT

OURS = ROOT / "build/linux-selftests"
SUITE = OURS / "tools/testing/selftests/ftrace"
