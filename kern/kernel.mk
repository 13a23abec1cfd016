# How one kernel is built: the rules of build/<arch>/<variant>/. The Makefile runs this file, once
# for each architecture, while it holds the lock of build/<arch>/:
#
#	make -f kern/kernel.mk ARCH=riscv64 LAB=3
#
# The order: objects -> first.elf, a link without the tables -> tables.S -> callsite.elf -> Image.
.DEFAULT_GOAL := all

include kern/variant.mk
include kern/arch/$(ARCH)/flags.mk
out := build/$(ARCH)/$(variant)
shared := build/$(ARCH)/include
gcc := $(cross)gcc
cc := $(ccache) $(gcc)

cflags = $(CFLAGS) -DSTAGE=$(stage) -DHOOK_$(hook)=1 $(if $(has_modules),-DCONFIG_MODULES=1) \
	$(if $(has_probes),-DCONFIG_KPROBES=1) $(if $(START),-DLAB_START=$(START)) \
	$(if $(TESTS),-DCONFIG_TESTS=1) $(if $(DEBUG),-DCONFIG_DEBUG=1) $(arch_cflags)
includes = -Ikern $(kern_includes) -I$(shared) -I$(out) -I$(out)/include
depends := -MMD -MP
traced.mcount := -pg
traced := $(traced.$(hook))

# ---- what is linked ---------------------------------------------------------
# These programs call functions of the kernel; all but `ps` are for a grade. The others see only
# kern/app.h.
apps_inside := $(addprefix $(out)/kern/apps/, \
	entry.o frames.o fgraph_op.o lookup.o op.o probe.o ps.o rare.o registers.o trampolines.o)
src := $(wildcard boot/$(ARCH)/*.S kern/*.c $(kern_rooms:%=%/*.c) kern/shell/*.c \
	kern/arch/$(ARCH)/*.c kern/arch/$(ARCH)/*.S) \
	$(call ftrace_files,$(ARCH),$(stage)) $(wildcard kern/apps/*.c kern/apps/lib/*.c) \
	$(if $(has_modules),$(wildcard kern/loader/*.c $(if $(TESTS),kern/loader/tests/*_kt.c))) \
	$(if $(TESTS),$(wildcard kern/tests/*_kt.c) $(ftrace_tests))
src := $(filter-out %/asm-offsets.c $(if $(has_modules),,%/reloc.c %/trap/stop.c) \
	$(if $(filter-out $(LAST_LAB),$(stage)),%/module_kt.c),$(src))
own_app := $(if $(APP),$(out)/app/$(app_name).o)
sites := $(if $(BENCH_SITES),$(out)/sites.o)
obj := $(patsubst %,$(out)/%.o,$(basename $(src))) $(own_app) $(sites)
generated := $(out)/include/asm-offsets.h $(shared)/.links

include kern/loader/module.mk

.PHONY: all FORCE
all: $(addprefix $(out)/,callsite.elf callsite.map Image) $(call initrd_of,$(ARCH))
	@ln -sf $(addprefix $(variant)/,callsite.elf callsite.map Image) build/$(ARCH)
FORCE:

# ---- objects ----------------------------------------------------------------
# If a variable changes, all objects that it affects are compiled again: they depend on this file.
# -Werror changes no object.
made_of := $(filter-out -Werror,$(cflags) $(includes)) $(traced) $(APP) $(BENCH_SITES)
$(out)/flags: FORCE
	@mkdir -p $(@D)/include $(sort $(dir $(obj))); echo '$(made_of)' | cmp -s - $@ || \
	echo '$(made_of)' > $@

# The headers that both architectures have, in <asm/..> and <asm-ftrace/..>.
$(shared)/.links:
	@mkdir -p $(@D) && ln -sfn ../../../kern/arch/$(ARCH) $(@D)/asm && \
	ln -sfn ../../../kern/ftrace/$(ARCH) $(@D)/asm-ftrace && touch $@

$(out)/include/asm-offsets.h: kern/asm-offsets.c kern/arch/$(ARCH)/asm-offsets.c $(kern_headers) \
		$(wildcard kern/arch/$(ARCH)/*.h) $(out)/flags $(shared)/.links
	$(call say,OFFSETS,$@)set -e; for f in $(filter %.c,$^); do \
	$(cc) $(cflags) $(includes) -S -o - $$f; done > $@.S; \
	sed -n 's/^->\([A-Za-z0-9_]*\) [$$#]*\(-*[0-9]*\).*/#define \1 \2/p' $@.S > $@; rm $@.S

# Handed-in files are compiled in a sandbox, and without the cache: $(walled), of labs/handed_in.mk.
walls = $(or $(call walled,kern $(shared) $(out)/include),$(ccache))

$(out)/kern/ftrace/tests/%.o: kern/ftrace/tests/%.c $(out)/flags $(generated)
	$(call say,CC,$@)$(cc) $(cflags) $(includes) $(traced) $(depends) -c -o $@ $<
# The tracer itself has no call sites: it must not trace itself.
$(out)/kern/ftrace/%.o: kern/ftrace/%.c $(out)/flags $(generated)
	$(call say,CC,$@)$(walls) $(gcc) $(cflags) $(includes) $(ftrace_cflags) \
	$(depends) -c -o $@ $<
# A program sees only kern/app.h; so does the programs' library.
$(out)/kern/apps/lib/%.o: kern/apps/lib/%.c kern/app.h $(out)/flags
	$(call say,CC,$@)$(cc) $(cflags) -iquote kern $(traced) $(depends) -c -o $@ $<
$(apps_inside): sees := $(kern_includes) -iquote $(shared) -iquote $(out)/include
$(apps_inside): $(generated)
$(out)/kern/apps/%.o: kern/apps/%.c kern/app.h $(out)/flags
	$(call say,CC,$@)$(cc) $(cflags) -iquote kern $(sees) $(traced) \
	-Dmain=app_main_$* '-DAPP_NAME="$*"' $(depends) -c -o $@ $<
$(out)/%.o: %.c $(out)/flags $(generated)
	$(call say,CC,$@)$(cc) $(cflags) $(includes) $(traced) $(depends) -c -o $@ $<
$(out)/%.o: %.S $(out)/flags $(generated)
	$(call say,AS,$@)$(walls) $(gcc) $(cflags) $(includes) $(depends) -c -o $@ $<

# Somebody's own program (APP=): its main() gets a name of its own, and it has integers only.
app_symbol := app_main_$(shell echo '$(app_name)' | tr -c 'A-Za-z0-9_\n' _)
$(own_app): $(APP) kern/app.h kern/apps/lib/own.h $(out)/flags
	$(call say,CC,$@)$(cc) $(cflags) -iquote kern -include kern/apps/lib/own.h $(traced) \
	-Wno-missing-prototypes -Werror=unsuffixed-float-constants -ffunction-sections \
	-Dmain=$(app_symbol) '-DAPP_NAME="$(app_name)"' $(depends) -c -o $@ $<
	@if $(cross)nm -u $@ | grep -qE ' __[a-z]+[sdt]f[a-z0-9]*$$'; then rm $@; \
	echo "$<: a Callsite program uses integers only: no float, no double"; exit 1; fi

# make bench: a kernel with so many functions more.
$(out)/sites.S: kern/ftrace/tests/mksites.py $(out)/flags
	$(call say,SITES,$@)$(PYTHON) $< $(ARCH) $(BENCH_SITES) > $@

# What the build made itself.
$(sites) $(out)/tables0.o $(out)/tables.o: %.o: %.S
	@$(cc) $(cflags) -c -o $@ $<

# ---- links ------------------------------------------------------------------
mkrecords := kern/ftrace/tools/mkrecords.py
mksyms := kern/ftrace/tools/mksyms.py
proof := $(wildcard kern/ftrace/tools/proof.py kern/ftrace/tools/indirect-calls)
names := $(if $(START)$(APP),,$(wildcard grading/elf/names.py))
# Lab 1 has no records, and other students' trees may lack the tool.
records := $(if $(filter-out 1,$(stage)),$(if $(wildcard kern/ftrace/tools/recordmcount.c \
	$(staff_recordmcount)),$(out)/recordmcount))

# A student's program. It runs in a sandbox, so it is static and needs no library there.
ifeq ($(staff_recordmcount),)
$(out)/recordmcount: kern/ftrace/tools/recordmcount.c kern/ftrace/tests/checked_qsort.c $(out)/flags
	$(call say,HOSTCC,$@)$(call walled,$(filter %.c,$^)) gcc -std=gnu11 -O2 -static \
	-Wl,--wrap=qsort -Wall -Wextra -Wno-unused-parameter -Wno-unused-function \
	$(if $(CI),-Werror) $(if $(START),-DLAB_START=$(START)) -o $@ $(filter %.c,$^)
else
$(out)/recordmcount: $(staff_recordmcount) $(out)/flags
	@cp $< $@
endif

# Islands lie between the sections of the objects that may be large.
$(out)/islands.h: kern/ftrace/tools/islands.py $(own_app) $(sites) $(out)/flags
	@$(PYTHON) $< $(ARCH) $(filter %.o,$^) > $@
$(out)/kern/ftrace/$(ARCH)/islands.o: $(out)/islands.h
$(out)/kern/ftrace/files/readme.o: kern/ftrace/files/README.txt

$(out)/callsite.lds: boot/callsite.lds.S kern/layout.h $(out)/islands.h $(out)/flags \
		$(shared)/.links
	@$(cc) $(cflags) $(includes) -E -P -D__ASSEMBLER__ -o $@ -x c $<

# A handed-in file's object is checked before it is linked.
$(out)/handed-in: $(obj) $(wildcard labs/*/rubric.toml grading/elf/handed_in.py)
	$(if $(handed_in),$(Q)$(PYTHON) -m grading.elf.handed_in $(ARCH) $(out) $(obj))
	@touch $@
# Its debugging information is only for gdb: the first link, from which the tables are made, leaves
# it out.
handed := $(filter $(patsubst %,$(out)/%.o,$(basename $(handed_in))),$(obj))
bare := $(handed:$(out)/%=$(out)/bare/%)
$(bare): $(out)/bare/%.o: $(out)/%.o $(out)/handed-in
	@mkdir -p $(@D) && $(cross)objcopy --strip-debug $< $@

# Two links: the first, without the tables, gives the addresses that go into them. Text comes before
# the tables, so its addresses do not move.
link = $(cross)ld $(arch_ldflags) --no-warn-rwx-segments -T $(out)/callsite.lds
$(out)/tables0.S: $(mksyms) $(mkrecords) $(out)/flags
	@$(PYTHON) $(mksyms) --empty > $@
	$(if $(records),@$(PYTHON) $(mkrecords) --empty >> $@)
$(out)/first.elf: $(obj) $(bare) $(out)/tables0.o $(out)/callsite.lds $(out)/handed-in
	@$(link) -o $@ $(foreach o,$(obj),$(or $(filter $(o:$(out)/%=$(out)/bare/%),$(bare)),$o)) \
	$(out)/tables0.o
# Lab 5 is the first whose traces show arguments.
$(out)/tables.S: $(out)/first.elf $(records) $(mksyms) $(mkrecords)
	@$(PYTHON) $(mksyms) $< $(if $(filter-out 1 2 3 4,$(stage)),--args) > $@
	$(if $(records),@$(PYTHON) $(mkrecords) $(records) $< >> $@)
# The proof goes through the modules with the kernel.
$(out)/callsite.elf: $(obj) $(out)/tables.o $(out)/callsite.lds $(proof) $(names) $(proved_modules)
	$(call say,LD,$@)$(link) -Map $(@:.elf=.map) -o $@.new $(obj) $(out)/tables.o
	$(if $(proof),$(Q)$(PYTHON) $(firstword $(proof)) $(ARCH) $@.new $(proved_modules))
	$(if $(names),@$(PYTHON) -m grading.elf.names $(ARCH) $(stage) $@.new)
	@mv $@.new $@
$(out)/callsite.map: $(out)/callsite.elf
$(out)/Image: $(out)/callsite.elf
	@$(cross)objcopy -O binary $< $@.new && mv $@.new $@

-include labs/staff.mk
-include $(patsubst %.o,%.d,$(obj))
