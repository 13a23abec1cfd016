"""Parses the `trace` file of tracefs in Linux's format for the function tracer."""

import re
from dataclasses import dataclass
from typing import NamedTuple

HEAD = (r"^(?P<comm>.{16})-(?P<pid>\d{1,19}) {0,7}\[(?P<cpu>\d{3})\] (?P<flags>\S{5}) "
        r"+(?P<sec>\d{1,19})\.(?P<usec>\d{6}): ")
LINE = re.compile(HEAD + r"(?P<func>\S+( \[\w+\])?) <-(?P<parent>\S+( \[\w+\])?)$")
# an event by a probe: its name; where it was hit, and its arguments
PROBE_LINE = re.compile(HEAD + r"(?P<func>\w+): (?P<parent>\(.*)$")
COUNTS = re.compile(r"^# entries-in-buffer/entries-written: (\d{1,19})/(\d{1,19})   #P:(\d{1,19})$")
LOST = re.compile(r"^CPU:(\d{1,19}) \[LOST (\d{1,19} )?EVENTS\]$")


class FunctionEvent(NamedTuple):
    """One printed event."""

    comm: str
    pid: int
    cpu: int
    flags: str
    usec: int  # since boot
    func: str
    parent: str
    line: str

    @property
    def interrupt(self) -> bool:
        return self.flags[2] in "hHzZ"

    @property
    def task(self) -> tuple[str, int]:
        """The thread, by comm and pid; all idle threads have pid 0, so their comm distinguishes
        them."""
        return self.comm if self.pid == 0 else "", self.pid

    def __str__(self) -> str:
        return self.func

    def text(self) -> str:
        return f"{self.flags} {self.func} <-{self.parent}"


@dataclass
class FunctionTrace:
    """A whole `trace` file."""

    tracer: str
    in_buffer: int
    written: int
    cpus: int
    events: list[FunctionEvent]
    unknown: list[str]  # lines that are neither a header nor an event

    @property
    def overrun(self) -> int:
        return self.written - self.in_buffer


def parse(text: str, form: re.Pattern[str] = LINE) -> FunctionTrace:
    trace = FunctionTrace("", -1, -1, 0, [], [])
    for line in text.splitlines():
        found = form.match(line)
        counts = COUNTS.match(line)
        if found:
            g = found.groupdict()
            trace.events.append(FunctionEvent(g["comm"].strip(), int(g["pid"]),
                                              int(g["cpu"]), g["flags"], int(g["sec"]) * 1_000_000
                                              + int(g["usec"]), g["func"], g["parent"], line))
        elif counts:
            trace.in_buffer, trace.written, trace.cpus = (int(n) for n in counts.groups())
        elif line.startswith("# tracer: "):
            trace.tracer = line[len("# tracer: "):]
        elif line and not line.startswith("#") and not LOST.match(line):
            trace.unknown.append(line)
    return trace
