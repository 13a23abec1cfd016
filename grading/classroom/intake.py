"""Takes a lab's files out of what one student handed in: a folder, a tar, a zip, or a git
repository.

Only the files that the lab's rubric.toml names are kept, and these as bytes: no name, link or
device of an archive reaches the host's file system, and nothing that was handed in is run. The
files may lie in a folder of any name, together: src/kern/... and src/labs/... . A malformed
submission (a link in the place of a file, a file twice, a bomb) is refused, with a sentence that
says why. Other files are ignored, and listed.
"""

import base64
import bz2
import errno
import io
import json
import lzma
import os
import re
import resource
import signal
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from grading.verdict import Refused
from kern.ftrace.tools import walls
from kern.ftrace.tools.walls import NoWalls
from qemu import disk

LARGEST = 256 << 10  # bytes of one file; the largest file of a solution has 13 KiB
MEMBERS = 20_000  # files and folders that are looked at
UNPACKED = 256 << 20  # bytes of an archive, unpacked
CANDIDATES = 64  # files of a wanted name, in whatever folder
SECONDS, MEMORY = 20, 1 << 30  # of processor time, and bytes, to read one submission
PATIENCE = 120  # seconds of the clock, for each call of git: the host may be busy
SHOWN = 20  # names of ignored files
FILE, FOLDER, OTHER = "file", "folder", "other"
# nothing that was handed in causes them
OF_THE_HOST = {
    errno.EACCES, errno.EPERM, errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE
}


@dataclass
class Taken:
    """The files of one submission."""

    files: dict[str, bytes] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)  # names as they may be printed, SHOWN at most
    ignored_count: int = 0
    refused: str = ""
    committed: str = ""  # of a repository: the commit's date


@dataclass(frozen=True)
class Member:
    """A file of an archive or of a folder."""

    path: str  # may hold anything
    kind: str
    size: int
    read: Callable[[], bytes]  # at most LARGEST + 1 bytes


def printable(text: str) -> str:
    """A name that may be printed: one line, of limited length."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}"
                   for c in text[:200]) + ("..." if len(text) > 200 else "")


# ---- what the members are ------------------------------------------------------------

class Unpacking(io.RawIOBase):
    """The uncompressed bytes of a file, UNPACKED at most. It is what tarfile reads from."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file, self._left = file, UNPACKED
        start = file.read(6)
        file.seek(0)
        self._decoder = (zlib.decompressobj(31) if start[:2] == b"\x1f\x8b" else
                         bz2.BZ2Decompressor() if start[:3] == b"BZh" else lzma.LZMADecompressor(
                             memlimit=MEMORY // 4) if start == b"\xfd7zXZ\0" else None)

    def read(self, size: int = -1) -> bytes:
        data = b""
        while len(data) < size and (more := self._some(size - len(data))):
            data += more
        self._left -= len(data)
        if self._left < 0:
            raise Refused(f"it has more than {UNPACKED >> 20} MiB, unpacked")
        return data

    def _some(self, size: int) -> bytes:
        if not self._decoder:
            return self._file.read(size)
        while not self._decoder.eof:
            # zlib's; the others keep theirs
            waiting = getattr(self._decoder, "unconsumed_tail", b"")
            raw = waiting or (self._file.read(65536)
                              if getattr(self._decoder, "needs_input", True) else b"")
            data = bytes(self._decoder.decompress(raw, size))
            if data or not raw and getattr(self._decoder, "needs_input", True):
                return data
        return b""


def of_tar(file: IO[bytes]) -> Iterator[Member]:
    try:
        opened = tarfile.open(fileobj=Unpacking(file),  # type: ignore[arg-type]
                              mode="r|", errorlevel=0)
    except tarfile.ReadError as why:  # of its first member
        raise Refused("it is no tar and no zip") from why
    with opened as tar:
        for member in tar:
            if member.size > UNPACKED:  # tarfile would look for so many bytes
                raise Refused(f"{printable(member.name)} has {member.size} bytes")
            kind = FOLDER if member.isdir() else OTHER
            if member.isfile() and not member.issparse():
                kind = FILE
            yield Member(
                member.name, kind, member.size,
                lambda m=member: tar.extractfile(m).read(  # type: ignore[misc, union-attr]
                    LARGEST + 1))


def of_zip(file: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            kind = FOLDER if info.is_dir() else OTHER if stat.S_IFMT(mode) not in (
                0, stat.S_IFREG) or info.flag_bits & 1 else FILE
            yield Member(info.filename, kind, info.file_size,
                         lambda i=info: archive.open(i).read(LARGEST + 1))  # type: ignore[misc]


def of_folder(folder: Path) -> Iterator[Member]:
    def unreadable(why: OSError) -> None:
        raise why

    for at, folders, names in os.walk(folder, onerror=unreadable):  # follows no link
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted([*names, *(f for f in folders if os.path.islink(os.path.join(at, f)))]):
            path = os.path.join(at, name)
            found = os.lstat(path)
            kind = FILE if stat.S_ISREG(found.st_mode) else OTHER
            yield Member(os.path.relpath(path, folder), kind, found.st_size,
                         lambda p=path: _read(p))  # type: ignore[misc]


def _read(path: str) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read(LARGEST + 1)


def git(repository: Path, *words: str) -> bytes:
    """Run git on a student's repository, in a sandbox and without its configuration, which may name
    programs."""
    inside = [repository.resolve() / name
              for name in ("HEAD", "objects", "refs", "packed-refs", "shallow")]
    # a file may ask for a signature at each of its words
    signed = [word for form in ("openpgp", "x509", "ssh")
              for word in ("-c", f"gpg.{form}.program=/none")]
    ended = walls.run(
        ["git", "-c", "safe.directory=*", *signed, f"--git-dir={repository.resolve()}", *words],
        inside, walls.Limits(PATIENCE, UNPACKED, MEMORY, processes=512,
                             together=2 * MEMORY), walls.SUBMISSION)
    if ended.status is None:
        raise Refused(f"git does not come to an end: {ended.over}")
    if ended.status:
        raise Refused(
            "git cannot read it: "
            f"{printable(ended.errors.decode(errors='replace').strip().split(chr(10))[-1])}")
    return ended.output


def plain(repository: Path) -> None:
    """Raises Refused if git would read something else than files here: it would wait for a pipe's
    other end."""
    files = [repository / name for name in ("HEAD", "packed-refs", "shallow")]
    for within in ("refs", "objects/info"):
        for count, (at, folders, names) in enumerate(os.walk(repository / within)):
            files += [Path(at, name) for name in [*folders, *names]]
            if count > MEMBERS or len(files) > MEMBERS:
                raise Refused(f"its .git has more than {MEMBERS} references")
    for path in files:
        if os.path.lexists(path) and not stat.S_ISREG(
                mode := os.lstat(path).st_mode) and not stat.S_ISDIR(mode):
            raise Refused(f"{printable(str(path.relative_to(repository.parent)))} is neither a "
                          "file nor a folder")


def commit_of(repository: Path, tag: str, before: str) -> str:
    """The commit of this tag; else the last one before this date; else the newest."""
    if tag and not git(repository, "for-each-ref", f"refs/tags/{tag}"):
        raise Refused(f"it has no tag {printable(tag)}")
    commit = f"refs/tags/{tag}" if tag else "HEAD"
    if before:
        commit = git(repository, "rev-list", "-1", f"--before={before}", commit).decode().strip()
        if not re.fullmatch(r"[0-9a-f]{40,64}", commit):
            raise Refused(f"it has no commit before {before}")
    return commit


# ---- what is taken -----------------------------------------------------------------

def parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def take(members: Iterator[Member], wanted: tuple[str, ...]) -> Taken:
    """The wanted files. Raises Refused."""
    taken, found, count = Taken(), list[tuple[list[str], Member, bytes]](), 0
    names = {name: name.split("/") for name in wanted}
    for member in members:
        count += 1
        if count > MEMBERS:
            raise Refused(f"it has more than {MEMBERS} files and folders")
        at = parts(member.path)
        if member.kind != FOLDER and ".." not in at and not member.path.startswith("/") and any(
                at[-len(name):] == name for name in names.values()):
            if len(found) == CANDIDATES:
                raise Refused(
                    f"it has more than {CANDIDATES} files of the names that the lab asks for")
            found.append((at, member,
                          member.read() if member.kind == FILE and member.size <= LARGEST else b""))
        elif member.kind != FOLDER:
            taken.ignored_count += 1
            if len(taken.ignored) < SHOWN:
                taken.ignored.append(printable(member.path))
    chosen = _folder([at[:-len(name)] for at, _, _ in found for name in names.values()
                      if at[-len(name):] == name])
    for name, ends in names.items():
        if here := [(member, data) for at, member, data in found if at == [*chosen, *ends]]:
            taken.files[name] = _checked(name, here)
        else:
            taken.missing.append(name)
    for at, member, _ in found:
        if at[:len(chosen)] != chosen or "/".join(at[len(chosen):]) not in names:
            taken.ignored_count += 1
            taken.ignored = [*taken.ignored, printable(member.path)][:SHOWN]
    return taken


def _folder(folders: list[list[str]]) -> list[str]:
    """The folder whose kern/... is meant: the uppermost, if it is the only one there."""
    uppermost = [folder for folder in folders if len(folder) == min(map(len, folders))]
    different = sorted({"/".join(folder) for folder in uppermost})
    if len(different) > 1:
        raise Refused(
            f"the lab's files are in several folders: {', '.join(map(printable, different[:5]))}")
    return uppermost[0] if uppermost else []


def _checked(name: str, here: list[tuple[Member, bytes]]) -> bytes:
    (member, data), *more = here
    if more:
        raise Refused(f"{name} is there {len(here)} times")
    if member.kind != FILE:
        raise Refused(f"{name} is a link or a device, or encrypted, and not a file")
    if max(member.size, len(data)) > LARGEST:
        raise Refused(f"{name} has {member.size} bytes, and may have {LARGEST}")
    try:
        text = data.decode()
    except UnicodeDecodeError as where:
        raise Refused(f"{name} is not UTF-8, at byte {where.start}") from where
    if "\0" in text:
        raise Refused(f"{name} has a NUL character")
    return data


def archive(path: Path) -> bool:
    """Is it a tar or a zip, by its name or by its content?"""
    named = re.search(r"\.(tar(\.\w+)?|tgz|tbz2?|txz|zip)$", path.name, re.IGNORECASE)
    return path.is_file() and not path.is_symlink() and (
        named is not None or zipfile.is_zipfile(path) or _begins_like_a_tar(path))


def _begins_like_a_tar(path: Path) -> bool:
    """Has the first member's header the right sum? tarfile.is_tarfile() would read as much as that
    header says."""
    try:
        with path.open("rb") as file:
            tarfile.TarInfo.frombuf(
                Unpacking(file).read(tarfile.BLOCKSIZE), "utf-8", "surrogateescape")
        return True
    except Exception:  # pylint: disable=broad-except  # a malformed file may raise anything
        return False


def bare(path: Path) -> bool:
    """Is it a repository without a working tree? A link may lead to another student's."""
    head, *folders = whole = [path / name for name in ("HEAD", "objects", "refs")]
    return head.is_file() and all(folder.is_dir() for folder in folders) and not any(
        part.is_symlink() for part in whole)


def read(path: Path, wanted: tuple[str, ...], tag: str = "", before: str = "") -> Taken:
    """Take the wanted files out of a folder, an archive or a repository. If a folder has none of
    them, but one archive, they are taken out of that archive. Raises Refused."""
    if path.is_symlink():
        raise Refused("it is a link")
    # a link may lead to another student's
    within = (path / ".git").is_dir() and not (path / ".git").is_symlink()
    if within or bare(path):
        repository = path / ".git" if within else path
        plain(repository)
        commit = commit_of(repository, tag, before)
        taken = take(of_tar(io.BytesIO(git(repository, "archive", "--format=tar", commit))), wanted)
        taken.committed = git(repository, "log", "-1", "--format=%cI", commit).decode().strip()
        return taken
    if path.is_dir():
        taken = take(of_folder(path), wanted)
        inside = [file for file in sorted(path.iterdir()) if archive(file)]
        if taken.files or not inside:
            return taken
        if len(inside) > 1:
            raise Refused(f"it has {len(inside)} archives, and none of the lab's files beside them")
        path = inside[0]
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        is_zip = file.read(2) == b"PK"
        file.seek(0)
        return take(of_zip(file) if is_zip else of_tar(file), wanted)


# ---- in a process of its own -----------------------------------------------------------

def taken(path: Path, wanted: tuple[str, ...], tag: str = "", before: str = "") -> Taken:
    """read() in a process of its own, with limits, so that a hostile archive can harm only the
    reading of this submission. What cannot be read is refused in the result. Raises NoWalls if this
    machine is at fault."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(ours)
            # it ends by SIGXCPU; so SIGKILL comes from the host
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with open(theirs, "w", encoding="utf-8") as pipe:
                try:
                    said = asdict(_read_or_refused(path, wanted, tag, before))
                except NoWalls as why:
                    said = {"no walls": str(why)}
                json.dump(said, pipe, default=lambda data: base64.b64encode(data).decode())
        finally:
            os._exit(0)  # pylint: disable=protected-access
    os.close(theirs)
    with open(ours, encoding="utf-8") as pipe:
        answer = pipe.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL:
        raise NoWalls(f"the process that read {printable(str(path))} was killed: has this machine "
                      "too little memory?")
    try:
        found = json.loads(answer)
    except ValueError:
        return Taken(
            missing=list(wanted), refused=
            f"reading it takes more than {SECONDS} seconds of a processor or {MEMORY >> 20} MiB")
    if "no walls" in found:
        raise NoWalls(found["no walls"])
    found["files"] = {name: base64.b64decode(data) for name, data in found["files"].items()}
    return Taken(**found)


def _read_or_refused(path: Path, wanted: tuple[str, ...], tag: str, before: str) -> Taken:
    try:
        return read(path, wanted, tag, before)
    except NoWalls:
        raise
    except Refused as why:
        return Taken(missing=list(wanted), refused=str(why))
    except OSError as why:
        if why.errno in OF_THE_HOST or disk.why(why):
            raise NoWalls(f"{printable(str(path))} cannot be read on this machine, which is no "
                          f"fault of the student's: {printable(str(why))}") from why
        return Taken(missing=list(wanted), refused=f"it cannot be read: {printable(str(why))}")
    # tarfile and zipfile may raise anything for a malformed file
    except Exception as why:  # pylint: disable=broad-except
        return Taken(missing=list(wanted),
                     refused=f"it cannot be read: {printable(str(why) or type(why).__name__)}")
