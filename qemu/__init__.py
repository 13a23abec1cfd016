"""Starts QEMU: the machines, the observer, `make run`."""

import os
import sys

# On a full disk Python 3.11 may write the beginning of a .pyc file, and can then import the module
# no more (CPython issue 126606).
_disk = os.statvfs(os.path.dirname(__file__))
sys.dont_write_bytecode |= _disk.f_bavail * _disk.f_frsize < 4 << 20
