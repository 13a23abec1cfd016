"""Runs the commands and files of docs/platforms.md, as they are printed there."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import tarfile
import tempfile
import unittest
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml  # type: ignore[import]

from grading.classroom import one, platforms, tree
from grading.tests.needs import user_namespaces
from qemu.machine import ROOT

PAGE = (ROOT / "docs/platforms.md").read_text()


def block(title: str) -> str:
    """The page's text of the file of that name."""
    found = re.search(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```$', PAGE, re.M | re.S)
    assert found, title
    return found[1]


class Cluster(unittest.TestCase):
    """OUT has two jobs, in whose tree nothing but what was handed out can be built: their result is
    there at once."""

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.out = Path(scratch.name).resolve()
        for name in ("todo", "tmp", "tree/build"):
            (self.out / name).mkdir(parents=True)
        (self.out / "tree/Makefile").write_text(
            "%:\n\t@test $(notdir $(CURDIR)) = handed-out || { echo 'build failure: it does not "
            "compile'; exit 2; }\n"
        )
        for name in tree.written(1):
            (self.out / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.out / "tree" / name).touch()
        self.keys = [letter * 64 for letter in "ab"]
        (self.out / "todo/keys").write_text("".join(f"{key}\n" for key in self.keys))
        for key in self.keys:
            job = {
                "key": key, "lab": 1, "seeds": ["0" * 16], "tree": str(self.out / "tree"),
                "files": {}, "possible": 200, "students": key[0]
            }
            (self.out / f"todo/{key}.json").write_text(json.dumps(job))

    def graded_second(self, script: str, settings: dict[str, str]) -> None:
        """The script grades the second job, and only that."""
        for broken in (False, True):
            if broken:  # then that is no score, and the cluster is told
                (self.out /
                 "tree/Makefile").write_text("%:\n\t@echo 'gcc: No space left on device'; exit 2\n")
            done = subprocess.run(["/bin/bash", "-c", script], cwd=ROOT,
                                  env={**os.environ, "OUT": str(self.out),
                                       **settings}, capture_output=True, text=True, check=False)
            self.assertEqual([path.name for path in (self.out / "graded").iterdir()], self.keys[1:],
                             done.stderr)
            result = json.loads((self.out / "graded" / self.keys[1] / "result.json").read_text())
            self.assertEqual((done.returncode, result["state"], result["points"]),
                             (1, "harness error", None) if broken else (0, "build failure", 0),
                             done.stderr)
            self.assertEqual(list((self.out / "tmp").iterdir()), [])

    def above_the_sandbox(self, memory: list[str]) -> None:
        """Or a submission between the two limits would be graded here, and there have no score."""
        assert one.LIMITS.together
        self.assertGreater(int(memory[0]) << 30, one.LIMITS.together)

    @user_namespaces
    def test_slurm(self) -> None:
        script = block("callsite.sbatch")
        self.assertTrue(script.startswith("#! /bin/bash\n#SBATCH "))
        self.above_the_sandbox(re.findall(r"--mem=(\d+)G", script))
        self.graded_second(script, {"SLURM_ARRAY_TASK_ID": "2"})

    @user_namespaces
    def test_kubernetes(self) -> None:
        job: dict[str, Any] = yaml.safe_load(block("callsite-job.yaml"))
        self.assertEqual((job["apiVersion"], job["kind"], job["spec"]["completionMode"]),
                         ("batch/v1", "Job", "Indexed"))
        pod = job["spec"]["template"]["spec"]
        self.assertEqual({v["name"]
                          for v in pod["volumes"]},
                         {m["name"]
                          for m in pod["containers"][0]["volumeMounts"]})
        self.above_the_sandbox(
            [pod["containers"][0]["resources"]["limits"]["memory"].removesuffix("Gi")])
        shell, option, script = pod["containers"][0]["command"]
        self.assertEqual((shell, option), ("/bin/bash", "-c"))
        self.graded_second(script, {"JOB_COMPLETION_INDEX": "1"})


class Gradescope(unittest.TestCase):
    """The autograder is unpacked as Gradescope does it, in a file system that has an /autograder.
    Another program takes the place of the class's."""

    CLASS = """import sys
from pathlib import Path
at = {name: sys.argv[sys.argv.index(name) + 1] for name in ("--lab", "--in", "--out")}
folder = Path(at["--out"], "students/submission")
folder.mkdir(parents=True)
said = Path(at["--in"], "patch.c").read_text()
for name in ("results.json", "prairielearn.json"):
    (folder / name).write_text(f"{name}: lab {at['--lab']}, {said}")
sys.exit(3 if said == "broken" else 0)
"""

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.at = Path(scratch.name).resolve()
        for name in ("source", "submission", "results", "grade/student"):
            (self.at / name).mkdir(parents=True)
        platforms.gradescope(self.at / "autograder.zip", 1, "7")
        subprocess.run([
            "/usr/bin/python3", "-m", "zipfile", "-e", self.at / "autograder.zip",
            self.at / "source"
        ], check=True)
        for name in ("setup.sh", "run_autograder"):  # unzip keeps the modes
            (self.at / "source" / name).chmod(0o755)

    def in_container(self, *command: str) -> subprocess.CompletedProcess[str]:
        words = ["bwrap", "--die-with-parent", "--unshare-pid"]
        for path in sorted(Path("/").iterdir()):
            words += ["--symlink", os.readlink(path), str(path)] if path.is_symlink() else [
                "--ro-bind-try", str(path), str(path)
            ]
        words += [
            "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind",
            str(self.at), "/autograder", "--bind",
            str(self.at / "grade"), "/grade", "--chdir", "/autograder"
        ]
        return subprocess.run([*words, *command], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)

    def test_the_zip_has_the_scripts_at_its_root_and_the_tree(self) -> None:
        with zipfile.ZipFile(self.at / "autograder.zip") as archive:
            self.assertEqual([(info.filename, info.external_attr >> 16 & 0o777)
                              for info in archive.infolist()][:2], [("setup.sh", 0o755),
                                                                    ("run_autograder", 0o755)])
        with tarfile.open(self.at / "source/callsite.tar.gz") as tar:
            names = tar.getnames()
        self.assertEqual(
            names,
            subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True,
                           check=True).stdout.splitlines())
        for name in ("setup.sh", "run_autograder"):
            self.assertIn("--lab 1 --alone", (self.at / "source" / name).read_text())
            self.assertNotIn("@", (self.at / "source" / name).read_text().replace('"$@"', ""))

    @user_namespaces
    def test_a_score_is_written_and_an_error_of_the_harness_is_none(self) -> None:
        (self.at / "source/callsite/grading/classroom").mkdir(parents=True)
        (self.at / "source/callsite/grading/classroom/__main__.py").write_text(self.CLASS)
        for said, status, left in (("right", 0, "results.json: lab 1, right"), ("broken", 3, None),
                                   ("wrong", 0, "results.json: lab 1, wrong")):
            (self.at / "submission/patch.c").write_text(said)
            done = self.in_container("source/run_autograder")
            results = self.at / "results/results.json"
            self.assertEqual((done.returncode, results.read_text() if results.exists() else None),
                             (status, left), done.stderr)
        info = json.loads(block("info.json"))
        self.assertEqual(info["gradingMethod"], "External")
        (self.at / "grade/student/patch.c").write_text("good")
        done = self.in_container(*info["externalGradingOptions"]["entrypoint"])
        self.assertEqual((self.at / "grade/results/results.json").read_text(),
                         "prairielearn.json: lab 1, good", done.stderr)


class Commands(unittest.TestCase):
    """What make gradescope and make classroom refuse, and what make gives to a program."""

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.at = Path(scratch.name)

    def run_main(self, *words: str) -> tuple[int, str]:
        with patch("sys.argv", ["platforms", *words]), redirect_stdout(
                io.StringIO()) as said, redirect_stderr(said):
            return platforms.main(), said.getvalue()

    def test_a_zip_that_cannot_be_written_is_said(self) -> None:
        self.assertEqual(self.run_main("--lab", "1", "/nope/x.zip"),
                         (2, "OUT=/nope/x.zip cannot be written: No such file or directory\n"))
        self.assertEqual(self.run_main("--lab", "1", str(self.at)),
                         (2, f"OUT={self.at} cannot be written: Is a directory\n"))

    def test_a_tree_without_git_is_said(self) -> None:
        out = self.at / "x.zip"
        with patch.object(tree, "ROOT", self.at):
            status, said = self.run_main("--lab", "1", str(out))
        self.assertEqual((status, out.exists()), (2, False))
        self.assertRegex(
            said,
            "^gradescope: .* must be a clone of this repository, because git lists its files: "
            "fatal: .*\n$"
        )

    def test_a_seed_is_one_word_of_the_script(self) -> None:
        self.assertIn(" --jobs 1 --seed 'spring; reboot'",
                      platforms.template("run_autograder", 1, "spring; reboot"))

    def test_a_workflow_is_written_only_into_a_tree_that_was_handed_out(self) -> None:
        words = ("--classroom", "--lab", "1", str(self.at))
        for name in ("labs/1-mcount-stub", "labs/2-call-site-records", "labs/staff"):
            status, said = self.run_main(*words)
            self.assertEqual((status, (self.at / ".github").exists()), (2, False))
            self.assertIn("make handout", said)
            (self.at / name).mkdir(parents=True)
            (self.at / name / "rubric.toml").touch()
        self.assertEqual([self.run_main(*words)[0] for _ in range(2)], [0, 0])
        before = (self.at / platforms.WORKFLOW).read_text()
        status, said = self.run_main("--classroom", "--lab", "2", str(self.at))
        self.assertEqual((status, (self.at / platforms.WORKFLOW).read_text()), (2, before))
        self.assertIn("is another lab's", said)

    def test_make_gives_every_character_to_the_program(self) -> None:
        (self.at / "Makefile").write_text(
            f"PYTHON := printf '%s\\n'\nsetup :=\nSTAGES := 1\ninclude {ROOT}/labs/instructor.mk\n")
        hostile = {
            name: f"o'neil \"{name}\" `x` ; \\"
            for name in ("IN", "OUT", "TAG", "BEFORE", "LATE", "DEADLINE", "LOAD", "HOSTS", "SSH",
                         "SEED", "JOBS")
        }
        for target, names in (("grade-class", set(hostile)), ("gradescope", {"SEED", "OUT"}),
                              ("classroom", {"OUT"})):
            done = subprocess.run([
                "make", "-C", self.at, "-s", target, "LAB=3", *(f"{name}={text}"
                                                                for name, text in hostile.items())
            ], capture_output=True, text=True, check=False)
            printed = done.stdout.splitlines()
            for name in names:
                self.assertTrue({hostile[name], f"--{name.lower()}={hostile[name]}"} & set(printed),
                                (target, name, printed, done.stderr))


class Classroom(unittest.TestCase):
    """The workflow, with a make that leaves these grades."""

    def graded(self, *grades: dict[str, Any], says: str = "") -> dict[str, Any] | None:
        """What the reporter gets."""
        with tempfile.TemporaryDirectory() as scratch:
            at = Path(scratch)
            workflow: dict[str, Any] = yaml.safe_load(platforms.classroom(at, 3).read_text())
            (at / "grading").symlink_to(ROOT / "grading")
            (at / "qemu").symlink_to(ROOT / "qemu")
            for name in ("labs", "kern"):
                (at / name).symlink_to(ROOT / name)
            for grade in grades:
                (at / f"ARCH={grade['arch']}").write_text(json.dumps({"grades": [grade]}))
            (at / "make").write_text(
                f"#!/bin/sh\necho \"$@\" >>told\n[ ! -e $4 ] || cp $4 build/grade.json\necho "
                f"'{says}'\nexit 2\n"
            )
            (at / "make").chmod(0o755)
            steps = workflow["jobs"]["run-autograding-tests"]["steps"]
            # beneath.py looks for the first commit
            self.assertEqual([step["with"] for step in steps if "checkout" in step.get("uses", "")],
                             [{"fetch-depth": 0}])
            script = next(step for step in steps if step.get("id") == "grade")["run"]
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", script], cwd=at, env={
                    "PATH": f"{at}:/usr/bin:/bin", "GITHUB_OUTPUT": str(at / "output"),
                    "GITHUB_WORKSPACE": str(at), "HOME": str(at)
                }, capture_output=True, text=True, check=False)
            self.assertIn((at / "told").read_text(),
                          "grade LAB=3 STAFF=1,2 ARCH=riscv64\ngrade LAB=3 STAFF=1,2 ARCH=arm64\n")
            self.assertEqual(steps[-1]["env"][f"{steps[-1]['with']['runners'].upper()}_RESULTS"],
                             "${{ steps.grade.outputs.result }}")
            if done.returncode:
                self.assertFalse((at / "output").exists())
                return None
            name, _, result = (at / "output").read_text().partition("=")
            self.assertEqual(name, "result")
            return dict(json.loads(base64.b64decode(result)))

    def grade(self, arch: str, points: int | None) -> dict[str, Any]:
        return {
            "arch": arch, "points": points, "possible": 10, "rungs": [{
                "name": "life", "points": points or 0, "possible": 10,
                "boots": {"1": "" if points else "dead"}
            }]
        }

    def test_the_points_of_each_rung_reach_the_reporter(self) -> None:
        got = self.graded(self.grade("riscv64", 10), self.grade("arm64", 0))
        assert got
        self.assertEqual((got["status"], got["max_score"]), ("fail", 20))
        self.assertEqual([(t["name"], t["status"], t["score"], t["message"]) for t in got["tests"]],
                         [("riscv64: life", "pass", 10, ""), ("arm64: life", "fail", 0, "dead")])
        full = self.graded(self.grade("riscv64", 10), self.grade("arm64", 10))
        self.assertEqual(full and full["status"], "pass")

    def test_an_architecture_without_a_grade_costs_nothing_of_the_other(self) -> None:
        """Its file does not build, or is as it was handed out."""
        got = self.graded(self.grade("riscv64", 10))
        assert got
        self.assertEqual((got["status"], got["max_score"], sum(t["score"] for t in got["tests"])),
                         ("fail", 110, 10))
        none = self.graded()
        self.assertEqual(none and (none["max_score"], {t["score"]
                                                       for t in none["tests"]}), (200, {0}))

    def test_an_error_of_the_harness_is_no_score(self) -> None:
        self.assertIsNone(self.graded(self.grade("riscv64", 10), self.grade("arm64", None)))
        self.assertIsNone(self.graded(says="The harness failed; this is no score."))


if __name__ == "__main__":
    unittest.main()
