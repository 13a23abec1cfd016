"""Says in one sentence what cannot be written, and why: the disk is full, a quota is used up, or
the file system or folder is read-only.

    disk.py FOLDER ...    says which of these folders, and that for temporary files, cannot be
                          written; make asks after a build that failed

Such an error is the host's, never a student's. So a program that meets it prints the sentence and
no traceback, and a grade ends as a harness error.
"""

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KINDS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EIO)
# kinds that a program's message is searched for: no other cause has these words
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
LITTLE = 16 << 20  # bytes; with less space than this a build fails soon


def temporary() -> Path:
    """The folder for temporary files of the programs that are started. Python takes another one if
    this one is full."""
    return Path(os.environ.get("TMPDIR") or "/tmp")


def sentence(where: str | Path, number: int) -> str:
    return (f"{where} cannot "
            f"be {'used' if number in (errno.EACCES, errno.EPERM, errno.EIO) else 'written'}: "
            f"{os.strerror(number)}")


def why(error: BaseException, folder: str | Path = "") -> str:
    """The sentence for this error; "" if it is of another kind. Only some errors name their file:
    for the others it is @folder."""
    if isinstance(error, shutil.Error):  # of copytree: (from, to, message) for each file
        told = [(to, number) for _, to, message in error.args[0] for number in KINDS
                if os.strerror(number) in message]
        return sentence(*told[0]) if told else ""
    # of tempfile, which has tried several
    if isinstance(error, FileNotFoundError) and "temporary directory" in str(error):
        return lacks(temporary(), size=1)
    if not isinstance(error, OSError) or error.errno not in KINDS:
        return ""
    name = error.filename2 or error.filename or folder
    return sentence(os.fsdecode(name or "a file"),
                    error.errno) if name or error.errno in FULL else ""


def what(error: Exception, folder: str | Path) -> str:
    """A sentence for an exception that ends a program: why(), or what it says itself, with the file
    if it is an OSError."""
    if isinstance(error, OSError):
        return why(error,
                   folder) or f"{error.filename2 or error.filename or folder}: {error.strerror}"
    return str(error)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors in this block name the file: Python names it when it opens a file, and not when it
    writes."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_whole(path: Path, data: str | bytes) -> None:
    """Replace a file. If that fails, it has the old contents."""
    new = path.with_name(f".{path.name}.new")
    try:
        with naming(path):
            new.write_bytes(data.encode() if isinstance(data, str) else data)
            new.replace(path)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise


def lacks(*folders: Path, size: int = LITTLE) -> str:
    """The sentence about the first of these folders that has no room for @size bytes; "" if all
    have."""
    for folder in folders:
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno in KINDS:
                return sentence(folder, error.errno)
    return ""


def told(said: str, *folders: Path) -> str:
    """The sentence about what a program says, which wrote into these folders or into that for
    temporary files; "" if it failed for another reason."""
    kinds = [number for number in FULL if os.strerror(number) in said]
    return (lacks(*folders, temporary()) or sentence(folders[0], kinds[0])) if kinds else ""


def ended(main: Callable[[], int], program: str, status: int, folder: str | Path = "") -> int:
    """Run a program's main. If something cannot be written, print the sentence and return @status.
    """
    try:
        return main()
    except OSError as error:
        said = why(error, folder)
        if not said:
            raise
        with suppress(OSError):  # its own output may be on the same disk
            print(f"{program}: {said}.", file=sys.stderr, flush=True)
        return status


def main() -> int:
    if said := lacks(*(Path(name) for name in sys.argv[1:] if Path(name).exists()), temporary()):
        print(f"make: {said}.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    main()
