"""Writes what mksyms.py, mkrecords.py and islands.py print: all of it, or one sentence that says
why not."""
import os
import sys

NO_ROOM = 1  # exit status


def put(text: str) -> int:
    """Write the text to standard output. Returns the exit status."""
    data = text.encode()
    try:
        while data:  # a disk may be full after a part of it
            data = data[os.write(1, data):]
    except OSError as why:
        print(
            f"{os.path.basename(sys.argv[0])}: {os.path.realpath('/proc/self/fd/1')} cannot be "
            f"written: {why.strerror}.",
            file=sys.stderr)
        return NO_ROOM
    return 0
