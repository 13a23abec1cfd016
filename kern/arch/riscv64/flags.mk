# What the toolchain of riscv64 is called, and what it needs to be told.
cross := riscv64-linux-gnu-
arch_cflags := -march=rv64ima_zicsr_zifencei -mabi=lp64 -mcmodel=medany -mno-relax \
	-msmall-data-limit=0
frame_pointer := s0
arch_ldflags := --no-relax -m elf64lriscv
# The call of the tracer with HOOK=entry.
traced.entry := -fpatchable-function-entry=1 -falign-functions=4
# Clang has other names for the same.
clang_cflags = $(subst _zicsr_zifencei,,$(filter-out -msmall-data-limit=0,$(arch_cflags)))
