"""Which files of a submission are taken, and which are refused; among them are archives that were
made to do harm."""

from __future__ import annotations

import argparse
import errno
import gzip
import io
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import unicodedata
import unittest
import zipfile
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from unittest.mock import patch

from grading.classroom import __main__ as main
from grading.classroom import intake, layouts, spellings, tree
from grading.classroom.intake import Taken, taken
from grading.tests.needs import user_namespaces
from kern.ftrace.tools import walls

PATCH, CALLER = "kern/ftrace/core/patch.c", "kern/ftrace/arm64/mcount_caller.S"
WANTED = (PATCH, CALLER)
COPIA = PATCH.replace("patch", "patch - cópia")
BOTH = {PATCH: b"int x;\n", CALLER: b"\tnop\n"}


def tar(members: list[tuple[str, bytes]], change: Callable[[tarfile.TarInfo],
                                                           None] = lambda info: None,
        form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, encoding="utf-8",
                      errors="surrogateescape") as file:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            change(info)
            file.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(members: list[tuple[str, bytes]], mode: int = 0o100644) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            file.writestr(info, data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


class Intake(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def take(self, data: bytes, name: str = "lab3.tar") -> Taken:
        (self.folder / name).write_bytes(data)
        return taken(self.folder / name, WANTED)

    def refused(self, data: bytes, why: str, name: str = "lab3.tar") -> None:
        got = self.take(data, name)
        self.assertIn(why, got.refused)
        self.assertEqual((got.files, got.missing), ({}, list(WANTED)))

    # ---- what is taken ----

    def test_the_tar_of_make_submit(self) -> None:
        self.assertEqual(self.take(tar(list(BOTH.items()))), Taken(BOTH))

    @user_namespaces
    def test_every_kind_of_archive(self) -> None:
        plain = tar(list(BOTH.items()))
        (self.folder / "plain").write_bytes(plain)
        for name in ("gzip", "bzip2", "xz"):
            packed = subprocess.run([name, "-c", self.folder / "plain"], capture_output=True,
                                    check=True).stdout
            self.assertEqual(self.take(packed, f"lab3.tar.{name}").files, BOTH, name)
        self.assertEqual(self.take(zipped(list(BOTH.items())), "lab3.zip").files, BOTH)

    def test_a_whole_tree_in_a_folder_of_any_name(self) -> None:
        more = [("class/Makefile", b"all:\n\trm -rf /\n"), ("class/kern/main.c", b""),
                ("class/old/" + PATCH, b"old\n")]
        got = self.take(tar([*more, *((f"class/{name}", data) for name, data in BOTH.items())]))
        self.assertEqual((got.files, got.missing, got.ignored),
                         (BOTH, [], ["class/Makefile", "class/kern/main.c", "class/old/" + PATCH]))

    def test_a_missing_file_is_named(self) -> None:
        got = self.take(tar([(PATCH, b"int x;\n")]))
        self.assertEqual((got.files, got.missing, got.refused),
                         ({PATCH: b"int x;\n"}, [CALLER], ""))
        self.assertEqual(self.take(tar([])).missing, list(WANTED))

    def test_a_folder_and_the_archive_in_it(self) -> None:
        for name, data in BOTH.items():
            (self.folder / "ann" / name).parent.mkdir(parents=True)
            (self.folder / "ann" / name).write_bytes(data)
        os.symlink("/etc/passwd", self.folder / "ann/notes")
        os.mkfifo(self.folder / "ann/pipe")
        got = taken(self.folder / "ann", WANTED)
        self.assertEqual((got.files, got.ignored), (BOTH, ["notes", "pipe"]))
        (self.folder / "bob").mkdir()
        (self.folder / "bob/lab3.tar").write_bytes(tar(list(BOTH.items())))
        self.assertEqual(taken(self.folder / "bob", WANTED), Taken(BOTH))
        (self.folder / "bob/other.zip").write_bytes(zipped(list(BOTH.items())))
        self.assertIn("it has 2 archives", taken(self.folder / "bob", WANTED).refused)

    def test_the_one_archive_in_an_archive(self) -> None:
        """Windows packs what it is told to pack: the tar of make submit, for example."""
        files = tar(list(BOTH.items()))
        unpacked = "lab3.tar was unpacked"
        got = self.take(zipped([("lab3.tar", files)]), "lab3.zip")
        self.assertEqual((got.files, got.notes, got.ignored), (BOTH, [unpacked], []))
        more = [("__MACOSX/._lab3.tar", b"\0"), ("report.pdf", b"%PDF-1.7"), ("lab3.tar", files)]
        got = self.take(zipped(more), "lab3.zip")
        self.assertEqual((got.files, got.notes, got.ignored), (BOTH, [unpacked], ["report.pdf"]))
        got = self.take(gzip.compress(tar([("a/b.zip", zipped(list(BOTH.items())))])), "lab3.tgz")
        self.assertEqual((got.files, got.notes), (BOTH, ["a/b.zip was unpacked"]))
        (self.folder / "ann/sub").mkdir(parents=True)
        (self.folder / "ann/sub/lab3.tar").write_bytes(files)
        self.assertEqual(taken(self.folder / "ann", WANTED).files, BOTH)

    def test_which_archives_in_an_archive_are_not_unpacked(self) -> None:
        files = tar(list(BOTH.items()))
        twice, other = zipped([("lab3.tar", files)]), tar([(PATCH, b"other\n")])
        for members in ([("a.zip", twice)], [("a.tar", files), ("b.tar", other)],
                        [("a.tar", b"cut")], [("a.tar", b"")],
                        [("a.tar", files + bytes(intake.LARGEST))]):
            got = self.take(zipped(members), "lab3.zip")
            self.assertEqual((got.files, got.why.partition("\n")[0]),
                             ({}, f"{members[0][0]} is not unpacked: hand in one archive of files"))
        with patch.object(intake, "UNPACKED", 1 << 20):
            bomb = gzip.compress(files + bytes(8 << 20))
            self.refused(zipped([("a.tar.gz", bomb)]), "it has more than 1 MiB, unpacked",
                         "lab3.zip")
        # beside the files of the lab it is another file
        got = self.take(zipped([*BOTH.items(), ("old.tar", other)]), "lab3.zip")
        self.assertEqual((got.files, got.ignored), (BOTH, ["old.tar"]))

    def repository(self, *commits: tuple[bytes, str]) -> Path:
        """Ann's: of each commit what every file holds, and the date. The tags are day1, day2, ...
        """
        at = self.folder / "ann"
        env = {
            **os.environ, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a",
            "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a"
        }
        subprocess.run(["git", "init", "-q", at], check=True)
        for day, (word, date) in enumerate(commits, 1):
            for name in BOTH:
                (at / name).parent.mkdir(parents=True, exist_ok=True)
                (at / name).write_bytes(word)
            for command in (["add", "-A"], ["commit", "-q", "-m", "."], ["tag", f"day{day}"]):
                subprocess.run(["git", "-C", at, *command], check=True,
                               env={**env, "GIT_COMMITTER_DATE": date})
        return at

    @user_namespaces
    def test_a_repository_at_a_tag_and_before_a_date(self) -> None:
        at = self.repository((b"first\n", "2030-01-01T12:00:00Z"),
                             (b"second\n", "2030-01-02T12:00:00Z"),
                             (b"third\n", "2030-01-03T12:00:00Z"))
        (at / PATCH).write_bytes(b"never committed\n")
        # A student's configuration names programs; within walls none of them reaches the host.
        (at / ".git/config").write_text(
            f"[core]\n\tfsmonitor = touch {self.folder}/ran\n\tpager = touch {self.folder}/ran\n"
            f"[alias]\n\tarchive = !touch {self.folder}/ran\n[tar \"tar\"]\n\tcommand = touch "
            f"{self.folder}/ran\n"
        )
        days = {b"first\n": 1, b"second\n": 2, b"third\n": 3}
        for tag, before, word in (("", "", b"third\n"), ("day1", "", b"first\n"),
                                  ("", "2030-01-03T00:00Z", b"second\n")):
            got = taken(at, WANTED, tag, before)
            self.assertEqual((got.files, got.committed[:19]),
                             (dict.fromkeys(BOTH, word), f"2030-01-0{days[word]}T12:00:00"),
                             (tag, before))
        self.assertIn("no commit before", taken(at, WANTED, "", "2029-01-01").refused)
        self.assertEqual(taken(at, WANTED, "lab3").refused, "it has no tag lab3")
        self.assertFalse((self.folder / "ran").exists())
        with patch.object(walls, "run", return_value=walls.Ended(None, b"", b"",
                                                                 "it took more than 9 seconds")):
            self.assertEqual(
                taken(at, WANTED).refused,
                "git does not come to an end: it took more than 9 seconds")

    def test_a_repository_is_made_of_files(self) -> None:
        """git would wait for a pipe's other end, which no limit of processor time ends."""
        for name in ("HEAD", "packed-refs", "shallow", "refs/heads/new", "objects/info/alternates"):
            at = self.repository((b"first\n", "2030-01-01T12:00:00Z"))
            (at / ".git" / name).unlink(missing_ok=True)
            os.mkfifo(at / ".git" / name)
            self.assertEqual(
                taken(at, WANTED).refused, f".git/{name} is neither a file nor a folder")
            shutil.rmtree(at)
        (self.repository(
            (b"first\n", "2030-01-01T12:00:00Z")) / ".git/refs/heads/new").symlink_to("/dev/ptmx")
        self.assertEqual(
            taken(at, WANTED).refused, ".git/refs/heads/new is neither a file nor a folder")

    def test_git_verifies_no_signature(self) -> None:
        """An archive's file may ask for that at each of its words, and each starts gpg."""
        with patch.object(walls, "run", return_value=walls.Ended(0, b"", b"")) as run:
            intake.git(Path("/x"), "archive", "HEAD")
        words = run.call_args[0][0]
        self.assertEqual([word for word in words if word.startswith("gpg.")],
                         [f"gpg.{form}.program=/none" for form in ("openpgp", "x509", "ssh")])

    @user_namespaces
    def test_a_bare_repository_of_any_name(self) -> None:
        at = self.repository((b"first\n", "2030-01-01T12:00:00Z"))
        (at / ".git").rename(self.folder / "bo")
        self.assertEqual(taken(self.folder / "bo", WANTED).files, dict.fromkeys(BOTH, b"first\n"))
        (self.folder / "cy").mkdir()
        for name in ("HEAD", "objects", "refs"):
            os.symlink(self.folder / "bo" / name, self.folder / "cy" / name)
        self.assertEqual(taken(self.folder / "cy", WANTED).files, {})

    @user_namespaces
    def test_a_time_without_a_zone_is_this_machine_s(self) -> None:
        self.addCleanup(time.tzset)
        self.repository((b"in time\n", "2030-02-01T23:58:00-05:00"),
                        (b"late\n", "2030-02-02T00:01:00-05:00"))
        with patch.dict(os.environ, {"TZ": "EST5"}), patch.object(tree, "written",
                                                                  return_value=WANTED):
            time.tzset()
            with patch("sys.argv", [
                    "grade-class", "--lab", "3", "--in", "a", "--out", "b", "--before",
                    "2030-02-01 23:59"
            ]):
                options = main.arguments()
            [entry] = main.take(options, {}, layouts.find(self.folder))
        self.assertEqual(entry.taken.files, dict.fromkeys(BOTH, b"in time\n"))
        for none in ("tomorow", "2030-02-31"):
            with patch("sys.argv",
                       ["grade-class", "--lab", "3", "--in", "a", "--out", "b", "--before", none
                        ]), redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                main.arguments()

    # ---- what is refused ----

    def test_a_link_a_device_and_a_fifo_in_the_place_of_a_file(self) -> None:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE,
                     tarfile.FIFOTYPE):
            def change(info: tarfile.TarInfo, kind: bytes = kind) -> None:
                info.type, info.linkname, info.size = (kind, "/etc/shadow",
                                                       0) if info.name == PATCH else (info.type, "",
                                                                                      info.size)

            self.refused(tar([(PATCH, b""), (CALLER, b"x\n")], change),
                         f"{PATCH} is a link or a device")
        self.refused(zipped([(PATCH, b"/etc/shadow")], 0o120777), f"{PATCH} is a link or a device",
                     "lab3.zip")
        (self.folder / "ann" / PATCH).parent.mkdir(parents=True)
        os.symlink("/etc/passwd", self.folder / "ann" / PATCH)
        self.assertIn(f"{PATCH} is a link", taken(self.folder / "ann", WANTED).refused)

    def test_a_folder_that_is_a_link_is_not_entered(self) -> None:
        (self.folder / "real" / PATCH).parent.mkdir(parents=True)
        (self.folder / "real" / PATCH).write_bytes(b"of another student\n")
        (self.folder / "ann").mkdir()
        os.symlink(self.folder / "real/kern", self.folder / "ann/kern")
        self.assertEqual(taken(self.folder / "ann", WANTED).files, {})
        os.symlink(self.folder / "real", self.folder / "bob")
        self.assertEqual(taken(self.folder / "bob", WANTED).refused, "it is a link")

    def test_a_file_twice(self) -> None:
        self.refused(tar([(PATCH, b"one\n"), (f"./{PATCH}", b"two\n")]),
                     f"{PATCH} is there 2 times")
        self.refused(tar([(PATCH, b"one\n"), (f"./{PATCH}", b"two\n")]),
                     f"{PATCH} is there 2 times, and not with the same content: {PATCH}, ./{PATCH}")
        self.refused(tar([(f"a/{PATCH}", b""), (f"b/{PATCH}", b"x")]), "in several folders: a, b")
        self.refused(tar([(f"a/{PATCH}", b""), (f"b/{CALLER}", b"")]), "in several folders: a, b")
        same = self.take(tar([(f"{at}/{name}", b"") for at in "ab" for name in BOTH]))
        self.assertEqual((same.files, same.ignored_count), (dict.fromkeys(BOTH, b""), 2))

    def test_paths_that_leave_the_archive(self) -> None:
        outside = [
            f"../../{PATCH}", f"a/../{PATCH}", "../../../../etc/cron.d/x", f"..\\{PATCH}",
            f"C:\\a\\..\\{PATCH}"
        ]
        got = self.take(tar([(name, b"x\n") for name in outside]))
        self.assertEqual((got.files, got.ignored), ({}, outside))
        self.assertEqual([path.name for path in self.folder.iterdir()], ["lab3.tar"])

    def test_names_that_no_terminal_should_get(self) -> None:
        got = self.take(
            tar([("a\nb\x1b[2J", b""), ("<script>", b""), ("\udcff\udcfe", b"")],
                form=tarfile.GNU_FORMAT))
        self.assertEqual(got.ignored, ["a\\x0ab\\x1b[2J", "<script>", "\\xdcff\\xdcfe"])

    def test_bytes_that_are_no_utf_8_are_kept(self) -> None:
        """An accent in a comment, as Windows wrote it for decades."""
        for data in (b"/* d\xe9j\xe0 vu */\n", b"\xef\xbb\xbfint x;\r\n", b"int \xff;\n"):
            self.assertEqual(self.take(tar([(PATCH, data)])).files, {PATCH: data})

    def test_text_that_is_none(self) -> None:
        self.refused(tar([(PATCH, "int x;".encode("utf-16"))]), "is text in UTF-16")
        self.refused(tar([(PATCH, b"int\0x;\n")]), "has a NUL character")
        self.refused(tar([(PATCH, "int x;\n".encode("utf-16-le"))]),
                     "has a NUL character, as text in UTF-16 has many: save it as UTF-8")

    def test_an_upload_that_failed_is_an_empty_file(self) -> None:
        got = self.take(tar([(PATCH, b""), (CALLER, b"\tnop\n")]))
        self.assertEqual((got.files[PATCH], got.notes), (b"", [f"{PATCH} is empty"]))

    def test_a_file_that_is_too_large_or_cut_off(self) -> None:
        self.refused(tar([(PATCH, bytes(intake.LARGEST + 1))]), f"has {intake.LARGEST + 1} bytes")
        self.refused(
            tar([(PATCH, b"x" * 5000)])[:1500], "it cannot be read: unexpected end of data")

    def test_bombs(self) -> None:
        with patch.object(intake, "UNPACKED", 1 << 20):
            self.refused(
                gzip.compress(
                    tar([*((f"zeros{n}", bytes(1 << 20)) for n in range(8)), *BOTH.items()])),
                "it has more than 1 MiB, unpacked", "lab3.tar.gz")
        bomb = io.BytesIO()
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(PATCH, bytes(64 << 20))
        self.refused(bomb.getvalue(), f"{PATCH} has {64 << 20} bytes", "lab3.zip")

    def test_zeros_after_a_tar_s_end_are_a_bomb_too(self) -> None:
        with patch.object(intake, "UNPACKED", 1 << 20):
            for before in (b"", tar(list(BOTH.items()))):
                self.refused(gzip.compress(before + bytes(8 << 20)),
                             "it has more than 1 MiB, unpacked, which is the limit: that was "
                             "reached after ", "lab3.tar.gz")
        self.assertEqual(self.take(tar(list(BOTH.items())) + b"more").files, BOTH)

    def test_a_folder_that_is_too_deep(self) -> None:
        for deep, refused in ((intake.DEEPEST, False), (intake.DEEPEST + 1, True), (1500, True)):
            (self.folder / "ann").mkdir()
            at = os.open(self.folder / "ann", os.O_RDONLY)
            for _ in range(deep):
                os.mkdir("d", dir_fd=at)
                below = os.open("d", os.O_RDONLY, dir_fd=at)
                os.close(at)
                at = below
            os.close(at)
            said = taken(self.folder / "ann", WANTED).refused
            self.assertEqual(said.partition(": d/d/d/")[0],
                             "its folders are more than 100 levels deep, which is the limit"
                             if refused else "")
            subprocess.run(["rm", "-r", self.folder / "ann"], check=True)

    def test_a_pax_header_that_claims_a_terabyte(self) -> None:
        def change(info: tarfile.TarInfo) -> None:
            info.pax_headers = {"size": str(1 << 40), "path": PATCH}
        self.refused(tar([(PATCH, b"x\n")], change), f"{PATCH} has {1 << 40} bytes")

    def test_ten_thousand_files_and_too_many(self) -> None:
        many = [(f"build/{n}", b"") for n in range(10_000)]
        got = self.take(tar([*many, *BOTH.items()]))
        self.assertEqual((got.files, got.ignored_count, len(got.ignored)),
                         (BOTH, 10_000, intake.SHOWN))
        with patch.object(intake, "MEMBERS", 9_000):
            self.refused(tar(many), "more than 9000 files and folders")
        self.refused(tar([(f"{n}/{PATCH}", b"") for n in range(100)]),
                     "more than 64 files of the names")

    def test_what_is_no_archive(self) -> None:
        for data in (b"", b"nothing", b"PK\x03\x04" + bytes(100), b"\x1f\x8b" + bytes(100),
                     b"\xfd7zXZ\0" + bytes(100)):
            got = self.take(data)
            self.assertEqual(got.files, {}, data)
            self.assertTrue(got.refused, data)
        for data in (b"", b"nothing", b"nothing" * 1000):
            self.refused(data, "it is no tar and no zip")

    def test_what_stops_its_reader_stops_only_itself(self) -> None:
        def endless(*_: object) -> Taken:
            while True:
                pass
        with patch.object(intake, "SECONDS", 1), patch.object(intake, "read", endless):
            self.refused(b"", "takes more than 1 seconds of a processor")
        with patch.object(intake, "read", lambda *_: os.abort()):
            self.refused(b"", "takes more than")

    # ---- names that systems change ----

    def test_each_change_of_the_table(self) -> None:
        for who, _, _, example in spellings.CHANGES:
            self.assertEqual(spellings.plain(example), "mcount.S", who)
        for name in ("mcount.S", "core", "riscv64", "fgraph_one.c", "kprobe_hit.c", "(1)", "-1"):
            self.assertEqual(spellings.plain(name), name)

    def test_a_file_is_known_by_what_systems_make_of_its_name(self) -> None:
        folder, _, last = PATCH.rpartition("/")
        names = [example.replace("mcount.S", last).replace("mcount", "patch").replace(".S", ".c")
                 for _, _, _, example in spellings.CHANGES]
        for name in [
            *(f"{folder}/{name}" for name in names), PATCH.replace("/", "\\"),
            f"C:\\Users\\ann\\{PATCH}", f"/home/ann/callsite/{PATCH}", f"home/ann/lab 3/{PATCH}",
            PATCH.upper(), f"{folder.upper()}/{last}", f"{folder}/patch.C",
            PATCH.replace("ftrace", "ftrace (1)"), f"lab3 - Copy/{PATCH}", COPIA,
            unicodedata.normalize("NFD", COPIA),
        ]:
            for got in (self.take(tar([(name, b"x\n")])),
                        self.take(zipped([(name, b"x\n")]), "lab3.zip")):
                self.assertEqual((got.files, got.refused), ({PATCH: b"x\n"}, ""), name)
                exact = spellings.parts(name)[-4:] == PATCH.split("/")
                self.assertEqual(got.notes[:1], [] if exact else [f"{name} was taken as {PATCH}"])

    def test_windows_folders_in_a_zip(self) -> None:
        got = self.take(zipped([("kern\\", b""), *(
            (name.replace("/", "\\"), data) for name, data in BOTH.items())]), "lab3.zip")
        self.assertEqual((got.files, got.ignored_count, got.notes), (BOTH, 0, []))

    def test_two_files_that_can_be_meant(self) -> None:
        copy, upper = PATCH.replace("patch.c", "patch (1).c"), PATCH.upper()
        self.refused(tar([(PATCH, b"one\n"), (copy, b"two\n")]),
                     f"{PATCH} is there 2 times, and not with the same content: {PATCH}, {copy}")
        other = PATCH.replace("patch", "Patch")
        self.refused(tar([(other, b"one\n"), (upper, b"two\n")]),
                     f"{PATCH} is there 2 times, and not with the same content: {other}, {upper}")
        self.assertEqual(self.take(tar([(PATCH, b"x\n"), (copy, b"x\n")])).files, {PATCH: b"x\n"})
        # gcc -save-temps makes mcount_caller.s of mcount_caller.S
        got = self.take(tar([*BOTH.items(), (CALLER.replace(".S", ".s"), b"# 1\n")]))
        self.assertEqual((got.files, got.ignored), (BOTH, [CALLER.replace(".S", ".s")]))

    def test_letters_that_only_look_the_same_are_other_letters(self) -> None:
        for wanted, letter, like in ((PATCH, "c", "\u0441"), (CALLER, "S", "\u017f")):
            name = wanted.replace(letter, like)
            got = self.take(tar([(name, b"x\n")]))
            self.assertEqual((got.files, got.why), ({}, f"{name}: did you mean {wanted}?"))

    def test_what_systems_add_is_nobody_s(self) -> None:
        added = [f"__MACOSX/{PATCH}", f"__MACOSX/._{PATCH}", PATCH.replace("patch", "._patch"),
                 "kern/.DS_Store", "Thumbs.db", "kern/desktop.ini"]
        got = self.take(zipped([*BOTH.items(), *((name, b"\0") for name in added)]), "lab3.zip")
        self.assertEqual(got, Taken(BOTH))
        (self.folder / "ann").mkdir()
        (self.folder / "ann/lab3.tar").write_bytes(tar(list(BOTH.items())))
        (self.folder / "ann/._lab3.tar").write_bytes(b"Mac OS X")
        self.assertEqual(taken(self.folder / "ann", WANTED).files, BOTH)

    def test_what_was_seen_and_what_was_expected_is_said(self) -> None:
        said: list[tuple[list[str], str]] = [
            (["patch.c"], f"patch.c: did you mean {PATCH}?"),
            ([PATCH.replace("patch", "pacth")],
             f"{PATCH.replace('patch', 'pacth')}: did you mean {PATCH}?"),
            (["a/core/PATCH.c.txt", "x"], f"a/core/PATCH.c.txt: did you mean {PATCH}?"),
            (["caller.S"], f"caller.S: did you mean {CALLER}?"),
            (["b\x1b[2J/patch.c"], f"b\\x1b[2J/patch.c: did you mean {PATCH}?"),
            ([f"../{PATCH}"], f"../{PATCH}: did you mean {PATCH}? A path with .. is not taken"),
            (["README", "x"], f"it has README, x; what is graded is {PATCH}, {CALLER}"),
            ([], f"it has no file; what is graded is {PATCH}, {CALLER}"),
            (["in/lab3.zip"], "in/lab3.zip is not unpacked: hand in one archive of files"),
            (["a.7z"], "a.7z: an archive of this kind is not read; hand in a .zip or .tar.gz")]
        for names, why in said:
            got = self.take(tar([(name, b"") for name in names]))
            self.assertEqual((got.files, got.refused, got.why), ({}, "", why))
        got = self.take(tar([(PATCH, b"x\n"), ("arm64/mcount_caler.S", b"")]))
        self.assertEqual((got.missing, got.notes, got.why),
                         ([CALLER], [f"arm64/mcount_caler.S: did you mean {CALLER}?"], ""))
        both = ("kern/ftrace/riscv64/mcount.S", "kern/ftrace/arm64/mcount.S")
        (self.folder / "bo_18_202_mcount-1.S").write_bytes(b"\tret\n")
        self.assertEqual(
            taken(self.folder / "bo_18_202_mcount-1.S", both).refused,
            f"bo_18_202_mcount-1.S: it is no tar and no zip; bo_18_202_mcount-1.S: did you mean "
            f"{both[0]} or {both[1]}?")

    def test_a_thousand_names_are_compared_in_time(self) -> None:
        began = time.process_time()
        spellings.nearest([f"{'patch.' * 40}{n}" for n in range(2000)], [PATCH] * 10)
        self.assertLess(time.process_time() - began, intake.SECONDS / 2)

    def test_a_kind_of_file_that_is_not_read(self) -> None:
        for name, data in (("answer.rar", b""), ("answer.zip", b"Rar!\x1a\x07\x01"),
                           ("a.7z", b"7z\xbc\xaf\x27\x1c"), ("answer.pdf", b"%PDF-1.7"),
                           ("answer.docx", zipped([("word/document.xml", b"")]))):
            why = f"{name}: an archive of this kind is not read; hand in a .zip or .tar.gz"
            self.assertEqual(self.take(data, name).refused, why)
            (self.folder / "ann").mkdir()
            (self.folder / "ann" / name).write_bytes(data)
            got = taken(self.folder / "ann", WANTED)
            self.assertEqual((got.files, got.why), ({}, why))
            shutil.rmtree(self.folder / "ann")
        self.assertEqual(self.take(zipped(list(BOTH.items())), "a.rar").files, BOTH)

    # ---- what is no student's fault ----

    def test_what_this_machine_cannot_read_is_no_student_s_fault(self) -> None:
        """A download that this user may not read, or a full disk, would be 0 points for a student.
        """
        for number in (errno.EACCES, errno.EIO, errno.ENOSPC):
            for name in ("lstat", "open", "scandir"):
                (self.folder / "ann" / PATCH).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / "ann" / PATCH).write_bytes(b"int x;\n")
                with patch.object(os, name,
                                  side_effect=OSError(number,
                                                      os.strerror(number))), self.assertRaisesRegex(
                                                          walls.NoWalls,
                                                          f"ann.*{os.strerror(number)}", msg=name):
                    taken(self.folder / "ann", WANTED)
        # as bz2 says it
        with patch.object(intake, "read", side_effect=OSError("Invalid data stream")):
            self.refused(b"", "it cannot be read: Invalid data stream")
        with patch.object(intake, "read", lambda *_: os.kill(os.getpid(), signal.SIGKILL)), \
                self.assertRaisesRegex(walls.NoWalls, "was killed"):
            self.take(b"")


class Layouts(unittest.TestCase):
    def class_of(self, *names: str, metadata: str = "") -> layouts.Class:
        with tempfile.TemporaryDirectory() as scratch:
            for name in names:
                path = Path(scratch, name)
                path.mkdir(parents=True) if name.endswith("/") else path.write_text(name)
            if metadata:
                Path(scratch, "submission_metadata.yml").write_text(metadata)
            return layouts.find(Path(scratch))

    def people(self, found: layouts.Class) -> list[tuple[str, str, str, str, bool | None]]:
        return [(s.student, s.name, s.ident, s.path.name, s.late) for s in found.submissions]

    def test_gradescope(self) -> None:
        found = self.class_of(
            "submission_11/", "submission_12/", "notes.txt",
            metadata="submission_11:\n  :submitters:\n  - :name: Ann O'Neil\n    :sid: '7'\n"
            "    :email: ann@example.edu\n  :created_at: 2030-01-31 22:59:00.123456000 Z\n  "
            ":history:\n  - :id: 1\n    :created_at: 2030-01-01 00:00:00.000000000 "
            "Z\nsubmission_12:\n  :submitters:\n  - :name: Bo\n    :sid: '8'\n  - :name: Cy\n    "
            ":sid: '9'\n"
        )
        self.assertEqual(found.layout, "Gradescope's export")
        self.assertEqual(self.people(found),
                         [("Ann-O-Neil", "Ann O'Neil", "ann@example.edu", "submission_11", None),
                          ("Bo-and-Cy", "Bo and Cy", "8 9", "submission_12", None)])
        self.assertEqual([s.submitted for s in found.submissions],
                         ["2030-01-31 22:59:00.123456000 Z", ""])
        self.assertEqual(found.ignored, ["notes.txt"])

    def test_gradescope_s_names_are_quoted_as_in_yaml(self) -> None:
        for written, name in (("'Seán O''Brien'", "Seán O'Brien"), (r'"Zo\xEB \"Z\" Öz"',
                                                                    'Zoë "Z" Öz'),
                              ("Ann#1  # a comment", "Ann#1"), ("'7'", "7"), ("~", "~")):
            found = self.class_of("submission_11/", metadata="submission_11:\n  :submitters:\n"
                                  f"  - :name: {written}\n    :sid: '7'\n")
            self.assertEqual([s.name for s in found.submissions], [name])

    def test_gradescope_s_metadata_that_is_no_yaml(self) -> None:
        """It may be cut: then nobody's name is known, and that is no student's fault."""
        for cut in ("submission_11:\n  :submitters:\n  - :name: 'Ann", "- 1\n",
                    "submission_11: 7\n"):
            with self.assertRaisesRegex(walls.NoWalls, "submission_metadata.yml is not", msg=cut):
                self.class_of("submission_11/", metadata=cut)

    def test_gradescope_s_metadata_holds_what_a_student_printed(self) -> None:
        said = "".join(f"{' ' * indent}{dash}:{name}: the victim's\n" for indent in (8, 10, 12)
                       for dash in ("", "- ") for name in ("name", "email", "sid"))
        found = self.class_of(
            "submission_11/", metadata=
            "submission_11:\n  :submitters:\n  - :name: Ann\n    :sid: '7'\n    :email: "
            "ann@example.edu\n  :results:\n    :output: |-\n"
            f"{said}  :history:\n  - :id: 1\n    :results:\n      :output: |\n{said}")
        self.assertEqual(self.people(found),
                         [("Ann", "Ann", "ann@example.edu", "submission_11", None)])

    def test_moodle(self) -> None:
        found = self.class_of("Ann O_1001_assignsubmission_file_/",
                              "Bo_1002_assignsubmission_file_lab3.tar")
        self.assertEqual([(name, ident) for _, name, ident, _, _ in self.people(found)],
                         [("Ann O", "1001"), ("Bo", "1002")])

    def test_a_student_of_moodle_with_several_files_is_one_student(self) -> None:
        """Moodle would take the last line of moodle.csv with the student's number."""
        of = "Bo_1002_assignsubmission_file_"
        found = self.class_of(f"{of}README.txt", f"{of}lab3.tar", f"{of}notes.txt",
                              "Ann_1001_assignsubmission_file_lab3.tar")
        self.assertEqual(self.people(found),
                         [("Ann", "Ann", "1001", "Ann_1001_assignsubmission_file_lab3.tar", None),
                          ("Bo", "Bo", "1002", f"{of}lab3.tar", None)])
        self.assertEqual(found.ignored, [f"{of}README.txt", f"{of}notes.txt"])
        found = self.class_of(f"{of}lab2.tar", f"{of}lab3.tar")
        why = f"it has 2 archives that are not the same: {of}lab2.tar, {of}lab3.tar"
        self.assertEqual([s.refused for s in found.submissions], [why])
        [entry] = main.take(argparse.Namespace(lab=3, tag="", before=None), {}, found)
        self.assertEqual((entry.taken.files, entry.taken.refused), ({}, why))

    def test_canvas(self) -> None:
        """The second number is the file's, and all files of a student are of one submission."""
        found = self.class_of("oneilann_17_200_lab3.tar", "oneilann_17_201_notes.txt",
                              "bo_LATE_18_202_lab3.zip")
        self.assertEqual(self.people(found),
                         [("bo", "bo", "18", "bo_LATE_18_202_lab3.zip", True),
                          ("oneilann", "oneilann", "17", "oneilann_17_200_lab3.tar", False)])
        self.assertEqual(found.ignored, ["oneilann_17_201_notes.txt"])
        found = self.class_of("bo_18_202_lab2.tar", "bo_18_203_lab3.tar")
        self.assertEqual([s.refused for s in found.submissions], [
            "it has 2 archives that are not the same: bo_18_202_lab2.tar, bo_18_203_lab3.tar"
        ])

    def test_a_kind_of_archive_that_is_not_read_has_a_row(self) -> None:
        found = self.class_of("ann.rar", "bo.7z", "cy.zip", "cy.pdf", "di/", "di.docx", "eli.PDF",
                              "notes.txt", "__MACOSX/", "._cy.zip")
        self.assertEqual([(s.student, s.path.name) for s in found.submissions],
                         [("ann", "ann.rar"), ("bo", "bo.7z"), ("cy", "cy.zip"), ("di", "di"),
                          ("eli", "eli.PDF")])
        self.assertEqual(found.ignored,
                         ["cy.pdf", "di.docx", "notes.txt", "._cy.zip", "__MACOSX"])
        found = self.class_of("bo_18_202_notes.txt", "bo_18_203_lab3.rar", "cy_19_204_cover.docx",
                              "cy_19_205_lab3.zip")
        self.assertEqual([s.path.name for s in found.submissions],
                         ["bo_18_203_lab3.rar", "cy_19_205_lab3.zip"])

    def test_a_stray_file_does_not_hide_whose_download_it_is(self) -> None:
        """As any folder of archives, it would lose the names, the numbers and what is late."""
        more = ["Thumbs.db", "__MACOSX"]
        found = self.class_of(*more, "bo_LATE_18_202_lab3.zip", "cy_19_203_lab3.zip",
                              "di_20_204_lab3.zip")
        self.assertEqual([(s.ident, s.late) for s in found.submissions], [("18", True),
                                                                          ("19", False),
                                                                          ("20", False)])
        self.assertEqual(found.ignored, more)
        text = "Ann_1001_assignsubmission_onlinetext_"
        found = self.class_of(*more, text, "Ann_1001_assignsubmission_file_/")
        self.assertEqual([(s.name, s.ident) for s in found.submissions], [("Ann", "1001")])
        self.assertEqual(found.ignored, [text, *more])
        self.assertEqual(
            len(self.class_of("ann.tar", "bo.tar", "the_18_202_others.tar").submissions), 3)

    def test_a_file_of_canvas_may_have_a_name_as_in_moodle(self) -> None:
        found = self.class_of("annlee_17_201_x_1_assignsubmission_file_y.tar",
                              "bocox_18_202_lab3.tar", "cydee_19_203_lab3.tar")
        self.assertEqual((found.layout, [s.ident for s in found.submissions]),
                         (layouts.CANVAS, ["17", "18", "19"]))

    def test_a_file_s_name_does_not_make_it_another_student_s(self) -> None:
        found = self.class_of(
            "Ann_1001_assignsubmission_file_x_1002_assignsubmission_file_lab3.tar",
            "Bo_1002_assignsubmission_file_lab3.tar")
        self.assertEqual([(s.name, s.ident, s.refused) for s in found.submissions],
                         [("Ann", "1001", ""), ("Bo", "1002", "")])

    def test_repositories(self) -> None:
        self.assertIn("GitHub Classroom", self.class_of("lab3-ann/.git/", "lab3-bo/.git/").layout)

    def test_any_names(self) -> None:
        found = self.class_of("ann/", "Ann.tar", "a\nb\x1b[2J.tar", "$(reboot).tar.gz", "...",
                              "README", "Жанна/", "ann-49915e0d.zip")
        self.assertEqual([(student, name) for student, name, *_ in self.people(found)],
                         [("reboot", "$(reboot)"), ("Ann-b5710856", "Ann"),
                          ("a-b-2J", "a\\x0ab\\x1b[2J"), ("ann-49915e0d", "ann"),
                          ("ann-49915e0d-2", "ann-49915e0d"), ("student-22100eb1", "Жанна")])
        self.assertEqual(found.ignored, ["README", "..."])

    def test_another_student_does_not_change_whose_folder_it_is(self) -> None:
        """The folder has the student's earlier results."""
        names = [
            "Ан Иванов_1001_assignsubmission_file_/", "李 梅_1002_assignsubmission_file_/",
            "Ann Lee_1003_assignsubmission_file_/"
        ]
        folders = {s.ident: s.student for s in self.class_of(*names).submissions}
        self.assertEqual(folders,
                         {"1001": "student-1001", "1002": "student-1002", "1003": "Ann-Lee"})
        self.assertLessEqual(
            folders.items(), {
                s.ident: s.student
                for s in self.class_of("丁 一_1000_assignsubmission_file_/", *names).submissions
            }.items())
        self.assertEqual([
            s.student
            for s in self.class_of(names[2], "Ann Lee_1004_assignsubmission_file_/").submissions
        ], ["Ann-Lee-1003", "Ann-Lee-1004"])

    def test_an_archive_is_one_whatever_its_name(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            at = Path(scratch)
            for name, data in (("ann.TAR", b""), ("bo", tar(list(BOTH.items()))),
                               ("cy", gzip.compress(tar(list(BOTH.items())))),
                               ("di", zipped(list(BOTH.items()))), ("eli.Zip", b""), ("notes",
                                                                                      b"n" * 1024),
                               ("photo", gzip.compress(b"n" * 1024)), ("zeros", bytes(1024))):
                (at / name).write_bytes(data)
            found = layouts.find(at)
            self.assertEqual([s.student for s in found.submissions],
                             ["ann", "bo", "cy", "di", "eli"])
            self.assertEqual(found.ignored, ["notes", "photo", "zeros"])
            self.assertEqual([taken(s.path, WANTED).files for s in found.submissions[1:4]],
                             [BOTH] * 3)

    def test_two_submissions_of_one_name_are_one_student_without_points(self) -> None:
        found = self.class_of("one.tar", "two.tar", "two.zip", "two/")
        self.assertEqual([(s.student, s.refused) for s in found.submissions],
                         [("one", ""),
                          ("two", "there are 3 submissions of this name: two, two.tar, two.zip")])
        self.assertEqual(found.ignored, [])

    def test_a_name_in_composed_and_in_decomposed_unicode_is_one(self) -> None:
        """macOS takes accents apart, and others do not: what looks like one student is one."""
        composed, apart = (unicodedata.normalize(form, "Zoë Ö") for form in ("NFC", "NFD"))
        found = self.class_of(f"{composed}.tar", f"{apart}/")
        self.assertEqual([(s.name, s.refused) for s in found.submissions],
                         [(composed, f"there are 2 submissions of this name: {apart}, "
                           f"{composed}.tar")])

    def test_a_lone_file_that_a_student_may_have_written_has_a_row(self) -> None:
        """Else it would be missed in a list of what is ignored."""
        found = self.class_of("ann.S", "bo.c", "cy.S.gz", "di.s", "eli/", "eli.c", "README",
                              "notes.txt")
        self.assertEqual([s.path.name for s in found.submissions],
                         ["ann.S", "bo.c", "cy.S.gz", "di.s", "eli"])
        self.assertEqual(found.ignored, ["README", "eli.c", "notes.txt"])

    def test_a_hidden_entry_is_ignored_and_listed(self) -> None:
        for others in (["ann.tar"], ["Ann_1001_assignsubmission_file_/"], ["ann_17_200_lab3.tar"]):
            found = self.class_of(".DS_Store", ".bo.tar", *others)
            self.assertEqual((len(found.submissions), found.ignored), (1, [".DS_Store", ".bo.tar"]))


if __name__ == "__main__":
    unittest.main()
