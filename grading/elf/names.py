"""All names of the kernel on which the grader relies, by the stage that has them.

`make` looks for them whenever it links a kernel, so that a renamed function is an error of the build and not of a grade.
A handed-in file may define those of them that its lab's rubric.toml lists; all others come from trusted objects
(grading/elf/handed_in.py).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from grading.elf.elf import Kernel

EVERY = ("_text", "_etext", "__irqentry_text_start", "__ftrace_text_start", "__ftrace_text_end", "exception_vector", "thread_start_asm",
         "ftrace_stub", "function_trace_call", "function_trace_slow", "wl_begin", "app_main_workload", "panic")
MCOUNT = ("_mcount", "function_trace_op", "ftrace_trace_function", "registers_out", "registers_tracer", "registers_back")
RECORDS = ("ftrace_records", "ftrace_record_count")
PATCHING = ("ftrace_batch_begin", "ftrace_batch_end", "text_alias_open", "text_alias_close", "arch_sync_all", "ftrace_stubs",
            "ftrace_caller", "ftrace_call")
OPS = ("ftrace_lock", "synchronize_sched", "hand_ops", "global_ops", "kfree", "op_see", "op_add", "op_patch")
ENTRY = ("entry_tracer", "entry_counter", "entry_skipper", "entry_traced", "entry_back", "entry_elsewhere", "entry_through", "entry_own_filter", "entry_clash", "entry_fill", "entry_disabled")
GRAPH = ("return_to_handler", "unregister_ftrace_graph", "trace_graph_entry", "trace_graph_return",
         "frames_traced", "frames_lost", "frames_call", "frames_stack", "shadow_users_begin", "shadow_users_end", "shadow_push_into", "shadow_pop",
         "ftrace_graph_dead", "ftrace_graph_stop", "rare_entry", "rare_return", "rare_gone", "rare_stack", "rare_walk", "rare_refused", "rare_inner", "rare_outer", "rare_a", "rare_f", "rare_home_f",
         "rare_home_c", "rare_home_a", "rare_lost")
USERS = ("hand_users", "hand_entry", "hand_return", "fgraph_retrieve_data", "fgraph_retrieve_parent_data", "rare_data", "rare_room", "rare_shared")
MODULES = ("ftrace_module_enable", "ftrace_module_release", "ftrace_add_table", "profile_forget_modules", "ftrace_make_call", "ftrace_make_nop",
           "ftrace_modify_call", "_end")
TRAMPOLINES = ("trampoline_encode", "trampoline_target", "trampolines_made", "trampolines_followed", "trampolines_seen")
PROBES = ("kprobe_slots", "kprobe_slot_owner", "probe_before", "probe_after", "probe_said", "probe_steps_first", "probe_steps_end", "probe_inner_first",
          "probe_value", "probe_deep", "probe_tail", "probe_outer", "probe_exits", "probe_one", "probe_two", "probe_new_one", "probe_new_two", "probe_newest_one", "probe_new_traced", "calls_traced",
          "register_kprobe", "unregister_kprobe", "kprobe_update_point", "kprobe_wait_and_free", "klp_enable_patch", "klp_disable_patch")
STAGES = {
    1: (*EVERY, *MCOUNT),
    2: (*EVERY, *MCOUNT, *RECORDS, "lookup_rec", "lookup_rec_range", "app_main_lookup"),
    3: (*EVERY, *MCOUNT, *RECORDS, *PATCHING, "registers_refused", "registers_encoded", "registers_word", "insn_call", "ftrace_make_nop",
        "ftrace_make_call", "ftrace_modify_call", "ftrace_init_nop", "ftrace_update_ftrace_func", "memcpy", "memcmp"),
    4: (*EVERY, *RECORDS, *PATCHING, *OPS, *ENTRY),
    5: (*EVERY, *RECORDS, *PATCHING, *OPS, *GRAPH, "ftrace_graph_call"),
    6: (*EVERY, *RECORDS, *PATCHING, *OPS, *GRAPH, *USERS),
    7: (*EVERY, *RECORDS, *PATCHING, *OPS, *GRAPH, *USERS, *MODULES, *TRAMPOLINES),
    8: (*EVERY, *RECORDS, *PATCHING, *OPS, *GRAPH, *USERS, *MODULES, *PROBES),
}
# Variables that a lab's files define, and to which they must store in a certain order (grading/checks/order.py).
STORED = {
    4: ("ops_list", "ftrace_slots"),
    5: ("graph_user",),
    6: ("fgraph_array", "fgraph_slots", "fgraph_stamp", "fgraph_stub", "fgraph_single"),
}


# Names that no handed-in file may use for anything of its own, in any stage.
WATCHED = frozenset(name for names in STAGES.values() for name in names)
STUB = re.compile(r"ftrace_(island_\d+_)?stub_\d+")  # the stubs, and their entries in islands


def main() -> int:
    arch, stage, elf = sys.argv[1:]
    kernel = Kernel(Path(elf), arch)
    lost = [name for name in (*STAGES[int(stage)], *STORED.get(int(stage), ())) if not kernel.symbol(name)]
    if lost:
        print(f"{elf}: the grade of lab {stage} looks for {', '.join(lost)}, and this kernel has none: was it renamed, or made "
              "part of another function? (grading/elf/names.py)", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
