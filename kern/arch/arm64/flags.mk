# What the toolchain of arm64 is called, and what it needs to be told.
cross := aarch64-linux-gnu-
# x18: where a nested function finds its static chain.
# Cortex-A53 erratum 835769: nothing that accumulates a product just after a load or store.
arch_cflags := -mgeneral-regs-only -ffixed-x18 -mno-outline-atomics -mbranch-protection=none \
	-mfix-cortex-a53-835769
frame_pointer := x29
# Cortex-A53 erratum 843419: no adrp that it may mistake (docs/hardware.md).
arch_ldflags := -m aarch64linux --no-relax --fix-cortex-a53-843419=adr
# The call of the tracer with HOOK=entry.
traced.entry := -fpatchable-function-entry=2
# Clang has other names for the same.
clang_cflags = $(filter-out -mno-outline-atomics,$(arch_cflags))
