"""Parses the `trace` file of tracefs in Linux's format for function_graph.

The harness switches funcgraph-abstime, -proc, -tail and -retval on, so that every line
has its time, CPU and thread, and every closing brace the function's name and return value.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

PREFIX = re.compile(
    r"^ *(?P<sec>\d{1,19})\.(?P<usec>\d{6}) \|   *(?P<cpu>\d{1,19})\)  "
    r"*(?P<comm>\S.*?)-(?P<pid>\d{1,19}) * \| (?P<rest>.*)$"
)
# The column of the duration, then the nesting: two blanks for each level.
COLUMN = re.compile(
    r"^(?:[ +!#*@$] (?P<whole>\d{1,19})(?:\.(?P<part>\d{1,3}))? us *| +)\|  (?P<indent> "
    r"*)(?P<what>\S.*)$"
)
LEAF = re.compile(r"^(?P<func>[^\s(){}]+)\(\);(?: /\*(?: ret)? ?= ?(?P<value>\S+) \*/)?$")
BEGIN = re.compile(r"^(?P<func>[^\s(){}]+)\(\) \{$")
END = re.compile(r"^\}(?: /\* (?P<func>[^\s=]+)?(?: ?(?:ret)?= ?(?P<value>\S+))? \*/)?$")
LOST = re.compile(r"^CPU:(\d{1,19}) \[LOST (?:(\d{1,19}) )?EVENTS\]$")
SWITCH = re.compile(r"^ *\d{1,19}\) .* => .*$")
ENTRY, RETURN = "entry", "return"


class GraphEvent(NamedTuple):
    """A printed entry or return; `f();` is an entry and a return."""

    kind: str
    cpu: int
    comm: str
    pid: int
    depth: int
    func: str  # "" for a return whose line has no name
    usec: int  # since boot; in `f();` entry and return both have the entry's time
    line: str
    duration: int | None = None  # ns; only of a return
    unit: int = 1  # ns: the precision with which the duration is printed
    value: str = ""

    @property
    def task(self) -> tuple[str, int]:
        """The thread, by comm and pid; all idle threads have pid 0, so their comm distinguishes
        them."""
        return self.comm if self.pid == 0 else "", self.pid

    def __str__(self) -> str:
        return f"{self.kind} of {self.func or 'something'}"

    def text(self) -> str:
        said = f"{self.func}() {{" if self.kind == ENTRY else f"}} /* {self.func} */"
        return "  " * self.depth + said


@dataclass
class GraphTrace:
    """A whole `trace` file."""

    tracer: str = ""
    events: list[GraphEvent] = field(default_factory=list)
    lost: int = 0
    unknown: list[str] = field(default_factory=list)  # lines in no known format


def _duration(whole: str | None, part: str | None) -> tuple[int | None, int]:
    """The duration and the value of its last digit, in ns: Linux prints fewer digits of a long
    duration."""
    if whole is None:
        return None, 1
    part = part or ""
    unit = 10 ** (3 - len(part))
    return int(whole) * 1000 + (int(part) * unit if part else 0), unit


def _events(line: str) -> list[GraphEvent] | None:
    """The events of a line; None: it is no line of an event."""
    prefix = PREFIX.match(line)
    if not prefix:
        return None
    column = COLUMN.match(prefix["rest"])
    if not column:
        return None
    usec = int(prefix["sec"]) * 1_000_000 + int(prefix["usec"])
    duration, unit = _duration(column["whole"], column["part"])

    cpu, comm, pid = int(prefix["cpu"]), prefix["comm"], int(prefix["pid"])
    depth, what = len(column["indent"]) // 2, column["what"]

    def event(kind: str, func: str, value: str | None = None) -> GraphEvent:
        ended = kind == RETURN
        return GraphEvent(kind, cpu, comm, pid, depth, func, usec, line,
                          duration if ended else None, unit if ended else 1, value or "")

    if found := LEAF.match(what):
        return [event(ENTRY, found["func"]), event(RETURN, found["func"], found["value"])]
    if found := BEGIN.match(what):
        return [event(ENTRY, found["func"])]
    if found := END.match(what):
        return [event(RETURN, found["func"] or "", found["value"])]
    return [] if what.startswith("/*") else None


def parse(text: str) -> GraphTrace:
    trace = GraphTrace()
    for line in text.splitlines():
        lost = LOST.match(line)
        if line.startswith("# tracer: "):
            trace.tracer = line[len("# tracer: "):]
        elif lost:
            trace.lost += int(lost[2] or 1)
        elif line.strip(" -") and not line.startswith("#") and not SWITCH.match(line):
            events = _events(line)
            if events is None:
                trace.unknown.append(line)
            trace.events += events or []
    return trace


def stats(text: str) -> dict[str, int]:
    """The whole numbers of a per_cpu/cpuN/stats file."""
    return {name: int(value) for name, value in re.findall(r"^(.+): +(\d{1,19})$", text, re.M)}
