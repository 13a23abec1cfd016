# mypy: no-warn-return-any, allow-subclassing-any
"""Shows stacks through code that DWARF does not describe, and stacks of threads that do not run.

Assembly has no unwind tables, and a traced function returns to
return_to_handler. The unwinder here knows these:

    exception_vector    all registers are in struct trap_frame, at sp; at its first instruction they
                        are unchanged
    ftrace_caller       struct ftrace_regs, at sp: it is two frames
    return_to_handler   the function's true return address is on the shadow stack
    other assembly      by its frame record, after the instruction that makes it
    thread_start_asm    the stack ends here

A thread that is off its CPU is shown by taking its saved context for the
caller of the stopped CPU's innermost frame. The guest itself is not changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gdb  # type: ignore[import]
from gdb.FrameDecorator import FrameDecorator  # type: ignore[import]
from gdb.unwinder import Unwinder, register_unwinder  # type: ignore[import]

from qemu.debugger.guest import (ISA, Command, Value, address, as_int, every_thread, name_of,
                                 need_kernel, pointer, read, running_on, symbol, text,
                                 thread_of_stack, word)

Registers = dict[str, int]

GENERAL, ENDS = ISA.general, ISA.assembly_ends
FP, LINK, RESUME = (GENERAL[n] for n in (ISA.fp, ISA.link, ISA.link_register("entry")))
PARENT, BACK = ISA.entry_parent, ISA.resumed_by
KEPT = [GENERAL[n] for n in ISA.preserved if n < len(GENERAL) and n != ISA.sp]


def quad(at: int) -> int:
    return int.from_bytes(read(at, 8), "little")


# ---- One step ----


class Frame:
    """The registers of the frame that gdb asks the unwinder about."""

    def __init__(self, pending: Any) -> None:
        self._pending = pending
        self.pc, self.sp, self.level = self["pc"], self["sp"], pending.level()

    def __getitem__(self, name: str) -> int:
        return as_int(self._pending.read_register(name))

    def value(self, name: str) -> Value | None:
        value = self._pending.read_register(name)
        return None if value.is_optimized_out else value


def from_trap_frame(frame: Frame) -> Registers:
    regs = pointer(frame.sp, "struct trap_frame").dereference()
    found = {name: as_int(regs["x"][n]) for n, name in enumerate(GENERAL) if name != "zero"}
    if "sp" not in GENERAL:
        found["sp"] = as_int(regs["x"][len(GENERAL)])  # register 31
    # gdb takes every outer pc for a return address, and looks up the byte before it. This pc is
    # exact, so it is raised by 1.
    return found | {"pc": as_int(regs["pc"]) + 1}


def has_just_come(pc: int, vector: int) -> bool:
    """Is pc at the first instruction of an exception's entry, where nothing is saved yet?"""
    return (pc - vector) % 128 == 0 and (pc - vector) // 128 < ISA.vectors


def from_the_cpu(frame: Frame) -> Registers:
    return {"pc": frame[ISA.trapped_pc] + 1, "sp": frame.sp, FP: frame[FP], LINK: frame[LINK]}


def from_ftrace_regs(frame: Frame) -> Registers:
    """From a stub or ftrace_caller to the traced function, after its call site."""
    size = gdb.lookup_type("struct ftrace_regs").sizeof
    start, call = address("ftrace_caller"), address("ftrace_call")
    assert start is not None and call is not None
    if not start < frame.pc or word(frame.pc) in ENDS:
        back = RESUME if frame.pc <= start else BACK
        link = PARENT if frame.pc <= start else LINK
        return {"pc": frame[back], "sp": frame.sp, FP: frame[FP], LINK: frame[link]}
    regs = pointer(frame.sp, "struct ftrace_regs").dereference()
    if frame.pc <= call:
        # equal to the end: on riscv64, before fp points to the record
        ours = frame.sp <= frame[FP] <= frame.sp + size
        return {"pc": frame[RESUME], "sp": frame.sp + size,
                FP: as_int(regs["fp"]) if ours else frame[FP], LINK: frame[PARENT]}
    return {"pc": as_int(regs["pc"]), "sp": frame.sp + size, FP: as_int(regs["fp"]),
            LINK: as_int(regs["link"])}


def true_caller(sp: int, fp: int) -> int | None:
    """The return address of the newest shadow frame with this frame pointer; in a chain of tail
    calls, of the outermost."""
    thread, handler = thread_of_stack(sp), address("return_to_handler")
    if thread is None or not int(thread["ftrace"]):
        return None
    stack = thread["ftrace"].cast(gdb.lookup_type("struct shadow_stack").pointer())
    frame = stack["top"]
    while int(frame):
        if as_int(frame["fp"]) == fp and as_int(frame["ret"]) != handler:
            return as_int(frame["ret"])
        frame = frame["below"]
    return None


def from_return_to_handler(frame: Frame, start: int) -> Registers:
    if frame.pc == start:  # it is only a return address, and has not been entered
        fp, sp, link = frame[FP], frame.sp, start
    elif word(frame.pc) in ENDS:
        fp, sp, link = frame[FP], frame.sp, frame[LINK]
    else:
        regs = pointer(frame.sp, "struct ftrace_regs").dereference()
        fp, sp, link = as_int(regs["fp"]), frame.sp + regs.type.sizeof, as_int(regs["link"])
    back = (true_caller(frame.sp, fp) if link == start else link) or 0
    return {"pc": back, "sp": sp, FP: fp}


def made_frame(pc: int) -> int:
    """The size of the frame at @pc, from the instructions before it; 0: there is no frame yet, or
    no longer."""
    at = pc
    while pc - at < 512 and word(at) not in ENDS:
        at -= 4
        if size := ISA.lowers_sp(word(at)):
            return size
    return 0


def recorded(frame: Frame, size: int) -> Registers | None:
    """The caller's registers by the frame record, if fp points to one in a frame of that size."""
    if not size or not frame.sp <= frame[FP] <= frame.sp + size:
        return None
    fp, link = (quad(frame[FP] + at) for at in ISA.frame_record)
    return {"pc": link, "sp": frame.sp + size, FP: fp, LINK: link}


def from_record(frame: Frame) -> Registers:
    size = made_frame(frame.pc)
    return recorded(frame, size) or {"pc": frame[LINK], "sp": frame.sp + size, FP: frame[FP],
                                     LINK: frame[LINK]}


def behind_the_last(frame: Frame) -> Registers | None:
    """The last instruction of a function calls one that never returns, so the return address
    belongs to the next function in DWARF."""
    start = frame.pc - 4 - symbol(frame.pc - 4)[1]
    beginning = map(word, range(start, min(start + 64, frame.pc), 4))
    return recorded(frame, next(filter(None, map(ISA.lowers_sp, beginning)), 0))


def is_stub(name: str) -> bool:
    return name.startswith(("ftrace_stub", "ftrace_island_", "ftrace_caller", "ftrace_call"))


def is_assembly(pc: int) -> bool:
    table = gdb.find_pc_line(pc).symtab
    return table is None or table.filename.endswith(".S")


def step(frame: Frame) -> Registers | None:
    """The caller's registers; None: DWARF describes this frame."""
    handler = address("return_to_handler")
    if handler is not None and frame.pc == handler:
        return from_return_to_handler(frame, handler)
    name, offset = symbol(frame.pc)
    if frame.level and frame.pc and not offset and not is_assembly(frame.pc - 4):
        return behind_the_last(frame)
    if not is_assembly(frame.pc):
        return None
    start = frame.pc - offset
    low, high = address("exception_vector"), address("exception_vector_end")
    if low is not None and high is not None and low <= frame.pc < high:
        return (from_the_cpu(frame) if not frame.level and has_just_come(frame.pc, low)
                else from_trap_frame(frame))
    if name == "thread_start_asm":
        return {"pc": 0, "sp": frame.sp, FP: 0, LINK: 0}
    if handler is not None and start == handler:
        return from_return_to_handler(frame, handler)
    if is_stub(name) and address("ftrace_slots") is not None:
        return from_ftrace_regs(frame)
    text_start, text_end = address("_text"), address("_etext")
    if text_start is None or text_end is None or not text_start <= frame.pc < text_end:
        return None
    return from_record(frame)


# ---- gdb's side ----


class FrameId:
    def __init__(self, sp: int, pc: int) -> None:
        self.sp, self.pc = gdb.Value(sp), gdb.Value(pc)


class KernelUnwinder(Unwinder):
    def __init__(self) -> None:
        super().__init__("callsite")
        # the context of another thread, which is shown instead of the CPU's
        self.instead: Registers | None = None
        # the level of the CPU's own frame; functions that are inlined at its pc have lower levels
        self.level = 0

    def __call__(self, pending: Any) -> Any:
        try:
            f = Frame(pending)
            if self.instead and pending.level() == self.level:
                return self._info(pending, f, self.instead, FrameId(0, f.pc), ())
            found = step(f)
        except (gdb.error, AttributeError):
            return None
        return self._info(pending, f, found, FrameId(f.sp, f.pc), KEPT) if found else None

    @staticmethod
    def _info(pending: Any, frame: Frame, found: Registers, frame_id: FrameId, kept: Any) -> Any:
        info = pending.create_unwind_info(frame_id)
        long = gdb.lookup_type("unsigned long")
        for name in kept:
            value = frame.value(name)
            if name not in found and value is not None:
                info.add_saved_register(name, value)
        for name, number in found.items():
            info.add_saved_register(name, gdb.Value(number).cast(long))
        return info


UNWINDER = KernelUnwinder()


class Interrupted(FrameDecorator):
    """Its pc is exact; see from_trap_frame()."""

    def address(self) -> int:
        return int(super().address()) & ~1


class KernelFrames:
    """Leaves out frames that are no calls: return_to_handler, and the CPU's frame if another
    thread's stack is shown."""

    name, priority, enabled = "callsite", 100, True

    def __init__(self) -> None:
        gdb.frame_filters[self.name] = self

    def filter(self, frames: Iterator[Any]) -> Iterator[Any]:
        handler = address("return_to_handler")
        for decorated in to_the_end(frames):
            frame = decorated.inferior_frame()
            if frame.pc() == handler or (UNWINDER.instead and frame.level() <= UNWINDER.level):
                continue
            yield Interrupted(decorated) if frame.pc() & 1 else decorated


def to_the_end(frames: Iterator[Any]) -> Iterator[Any]:
    """The frames before the caller of thread_start_asm or of kernel_main, whose pc is 0: gdb fails
    to unwind it."""
    while True:
        try:
            decorated = next(frames)
        except (StopIteration, gdb.error):
            return
        if not decorated.inferior_frame().pc():
            return
        yield decorated


def install() -> None:
    register_unwinder(None, UNWINDER, replace=True)
    KernelFrames()


# ---- Threads ----


def saved_context(thread: Value) -> Registers:
    context = thread["context"]
    found = {"pc": as_int(context["pc"]), "sp": as_int(context["sp"]), FP: as_int(context["fp"])}
    letter, numbers = ISA.saved
    found |= {f"{letter}{n}": as_int(context[letter][at]) for at, n in enumerate(numbers)}
    return found | {LINK: found["pc"]}


def own_level() -> int:
    """The level of the frame of the CPU's pc, and not of a function that is inlined there."""
    frame = gdb.newest_frame()
    while frame.type() == gdb.INLINE_FRAME:
        frame = frame.older()
    return int(frame.level())


class Shown:
    """In this block gdb's frames are those of @thread."""

    def __init__(self, thread: Value) -> None:
        self._vcpu = running_on(thread)
        self._context = None if self._vcpu else saved_context(thread)

    def __enter__(self) -> None:
        self._selected = gdb.selected_thread()
        if self._vcpu:
            self._vcpu.switch()
        UNWINDER.instead, UNWINDER.level = self._context, own_level()
        gdb.invalidate_cached_frames()

    def __exit__(self, *_: Any) -> None:
        UNWINDER.instead = None
        gdb.invalidate_cached_frames()
        self._selected.switch()


SWITCHING = {
    "__switch_to", "leave_cpu", "context_switch", "__schedule", "schedule", "schedule_timeout",
    "return_to_handler"
}


def where(thread: Value) -> str:
    """The innermost four functions, without those through which every thread leaves its CPU."""
    handler = address("return_to_handler")
    with Shown(thread):
        frame = gdb.newest_frame()
        while UNWINDER.instead and frame is not None and frame.level() <= UNWINDER.level:
            frame = frame.older()
        names: list[str] = []
        while frame is not None and frame.pc() and len(names) < 4:
            if frame.pc() == handler:
                name = "return_to_handler"
            else:
                name = frame.name() or name_of(frame.pc())
            if name not in SWITCHING:
                names.append("the firmware" if name.startswith("0x") else name)
            frame = frame.older()
    return " < ".join(names)


def state_of(thread: Value) -> str:
    if int(thread["on_cpu"]):
        return "running"
    return {"THREAD_RUNNING": "ready",
            "THREAD_SLEEPING": "sleeps"}.get(str(thread["state"]), "dead")


class Threads(Command):
    """threads: every thread, its CPU, what it does, and the innermost functions of its stack."""

    name = "threads"

    def run(self, words: list[str]) -> None:
        need_kernel()
        gdb.write(" pid cpu state   name             where\n")
        for t in every_thread():
            gdb.write(f"{int(t['pid']):4} {int(t['cpu']):3} {state_of(t):7} {text(t['comm']):16} "
                      f"{where(t)}\n")


def find_thread(word_: str) -> Value:
    for thread in every_thread():
        name = text(thread["comm"])
        if word_ == name or (word_ != "0" and word_ == str(int(thread["pid"]))):
            return thread
    raise gdb.GdbError(
        f"There is no thread '{word_}': threads lists them; idle threads have names alone.")


class BtThread(Command):
    """bt-thread PID|NAME [bt's words]: the stack of any thread, running or not.

It shows the callers through trampolines, interrupts and return addresses that a tracer
replaced. `bt` does the same for the CPU that gdb has selected (`thread N` selects one)."""

    name = "bt-thread"

    def run(self, words: list[str]) -> None:
        need_kernel()
        if not words:
            raise gdb.GdbError("bt-thread PID|NAME [bt's words]")
        with Shown(find_thread(words[0])):
            gdb.execute("bt " + " ".join(words[1:]))
