"""`make test-linux`: run Linux's selftests of ftrace, and compare each result with expected.txt.

The suite is unpacked from Debian's package of Linux's source, which is downloaded once. Each test
runs in a namespace of mounts and pids, where the bridge's files are in place of the host's. One
kernel runs for all tests, so a setting that one test does not put back may break the next one. It
needs root.

Each result that differs is a failure, whether it is better or worse. Logs are in
build/linux-selftests/<arch>/: console.log has each command at the kernel's prompt.
"""
import argparse
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys

from kern.ftrace.tests.linux import OURS, SUITE
from kern.ftrace.tests.linux.guest import build
from qemu.machine import ARCHES, ROOT

PACKAGE = "linux-source-6.12"
UNPACK = (f"dpkg-deb --fsys-tarfile {PACKAGE}_*.deb | tar -xO ./usr/src/{PACKAGE}.tar.xz | "
          f"tar -xJ --strip-components=1 {PACKAGE}/tools/testing/selftests/ftrace")
NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


class Unable(Exception):
    """The tests cannot be run on this host; the message is one sentence."""


def fetch() -> None:
    """Download and unpack the suite, if it is not there."""
    OURS.mkdir(parents=True, exist_ok=True)
    with (OURS / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (SUITE / "ftracetest").exists():
            return
        if not list(OURS.glob(f"{PACKAGE}_*.deb")):
            done = subprocess.run(["apt-get", "download", "-q", PACKAGE], cwd=OURS, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            if done.returncode:
                raise Unable(f"apt-get cannot download Debian's package {PACKAGE}, which has the "
                             f"tests: {done.stdout.strip().rpartition(chr(10))[2]}")
        subprocess.run(["bash", "-o", "pipefail", "-c", UNPACK], cwd=OURS, check=True)
        for deb in OURS.glob(f"{PACKAGE}_*.deb"):
            (OURS / "version").write_text(deb.name.split("_")[1] + "\n")
            deb.unlink()


def missing() -> list[str]:
    """The Debian packages that have to be installed."""
    found = {
        "python3-fusepy": importlib.util.find_spec("fusepy"),
        "fuse3": shutil.which("fusermount3")
    }
    return [package for package, there in found.items() if not there]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", choices=ARCHES, action="append")
    parser.add_argument("files", nargs="*", help="of the suite's folder test.d/; default: all")
    options = parser.parse_args()
    if os.geteuid() or subprocess.run([*NAMESPACES, "true"], stderr=subprocess.DEVNULL,
                                      check=False).returncode:
        print("skipped: Linux's selftests need root, and a host on which it can mount\n"
              "Ran 1 test\nOK (skipped=1)")
        return 0
    if packages := missing():
        print(f"Missing. Please type:\n  apt-get install {' '.join(packages)}", file=sys.stderr)
        return 1
    try:
        fetch()
    except Unable as why:
        print(why, file=sys.stderr)
        return 1
    status = 0
    for arch in options.arch or ARCHES:
        build(arch)
        suite = [sys.executable, "-m", "kern.ftrace.tests.linux.suite", arch, *options.files]
        status |= subprocess.run([*NAMESPACES, *suite], cwd=ROOT, check=False).returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
