"""Lab 7: the check of each rung, and the mistakes that it names. Most checks are in grading/checks/module_checks.py."""

from __future__ import annotations

from grading.checks.checks import all_of, differing, first_of, foreign, lives, named, rest_at_boot, rest_at_end, rest_text, right_result
from grading.checks.integrity import as_linked
from grading.checks.module_checks import (executed_runs, far_calls, is_of, modules_at_rest, near_calls_stubs, of_modules, runs_as_expected, something_led,
                                          three_agree, traced_as_executed, trampolines_lead)
from grading.checks.schedule_checks import PLAYED, right_under_schedules
from grading.checks.seen import POWERED_OFF, TEXT_AT_BOOT, TEXT_AT_END, Amount, Coverage, once, ran
from grading.evidence.evidence import Coming, Evidence, between
from grading.evidence.finding import Finding, side_by_side
from grading.session.module_session import GRAPH, OTHER, REQUEST, SCHEDULED, SECOND, ModuleSession
from grading.stimulus import seeded
from grading.stimulus.schedules import Change
from grading.truth.truth import GRACE, MODULES
from grading.verdict import Verdict

SESSION = ModuleSession


# ---- followed ------------------------------------------------------------------------

def followed(e: Evidence) -> Finding | None:
    """A trampoline that leads elsewhere is reported, and the sites that call it, or would call it, are not written."""
    was = e.redirected
    if not was or not was.after:
        return Finding("the boot ended before the harness had overwritten a module's trampolines, which the kernel must then find")
    module, wanted = was.loaded.module, "no longer traced" if e.smp > 1 else "traced"
    slug = "old-trampoline-not-followed" if e.smp > 1 else "trampoline-not-followed"
    for site in module.sites:
        before, after = was.loaded.word(was.before, site.address), was.loaded.word(was.after, site.address)
        if before != after:
            return Finding(f"{site.function.name} was to be {wanted}, and its trampoline led elsewhere. The site was written, and must be left alone", site=[
                f"{site.function.name} at {site.address:#x}", f"was        {before:08x}  {e.kernel.disassemble(site.address, before)}",
                f"became     {after:08x}  {e.kernel.disassemble(site.address, after)}"], mistake=slug)
    if was.before != was.after:
        return Finding(f"the trampolines of {module.name} led elsewhere, and other words of its text were written")
    changed = foreign(e.kernel, differing(e.kernel, was.kernel, rest_text(e.kernel, e.lab)), set())
    if changed:
        return Finding(f"the trampolines of {module.name} led elsewhere, and text was changed at {e.kernel.name_at(changed[0])}", address=changed[0])
    if "its trampoline at" not in was.printed:
        return Finding(f"the trampolines of {module.name} led elsewhere, and the kernel did not report it")
    return None


# ---- coming --------------------------------------------------------------------------

def coming(e: Evidence) -> Finding | None:
    """Each tracer that is on and selects a module's functions traces them from its init on; another tracer does not."""
    return first_of(_in_order(e, was) or runs_as_expected(e, "a module comes", was, [was.run], was.output) or _tracers(e, was) for was in e.coming)


def _in_order(e: Evidence, was: Coming) -> Finding | None:
    """The call sites are published before the first of them is patched."""
    steps = _steps(e, *was.loaded)
    if "ftrace_add_table" not in steps:
        return Finding("a module was loaded, and its call sites were not published with ftrace_add_table()")
    patched = [steps.index(name) for name in ("ftrace_make_call", "ftrace_modify_call") if name in steps]
    if patched and min(patched) < steps.index("ftrace_add_table"):
        return Finding("a call site of the module was patched before ftrace_add_table() had published its record: an event of it would find no record",
                       mistake="patched-before-published")
    return None


def _steps(e: Evidence, first: int, last: int) -> list[str]:
    """What was called in this part of the log, in order."""
    hits = [(r.seq, name) for name in (*MODULES, GRACE, "ftrace_batch_begin", "end of ftrace_module_release") for r in between(e.truth.hits[name], first, last)]
    return [name for _, name in sorted(hits)]


def _tracers(e: Evidence, was: Coming) -> Finding | None:
    module = was.run.module
    executed = of_modules(e, was, module.names)
    wanted = [at for at in was.traces if at != OTHER] if len(was.traces) > 2 or OTHER not in was.traces else []
    wrong = {at: traced_as_executed(e, f"{module.name} came while tracers were on; {at or './'}trace", was.traces[at], executed) for at in wanted}
    silent = [at for at in wanted if not was.traces[at].events]
    if OTHER in was.traces and any(is_of(module, event.func) for event in was.traces[OTHER].events):
        return Finding(f"{OTHER}set_ftrace_filter has wl_begin alone, and {module.name}'s functions are in its trace", mistake="op-not-asked")
    if wanted and len(silent) == len(wanted):
        return Finding(f"{module.name} came while tracers were on, and none of them traced it", mistake="op-not-asked")
    found = first_of(wrong.values())
    if found and len(silent) == 1:
        found.mistake = "request-forgotten" if silent == [REQUEST] else "one-op-only" if SECOND in wanted else ""
    return found or (_graphed(was, [c.name for c in executed]) if REQUEST in wanted else None)


def _graphed(was: Coming, want: list[str]) -> Finding | None:
    module = was.run.module
    printed = [name for name in was.graph if is_of(module, name)]
    if printed == want:
        return None
    at = next((n for n, (a, b) in enumerate(zip(printed, want)) if a != b), min(len(printed), len(want)))
    return Finding(f"{module.name} came while function_graph was on: {GRAPH}trace does not have its calls", side_by_side(want, printed, at),
                   mistake="" if printed else "graph-not-told")


# ---- going ---------------------------------------------------------------------------

def going(e: Evidence) -> Finding | None:
    """After rmmod nothing refers to the module, also if another module comes to its address; and nobody was inside."""
    was = e.going
    if not was:
        return Finding("no module was removed while it was traced")
    gone, other = was.gone, was.successor.module
    for file in ("enabled_functions", "set_ftrace_filter"):
        if gone.name in was.files[file]:
            return Finding(f"{gone.name} was removed, and {file} still lists it")
        if other.name in was.files[f"{file} again"]:
            return Finding(f"{gone.name} was traced and removed. {other.name} came to its address, and {file} lists it: a filter kept the addresses of "
                           "functions that no longer exist", mistake="filter-keeps-the-dead")
    for site in other.sites:
        word = was.successor.word(was.successor.traced, site.address)
        if word != e.kernel.isa.nop:
            return Finding(f"{gone.name} was traced and removed. {other.name} came to its address, and is traced", mistake="filter-keeps-the-dead", site=[
                f"{site.function.name} at {site.address:#x}", f"was        {word:08x}  {e.kernel.disassemble(site.address, word)}"])
    return _graces(e, _steps(e, was.first, was.last))


def _graces(e: Evidence, steps: list[str]) -> Finding | None:
    """One grace period after the sites are nops, another one after the records are unlinked."""
    if "ftrace_module_release" not in steps or "end of ftrace_module_release" not in steps:
        return Finding("rmmod did not call ftrace_module_release()")
    steps = steps[steps.index("ftrace_module_release"):steps.index("end of ftrace_module_release")]
    if "ftrace_make_nop" not in steps:
        return Finding("a module was removed while it was traced, and its sites were not made nops")
    if "profile_forget_modules" not in steps:
        return Finding("a module was removed, and its records were not unlinked with unlink_sites()")
    unlinked = steps.index("profile_forget_modules")
    last = len(steps) - 1 - steps[::-1].index("ftrace_make_nop")
    if GRACE not in steps[last:unlinked]:
        return Finding("the records of a removed module were unlinked without a grace period after its sites became nops: a CPU may still be in a trampoline or callback",
                       mistake="gone-without-a-grace-period")
    if GRACE not in steps[unlinked:]:
        return Finding("the records of a removed module were freed without a grace period after they were unlinked: an event may still read them",
                       mistake="gone-without-a-grace-period")
    return None


def inside(e: Evidence) -> Finding | None:
    """rmmod refuses while a call will return through the module, and not afterwards."""
    if "sleeps" not in e.inside:
        return Finding("no module was removed while a call was inside it")
    if "EBUSY" not in e.inside["sleeps"]:
        return Finding("rmmod removed a module while a traced call, whose thread sleeps, would return through it; it must fail with EBUSY", mistake="frames-not-searched")
    if e.inside["another"].strip():
        return Finding(f"a thread slept in a traced call of one module, and another module could not be removed: {e.inside['another'].strip()}")
    if e.inside.get("awake", "").strip():
        return Finding(f"the call that was inside the module has returned, and rmmod still refuses: {e.inside['awake'].strip()}")
    return None


def _wrong_encoding(e: Evidence) -> str:
    wrong = trampolines_lead(e)
    return wrong.mistake if wrong else ""


def ended(e: Evidence) -> str:
    """A mistake that ends a boot: a trampoline leads astray, or a site is patched before its record can be found."""
    if _wrong_encoding(e):
        return _wrong_encoding(e)
    steps = _steps(e, 0, 1 << 62)
    at = max((n for n, name in enumerate(steps) if name == "ftrace_module_enable"), default=-1)
    rest = steps[at + 1:] if at >= 0 else []
    early = "ftrace_batch_begin" in rest and "ftrace_add_table" not in rest[:rest.index("ftrace_batch_begin")]
    return "patched-before-published" if e.verdict == Verdict.PANIC and early and "ftrace_add_table" not in rest else ""


MISTAKES = {
    "trampoline-off-by-a-page": "a trampoline leads to an address that is a page from its stub",
    "every-module-far": "a module in reach of the stubs gets trampolines",
    "same-stub-for-all": "every trampoline leads to the first stub",
    "trampoline-not-followed": "the site is looked at, and its trampoline is not",
    "old-trampoline-not-followed": "only the trampoline that will be called is followed",
    "patched-before-published": "call sites are patched before their records can be found",
    "op-not-asked": "a module that comes is traced by every op, or by none",
    "one-op-only": "with two ops on a function only one is called",
    "graph-not-told": "function_graph does not trace a module that comes while it is on",
    "request-forgotten": "a :mod: request is not applied when its module comes",
    "gone-without-a-grace-period": "records go while a CPU may be in a trampoline or callback",
    "filter-keeps-the-dead": "filters keep functions of a removed module",
    "frames-not-searched": "a module is removed while a call returns through it",
}
ADVICE = {"last-stub-not-tried"}

LED = once("call of a far module's function through a trampoline", lambda e: sum(1 for _ in far_calls(e)), 50)
LOADED = once("module whose text was read", lambda e: sum(bool(loaded.rest) for loaded in e.loaded), 2)
NEARS = once("module in reach", lambda e: sum(bool(loaded.rest) and not loaded.far for loaded in e.loaded), 1)
FARS = once("module out of reach", lambda e: sum(bool(loaded.rest) and loaded.far for loaded in e.loaded), 1)
RUNS = Coverage("run of seeded calls in modules", lambda e: [Amount(v.name, len(executed_runs(e, v)), len(v.runs)) for v in e.visits] + [
    Amount("", len(e.visits), 3 if e.smp > 1 else 1)])
PRINTED = Coverage("printed event", lambda e: [Amount(v.name, len(v.trace.events) if v.trace else 0, sum(len(seeded.expect(r).calls) for r in v.runs)) for v in e.visits])
CAME = once("module that came while tracers were on", lambda e: len(e.coming), 3)
WENT = once("module that went while it was traced", lambda e: int(bool(e.going)))
INSIDE = once("try to remove a module while a call was inside it", lambda e: int("awake" in e.inside))
REDIRECTED = once("module whose trampolines were overwritten", lambda e: int(bool(e.redirected and e.redirected.before)))

CHECKS = {
    "called": named(something_led, lambda e, finding: _wrong_encoding(e)),
    "life": all_of(lives, right_result),
    "rest": all_of(rest_at_boot, modules_at_rest, rest_at_end),
    "near": near_calls_stubs,
    "trampolines": trampolines_lead,
    "one CPU": three_agree,
    "four CPUs": three_agree,
    "followed": followed,
    "coming": coming,
    "going": going,
    "inside": inside,
    "schedules": all_of(as_linked, right_under_schedules),
}

SEEN = {
    "called": (LED,),
    "life": (POWERED_OFF, ran(0, 2)),
    "rest": (TEXT_AT_BOOT, TEXT_AT_END, LOADED),
    "near": (NEARS,),
    "trampolines": (FARS,),
    "one CPU": (RUNS, PRINTED),
    "four CPUs": (RUNS, PRINTED),
    "followed": (REDIRECTED,),
    "coming": (CAME,),
    "going": (WENT,),
    "inside": (INSIDE,),
    "schedules": (PLAYED,),
}

INSMOD, RMMOD = f"insmod maple at={SCHEDULED:#x}", "rmmod maple"
TRACED = ("op 0 see calls_traced", "echo '*' > set_ftrace_notrace", "echo function > current_tracer")
UNTRACED = ("echo nop > current_tracer", "echo > set_ftrace_notrace", "op 0 off")
SCHEDULES = (
    Change("load", INSMOD, "ftrace_module_enable", first=TRACED, last=UNTRACED, after=(RMMOD,), stays=frozenset({0})),
    Change("remove", RMMOD, "ftrace_module_release", first=TRACED, last=UNTRACED, before=(INSMOD,), stays=frozenset({0})),
)
