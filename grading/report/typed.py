"""Writes the lines of `make grade` that a person is told to type."""

import os
import shlex

# make's variables that choose what is built and where it boots
GIVEN = ("SMP", "START", "STAFF", "DEBUG", "APP", "SANDBOX", "MACHINE", "POWER", "UBOOT",
         "UBOOT_PROMPT")
# and those that choose what is judged
ASKED = ("ARCH", "SEED", "REPLAY", "RUNG", "SCHEDULE", "GDB")


def words(of: dict[str, str]) -> str:
    return "".join(f" {name}={shlex.quote(value)}" for name, value in of.items() if value)


def make_grade(lab: int, first: dict[str, str], last: dict[str, str] | None = None) -> str:
    """These variables, and between them those of GIVEN that make has now."""
    given = {name: os.environ.get(name, "") for name in GIVEN if name not in first}
    return f"make grade LAB={lab}{words(first)}{words(given)}{words(last or {})}"


def with_staff(lab: int, staff: str) -> str:
    """The line that was typed, with the staff's objects for these labs and halves."""
    return make_grade(lab, {name: os.environ.get(name, "") for name in ASKED} | {"STAFF": staff})
