"""What some tests need of the host."""

from __future__ import annotations

import subprocess
import unittest

# Root in a chroot has none. `make grade-class` then says that the walls cannot be built, and grades nothing.
WITHOUT = "no user namespace can be made here, as in a chroot: bubblewrap cannot wall in a submission"
_possible = subprocess.run(["unshare", "--user", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
if not _possible:
    print(f"skipped: {WITHOUT}", flush=True)
user_namespaces = unittest.skipUnless(_possible, WITHOUT)
