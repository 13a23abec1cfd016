# What each stage links. A stage is put together here, from objects, and by
# nothing else: a file that a stage does not have yet is not in its kernel.
#
#	lab 1   the compiler's calls to _mcount stay; _mcount asks a pointer
#	lab 2   and the build made a table of those calls
#	lab 3   the calls become nops; one tracer at a time takes them back
#	lab 4   nops at the entry, registers, a filter for each of many ops
#	lab 5   function_graph: a patched return for one user
#	lab 6   for sixteen
STAGES := 1 2 3 4 5 6

ftrace_lab.1 := mcount.S static.c norecords.c
ftrace_lab.2 := mcount.S static.c records.c functions.c
ftrace_lab.3 := mcount.S mcount_caller.S islands.S records.c functions.c patch.c dynamic.c single.c filter.c glob.c
ftrace_lab.4 := caller.S islands.S records.c functions.c patch.c dynamic.c ops.c hash.c filter.c glob.c op.c instances.c trace_stack.c
ftrace_graph := graph.S shadow.c shadow_frame.c shadow_var.c trace_graph.c trace_graph_output.c trace_args.c
ftrace_lab.5 := $(ftrace_lab.4) $(ftrace_graph) graph_caller.S graph.c trace_graph_nodirect.c
ftrace_lab.6 := $(ftrace_lab.4) $(ftrace_graph) fgraph.c trace_graph_direct.c graph_op.c profile.c

# The rooms (README.md): a file's name says it in all of them.
ftrace_rooms := $(addprefix kern/ftrace/,ring tracefs core ops graph trace stages files commands)
ftrace_includes := $(addprefix -iquote ,$(ftrace_rooms))
ftrace_headers := $(wildcard $(addsuffix /*.h,$(ftrace_rooms) kern/ftrace/riscv64 kern/ftrace/arm64))
ftrace_c := $(wildcard $(addsuffix /*.c,$(ftrace_rooms)))

ftrace_staged := $(sort $(foreach lab,$(STAGES),$(ftrace_lab.$(lab))))
ftrace_per_arch := mcount.S mcount_caller.S caller.S graph_caller.S graph.S islands.S
# What no stage names is in all of them: the buffers, the tracers, their files.
ftrace_common := $(filter-out $(addprefix %/,$(ftrace_staged)),$(ftrace_c))
# $(call ftrace_files,arch,lab)
ftrace_files = $(ftrace_common) $(filter $(addprefix %/,$(filter-out $(ftrace_per_arch),$(ftrace_lab.$2))),$(ftrace_c)) \
	$(addprefix kern/ftrace/$1/,$(filter $(ftrace_per_arch),$(ftrace_lab.$2)))
ftrace_src.riscv64 = $(call ftrace_files,riscv64,$(stage))
ftrace_src.arm64 = $(call ftrace_files,arm64,$(stage))

# Tests inside the kernel (TESTS=1): those of every stage, then of this one.
ftrace_tests = $(filter-out $(ftrace_staged_tests),$(wildcard kern/ftrace/tests/*_kt.c)) \
	$(filter $(ftrace_staged_tests),$(addprefix kern/ftrace/tests/,$(ftrace_tests.$(stage))))
ftrace_tests.3 := patch_kt.c hostile_kt.c
ftrace_tests.4 := patch_kt.c hostile_kt.c ops_kt.c bench_kt.c bench_nograph_kt.c
ftrace_tests.5 := $(ftrace_tests.4) graph_kt.c
ftrace_tests.6 := patch_kt.c hostile_kt.c ops_kt.c bench_kt.c bench_graph_kt.c fgraph_kt.c unwind_graph_kt.c hostile_graph_kt.c
ftrace_staged_tests := $(addprefix kern/ftrace/tests/,$(sort $(foreach lab,$(STAGES),$(ftrace_tests.$(lab)))))

# No jump tables: the proof (proof.py) wants each indirect jump named. riscv64:
# scheduling before register allocation spills on the event path (measured).
ftrace_cflags.riscv64 := -fno-jump-tables -fno-schedule-insns
ftrace_cflags.arm64 := -fno-jump-tables

# function_trace_call() is a leaf without a frame of its own: 5 instructions less an event.
# The graph's handlers are called through a pointer and cost as much each. The frame
# pointer stays the caller's in all of them, so that stack walks go on through it.
ftrace_leaves := %/kern/ftrace/trace/trace_function.o %/kern/ftrace/trace/trace_graph_direct.o %/kern/ftrace/graph/fgraph.o %/kern/ftrace/graph/shadow_frame.o %/kern/ftrace/trace/trace_graph.o
$(ftrace_leaves): ftrace_cflags.riscv64 += -fomit-frame-pointer -ffixed-s0
$(ftrace_leaves): ftrace_cflags.arm64 += -fomit-frame-pointer -ffixed-x29
# Nor have the patchers one: as much a site.
%/patch.o: ftrace_cflags.riscv64 += -fomit-frame-pointer
%/patch.o: ftrace_cflags.arm64 += -fomit-frame-pointer
