# The host tests: the kernel's own files under ASan and UBSan, with googletest. The Makefile runs
# this file while it holds the lock of build/host/.
#
# The kernel's files are optimised and have both sanitizers. A test, with googletest's headers,
# would take twice as long to compile with UBSan, and longer with -O1. The headers that all of them
# include are compiled once; the compiler reads the result only with the same options, so none is
# position-independent: some tests need their addresses in 32 bits.
# A test names what it is linked with in its first lines: `// needs: kern/base/fdt.c -lfdt`.
.DEFAULT_GOAL := host-tests

include kern/variant.mk
-include labs/begun.mk
begun ?= $1

host_tests := $(call begun,$(wildcard kern/tests/*_test.cc kern/ftrace/tests/*_test.cc \
	kern/loader/tests/*_test.cc))
host_flags := -fno-pie -fsanitize=address -iquote kern $(kern_includes) -iquote kern/tests \
	-DHOST_TEST=1
host_flags.c := -std=gnu11 -g $(host_flags) -O1 -Werror=implicit-function-declaration \
	-fsanitize=undefined -fno-sanitize-recover=all
host_flags.cc := -std=gnu++17 -g1 $(host_flags) -O0
kernel_headers := $(wildcard kern/tests/*.h kern/arch/*/reloc.h) $(kern_headers)
test_headers := $(wildcard kern/tests/*.h kern/ftrace/tests/*.h kern/loader/tests/*_test.h)

gtest := build/host/gtest.h
$(gtest).gch: kern/tests/host.mk
	$(call say,HOSTCXX,$@)mkdir -p $(@D) && echo '#include <gtest/gtest.h>' >$(gtest) && \
	g++ $(host_flags.cc) -o $@ $(gtest)

host_needs := $(call first_lines,needs,$(host_tests))
define host_test
$(1).words := $(subst |, ,$(patsubst $(1)=%,%,$(filter $(1)=%,$(host_needs))))
$(1).bin := build/host/$(basename $(notdir $(1)))
$(1).inc := $$(filter -I% -iquote% -D%,$$($(1).words))
$(1).dir := $$($(1).bin).d
$(1).src := $$(filter-out $$($(1).staff_src),$$(filter %.c,$$($(1).words)))
$(1).obj := $$($(1).src:%.c=$$($(1).dir)/%.o)
$$($(1).obj): $$($(1).dir)/%.o: %.c $(kernel_headers) kern/tests/host.mk
	$$(call say,HOSTCC,$$@)mkdir -p $$(@D) && $$(or $$(call walled,kern),$$(ccache)) gcc \
	$(host_flags.c) $$($(1).inc) -include kern/tests/host.h -c -o $$@ $$<
$$($(1).dir)/test.o: $(1) $(kernel_headers) $(test_headers) $(gtest).gch kern/tests/host.mk
	$$(call say,HOSTCXX,$$@)mkdir -p $$(@D) && g++ $(host_flags.cc) -include $(gtest) \
	$$($(1).inc) -c -o $$@ $$<
$$($(1).bin): $$($(1).dir)/test.o $$($(1).obj)
	$$(call say,HOSTLD,$$@)g++ $(host_flags.cc) -no-pie -o $$@ $$(filter %.o,$$^) \
	$$($(1).staff_obj) $$(filter -l%,$$($(1).words)) -lgtest -lgtest_main -lubsan
host-tests-built: $$($(1).bin)
.PHONY: $(1).run
$(1).run: host-tests-built
	@prlimit --cpu=120 $$($(1).bin) --gtest_brief=1
host-tests: $(1).run
endef
$(foreach t,$(host_tests),$(eval $(call host_test,$(t))))

# A test that fails does not keep the others from running, and what each of them prints stays
# together. None has more than two minutes of a processor: with a mistake, the code that is tested
# may never end.
MAKEFLAGS += $(if $(filter host-tests,$(MAKECMDGOALS)),--keep-going --output-sync=target)
.PHONY: host-tests host-tests-built
host-tests: host-tests-built
# If the boards' device trees cannot be fetched, their tests are skipped, and the next call tries
# again.
build/boards/.fetched: kern/tests/board_trees.py kern/tests/board_uboots.py qemu/download.py
	@$(PYTHON) $< && touch $@ || true
host-tests-built: build/boards/.fetched
