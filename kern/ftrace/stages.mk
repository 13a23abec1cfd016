# The files that each stage links. A file that a stage does not have yet is not
# in its kernel. Nothing else decides that.
#
#	lab 1   the compiler's calls to _mcount stay; _mcount calls through a pointer
#	lab 2   the same, and the build makes a table of those calls
#	lab 3   the calls become nops; one tracer at a time makes some of them calls again
#	lab 4   nops at the function's entry, registers, many ops with a filter each
#	lab 5   function_graph: a patched return for one user
#	lab 6   a patched return for sixteen users
#	7       modules, whose call sites may need trampolines
#	8       probes, their events, live patches; the finished kernel
STAGES := 1 2 3 4 5 6 7 8

ftrace_lab.1 := mcount.S static.c
ftrace_lab.2 := mcount.S static.c records.c table.c functions.c
ftrace_dynamic := islands.S records.c table.c set.c functions.c patch.c dynamic.c \
	filter.c filter_files.c
ftrace_lab.3 := mcount.S mcount_caller.S $(ftrace_dynamic) single.c
ftrace_lab.4 := caller.S $(ftrace_dynamic) ops.c hash.c instances.c trace_stack.c
ftrace_graph := graph.S shadow.c shadow_frame.c shadow_room.c shadow_var.c \
	trace_graph.c trace_graph_output.c trace_args.c ring_region.c last_boot.c
ftrace_lab.5 := $(ftrace_lab.4) $(ftrace_graph) graph_caller.S fgraph_one.c fgraph_one_walk.c
ftrace_lab.6 := $(ftrace_lab.4) $(ftrace_graph) fgraph.c trace_graph_direct.c profile.c
ftrace_lab.7 := $(ftrace_lab.6) \
	trampoline.c ftrace_module.c module_records.c mod_filter.c ftrace_exports.c
ftrace_lab.8 := $(ftrace_lab.7) probe_exports.c \
	kprobes.c kprobe_hit.c kprobe_text.c sites.c fprobe.c kretprobe.c livepatch.c \
	$(notdir $(wildcard kern/ftrace/events/*.c))

# The rooms (README.md): a file's name says it in all of them.
ftrace_rooms := $(addprefix kern/ftrace/, \
	ring tracefs core ops filters graph probes trace files modules events)
ftrace_c := $(wildcard $(addsuffix /*.c,$(ftrace_rooms)))

# $(call staged,list): the files that some stage names in its list.
staged = $(sort $(foreach n,$(STAGES),$($1.$n)))
ftrace_per_arch := mcount.S mcount_caller.S caller.S graph_caller.S graph.S islands.S trampoline.c
# A file that no stage names is in all stages: the buffers, the tracers, their files.
ftrace_common := $(filter-out $(addprefix %/,$(call staged,ftrace_lab)),$(ftrace_c))
# $(call ftrace_files,arch,lab)
ftrace_files = $(ftrace_common) \
	$(filter $(addprefix %/,$(filter-out $(ftrace_per_arch),$(ftrace_lab.$2))),$(ftrace_c)) \
	$(addprefix kern/ftrace/$1/,$(filter $(ftrace_per_arch),$(ftrace_lab.$2)))

# Tests inside the kernel (TESTS=1): those of every stage, then of this one.
ftrace_tests = $(filter-out $(ftrace_staged_tests),$(wildcard kern/ftrace/tests/*_kt.c)) \
	$(filter $(ftrace_staged_tests),$(addprefix kern/ftrace/tests/,$(ftrace_tests.$(stage))))
ftrace_tests.3 := patch_kt.c hostile_kt.c
ftrace_tests.4 := $(ftrace_tests.3) ops_kt.c bench_kt.c bench_nograph_kt.c
ftrace_tests.5 := $(ftrace_tests.4) graph_kt.c jump_kt.c
ftrace_tests.6 := $(filter-out bench_nograph_kt.c,$(ftrace_tests.4)) bench_graph_kt.c \
	fgraph_kt.c jump_kt.c unwind_graph_kt.c hostile_graph_kt.c
ftrace_tests.7 := $(ftrace_tests.6) module_steps_kt.c
ftrace_tests.8 := $(ftrace_tests.7) bench_probes_kt.c bench_kprobes_kt.c \
	kprobe_kt.c fprobe_kt.c livepatch_kt.c probe_events_kt.c static_events_kt.c snapshot_kt.c
ftrace_staged_tests := $(addprefix kern/ftrace/tests/,$(call staged,ftrace_tests))

# No jump tables: the proof (proof.py) needs the name of each target of an indirect
# jump. riscv64: scheduling before register allocation spills on the event path (measured).
ftrace_cflags.riscv64 := -fno-schedule-insns
ftrace_cflags = -fno-jump-tables $(ftrace_cflags.$(ARCH))

# function_trace_call() is a leaf without a frame of its own: 5 instructions less an event.
# Each of the graph's handlers, which are called through a pointer, saves as much.
# The frame pointer stays the caller's in all of them, so that stack walks work.
ftrace_leaves := $(addprefix %/kern/ftrace/, \
	graph/fgraph.o graph/shadow_frame.o ring/ring_buffer.o \
	probes/fprobe.o probes/kprobe_hit.o probes/kprobes.o probes/kretprobe.o \
	events/probe_fetch.o events/event_write.o events/static_event.o \
	trace/trace.o trace/trace_function.o trace/trace_graph.o trace/trace_graph_direct.o)
$(ftrace_leaves): ftrace_cflags += -fomit-frame-pointer -ffixed-$(frame_pointer)
# The patchers have no frame either: 5 instructions less for each site.
%/patch.o: ftrace_cflags += -fomit-frame-pointer
