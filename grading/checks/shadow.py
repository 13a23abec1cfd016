"""Labs 5 and 6: checks the shadow stack after each store. An interrupt may come after any store,
and must find the stack consistent.

    push: (1) raise free, (2) fill the frame, (3) set top
    pop:  (1) set top back, (2) lower free
    data: (1) raise free, (2) fill the first word, (3) raise data_end; the reverse to give it back
"""

from dataclasses import dataclass, field

from grading.checks.align import NEVER
from grading.checks.order import words
from grading.evidence.evidence import Evidence
from grading.evidence.finding import Finding
from grading.machine.observer import Kind

Layout = dict[str, int]


@dataclass
class Stack:
    """The shadow stack of one thread, as far as its stores are known."""

    page: int
    thread: int
    stack: Layout
    frame: Layout
    top: int = 0
    free: int = 0  # 0: not known yet
    signed: bool = True  # lab 6: the first word of entry data says which user owns them
    data: int = 0  # number of times that data_end was raised
    # address -> value, stored below `free` since that room was taken
    words: dict[int, int] = field(default_factory=dict)

    @property
    def room(self) -> int:
        return self.page + self.stack["words"]

    def end(self, frame: int) -> int:
        """The end of a frame with its data."""
        return self.words.get(frame + self.frame["data_end"], frame + self.frame[""])

    def store(self, at: int, value: int) -> str:
        """Apply a store. Returns what an interrupt after it would find wrong, or ''."""
        if not self.free:
            self.free = self.room
        if at == self.page + self.stack["free"]:
            return self._give(value) if value < self.free else self._take(value)
        if at == self.page + self.stack["top"]:
            return self._show(value)
        return self._fill(at, value) if at >= self.room else ""

    def _take(self, value: int) -> str:
        self.free = value
        return ""

    def _give(self, value: int) -> str:
        if self.top in self.words and value < self.end(self.top):
            return ("free was lowered below the end of the frame at top: lower top, or data_end, "
                    "first")
        self.free = value
        self.words = {at: word for at, word in self.words.items() if at < value}
        return ""

    def _show(self, value: int) -> str:
        above = value > self.top
        self.top = value
        if not above:
            return ""
        if value + self.frame[""] > self.free:
            return "top was set to a frame that ends above free: raise free first"
        missing = [name for name, offset in self.frame.items()
                   if name and value + offset not in self.words]
        return f"top was set to a frame whose {missing[0]} had not been stored" if missing else ""

    def _fill(self, at: int, value: int) -> str:
        if at + 8 > self.free:
            return "a word was stored above free: raise free first"
        shown = self.top in self.words and at == self.top + self.frame["data_end"]
        if shown and value > self.free:
            return "data_end was raised above free: raise free first"
        if (self.signed and shown and value > self.end(self.top)
                and self.end(self.top) not in self.words):
            return "data_end was raised before the first word of the data was stored"
        self.data += shown and value > self.end(self.top)
        self.words[at] = value
        return ""


def whole(evidence: Evidence) -> Finding | None:
    """Every thread's shadow stack is consistent after each logged store."""
    kernel = evidence.kernel
    stack, frame = (kernel.members(name) for name in ("shadow_stack", "shadow_frame"))
    lo, hi = kernel.extent("shadow_push_into")
    stacks: dict[int, Stack] = {}
    data, ends = 0, iter([*(r.seq for r in evidence.truth.hits["shadow_users_end"]), NEVER])
    end = next(ends)
    for r in (r for r in evidence.truth.writes if r.kind == Kind.WRITE):
        while r.seq > end:  # the pages were freed and may have another use now
            data += sum(s.data for s in stacks.values())
            stacks.clear()
            end = next(ends)
        page = r.v[0] & -stack[""]
        mine = stacks.get(page)
        if lo <= r.addr < hi and not (mine and mine.thread == r.thread):
            data += mine.data if mine else 0
            mine = stacks[page] = Stack(page, r.thread, stack, frame, signed=evidence.lab >= 6)
        if not mine or mine.thread != r.thread:
            continue
        if r.v[0] == page + stack["overrun"] and not evidence.isa.is_atomic(r.word):
            return Finding(f"CPU {r.vcpu}, at {kernel.name_at(r.addr)}: overrun was changed by a "
                           "load and a store, and not by shadow_count_overrun(). What an interrupt "
                           "between the two counts is lost", seq=r.seq)
        for word in words(r):
            if wrong := mine.store(*word.v[:2]):
                return Finding(
                    f"CPU {r.vcpu}, at {kernel.name_at(r.addr)}: {wrong}. An interrupt at that "
                    f"moment, whose handler calls traced functions, does harm",
                    seq=r.seq, mistake="stores-out-of-order" if evidence.lab == 5 else "")
    data += sum(s.data for s in stacks.values())
    return None if data else Finding(
        "no user reserved entry data while the observer recorded stores")
