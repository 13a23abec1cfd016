"""Other machines that grade a class. The machine is this one, with another home for each worker;
another program is in the place of ssh.

Connections does the same with two servers of OpenSSH, where it is installed; `make setup` does not
install it, because Debian starts its server at once.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any
from unittest.mock import patch

from grading.classroom import __main__ as main
from grading.classroom import one, tree, workers
from grading.tests.needs import user_namespaces
from kern.ftrace.tools.walls import NoWalls
from qemu.machine import ROOT

HAS: dict[str, Any] = {
    "python": "3.11.2", "tools": {"gcc": "12", "make": "4.3"}, "qemu": {}, "firmware": "f"
}
ABOUT = {**HAS, "grader": "0123456789abcdef0123"}
STAND_IN = r"""#!/bin/sh
port=22
while :; do
	case $1 in
	-p) port=$2; shift 2 ;;
	-[ol]) shift 2 ;;
	*) break ;;
	esac
done
[ "$1" != refused ] || { echo "Permission denied (publickey)." >&2; exit 255; }
home=@/home-$port
shift
[ "$1" != -- ] || shift
mkdir -p $home && cd $home && /bin/sh -c "$*"
"""
PREPARES = ("mkdir -p $1/tmp; cat ../../../has 2>/dev/null || "
            'echo \'{"processors": 1, %s\'\n' % json.dumps(HAS)[1:])
GRADES = r"""
set -e
test "$3" = .
test -e build/qemu-10/a-file
test ! -L build/qemu-10
test -e grading/classroom/one.py
echo $2 >>../../../graded-here
mkdir -p $1/graded/$2
cp $1/todo/$2.json $1/graded/$2/result.json
tar -cf $1/$2.tar -C $1/graded $2
rm -r $1/graded
"""


class OverSsh(unittest.TestCase):
    """What both kinds of connections have."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="callsite-")))
        self.enterContext(patch.dict(os.environ, {"PARALLEL_HOME": str(self.folder / "parallel")}))
        self.enterContext(patch.dict(tree.CLEAN, {"PARALLEL_HOME": str(self.folder / "parallel")}))
        # without times: the host may be busy
        self.enterContext(patch.object(workers, "SSH", "-o BatchMode=yes"))
        (self.folder / "parallel").mkdir()
        self.at, self.out, self.ssh = self.folder / "lab3-x", self.folder / "out", self.connection()
        (self.folder / "unpacked").mkdir()
        (self.folder / "unpacked/a-file").touch()
        (self.at / "build").mkdir(parents=True)
        (self.at / "build/qemu-10").symlink_to(self.folder / "unpacked")
        (self.at / "grading.classroom.workers").write_text(PREPARES)
        (self.out / "todo").mkdir(parents=True)

    def connection(self) -> str:
        """The command for a connection."""
        path = self.folder / "stand-in"
        path.write_text(STAND_IN.replace("@", str(self.folder)))
        path.chmod(0o755)
        return str(path)

    def home(self, port: int) -> Path:
        return self.folder / f"home-{port}"

    def prepare(self, *hosts: str) -> workers.Workers:
        with patch("grading.classroom.workers.sys.executable", "/bin/sh"):
            return workers.prepare(list(hosts), self.ssh, self.out, self.at, ABOUT)

    def grade(self, keys: str, program: str, *hosts: str) -> list[str]:
        """Grades with this program; returns the exit statuses."""
        (self.at / "grading.classroom.one").write_text(program)
        for key in keys:
            (self.out / f"todo/{key}.json").write_text(f"job {key}")
        with patch("grading.classroom.workers.sys.executable", "/bin/sh"):
            main.grade(argparse.Namespace(out=self.out, jobs=None, load=""), list(keys),
                       self.prepare(*hosts))
        return [line.split("\t")[6] for line in (self.out / "joblog").read_text().splitlines()[1:]]

    def results(self) -> dict[str, str]:
        return {
            path.parent.name: path.read_text()
            for path in self.out.glob("graded/*/result.json")
        }

    def jobs_of(self, port: int) -> list[str]:
        path = self.home(port) / "graded-here"
        return path.read_text().split() if path.exists() else []

    def test_each_worker_grades_and_its_results_come_back(self) -> None:
        self.assertEqual(self.grade("abcd", GRADES, "localhost:2201", "localhost:2202"), ["0"] * 4)
        self.assertEqual(self.results(), {key: f"job {key}" for key in "abcd"})
        self.assertEqual(sorted(self.jobs_of(2201) + self.jobs_of(2202)), list("abcd"))
        self.assertTrue(self.jobs_of(2201) and self.jobs_of(2202))
        for port in (2201, 2202):  # nothing is left on the workers, nor on the way
            self.assertEqual(
                [path.name for path in (self.home(port) / workers.FOLDER).glob("jobs-*/*")],
                ["tmp"])
        self.assertEqual(list((self.out / "returned").iterdir()), [])

    def test_a_worker_that_refuses_grades_nothing(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            found = self.prepare("localhost:2201", self.refusing(), "-oProxyCommand=reboot")
        self.assertEqual(found.logins, ["1/localhost:2201"])
        self.assertRegex(
            said.getvalue(),
            rf"^{self.refusing()} grades nothing: .*Permission denied "
            rf"\(publickey\)\.\n-oProxyCommand=reboot grades nothing: a host is written "
        )
        with contextlib.redirect_stderr(io.StringIO()), \
                self.assertRaisesRegex(NoWalls, "no host can grade"):
            self.prepare(self.refusing())

    def refusing(self) -> str:
        return "refused"


@user_namespaces
class StandIn(OverSsh):
    def test_what_to_try_is_the_connection_that_was_refused(self) -> None:
        for hosts, typed in ((["a host", "refused:2201"], f"{self.ssh} -p 2201 refused"),
                             (["-oProxyCommand=reboot"], "")):
            with (contextlib.redirect_stderr(io.StringIO()),
                  self.assertRaises(NoWalls) as raised):
                self.prepare(*hosts)
            found = re.search("Try:  (.*)  and see", str(raised.exception))
            self.assertEqual(found[1] if found else "", typed)
            said = subprocess.run(["sh", "-c", typed], capture_output=True, text=True, check=False)
            self.assertEqual(said.stderr, "Permission denied (publickey).\n" if typed else "")

    def test_a_worker_that_dies_in_a_job_loses_none(self) -> None:
        dies = ("case $PWD in *home-2202*) kill -KILL $(ps -o ppid= -p $PPID) $PPID; exit 0 ;; "
                "esac\n")
        self.assertEqual(self.grade("abc", dies + GRADES, "localhost:2201", "localhost:2202"),
                         ["0"] * 3)
        self.assertEqual((sorted(self.results()), sorted(self.jobs_of(2201)), self.jobs_of(2202)),
                         (list("abc"), list("abc"), []))

    def test_workers_that_all_die_give_no_result_and_no_score(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertNotIn(
                "0", self.grade("ab", "kill -KILL $(ps -o ppid= -p $PPID) $PPID\n",
                                "localhost:2201"))
        self.assertEqual(self.results(), {})

    def test_an_error_of_the_harness_is_tried_again_on_another_worker(self) -> None:
        fails = GRADES + "case $PWD in *home-2202*) exit 1 ;; esac\n"
        self.assertEqual(self.grade("ab", fails, "localhost:2201", "localhost:2202"), ["0"] * 2)
        self.assertEqual(sorted(self.jobs_of(2201)), ["a", "b"])

    def test_a_worker_of_another_kind_grades_nothing(self) -> None:
        cases: tuple[tuple[dict[str, Any], str],
                     ...] = (({**HAS, "tools": {"gcc": "13", "make": "4.3"}},
                              'tools is {"gcc": "13"}, and here {"gcc": "12"}'),
                             ({**HAS, "python": "3.13"}, 'python is "3.13", and here "3.11.2"'),
                             ({**HAS, "tools": {"gcc": "12"}},
                              'tools is {"make": null}, and here {"make": "4.3"}'))
        for has, sentence in cases:
            self.home(22).mkdir(exist_ok=True)
            (self.home(22) / "has").write_text(json.dumps({"processors": 1, **has}))
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(NoWalls):
                self.prepare("localhost")
            self.assertIn(sentence, said.getvalue())

    def test_the_tree_is_sent_once(self) -> None:
        self.prepare("localhost")
        sent = self.home(
            22) / workers.FOLDER / f"lab3-x-{ABOUT['grader'][:16]}/build/qemu-10/a-file"
        first = sent.stat()
        self.prepare("localhost")
        self.assertEqual((sent.stat().st_ino, sent.stat().st_ctime_ns),
                         (first.st_ino, first.st_ctime_ns))

    def test_each_worker_is_asked_what_is_left(self) -> None:
        found = self.prepare("localhost:2201", "localhost:2202")
        self.assertEqual(found.left(), [])
        (self.home(2202) / workers.FOLDER / found.place /
         "grading.classroom.workers").write_text("echo process 7 goes on >&2; exit 1\n")
        self.assertEqual(found.left(), ["localhost:2202: process 7 goes on"])

    def test_what_a_worker_does_first(self) -> None:
        jobs = self.folder / "jobs"
        (jobs / "todo").mkdir(parents=True)
        with patch("sys.argv", ["workers", str(jobs)]), patch.object(
                tree, "fittings", lambda: HAS), contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(workers.main(), 0)
            self.assertEqual({name: json.loads(said.getvalue())[name] for name in HAS}, HAS)
            self.assertEqual([path.name for path in jobs.iterdir()], ["tmp"])
            with patch.object(workers, "PATIENCE", 0), patch.object(
                    one, "running",
                    lambda _: [7]), contextlib.redirect_stderr(io.StringIO()) as why:
                self.assertEqual(workers.main(), 1)
            self.assertIn("process 7 of an earlier run's job does not end", why.getvalue())
        self.assertEqual(set(tree.FITTINGS), set(tree.fittings()))

    def test_a_job_on_a_worker_is_packed(self) -> None:
        (self.out / "todo/k.json").write_text(
            json.dumps({
                "key": "k", "lab": 3, "possible": 20, "seeds": [], "tree": "/not/here", "files": {},
                "students": "ann"
            }))
        (self.out / "tmp").mkdir()
        with patch("sys.argv", ["one", str(self.out), "k", str(self.at)]), \
                patch.object(one, "run", side_effect=NoWalls("no walls")) as run, \
                contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(one.main(), 1)
        self.assertEqual(run.call_args[0][0]["tree"], str(self.at))
        self.assertEqual(list((self.out / "graded").iterdir()), [])
        (self.out / "returned").mkdir()
        shutil.move(self.out / "k.tar", self.out / "returned")
        (self.out / "returned/broken.tar").write_bytes(b"x" * 600)
        # as after a power cut
        (self.out / "returned/cut.tar").write_bytes(
            (self.out / "returned/k.tar").read_bytes()[:1500])
        (self.out / "graded/k").mkdir()
        with contextlib.redirect_stderr(io.StringIO()) as said:
            workers.collect(self.out)
        self.assertEqual(
            (json.loads(self.results()["k"])["said"], sorted(os.listdir(self.out / "graded"))),
            ("no walls", ["k"]))
        self.assertIn("broken.tar cannot be read", said.getvalue())
        self.assertIn("cut.tar cannot be read", said.getvalue())
        self.assertEqual(list((self.out / "returned").iterdir()), [])


@unittest.skipUnless(os.path.exists("/usr/sbin/sshd"), "openssh-server is not installed")
class Connections(OverSsh):
    """Each connection has a server of its own, which listens at no port and reads no file of the
    machine's."""

    def connection(self) -> str:
        if not os.geteuid():
            os.makedirs("/run/sshd", exist_ok=True)  # the package's service makes it
        locked = not os.geteuid() and any(
            line.startswith("root:!") for line in Path("/etc/shadow").read_text().splitlines())
        for name in ("host", "user"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name],
                check=True)
        (self.folder / "known_hosts").write_text(f"* {(self.folder / 'host.pub').read_text()}")
        for port in (2201, 2202, 2203):
            home = self.home(port)
            (self.folder / f"sshd-{port}").write_text(
                f"HostKey {self.folder}/host\nAuthorizedKeysFile "
                f"{self.folder}/{'user.pub' if port != 2203 else 'none'}\nStrictModes "
                f"no\nLoginGraceTime 0\nUsePAM {'yes' if locked else 'no'}\n"
                "PermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication "
                "no\nPermitUserRC no\nPidFile none\nPrintMotd no\n"
                f"ForceCommand mkdir -p {home} && cd {home} && exec /bin/sh -c "
                f"\"$SSH_ORIGINAL_COMMAND\"\n"
            )
        (self.folder / "config").write_text(
            f"IdentityFile {self.folder}/user\nIdentitiesOnly yes\nIdentityAgent "
            f"none\nUserKnownHostsFile {self.folder}/known_hosts\nGlobalKnownHostsFile none\n"
            f"StrictHostKeyChecking yes\nProxyCommand setsid --fork /usr/sbin/sshd -i -f "
            f"{self.folder}/sshd-%p\n"
        )
        return f"ssh -F {self.folder}/config"

    def refusing(self) -> str:
        return "localhost:2203"

    def test_a_signal_ends_the_jobs_on_the_workers(self) -> None:
        (self.at / "grading.classroom.one").write_text(
            f"echo $$ > {self.folder}/new-$2; mv {self.folder}/new-$2 {self.folder}/begun-$2; "
            f"while :; do sleep 0.1; done\n"
        )
        for key in "abc":
            (self.out / f"todo/{key}.json").touch()
        program = (
            "import argparse, sys; from pathlib import Path; from grading.classroom import "
            "__main__ as main, workers; from grading.machine.machine import ended_by_signals; "
            "ended_by_signals(); sys.executable = '/bin/sh'; workers.SSH = '-o BatchMode=yes'; "
            "out, at, ssh, about = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], "
            "eval(sys.argv[4]); "
            "main.grade(argparse.Namespace(out=out, jobs=None, load=''), list('abc'), "
            "workers.prepare(['localhost:2201', 'localhost:2202'], ssh, out, at, about))"
        )
        with subprocess.Popen(
            ["/usr/bin/python3", "-c", program, self.out, self.at, self.ssh,
             repr(ABOUT)], cwd=ROOT, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL) as process:
            while len(list(self.folder.glob("begun-*"))) < 2:
                self.assertIsNone(process.poll())
                time.sleep(0.05)
            jobs = [os.pidfd_open(int(path.read_text())) for path in self.folder.glob("begun-*")]
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(), 128 + signal.SIGTERM)
        for job in jobs:
            self.assertTrue(select.select([job], [], [], 300)[0], "a job goes on")
            os.close(job)


del OverSsh  # it has tests, and no connection of its own


if __name__ == "__main__":
    unittest.main()
