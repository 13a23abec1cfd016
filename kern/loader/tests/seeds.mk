# Objects of a good module, for the fuzzers of the module loader: one architecture's, from both
# compilers.
include kern/variant.mk
include kern/arch/$(ARCH)/flags.mk
folder := build/fuzz/seeds-$(ARCH)
source := kern/loader/tests/good-module.c
common := -ffreestanding -fno-pic -fno-common
gcc := $(cross)gcc $(arch_cflags) $(traced.entry) $(common)
clang := clang --target=$(cross:-=) $(clang_cflags) $(common)

.PHONY: seeds
seeds:
	@rm -rf $(folder) && mkdir -p $(folder) && n=0 && \
	for o in "-O2" "-O2 -DWEAK" "-Os -ffunction-sections -g1"; do n=$$((n + 1)); \
	$(gcc) $$o -c -o $(folder)/gcc$$n.o $(source) && \
	$(clang) $$o -c -o $(folder)/clang$$n.o $(source) || exit 1; done
