"""Labs 5 and 6, one CPU: checks of what handlers and traced functions may do and the workload never
does (kern/apps/rare.c).

The checks use only call sites, handlers and shadow stacks as the observer logged them.
"""

import errno
from collections.abc import Callable

from grading.checks.frames import WORDS
from grading.evidence.evidence import Evidence, once
from grading.evidence.finding import Finding, returned
from grading.machine.observer import Record
from grading.truth.truth import Call

OWN_CALLS, WRONG_FRAME, AFTER_THE_END, WRONG_SIZE = ("recursion-not-guarded", "wrong-frame-taken",
                                                     "told-after-the-end", "wrong-size")
LEFT_TWICE, NOT_GONE = "left-twice", "users-not-told"
MISTAKES = {
    OWN_CALLS: "a user is called for functions that its own handler calls",
    WRONG_FRAME: "a function was left without a return, and a later return does not use the frame "
                 "whose sp fits",
    NOT_GONE: "a function was left without a return, and its users are not told so, or graph "
              "tracing ends",
    AFTER_THE_END: "users are called after a bad frame has ended graph tracing",
}
# each up to rare_e calls the next one; rare_b calls rare_f
CHAIN = ["rare_a", "rare_b", "rare_c", "rare_d", "rare_e", "rare_f"]
OFF = 16  # bytes by which sp is lower when rare_f returns than it was at its call
HANDLERS = ("rare_entry", "rare_return", "rare_gone")
# Each return, in order: the function, the place it must return to, its value, how many functions of
# CHAIN have not returned yet, the function whose frame is the newest, and the function at whose
# call sp was the same ("": none).
RETURNS = (("rare_c", "rare_home_c", 3, 2, "rare_e", "rare_c"),
           ("rare_f", "rare_home_f", 6, 2, "rare_f", ""), ("rare_a", "rare_home_a", 1, 0, "rare_b",
                                                           "rare_a"))
# The functions that are left before each return: each is counted in `overrun`.
GONE = (2, 0, 1)
# The handlers that run until graph tracing ends. rare_d and rare_e are left; nobody is told of
# rare_b, which is left after the end. In lab 6 another user, which is registered before this one,
# has the same gone handler.
TOLD = (*(("rare_entry", name) for name in CHAIN[:-1]), ("rare_gone", "rare_e"),
        ("rare_gone", "rare_d"), ("rare_return", "rare_c"), ("rare_entry", "rare_f"))
# programs whose calls the checks need, and the least number of each
ASKED = {"rare_refused": 3, "rare_data": 10, "rare_room": 4, "rare_answer": 12}
MOST_DATA = 256  # bytes that a user may keep
# The stack walks: the callback that walks, the function of the tracer that the walk must contain,
# how it walks, and what is then in the place of the traced function's return address ("": that
# address itself); the function that was called. LINK: by the frame records alone. ENTRY: the
# kernel's own walk, which looks up return addresses that are patched. The op is called after the
# entry handler, so its walk sees the patched address.
ENTRY, LINK = 1, 2
WALKS = (("the entry handler of a user", "ftrace_caller", LINK, "", "rare_outer"),
         ("an op that is called after function_graph's", "ftrace_caller", LINK,
          "return_to_handler", "rare_outer"),
         ("the return handler of a user", "return_to_handler", ENTRY, "", "rare_outer"),
         ("the return handler of a user, after rare_jump's tail call of rare_outer,",
          "return_to_handler", ENTRY, "", "rare_jump"))
# What the functions are asked that no walk and no handler of the workload asks them: what is asked,
# and the mistake if the kernel panics instead of an answer.
ANSWERS = (
    "ftrace_graph_ret_addr for a thread without a shadow stack, and the address return_to_handler",
    "ftrace_graph_ret_addr for a thread without a shadow stack, and another address",
    "fgraph_retrieve_parent_data for a frame further out than the outermost",
    "ftrace_graph_ret_addr for an fp that the newest frame has, and an older one too",
    "ftrace_graph_ret_addr for an fp that no frame has, and the address return_to_handler")
PANICS = {"ftrace_graph_ret_addr": "walk-without-a-stack",
          "fgraph_retrieve_parent_data": "beyond-the-outermost"}
# The registrations that are not allowed, by number: the error, what was tried, and the mistake's
# name if it has one.
REFUSED = ((errno.ENOSPC, "a user was to be registered while ops had all stubs",
            ""), (errno.EBUSY, "a registered user was to be registered again", ""),
           (errno.ENODEV, "a user was to be registered after a bad frame had ended graph tracing",
            AFTER_THE_END),
           (errno.ENODEV, "a user was to be registered after ftrace_disabled was set", ""))


@once
def calls(evidence: Evidence) -> dict[str, Call]:
    """The last call of each of the program's functions, by name."""
    return {call.name: call for call in evidence.truth.calls if call.name.startswith("rare_")}


def _bad_since(evidence: Evidence) -> int:
    """The record number of the call of CHAIN's first function."""
    call = calls(evidence).get(CHAIN[0])
    return call.seq if call else 1 << 62


def _told(evidence: Evidence) -> list[tuple[str, str, int]]:
    """The runs of handlers: the handler, the traced function, the record number."""
    handlers = {evidence.kernel.symbol(name): name for name in HANDLERS}
    sites, name_at = evidence.kernel.site_at, evidence.kernel.name_at
    return [(handlers[r.addr], site.function.name if (site := sites.get(r.more[8])) else
             name_at(r.more[8]), r.seq) for r in evidence.truth.rare if r.addr in handlers]


def own_calls(evidence: Evidence) -> Finding | None:
    """No handler runs for functions that a handler calls."""
    begin = _bad_since(evidence)
    told = [t for t in _told(evidence) if t[1] in ("rare_inner", "rare_outer") and t[2] < begin]
    inner = next((seq for _, name, seq in told if name == "rare_inner"), None)
    if inner is not None:
        return Finding("a handler of function_graph called a traced function, rare_inner, and was "
                       "called for it: a CPU that is already in the tracer, in the same context, "
                       "must not trace the call", mistake=OWN_CALLS, seq=inner)
    if "rare_outer" in calls(evidence) and [t[:2] for t in told] != [("rare_entry", "rare_outer"),
                                                                     ("rare_return", "rare_outer")]:
        return Finding("rare_outer was called once, and its user calls a traced function in both "
                       "handlers; the user must be called for one entry and one return")
    return None


def refused(evidence: Evidence) -> Finding | None:
    """Each registration that is not allowed returns the right error, and leaves no shadow stacks
    allocated."""
    for r in (r for r in evidence.truth.rare if r.addr == evidence.kernel.symbol("rare_refused")):
        error, what, mistake = REFUSED[r.v[0]]
        got = r.v[1] - (r.v[1] >> 63 << 64)
        if got != -error:
            ended = any(stop.seq > _bad_since(evidence)
                        for stop in evidence.truth.hits["ftrace_graph_stop"])
            return Finding(f"{what}: register_ftrace_graph must return {returned(-error)}, "
                           f"and returned {returned(got)}",
                           mistake=mistake if ended else "", seq=r.seq)
        if error == errno.ENOSPC and r.v[2]:
            return Finding(f"{what}: it was refused, and threads still have shadow stacks although "
                           "no user is registered", mistake=mistake, seq=r.seq)
    return None


def _walks(evidence: Evidence) -> list[list[Record]]:
    """The addresses that each walk found."""
    found = list[list[Record]]()
    for r in (r for r in evidence.truth.rare if r.addr == evidence.kernel.symbol("rare_walk")):
        if not r.v[0]:
            found.append([])
        found[-1].append(r)
    return found


def walks(evidence: Evidence) -> Finding | None:
    """A stack walk from a handler, or from an op that is called after the entry handler, leads
    through the tracer to the function and its caller."""
    found = _walks(evidence)
    if "rare_outer" not in calls(evidence) or evidence.why and len(found) < len(WALKS):
        return None
    if len(found) != len(WALKS):
        return Finding("the two handlers of a user and an op walk the stack, and a return handler "
                       f"after a tail call: {len(found)} of these {len(WALKS)} walks were seen")
    for (who, gate, by, patched, called), walk in zip(WALKS, found):
        first = walk[0].seq
        call = [c for c in evidence.truth.calls if c.name == called and c.seq < first][-1]
        stack = [r.v[by] for r in walk if r.v[by]]
        names = [
            evidence.kernel.name_at(address - 4).split("+")[0] for address in stack
        ]  # of the calls
        at = names.index(gate) if gate in names else -1
        home, caller = at + (2 if by == LINK else
                             1), evidence.kernel.symbol(patched) if patched else call.parent
        if at < 0 or home >= len(
                stack) or stack[home] != caller or by == LINK and names[at + 1] != "rare_outer":
            seen = " < ".join(map(evidence.kernel.name_at, stack))
            return Finding(
                f"{called} was called by {evidence.kernel.name_at(call.parent)}, "
                f"and {who} walked the stack{' by its frame records' if by == LINK else ''}. "
                f"The walk must show {gate}, {'rare_outer ' if by == LINK else ''}and "
                f"{patched or 'that caller'}; it showed {seen}", seq=walk[0].seq)
    return (_assembly_between(evidence, found) or _record_of_return(evidence, found[2])
            if evidence.kernel.symbol("ftrace_graph_caller") else None)


def _assembly_between(evidence: Evidence, found: list[list[Record]]) -> Finding | None:
    """Lab 5: the frame record that ftrace_graph_caller makes leads to its caller, which
    ftrace_caller called for both tracers."""
    callers = list[str]()
    for walk in found[:2]:
        names = [evidence.kernel.name_at(r.v[LINK] - 4).split("+")[0] for r in walk]
        callers.append(names[names.index("ftrace_caller") - 1])
    if callers[0] == callers[1]:
        return None
    return Finding(f"rare_outer was called, and ftrace_caller called {callers[1]} for both "
                   "tracers of it. A stack walk by the frame records from the entry handler of "
                   f"function_graph's user found {callers[0]} in its place", seq=found[0][0].seq)


def _record_of_return(evidence: Evidence, walk: list[Record]) -> Finding | None:
    """Lab 5: the frame pointer leads to the frame record that return_to_handler makes."""
    if any(r.v[LINK] == evidence.kernel.symbol("return_to_handler") for r in walk):
        return None
    return Finding("rare_outer returned to return_to_handler. A stack walk by the frame records "
                   "from the return handler of a user did not find the record that "
                   "return_to_handler makes, with its own address in it", seq=walk[0].seq)


def left(evidence: Evidence) -> Finding | None:
    """When functions are left without a return, as by longjmp(), each call that does return finds
    its own frame."""
    of = calls(evidence)
    if not of.keys() >= set(CHAIN[:-1]):
        return None
    stops, handlers = ([r for r in evidence.truth.hits[name] if r.seq > _bad_since(evidence)]
                       for name in ("ftrace_graph_stop", "return_to_handler"))
    if not handlers:
        return Finding("rare_a to rare_f called each other, the user said yes to each, and none of "
                       "them returned through return_to_handler", seq=_bad_since(evidence))
    past = next((of[name] for name in CHAIN[:-1] if (body := of[name].landed)
                 and body.v[2] != evidence.kernel.symbol("return_to_handler")), None)
    if past:
        return Finding(f"{past.name} was called, the user said yes, and the return was not patched",
                       seq=past.seq)
    went = sorted(((r.seq, name, r.v[0])
                   for name in ("rare_lost", *(place for _, place, *_ in RETURNS))
                   for r in evidence.truth.hits[name]))
    for n, (function, place, value, *_, newest, fits) in enumerate(RETURNS):
        if function not in of:
            return None
        found = of[fits].sp if fits else of[newest].sp - OFF
        who = (f"{function} returned with sp {found:#x}. The newest frame was that of {newest}, "
               f"with sp {of[newest].sp:#x}")
        until = handlers[n + 1].seq if n + 1 < len(handlers) else 1 << 62
        said = [r.v[:3] for r in stops if n < len(handlers) and handlers[n].seq < r.seq < until]
        bad = () if fits else (of[newest].site.address, of[newest].sp, found)
        if n < len(handlers) and said != ([bad] if bad else []):
            must = ("must be called with the function and these two values"
                    if bad else "must not be called, because a frame with that sp is there")
            return Finding(
                f"{who}: ftrace_graph_stop {must}, and was " +
                (f"called with {', '.join(map(hex, said[0]))}" if said else "not called"),
                mistake=WRONG_FRAME if bad else NOT_GONE, seq=handlers[n].seq)
        if n >= len(went) or went[n][1:] != (place, value):
            where = f"it went to {went[n][1]} with {went[n][2]:#x}" if n < len(
                went) else "it did not go to any watched address"
            return Finding(f"{who}. It must go to {place} with {value:#x}, by the frame whose sp "
                           f"fits or, if none fits, by the newest; {where}", mistake=WRONG_FRAME,
                           seq=of[function].seq)
    return _popped(evidence) or _nobody_told(evidence, stops[0]) or _all_told(evidence) or (
        _as_entered(evidence) if evidence.lab == 6 else None)


def _popped(evidence: Evidence) -> Finding | None:
    """Each such return also pops the frames above its own."""
    stacks = [r for r in evidence.truth.rare if r.addr == evidence.kernel.symbol("rare_stack")]
    top, free, depth, overrun = stacks[0].v
    for r, gone, (function, _, _, out, *_) in zip(stacks[1:], GONE, RETURNS):
        want = (free + 8 * WORDS * (out - 1) if out else top, free + 8 * WORDS * out, depth + out)
        overrun += gone
        if r.v[:3] == want and r.v[3] != overrun:
            return Finding(
                f"{function} returned past {gone} functions that were left without a return, and "
                f"`overrun` was {r.v[3]} afterwards: each of them must be counted, so it must be "
                f"{overrun}", seq=r.seq)
        if r.v[:3] != want:
            return Finding(
                f"{function} returned past functions that were left without a return. Afterwards "
                f"top, free and depth of the shadow stack were {', '.join(map(hex, r.v[:3]))}, and "
                f"must be {', '.join(map(hex, want))}: the frames above its own are popped too",
                mistake=WRONG_FRAME, seq=r.seq)
    return None


def _nobody_told(evidence: Evidence, stop: Record) -> Finding | None:
    late = next((r for r in evidence.truth.rare
                 if r.seq > stop.seq and r.addr in map(evidence.kernel.symbol, HANDLERS)), None)
    return Finding("ftrace_graph_stop was called because a frame was bad; after that "
                   f"{evidence.kernel.name_at(late.addr)} ran, a user's handler",
                   mistake=AFTER_THE_END, seq=late.seq) if late else None


def _all_told(evidence: Evidence) -> Finding | None:
    """Until graph tracing ends, each entry is told, and each return, or that the function was left.
    """
    users = 2 if evidence.kernel.symbol("rare_answer") else 1
    told = [t for t in _told(evidence) if t[2] > _bad_since(evidence) - 1]
    for name in CHAIN:
        gone = [seq for handler, of, seq in told if (handler, of) == ("rare_gone", name)]
        if len(gone) > users:
            return Finding(f"{name} was left without a return, and {len(gone)} gone handlers were "
                           f"called for it. At its entry {users} of the users with a gone handler "
                           "said yes and are still registered; no other one must be called",
                           seq=gone[-1])
    for n, want in enumerate(t for t in TOLD for _ in range(users if t[0] == "rare_gone" else 1)):
        if n >= len(told) or told[n][:2] != want:
            handler, of, seq = told[n] if n < len(told) else ("", "", _bad_since(evidence))
            return Finding("rare_d and rare_e were left without a return, and rare_c returned: "
                           f"handler {n} of the user must be {want[0]} for {want[1]}, and was "
                           f"{f'{handler} for {of}' if handler else 'none'}",
                           mistake=NOT_GONE if want[0] == "rare_gone" else "", seq=seq)
    return _gone_in_order(evidence) if users > 1 else None


def _gone_in_order(evidence: Evidence) -> Finding | None:
    """Lab 6: the gone handlers of a call run in the reverse order of the entry handlers."""
    gone, entry = ([r for r in evidence.truth.rare if r.addr == evidence.kernel.symbol(name)]
                   for name in ("rare_gone", "rare_entry"))
    for later, older in zip(gone[::2], gone[1::2]):
        if (later.v[1], later.more[8]) != (entry[-1].v[1], older.more[8]):
            return Finding("a call was left without a return that two users had said yes to. Their "
                           "gone handlers must run in the reverse order of the entry handlers, the "
                           "user that was registered first last", seq=later.seq)
    return None


def handed(evidence: Evidence) -> Finding | None:
    """Each handler is given the function, the depth and the time of its call, and a return handler
    the number of calls that were left. Not if left() has found which handlers run wrongly."""
    if left(evidence):
        return None
    begun = {r.seq: r for r in evidence.truth.hits["shadow_users_begin"]}
    handlers = {evidence.kernel.symbol(name): name for name in HANDLERS}
    known = {r.seq: r for r in evidence.truth.rare if r.addr in handlers}
    entries, lost = list[tuple[int, int]](), 0  # of the calls in flight: the function, the time
    for seq, r in sorted((begun | known).items()):
        if seq in begun:
            entries, lost = [], 0
            continue
        handler, func = handlers[r.addr], r.more[8]
        depth, time = (r.more[10:12] if handler == "rare_return" else r.more[9:11])
        if handler == "rare_entry":
            entries.append((func, time))
        if not entries:
            return Finding(f"{handler}, a handler of a user, was called for "
                           f"{evidence.kernel.name_at(func)}, and none of its calls was in "
                           "progress", seq=seq)
        given = {"func": func, "calltime": time, "depth": depth & 0xFFFFFFFF,
                 "overrun": depth >> 32}
        want = {"func": entries[-1][0], "calltime": entries[-1][1], "depth": len(entries) - 1}
        want |= {"overrun": lost} if handler == "rare_return" else {}
        wrong = next((name for name in want if given[name] != want[name]), None)
        if wrong:
            return Finding(f"{handler}, a handler of a user, was called for "
                           f"{evidence.kernel.name_at(func)} with the {wrong} "
                           f"{given[wrong]:#x}, and must be called with {want[wrong]:#x}", seq=seq)
        if handler != "rare_entry":
            entries.pop()
            lost += handler == "rare_gone"
    return None


def _as_entered(evidence: Evidence) -> Finding | None:
    """Lab 6: a user is told that a function was left with the depth and the time of its entry."""
    entry, gone = map(evidence.kernel.symbol, ("rare_entry", "rare_gone"))
    entered = dict[int, tuple[int, int]]()
    for r in (r for r in evidence.truth.rare if r.addr in (entry, gone)):
        ip, given = r.more[8], (r.more[9] & 0xFFFFFFFF, r.more[10])  # struct ftrace_graph_ent
        if r.addr == entry:
            entered[ip] = given
        elif given != entered.get(ip, given):
            return Finding(
                f"{evidence.kernel.name_at(ip)} was left without a return: the gone handler must "
                f"be called with the entry's depth and calltime, {entered[ip][0]} and "
                f"{entered[ip][1]}, and was called with {given[0]} and {given[1]}", seq=r.seq)
    return None


def filter_of_two(evidence: Evidence) -> Finding | None:
    """Lab 6: two users share a filter, and one of them is unregistered. The other one follows when
    the filter is written afterwards."""
    if "rare_outer" not in calls(evidence) or [
            handler for handler, name, _ in _told(evidence) if name == "rare_shared"
    ] == ["rare_entry", "rare_return"]:
        return None
    return Finding("two users had one filter, and one of them was unregistered. Then rare_shared "
                   "was written to the filter and called; the other user must be called at its "
                   "entry and at its return, once each", mistake="filter-change-unheard")


def leavers(evidence: Evidence) -> list[Record]:
    """The results of unregister_ftrace_graph on the two CPUs that unregistered one user, in their
    order."""
    return [r for r in evidence.truth.rare if r.addr == evidence.kernel.symbol("rare_left")]


def left_once(evidence: Evidence) -> Finding | None:
    """Lab 6: two CPUs unregister one user. The second gets an error, and the user that has the slot
    by then stays registered."""
    found = leavers(evidence)
    if len(found) < 2:
        return None
    said = [r.v[0] - (r.v[0] >> 63 << 64) for r in found]
    if said != [0, -errno.ENOENT]:
        return Finding("two CPUs unregistered one user; one of them was held before "
                       "it got ftrace_lock, until the other had done so and had registered another "
                       "user. unregister_ftrace_graph must return 0 and then -ENOENT, and returned "
                       f"{returned(said[0])} and {returned(said[1])}", mistake=LEFT_TWICE,
                       seq=found[1].seq)
    if [handler for handler, name, seq in _told(evidence)
        if name == "rare_shared" and seq > found[1].seq] != ["rare_entry", "rare_return"]:
        return Finding("two CPUs unregistered one user, and another user had its slot when the "
                       "second was refused. Then rare_shared was called; the other user must be "
                       "called at its entry and at its return, once each", mistake=LEFT_TWICE,
                       seq=found[1].seq)
    return None


def answered(*kinds: int) -> Callable[[Evidence], Finding | None]:
    """Lab 6: the answers to questions of these kinds, by number in ANSWERS, are right."""
    def check(evidence: Evidence) -> Finding | None:
        for r in evidence.truth.rare:
            kind, got, want, _ = r.v
            if (r.addr == evidence.kernel.symbol("rare_answer") and kind in kinds and got != want):
                names = [evidence.kernel.name_at(a) if a else "0" for a in (want, got)]
                return Finding(f"{ANSWERS[kind]}: it must return {names[0]}, and returned "
                               f"{names[1]}", seq=r.seq)
        return None
    return check


def sizes(evidence: Evidence) -> Finding | None:
    """Lab 6: entry data have the requested size, rounded up to whole words; or the request is
    refused."""
    for r in (r for r in evidence.truth.rare if r.addr == evidence.kernel.symbol("rare_data")):
        asked, reserved, found, size = r.v
        asked -= (asked >> 63) << 64
        want = -(-asked // 8) * 8 if 0 < asked <= MOST_DATA else 0
        if not want and (reserved or found):
            return Finding(f"a user asked for {asked} bytes of entry data, and got them: only 1 to "
                           f"{MOST_DATA} bytes can be reserved", mistake=WRONG_SIZE, seq=r.seq)
        if want and (not reserved or reserved != found or size != want):
            return Finding(f"a user reserved {asked} bytes of entry data at {reserved:#x}; at "
                           f"the return it found {size} bytes at {found:#x}, and must find {want} "
                           f"(whole words) at {reserved:#x}", mistake=WRONG_SIZE, seq=r.seq)
    return None


def room(evidence: Evidence) -> Finding | None:
    """Lab 6: entry data are reserved as long as they fit, to the last word. A request that does not
    fit is counted."""
    for r in (r for r in evidence.truth.rare if r.addr == evidence.kernel.symbol("rare_room")):
        asked, left, reserved, counted = r.v
        fits, what = (asked + 8 <= left, f"a user asked for {asked} bytes of entry data, which "
                      f"take {asked + 8}, and the shadow stack had {left} bytes left")
        if bool(reserved) != fits:
            return Finding(f"{what}: {'it did not get them' if fits else 'it got them'}", seq=r.seq)
        if counted != (not fits):
            return Finding(f"{what}: overrun must {'not grow' if fits else 'grow by 1'}, and grew "
                           f"by {counted}", seq=r.seq)
    return None
