"""Writes the lines of `make grade` that a person is told to type."""

import os
import shlex

# make's variables that choose what is built and where it boots
GIVEN: tuple[str, ...] = ("SMP", "START", "STAFF", "TESTS", "DEBUG", "APP", "SANDBOX", "QEMU_DIR",
                          "QEMU_EXTRA", "MACHINE", "POWER", "UBOOT", "UBOOT_PROMPT")
# and those that choose what is judged
ASKED = ("ARCH", "SEED", "REPLAY", "RUNG", "SCHEDULE", "GDB")


def words(of: dict[str, str]) -> str:
    return "".join(f" {name}={shlex.quote(value)}" for name, value in of.items() if value)


def make_grade(lab: int, first: dict[str, str], last: dict[str, str] | None = None,
               command: str = "grade") -> str:
    """These variables, and between them those of GIVEN that make has now."""
    given = {name: os.environ.get(name, "") for name in GIVEN if name not in first}
    return f"make {command} LAB={lab}{words(first)}{words(given)}{words(last or {})}"


def with_staff(lab: int, staff: str, command: str = "grade") -> str:
    """The line that was typed, with the staff's objects for these labs and halves."""
    asked = {name: os.environ.get(name, "") for name in ASKED}
    return make_grade(lab, asked | {"STAFF": staff}, command=command)
