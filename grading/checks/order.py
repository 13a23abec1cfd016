"""Checks the order in which handed-in code publishes and withdraws data, labs 4 to 6. shadow.py
checks the shadow stack.

A missing barrier has no effect on a PC. So the checks use what a CPU executed: its stores in
program order, and the barriers between them. Only barriers in the handed-in files count, as the
kernel's own functions do not promise to contain one. A store with release semantics counts as a
barrier before it.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from grading.checks.align import NEVER
from grading.checks.checks import first_of
from grading.evidence.evidence import Evidence, between, during, once
from grading.evidence.finding import Finding
from grading.machine.observer import Kind, Record
from grading.truth.truth import Call, GRACE, ordered_code
from qemu.isa.common import LOADS, STORES

OPS = 8  # the ops of the shell's command `op`
SLOTS = "wrong-number-of-slots"
# of the users that a graded boot registers: the handlers that run when a call returns or was left
AT_RETURN = "trace_graph_return", "hand_return", "rare_return", "rare_gone"


@dataclass(frozen=True)
class Step:
    """A line that was typed, and what happened until the next one: the stores of one thread."""

    line: str
    first: int
    last: int
    writes: tuple[Record, ...]


def words(record: Record) -> list[Record]:
    """A store, as stores of at most 8 bytes."""
    return [record] if record.size <= 8 else [
        record._replace(size=8, v=(record.v[0] + 8 * n, record.v[1 + n], 0, 0)) for n in range(2)]


@once
def steps(evidence: Evidence) -> list[Step]:
    """The commands that register something or unregister it, during which the observer recorded
    stores."""
    found = []
    for (first, line), (last, _) in pairwise(evidence.typed):
        if re.match("(op|fgraph_op|echo) ", line):
            writes = tuple(word for r in between(evidence.truth.writes, first, last)
                           if r.kind == Kind.WRITE for word in words(r))
            found += [Step(line, first, last, writes)] if writes else []
    return found


# ---- barriers -----------------------------------------------------------------------------

def barrier(evidence: Evidence, who: Record, first: int, last: int, kind: int = STORES) -> bool:
    """Did the thread of `who` execute a barrier of the handed-in code between two records?"""
    code = ordered_code(evidence.kernel)
    return any(f.context == who.context
               and evidence.isa.orders(f.word, kind) and any(lo <= f.addr < hi for lo, hi in code)
               for f in between(evidence.truth.fences, first, last))


def published(evidence: Evidence, what: Record, last: int) -> bool:
    """Was a barrier executed between record `last`, the last store of the data, and `what`, the
    store that makes the data public? True also if `what` releases."""
    return evidence.isa.releases(what.word) or barrier(evidence, what, last + 1, what.seq)


def inside(record: Record, place: tuple[int, int]) -> bool:
    lo, hi = place
    return lo <= record.v[0] < hi


def before(writes: Iterable[Record], seq: int, otherwise: int) -> int:
    """The record number of the last write before `seq`; `otherwise`, if there is none."""
    return max((r.seq for r in writes if r.seq < seq), default=otherwise)


def waits(evidence: Evidence, first: int, last: int) -> int:
    """The record number of the first call of synchronize_sched(); 0: there is none."""
    return next((r.seq for r in between(evidence.truth.hits[GRACE], first, last)), 0)


# ---- lab 4: ops ---------------------------------------------------------------------------------

@dataclass(frozen=True)
class Ops:
    """The addresses of the ops, the slots and the list."""

    size: int
    fields: dict[str, int]
    hands: int
    slots: tuple[int, int]
    head: int

    def of(self, op: int, record: Record) -> str:
        """The member of the op that was stored; '': another word."""
        at = record.v[0] - op
        return next((name for name, offset in self.fields.items()
                     if offset == at and name), "?") if 0 <= at < self.size else ""


def _ops(evidence: Evidence) -> Ops:
    kernel = evidence.kernel
    fields, own = (kernel.members(name) for name in ("ftrace_ops", "ftrace_filter"))
    fields = fields | {name: fields["filter"] + at for name, at in own.items() if name}
    return Ops(fields[""], {name: at for name, at in fields.items() if name not in ("", "filter")},
               kernel.symbol("hand_ops"), kernel.extent("ftrace_slots"), kernel.symbol("ops_list"))


def _typed(evidence: Evidence, pattern: str) -> Iterator[tuple[Step, re.Match[str]]]:
    for step in steps(evidence):
        if match := re.fullmatch(pattern, step.line):
            yield step, match


def ops_published(evidence: Evidence) -> Finding | None:
    """Registering an op: (1) fill it, (2) link it into the list and fill its slot, (3) write its
    sites; with barriers between."""
    ops, seen = _ops(evidence), 0
    for step, match in _typed(evidence, r"op (\d) (?:see|add|patch) .*"):
        op = ops.hands + int(match[1]) * ops.size
        if sites := between(evidence.truth.stores, step.first, step.last):
            seen += 1
            if wrong := _op_published(evidence, ops, step, op, sites):
                return wrong
    return None if seen else Finding("no op was registered while the observer recorded stores")


def _op_published(evidence: Evidence, ops: Ops, step: Step, op: int,
                  sites: list[Record]) -> Finding | None:
    line, own = step.line, [r for r in step.writes if ops.of(op, r) not in ("", "slot", "?")]
    link = next((r for r in step.writes if r.v[1] == op and not inside(r, ops.slots)), None)
    if not link:
        return Finding(f"'{line}' registered an op, and no store linked it into ops_list",
                       mistake="published-too-late")
    if late := next((r for r in own if r.seq > link.seq), None):
        return Finding(f"'{line}' linked the op into ops_list, and stored op->{ops.of(op, late)} "
                       "afterwards: an event on another CPU may find the op incomplete",
                       seq=late.seq)
    if not published(evidence, link, before(own, link.seq, step.first)):
        return Finding(f"'{line}' filled the op and linked it into ops_list without an smp_wmb() "
                       "between: another CPU may find the op before its members", seq=link.seq)
    found = [r for r in step.writes if r is link or inside(r, ops.slots)]
    if late := next((r for r in found if r.seq > sites[0].seq), None):
        where = "ops_list" if late is link else "ftrace_slots"
        return Finding(f"'{line}' wrote call sites, and stored into {where} afterwards: the op "
                       "must be published before a site calls it", seq=late.seq,
                       mistake="published-too-late")
    if not barrier(evidence, link, found[-1].seq, sites[0].seq):
        return Finding(f"'{line}' stored into ops_list and ftrace_slots, then wrote the first call "
                       "site, without an smp_wmb() between: a CPU may call the stub before it sees "
                       "the op", seq=sites[0].seq)
    return None


def ops_withdrawn(evidence: Evidence) -> Finding | None:
    """Unregistering an op: (1) unlink it and restore its sites, (2) wait for a grace period, (3)
    reuse its slot."""
    ops, seen = _ops(evidence), 0
    for step, _ in _typed(evidence, r"op \d off"):
        listed = [r.seq for r in step.writes if r.v[0] == ops.head
                  or any(ops.of(ops.hands + n * ops.size, r) == "next" for n in range(OPS))]
        sites, slots = between(evidence.truth.stores, step.first,
                               step.last), [r for r in step.writes if inside(r, ops.slots)]
        if not sites:
            continue
        seen += 1
        gone = max([*listed, sites[-1].seq])
        waited = waits(evidence, gone, step.last)
        if not waited:
            return Finding(f"'{step.line}' took an op out of ops_list, restored its call sites, "
                           f"and did not call {GRACE} afterwards: another CPU may still be in the "
                           "op's callback when the op is freed", seq=gone)
        if early := next((r for r in slots if r.seq < waited), None):
            return Finding(f"'{step.line}' changed the op's slot before {GRACE} was called: "
                           "another CPU may be in the stub, and load one word of the slot before "
                           "the change and the other after it", seq=early.seq)
    return None if seen else Finding("no op was unregistered while the observer recorded stores")


def filter_replaced(evidence: Evidence) -> Finding | None:
    """A hash, of the filter or of the notrace list, is filled before events can find it, and freed
    when no event can still search it."""
    op, fields = evidence.kernel.symbol("global_ops"), _ops(evidence).fields
    return first_of(_hash_replaced(evidence, op + fields[name])
                    for name in ("filter_hash", "notrace_hash"))


def _hash_replaced(evidence: Evidence, place: int) -> Finding | None:
    old = 0
    for step in steps(evidence):
        stored = next((r for r in step.writes if r.v[0] == place), None)
        if not stored:
            continue
        if stored.v[1] and between(evidence.truth.stores, step.first, step.last):
            return _filled(evidence, step, stored) or _replaced(evidence, step, stored, old)
        old = stored.v[1]
    return Finding("the filter or the notrace list of a registered op was written, and no store "
                   "replaced its hash")


def _filled(evidence: Evidence, step: Step, stored: Record) -> Finding | None:
    hi = evidence.kernel.symbol("_end")
    filled = [r for r in step.writes if not evidence.kernel.text[0] <= r.v[0] < hi]
    if late := next((r for r in filled if r.seq > stored.seq), None):
        return Finding(f"'{step.line}' published a hash, and stored into it afterwards: an event "
                       "may search it before it is complete", seq=late.seq)
    if filled and not published(evidence, stored, filled[-1].seq):
        return Finding(f"'{step.line}' filled a hash and published it without an smp_wmb() between",
                       seq=stored.seq)
    return None


def _replaced(evidence: Evidence, step: Step, stored: Record, old: int) -> Finding | None:
    sites = between(evidence.truth.stores, step.first, step.last)
    if sites[0].seq < stored.seq:
        return Finding(f"'{step.line}' wrote call sites before it published the hash in which the "
                       "list looks for their functions", seq=stored.seq,
                       mistake="published-too-late")
    waited = waits(evidence, max(stored.seq, sites[-1].seq), step.last)
    freed = next((r for r in between(evidence.truth.hits["kfree"], stored.seq, step.last)
                  if old and r.v[0] == old), None)
    if not waited or freed and freed.seq < waited:
        return Finding(f"'{step.line}' replaced the hash of a registered op, and did not call "
                       f"{GRACE} before the old one was freed: another CPU may still search it",
                       seq=(freed or stored).seq)
    return None


# ---- labs 5 and 6: threads have shadow stacks while sites call
# --------------------------------------

def _site_stores(evidence: Evidence, step: Step) -> list[Record]:
    """The stores into call sites of functions. The call in ftrace_graph_stub may change at any
    time, and is not one."""
    own = evidence.kernel.symbol("ftrace_graph_call") - evidence.kernel.text[0]
    return [r for r in between(evidence.truth.stores, step.first, step.last) if r.v[0] != own]


def stacks_in_time(evidence: Evidence) -> Finding | None:
    """Threads get shadow stacks before the first user's sites are written, and not again for later
    users. The stacks are freed a grace period after the last user's are nops."""
    begun, ended, hits = 0, 0, evidence.truth.hits
    on = sorted([(r.seq, name) for name in ("shadow_users_begin", "shadow_users_end")
                 for r in hits[name]])
    for (_, name), (seq, then) in pairwise(on):
        if name == then == "shadow_users_begin":
            return Finding("shadow_users_begin was called for a user while an earlier one was "
                           "registered: if there is no memory then, it takes the stacks of all "
                           "threads", seq=seq)
    for step in steps(evidence):
        sites = _site_stores(evidence, step)
        for begin in between(hits["shadow_users_begin"], step.first,
                             step.last) if sites else ():
            begun += 1
            if sites[0].seq < begin.seq:
                return Finding(f"'{step.line}' wrote call sites, and called shadow_users_begin "
                               "afterwards: the first traced calls find no shadow stack",
                               seq=begin.seq)
        for end in between(hits["shadow_users_end"], step.first,
                           step.last) if sites else ():
            ended += 1
            if sites[-1].seq > end.seq or not waits(evidence, sites[-1].seq, end.seq):
                return Finding(f"'{step.line}' called shadow_users_end before the call sites were "
                               f"nops and {GRACE} had been called: a CPU may be about to push a "
                               "frame", seq=end.seq)
    return None if begun and ended else Finding("no first user was registered, or no last one "
                                                "unregistered, while the observer recorded stores")


def _unregistered(evidence: Evidence, step: Step, seq: int) -> Record | None:
    ends = between(evidence.truth.hits["end of unregister_ftrace_graph"], seq, step.last)
    return ends[0] if ends else None


def _birth(evidence: Evidence, step: Step, user: Record, offset: int, where: str) -> Finding | None:
    """The user's birth is stored before `user`, the store after which events find the user."""
    births = [r for r in step.writes if r.v[0] == user.v[1] + offset]
    if not births or births[0].seq > user.seq:
        return Finding(f"'{step.line}' stored a user of function_graph into {where} before its "
                       "birth: an event on another CPU may take it for an older user", seq=user.seq)
    if births[-1].seq > user.seq:
        return Finding(f"'{step.line}' stored a user of function_graph into {where}, and changed "
                       "its birth afterwards", seq=births[-1].seq)
    if not published(evidence, user, births[-1].seq):
        return Finding(f"'{step.line}' stored a user's birth, then the user into {where}, without "
                       "an smp_wmb() between", seq=user.seq)
    return None


def user_in_time(evidence: Evidence) -> Finding | None:
    """Lab 5: the one user is complete before events find it, and a grace period passes after they
    no longer do."""
    place, birth = (evidence.kernel.symbol("graph_user"),
                    evidence.kernel.members("fgraph_ops")["birth"])
    came = left = 0
    for step in steps(evidence):
        for user in (r for r in step.writes if r.v[0] == place):
            end = _unregistered(evidence, step, user.seq)
            wrong = _birth(evidence, step, user, birth, "graph_user") if user.v[1] else None
            came, left = came + bool(user.v[1]), left + bool(end)
            if end and not user.v[1] and not waits(evidence, user.seq, end.seq):
                wrong = Finding(f"'{step.line}' cleared graph_user, and unregister_ftrace_graph "
                                f"returned without a call of {GRACE} after it: another CPU may be "
                                "in the user's handler", seq=user.seq)
            if wrong:
                return wrong
    return None if came and left else Finding("no user was registered, or none unregistered, while "
                                              "the observer recorded stores to graph_user")


def user_read_once(evidence: Evidence) -> Finding | None:
    """Lab 5: the entry of a call reads graph_user once. In a second read it may be NULL."""
    place, calls, seen = evidence.kernel.symbol("graph_user"), _calls_of(evidence), set[int]()
    for phase in evidence.on():
        for r in during(phase, evidence.truth.writes):
            if r.kind != Kind.READ or r.v[0] != place:
                continue
            call = _entered(calls.get(r.context, []), r.seq)
            if call and call.seq in seen:
                return Finding(f"{call.name} was called, and at its entry graph_user was read "
                               "twice: it may be NULL the second time", seq=r.seq)
            seen |= {call.seq} if call else set()
    if again := _read_again(evidence, (place, place + 8)):
        return Finding("when a call returned, or was left, graph_user was read twice before the "
                       "user's handler ran: it may be NULL the second time", seq=again.seq)
    return None if seen else Finding("graph_user was not read at the entry of any call")


def _read_again(evidence: Evidence, place: tuple[int, int]) -> Record | None:
    """The second load of one word at a return, before the first handler runs. A handler may load
    the word too, so only those parts of the boot count in which every handler is logged."""
    truth, calls = evidence.truth, _calls_of(evidence)
    known = [(phase.first, phase.last) for phase in evidence.on()]
    known += [(r.seq, NEVER) for r in truth.hits["shadow_users_begin"][-1:]]
    pushes, pops = map(evidence.kernel.extent, ("shadow_push_into", "shadow_pop"))
    ends = set(map(evidence.kernel.symbol, AT_RETURN))
    # by context, from return_to_handler or a pop to a handler or a push: the words that were
    # loaded, each with its second load
    read: dict[tuple[int, int, int], dict[int, Record | None]] = {}
    for r in sorted([*truth.writes, *truth.callbacks, *truth.rare, *truth.handlers]):
        mine = read.get(r.context)
        if r.kind == Kind.READ:
            if mine is not None and inside(r, place) and not _entered(
                    calls.get(r.context, []), r.seq):
                mine[r.v[0]] = r if r.v[0] in mine else None
        elif r.kind == Kind.HIT or pops[0] <= r.addr < pops[1]:
            read[r.context] = {}
        elif mine is not None and r.addr in ends:
            for again in mine.values():
                if again and any(first < again.seq < last for first, last in known):
                    return again
            del read[r.context]
        elif mine is not None and pushes[0] <= r.addr < pushes[1]:
            del read[r.context]
    return None


# ---- lab 6: many users
# --------------------------------------------------------------------------------

@dataclass(frozen=True)
class Users:
    """The addresses of the variables by which events find users."""

    array: tuple[int, int]
    slots: int
    stamp: int
    direct: int  # fgraph_single.users
    direct_data: tuple[int, ...]  # the variables that the direct path uses
    nobody: int
    birth: int
    idx: int

    @property
    def named(self) -> tuple[int, ...]:
        return self.slots, self.stamp


def _users(evidence: Evidence) -> Users:
    k, single = evidence.kernel, evidence.kernel.symbol("fgraph_single")
    of, user = k.members("fgraph_single"), k.members("fgraph_ops")
    return Users(k.extent("fgraph_array"), k.symbol("fgraph_slots"), k.symbol("fgraph_stamp"),
                 single + of["users"], (single + of["private"], single + of["ret"]),
                 k.symbol("fgraph_stub"), user["birth"], user["idx"])


def users_in_time(evidence: Evidence) -> Finding | None:
    """A user is registered in this order: birth, slot, stamp. Unregistering one ends with a grace
    period."""
    users, came, left = _users(evidence), 0, 0
    for step in steps(evidence):
        for r in (r for r in step.writes if inside(r, users.array)):
            if r.v[1] == users.nobody:
                left += 1
                wrong = _left(evidence, step, r)
            else:
                came += 1
                wrong = (_birth(evidence, step, r, users.birth, "its slot")
                         or _stamped(evidence, step, r, users))
            if wrong:
                return wrong
    if not (came and left):
        return Finding("no user was registered, or none unregistered, while the observer recorded "
                       "stores to fgraph_array")
    return _slots_fit(evidence, users)


def _slots_fit(evidence: Evidence, users: Users) -> Finding | None:
    """After a user is unregistered, fgraph_slots is one more than the number of the last slot in
    use."""
    taken, slots = dict[int, bool](), 0
    for step in steps(evidence):
        for r in step.writes:
            slots = r.v[1] if r.v[0] == users.slots else slots
            if inside(r, users.array):
                taken[(r.v[0] - users.array[0]) // 8] = r.v[1] != users.nobody
        last = max((1 + n for n, is_taken in taken.items() if is_taken), default=0)
        if slots != last and any(
                inside(r, users.array) and r.v[1] == users.nobody for r in step.writes):
            return Finding(
                f"'{step.line}' took a user out of its slot, and then fgraph_slots is {slots}. " +
                (f"The last slot in use is {last - 1}: it must be {last}"
                 if last else "No slot is in use: it must be 0"), mistake=SLOTS, seq=step.last)
    return None


def _stamped(evidence: Evidence, step: Step, slot: Record, users: Users) -> Finding | None:
    """The slot and fgraph_slots are stored before the stamp, and a grace period passes after it."""
    stamps = [r for r in step.writes if r.v[0] == users.stamp]
    if not stamps or stamps[0].seq < slot.seq:
        return Finding(f"'{step.line}' stored a user into its slot, and did not store fgraph_stamp "
                       "afterwards: an event that reads the new stamp may not find the user",
                       seq=slot.seq)
    rest = [r for r in step.writes if r.v[0] in (users.slots, slot.v[1] + users.idx)
            or inside(r, users.array)]
    if late := next((r for r in rest if r.seq > stamps[0].seq), None):
        return Finding(f"'{step.line}' stored the new fgraph_stamp, and the slot, fgraph_slots or "
                       "the user's idx afterwards: an event that reads the new stamp may not find "
                       "the user, or its handler a wrong idx", seq=late.seq)
    if not published(evidence, stamps[0], rest[-1].seq):
        return Finding(f"'{step.line}' stored a user into its slot, then the stamp, without an "
                       "smp_wmb() between", seq=stamps[0].seq)
    if not waits(evidence, stamps[-1].seq, step.last):
        return Finding(f"'{step.line}' registered a user, and did not call {GRACE} after the store "
                       "of the stamp: the command ended before every CPU had seen the user",
                       seq=stamps[-1].seq)
    return None


def _left(evidence: Evidence, step: Step, slot: Record) -> Finding | None:
    end = _unregistered(evidence, step, slot.seq)
    if not end:
        return None
    stores: list[Record] = between(evidence.truth.stores, step.first, step.last)
    if not waits(evidence, max(before(stores, end.seq, slot.seq), slot.seq), end.seq):
        return Finding(f"'{step.line}' took a user out of its slot, and unregister_ftrace_graph "
                       f"returned without a call of {GRACE} after it: another CPU may be in the "
                       "user's handler", seq=slot.seq)
    return None


def shortcut_in_time(evidence: Evidence) -> Finding | None:
    """A grace period passes before the direct path of a single user is turned on, and another one
    after it is turned off."""
    users, on, seen = _users(evidence), None, 0
    for step in steps(evidence):
        shared = [r for r in step.writes
                  if inside(r, users.array) or r.v[0] in (*users.named, *users.direct_data)]
        for r in (r for r in step.writes if r.v[0] == users.direct):
            if r.v[1]:
                seen, on = seen + 1, step
                data = before((w for w in shared if w.v[0] in users.direct_data), step.last, 0)
                if data and not waits(evidence, data, r.seq):
                    return Finding(f"'{step.line}' stored what the shortcut of a single "
                                   "user needs, and then fgraph_single.users, without a call of "
                                   f"{GRACE} between: another CPU may take the shortcut and load "
                                   "the old values", seq=r.seq)
            elif on:
                on, after = None, next((w.seq for w in shared if w.seq > r.seq), step.last)
                if not waits(evidence, r.seq, after):
                    return Finding(f"'{step.line}' set fgraph_single.users to 0 and changed the "
                                   f"users without a call of {GRACE} between: another CPU may be "
                                   "on the shortcut", seq=r.seq)
    return None if seen else Finding(
        "no single user had the shortcut while the observer recorded stores")


def dead_or_unused(evidence: Evidence) -> Finding | None:
    """Registering stores the user, then reads ftrace_graph_dead; find_frame sets that flag, then
    hides all users. With a full barrier between, at least one of the two sees the other's store."""
    users, dead = _users(evidence), evidence.kernel.symbol("ftrace_graph_dead")
    if wrong := _given_up(evidence, users):
        return wrong
    looks = [r for r in evidence.truth.writes if r.kind == Kind.READ and r.v[0] == dead]
    seen = 0
    for step in steps(evidence):
        for r in (r for r in step.writes if r.v[0] in (users.slots, users.direct) and r.v[1]):
            seen += 1
            look = next((x for x in between(looks, r.seq, step.last) if x.context == r.context),
                        None)
            if not look or not barrier(evidence, r, r.seq, look.seq, STORES | LOADS):
                name = "fgraph_slots" if r.v[0] == users.slots else "fgraph_single.users"
                return Finding(f"'{step.line}' stored {name}, and did not read ftrace_graph_dead "
                               "afterwards with an smp_mb() between: a CPU that ends graph tracing "
                               "at the same time may not be noticed", seq=r.seq)
    return None if seen else Finding(
        "no user was registered while the observer recorded stores to fgraph_slots")


def _given_up(evidence: Evidence, users: Users) -> Finding | None:
    """When a frame is bad, find_frame sets the variables by which events find users to 0."""
    for stop in evidence.truth.hits["ftrace_graph_stop"][:1]:
        until = next((r.seq for r in evidence.truth.handlers if r.seq > stop.seq), NEVER)
        for name, at in (("fgraph_single.users", users.direct), ("fgraph_slots", users.slots)):
            store = next((r for r in between(evidence.truth.writes, stop.seq, until)
                          if r.kind == Kind.WRITE and r.v[:2] == (at, 0)
                          and r.context == stop.context), None)
            if not store or not barrier(evidence, store, stop.seq, store.seq, STORES | LOADS):
                return Finding(f"a frame was bad, and after ftrace_graph_stop {name} was not set "
                               "to 0 with an smp_mb() before: a user that registers at the same "
                               "time may be called", seq=stop.seq)
    return None


def _calls_of(evidence: Evidence) -> dict[tuple[int, int, int], list[Call]]:
    """The calls of each context, in order."""
    found: dict[tuple[int, int, int], list[Call]] = {}
    for call in evidence.truth.calls:
        found.setdefault((call.thread, call.level, call.trap), []).append(call)
    return found


def _entered(calls: list[Call], seq: int) -> Call | None:
    """The last call before this record, if it is at its call site still."""
    at = bisect_left(calls, seq, key=lambda call: call.seq) - 1
    landed = calls[at].landed if at >= 0 else None
    return calls[at] if at >= 0 and (not landed or landed.seq > seq) else None


def stamp_first(evidence: Evidence) -> Finding | None:
    """ftrace_graph_func reads the stamp, then each slot once, with a barrier between. It runs
    between a call site and the instruction after it."""
    users, calls = _users(evidence), _calls_of(evidence)
    stamps: dict[tuple[int, int, int], Record] = {}
    read: dict[tuple[Call, int], Record] = {}  # by call and slot
    seen = 0
    for r in (r for r in evidence.truth.writes if r.kind == Kind.READ):
        call = _entered(calls.get(r.context, []), r.seq)
        if call and call.landed and inside(r, users.array):
            if (call, r.v[0]) in read:
                return Finding("call_entries read one slot twice: between the two, another CPU may "
                               "store another user there, whose birth was not compared", seq=r.seq)
            read[call, r.v[0]] = r
        if r.v[0] == users.stamp and call:
            stamps[r.context] = r
        elif r.context in stamps and (r.v[0] == users.slots or inside(r, users.array)):
            seen += 1
            stamp = stamps.pop(r.context)
            if (not evidence.isa.acquires(stamp.word)
                    and not barrier(evidence, r, stamp.seq, r.seq, LOADS)):
                return Finding("ftrace_graph_func read fgraph_stamp, then the slots, without an "
                               "smp_rmb() between: it may read a slot as it was before that stamp",
                               seq=r.seq)
    return None if seen else Finding(
        "ftrace_graph_func was not seen to read fgraph_stamp, then the slots")
