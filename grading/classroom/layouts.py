"""Finds who handed in what: one folder that an instructor downloaded, or made.

    Gradescope         submission_metadata.yml, and submission_12345/ for each student
    Moodle             NAME_12345_assignsubmission_file_/FILE, or
                       NAME_12345_assignsubmission_file_FILE
    Canvas             nameofthestudent[_LATE]_USER_NUMBER_FILE
    GitHub Classroom   ASSIGNMENT-submissions/ASSIGNMENT-USER/, each a repository: as any folder of
                       repositories
    any other          a folder, a tar, a zip or a git repository for each student, with the
                       student's name; two of one name are refused
"""

import hashlib
import os
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from unicodedata import normalize

import yaml  # type: ignore[import]

from grading.classroom import spellings
from grading.classroom.intake import archive, printable, several
from kern.ftrace.tools.walls import NoWalls

GRADESCOPE, MOODLE, CANVAS = "Gradescope's export", "Moodle's download", "Canvas's download"
OF_MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_file_?(?P<file>.*)", re.S)
# The second number is the file's. The download has the newest of a student's submissions.
OF_CANVAS = re.compile(r"(?P<name>[^_]+)(?P<late>_LATE)?_(?P<id>\d+)_(?P<number>\d+)_(?P<file>.+)",
                       re.S)


@dataclass(frozen=True)
class Submission:
    student: str  # the name of the student's folder in OUT: letters, digits, - . and _
    name: str  # as it is shown
    ident: str  # the learning platform's number of the student, or ''
    path: Path
    late: bool | None = None  # as the learning platform marks it; None: it marks none
    submitted: str = ""  # when, as the learning platform says it, or ''
    refused: str = ""  # why it cannot be taken, or ''
    platform: str = ""  # whose number it is: GRADESCOPE, MOODLE or CANVAS, or ''


@dataclass(frozen=True)
class Class:
    layout: str
    submissions: list[Submission]
    ignored: list[str]  # entries that belong to no student, as they may be printed


def find(folder: Path) -> Class:
    """What this folder holds. The order is that of the names. An entry whose name begins with a dot
    is nobody's."""
    entries = sorted(folder.iterdir())
    hidden = [path for path in entries
              if path.name.startswith(".") or spellings.is_added([path.name])]
    found = _found(folder, [path for path in entries if path not in hidden])
    return replace(found, ignored=[*found.ignored, *(printable(path.name) for path in hidden)])


def _found(folder: Path, entries: list[Path]) -> Class:
    metadata = folder / "submission_metadata.yml"
    if metadata.is_file() and not metadata.is_symlink():
        return _gradescope(entries, metadata)
    # a name that a student chose may look like that
    if 2 * sum(bool(OF_CANVAS.fullmatch(path.name)) for path in entries) > len(entries):
        return _of_platform(CANVAS, entries, OF_CANVAS)
    # after Canvas's: a file there may have such a name
    if any(OF_MOODLE.fullmatch(path.name) for path in entries):
        return _of_platform(MOODLE, entries, OF_MOODLE)
    handed_in = [path for path in entries
                 if path.is_dir() and not path.is_symlink() or archive(path)]
    # a report beside a student's archive is no second submission
    stems = {_stem(path) for path in handed_in}
    handed_in += [path for path in entries if path not in handed_in and path.is_file()
                  and (spellings.is_unread(path) or spellings.LONE.search(path.name))
                  and _stem(path) not in stems]
    of_name: dict[str, list[Path]] = {}
    for path in sorted(handed_in):
        of_name.setdefault(_stem(path), []).append(path)
    twice = {paths[0].name: f"there are {len(paths)} submissions of this name: "
             f"{', '.join(printable(path.name) for path in paths)}" for paths in of_name.values()
             if len(paths) > 1}
    repositories = bool(handed_in) and all(os.path.isdir(path / ".git") for path in handed_in)
    return _class("a folder of repositories, as GitHub Classroom makes it"
                  if repositories else "a folder, tar, zip or repository a student",
                  [(name, "", paths[0], None) for name, paths in of_name.items()],
                  [path for path in entries if path not in handed_in], refused=twice)


def alone(path: Path) -> Class:
    """A class of one: this is what a student handed in."""
    return _class("one submission", [("submission", "", path, None)], [])


def _stem(path: Path) -> str:
    return normalize("NFC", path.name) if path.is_dir() else spellings.stem(path.name)


def _class(layout: str, found: list[tuple[str, str, Path, bool | None]], ignored: list[Path],
           times: dict[str, str] | None = None, refused: dict[str, str] | None = None) -> Class:
    """
    Give every student a folder's name of its own, whatever the names hold. Another student's coming
    or going does not change it, unless the two are of one name. @times and @refused: by the name of
    the path.
    """
    submissions, used, plain = [], set[str](), [
        re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "student" for name, *_ in found]
    known = Counter(student.lower() for student in plain)
    for student, (name, ident, path, late) in zip(plain, found):
        if known[student.lower()] > 1 or not name.isascii() or len(name) > 60:
            of_name = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:8]
            student += f"-{ident if ident.isdecimal() else of_name}"
        while student.lower() in used:  # the name of another folder in IN may end like this
            student += "-2"
        used.add(student.lower())
        submissions.append(Submission(student, printable(name),
                                      ident, path, late, (times or {}).get(path.name, ""),
                                      (refused or {}).get(path.name, ""), layout if ident else ""))
    return Class(layout, submissions, [printable(path.name) for path in ignored])


def _gradescope(entries: list[Path], metadata: Path) -> Class:
    """Of the metadata only the submitters' names and addresses, and the time are read."""
    try:
        with metadata.open(encoding="utf-8", errors="replace") as file:
            known = yaml.load(file, Loader=yaml.CBaseLoader)  # it makes only texts, lists and dicts
        people, ids, times = dict[str, str](), dict[str, str](), dict[str, str]()
        for folder, about in known.items():
            submitters, times[folder] = about.get(":submitters", []), about.get(":created_at", "")
            people[folder] = " and ".join(of[":name"] for of in submitters if ":name" in of)
            email, sid = ([of[key] for of in submitters if key in of] for key in (":email", ":sid"))
            ids[folder] = " ".join(email or sid)
    except (yaml.YAMLError, AttributeError, TypeError) as why:
        said = " ".join(str(why).split())
        raise NoWalls(f"{printable(metadata.name)} is not what Gradescope writes: {said}") from why
    handed_in = [path for path in entries if re.fullmatch(r"submission_\d+", path.name)
                 and path.is_dir() and not path.is_symlink()]
    return _class(GRADESCOPE, [(people.get(path.name) or path.name,
                                ids.get(path.name, ""), path, None) for path in handed_in],
                  [path for path in entries if path not in (*handed_in, metadata)], times)


def _of_platform(layout: str, entries: list[Path], form: re.Pattern[str]) -> Class:
    """A student may have several files here: what was handed in is the archive among them, also
    one that is not read."""
    files: dict[str, list[tuple[re.Match[str], Path]]] = {}
    for path in entries:
        if found := form.fullmatch(path.name):
            files.setdefault(found["id"], []).append((found, path))
    kept: list[tuple[str, str, Path, bool | None]] = []
    refused = {}
    for ident, of in files.items():
        m, path = next((one for can in (archive, spellings.is_unread)
                        for one in of if can(one[1])), of[0])
        kept.append((m["name"], ident, path, bool(m["late"]) if layout == CANVAS else None))
        archives = [path for _, path in of if archive(path)]
        if archives and (why := several(archives)):
            refused[path.name] = why
    return _class(layout, sorted(kept, key=lambda of: of[0]) if layout == CANVAS else kept,
                  [path for path in entries if path not in {k[2] for k in kept}], refused=refused)
