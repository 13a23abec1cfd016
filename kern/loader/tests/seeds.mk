# Objects of a good module, for the fuzzers of the module loader: one architecture's, from both compilers.
include kern/variant.mk
include kern/arch/$(ARCH)/flags.mk
folder := build/fuzz/seeds-$(ARCH)
common := $(traced.entry) -ffreestanding -fno-pic -fno-common
triple := $(patsubst %-,%,$(cross))

.PHONY: seeds
seeds:
	@rm -rf $(folder) && mkdir -p $(folder) && n=0 && \
	for o in "-O2" "-O2 -DWEAK" "-Os -ffunction-sections -g1"; do n=$$((n + 1)); \
	$(cross)gcc $(arch_cflags) $(common) $$o -c -o $(folder)/gcc$$n.o kern/loader/tests/good-module.c && \
	clang --target=$(triple) $(clang_cflags) -ffreestanding -fno-pic -fno-common $$o \
	-c -o $(folder)/clang$$n.o kern/loader/tests/good-module.c || exit 1; done
