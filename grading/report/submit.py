"""`make submit`: writes the student's files of one lab into one tar, which the instructor's tree
unpacks."""

import subprocess
from pathlib import Path

from grading.checks import rubric
from grading.verdict import Refused
from qemu.disk import write_whole
from qemu.machine import ROOT


def write(lab: int, directory: Path) -> Path:
    """Write the tar. The same files give the same bytes, without times and owners. Raises Refused
    if a file is missing."""
    tar = directory / f"lab{lab}.tar"
    files = rubric.lab(lab).files
    if gone := [name for name in files if not (ROOT / name).is_file()]:
        raise Refused(f"lab {lab} needs {', '.join(gone)}, and "
                      f"{'it does' if len(gone) == 1 else 'they do'} not exist")
    packed = subprocess.run(["tar", "--format=ustar", "--owner=0", "--group=0", "--numeric-owner",
                             "--mode=644", "--mtime=@0", "--dereference", "-c", "-C", ROOT, *files],
                            check=True, stdout=subprocess.PIPE)
    write_whole(tar, packed.stdout)
    return tar
