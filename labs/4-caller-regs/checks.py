"""Lab 4: the check of each rung, and the mistakes that it names. Its own checks are about several
ops: the calls for which they run, and what they change.

Only the workload's result and the refusal of an op are read from the console.
The sites, the ops that ran, and the values that the ops and the workload's
functions received come from the observer.
"""

from __future__ import annotations

import fnmatch
import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grading.checks.checks import (all_of, argument, calls_while_on, every_site, first_difference,
                                   first_of, lives, named, not_started, of_kind, only_selected,
                                   rest_at_boot, rest_at_end, result_printed, right_arguments,
                                   right_parents, right_result, silent_trampolines,
                                   something_called, synchronised, three_agree, within,
                                   wrong_argument)
from grading.checks.console_checks import lives_and_traces, printed_as_expected
from grading.checks.entry import (callers_seen, clashes, disabled_left_alone, entry_calls,
                                  hash_right, ops_passed, own_functions_kept, ready_before_sites,
                                  registers_changed, registers_found, registers_seen, return_taken,
                                  stubs_filled, switched_off, while_published)
from grading.checks.faults import astray, back_into, lock_misused
from grading.checks.integrity import as_linked, words_stored
from grading.checks.schedule_checks import PLAYED, TRACER, right_under_schedules
from grading.evidence.evidence import Evidence, during, once
from grading.evidence.finding import Defect, Finding, seq_at, side_by_side
from grading.stimulus.schedules import Change
from grading.checks.seen import (ANYTHING_CALLED, BETWEEN, POWERED_OFF, TEXT_AT_BOOT, TEXT_AT_END,
                                 Amount, Coverage, arguments, batches, called, called_back,
                                 half_of_run, once as seen_once, printed, ran, registers, text_of,
                                 text_traced)
from grading.checks.order import filter_replaced, ops_published, ops_withdrawn
from grading.checks.registers import spoilt
from grading.stimulus.trials import FUNCTIONS, MASK, Op, Trial
from grading.stimulus.workload import PASSED, ExpectedCall, ExpectedRun
from grading.truth.truth import Call, ordered_code, stubs
from qemu.isa import Isa


OPS = 8  # of the shell's
VALUED = frozenset(FUNCTIONS)


@dataclass
class TrialEvidence:
    """A trial with the expected calls and the executed calls."""

    evidence: Evidence
    trial: Trial
    run: ExpectedRun
    calls: dict[str, list[Call]]  # by context; contexts have the names of ExpectedRun
    ops: dict[str, list[Op]]  # by function: the ops whose filter has it

    def all(self) -> Iterator[Call]:
        return (call for mine in self.calls.values() for call in mine if call.name in VALUED)

    def numbers(self, call: Call) -> list[int]:
        """The numbers of the ops that ran, from their third argument; -1: another op than the
        shell's eight."""
        lo, hi = self.evidence.kernel.extent("hand_ops")
        return [(r.v[2] - lo) * OPS // (hi - lo) if lo <= r.v[2] < hi else -1
                for r in call.callbacks]

    def of(self, call: Call) -> list[int]:
        """The numbers of the ops that should have run."""
        return [op.number for op in self.ops[call.name]]


@once
def evidence_of(evidence: Evidence, trial: Trial) -> TrialEvidence:
    found: dict[tuple[int, int], list[Call]] = {}
    for call in evidence.calls(trial):
        found.setdefault((call.vcpu if call.level else call.thread, call.level), []).append(call)
    calls = {_name(_workload(mine)[0]): mine for mine in found.values() if _workload(mine)}
    return TrialEvidence(
        evidence, trial, trial.expected(evidence.smp), calls,
        {s.function.name: trial.of(s.function.name)
         for s in evidence.kernel.sites})


def _name(call: Call) -> str:
    if call.level:
        return f"interrupt {call.vcpu}"
    return "main" if call.name == "wl_begin" else f"thread {call.vcpu}"


def _workload(mine: list[Call]) -> list[Call]:
    return [call for call in mine if call.name.startswith("wl_")]


def _received(call: Call) -> tuple[int, ...]:
    """The known arguments, as the function's body found them; empty if another function ran
    instead."""
    own = call.landed and call.landed.addr == call.site.address + 4
    return tuple(call.arguments[n]
                 for n in PASSED.get(call.name, (1,))) if own and call.name in VALUED else ()


def _shown(isa: Isa, function: str, values: Sequence[int]) -> str:
    shown = " ".join(f"{isa.names[isa.arguments[n]]}={v:#x}"
                     for n, v in zip(PASSED.get(function, (1,)), values))
    return function + (f" received {shown}" if shown else "")


# ---- the workload runs as the ops change it ------------------------------------

def _goes_as_changed(h: TrialEvidence) -> Finding | None:
    """The calls are the expected ones, in order and with the expected arguments; then the program's
    result is right."""
    return (first_of(
        _context_goes(h, name, calls, _workload(h.calls.get(name, [])))
        for name, calls in h.run.contexts.items())
            or within(h.trial, result_printed(h.trial.name, h.run, h.trial.output)))


def _context_goes(h: TrialEvidence, name: str, calls: list[ExpectedCall],
                  mine: list[Call]) -> Finding | None:
    at = first_difference([(c.function, c.received) for c in calls],
                          [(c.name, _received(c)) for c in mine])
    if at == len(calls) == len(mine):
        return None
    isa = h.evidence.isa
    rows = side_by_side([_shown(isa, c.name, _received(c)) for c in mine],
                        [_shown(isa, c.function, c.received) for c in calls], at)
    why, kind = _why(h, calls, at, mine)
    return Finding(f"{h.trial.name}, {name}, call {at}: {why}", rows, ("executed", "expected"),
                   seq=seq_at(mine, at), kind=kind)


def _unheard(h: TrialEvidence, call: Call | None, ops: list[Op]) -> str:
    """The ops that trace the function and did not run, as text."""
    called = h.numbers(call) if call else []
    return " and ".join(str(op) for op in ops if op.number not in called)


NOT_CALLED = "was not called: its stub, ftrace_caller or the list did not reach the callback"
GOES_ON = "a traced function continues at the address that the callback left in regs->pc"


def _why(h: TrialEvidence, calls: list[ExpectedCall], at: int,
         mine: list[Call]) -> tuple[str, Defect]:
    trial, want = h.trial, calls[at] if at < len(calls) else None
    got = mine[at] if at < len(mine) else None
    if want and got and want.function == got.name:
        return _why_values(h, want, got)
    before = calls[at - 1].function if 0 < at <= len(calls) else ""
    patch = next(iter(trial.of(before, "patch")), None)
    ran = got.name if got else "nothing"
    if patch and _unheard(h, mine[at - 1] if at <= len(mine) else None, [patch]):
        return f"{patch} replaces {before} by {patch.target}, and {NOT_CALLED}", Defect.OTHER
    if patch:
        return (
            f"{patch} sets regs->pc so that {patch.target} runs instead of {before}, and after the "
            f"call site of {before} {ran} ran: {GOES_ON}",
            Defect.PC_NOT_TAKEN)
    return (
        f"{want.function if want else 'nothing'} must be called, and {ran} was: which functions a "
        f"function calls follows from the "
        "arguments that it received"), Defect.OTHER


def _why_values(h: TrialEvidence, want: ExpectedCall, got: Call) -> tuple[str, Defect]:
    trial, received = h.trial, _received(got)
    patch = next(iter(trial.of(want.function, "patch")), None)
    if patch and _unheard(h, got, [patch]):
        return (
            f"the body of {want.function} ran: {patch} replaces it by {patch.target}, and "
            f"{NOT_CALLED}",
            Defect.OTHER)
    if patch:
        return (
            f"the body of {want.function} ran, and {patch} sets regs->pc so that {patch.target} "
            f"runs instead: {GOES_ON}",
            Defect.PC_NOT_TAKEN)
    if len(received) != len(want.received):
        return f"the body of {want.function} did not run after its call site", Defect.OTHER
    i = first_difference(received, want.received)
    number = PASSED.get(want.function, (1,))[i]
    adds = trial.of(want.function, "add")
    why = (
        f"{want.function} received {received[i]:#x} as {argument(h.evidence.isa, number)}, and "
        f"must receive "
        f"{want.received[i]:#x}")
    passed = (want.received[i] - number * sum(op.value for op in adds)) & MASK
    if not adds:
        return why + ": no op changes it", Defect.OTHER
    who = " and ".join(f"{op} adds {number * op.value & MASK:#x}" for op in adds)
    unheard = _unheard(h, got, adds)
    if unheard:
        return f"{why}: the caller passed {passed:#x}, {who}; {unheard} {NOT_CALLED}", Defect.OTHER
    why = f"{why}: the caller passed {passed:#x}, {who}"
    if received[i] != passed:
        return why, Defect.OTHER
    return (
        f"{why}. The function received what the caller passed: the changed register was not loaded "
        f"back",
        Defect.NOT_LOADED_BACK)


# ---- each op is called for its own functions ------------------------------------

def _right_ops(h: TrialEvidence) -> Finding | None:
    """At each call exactly the ops whose filter has the function ran, each once, and each saw the
    changes of the ops before it."""
    for name, mine in h.calls.items():
        expected = iter(h.run.contexts.get(name, []))
        for at, call in enumerate(mine):
            want = next(expected, None) if call.name.startswith("wl_") else None
            finding = _ops_of(h, call) or _values_of(h, call, want)
            if finding:
                near = mine[max(0, at - 3):at + 4]
                finding.why = f"{h.trial.name}, {name}, {call.name}: {finding.why}"
                finding.rows = side_by_side([f"{c.name}: {_listed(h.numbers(c))}" for c in near],
                                            [f"{c.name}: {_listed(h.of(c))}" for c in near],
                                            min(at, 3))
                finding.columns = ("ops that were called", "ops that trace it")
                return finding
    return None


def _listed(numbers: list[int]) -> str:
    return ", ".join(str(n) for n in numbers) or "none"


def _ops_of(h: TrialEvidence, call: Call) -> Finding | None:
    ran, have = h.numbers(call), h.ops[call.name]
    if sorted(ran) == h.of(call):
        return None
    by_number = {op.number: op for op in h.trial.ops}
    for number in ran:
        if number not in by_number:
            return Finding(f"op {number} was called, and is not registered")
        if by_number[number] not in have:
            words = " ".join(by_number[number].words)
            return Finding(
                f"op {number} was called, and its filter '{words}' does not have the function")
        if ran.count(number) > 1:
            return Finding(f"op {number} was called {ran.count(number)} times for one call")
    missing = next(op for op in have if op.number not in ran)
    return Finding(f"{missing} traces the function and was not called")


def _values_of(h: TrialEvidence, call: Call, want: ExpectedCall | None) -> Finding | None:
    if want is None or want.function != call.name or call.name not in VALUED:
        return None
    now = want.x
    for number, r in zip(h.numbers(call), call.callbacks):
        op, saw = next(op for op in h.ops[call.name] if op.number == number), r.more[9]
        if saw != now:
            return Finding(f"{op} saw {saw:#x} in regs->arg[1], and {now:#x} is there: what the "
                           "caller passed, plus what the ops called before it added")
        now = (now + op.value) & MASK
    return None


# ---- an op costs nothing where it does not trace ---------------------------------

def _own_stubs(h: TrialEvidence) -> Finding | None:
    """A site that only one op traces calls that op's own stub; a site that no op traces holds the
    nop."""
    stub_of: dict[int, int] = {}  # by op
    kernel, known = h.evidence.kernel, set(stubs(h.evidence.kernel))
    for call in h.all():
        have = h.ops[call.name]
        jump = kernel.isa.jump(call.site.address, call.word)
        if not have and call.word != call.site.rest:
            return _site(h, call, "no op traces it, and its site does not hold the nop")
        if have and (not jump or jump[0] not in known):
            return _site(h, call, "an op traces it, and its site calls no stub")
        if jump and len(have) == 1 and stub_of.setdefault(have[0].number, jump[0]) != jump[0]:
            return _site(
                h, call,
                f"{have[0]} alone traces it, and another function that it alone traces calls "
                f"{kernel.name_at(stub_of[have[0].number])}")
    for a, b in itertools.combinations(sorted(stub_of), 2):
        if stub_of[a] == stub_of[b]:
            return Finding(
                f"{h.trial.name}: sites that op {a} alone traces and sites that op {b} alone "
                f"traces all call "
                f"{kernel.name_at(stub_of[a])}: each op has a stub of its own", began=h.trial.first,
                kind=Defect.COSTS_MORE)
    return None


def _site(h: TrialEvidence, call: Call, why: str) -> Finding:
    return Finding(
        f"{h.trial.name}, {call.name}: {why}", site=[
            f"{call.name} at {call.site.address:#x}, on CPU {call.vcpu}",
            f"was  {call.word:08x}  {h.evidence.kernel.disassemble(call.site.address, call.word)}"
        ], seq=call.seq)


def _cost(h: TrialEvidence, op: Op) -> tuple[int, str]:
    """The usual number of instructions from a site that only this op traces to the op, and the name
    of such a function."""
    costs = [(call.callbacks[0].insns - call.insns, call.name) for call in h.all()
             if h.ops[call.name] == [op] and call.callbacks]
    return statistics.mode(costs) if costs else (0, "")


def _same_cost(many: TrialEvidence, fewer: TrialEvidence) -> Finding | None:
    for op in fewer.trial.ops:
        (before, name), (after, other) = _cost(many, op), _cost(fewer, op)
        if before and after and before != after:
            return Finding(
                f"{op} alone traces {name}. From the call site to the op there were {before} "
                f"instructions while "
                f"{len(many.trial.ops)} ops were registered, and {after} (at {other}) while "
                f"{len(fewer.trial.ops)} were: an op "
                "must cost nothing where it does not trace", kind=Defect.COSTS_MORE)
    return None


# ---- the rungs -------------------------------------------------------------------

def _trial(evidence: Evidence, name: str) -> Trial | None:
    return next((t for t in evidence.trials if t.name == name), None)


def _made(trial: Trial) -> Finding | None:
    """A finding if one of the trial's ops could not be registered."""
    return Finding(f"{trial.name}: {trial.unmade}. So its effects could not be checked",
                   began=trial.first) if trial.unmade else None


def _as_the_ops_say(h: TrialEvidence) -> Finding | None:
    return _made(h.trial) or _goes_as_changed(h) or _right_ops(h)


def reached(evidence: Evidence) -> Finding | None:
    """At least one traced call came to a callback."""
    if any(during(phase, evidence.truth.callbacks) for phase in evidence.on()):
        return None
    return Finding(
        "traced functions found calls at their sites, but no callback was called: ftrace_caller "
        "must call slot->func"
    )


def lives_with_ops(evidence: Evidence) -> Finding | None:
    """The kernel boots, runs and powers off, and accepts all commands."""
    finding = lives(evidence)
    complaint = evidence.complaint
    if (
        finding
        and not evidence.why
        and complaint
        and complaint.error == "ENOSYS"
        and not not_started(evidence)
    ):
        finding.why = (
            f"'{complaint.line}' was refused with {complaint.error}: an op that traces a function "
            f"of another op needs change_shared"
        )
    return finding


def changed_arguments(evidence: Evidence) -> Finding | None:
    """The values that callbacks add to arguments arrive, in every argument register."""
    trial = _trial(evidence, "changed arguments")
    return (
        _as_the_ops_say(evidence_of(evidence, trial)) if trial else Finding("no op was registered")
    )


def patched(evidence: Evidence) -> Finding | None:
    """A callback that changes pc replaces the function."""
    trial = _trial(evidence, "live patch")
    if not trial:
        return Finding("no op was tried")
    if trial.refused and not trial.printed:
        return None  # two ops that patch one function ran: one_patches says so
    return _as_the_ops_say(evidence_of(evidence, trial))


def resumes_by_return(evidence: Evidence) -> Finding | None:
    """ftrace_caller resumes the function by a return, which takes the entry that the call site
    pushed from the processor's stack of return addresses."""
    kernel = evidence.kernel
    for at in kernel.exits("ftrace_caller"):
        word = kernel.word(at)
        if not kernel.isa.returns(word) and not kernel.isa.jump(at, word):
            return Finding(f"{kernel.name_at(at)} ({kernel.disassemble(at)}) is a jump that the "
                           "processor does not take for a return. The entry that the call site "
                           "pushed on its stack of return addresses stays there, and it predicts "
                           "each later return wrongly: resume as the contract says")
    return None


def one_patches(evidence: Evidence) -> Finding | None:
    """Only one op that changes pc is allowed for each function."""
    trial = _trial(evidence, "live patch")
    if not trial or not trial.refused:
        return Finding("no op was registered")
    if trial.unmade:
        return _made(trial)
    if "EBUSY" not in trial.printed:
        both = sorted(trial.refused.names
                      & {n
                         for op in trial.ops if op.does == "patch" for n in op.names})
        return Finding(
            f"{trial.name}: two ops that may change pc were to trace {both[0]}, and the second "
            f"must be refused "
            f"with EBUSY; '{trial.refused.command}' " +
            (f"printed: {trial.printed}" if trial.printed else "was accepted"), began=trial.first,
            kind=Defect.OTHER if trial.printed else Defect.NOT_REFUSED)
    return None


def written_for_nothing(evidence: Evidence) -> Finding | None:
    """No site is written with the word that it holds."""
    held: dict[int, int] = {}
    for r in evidence.truth.stores:
        word, at = r.v[1] & 0xFFFFFFFF, evidence.kernel.text[0] + r.v[0]
        if r.size == 4 and held.get(at) == word:
            return Finding(f"{evidence.kernel.name_at(at)} was written with the word that it held: "
                           f"{evidence.kernel.disassemble(at, word)}. A site is written only if "
                           "what it must call changes", seq=r.seq)
        held[at] = word
    return None


def many_ops(evidence: Evidence) -> Finding | None:
    """Each op runs for its own functions only, and costs nothing elsewhere; unregistering an op
    does not affect the others."""
    trials = _trial(evidence, "many ops"), _trial(evidence, "fewer ops")
    if not trials[0] or not trials[1]:
        return Finding("no op was registered")
    many, fewer = evidence_of(evidence, trials[0]), evidence_of(evidence, trials[1])
    for h in (many, fewer):
        finding = _made(h.trial) or _right_ops(h) or _own_stubs(h) or _goes_as_changed(h)
        if finding:
            return finding
    return _same_cost(many, fewer)


def listed(evidence: Evidence) -> Finding | None:
    """enabled_functions lists exactly the selected functions, and the filters' files list the
    functions that were written there."""
    for phase in evidence.on():
        assert phase.filter
        names = [s.function.name for s in evidence.kernel.sites]
        files = {
            "enabled_functions": [n for n in names if n in phase.filter.names],
            "set_ftrace_filter": _written(names, phase.filter.filter, "all functions enabled"),
            "set_ftrace_notrace": _written(names, phase.filter.notrace, "no functions disabled")
        }
        for file, want in files.items():
            got = phase.listed(file)
            if got != want:
                rows = side_by_side(got, want, first_difference(want, got))
                return Finding(
                    f"{phase.name}: {file} has {len(got)} lines, and must have {len(want)}", rows,
                    ("printed", "selected"), began=phase.first,
                    mistake="filter-not-read-back" if file != "enabled_functions" else "")
    return None


def _written(names: list[str], globs: str, none: str) -> list[str]:
    return [n for n in names if any(fnmatch.fnmatchcase(n, glob)
                                    for glob in globs.split())] or [f"#### {none} ####"]


# ---- mistakes with a name -----------------------------------------------------------

def _trials(evidence: Evidence) -> list[TrialEvidence]:
    return [evidence_of(evidence, trial) for trial in evidence.trials if trial.first]


def _shared(evidence: Evidence, finding: Finding) -> str:
    """An op runs where it alone traces a function, and no op runs where several do."""
    steps = [
        (len(h.ops[call.name]), len(call.callbacks)) for h in _trials(evidence) for call in h.all()
    ]
    several, alone = [ran for have, ran in steps
                      if have > 1], [ran for have, ran in steps if have == 1]
    return "ip-off-by-one-instruction" if several and not any(several) and any(alone) else ""


def _ran(h: TrialEvidence, call: Call) -> list[Op]:
    """The ops that ran, of the trial's ops and the one that had to be refused."""
    ops = [*h.trial.ops, *([h.trial.refused] if h.trial.refused else [])]
    return [op for op in ops if op.number in h.numbers(call)]


def _both_patch(evidence: Evidence, finding: Finding) -> str:
    """The op that had to be refused was registered, and two ops that change pc ran for one call."""
    both = any(
        sum(op.does == "patch" for op in _ran(h, call)) > 1 for h in _trials(evidence)
        for call in h.all())
    return "two-change-pc" if finding.kind == Defect.NOT_REFUSED and both else ""


def _too_many(evidence: Evidence, finding: Finding) -> str:
    """Ops ran for functions that are not in their filters, and only where several ops trace the
    function."""
    wrong = [
        h.of(call) for h in _trials(evidence) for call in h.all()
        if any(call.name not in op.names for op in _ran(h, call))
    ]
    return "list-asks-no-filter" if wrong and all(len(have) > 1 for have in wrong) else ""


def _looks_on(evidence: Evidence, finding: Finding) -> str:
    """An op that may not change pc was refused, as if it could clash with an op that may."""
    trial = _trial(evidence, "live patch")
    return ("refused-without-a-clash" if trial and trial.lacks and trial.lacks.does == "see"
            and "EBUSY" in trial.unmade else "")


def _gone(evidence: Evidence, finding: Finding) -> str:
    """An op did not run, but only after other ops were unregistered."""
    bad = {
        h.trial.name
        for h in _trials(evidence) for call in h.all() if set(h.of(call)) - set(h.numbers(call))
    }
    return "last-op-not-found" if bad == {"fewer ops"} else ""


def _argument(evidence: Evidence, finding: Finding) -> str:
    """Arguments are wrong only in phases with a tracer on."""
    wrong = {phase.on for phase in evidence.phases if wrong_argument(evidence, phase)}
    return "argument-clobbered" if wrong == {True} else ""


def _notrace(evidence: Evidence, finding: Finding) -> str:
    """The sites of all functions that the filter selects and notrace excludes are changed."""
    for phase in evidence.on() if not evidence.complaint else []:
        assert phase.filter
        if phase.filter.notrace and phase.text:
            rest, lo = evidence.rest_text, evidence.kernel.text[0]
            refused = [
                s.address - lo for s in evidence.kernel.sites
                if all(any(fnmatch.fnmatchcase(s.function.name, g) for g in globs.split())
                       for globs in (phase.filter.filter or "*", phase.filter.notrace))
            ]
            if refused and all(phase.text[a:a + 4] != rest[a:a + 4] for a in refused):
                return "notrace-ignored"
    return ""


def ended(evidence: Evidence) -> str:
    if lock_misused(evidence):
        return lock_misused(evidence)
    if any(lo <= evidence.kernel.address_of(name) < hi for name in evidence.stuck().values()
           for lo, hi in ordered_code(evidence.kernel)):
        return "loop-without-end"
    if back_into(evidence, "ftrace_caller"):
        return "return-address-lost"
    return spoilt(evidence) or ("went-astray" if astray(evidence) else "")


MISTAKES = {
    "disabled-site-written": "the call site of a disabled record is written",
    "argument-clobbered": "an argument register does not come back as it was",
    "change-not-loaded-back": "what the callback changed in regs is not loaded back",
    "return-address-lost": "the link register is not loaded back",
    "stack-not-given-back": "the stack pointer does not come back as it was",
    "went-astray": "ftrace_caller jumps to an address at which there is no code, and not to "
                   "regs->pc",
    "sp-inside-the-frame": "regs->sp is not the sp at the call site",
    "one-frame-record": "a stack walk from the callback does not find the traced function, or not "
                        "its caller",
    "pc-ignored": "the function continues after its call site, and not at regs->pc",
    "ip-off-by-one-instruction": "ip is not the address of the word that is toggled",
    "list-asks-no-filter": "the list calls every op, whatever its filter is",
    "every-op-through-the-list": "a function that one op traces goes through the list",
    "last-op-not-found": "after an op is unregistered, the only op that is left is not called",
    "notrace-ignored": "functions of the notrace list are traced",
    "published-too-late": "a site calls an op that is not published yet",
    "two-change-pc": "two ops may change pc of one function",
    "filter-not-read-back": "a filter's file does not print what was written there",
    "refused-without-a-clash": "an op that cannot change pc is refused",
    "lock-not-held": "call sites are changed without ftrace_lock",
    "lock-not-given-back": "ftrace_lock is locked and never unlocked",
    "loop-without-end": "a loop of ops.c or hash.c does not end",
}

# ---- schedules: one CPU makes a change while another makes a traced call -----------

SEE = "op 0 see calls_traced"
ONLY, OTHER = ("echo calls_traced > set_ftrace_filter",), "echo wl_begin > set_ftrace_filter"
SCHEDULES = (
    Change("register", SEE, "register_ftrace_function", first=("op 1 see calls_traced",),
           last=("op 1 off",), after=("op 0 off",), stays=frozenset({1}), comes=frozenset({0})),
    Change("unregister", "op 0 off", "unregister_ftrace_function", first=("op 1 see calls_traced",),
           last=("op 1 off",), before=(SEE,), stays=frozenset({1}), goes=frozenset({0})),
    Change("unregister-last", "op 0 off", "unregister_ftrace_function", before=(SEE,),
           goes=frozenset({0})),
    Change("filter", OTHER, "ftrace_filter_commit", first=(*ONLY, "echo function > current_tracer"),
           before=ONLY, last=("echo nop > current_tracer", "echo > set_ftrace_filter"),
           goes=frozenset({TRACER})),
)
ENTERED = seen_once("call of entry_traced with a tracer that sees and changes its registers",
                    lambda e: len(entry_calls(e).keys() & {"seen", "changed"}), 2)
SKIPPED = seen_once("call of entry_traced with two ops that return in its place",
                    lambda e: len(entry_calls(e).keys() & {"skipped"}))
READY = seen_once("call of text_alias_close whose site had just been written",
                  lambda e: len(while_published(e)), 2)
WAITED = seen_once("op that was unregistered, and whose sites were written",
                   lambda e: len(switched_off(e)), 7)


def tried(name: str) -> Coverage:
    """Coverage of this trial: the workload ran with its ops."""
    def amounts(evidence: Evidence) -> Iterator[Amount]:
        trial = _trial(evidence, name)
        if trial:
            yield Amount(
                name,
                sum(len(_workload(calls)) for calls in evidence_of(evidence, trial).calls.values()),
                half_of_run(evidence, trial.seed))
    return Coverage("call of the workload with ops", amounts)


def _costs(evidence: Evidence) -> Iterator[Amount]:
    """Of each op that stays registered, calls that only this op traces were observed in both
    trials."""
    few, many = (_trial(evidence, name) for name in ("fewer ops", "many ops"))
    if not few or not many:
        return
    for op in few.ops:
        alone = any(len(few.of(name)) == len(many.of(name)) == 1 for name in op.names)
        yield Amount(
            str(op),
            bool(
                _cost(evidence_of(evidence, many), op)[0]
                and _cost(evidence_of(evidence, few), op)[0]), alone)


COSTS = Coverage("pair of calls that one op alone traces, with more and with fewer ops registered,",
                 _costs)

CHECKS = {
    "called": all_of(something_called, reached),
    "life": lives_with_ops,
    "off": all_of(rest_at_boot, silent_trampolines, rest_at_end, words_stored),
    "filter": named(all_of(calls_while_on, only_selected, every_site, listed, hash_right),
                    _notrace),
    "arguments": named(all_of(registers_found, right_arguments, right_result), _argument),
    "changed arguments": named(all_of(registers_seen, registers_changed, changed_arguments),
                               _shared, _too_many,
                               of_kind(Defect.NOT_LOADED_BACK, "change-not-loaded-back")),
    "live patch": named(all_of(patched, resumes_by_return), _shared, _too_many, _looks_on,
                        of_kind(Defect.PC_NOT_TAKEN, "pc-ignored")),
    "many ops": named(
        all_of(many_ops, one_patches, own_functions_kept, clashes, return_taken, ready_before_sites,
               stubs_filled, disabled_left_alone, written_for_nothing, ops_published, ops_withdrawn,
               filter_replaced),
        _shared, _too_many, _both_patch, _looks_on, _gone,
        of_kind(Defect.COSTS_MORE, "every-op-through-the-list")),
    "one CPU": three_agree,
    "many CPUs": three_agree,
    "parents": all_of(callers_seen, ops_passed, right_parents),
    "synchronised": synchronised,
    "schedules": all_of(as_linked, words_stored, right_under_schedules),
}

OWN_FILTER = seen_once("change of the filter of an op that may change pc",
                       lambda e: len(e.truth.asked("ftrace_set_filter")))
REGISTERED = seen_once("op of kern/apps/entry.c that must be refused or has a disabled record",
                       lambda e: len(e.truth.asked("register_ftrace_function")), 4)

CONSOLE = {
    "life": lives_and_traces, "one CPU": printed_as_expected, "many CPUs": printed_as_expected
}

SEEN = {
    "called": (ANYTHING_CALLED,),
    "life": (POWERED_OFF, ran(2, 2)),
    "off": (TEXT_AT_BOOT, ran(0, 2), TEXT_AT_END),
    "filter": (called(2), text_of(2), text_traced("arguments")),
    "arguments": (BETWEEN, arguments(2, 2), registers(2), called_back(2), ENTERED),
    "changed arguments": (called_back(2), tried("changed arguments"), ENTERED),
    "live patch": (tried("live patch"),),
    "many ops": (tried("many ops"), tried("fewer ops"), COSTS, WAITED, SKIPPED, READY, OWN_FILTER,
                 REGISTERED),
    "one CPU": (ran(2, 2), printed(2)),
    "many CPUs": (ran(2, 2), printed(2)),
    "parents": (called_back(2), printed(2)),
    "synchronised": (batches(4),),
    "schedules": (PLAYED,),
}
