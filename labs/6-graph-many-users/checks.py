"""Lab 6: the check of each rung, and the mistakes that it names. Its own checks are about many
users of one patched return.

The second argument of a handler says whose handler ran: for the shell's users
(`graph`) an entry of hand_users, for function_graph's tracers their fgraph_ops.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TypeVar

from grading.checks import faults, graph_checks
from grading.checks.checks import (all_of, first_of, lives, named, right_arguments, right_result,
                                   within)
from grading.checks.console_checks import lives_and_traces, nested_as_expected
from grading.checks.entry import handler_arguments
from grading.checks.frames import (NOT_ASKED, ended_without_stack, frames_kept,
                                   patched_if_wanted, room_given_back)
from grading.evidence.evidence import Evidence, HandUser, Phase, between, during, once
from grading.evidence.finding import Finding
from grading.checks.graph_checks import (at_rest, at_return, comes_home, depth, durations,
                                         entries_end, framed, frames_out, link_replaced,
                                         nested_as_printed, registers_given_back, of_call,
                                         something_returned, stayed, three_agree, through_handler,
                                         values, cpu_of)
from grading.checks.integrity import as_linked, words_stored
from grading.checks.order import (SLOTS, dead_or_unused, shortcut_in_time, stacks_in_time,
                                  stamp_first, users_in_time)
from grading.checks.rare import (LEFT_TWICE, PANICS, WRONG_SIZE, answered, filter_of_two, leavers,
                                 left, left_once, own_calls, refused, room, sizes, walks)
from grading.checks.registers import found_as_left
from grading.checks.schedule_checks import PLAYED, returns_under_schedules
from grading.machine.observer import Record
from grading.session.graph_session import GraphSession
from grading.stimulus.schedules import Change
from grading.truth.returns import Span, calls_to
from grading.checks.seen import (ANYTHING_RETURNED, BETWEEN, FRAMES_OUT, INTERRUPTED, POWERED_OFF,
                                 TEXT_AT_BOOT, TEXT_AT_END, Amount, Coverage, arguments,
                                 graph_printed, half_of, once as seen_once, ran, registers,
                                 returned, returned_compared, timed, values_printed, went_home)
from grading.checks.shadow import whole
from grading.truth.truth import AT_ENTRY, AT_RETURN, OF_PARENT, UserEvent
from grading.verdict import Verdict

SESSION = GraphSession
T = TypeVar("T", Record, UserEvent)


Handled = list[tuple[Span, list[T], list[T]]]


def _handled(evidence: Evidence, phase: Phase, records: list[T]) -> Handled[T]:
    """Each call with the records of the users' handlers at its entry and at its return."""
    patched, found = framed(evidence, phase), Handled[T]()
    of: dict[tuple[int, int, int], list[T]] = {}
    for r in during(phase, records):
        of.setdefault((r.thread, r.level, r.vcpu), []).append(r)
    for span in evidence.spans(phase):
        ends, call = at_return(span, patched), span.call
        if span.body and (ends or not patched(span)):
            mine = of.get((call.thread, call.level, call.vcpu), [])
            found.append((span, between(mine, call.seq, span.body.seq),
                          between(mine, ends[0].seq, ends[1].seq) if ends else []))
    return found


@once
def _hand_calls(evidence: Evidence, phase: Phase) -> Handled[UserEvent]:
    return _handled(evidence, phase, evidence.truth.user_events)


def _by_hand(evidence: Evidence) -> list[Phase]:
    return [phase for phase in evidence.on() if phase.hands]


def _end_of(span: Span) -> int:
    """The record at which a debugger stops to show what is wrong at the return."""
    return span.leaving.hits[0].seq if span.leaving and span.leaving.hits else span.call.seq


def _wrong_order(evidence: Evidence, phase: Phase, span: Span, entered: Sequence[int],
                 returned: Sequence[int]) -> Finding:
    """A finding with the order of the users at the entry and at the return, also if a user was
    called at one of the two only."""
    wrong = _forgotten(entered, returned) or (
        "the return handlers ran in a wrong order: it must be the reverse of the order at the "
        "entry")
    return Finding(f"{phase.name}, {cpu_of(span)}: when {span.name} returned, {wrong}",
                   [(str(left), str(right), False)
                    for left, right in zip_longest(entered, returned, fillvalue="-")],
                   ("called at the entry: user", "called at the return: user"), seq=_end_of(span),
                   mistake=_order(evidence, entered, returned))


def _more(got: list[int], want: list[int], slug: str) -> str:
    """The mistake's name, if all required users were called, and others too."""
    return slug if set(got) > set(want) else ""


def _order(evidence: Evidence, entered: Sequence[int], returned: Sequence[int]) -> str:
    """The mistake's name, or ''. User numbers count in the order of the entry."""
    if set(entered) - set(returned) == {0}:
        # otherwise no user is called at any return
        return "slot-0-forgotten" if any(t.what == AT_RETURN
                                         for t in evidence.truth.user_events) else ""
    return "return-handlers-in-entry-order" if entered == returned else ""


def _forgotten(entered: Sequence[int], returned: Sequence[int]) -> str:
    """A sentence about a user that was called only at the entry or only at the return, or ''."""
    missing, extra = sorted(set(entered) - set(returned)), sorted(set(returned) - set(entered))
    if missing:
        return f"user {missing[0]} said yes at the entry, and was not called at the return"
    return f"user {extra[0]} was called at the return, and not at the entry" if extra else ""


def sixteen(evidence: Evidence) -> Finding | None:
    """Each of sixteen users is called for its own functions and for no others; a seventeenth user
    is refused."""
    for phase in _by_hand(evidence):
        if "ENOSPC" not in phase.refused:
            return Finding(
                f"{phase.name}: the seventeenth user must be refused with ENOSPC; "
                f"the shell printed '{phase.refused.strip()}'", began=phase.first,
                mistake="seventeenth-user")
        for span, entered, returned in _hand_calls(evidence, phase):
            want = [h.number for h in phase.hands if span.name in h.names]
            got = [t.user for t in entered]
            if sorted(got) != want:
                return of_call(
                    phase.name, span,
                    f"{span.name} was entered; it is in the filters of users {want}, and users "
                    f"{sorted(got)} "
                    "were called", mistake=_more(got, want, "filter-not-asked"))
            want = [h.number for h in phase.hands if span.name in h.names and h.returning]
            got = [t.user for t in returned if t.what == AT_RETURN]
            if sorted(got) != want:
                return of_call(
                    phase.name, span,
                    f"{span.name} returned; users {want} said yes at the entry, and users "
                    f"{sorted(got)} were called",
                    _end_of(span), _more(got, want, "told-without-asking"))
    return None if _by_hand(evidence) else Finding("sixteen users were never registered")


def followed(evidence: Evidence) -> Finding | None:
    """A filter that is written while function_graph is on takes effect: the op of all users traces
    what they select now."""
    for phase in evidence.on():
        listed = set(phase.listed("enabled_functions"))
        if phase.rewritten and phase.filter and listed != phase.filter.names:
            rows = [(name if name in phase.filter.names else "-", name if name in listed else "-",
                     False) for name in sorted(listed ^ phase.filter.names)[:12]]
            return Finding(
                f"{phase.name}: set_ftrace_filter of both users was '{phase.rewritten}' when they "
                f"were registered, and was written again while they "
                "were on; enabled_functions does not list what the filters select now", rows,
                ("selected", "listed"), began=phase.first,
                mistake="filter-change-unheard" if listed == {phase.rewritten} else "")
    return None


def reverse(evidence: Evidence) -> Finding | None:
    """Return handlers run in the reverse order of the entry handlers."""
    wrong = first_of(
        _reverse_tracers(evidence, phase) for phase in evidence.on() if len(stayed(phase)) > 1
    )
    if wrong:
        return wrong
    for phase in _by_hand(evidence):
        asked = {h.number for h in phase.hands if h.returning}
        for span, entered, returned in _hand_calls(evidence, phase):
            first = [t.user for t in entered if t.user in asked]
            last = [t.user for t in returned if t.what == AT_RETURN]
            if last != first[::-1]:
                return _wrong_order(evidence, phase, span, first, last)
    return None


def _reverse_tracers(evidence: Evidence, phase: Phase) -> Finding | None:
    """The same for two function_graph tracers, identified by the second argument of their handlers.
    """
    patched = framed(evidence, phase)
    for span, at_entry, at_end in _handled(evidence, phase, evidence.truth.users):
        want = sum(span.name in u.filter.names for u in phase.users)
        if not patched(span):
            continue
        entered, returned = [r.v[1] for r in at_entry], [r.v[1] for r in at_end]
        if len(set(entered)) != want:
            return of_call(
                phase.name, span,
                f"{span.name} was entered, {want} tracers have it in their filter, "
                f"and the entry handler ran for {len(set(entered))} of them")
        if returned != entered[::-1]:
            numbers = {addr: n for n, addr in enumerate(dict.fromkeys(entered + returned))}
            return _wrong_order(evidence, phase, span, [numbers[a] for a in entered],
                                [numbers[a] for a in returned])
    return None


def kept(evidence: Evidence) -> Finding | None:
    """At a return a user finds the data that it stored at the entry of the same call, and those of
    the caller's call."""
    seen = 0
    for phase in _by_hand(evidence):
        keepers = {h.number: h for h in phase.hands if h.kind == "keep"}
        value: dict[tuple[Span, int], int] = {}
        for span, entered, returned in _hand_calls(evidence, phase):
            value |= {(span, t.user): t.value for t in entered}
            for t in returned:
                if t.user in keepers and t.what == AT_RETURN:
                    seen += 1
                    if t.value != value.get((span, t.user)):
                        return of_call(
                            phase.name, span,
                            f"user {t.user} stored {value.get((span, t.user), 0):#x} as entry data "
                            f"when "
                            f"{span.name} was entered, and found "
                            f"{f'{t.value:#x}' if t.value else 'nothing'} when it returned",
                            _end_of(span), _not_its_own(evidence, phase, (span, t.user) in value))
        wrong = first_of(
            _parents(phase, span, returned, keepers, value)
            for span, _, returned in _hand_calls(evidence, phase))
        if wrong:
            return wrong
    return None if seen else Finding("no user that reserves entry data was called at a return")


def _not_its_own(evidence: Evidence, phase: Phase, notified: bool) -> str:
    """The mistake's name, if users find data, but not their own."""
    found = any(t.value for t in during(phase, evidence.truth.user_events) if t.what == AT_RETURN)
    return "data-of-another-user" if notified and found else ""


def _parents(phase: Phase, span: Span, returned: list[UserEvent], keepers: Mapping[int, HandUser],
             value: Mapping[tuple[Span, int], int]) -> Finding | None:
    """A finding if the users' data of the next outer traced call are wrong."""
    if span.transit:
        return None  # an interrupt came while a frame was pushed or popped: both results are right
    outer = span.below
    while outer and outer.name not in phase.returning:
        outer = outer.below
    found = {t.user: t.value for t in returned if t.what == OF_PARENT}
    asked = {t.user for t in returned if t.what == AT_RETURN}
    want = {
        n: value.get((outer, n))
        for n, h in keepers.items() if outer and outer.name in h.names and n in asked
    }
    if found == want:
        return None
    return of_call(
        phase.name, span, f"when {span.name} returned, users looked for their entry data of "
        + (f"the call of {outer.name}" if outer else
           "the next outer traced call, which does not exist")
        + f". They found {found}, and must find {want} (value by user)",
        _end_of(span),
        mistake="parent-off-by-one" if found and found == {n: value.get((span, n))
                                                           for n in found} else "")


def _out_beneath(events: Iterable[UserEvent]) -> tuple[bool, bool]:
    """Was a call for which user 0 was called still in flight at the end? Was user 1 called for a
    return in that thread meanwhile?"""
    out: dict[tuple[int, int], int] = {}
    inside = False
    for t in events:
        key = (t.thread, t.level)
        if t.user == 0 and t.what != OF_PARENT:
            out[key] = out.get(key, 0) + (1 if t.what == AT_ENTRY else -1)
        elif t.user == 1 and t.what == AT_RETURN and out.get(key, 0) > 0:
            inside = True
    return any(calls > 0 for calls in out.values()), inside


def slot_again(evidence: Evidence) -> Finding | None:
    """The new owner of a slot gets neither returns nor data of frames that belong to the slot's
    earlier owner."""
    open_calls: dict[tuple[int, int, int], int] = {}
    events = between(evidence.truth.user_events, *evidence.slot_again)
    for t in events:
        key = (t.user, t.thread, t.level)
        if t.what == OF_PARENT and t.user == 1:
            return Finding(
                f"CPU {t.vcpu}: user 1 reserves no entry data, and found {t.value:#x} in an outer "
                f"frame: that frame is older than "
                "the user, and the data belong to the slot's earlier owner", seq=t.seq,
                mistake="data-of-a-former-owner")
        if t.what == OF_PARENT:
            continue
        open_calls[key] = open_calls.get(key, 0) + (1 if t.what == AT_ENTRY else -1)
        if open_calls[key] < 0:
            return Finding(
                f"CPU {t.vcpu}: user {t.user} was called at a return, and not at the entry: the "
                f"frame is older than the "
                "user, and belongs to the slot's earlier owner", seq=t.seq,
                mistake="stale-handler-called")
    slept, inside = _out_beneath(events)
    if not slept:
        return Finding("no thread slept in a traced function while its user was unregistered")
    return None if inside else Finding(
        "the user that was registered later was not called at any return while the first user's "
        "frame was still on the shadow stack"
    )


def changed_inside(evidence: Evidence) -> Finding | None:
    """A user that is registered while the entry handlers of a call run is not called for it. A
    handler that runs while its user is unregistered finds the data that it kept."""
    kept = 0
    for t in between(evidence.truth.user_events, *evidence.changed_inside):
        if t.user == 1 and t.what != OF_PARENT:
            return Finding(
                f"CPU {t.vcpu}: user 1 was registered while the entry handlers of a call ran, and "
                "was called for it: its birth is larger than the stamp of the frame", seq=t.seq)
        if t.user == 0 and t.what == AT_ENTRY:
            kept = t.value
        if t.user == 0 and t.what == AT_RETURN and t.value != kept:
            return Finding(
                f"user 0 was unregistered while its return handler ran, and the handler looked for "
                f"its entry data when the slot was free already: it must find {kept:#x}, and found "
                f"{f'{t.value:#x}' if t.value else 'nothing'}", seq=t.seq)
    return None


def leaver_left(evidence: Evidence) -> Finding | None:
    """No handler of a user runs after the user is unregistered, even for calls in flight; the other
    user is called as before."""
    for phase in evidence.on():
        gone = [u for u in phase.users if u.leaves]
        left = during(phase, evidence.truth.hits["end of unregister_ftrace_graph"])
        if not gone:
            continue
        if not left:
            return Finding(
                f"{phase.name}: {gone[0].directory} got another tracer, and "
                f"unregister_ftrace_graph did not return",
                began=phase.first)
        if not during(phase, evidence.truth.users):
            return Finding(f"{phase.name}: no handler ran, of {len(phase.users)} users",
                           began=phase.first)
        after = {t.v[1] for t in between(evidence.truth.users, left[0].seq, phase.last)}
        if len(after) > len(phase.users) - len(gone):
            return Finding(f"{phase.name}: handlers of a user ran after it was unregistered",
                           seq=left[0].seq)
        wrong = within(
            phase, first_of(nested_as_printed(evidence, phase, user) for user in stayed(phase))
        )
        if wrong:
            return wrong
    return None


def walked(evidence: Evidence) -> Finding | None:
    """The stack of a sleeping thread shows the true return address of a function whose return is
    patched."""
    shown = re.search(r"^ *sleep_ns\+\S+\s+([\w.]+)\+0x([0-9a-f]+)/", evidence.walk, re.M)
    if not shown:
        return Finding("ps -s showed no thread that sleeps in sleep_ns, with its caller")
    places = {call + 4 for call in calls_to(evidence.kernel, "sleep_ns")}
    found = evidence.kernel.address_of(shown[1]) + int(shown[2], 16)
    if found in places:
        return None
    return Finding(
        f"a thread sleeps in sleep_ns, whose return is patched. ps -s shows that it returns to "
        f"{evidence.kernel.name_at(found)}, and "
        f"the calls of sleep_ns return to "
        f"{' or '.join(map(evidence.kernel.name_at, sorted(places)))}: the true address is in the "
        f"shadow frame"
    )


def gone_unasked(evidence: Evidence) -> Finding | None:
    """A user may have no gone handler."""
    fault = faults.last(evidence) if evidence.verdict == Verdict.PANIC else None
    if fault and (fault.access, fault.pc) == ("execution", 0) and evidence.kernel.name_at(
            fault.link).startswith("ftrace_graph_gone+"):
        return Finding("a function was left without a return, and ftrace_graph_gone called the "
                       "gone handler of a user that has none: its gonefunc is NULL",
                       mistake="gone-handler-not-asked")
    return None


def home(evidence: Evidence) -> Finding | None:
    """Each call returns to its caller; this is also judged if the boot ended early."""
    return gone_unasked(evidence) or comes_home(evidence) or left(evidence) or (
        None if evidence.why else through_handler(evidence) or link_replaced(evidence)
        or walked(evidence) or walks(evidence) or answered(0, 1, 3, 4)(evidence)
        or frames_kept(evidence))


def _last_forgotten(evidence: Evidence, finding: Finding) -> str:
    """Of sixteen users only the last one is never called."""
    notified = {
        t.user for phase in _by_hand(evidence) for t in during(phase, evidence.truth.user_events)
    }
    wanted = {h.number for phase in evidence.on() for h in phase.hands}
    return "last-slot-forgotten" if notified and wanted - notified == {max(wanted)} else ""


def ended(evidence: Evidence) -> str:
    """The mistake of a boot that ended early: a thread had no shadow stack; or, from the last
    exception, the filter or handler of an unregistered user was used."""
    if slug := ended_without_stack(evidence):
        return slug
    fault = faults.last(evidence) if evidence.verdict == Verdict.PANIC and evidence.truth.hits[
        "end of unregister_ftrace_graph"] else None
    if not fault:
        return ""
    # GCC may split a function into name.part.0
    of_pc, of_link = (re.split("[+.]", evidence.kernel.name_at(a))[0]
                      for a in (fault.pc, fault.link))
    asked = fault.access == "read" and of_pc in ("update_graph_ops", "wanted")
    if fault.access == "read" and of_pc in PANICS:
        return PANICS[of_pc]
    return ("slot-not-cleared"
            if asked or fault.access == "execution" and of_link == "ftrace_graph_func" else "")


MISTAKES = {
    **graph_checks.MISTAKES,
    NOT_ASKED: "a call of a thread without a shadow stack is traced",
    "slot-not-cleared": "the slot of an unregistered user still points to it",
    "last-slot-forgotten": "the search of the slots ends before the last user",
    "return-handlers-in-entry-order": "return handlers run in the order of the entry handlers",
    "slot-0-forgotten": "the user in slot 0 is not called at any return",
    "filter-change-unheard": "a filter that is written while the tracer is on has no effect",
    "stale-handler-called":
        "the present owner of a slot is called for a frame of its earlier owner",
    "told-without-asking": "users are called at a return although they said no at the entry",
    "filter-not-asked": "users are called for functions that only another user's filter selects",
    "data-of-another-user": "a user finds the entry data of another user",
    "data-of-a-former-owner": "in an outer frame a user finds the entry data of its slot's earlier "
    "owner",
    "parent-off-by-one": "the caller's data are looked for in the function's own frame",
    "data-not-given-back": "a user's entry data stay on the shadow stack although the user said no",
    "patched-for-nobody": "a return is patched although every user said no",
    "shadow-frame-read-after-release": "a frame is read after it was released",
    WRONG_SIZE: "a user's entry data do not have the size that it asked for",
    SLOTS: "after a user is unregistered, fgraph_slots is not one more than the last slot in use",
    LEFT_TWICE: "a user that is unregistered already is unregistered again",
    "walk-without-a-stack": "a stack walk reads the shadow stack of a thread that has none",
    "beyond-the-outermost": "entry data are looked for beyond the outermost frame",
    "gone-handler-not-asked": "a gone handler is called that the user does not have",
    "seventeenth-user": "one user too many is not refused with ENOSPC",
}
ADVICE = {"walk-ends-at-the-handler", "first-users-filter-only", "stamp-after-slots"}


def _hand_amounts(evidence: Evidence) -> Iterator[Amount]:
    """The handler calls of each of the sixteen users."""
    for phase in _by_hand(evidence):
        events = Counter(
            t.user for t in during(phase, evidence.truth.user_events) if t.what != OF_PARENT
        )
        for hand in phase.hands:
            yield Amount(f"{phase.name}, user {hand.number}", events[hand.number],
                         half_of(evidence, phase, hand.names))


def _keeper_amounts(evidence: Evidence) -> Iterator[Amount]:
    for phase in _by_hand(evidence):
        found = Counter(t.user for t in during(phase, evidence.truth.user_events)
                        if t.what == AT_RETURN and t.value)
        for hand in phase.hands:
            if hand.kind == "keep":
                yield Amount(f"{phase.name}, user {hand.number}", found[hand.number],
                             half_of(evidence, phase, hand.names))


def _calls_after(evidence: Evidence) -> Iterator[Amount]:
    """Calls after a user was unregistered; with one CPU the workload may have ended before that."""
    for phase in evidence.on():
        if any(u.leaves for u in phase.users):
            left = during(phase, evidence.truth.hits["end of unregister_ftrace_graph"])
            yield Amount(
                phase.name,
                sum(bool(left) and call.seq > left[0].seq for call in evidence.calls(phase)),
                int(evidence.smp > 1))


def _two_tracer_amounts(evidence: Evidence) -> Iterator[Amount]:
    for phase in evidence.on():
        if len(stayed(phase)) > 1:
            yield Amount(phase.name, len(during(phase, evidence.truth.users)),
                         sum(half_of(evidence, phase, u.filter.names) for u in phase.users))


HAND_CALLS = Coverage("call of the user's handlers", _hand_amounts)
KEPT_DATA = Coverage("return at which the user found its entry data", _keeper_amounts)
TWO_TRACERS = Coverage("call of the handlers of two tracers", _two_tracer_amounts)
CALLS_AFTER_LEAVING = Coverage("call after a user was unregistered", _calls_after)
LEAVERS = seen_once("phase in which a user was unregistered",
                    lambda e: sum(any(u.leaves for u in p.users) for p in e.on()))
SLOT_AGAIN = seen_once("call of a user's handlers while a slot got a new user",
                       lambda e: len(between(e.truth.user_events, *e.slot_again)), 4)
LEFT_BY_TWO = Coverage("CPU that unregistered a user which another CPU unregistered too",
                       lambda e: [Amount("", len(leavers(e)), 2 if e.smp > 1 else 0)])

CHANGED_INSIDE = Coverage("handler that ran while a user was registered or unregistered",
                          lambda e: [Amount("", sum(t.what == AT_RETURN for t in between(
                              e.truth.user_events, *e.changed_inside)), 2 * int(e.smp > 1))])

# User 1 stays registered; user 2 may get the slot of user 0.
COMES, GOES, STAYS = ("fgraph_op 1 see calls_traced",), ("fgraph_op 1 off",), frozenset({1})
SCHEDULES = (
    Change("register", "fgraph_op 0 see calls_traced", "register_ftrace_graph",
           after=("fgraph_op 0 off",), comes=frozenset({0}), first=COMES, last=GOES, stays=STAYS),
    Change("unregister", "fgraph_op 0 off", "unregister_ftrace_graph",
           before=("fgraph_op 0 see calls_traced",), goes=frozenset({0}), first=COMES, last=GOES,
           stays=STAYS),
    Change("unregister-last", "fgraph_op 0 off", "unregister_ftrace_graph",
           before=("fgraph_op 0 see calls_traced",), goes=frozenset({0})),
    Change("slot-again", "fgraph_op 0 off; taskset -c 0 fgraph_op 2 see calls_traced",
           "register_ftrace_graph", before=("fgraph_op 0 see calls_traced",),
           after=("fgraph_op 2 off",), goes=frozenset({0}), comes=frozenset({2}), first=COMES,
           last=GOES, stays=STAYS),
)

CHECKS = {
    "returned": something_returned,
    "life": lives,
    "off": all_of(at_rest, words_stored, frames_out),
    "arguments": all_of(right_arguments, right_result, registers_given_back, found_as_left,
                        handler_arguments),
    "home": home,
    "one CPU": named(all_of(followed, three_agree), entries_end, depth),
    "many CPUs": named(all_of(followed, three_agree), entries_end, depth),
    "values": all_of(values, durations),
    "sixteen": named(all_of(sixteen, patched_if_wanted, own_calls, refused), _last_forgotten),
    "reverse": reverse,
    "data": all_of(kept, room_given_back, sizes, room, answered(2), whole),
    "leaving": all_of(leaver_left, slot_again, changed_inside, filter_of_two, left_once,
                      users_in_time, stamp_first, shortcut_in_time, dead_or_unused,
                      stacks_in_time),
    "schedules": all_of(as_linked, words_stored, returns_under_schedules),
}

CONSOLE = {"life": lives_and_traces, "one CPU": nested_as_expected, "many CPUs": nested_as_expected}

SEEN = {
    "returned": (ANYTHING_RETURNED,),
    "life": (POWERED_OFF, ran(4, 3)),
    "off": (TEXT_AT_BOOT, ran(0, 3), TEXT_AT_END, FRAMES_OUT),
    "arguments": (BETWEEN, arguments(4, 3), registers(4), returned_compared(4), TWO_TRACERS),
    "home": (went_home(4, 3), returned(4), INTERRUPTED),
    "one CPU": (ran(4, 3), graph_printed(4)),
    "many CPUs": (ran(4, 3), graph_printed(4)),
    "values": (values_printed(4), timed(4)),
    "sixteen": (HAND_CALLS, INTERRUPTED),
    "reverse": (TWO_TRACERS, HAND_CALLS),
    "data": (HAND_CALLS, KEPT_DATA, INTERRUPTED),
    "leaving": (LEAVERS, CALLS_AFTER_LEAVING, SLOT_AGAIN, LEFT_BY_TWO, CHANGED_INSIDE,
                INTERRUPTED),
    "schedules": (PLAYED,),
}
