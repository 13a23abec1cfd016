# What each lab's tracer is put together from: the stage is what is linked.
LABS := 1 2 3 4
ftrace_src.riscv64 :=
ftrace_src.arm64 :=
ftrace_tests :=
