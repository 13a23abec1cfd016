"""The grading harness: compares what the console prints with what the processor executed.

A room is a folder. It imports only rooms before it in ROOMS, and all of them may import
grading/verdict.py; `make lint` checks that.

    elf        what the build made: a kernel's and a module's functions, call sites and
               instructions; the rules for a handed-in object; a lab's halves
    machine    a running machine: a board at a serial line, or QEMU with its console, debugger stub,
               memory and observer; holding a CPU at an instruction
    text       the `trace` file as Linux prints it, parsed into events
    truth      what was executed: the observer's log as calls, batches and returns
    stimulus   what a boot is made to do: the seeded workload, random ops, single steps, forced
               interleavings
    evidence   all that is known of one boot: the printed text and the truth; a Finding, which is
               what a check found wrong in it
    session    a graded boot, which types the lab's commands at a machine and gathers the evidence
    checks     each takes the evidence of a boot, and returns None or a Finding; the rubric of a
               lab, which names its checks
    report     the table of rungs, the findings, and the command that repeats a failure
    classroom  grades a class: reads what was handed in, grades each submission in a sandbox, writes
               tables and pages
    selftest   grades the grader: wrong solutions, mutants, many seeds, the cost of a grade
    tests      unit tests of all of these

A grade of one lab on one architecture runs in this order (grading/__main__.py):

1. checks/rubric.py loads labs/<n>-<name>/rubric.toml (the rungs) and checks.py (their checks).
2. For each number of CPUs, session/session.py boots the kernel (machine/machine.py), waits until it
   is ready, sends the seed, and types the lab's commands. The observer logs what each CPU executes.
3. truth/truth.py builds calls, batches and returns from the observer's log; text/ parses what `cat
   trace` printed; stimulus/workload.py says which calls follow from the seed.
4. report/report.py runs each rung's checks on the evidence of its boots, asks checks/seen.py
   whether enough was observed, and prints the table and the first finding of each lost rung.

Limits at which a boot ends early: BOOT_SECONDS to the first prompt, and BUDGET in instructions of
one CPU (both in session/session.py; a board's BOOT_SECONDS is in session/line_session.py); LONGEST
in seconds for the whole boot, and the bytes that it may print (`cap`), in machine/machine.py; the
seconds of a command (machine/console.py); JUDGING in seconds of processor time to judge the boot
(evidence/evidence.py). BUDGET and LONGEST grow with each schedule that is played
(stimulus/schedules.py).
"""

import qemu  # noqa: F401  # first: it decides whether Python writes bytecode

ROOMS = ("elf", "machine", "text", "truth", "stimulus", "evidence", "session", "checks", "report",
         "classroom", "selftest")
