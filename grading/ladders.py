"""Every lab's ladder, and what its boots are. Labs 1 to 4: checks.py."""

from __future__ import annotations

from grading import checks
from grading import graph_checks as graph
from grading import user_checks as users
from grading.checks import MANY, ONE, Rung
from grading.graph_session import GraphSession
from grading.session import Session

LADDERS: dict[int, list[Rung]] = checks.LADDERS | {
    5: [
        Rung("returned", 5, "a traced function returns through return_to_handler", graph.something_returned),
        Rung("life", 10, "boots, runs the workload, powers off", checks.lives),
        Rung("off", 10, "off: every site is a nop, and no return is patched", graph.at_rest),
        Rung("filter", 5, "only what the filter selects is changed", checks.only_selected),
        Rung("result", 5, "the workload's result is right, traced or not", checks.right_result),
        Rung("arguments", 5, "every argument arrives, traced or not", checks.right_arguments),
        Rung("handler", 5, "each traced call returns through return_to_handler", graph.through_handler),
        Rung("home", 10, "and from there to its caller, tail calls too", graph.comes_home, stopped=True),
        Rung("one CPU", 10, "nesting: expected = executed = printed", graph.three_agree, (ONE,)),
        Rung("four CPUs", 10, "nesting: expected = executed = printed", graph.three_agree, (MANY,)),
        Rung("values", 5, "each return is printed with what was returned", graph.values, needs=("one CPU", "four CPUs")),
        Rung("durations", 10, "as long as what was executed; parts within the whole", graph.durations, needs=("one CPU", "four CPUs")),
        Rung("frames out", 5, "switched off inside of traced calls: all come home", graph.frames_out),
        Rung("synchronised", 5, "a batch returns when every CPU has synchronised", checks.synchronised),
    ],
    6: [
        Rung("returned", 5, "a traced function returns through return_to_handler", graph.something_returned),
        Rung("life", 5, "boots, runs the workload, powers off", checks.lives),
        Rung("off", 5, "off: every site is a nop, and no return is patched", graph.at_rest),
        Rung("result", 5, "the workload's result is right, traced or not", checks.right_result),
        Rung("arguments", 5, "every argument arrives, traced or not", checks.right_arguments),
        Rung("handler", 5, "each traced call returns through return_to_handler", graph.through_handler),
        Rung("home", 5, "and from there to its caller, tail calls too", graph.comes_home, stopped=True),
        Rung("one CPU", 10, "each user's nesting: expected = executed = printed", graph.three_agree, (ONE,)),
        Rung("four CPUs", 10, "each user's nesting: expected = executed = printed", graph.three_agree, (MANY,)),
        Rung("values", 5, "each return is printed with what was returned", graph.values, needs=("one CPU", "four CPUs")),
        Rung("durations", 5, "as long as what was executed; parts within the whole", graph.durations, needs=("one CPU", "four CPUs")),
        Rung("sixteen", 10, "sixteen users, each told of its own; no seventeenth", users.sixteen),
        Rung("reverse", 5, "told first of the entry, told last of the return", users.reverse),
        Rung("data", 5, "what is kept at the entry is found at the return", users.kept),
        Rung("leaving", 5, "a user that left is told nothing; the other goes on", users.leaver_left),
        Rung("slot", 5, "who comes to a slot hears of no older call", users.slot_again),
        Rung("frames out", 5, "switched off inside of traced calls: all come home", graph.frames_out),
    ],
}


def session_of(lab: int) -> type[Session]:
    """How a boot of this lab is driven."""
    return GraphSession if lab >= 5 else Session
