"""Lab 5: what each rung is held against. The checks of patched returns, shared with lab 6, are grading/graph_checks.py."""

from __future__ import annotations

from grading.checks import all_of, lives, only_selected, right_arguments, right_result, synchronised
from grading.graph_checks import at_rest, comes_home, durations, frames_out, something_returned, three_agree, through_handler, values
from grading.graph_session import GraphSession

SESSION = GraphSession

ADVICE = {"result-clobbered", "return-to-wrong-place", "frame-not-popped", "patched-without-a-frame",
          "shadow-frame-read-after-release", "stores-out-of-order", "sp-does-not-fit", "call-left-behind",
          "wrong-parent-slot", "link-register-lost", "recursion-not-put-back", "depth-counted-twice",
          "duration-not-measured"}

CHECKS = {
    "returned": something_returned,
    "life": lives,
    "off": at_rest,
    "filter": only_selected,
    "arguments": all_of(right_arguments, right_result),
    "handler": through_handler,
    "home": comes_home,
    "one CPU": three_agree,
    "four CPUs": three_agree,
    "values": all_of(values, durations),
    "frames out": frames_out,
    "synchronised": synchronised,
}
