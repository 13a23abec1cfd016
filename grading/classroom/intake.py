"""Takes a lab's files out of what one student handed in: a folder, a tar, a zip, or a git
repository.

Only the files that the lab's rubric.toml names are kept, and these as bytes: no name, link or
device of an archive reaches the host's file system, and nothing that was handed in is run. The
files may lie in a folder of any name, together: src/kern/... and src/labs/... . Their names may be
spelled as systems spell them (spellings.py), as long as only one file can be meant. If none of them
is there, but one small archive, they are taken out of that, one level deep. A malformed
submission (a link in the place of a file, two files that can be meant, a bomb) is refused, with a
sentence that says why. Other files are ignored, and listed.
"""

import base64
import bz2
import errno
import filecmp
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

from grading.classroom import spellings
from grading.classroom.spellings import printable as printable
from grading.verdict import Refused
from kern.ftrace.tools import walls
from kern.ftrace.tools.walls import NoWalls
from qemu import disk

LARGEST = 256 << 10  # bytes of one file; the largest file of a solution has 13 KiB
MEMBERS = 20_000  # files and folders that are looked at
UNPACKED = 256 << 20  # bytes of an archive, unpacked
DEEPEST = 100  # levels of folders in a folder
CANDIDATES = 64  # files of a wanted name, in whatever folder
SECONDS, MEMORY = 20, 1 << 30  # of processor time, and bytes, to read one submission
PATIENCE = 120  # seconds of the clock, for each call of git: the host may be busy
SHOWN = 20  # names of ignored files
FILE, FOLDER, OTHER, ENCRYPTED = "a plain file", "a folder", "a link or a device", "encrypted"
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
    # sentences: what was taken under another name, which files may be the missing ones
    notes: list[str] = field(default_factory=list)

    @property
    def why(self) -> str:
        """Why there is nothing to grade."""
        return self.refused or ("" if self.files else "\n".join(self.notes))


@dataclass(frozen=True)
class Member:
    """A file of an archive or of a folder."""

    path: str  # may hold anything
    kind: str
    size: int
    read: Callable[[], bytes]  # at most LARGEST + 1 bytes


class NoArchive(Refused):
    """It is no tar and no zip."""


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
            raise Refused(
                f"it has more than {UNPACKED >> 20} MiB, unpacked, which is the limit: that was "
                f"reached after {self._file.tell()} packed bytes")
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
    unpacking = Unpacking(file)
    try:
        opened = tarfile.open(fileobj=unpacking,  # type: ignore[arg-type]
                              mode="r|", errorlevel=0)
    except tarfile.ReadError as why:  # of its first member
        raise NoArchive("it is no tar and no zip") from why
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
    try:
        while unpacking.read(1 << 16):  # what follows the tar's end may be a bomb, too
            pass
    except (zlib.error, lzma.LZMAError, OSError, EOFError):
        pass  # its files were whole


def of_zip(file: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            kind = FOLDER if info.is_dir() else OTHER if stat.S_IFMT(mode) not in (
                0, stat.S_IFREG) else ENCRYPTED if info.flag_bits & 1 else FILE
            yield Member(info.filename, kind, info.file_size,
                         lambda i=info: archive.open(i).read(LARGEST + 1))  # type: ignore[misc]


def of_archive(file: IO[bytes]) -> Iterator[Member]:
    is_zip = file.read(2) == b"PK"
    file.seek(0)
    return of_zip(file) if is_zip else of_tar(file)


def walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """os.walk(), which follows no link. Raises OSError of what it cannot read, and Refused of a
    folder that is too deep."""
    todo = [(str(folder), 0)]
    while todo:
        at, depth = todo.pop()
        with os.scandir(at) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        yield at, folders, [entry.name for entry in entries
                            if not entry.is_dir(follow_symlinks=False)]
        if folders and depth == DEEPEST:
            begins = printable(os.path.relpath(at, folder)[:40])
            raise Refused(f"its folders are more than {DEEPEST} levels deep, which is the limit: "
                          f"{begins}...")
        todo += [(os.path.join(at, name), depth + 1) for name in reversed(folders)]


def of_folder(folder: Path) -> Iterator[Member]:
    for at, folders, names in walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
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
        said = ended.errors.decode(errors="replace").strip().split("\n")[-1]
        said = said.replace(f"{repository.resolve().parent}/", "")
        raise Refused(f"git cannot read it: {printable(said)}")
    return ended.output


def plain(repository: Path) -> None:
    """Raises Refused if git would read something else than files here: it would wait for a pipe's
    other end."""
    files = [repository / name for name in ("HEAD", "packed-refs", "shallow")]
    for within in ("refs", "objects/info"):
        if not (repository / within).is_dir():
            continue
        for count, (at, folders, names) in enumerate(walk(repository / within)):
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

@dataclass(frozen=True)
class Candidate:
    """A file that may be a wanted one."""

    name: str  # of the wanted one
    folder: tuple[str, ...]  # in which its kern/ is
    same_case: bool
    member: Member
    data: bytes  # none if it is too large, or no file

    @property
    def content(self) -> tuple[str, int, bytes]:
        return self.member.kind, self.member.size, self.data


def take(members: Iterator[Member], wanted: tuple[str, ...]) -> Taken:
    """The wanted files. Raises Refused."""
    taken, found, seen, count = Taken(), list[Candidate](), list[str](), 0

    def ignore(member: Member) -> None:
        taken.ignored_count += 1
        taken.ignored = [*taken.ignored, printable(member.path)][:SHOWN]

    names = {name: name.split("/") for name in wanted}
    for member in members:
        count += 1
        if count > MEMBERS:
            raise Refused(f"it has more than {MEMBERS} files and folders")
        at = spellings.parts(member.path)
        if member.kind == FOLDER or spellings.is_added(at) or (spellings.is_folder(member.path)
                                                               and not member.size):
            continue
        if len(seen) < spellings.LOOKED_AT:
            seen.append(member.path)
        meant = {name: same_case for name, ends in names.items()
                 for means, same_case in [spellings.means(at, ends)] if means}
        if not meant:
            ignore(member)
            continue
        if len(found) == CANDIDATES:
            raise Refused(f"it has more than {CANDIDATES} files of the names that the lab asks for")
        name = max(meant, key=lambda name: len(names[name]))
        data = member.read() if member.kind == FILE and member.size <= LARGEST else b""
        found.append(Candidate(name, (*at[:-len(names[name])],), meant[name], member, data))
    as_written = {(one.name, one.folder) for one in found if one.same_case}
    meant_ones = [one for one in found if one.same_case or (one.name, one.folder) not in as_written]
    chosen = _folder(meant_ones)
    for name in names:
        here = [one for one in meant_ones if one.name == name and one.folder == chosen]
        if here:
            taken.files[name] = _checked(name, here)
            if spellings.parts(here[0].member.path)[len(chosen):] != names[name]:
                taken.notes.append(f"{printable(here[0].member.path)} was taken as {name}")
            taken.notes += [] if taken.files[name] else [f"{name} is empty"]
        else:
            taken.missing.append(name)
    for one in found:
        if one.folder != chosen or one not in meant_ones:
            ignore(one.member)
    used = {one.member.path for one in found}
    taken.notes += spellings.nearest((name for name in seen if name not in used), taken.missing)
    if not taken.files:
        taken.notes += [f"{printable(name)} is not unpacked: hand in one archive of files"
                        for name in seen if spellings.ARCHIVE.search(name)][:SHOWN]
        taken.notes += [spellings.unread(name) for name in seen if spellings.UNREAD.search(name)
                        or spellings.DOCUMENT.search(name)][:SHOWN]
    if not taken.files and not taken.notes:
        shown = ", ".join(map(printable, seen[:5])) + (", ..." if len(seen) > 5 else "")
        taken.notes.append(f"{f'it has {shown}' if seen else 'it has no file'}; what is graded is "
                           f"{', '.join(wanted)}")
    return taken


def unwrapped(members: Iterator[Member], wanted: tuple[str, ...]) -> Taken:
    """As take(). If none of the wanted files is there, but one archive that is no larger than a
    file may be, they are taken out of that archive."""
    archives = list[tuple[Member, bytes]]()

    def kept() -> Iterator[Member]:
        for member in members:
            if (member.kind == FILE and spellings.ARCHIVE.search(member.path)
                    and not spellings.is_added(spellings.parts(member.path))):
                small = not archives and member.size <= LARGEST
                archives.append((member, member.read() if small else b""))
            yield member

    taken = take(kept(), wanted)
    if taken.files or len(archives) != 1 or not archives[0][1]:
        return taken
    [(member, data)] = archives
    try:
        inner = take(of_archive(io.BytesIO(data)), wanted)
    except NoArchive:
        return taken
    if not inner.files:
        return taken
    inner.notes.insert(0, f"{printable(member.path)} was unpacked")
    inner.ignored_count += taken.ignored_count - 1
    others = [name for name in taken.ignored if name != printable(member.path)]
    inner.ignored = [*others, *inner.ignored][:SHOWN]
    return inner


def _folder(found: list[Candidate]) -> tuple[str, ...]:
    """The folder whose kern/... is meant: the uppermost, if all others there have the same files.
    """
    depth = min((len(one.folder) for one in found), default=0)
    uppermost = sorted({one.folder for one in found if len(one.folder) == depth})
    contents = [{(one.name, one.content) for one in found if one.folder == folder}
                for folder in uppermost]
    if any(of != contents[0] for of in contents):
        raise Refused(f"the lab's files are in several folders: "
                      f"{', '.join(printable('/'.join(folder)) for folder in uppermost[:5])}, and "
                      f"are not the same there")
    return uppermost[0] if uppermost else ()


def _checked(name: str, here: list[Candidate]) -> bytes:
    first, *more = here
    if any(one.content != first.content for one in more):
        raise Refused(
            f"{name} is there {len(here)} times, and not with the same content: "
            f"{', '.join(printable(one.member.path) for one in here[:5])}")
    member, data = first.member, first.data
    if member.kind != FILE:
        raise Refused(f"{name} is {member.kind}, and not {FILE}")
    if max(member.size, len(data)) > LARGEST:
        raise Refused(f"{name} has {member.size} bytes, and may have {LARGEST}")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Refused(f"{name} is text in UTF-16, which no compiler reads: save it as UTF-8")
    if b"\0" in data:
        raise Refused(f"{name} has a NUL character, as text in UTF-16 has many: save it as UTF-8")
    return data


def archive(path: Path) -> bool:
    """Is it a tar or a zip, by its name or by its content?"""
    return path.is_file() and not path.is_symlink() and not spellings.is_unread(path) and (
        spellings.ARCHIVE.search(path.name) is not None or zipfile.is_zipfile(path)
        or _begins_like_a_tar(path))


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


def several(archives: list[Path]) -> str:
    """What is said of these archives, if they are not all the same, or ''."""
    if all(filecmp.cmp(archives[0], other, shallow=False) for other in archives[1:]):
        return ""
    names = ", ".join(printable(path.name) for path in archives[:5])
    return f"it has {len(archives)} archives that are not the same: {names}"


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
        if taken.files:
            return taken
        entries = [of for of in sorted(path.iterdir()) if not spellings.is_added([of.name])]
        inside = [of for of in entries if archive(of)]
        if not inside:
            if (lower := unwrapped(of_folder(path), wanted)).files:
                return lower
            for of in filter(spellings.is_unread, entries):
                raise Refused(spellings.unread(of.name))
            return taken
        if why := several(inside):
            raise Refused(f"{why}, and none of the lab's files beside them")
        path = inside[0]
    if spellings.is_unread(path):
        raise Refused(spellings.unread(path.name))
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        try:
            return unwrapped(of_archive(file), wanted)
        except NoArchive as why:
            near = spellings.nearest([path.name], list(wanted))
            raise Refused("; ".join([f"{printable(path.name)}: it is no tar and no zip", *near])
                          ) from why


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
