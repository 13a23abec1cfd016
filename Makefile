# Callsite: every command that a person types. `make help` lists them, and these variables.
#
#   ARCH=riscv64|arm64   one architecture; without it, both
#   LAB=n                the kernel as it stands at the end of lab n
#   HOOK=entry|mcount    how functions call the tracer (labs 1 to 3: mcount)
#   APP=path/to/prog.c   link your own program in, against kern/app.h
#   SMP=n                make run, gdb: so many CPUs; make grade: only the boot with so many (1 or 4)
#   BOOT=uboot           make run, gdb: through U-Boot
#   GIC=3                make run, gdb: arm64 with a GICv3, not a GICv2
#   EL=2                 make run, gdb: arm64 is entered at exception level 2, not 1
#   APPEND='words'       make run, gdb, sdcard, tftp: the kernel's boot arguments
#   QEMU_EXTRA='words'   more options of QEMU's
#   QEMU_DIR=folder      another QEMU than the one that make doctor names
#   SEED=n               make grade, grade-class: this seed, not a new one (REPLAY=n is the same); .ci/run, test-labs: which wrong solutions
#   RUNG=n|name          make grade: this rung alone
#   SCHEDULE=name        make grade: this schedule alone, as a failed grade prints it
#   GDB=1                make grade: stop the boot under gdb where it goes wrong
#   MACHINE=serial:/dev/ttyUSB0@115200|pty:PATH|unix:PATH|telnet:HOST:PORT  make grade: the machine at this line, by its console alone
#   POWER='command'      with MACHINE=: called with `on` before the boot and with `off` after it
#   UBOOT='a; b'         with MACHINE=: typed at U-Boot's prompt; without it U-Boot boots by itself
#   UBOOT_PROMPT='=> '   with MACHINE=: U-Boot's prompt
#   COUNT=n              how often: make soak-grade, make test-busy, make test-mutants
#   FUZZ_SECONDS=n       make fuzz: seconds for each fuzzer
#   JOBS=n               so many at a time: make soak, make soak-grade, make test-mutants, make grade-class
#   SANDBOX=no           no sandbox: only where bubblewrap cannot work, and only for files of your own
#   MODULE=path/to/m.c   a module of your own: it is in the initrd, and insmod m loads it
#   TESTS=1              the tests inside the kernel are linked in
#   DEBUG=1              freed memory is poisoned, and the poison is checked
#   V=1                  whole commands
MAKEFLAGS += --no-builtin-rules --no-builtin-variables
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

ARCHS := riscv64 arm64
ifdef ARCH
ifeq ($(filter $(ARCH),$(ARCHS)),)
$(error ARCH=$(ARCH) is not one of: $(ARCHS))
endif
endif
WANTED := $(or $(ARCH),$(ARCHS))

include kern/ftrace/stages.mk
LAST_LAB := $(lastword $(STAGES))
# The last stage that can be graded: the last one with a rubric in labs/.
last_graded := $(patsubst labs/%,%,$(lastword $(sort $(foreach r,$(wildcard labs/*/rubric.toml),$(firstword $(subst -, ,$r))))))
ifdef LAB
ifeq ($(filter $(LAB),$(STAGES)),)
$(error LAB=$(LAB) is not one of: $(STAGES))
endif
endif
ifdef HOOK
ifeq ($(filter $(HOOK),entry mcount),)
$(error HOOK=$(HOOK) is not one of: entry mcount)
endif
endif
stage := $(or $(LAB),$(START),$(if $(filter mcount,$(HOOK)),3,$(if $(filter grade submit,$(MAKECMDGOALS)),$(last_graded),$(LAST_LAB))))
hook := $(if $(filter 1 2 3,$(stage)),mcount,entry)
has_modules := $(filter 7 8,$(stage))
ifneq ($(or $(HOOK),$(hook)),$(hook))
$(error Lab $(stage) calls the tracer by HOOK=$(hook), not HOOK=$(HOOK))
endif
comma := ,
app_name := $(basename $(notdir $(APP)))
app_symbol := app_main_$(if $(APP),$(shell echo '$(app_name)' | tr -c 'A-Za-z0-9_\n' _))
apps := $(basename $(notdir $(wildcard kern/apps/*.c)))
# A grade runs these programs. They call the tracer's functions; all other programs see only kern/app.h.
apps_inside := entry.o frames.o graph.o lookup.o op.o probe.o rare.o registers.o trampolines.o
ifneq ($(filter $(app_name),$(apps)),)
$(error APP=$(APP): there is an application '$(app_name)' already; give yours another name)
endif
ifneq ($(APP),$(wildcard $(APP)))
$(error APP=$(APP): no such file)
endif
# $(waiting), of labs/student.mk: the halves of this lab for which the staff's objects are linked, because they are not written yet.
variant = lab$(stage)$(if $(START),-start)$(if $(STAFF)$(waiting),-staff$(subst $(comma),,$(STAFF))$(waiting))$(if $(TESTS),-tests)$(if $(DEBUG),-debug)$(if $(APP),-$(app_name))$(if $(BENCH_SITES),-$(BENCH_SITES)sites)
PYTHON := /usr/bin/python3
include $(wildcard labs/*.mk)

Q := $(if $(V),,@)
# make prints it by itself. So a recipe of one simple command needs no shell.
say = $(if $(V)$(findstring s,$(firstword -$(MAKEFLAGS))),,$(info $(1)	$(2)))$(Q)
# Passed in the environment, so that quotes in them do no harm: for every machine, and for make run.
export QEMU_EXTRA QEMU_DIR APPEND

# ---- set-up ---------------------------------------------------------------
packages := .ci/packages
# $(call package_names,sed expression): the packages of .ci/packages that the expression does not delete.
package_names = $(shell sed -e '$1' -e 's/\#.*//' $(packages) | awk 'NF {print $$1}')
needed := $(call package_names,/^\# Only/$(comma)$$d)
needed_by = $(call package_names,/^\# Only make $(1) /$(comma)/^$$/!d)
# Without QEMU 10 everything but a grade works, so only make setup fails.
setup := build/.setup
$(setup): $(packages) .ci/install $(wildcard qemu/download.py)
	@.ci/install $(needed)
	$(if $(filter setup,$(MAKECMDGOALS)),,@$(PYTHON) qemu/download.py || true)
	@touch $@

# ---- the kernel -----------------------------------------------------------
# Most files are compiled in the same way for every lab, so a cache helps. It is not used for a handed-in file that may be graded.
CCACHE_DIR ?= $(CURDIR)/build/ccache
export CCACHE_DIR
ccache := $(shell command -v ccache)
riscv64.cross := riscv64-linux-gnu-
arm64.cross := aarch64-linux-gnu-
riscv64.flags := -march=rv64ima_zicsr_zifencei -mabi=lp64 -mcmodel=medany -mno-relax -msmall-data-limit=0
# Cortex-A53 erratum 835769: nothing that accumulates a product just behind a load or store.
arm64.flags := -mgeneral-regs-only -mno-outline-atomics -mbranch-protection=none -mfix-cortex-a53-835769
riscv64.entry := -fpatchable-function-entry=1 -falign-functions=4
arm64.entry := -fpatchable-function-entry=2
riscv64.mcount := -pg
arm64.mcount := -pg
riscv64.ldflags := --no-relax -m elf64lriscv
# Cortex-A53 erratum 843419: no adrp that it may mistake (docs/hardware.md).
arm64.ldflags := -m aarch64linux --no-relax --fix-cortex-a53-843419=adr

CFLAGS := -std=gnu11 -O2 -g -ffreestanding -fno-common -fno-pic -fno-stack-protector \
	-fno-omit-frame-pointer -fno-ipa-ra -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-strict-aliasing \
	-fno-delete-null-pointer-checks -fno-tree-loop-distribute-patterns \
	-Wall -Wextra -Wmissing-prototypes -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers $(if $(CI),-Werror) \
	-DSTAGE=$(stage) -DHOOK_$(hook)=1 $(if $(START),-DLAB_START=$(START)) $(if $(TESTS),-DCONFIG_TESTS=1) $(if $(DEBUG),-DCONFIG_DEBUG=1)

# Lab 1 has no records.
records := $(if $(filter 1,$(stage)),,$(if $(wildcard kern/ftrace/tools/recordmcount.c),$(or $(staff_recordmcount),build/recordmcount$(if $(START),-start$(START)))))
# A student's program: it runs in a sandbox, so it is static and needs no library there.
mkrecords := $(PYTHON) kern/ftrace/tools/mkrecords.py
mksyms := $(PYTHON) kern/ftrace/tools/mksyms.py
proof := $(wildcard kern/ftrace/tools/proof.py)

# $(call modules_of,arch,folder,sources)
modules_of = $(patsubst %,build/$1/$2/%.ko,$(basename $(notdir $3)))
module_sources := $(wildcard kern/modules/*.c) $(MODULE)
module_tests := $(wildcard kern/tests/modules/*.c)
# The modules that the proof goes through with the kernel.
$(foreach a,$(if $(has_modules),$(ARCHS)),$(eval proved.$(a) := $(call modules_of,$(a),modules,$(module_sources)) \
	$(if $(TESTS),$(call modules_of,$(a),test-modules,$(module_tests)))))

# $(call kernel,arch): the rules that build one architecture's kernel.
define kernel
$(1).out := build/$(1)/$(variant)
$(1).gcc := $($(1).cross)gcc
$(1).cc := $$(ccache) $$($(1).gcc)
$(1).all := $(CFLAGS) $($(1).flags) -Ikern $$(ftrace_includes) -Ikern/shell -Ibuild/$(1)/include -I$$($(1).out)
$(1).traced := $($(1).$(hook))
$(1).walled = $$(call walled,kern build/$(1)/include $$($(1).out)/include)
$(1).src := $(wildcard boot/$(1)/*.S kern/*.c kern/shell/*.c kern/arch/$(1)/*.c kern/arch/$(1)/*.S) \
	$$(ftrace_src.$(1)) $(wildcard kern/apps/*.c kern/apps/lib/*.c) \
	$(if $(has_modules),$(wildcard kern/module/*.c $(if $(TESTS),kern/module/tests/*_kt.c))) \
	$(if $(TESTS),$(wildcard kern/tests/*_kt.c) $$(ftrace_tests))
$(1).src := $$(filter-out %/asm-offsets.c $(if $(has_modules),,%/reloc.c) $(if $(filter-out $(LAST_LAB),$(stage)),%/module_kt.c),$$($(1).src))
$(1).app := $(if $(APP),$$($(1).out)/app/$(app_name).o)
$(1).obj := $$(patsubst %,$$($(1).out)/%.o,$$(basename $$($(1).src))) $$($(1).app) \
	$$($(1).out)/apps_table.o $(if $(BENCH_SITES),$$($(1).out)/sites.o)
$(1).gen := $$($(1).out)/include/asm-offsets.h build/$(1)/include/.links

# If a variable changes, all objects that it affects are compiled again: they depend on this file. -Werror changes no object.
$(1).made_of = $$(filter-out -Werror,$$($(1).all)) $$($(1).traced) $$(APP) $$(BENCH_SITES)
$$($(1).out)/flags: FORCE | $$(setup)
	@mkdir -p $$(@D)/include $$(sort $$(dir $$($(1).obj))); echo '$$($(1).made_of)' | cmp -s - $$@ || echo '$$($(1).made_of)' > $$@

$$($(1).out)/include/asm-offsets.h: kern/asm-offsets.c $(wildcard kern/arch/$(1)/asm-offsets.c) \
		$(wildcard kern/*.h kern/arch/$(1)/*.h) $$(ftrace_headers) $$($(1).out)/flags build/$(1)/include/.links
	$$(call say,OFFSETS,$$@)set -e; for f in $$(filter %.c,$$^); do $$($(1).cc) $$($(1).all) -S -o - $$$$f; done | \
	sed -n 's/^->\([A-Za-z0-9_]*\) [$$$$#]*\(-*[0-9]*\).*/#define \1 \2/p' > $$@

$$($(1).out)/kern/ftrace/tests/%.o: kern/ftrace/tests/%.c $$($(1).out)/flags $$($(1).gen)
	$$(call say,CC,$$@)$$($(1).cc) $$($(1).all) $$($(1).traced) -I$$($(1).out)/include -MMD -MP -c -o $$@ $$<
# The tracer itself has no call sites: it must not trace itself.
$$($(1).out)/kern/ftrace/%.o: kern/ftrace/%.c $$($(1).out)/flags $$($(1).gen)
	$$(call say,CC,$$@)$$(or $$($(1).walled),$$(ccache)) $$($(1).gcc) $$($(1).all) $$(ftrace_cflags.$(1)) -I$$($(1).out)/include -MMD -MP -c -o $$@ $$<
# An application sees only kern/app.h; so does the library.
$$($(1).out)/kern/apps/lib/%.o: kern/apps/lib/%.c kern/app.h $$($(1).out)/flags
	$$(call say,CC,$$@)$$($(1).cc) $(CFLAGS) $($(1).flags) $$($(1).traced) -iquote kern -MMD -MP -c -o $$@ $$<
# These programs see the kernel's headers, too.
$$(addprefix $$($(1).out)/kern/apps/,$(apps_inside)): sees := $$(ftrace_includes) -iquote build/$(1)/include -iquote $$($(1).out)/include
$$(addprefix $$($(1).out)/kern/apps/,$(apps_inside)): $$($(1).gen)
$$($(1).out)/kern/apps/%.o: kern/apps/%.c kern/app.h $$($(1).out)/flags
	$$(call say,CC,$$@)$$($(1).cc) $(CFLAGS) $($(1).flags) $$($(1).traced) -iquote kern $$(sees) \
	-Dmain=app_main_$$* -Dprogram_help=app_help_$$* -MMD -MP -c -o $$@ $$<
$$($(1).out)/app/$(app_name).o: $(APP) kern/app.h $$($(1).out)/flags
	$$(call say,CC,$$@)$$($(1).cc) $(CFLAGS) $($(1).flags) $$($(1).traced) -Wno-missing-prototypes -Werror=unsuffixed-float-constants \
	-ffunction-sections -iquote kern -include kern/app.h -Dmain=$(app_symbol) -MMD -MP -c -o $$@ $$<
	@if $($(1).cross)nm -u $$@ | grep -qE ' __[a-z]+[sdt]f[a-z0-9]*$$$$'; then rm $$@; \
	echo "$$<: a Callsite program uses integers only: no float, no double"; exit 1; fi
$$($(1).out)/%.o: %.c $$($(1).out)/flags $$($(1).gen)
	$$(call say,CC,$$@)$$($(1).cc) $$($(1).all) $$($(1).traced) -I$$($(1).out)/include -MMD -MP -c -o $$@ $$<
$$($(1).out)/%.o: %.S $$($(1).out)/flags $$($(1).gen)
	$$(call say,AS,$$@)$$(or $$($(1).walled),$$(ccache)) $$($(1).gcc) $$($(1).all) -I$$($(1).out)/include -MMD -MP -c -o $$@ $$<

# The shell's applications: {name, main, help} of each program in kern/apps/, and of APP.
$$($(1).out)/apps_table.c: $(wildcard kern/apps/*.c) $$($(1).out)/flags Makefile
	@{ echo '#include "apprun.h"'; \
	for n in $(apps); do echo "int app_main_$$$$n(int, char **); extern const char *const app_help_$$$$n[];"; done; \
	$(if $(APP),echo "int $(app_symbol)(int$(comma) char **);";) echo 'const struct app app_table[] = {'; \
	for n in $(sort $(apps) $(app_name)); do case $$$$n in \
	'$(app_name)') echo "	{\"$$$$n\", $(app_symbol), (const char *const[]){\"...\", \"a program of your own\"}},";; \
	*) echo "	{\"$$$$n\", app_main_$$$$n, app_help_$$$$n},";; esac; done; \
	echo '};'; echo 'const unsigned app_count = sizeof(app_table) / sizeof(*app_table);'; } > $$@
$$($(1).out)/apps_table.o: $$($(1).out)/apps_table.c $$($(1).gen)
	@$$($(1).cc) $$($(1).all) -I$$($(1).out)/include -c -o $$@ $$<
$$($(1).out)/sites.o: kern/ftrace/tests/mksites.py $$($(1).out)/flags
	$$(call say,SITES,$$@)$(PYTHON) $$< $(1) $(BENCH_SITES) > $$(@:.o=.S) && $$($(1).cc) $$($(1).all) -c -o $$@ $$(@:.o=.S)

# Islands lie between the sections of the objects that may be large.
$$($(1).out)/islands.h: kern/ftrace/tools/islands.py $$($(1).app) $(if $(BENCH_SITES),$$($(1).out)/sites.o) $$($(1).out)/flags
	@$(PYTHON) $$< $(1) $$(filter %.o,$$^) > $$@
$$($(1).out)/kern/ftrace/$(1)/islands.o: $$($(1).out)/islands.h

$$($(1).out)/callsite.lds: boot/callsite.lds.S kern/memory.h $$($(1).out)/islands.h $$($(1).out)/flags
	@$$($(1).cc) $$($(1).all) -E -P -D__ASSEMBLER__ -o $$@ -x c $$<

# Two links: the first, without the tables, gives the addresses that go into
# them. Text comes before the tables, so its addresses do not move.
$$($(1).out)/tables0.S: $$($(1).out)/flags
	@{ $(mksyms) --empty && $(if $(records),$(mkrecords) --empty,true); } > $$@
$$($(1).out)/tables0.S $$($(1).out)/tables.S: $(records) $(lastword $(mksyms)) $(wildcard kern/ftrace/tools/mkrecords.py)
# A handed-in file's object is checked before it is linked.
$$($(1).out)/handed-in: $$($(1).obj) $(wildcard labs/*/rubric.toml grading/elf/handed_in.py)
	$(if $(handed_in),$$(Q)$(PYTHON) -m grading.elf.handed_in $(1) $$($(1).out) $$($(1).obj))
	@touch $$@
# Its debugging information is only for gdb: the first link, from which the tables are made, leaves it out.
$(1).handed := $$(filter $$(patsubst %,$$($(1).out)/%.o,$$(basename $$(handed_in))),$$($(1).obj))
$(1).bare := $$(foreach o,$$($(1).obj),$$(if $$(filter $$o,$$($(1).handed)),$$(o:$$($(1).out)/%=$$($(1).out)/bare/%),$$o))
$$($(1).out)/bare/%.o: $$($(1).out)/%.o $$($(1).out)/handed-in
	@mkdir -p $$(@D) && $($(1).cross)objcopy --strip-debug $$< $$@
$$($(1).out)/first.elf: $$($(1).bare) $$($(1).out)/tables0.o $$($(1).out)/callsite.lds $$($(1).out)/handed-in
	@$($(1).cross)ld $($(1).ldflags) --no-warn-rwx-segments -T $$($(1).out)/callsite.lds -o $$@ $$(filter %.o,$$^)
$$($(1).out)/tables.S: $$($(1).out)/first.elf
	@{ $(mksyms) $$< $(if $(filter-out 1 2 3 4,$(stage)),--args) && $(if $(records),$(mkrecords) $(records) $$<,true); } > $$@
	$(if $(records),@cp $(records) $$(@D)/recordmcount)
$$($(1).out)/tables0.o $$($(1).out)/tables.o: $$($(1).out)/%.o: $$($(1).out)/%.S
	@$$($(1).cc) $$($(1).all) -c -o $$@ $$<
$$($(1).out)/callsite.elf: $$($(1).obj) $$($(1).out)/tables.o $$($(1).out)/callsite.lds $(proof) $(wildcard kern/ftrace/tools/indirect-calls) $(wildcard grading/elf/names.py) $(proved.$(1))
	$$(call say,LD,$$@)$($(1).cross)ld $($(1).ldflags) --no-warn-rwx-segments -T $$($(1).out)/callsite.lds -Map $$(@:.elf=.map) -o $$@.new $$(filter %.o,$$^)
	$(if $(proof),$$(Q)$(PYTHON) $(proof) $(1) $$@.new $(proved.$(1)))
	$(if $(START)$(APP)$(if $(wildcard grading/elf/names.py),,none),,@$(PYTHON) -m grading.elf.names $(1) $(stage) $$@.new)
	@mv $$@.new $$@
$$($(1).out)/callsite.map: $$($(1).out)/callsite.elf
$$($(1).out)/Image: $$($(1).out)/callsite.elf
	@$($(1).cross)objcopy -O binary $$< $$@

# build/<arch>/ has the kernel that was built last.
build/$(1)/callsite.elf build/$(1)/callsite.map build/$(1)/Image: build/$(1)/%: $$($(1).out)/% FORCE
	@cmp -s $$< $$@ || cp $$< $$@
	$(if $(records),@cp $(records) $$@.recordmcount && mv $$@.recordmcount $$(@D)/recordmcount)
-include $$(patsubst %.o,%.d,$$($(1).obj))
endef
$(foreach a,$(WANTED),$(eval $(call kernel,$(a))))

$(if $(START),build/recordmcount-start$(START)) build/recordmcount: build/recordmcount%: kern/ftrace/tools/recordmcount.c kern/ftrace/tests/checked_qsort.c | $(setup)
	$(call say,HOSTCC,$@)mkdir -p $(@D) && $(call walled,$^) gcc -std=gnu11 -O2 -static -Wl,--wrap=qsort -Wall -Wextra -Wno-unused-parameter -Wno-unused-function $(if $(CI),-Werror) $(if $*,-DLAB_START=$(START)) -o $@ $^

.PHONY: all FORCE
all: $(foreach a,$(WANTED),$(addprefix build/$(a)/callsite.,elf map) build/$(a)/Image) build/initrd.cpio ## build the kernel: build/<arch>/callsite.elf and Image
FORCE:

include boot/card.mk

# ---- modules --------------------------------------------------------------
# Modules are compiled for the finished kernel, whichever lab is built. The initrd has them for both architectures, and MODULE.
ifneq ($(MODULE),$(wildcard $(MODULE)))
$(error MODULE=$(MODULE): no such file)
endif
define modules
build/$(1)/include/.links: | $$(setup)
	@mkdir -p $$(@D) && ln -sfn ../../../kern/arch/$(1) $$(@D)/asm && \
	ln -sfn ../../../kern/ftrace/$(1) $$(@D)/asm-ftrace && touch $$@

$(1).module_flags = $$(filter-out -DSTAGE=% -DHOOK_% -DLAB_START=% -DCONFIG_% -g,$(CFLAGS)) -DSTAGE=$(LAST_LAB) -DHOOK_entry=1 -DMODULE=1 $($(1).flags) $($(1).entry) \
	-iquote kern $(ftrace_includes) -iquote build/$(1)/include
build/$(1)/modules/%.ko: kern/modules/%.c Makefile build/$(1)/include/.links
	$$(call say,MODULE,$$@)mkdir -p $$(@D) && $$(ccache) $$($(1).cross)gcc $$($(1).module_flags) -MMD -MP -MF $$(@:.ko=.d) -c -o $$@ $$<
$(if $(MODULE),$(call modules_of,$(1),modules,$(MODULE)): $(MODULE) Makefile build/$(1)/include/.links
	$$(call say,MODULE,$$@)mkdir -p $$(@D) && $$(ccache) $$($(1).cross)gcc $$($(1).module_flags) -MMD -MP -MF $$(@:.ko=.d) -c -o $$@ $$<)
build/$(1)/test-modules/%.ko: kern/tests/modules/%.c Makefile build/$(1)/include/.links
	$$(call say,MODULE,$$@)mkdir -p $$(@D) && $$(ccache) $$($(1).cross)gcc $$($(1).module_flags) -MMD -MP -MF $$(@:.ko=.d) -c -o $$@ $$<
-include $(wildcard build/$(1)/modules/*.d build/$(1)/test-modules/*.d)
endef
$(foreach a,$(ARCHS),$(eval $(call modules,$(a))))

# The list of modules in the initrd: if it changes, the initrd is packed again.
build/modules.list: FORCE | $(setup)
	@echo '$(module_sources)' | cmp -s - $@ || { mkdir -p $(@D); echo '$(module_sources)' > $@; }

initrd_files := $(wildcard kern/apps/initrd/*) README.md LICENSE $(setup) build/modules.list
ordinary_modules := $(foreach a,$(ARCHS),$(call modules_of,$(a),modules,$(module_sources)))
test_modules := $(foreach a,$(ARCHS),$(call modules_of,$(a),test-modules,$(module_tests)))
build/initrd.cpio: $(initrd_files) $(ordinary_modules)
build/initrd-tests.cpio: $(initrd_files) $(ordinary_modules) $(test_modules)
build/initrd.cpio build/initrd-tests.cpio:
	$(call say,CPIO,$@)rm -rf $(@:.cpio=) && mkdir -p $(@:.cpio=) && $(PYTHON) kern/apps/initrd/make.py $(@:.cpio=) && \
	for ko in $(filter %.ko,$^); do to=$(@:.cpio=)/lib/modules/$$(echo $$ko | cut -d/ -f2); mkdir -p $$to && cp $$ko $$to; done && \
	(cd $(@:.cpio=) && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc) > $@

.PHONY: setup doctor run gdb grade submit test test-long test-busy soak soak-grade bench sizes docs format lint help clean
setup: $(setup) ## install the Debian packages that the project names (or say how), and QEMU 10 in build/
	@$(PYTHON) qemu/download.py
	@echo "Everything is installed."

doctor: ## each tool's version, found and wanted, and what to do
	@if [ -x $(PYTHON) ]; then $(PYTHON) qemu/doctor.py $(needed); else echo "No python3: type make setup, or sudo apt-get install python3."; exit 1; fi

made := build/$(ARCH)/$(variant)
run: $(if $(ARCH),$(made)/Image build/initrd.cpio,) ## ARCH=.. [SMP=n] [APPEND='..'] [BOOT=uboot]: a kernel on this terminal
	$(if $(ARCH),,$(error make run needs ARCH=riscv64 or ARCH=arm64))
	@$(PYTHON) qemu/run.py --arch $(ARCH) --image $(made)/Image $(if $(SMP),--smp $(SMP)) $(if $(BOOT),--boot $(BOOT)) \
	$(if $(GIC),--gic $(GIC)) $(if $(EL),--el $(EL))

gdb: $(if $(ARCH),$(made)/callsite.elf $(made)/Image build/initrd.cpio,) ## ARCH=.. [LAB=n] [SMP=n]: a stopped machine with gdb attached, and gdb commands for the tracer
	$(if $(ARCH),,$(error make gdb needs ARCH=riscv64 or ARCH=arm64))
	@$(PYTHON) qemu/debug.py --arch $(ARCH) --elf $(made)/callsite.elf $(if $(SMP),--smp $(SMP)) \
	$(if $(BOOT),--boot $(BOOT)) $(if $(GIC),--gic $(GIC)) $(if $(EL),--el $(EL))

grade submit: all
grade submit: grading := $(PYTHON) -m grading --lab $(stage) --arch $(WANTED) $(if $(or $(REPLAY),$(SEED)),--seed '$(or $(REPLAY),$(SEED))') \
	$(if $(SMP),--smp $(SMP)) $(if $(RUNG),--rung '$(RUNG)') $(if $(SCHEDULE),--schedule '$(SCHEDULE)') $(addprefix --staff=,$(filter $(halves),$(staffed))) \
	$(if $(MACHINE),--machine '$(MACHINE)') $(if $(POWER),--power '$(POWER)') $(if $(UBOOT_PROMPT),--uboot-prompt '$(UBOOT_PROMPT)') $(if $(value UBOOT),--uboot '$(value UBOOT)')
grade: ## [LAB=n] [ARCH=..] [SMP=1|4] [STAFF=..] [REPLAY=seed] [RUNG=n] [SCHEDULE=..] [GDB=1] [MACHINE=.. [POWER=..] [UBOOT=..]]: judge the trace against what the processor executed
	@$(grading) $(if $(GDB),--gdb)
submit: ## LAB=n: grade, then write the lab's files into build/lab<n>.tar
	$(if $(LAB),,$(error make submit needs LAB=n))
	@$(grading) --submit

test: $(setup) ## host, harness, and the kernel under QEMU; make test-long, make test-labs and make soak take longer
	@$(PYTHON) kern/tests/run_all.py

test-long: $(setup) ## what make test leaves out: what the pages and handouts show is typed; each card on its boards' models; kernels with islands; each step of the ring buffer and of a module's load; stack walks from each instruction of the tracer; an instructor's loop; bad serial lines; a minute of each fuzzer
	@$(PYTHON) kern/tests/run_all.py --long

test-busy: $(setup) ## [COUNT=5]: make test COUNT times in a row, beside eight busy processes
	@$(PYTHON) kern/tests/run_all.py --busy 8 --jobs 32 --times $(or $(COUNT),5)

soak: $(setup) ## ten minutes of tracers, users and instances toggled at random under load; every order of a ring buffer's reader and writer, and of a module's load or removal and its users; every card on the models of boards; every schedule of the solutions; ten minutes of a bad serial line
	@$(PYTHON) kern/tests/run_qemu.py --soak
	@EVERY=1 $(PYTHON) -m unittest kern.ftrace.tests.test_ring_steps kern.ftrace.tests.test_module_steps kern.tests.test_boards grading.tests.test_line
	@$(PYTHON) -m grading.selftest.soak --schedules $(if $(JOBS),--jobs $(JOBS)) $(if $(LAB),--lab $(LAB)) $(if $(ARCH),--arch $(ARCH))

soak-grade: $(setup) ## [COUNT=n] [JOBS=n] [LAB=n] [ARCH=..] [SEED=..]: grade the solutions n times; none may lose a point; goes on where it was ended
	@$(PYTHON) -m grading.selftest.soak $(if $(COUNT),--count $(COUNT)) $(if $(JOBS),--jobs $(JOBS)) $(if $(LAB),--lab $(LAB)) $(if $(ARCH),--arch $(ARCH)) $(if $(SEED),--seed '$(SEED)')

bench: $(setup) ## instructions per traced call, beside Linux's; build/bench.json
	@$(PYTHON) kern/ftrace/tests/bench.py
	@$(PYTHON) -m grading.selftest.cost

sizes: $(setup) ## lines of code by cloc, against the design
	@$(PYTHON) .ci/sizes.py

build/.docs-setup: $(packages) .ci/install
	@.ci/install $(call needed_by,docs)
	@touch $@

docs: build/.docs-setup ## the book: build/docs/index.html
	@$(PYTHON) -m docs.book

# A newer git clang-format ends with 1 when it has changed something, with 2 when it could not.
format: $(setup) ## clang-format, in place, the lines that you changed since the last commit
	@git clang-format --extensions c,h,cc --force HEAD || [ $$? = 1 ]

# Newer packages have types that older ones do not have. So an unused "type: ignore" and a call without types are allowed.
mypy := mypy --python-executable $(PYTHON) --strict --no-warn-unused-ignores --allow-untyped-calls
.PHONY: cppcheck rooms shellcheck mypy
lint: cppcheck rooms shellcheck mypy ## cppcheck, shellcheck, mypy, and that rooms depend on each other in one direction
cppcheck: $(setup) build/riscv64/include/.links
	@cppcheck --quiet --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=$(if $(CI),1,0) \
		--suppress=preprocessorErrorDirective --suppress=comparePointers --suppress=constStatement \
		--suppress=selfAssignment --suppress=subtractPointers --suppress=normalCheckLevelMaxBranches \
		'--suppress=syntaxError:kern/arch/*/firmware.c' '--suppress=uninitvar:*/asm/arch.h' --suppress=uninitvar:kern/ftrace/tests/kt.h -i kern/tests/own-program.c -i kern/ftrace/tests/far-program.c --file-filter='*.c' -Ikern $(ftrace_rooms:%=-I%) -Ikern/shell -I build/riscv64/include -D__riscv -D__riscv_xlen=64 kern qemu
rooms: $(setup)
	@$(PYTHON) kern/ftrace/tools/rooms.py
	@$(PYTHON) -m grading.selftest.rooms
shellcheck: $(setup)
	@shellcheck $$(git ls-files | xargs grep -slE '^#!/(bin/|usr/bin/env )(ba)?sh') $(if $(CI),,|| true)
mypy: $(setup)
	@$(mypy) grading qemu docs boot $(if $(CI),,|| true)
	@for f in labs/*.py labs/*/checks.py; do $(mypy) $$f || fail=1; done; [ -z "$$fail" ] $(if $(CI),,|| true)

help: ## this list of commands and variables
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile boot/card.mk $(wildcard labs/*.mk) | expand -t 20
	@echo; sed -n 's/^#   \([A-Z]\)/  \1/p' Makefile boot/card.mk $(wildcard labs/*.mk)

clean: ## remove what was built; what was fetched stays in build/: QEMU, and the boards' device trees
	rm -rf $(filter-out build/. build/.. build/qemu-10 build/boards,$(wildcard build/* build/.*))

# ---- tests on the host: the kernel's own files under ASan and UBSan -------
# The kernel's files are optimised and have both sanitizers. A test, with googletest's headers, would take twice as long to compile
# with UBSan, and longer with -O1. The compiler reads the precompiled headers only with the same options, so none is position-independent:
# some tests need their addresses in 32 bits.
# A test names what it is linked with in its first line: `// needs: kern/fdt.c -lfdt`.
host_tests := $(call begun,$(wildcard kern/tests/*_test.cc kern/ftrace/tests/*_test.cc kern/module/tests/*_test.cc))
host_flags := -g -fno-pie -fsanitize=address -iquote kern -iquote kern/shell $(ftrace_includes) -iquote kern/tests -DHOST_TEST=1
host_flags.c := -std=gnu11 $(host_flags) -O1 -fsanitize=undefined -fno-sanitize-recover=all
# The headers that all of them include are compiled once.
host_flags.cc := -std=gnu++17 $(host_flags) -O0
gtest := build/host/gtest.h
$(gtest).gch: Makefile | $(setup)
	$(call say,HOSTCXX,$@)mkdir -p $(@D) && echo '#include <gtest/gtest.h>' >$(gtest) && g++ $(host_flags.cc) -o $@ $(gtest)
# $(call first_lines,WORD,files): of each file whose first lines have "// WORD:", its name, and what follows, with | for a space.
first_lines = $(shell awk 'FNR < 3 && sub("^// $(1): *", "") {gsub(" +", "|"); print FILENAME "=" $$0}' $(2))
host_needs := $(call first_lines,needs,$(host_tests))
define host_test
$(1).words := $(subst |, ,$(patsubst $(1)=%,%,$(filter $(1)=%,$(host_needs))))
$(1).bin := build/host/$(basename $(notdir $(1)))
$(1).inc := $$(filter -I% -iquote% -D%,$$($(1).words))
$(1).dir := $$($(1).bin)$(if $(STAFF),-staff$(subst $(comma),,$(STAFF))).d
$(1).obj := $$(patsubst %.c,$$($(1).dir)/%.o,$$(filter-out $$($(1).staff_src),$$(filter %.c,$$($(1).words))))
$$($(1).obj): $$($(1).dir)/%.o: %.c $(wildcard kern/*.h kern/shell/*.h kern/tests/*.h kern/module/*.h kern/arch/*/reloc.h) $(ftrace_headers) Makefile | $(setup)
	$$(call say,HOSTCC,$$@)mkdir -p $$(@D) && $$(or $$(call walled,kern),$$(ccache)) gcc $(host_flags.c) $$($(1).inc) $(if $(wildcard kern/tests/host.h),-include kern/tests/host.h) -c -o $$@ $$<
$$($(1).bin): $(1) $(wildcard $(dir $(1))*_test.h) $$($(1).obj) $(ftrace_headers) $(wildcard kern/ftrace/tests/*.h kern/tests/*.h) $(gtest).gch Makefile | $(setup)
	$$(call say,HOSTCXX,$$@)mkdir -p $$(@D) && g++ $(host_flags.cc) -include $(gtest) $$($(1).inc) -o $$@ $(1) $$($(1).obj) $$($(1).staff_obj) \
	-no-pie $$(filter -l%,$$($(1).words)) -lgtest -lgtest_main -lubsan
host-tests-built: $$($(1).bin)
.PHONY: $(1).run
$(1).run: host-tests-built
	@prlimit --cpu=120 $$($(1).bin) --gtest_brief=1
host-tests: $(1).run
endef
$(foreach t,$(host_tests),$(eval $(call host_test,$(t))))
.PHONY: host-tests host-tests-built
# If the device trees cannot be fetched, their tests are skipped, and the next call tries again.
build/boards/.fetched: kern/tests/board_trees.py kern/tests/board_uboots.py $(wildcard qemu/download.py) | $(setup)
	@$(PYTHON) $< && touch $@ || true
host-tests-built: $(if $(wildcard kern/tests/board_trees.py),build/boards/.fetched)
# A test that fails does not keep the others from running, and what each of them prints stays together. None has more than two minutes of
# a processor: with a mistake, the code that is tested may never end.
MAKEFLAGS += $(if $(filter host-tests,$(MAKECMDGOALS)),--keep-going --output-sync=target)
host-tests: host-tests-built ## build and run the host tests

# ---- fuzzing: libFuzzer, with ASan and UBSan ------------------------------
# A fuzzer names what it is linked with in its first line, as a host test does; in its second line may stand what it begins with: the
# architecture of objects of good-module.c, `trees`, `probes` or `filters`. What it found is kept in build/fuzz/, an input that it fails on too.
fuzzers := $(wildcard kern/tests/*_fuzz.c kern/module/tests/*_fuzz.c kern/ftrace/tests/*_fuzz.c)
fuzz_flags := -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -iquote kern -iquote kern/shell $(ftrace_includes) -iquote kern/tests -DHOST_TEST=1
fuzz_module := kern/module/tests/good-module.c
define fuzz_seeds
build/fuzz/seeds-$(1): $(fuzz_module) Makefile | $(setup)
	@rm -rf $$@ && mkdir -p $$@ && n=0 && for o in "-O2" "-O2 -DWEAK" "-Os -ffunction-sections -g1"; do n=$$$$((n + 1)); \
	$($(1).cross)gcc $($(1).flags) $($(1).entry) -ffreestanding -fno-pic -fno-common $$$$o -c -o $$@/gcc$$$$n.o $$< && \
	clang --target=$(patsubst %-,%,$($(1).cross)) $(patsubst %_zicsr_zifencei,%,$(filter-out -msmall% -mno-outline%,$($(1).flags))) -ffreestanding -fno-pic -fno-common $$$$o \
	-c -o $$@/clang$$$$n.o $$< || exit 1; done
endef
$(foreach a,$(ARCHS),$(eval $(call fuzz_seeds,$(a))))
# Two boards' trees, and one with an edge of each kind.
build/fuzz/seeds-trees: $(wildcard kern/tests/*.dts kern/tests/fdt_test.cc) Makefile | $(setup)
	@rm -rf $@ && mkdir -p $@ && for t in $(filter %.dts,$^); do dtc -q -O dtb -o $@/$$(basename $$t).dtb $$t || exit 1; done && \
	sed -n '/^\/dts-v1/,/^)"/{/^)"/d;p}' kern/tests/fdt_test.cc | dtc -q -O dtb -o $@/edges.dtb
# The lines of probes, without the ^ that marks an error, and the filters of these tests: a file each.
build/fuzz/seeds-probes: kern/ftrace/tests/probe_parse_test.cc Makefile | $(setup)
	@rm -rf $@ && mkdir -p $@ && sed 's/arg("/&p vfs_read /g' $< | grep -oE '"[prf][^ "]* ([^"\\]|\\.)*"' | sed -E 's/^"|"$$|\^//g; s/\\(.)/\1/g' | split -a 3 -l 1 - $@/
build/fuzz/seeds-filters: kern/ftrace/tests/test_probe_events.py Makefile | $(setup)
	@rm -rf $@ && mkdir -p $@ && sed -n '/def test_filters/,/def test_triggers/p' $< | grep -oE "\\((\"(\\\\.|[^\"\\])*\"|'[^']*'), [TF0-9]" | sed -E 's/^..|.{4}$$|\\//g' | split -a 3 -l 1 - $@/
fuzz_needs := $(call first_lines,needs,$(fuzzers))
fuzz_seeds_of := $(call first_lines,seeds,$(fuzzers))
define fuzzer
$(1).needs := $(subst |, ,$(patsubst $(1)=%,%,$(filter $(1)=%,$(fuzz_needs))))
$(1).seeds := $(addprefix build/fuzz/seeds-,$(patsubst $(1)=%,%,$(filter $(1)=%,$(fuzz_seeds_of))))
$(1).bin := build/fuzz/$(basename $(notdir $(1)))
$$($(1).bin): $(1) $$(filter %.c,$$($(1).needs)) $(wildcard $(dir $(1))*_fuzz.h $(dir $(1))*_host.h kern/*.h kern/module/*.h kern/arch/*/reloc.h) $(ftrace_headers) Makefile | $(setup)
	$$(call say,FUZZER,$$@)mkdir -p $$(@D) && clang $(fuzz_flags) $$(filter-out %.c,$$($(1).needs)) -o $$@ $(1) $$(filter %.c,$$($(1).needs))
.PHONY: $$($(1).bin)-run
$$($(1).bin)-run: $$($(1).bin) $$($(1).seeds)
	$$(call say,FUZZ,$$<)mkdir -p $$<-corpus && $$< -max_total_time=$(or $(FUZZ_SECONDS),60) -timeout=10 -rss_limit_mb=1024 -max_len=16384 \
	-print_final_stats=1 -artifact_prefix=$$<- $$<-corpus $$($(1).seeds) >$$<.log 2>&1 || { tail -40 $$<.log; exit 1; }
	@awk '/^stat::number_of_executed_units/ {n = $$$$2} /^stat::linked/ {linked = $$$$2} \
	END {print "$(basename $(notdir $(1))): " n " inputs, " linked " linked"; exit !(linked > 10)}' $$<.log
endef
$(foreach f,$(fuzzers),$(eval $(call fuzzer,$(f))))
.PHONY: fuzz
fuzz: $(foreach f,$(fuzzers),$($(f).bin)-run) ## [FUZZ_SECONDS=60]: run libFuzzer on the readers of modules, probes, filters and device trees, FUZZ_SECONDS seconds each
