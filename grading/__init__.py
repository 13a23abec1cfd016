"""The grading harness: compares what the console prints with what the processor executed.

A room is a folder. It imports only rooms before it in ROOMS, and all of them may import grading/verdict.py; `make lint` checks that.

    elf        what the build made: a kernel's functions, call sites and instructions; the rules for a handed-in object
    machine    a running machine: QEMU with its console, debugger stub, memory and observer; holding a CPU at an instruction
    text       the `trace` file as Linux prints it, parsed into events
    evidence   what one boot left: the commands, the printed text, and the calls, stores and fences that were executed; a Finding
    checks     each takes the evidence of a boot, and returns None or a Finding
    session    types a lab's commands at a machine, and gathers the evidence
    report     the rubric of a lab, the table of rungs, and the command that repeats a failure
    selftest   grades the grader: wrong solutions, mutants, many seeds, the cost of a grade

A grade of one lab on one architecture runs in this order (grading/__main__.py):

1. report/rubric.py loads labs/<n>-<name>/rubric.toml (the rungs) and checks.py (their checks).
2. For each number of CPUs, session/session.py boots the kernel (machine/machine.py), waits until it is ready, sends the seed, and
   types the lab's commands. The observer logs what each CPU executes.
3. evidence/truth.py makes calls, batches and returns of the observer's log; text/ parses what `cat trace` printed; evidence/workload.py
   says which calls follow from the seed.
4. report/report.py runs each rung's checks on the evidence of its boots, asks checks/seen.py whether enough was observed, and prints
   the table and the first finding of each lost rung.
"""

ROOMS = ("elf", "machine", "text", "evidence", "checks", "session", "report", "selftest")
