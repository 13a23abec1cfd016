"""All names of the kernel on which the grader relies, by the stage that has them.

`make` looks for them whenever it links a kernel, so that a renamed function is an error of the
build and not of a grade, with the Python files that need it. The reader of a kernel's ELF file
(elf.py) finds no other name. A handed-in file may define those of them that its lab's rubric.toml
lists; all others come from trusted objects (grading/elf/handed_in.py).
"""

import re
import sys

from kern.ftrace.tools.kernel_elf import Elf
from qemu.machine import ROOT


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WORKLOAD = _names("""calls_made calls_wanted workload_interrupt workload_thread wl_begin wl_end
    wl_first wl_rest wl_wide_oak wl_fan_amber wl_fan_coral wl_fan_ivory wl_fan_pearl wl_fan_topaz
    wl_leaf_ash wl_leaf_birch wl_leaf_cedar wl_leaf_elm wl_leaf_fir wl_leaf_holly wl_pair_pepper
    wl_pair_salt wl_pick_east wl_pick_north wl_pick_south wl_pick_west wl_ring_moon wl_ring_star
    wl_ring_sun wl_self_drum wl_self_flute wl_step_brook wl_step_creek wl_step_delta wl_step_river
    wl_tail_hawk wl_tail_kite wl_tail_lark wl_tail_swan""")
EVERY = (*WORKLOAD, *_names("""_text _etext _end __irqentry_text_start __ftrace_text_start
    __ftrace_text_end exception_vector trap_exception thread_start_asm ftrace_stub
    function_trace_call function_trace_slow ftrace_lock ftrace_disabled cpus
    register_ftrace_function unregister_ftrace_function app_main_workload panic watchdog_due
    mutex_lock mutex_unlock schedule sleep_ns do_idle memcpy memcmp memset"""))
MCOUNT = _names("""_mcount function_trace_op ftrace_trace_function registers_call registers_out
    registers_tracer registers_back""")
LOOKUP = _names("lookup_rec lookup_rec_range app_main_lookup lookup_later")
RECORDS = _names("ftrace_records ftrace_record_count")
PATCHING = _names("""ftrace_batch_begin ftrace_batch_end text_alias_open text_alias_close
    arch_sync_all ftrace_stubs ftrace_caller ftrace_call ftrace_set_filter ftrace_filter_commit""")
WRITERS = _names("""registers_patched registers_encoded registers_word insn_call ftrace_make_nop
    ftrace_make_call ftrace_modify_call ftrace_init_nop ftrace_update_ftrace_func""")
OPS = _names("synchronize_sched hand_ops global_ops kfree op_see op_add op_patch")
ENTRY = _names("""entry_tracer entry_counter entry_skipper entry_traced entry_back entry_elsewhere
    entry_through entry_own_filter entry_start entry_clash entry_fill entry_disabled entry_hash
    entry_counted ftrace_hash_add ftrace_hash_search""")
GRAPH = _names("""return_to_handler register_ftrace_graph unregister_ftrace_graph trace_graph_entry
    trace_graph_return frames_traced frames_lost frames_call frames_stack shadow_users_begin
    shadow_users_end shadow_push_into shadow_pop ftrace_graph_dead ftrace_graph_stop
    ftrace_graph_gone rare_entry rare_return rare_gone rare_stack rare_walk rare_refused
    rare_inner rare_outer rare_a rare_b rare_c rare_d rare_e rare_f rare_jump rare_home_f
    rare_home_c rare_home_a rare_lost""")
ONE_USER = _names("ftrace_graph_call ftrace_graph_caller ftrace_graph_stub rare_away")
USERS = _names("""hand_users hand_entry hand_return ftrace_graph_func fgraph_retrieve_data
    fgraph_retrieve_parent_data rare_data rare_room rare_answer rare_left rare_shared uptime_main
    ftrace_graph_ret_addr""")
MODULES = _names("""ftrace_module_enable ftrace_module_release ftrace_add_table
    profile_forget_modules ftrace_make_call ftrace_make_nop ftrace_modify_call stop_machine""")
TRAMPOLINES = _names("""trampoline_encode trampoline_target trampolines_made trampolines_followed
    trampolines_seen""")
PROBES = _names("""kprobe_slots kprobe_slot_owner probe_before probe_after probe_said
    probe_steps_first probe_steps_end probe_inner_first probe_trapped_first probe_value
    probe_deep probe_tail probe_outer probe_left probe_exits probe_one probe_two probe_three
    probe_new_one probe_new_two probe_new_three probe_newest_one probe_new_traced
    probe_new_second probe_long probe_new_long calls_traced calls_second register_kprobe
    unregister_kprobe kprobe_wait_and_free klp_enable_patch klp_disable_patch probe_site_add
    kprobe_update_point""")
STAGES: dict[int, tuple[str, ...]] = {
    1: (*EVERY, *MCOUNT),
    2: (*EVERY, *MCOUNT, *RECORDS, *LOOKUP),
    3: (*EVERY, *MCOUNT, *RECORDS, *PATCHING, *WRITERS),
    4: (*EVERY, *RECORDS, *PATCHING, *OPS, *ENTRY),
    5: (*EVERY, *RECORDS, *PATCHING, *OPS, *GRAPH, *ONE_USER),
    6: (*EVERY, *RECORDS, *PATCHING, *OPS, *GRAPH, *USERS),
    7: (*EVERY, *RECORDS, *PATCHING, *OPS, *GRAPH, *USERS, *MODULES, *TRAMPOLINES),
    8: (*EVERY, *RECORDS, *PATCHING, *OPS, *GRAPH, *USERS, *MODULES, *PROBES),
}
# Variables that a lab's files define, and to which they must store in a certain order
# (grading/checks/order.py).
STORED = {
    4: ("ops_list", "ftrace_slots"),
    5: ("graph_user",),
    6: ("fgraph_array", "fgraph_slots", "fgraph_stamp", "fgraph_stub", "fgraph_single"),
    8: ("kprobe_buckets",),
}
# Names that no handed-in file may use for anything of its own, in any stage.
WATCHED = frozenset(name for names in STAGES.values() for name in names)
LISTED = WATCHED | {name for names in STORED.values() for name in names}
STUB = re.compile(r"ftrace_(island_\d+_)?stub_\d+")  # the stubs, and their entries in islands


def listed(name: str) -> str:
    """The name. Raises LookupError if `make` does not look for it."""
    if name not in LISTED:
        raise LookupError(f"{name} is not in grading/elf/names.py, so make does not look for it "
                          "when it links a kernel")
    return name


def needed_by(name: str) -> list[str]:
    """The Python files with this name."""
    folders = "grading/*/*.py", "labs/*/checks.py", "kern/ftrace/tools/*.py"
    return [str(file.relative_to(ROOT))
            for file in sorted(file for folder in folders for file in ROOT.glob(folder))
            if file.parent.name != "tests" and file.name != "names.py"
            and f'"{name}"' in file.read_text()]


def main() -> int:
    _, stage, elf = sys.argv[1:]
    places: dict[str, set[int]] = {name: set()
                                   for name in (*STAGES[int(stage)], *STORED.get(int(stage), ()))}
    for symbol in Elf(elf).table:
        if symbol.name in places and symbol.section != "SHN_UNDEF":
            places[symbol.name].add(symbol.value)
    lost = [name for name, at in places.items() if not at or len(at) > 1]
    for name in lost:
        has = (f"{len(places[name])} of this name" if places[name] else
               "none: was it renamed, or made part of another function?")
        print(f"{elf}: the grade of lab {stage} looks for {name} ({', '.join(needed_by(name))}), "
              f"and this kernel has {has} (grading/elf/names.py)", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
