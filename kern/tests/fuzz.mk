# The fuzzers: libFuzzer, with ASan and UBSan. The Makefile runs this file while it holds the lock
# of build/fuzz/.
#
# A fuzzer names what it is linked with in its first line, as a host test does; its second line may
# say with what it begins, `// seeds: NAME ...`: build/fuzz/seeds-NAME. `riscv64` and `arm64` are
# objects of good-module.c. What a fuzzer found is kept in build/fuzz/, an input that it fails on
# too.
.DEFAULT_GOAL := fuzz

include kern/variant.mk

fuzzers := $(wildcard kern/tests/*_fuzz.c kern/loader/tests/*_fuzz.c kern/ftrace/tests/*_fuzz.c)
fuzz_flags := -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
	-iquote kern $(kern_includes) -iquote kern/tests -DHOST_TEST=1
headers := $(wildcard kern/*/tests/*_fuzz.h kern/*/tests/*_host.h kern/arch/*/reloc.h) \
	$(kern_headers)

# Of each architecture, objects of one module, from both compilers: kern/loader/tests/seeds.mk makes
# them.
$(ARCHS:%=build/fuzz/seeds-%): build/fuzz/seeds-%: kern/loader/tests/good-module.c
	+@$(MAKE) -f kern/loader/tests/seeds.mk ARCH=$*
# Two boards' trees, and one with an edge of each kind.
build/fuzz/seeds-trees: $(wildcard kern/tests/*.dts)
	@rm -rf $@ && mkdir -p $@ && for t in $^; do \
	dtc -q -O dtb -o $@/$$(basename $$t).dtb $$t || exit 1; done
# Lines for probe_events and event filters: a file each.
build/fuzz/seeds-probes build/fuzz/seeds-filters: build/fuzz/seeds-%: kern/ftrace/tests/seeds/%
	@rm -rf $@ && mkdir -p $@ && split -a 3 -l 1 $< $@/

fuzz_needs := $(call first_lines,needs,$(fuzzers))
fuzz_seeds_of := $(call first_lines,seeds,$(fuzzers))
define fuzzer
$(1).needs := $(subst |, ,$(patsubst $(1)=%,%,$(filter $(1)=%,$(fuzz_needs))))
$(1).seeds := $(addprefix build/fuzz/seeds-,$(patsubst $(1)=%,%,$(filter $(1)=%,$(fuzz_seeds_of))))
$(1).bin := build/fuzz/$(basename $(notdir $(1)))
$$($(1).bin): $(1) $$(filter %.c,$$($(1).needs)) $(headers) kern/tests/fuzz.mk
	$$(call say,FUZZER,$$@)clang $(fuzz_flags) $$(filter-out %.c,$$($(1).needs)) -o $$@ $(1) \
	$$(filter %.c,$$($(1).needs))
.PHONY: $$($(1).bin)-run
$$($(1).bin)-run: $$($(1).bin) $$($(1).seeds)
	$$(call say,FUZZ,$$<)mkdir -p $$<-corpus && $$< -max_total_time=$(or $(FUZZ_SECONDS),60) \
	-timeout=10 -rss_limit_mb=1024 -max_len=16384 -print_final_stats=1 -artifact_prefix=$$<- \
	$$<-corpus $$($(1).seeds) >$$<.log 2>&1 || { tail -40 $$<.log; exit 1; }
	@awk '/^stat::number_of_executed_units/ {n = $$$$2} /^stat::linked/ {linked = $$$$2} \
	END {print "$(basename $(notdir $(1))): " n " inputs, " linked " linked"; \
	exit !(linked > 10)}' $$<.log
endef
$(foreach f,$(fuzzers),$(eval $(call fuzzer,$(f))))
.PHONY: fuzz
fuzz: $(foreach f,$(fuzzers),$($(f).bin)-run)
