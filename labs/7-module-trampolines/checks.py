"""Lab 7: the check of each rung, and the mistakes that it names. Most checks are in
grading/checks/module_checks.py."""

from __future__ import annotations

from grading.checks.checks import (all_of, first_of, foreign, lives, rest_at_boot, rest_at_end,
                                   right_result)
from grading.checks.console_checks import lives_and_traces, runs_printed, unlike
from grading.checks.faults import lock_misused
from grading.checks.integrity import as_linked, words_stored
from grading.checks.module_checks import (called, executed_runs, far_calls, is_of,
                                          modules_at_rest, near_calls_stubs, of_modules,
                                          runs_as_expected, three_agree, traced_as_executed,
                                          trampolines_computed, trampolines_lead)
from grading.checks.schedule_checks import PLAYED, right_under_schedules
from grading.checks.seen import (POWERED_OFF, TEXT_AT_BOOT, TEXT_AT_END, Amount, Coverage, once,
                                 ran, with_one_cpu)
from grading.elf.module import TRAMPOLINE
from grading.evidence.evidence import Coming, Evidence, Held, Overwritten, Redirected, between
from grading.evidence.finding import Finding, side_by_side
from grading.session.line_parts import BEFORE, ModuleLineSession
from grading.session.module_session import GRAPH, OTHER, REQUEST, SCHEDULED, SECOND, ModuleSession
from grading.stimulus import seeded
from grading.stimulus.schedules import Change
from grading.truth.truth import GRACE, MODULES, TRAMPOLINE_ENCODER, TRAMPOLINE_READER
from grading.verdict import Verdict

SESSION, ON_LINE = ModuleSession, ModuleLineSession


# ---- followed ------------------------------------------------------------------------

def followed(evidence: Evidence) -> Finding | None:
    """A trampoline that leads elsewhere is reported, and a site that calls it, or would call it, is
    not written."""
    if not evidence.redirected or not evidence.redirected[-1].after:
        return Finding(
            "the boot ended before the harness had overwritten a module's trampolines, which the "
            "kernel must then notice"
        )
    return first_of(_followed(evidence, was) for was in evidence.redirected)


def _followed(evidence: Evidence, was: Redirected) -> Finding | None:
    module = was.loaded.module
    for site in module.sites:
        before, after = was.loaded.word(was.before,
                                        site.address), was.loaded.word(was.after, site.address)
        if before != after:
            return Finding(
                f"{site.function.name} was to be {was.wanted}, and its trampoline led elsewhere. "
                f"The site was written, and must be left as it was",
                site=[
                    f"{site.function.name} at {site.address:#x}",
                    f"was        {before:08x}  {evidence.kernel.disassemble(site.address, before)}",
                    f"became     {after:08x}  {evidence.kernel.disassemble(site.address, after)}",
                    *_led(evidence, was)
                ], mistake=_not_followed(evidence, was, site.address))
    if was.before != was.after:
        return Finding(
            f"the trampolines of {module.name} led elsewhere, and other words of its text were "
            f"written"
        )
    changed = foreign(
        evidence.kernel, evidence.kernel.differing(was.kernel, evidence.rest_text), set()
    )
    if changed:
        return Finding(
            f"the trampolines of {module.name} led elsewhere, and text was changed at "
            f"{evidence.kernel.name_at(changed[0])}",
            address=changed[0])
    if "its trampoline at" not in was.printed:
        return Finding(
            f"the trampolines of {module.name} led elsewhere, and the kernel did not report it",
            site=_led(evidence, was))
    if was.printed.count("its trampoline at") > 1:
        return Finding(
            f"a function was to be {was.wanted}, and the trampoline that its site calls led "
            f"elsewhere. The kernel followed the trampoline that the site would call, too, and "
            "reported both: after the first error the second one must not be followed")
    return None


def _overwritten(was: Redirected) -> int:
    """The number of a trampoline that was overwritten."""
    return next(
        n for n in range(was.loaded.module.stubs)
        if was.loaded.trampoline(was.before, n) != was.loaded.trampoline(was.loaded.rest, n))


def _not_followed(evidence: Evidence, was: Redirected, site: int) -> str:
    number, module = _overwritten(was), was.loaded.module
    if evidence.kernel.isa.trampoline(module.trampoline(number),
                                      was.loaded.trampoline(was.before, number)) is None:
        return "instructions-not-compared"
    called = evidence.kernel.isa.jump(site, was.loaded.word(was.before, site))
    if not called:
        return "trampoline-not-followed"
    old = (called[0] - module.room) // TRAMPOLINE
    changed = was.loaded.trampoline(was.before, old) != was.loaded.trampoline(was.loaded.rest, old)
    return "old-trampoline-not-followed" if changed else "new-trampoline-not-followed"


def _led(evidence: Evidence, was: Redirected) -> list[str]:
    at = was.loaded.module.trampoline(_overwritten(was))
    words = ((a, was.loaded.word(was.before, a)) for a in range(at, at + TRAMPOLINE, 4))
    return [
        f"a trampoline, at {at:#x}",
        *(f"           {word:08x}  {evidence.kernel.disassemble(a, word)}" for a, word in words)
    ]


def disabled(evidence: Evidence) -> Finding | None:
    """A site whose trampoline led elsewhere once is not written when the module is removed: its
    record is disabled."""
    was = evidence.disabled
    if not was:
        return None
    for site in was.loaded.module.sites:
        before, after = (was.loaded.word(text, site.address) for text in (was.before, was.after))
        if before != after:
            return Finding(
                f"the trampoline that {site.function.name} called led elsewhere, and the kernel "
                f"refused to write its site and disabled its record. Then the module was removed, "
                "and the site was written: stop_table() must leave disabled records alone",
                site=[
                    f"{site.function.name} at {site.address:#x}",
                    f"was        {before:08x}  {evidence.kernel.disassemble(site.address, before)}",
                    f"became     {after:08x}  {evidence.kernel.disassemble(site.address, after)}"
                ])
    return None


def refused(evidence: Evidence) -> Finding | None:
    """A call site that holds an unexpected word is reported with both words, and not written."""
    if not any(was.after for was in evidence.overwritten_sites):
        return Finding(
            "the boot ended before the kernel was to write a call site of a module that the "
            "harness had overwritten"
        )
    return first_of(_refused(evidence, was) for was in evidence.overwritten_sites)


def _refused(evidence: Evidence, was: Overwritten) -> Finding | None:
    name, at, module = was.site.function.name, was.site.address, was.loaded.module
    became = was.loaded.word(was.after, was.site.address)
    other, sites = f"the call site of {name} held another word than its record says", {
        s.address
        for s in module.sites
    }
    shown = [
        f"{name} at {at:#x}", *(f"{what:10} {word:08x}  {evidence.kernel.disassemble(at, word)}"
                                for what, word in (("expected", was.expected), ("found", was.word)))
    ]
    if became != was.word:
        return Finding(
            f"{other}. The site was written, and must be left as it was",
            site=[*shown, f"became     {became:08x}  {evidence.kernel.disassemble(at, became)}"],
            mistake="site-not-read")
    if any(a not in sites and was.loaded.word(was.before, a) != was.loaded.word(was.after, a)
           for a in range(module.base, module.end, 4)):
        return Finding(
            f"{other}, and the kernel wrote words of {module.name} that are not call sites")
    if "its trampoline at" in was.printed:
        return Finding(
            "a call site called an address at which no trampoline begins, and the kernel took what "
            "is there for a trampoline",
            site=shown, mistake="call-taken-for-a-trampoline")
    if f"refused to write the call site of {name}" not in was.printed:
        return Finding(f"{other}, and the kernel did not report it", site=shown,
                       mistake="site-refused-in-silence")
    if (f"expected {was.expected:08x}" not in was.printed
            or f"found    {was.word:08x}" not in was.printed):
        return Finding(f"{other}, and the kernel did not report both words", site=shown)
    return None


# ---- coming --------------------------------------------------------------------------

def coming(evidence: Evidence) -> Finding | None:
    """Each tracer that selects functions of a module traces them from the module's init on; no
    other tracer does."""
    return first_of(
        _in_order(evidence, was) or runs_as_expected(evidence, "a module is loaded", was, [was.run],
                                                     was.output) or _tracers(evidence, was)
        for was in evidence.coming)


def _in_order(evidence: Evidence, was: Coming) -> Finding | None:
    """The call sites are published before the first of them is patched."""
    steps = _steps(evidence, *was.loaded)
    if "ftrace_add_table" not in steps:
        return Finding(
            "a module was loaded, and its call sites were not published with ftrace_add_table()")
    patched = [
        steps.index(name) for name in ("ftrace_make_call", "ftrace_modify_call") if name in steps
    ]
    if patched and min(patched) < steps.index("ftrace_add_table"):
        return Finding(
            "a call site of a module was patched before ftrace_add_table() had published its "
            "record: an event would not find the record",
            mistake="patched-before-published")
    if _batches(steps, "ftrace_make_call") > 1:
        return Finding(
            "a module was loaded, and its call sites were written in several batches: a batch "
            "synchronises all CPUs, and start_table() needs one for all sites")
    return None


def _batches(steps: list[str], name: str) -> int:
    """In how many batches this function was called."""
    at = [n for n, step in enumerate(steps) if step == name]
    return 1 + steps[at[0]:at[-1]].count("ftrace_batch_begin") if at else 0


def _steps(evidence: Evidence, first: int, last: int) -> list[str]:
    """What was called in this part of the log, in order."""
    hits = [(r.seq, name)
            for name in (*MODULES, GRACE, "ftrace_batch_begin", "end of ftrace_module_release")
            for r in between(evidence.truth.hits[name], first, last)]
    return [name for _, name in sorted(hits)]


def _tracers(evidence: Evidence, was: Coming) -> Finding | None:
    module = was.run.module
    executed = of_modules(evidence, was, module.names)
    wanted = [at for at in was.traces
              if at != OTHER] if len(was.traces) > 2 or OTHER not in was.traces else []
    wrong = {
        at:
        traced_as_executed(evidence,
                           f"{module.name} was loaded while tracers were on; {at or './'}trace",
                           was.traces[at], executed)
        for at in wanted
    }
    silent = [at for at in wanted if not was.traces[at].events]
    if OTHER in was.traces and any(is_of(module, event.func) for event in was.traces[OTHER].events):
        return Finding(
            f"{OTHER}set_ftrace_filter has only wl_begin, and {OTHER}trace has functions of "
            f"{module.name}",
            mistake="op-not-asked")
    if OTHER in was.traces and SECOND in silent:
        return Finding(
            f"{module.name} was loaded while three tracers were on. One does not select its "
            f"functions. That of {SECOND}, which was registered later, does, and {SECOND}trace has "
            "none of them: each op in ftrace_slots[] must be asked",
            mistake="later-ops-not-asked")
    if wanted and len(silent) == len(wanted):
        return Finding(
            f"{module.name} was loaded while tracers were on, and none of them traced it",
            mistake="op-not-asked")
    found = first_of(wrong.values())
    if found and len(silent) == 1:
        found.mistake = "one-op-only" if SECOND in wanted else ""
        if silent == [REQUEST]:
            found.mistake = "request-forgotten"
    return found or (_graphed(was, [c.name for c in executed]) if REQUEST in wanted else None)


def _graphed(was: Coming, want: list[str]) -> Finding | None:
    module = was.run.module
    printed = [name for name in was.graph if is_of(module, name)]
    if printed == want:
        return None
    at = next((n for n, (a, b) in enumerate(zip(printed, want)) if a != b),
              min(len(printed), len(want)))
    return Finding(
        f"{module.name} was loaded while function_graph was on: {GRAPH}trace does not have its "
        f"calls",
        side_by_side(want, printed, at), mistake="" if printed else "graph-not-told")


def failure_printed(evidence: Evidence) -> Finding | None:
    """A module is loaded while function_graph selects its functions, and a site is refused, so no
    further tracing is started. That function_graph cannot trace the module is printed."""
    for was in evidence.overwritten_sites if evidence.smp == 1 else ():
        module, said = was.loaded.module, was.printed.rpartition("no further tracing is started")
        if said[1] and module.name not in said[2]:
            return Finding(
                f"{module.name} was loaded while function_graph was on, and ftrace_graph_new_table "
                f"returned an error, as a call site was refused before. No message with the name "
                f"{module.name} was printed after that of the site")
    return None


def held(evidence: Evidence) -> Finding | None:
    """One op that may change pc traces the functions of a module that is loaded, and no other one
    can then select them. If there are several, no op traces them, and any other one may select
    them. Nothing is printed when they are unregistered."""
    return first_of(_held_wrong(evidence, was) for was in evidence.held)


def _held_wrong(evidence: Evidence, was: Held) -> Finding | None:
    module, nop = was.loaded.module, evidence.kernel.isa.nop
    for site in module.sites:
        word = was.loaded.word(was.loaded.traced, site.address)
        if (word == nop) != (was.ops > 1):
            why = (f"{was.ops} ops that may change pc selected its functions, so they are never "
                   "traced"
                   if was.ops > 1 else
                   "one op that may change pc selected its functions, so each site must call it")
            return Finding(
                f"{module.name} was loaded while {why}", site=[
                    f"{site.function.name} at {site.address:#x}",
                    f"is         {word:08x}  {evidence.kernel.disassemble(site.address, word)}"
                ])
    if was.ops == 1 and "EBUSY" not in was.refused:
        return Finding(
            f"{module.name} was loaded while one op that may change pc selected its functions. "
            f"Then another such op was registered for them, and must be refused "
            "with EBUSY: the records do not say that the functions are taken (FTRACE_FL_IPMODIFY)")
    if was.ops > 1 and was.refused.strip():
        return Finding(
            f"{module.name} was loaded while {was.ops} ops that may change pc selected its "
            "functions, so none of them has the functions. Then another such op was registered for "
            f"them, and must not be refused; it was: {was.refused.strip().splitlines()[0]}. The "
            "records still say that the functions are taken (FTRACE_FL_IPMODIFY)",
            mistake="nobodys-function-taken")
    if was.printed:
        return Finding(
            f"{module.name} was loaded while {was.ops} op{'s' * (was.ops > 1)} that may change pc "
            f"selected its functions. "
            f"When unregistered, this was printed: {was.printed.splitlines()[0]}")
    return None


def coming_printed(evidence: Evidence) -> Finding | None:
    """The same by the console alone."""
    return first_of(_coming_printed(was)
                    for was in evidence.coming) if evidence.coming else Finding(
                        "no module was loaded while tracers were on")


def _coming_printed(was: Coming) -> Finding | None:
    module, expected = was.run.module, seeded.expect(was.run)
    want = [module.named("init"), module.named("write"), *expected.calls]
    printed = {at: [event.func for event in trace.events] for at, trace in was.traces.items()}
    if any(is_of(module, name) for name in printed.pop(OTHER, [])):
        return Finding(
            f"{OTHER}set_ftrace_filter has only wl_begin, and {OTHER}trace has functions of "
            f"{module.name}",
            mistake="op-not-asked")
    if expected.line not in was.output:
        return Finding(f"'{was.run.command}' must print '{expected.line}'")
    printed |= {GRAPH: was.graph} if REQUEST in was.traces else {}
    return first_of(
        unlike(f"{module.name} was loaded while tracers were on; {at or './'}trace", got, want)
        for at, got in printed.items())


# ---- going ---------------------------------------------------------------------------

def going(evidence: Evidence) -> Finding | None:
    """After rmmod nothing refers to the module, even if another module is loaded at its address;
    and no CPU was inside it."""
    was = evidence.going
    found = gone_from_files(evidence)
    if found or not was:
        return found
    gone, other = was.gone, was.successor.module
    for site in other.sites:
        word = was.successor.word(was.successor.traced, site.address)
        if word != evidence.kernel.isa.nop:
            return Finding(
                f"{gone.name} was traced and removed. {other.name} was loaded at its address, and "
                f"is traced",
                mistake="filter-keeps-the-dead", site=[
                    f"{site.function.name} at {site.address:#x}",
                    f"was        {word:08x}  {evidence.kernel.disassemble(site.address, word)}"
                ])
    return _graces(evidence, _steps(evidence, was.first, was.last))


def going_printed(evidence: Evidence) -> Finding | None:
    """The same by the console alone."""
    was = evidence.going
    if was and was.gone.name not in was.files[f"enabled_functions{BEFORE}"]:
        return Finding(
            f"functions of {was.gone.name} were traced, and enabled_functions does not list them")
    return gone_from_files(evidence)


def gone_from_files(evidence: Evidence) -> Finding | None:
    """No file lists a module that was removed, or the module that was loaded at its address."""
    was = evidence.going
    if not was:
        return Finding("no module was removed while it was traced")
    gone, other = was.gone, was.successor.module
    for file in ("enabled_functions", "set_ftrace_filter"):
        if gone.name in was.files[file]:
            return Finding(f"{gone.name} was removed, and {file} still lists it")
        if other.name in was.files[f"{file} again"]:
            return Finding(
                f"{gone.name} was traced and removed. {other.name} was loaded at its address, and "
                f"{file} lists it: a filter kept the addresses of "
                "functions that no longer exist", mistake="filter-keeps-the-dead")
    return None


def _graces(evidence: Evidence, steps: list[str]) -> Finding | None:
    """There is a grace period after the sites are made nops, and another one after the records are
    unlinked."""
    if "ftrace_module_release" not in steps or "end of ftrace_module_release" not in steps:
        return Finding("rmmod did not call ftrace_module_release()")
    steps = steps[steps.index("ftrace_module_release"):steps.index("end of ftrace_module_release")]
    if "ftrace_make_nop" not in steps:
        return Finding("a module was removed while it was traced, and its sites were not made nops")
    if _batches(steps, "ftrace_make_nop") > 1:
        return Finding(
            "a module was removed, and its call sites were written in several batches: a batch "
            "synchronises all CPUs, and stop_table() needs one for all sites")
    if "profile_forget_modules" not in steps:
        return Finding(
            "a module was removed, and its records were not unlinked with unlink_sites()")
    unlinked = steps.index("profile_forget_modules")
    last = len(steps) - 1 - steps[::-1].index("ftrace_make_nop")
    if GRACE not in steps[last:unlinked]:
        return Finding(
            "the records of a removed module were unlinked without a grace period after its sites "
            "became nops: a CPU may still be in a trampoline or callback",
            mistake="gone-without-a-grace-period")
    if GRACE not in steps[unlinked:]:
        return Finding(
            "the records of a removed module were freed without a grace period after they were "
            "unlinked: an event may still read them",
            mistake="gone-without-a-grace-period")
    return None


def inside(evidence: Evidence) -> Finding | None:
    """rmmod fails with EBUSY while a call in flight will return through the module, and not
    afterwards."""
    for case, (what, slug) in WITHIN.items():
        if "EBUSY" not in evidence.inside.get(case, "EBUSY"):
            return Finding(
                f"rmmod removed a module although a thread slept in a traced call whose {what}; "
                f"rmmod must fail with EBUSY",
                mistake=slug)
    if said := evidence.inside.get("another", "").strip():
        return Finding(
            f"while a thread slept in a traced call of one module, another module could not be "
            f"removed: {said}"
        )
    if said := evidence.inside.get("awake", "").strip():
        return Finding(
            f"the call that was inside the module has returned, and rmmod still fails: {said}")
    return None if {*WITHIN, "awake"} <= {*evidence.inside} else Finding(
        "no module was removed while a call was inside it")


# By case of module_session.INSIDE: which shadow frame the kernel had to find, and the mistake of
# not finding it.
WITHIN = {
    "the function": ("shadow frame has a function of the module", "frames-not-searched"),
    "its return address": ("shadow frame has a return address in the module",
                           "callers-not-searched"),
    "below the top": ("shadow frame, below the top one, has a function of the module",
                      "top-frame-alone-searched"),
}


def _wrong_encoding(evidence: Evidence) -> str:
    wrong = trampolines_lead(evidence)
    return wrong.mistake if wrong else ""


def ended(evidence: Evidence) -> str:
    """The mistake of a boot that ended early: ftrace_lock, a trampoline that leads elsewhere, or a
    site that is patched before its record can be found."""
    if lock_misused(evidence) or _wrong_encoding(evidence):
        return lock_misused(evidence) or _wrong_encoding(evidence)
    steps = _steps(evidence, 0, 1 << 62)
    at = max((n for n, name in enumerate(steps) if name == "ftrace_module_enable"), default=-1)
    rest = steps[at + 1:] if at >= 0 else []
    early = ("ftrace_batch_begin" in rest
             and "ftrace_add_table" not in rest[:rest.index("ftrace_batch_begin")])
    return ("patched-before-published" if evidence.verdict == Verdict.PANIC and early
            and "ftrace_add_table" not in rest else "")


MISTAKES = {
    "trampoline-off-by-a-page": "a trampoline leads to an address that is one page away from its "
    "stub",
    "trampoline-wrong-reach": "trampoline_encode refuses a target in reach, or accepts one out of "
    "reach",
    "trampoline-misread": "trampoline_target does not find where a trampoline leads",
    "every-module-far": "a module in reach of the stubs gets trampolines",
    "same-stub-for-all": "every trampoline leads to the first stub",
    "trampoline-not-followed": "the site is read, but the trampoline that it calls is not",
    "old-trampoline-not-followed": "only the trampoline that the site will call is followed, and "
    "not the one that it calls now",
    "new-trampoline-not-followed": "only the trampoline that the site calls now is followed, and "
    "not the one that it will call",
    "instructions-not-compared": "words that are not a trampoline's instructions are taken for a "
    "trampoline",
    "lock-not-held": "call sites are changed without ftrace_lock",
    "lock-not-given-back": "ftrace_lock is locked and never unlocked",
    "patched-before-published": "call sites are patched before their records can be found",
    "op-not-asked": "a module that is loaded is traced by every op, or by none",
    "later-ops-not-asked": "the ops after the first one that does not select a function are not "
    "asked",
    "one-op-only": "if two ops select a function, only one of them is called",
    "nobodys-function-taken": "a function that no op has is taken for one whose pc an op may "
    "change",
    "graph-not-told": "function_graph does not trace a module that is loaded while it is on",
    "request-forgotten": "a :mod: request is not applied when its module is loaded",
    "gone-without-a-grace-period": "records are removed while a CPU may be in a trampoline or "
    "callback",
    "filter-keeps-the-dead": "filters keep functions of a removed module",
    "frames-not-searched": "a module is removed while a call in flight will return through it",
    "callers-not-searched":
        "the return addresses of shadow frames are not compared with the module",
    "top-frame-alone-searched": "only the top shadow frame of each thread is compared with the "
    "module",
    "site-not-read": "a module's call site is written, whatever word it holds",
    "site-refused-in-silence": "a call site that holds an unexpected word is not reported",
    "call-taken-for-a-trampoline": "any address that a site calls is taken for a trampoline",
}
ADVICE = {"last-stub-not-tried"}

LED = once("call of a trampoline by a far module's function",
           lambda e: sum(1 for _ in far_calls(e)), 50)
LOADED = once("module whose text was read", lambda e: sum(bool(loaded.rest) for loaded in e.loaded),
              2)
NEARS = once("module in reach",
             lambda e: sum(bool(loaded.rest) and not loaded.far for loaded in e.loaded), 1)
FARS = once("module out of reach",
            lambda e: sum(bool(loaded.rest) and loaded.far for loaded in e.loaded), 1)
COMPUTED = with_one_cpu(
    once("call of trampoline_encode or trampoline_target",
         lambda e: len(e.truth.asked(TRAMPOLINE_ENCODER, TRAMPOLINE_READER)), 384))
RUNS = Coverage(
    "run of seeded calls in modules",
    lambda e: [Amount(v.name, len(executed_runs(e, v)), len(v.runs))
               for v in e.visits] + [Amount("", len(e.visits), 3 if e.smp > 1 else 1)])
PRINTED = Coverage(
    "printed event", lambda e: [
        Amount(v.name,
               len(v.trace.events)
               if v.trace else 0, sum(len(seeded.expect(r).calls) for r in v.runs))
        for v in e.visits
    ])
CAME = once("module that was loaded while tracers were on", lambda e: len(e.coming), 4)
HELD = once("module that was loaded while ops that may change pc select its functions",
            lambda e: len(e.held), 3)
WENT = once("module that was removed while it was traced", lambda e: int(bool(e.going)))
INSIDE = once("attempt to remove a module while a call was inside it",
              lambda e: int("awake" in e.inside))
OVERWRITTEN = once("module whose call site was overwritten",
                   lambda e: len({was.loaded.module
                                  for was in e.overwritten_sites}))
REDIRECTED = once("attempt to change what is traced while trampolines lead elsewhere",
                  lambda e: len(e.redirected), 8)

CHECKS = {
    "called": called,
    "life": all_of(lives, right_result),
    "rest": all_of(rest_at_boot, modules_at_rest, rest_at_end, words_stored),
    "near": near_calls_stubs,
    "trampolines": all_of(trampolines_lead, trampolines_computed),
    "one CPU": three_agree,
    "many CPUs": three_agree,
    "followed": all_of(followed, refused, disabled),
    "coming": all_of(coming, held, failure_printed),
    "going": going,
    "inside": inside,
    "schedules": all_of(as_linked, words_stored, right_under_schedules),
}

CONSOLE = {
    "life": lives_and_traces, "one CPU": runs_printed, "many CPUs": runs_printed,
    "coming": coming_printed, "going": going_printed, "inside": inside
}

SEEN = {
    "called": (LED,),
    "life": (POWERED_OFF, ran(0, 2)),
    "rest": (TEXT_AT_BOOT, TEXT_AT_END, LOADED),
    "near": (NEARS,),
    "trampolines": (FARS, COMPUTED),
    "one CPU": (RUNS, PRINTED),
    "many CPUs": (RUNS, PRINTED),
    "followed": (REDIRECTED, OVERWRITTEN),
    "coming": (CAME, HELD),
    "going": (WENT,),
    "inside": (INSIDE,),
    "schedules": (PLAYED,),
}

INSMOD, RMMOD = f"insmod maple at={SCHEDULED:#x}", "rmmod maple"
TRACED = ("op 0 see calls_traced", "echo '*' > set_ftrace_notrace",
          "echo function > current_tracer")
UNTRACED = ("echo nop > current_tracer", "echo > set_ftrace_notrace", "op 0 off")
SCHEDULES = (
    Change("load", INSMOD, "ftrace_module_enable", first=TRACED, last=UNTRACED, after=(RMMOD,),
           stays=frozenset({0})),
    Change("remove", RMMOD, "ftrace_module_release", first=TRACED, last=UNTRACED, before=(INSMOD,),
           stays=frozenset({0})),
)
