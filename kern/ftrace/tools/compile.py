#!/usr/bin/python3
"""Compile a handed-in file in a sandbox.

    compile.py SEEN ... -- gcc ... -o OBJECT FILE

The compiler sees the toolchain and the files that are named, and writes into a
folder of its own; the object and the list of dependencies (-MMD) are moved from
there to their places. Its messages are made printable.
"""
import os
import re
import shutil
import sys
import tempfile

# on a full disk Python 3.11 may write half of it, which is read the next time
sys.dont_write_bytecode = True
from walls import COMPILER, Ended, Limits, Refused, printable, run  # noqa: E402

LIMITS = Limits(seconds=300, processor=20, memory=1 << 30, file=16 << 20)
MESSAGES = 1 << 20
NO_ROOM = 1  # exit status
TOOLCHAIN = ("/bin", "/lib", "/lib64", "/usr/bin", "/usr/include", "/usr/lib", "/usr/lib64",
             "/usr/libexec", "/usr/aarch64-linux-gnu", "/usr/riscv64-linux-gnu")
# The driver's messages when one of its programs has reached a limit.
STOPPED = {
    r"CPU time limit exceeded|Killed signal": f"it was stopped after {LIMITS.processor} seconds",
    r"File size limit exceeded|[Ff]ile too (big|large)": f"what it writes is larger than "
    f"{LIMITS.file >> 20} MiB",
    r"out of memory|memory exhausted|[Cc]annot allocate memory":
        f"it needs more than {LIMITS.memory >> 20} MiB of memory",
    r"signal terminated program": "it died of what it read"
}


class NoRoom(Exception):
    """The host's disk is full or cannot be written, which is not the file's fault; the message says
    which folder."""


def within(command: list[str], seen: list[str], target: str, folder: str) -> Ended:
    """The command with its output in @folder."""
    at = command.index("-o") + 1
    words = [*command[:at], f"{folder}/object", *command[at + 1:]]
    if "-MMD" in command:
        words += ["-MF", f"{folder}/depends", "-MT", target]
    sees = [*TOOLCHAIN, *map(os.path.abspath, seen)]
    return run(words, sees, LIMITS, COMPILER, writes=[folder], at=os.getcwd())


def say(ended: Ended) -> str:
    """Copy the compiler's messages to our standard error. Return: why it was stopped, or ''."""
    said = ended.output + ended.errors
    text = printable(said[:MESSAGES])
    sys.stderr.write(text + ("\n" if text and text[-1] != "\n" else ""))
    if len(said) > MESSAGES:
        print(f"(the compiler says {len(said)} bytes: cut after {MESSAGES})", file=sys.stderr)
    if ended.over:
        return STOPPED[r"CPU time limit exceeded|Killed signal"]
    return next((why for form, why in STOPPED.items() if re.search(form, text[-4000:])), "")


def check_room(folder: str) -> None:
    """Raises NoRoom if the compiler cannot write in @folder as much as it may. What it printed does
    not tell: a file can make it print anything."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, LIMITS.file)
    except OSError as why:
        raise NoRoom(f"{os.path.dirname(folder)} cannot be written: {why.strerror}") from why


def place(folder: str, name: str, target: str) -> None:
    path = f"{folder}/{name}"
    if os.path.islink(path) or not os.path.isfile(path):
        raise Refused("the compiler made no object")
    os.replace(path, target)


def check_depends(path: str) -> None:
    """make reads this file, so it may contain only names of files and colons, nothing that make
    executes."""
    with open(path, encoding="ascii", errors="replace") as file:
        text = file.read(MESSAGES + 1)
        if len(text) > MESSAGES or not re.fullmatch(r"([\w./+~: -]|\\?\n)*", text, re.A):
            raise Refused("it includes a file whose name no file of the kernel has")


def build(seen: list[str], command: list[str]) -> None:
    target = command[command.index("-o") + 1]
    try:
        folder = tempfile.mkdtemp(prefix=".walls-", dir=os.path.abspath(os.path.dirname(target)))
    except OSError as why:
        raise NoRoom(f"{os.path.dirname(target)} cannot be written: {why.strerror}") from why
    try:
        ended = within(command, seen, target, folder)
        stopped = say(ended)
        if ended.status:
            check_room(folder)
            raise Refused(
                f"the compiler did not finish: {stopped}" if stopped else "it does not compile")
        if "-MMD" in command:
            check_depends(f"{folder}/depends")
            place(folder, "depends", os.path.splitext(target)[0] + ".d")
        place(folder, "object", target)
    finally:
        shutil.rmtree(folder)


def main() -> int:
    at = sys.argv.index("--")
    seen, command = sys.argv[1:at], sys.argv[at + 1:]
    try:
        build(seen, command)
    except Refused as why:
        print(f"build failure: {command[-1]}: {why}", file=sys.stderr)
        return 1
    except NoRoom as why:
        print(f"{command[-1]} is not compiled: {why}.", file=sys.stderr)
        return NO_ROOM
    return 0


if __name__ == "__main__":
    sys.exit(main())
