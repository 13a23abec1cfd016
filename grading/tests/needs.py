"""What some tests need of the host."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Root in a chroot has none. `make grade-class` then says that the walls cannot be built, and grades
# nothing.
WITHOUT = ("no user namespace can be made here, as in a chroot: bubblewrap cannot wall in a "
           "submission")
WITHOUT_MOUNT = ("no file system can be mounted here: what happens on a full disk is tested with "
                 "/dev/full alone")
_possible = subprocess.run(["unshare", "--user", "true"], stderr=subprocess.DEVNULL,
                           check=False).returncode == 0
if not _possible:
    print(f"skipped: {WITHOUT}", flush=True)
user_namespaces = unittest.skipUnless(_possible, WITHOUT)


@contextmanager
def small_disk(kib: int) -> Iterator[Path]:
    """A file system of this size, which only root can mount. Skips the test where that is not
    permitted, as in most containers."""
    with tempfile.TemporaryDirectory(prefix="callsite-") as folder:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "callsite", folder],
                          stderr=subprocess.DEVNULL, check=False).returncode:
            print(f"skipped: {WITHOUT_MOUNT}", flush=True)
            raise unittest.SkipTest(WITHOUT_MOUNT)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def resize(disk: Path, options: str) -> None:
    """Mount it again with these options: size=..k, ro."""
    subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)
