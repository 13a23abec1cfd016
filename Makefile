# Callsite: every command that a person types. `make help` lists them, and these variables. The
# make file beside a thing says how it is built: kern/kernel.mk, kern/loader/module.mk,
# kern/tests/host.mk ...
#
#   ARCH=riscv64|arm64   one architecture; without it, both
#   LAB=n                the kernel as it stands at the end of lab n
#   HOOK=entry|mcount    how functions call the tracer (labs 1 to 3: mcount)
#   APP=path/to/prog.c   link your own program in, against kern/app.h
#   SMP=n                make run, gdb: so many CPUs; make grade: only that boot (1, or 3 to 6)
#   BOOT=uboot           make run, gdb: through U-Boot
#   GIC=3                make run, gdb: arm64 with a GICv3, not a GICv2
#   EL=2                 make run, gdb: arm64 is entered at exception level 2, not 1
#   APPEND='words'       make run, gdb, sdcard, tftp: the kernel's boot arguments
#   QEMU_EXTRA='words'   more options of QEMU's
#   QEMU_DIR=folder      another QEMU than the one that make doctor names
#   SEED=n               make grade, grade-class: this seed, not a new one (REPLAY=n is the same);
#                        .ci/run, test-labs: which wrong solutions
#   RUNG=n|name          make grade: this rung alone
#   SCHEDULE=name        make grade: this schedule alone, as a failed grade prints it
#   GDB=1                make grade: stop the boot under gdb where it goes wrong
#   MACHINE=line         make grade: the machine at this line, by its console alone:
#                        serial:/dev/ttyUSB0@115200, pty:PATH, unix:PATH or telnet:HOST:PORT
#   POWER='command'      with MACHINE=: called with `on` before the boot and with `off` after it
#   UBOOT='a; b'         commands typed at U-Boot's prompt (needs MACHINE=)
#   UBOOT_PROMPT='=> '   with MACHINE=: U-Boot's prompt
#   COUNT=n              how often: make soak-grade, make test-busy, make test-mutants
#   FUZZ_SECONDS=n       make fuzz: seconds for each fuzzer
#   JOBS=n               so many at a time: make soak, soak-grade, test-mutants, grade-class
#   SANDBOX=no           no sandbox: only where bubblewrap cannot work, and only for your own files
#   MODULE=path/to/m.c   a module of your own: it is in the initrd, and insmod m loads it
#   TESTS=1              the tests inside the kernel are linked in
#   DEBUG=1              freed memory is poisoned, and the poison is checked
#   V=1                  whole commands
.DEFAULT_GOAL := all

include kern/variant.mk
# $(call one_of,NAME,values): refuse a variable that has another value.
one_of = $(if $($1),$(if $(filter $2,$($1)),,$(error $1=$($1) is not one of: $2)))
$(call one_of,ARCH,$(ARCHS))$(call one_of,LAB,$(STAGES))$(call one_of,HOOK,entry mcount)
ifneq ($(or $(HOOK),$(hook)),$(hook))
$(error Lab $(stage) calls the tracer by HOOK=$(hook), not HOOK=$(HOOK))
endif
$(foreach v,APP MODULE,$(if $(filter-out $(wildcard $($v)),$($v)),$(error $v=$($v): no such file)))
$(if $(wildcard $(APP:%=kern/apps/$(app_name).c)),$(error APP=$(APP): there is an application \
	'$(app_name)' already; give yours another name))
# Passed in the environment, so that quotes in them do no harm: for every machine, and for make run.
export QEMU_EXTRA QEMU_DIR APPEND

# ---- set-up -----------------------------------------------------------------
# $(call packages,sed expression): what .ci/packages names, without what the expression deletes.
packages = $(shell sed -e '$1' -e 's/\#.*//' .ci/packages | awk 'NF {print $$1}')
needed := $(call packages,/^\# Only/$(comma)$$d)
needed_by = $(call packages,/^\# Only make $(1) /$(comma)/^$$/!d)
# Without QEMU 10 everything but a grade works, so only make setup fails.
setup := build/.setup
$(setup): .ci/packages .ci/install $(wildcard qemu/download.py)
	@mkdir -p build && flock build/.lock .ci/install $(needed)
	$(if $(filter setup,$(MAKECMDGOALS)),,@$(PYTHON) qemu/download.py || true)
	@touch $@

# ---- what is built ----------------------------------------------------------
# $(call build,folder,make file and its arguments): run make while it has the lock of the folder.
# Two makes in one tree never write the same file: the second waits. If make fails on a full disk,
# the last line says so: ccache loses the compiler's messages then.
waiting_for = $(if $(silent),,echo "Another make builds in $1/: waiting.";)
build = mkdir -p $1 && { flock -n 9 || { $(waiting_for) flock 9; }; \
	$(MAKE) --no-print-directory -f $2 || \
	{ status=$$?; $(PYTHON) qemu/disk.py build "$$CCACHE_DIR"; exit $$status; }; } 9>$1/.lock
files_in = $(filter build/$1/%,$(MAKECMDGOALS))
# $(call goals,folder,all): the files in this folder that make was asked for; with any other
# command, all.
goals = $(call files_in,$1) $(if $(filter-out build/%,$(or $(MAKECMDGOALS),all)),$2)

.PHONY: all $(ARCHS:%=kernel-%) host-tests host-tests-built fuzz
all: $(WANTED:%=kernel-%) ## build the kernel: build/<arch>/callsite.elf and Image
$(ARCHS:%=kernel-%): kernel-%: $(setup)
	+$(Q)$(call build,build/$*,kern/kernel.mk ARCH=$* $(call goals,$*,all))
host-tests: $(setup) ## build and run the host tests
	+$(Q)$(call build,build/host,kern/tests/host.mk host-tests)
host-tests-built: $(setup)
	+$(Q)$(call build,build/host,kern/tests/host.mk $(call goals,host,host-tests-built))
fuzz: $(setup) ## [FUZZ_SECONDS=60]: run libFuzzer on the readers of modules, probes, filters and
## device trees, FUZZ_SECONDS seconds each
	+$(Q)$(call build,build/fuzz,kern/tests/fuzz.mk)
# A file that is named is built by the make file of its folder.
$(foreach a,$(ARCHS),$(eval $(call files_in,$a): kernel-$a ;))
$(call files_in,host): host-tests-built ;

# ---- commands ---------------------------------------------------------------
# $(call needs_arch,command,why): refuse a command that is for one architecture.
needs_arch = $(if $(ARCH),,$(error make $1 needs ARCH=riscv64 or ARCH=arm64$2))
# The lab and the architecture, for a program that does all of them otherwise.
chosen := $(if $(LAB),--lab $(LAB)) $(if $(ARCH),--arch $(ARCH))

include boot/card.mk .ci/lint.mk
-include labs/instructor.mk

.PHONY: setup doctor run gdb grade submit test test-long test-linux test-busy soak soak-grade bench
.PHONY: sizes docs
setup: $(setup) ## install the Debian packages that the project names (or say how), and QEMU 10
	@$(PYTHON) qemu/download.py
	@echo "Everything is installed."
doctor: ## each tool's version, found and wanted, and what to do
	@if [ -x $(PYTHON) ]; then $(PYTHON) qemu/doctor.py $(needed); else \
	echo "No python3: type make setup, or sudo apt-get install python3."; exit 1; fi

made := build/$(ARCH)/$(variant)
machine = $(if $(SMP),--smp $(SMP)) $(if $(BOOT),--boot $(BOOT)) $(if $(GIC),--gic $(GIC)) \
	$(if $(EL),--el $(EL)) --arch $(ARCH) --initrd $(call initrd_of,$(ARCH))
run gdb: $(ARCH:%=kernel-%)
run: ## ARCH=.. [SMP=n] [APPEND='..'] [BOOT=uboot]: a kernel on this terminal
	$(call needs_arch,run)
	@$(PYTHON) qemu/run.py --image $(made)/Image $(machine)
gdb: ## ARCH=.. [LAB=n] [SMP=n]: a stopped machine with gdb attached, and gdb commands for the
## tracer
	$(call needs_arch,gdb)
	@$(PYTHON) qemu/debug.py --elf $(made)/callsite.elf $(machine)

# The grade builds the kernels itself, after it has refused what it cannot grade. So its line has
# the + of a line that runs make; but not under -n, which would run it.
dry := $(findstring n,$(firstword -$(MAKEFLAGS)))
grading = $(if $(dry),,+)@$(PYTHON) -m grading --lab $(stage) --variant $(variant) \
	$(ARCH:%=--arch %) --make '$(MAKE) --no-print-directory all MODULE=' \
	$(addprefix --staff=,$(filter $(halves),$(staffed))) \
	$(if $(or $(REPLAY),$(SEED)),--seed '$(or $(REPLAY),$(SEED))') \
	$(if $(SMP),--smp $(SMP)) \
	$(if $(RUNG),--rung '$(RUNG)') \
	$(if $(SCHEDULE),--schedule '$(SCHEDULE)') \
	$(if $(GDB),--gdb) \
	$(if $(MACHINE),--machine '$(MACHINE)') \
	$(if $(POWER),--power '$(POWER)') \
	$(if $(UBOOT_PROMPT),--uboot-prompt '$(UBOOT_PROMPT)') \
	$(if $(value UBOOT),--uboot '$(value UBOOT)')
grade: $(setup) ## [LAB=n] [ARCH=..] [SMP=1|4] [STAFF=..] [REPLAY=seed] [RUNG=n] [SCHEDULE=..]
## [GDB=1] [MACHINE=.. [POWER=..] [UBOOT=..]]: judge the trace against what the processor
## executed
	$(grading)
submit: $(setup) ## LAB=n: grade, then write the lab's files into build/lab<n>.tar
	$(if $(LAB),,$(error make submit needs LAB=n))
	$(grading) --submit

run_all := @$(PYTHON) kern/tests/run_all.py
test: $(setup) ## host, harness, and the kernel under QEMU
	$(run_all)
test-long: $(setup) ## what make test leaves out: what the pages and handouts show is typed; each
## card on its boards' models; kernels with islands; each step of the ring buffer and of a module's
## load; stack walks from each instruction of the tracer; Linux's selftests of ftrace; an
## instructor's loop; bad serial lines; a minute of each fuzzer
	$(run_all) --long
# Without root nothing is installed, and the tests say that they are skipped.
test-linux: $(setup) ## [ARCH=..]: Linux's own selftests of ftrace against our tracefs files, as
## root; the first time they are downloaded (150 MB)
	@[ "$$(id -u)" != 0 ] || .ci/install $(call needed_by,test-linux)
	@$(PYTHON) -m kern.ftrace.tests.linux.run $(ARCH:%=--arch %)
test-busy: $(setup) ## [COUNT=5]: make test COUNT times in a row, beside eight busy processes
	$(run_all) --busy 8 --jobs 32 --times $(or $(COUNT),5)

soaking = @$(PYTHON) -m grading.selftest.soak $(if $(JOBS),--jobs $(JOBS)) $(chosen)
soak: $(setup) ## ten minutes of tracers, users and instances toggled at random under load; every
## order of a ring buffer's reader and writer, and of a module's load or removal and its users;
## every card on the models of boards; every schedule of the solutions; a bad serial line
	@$(PYTHON) kern/tests/run_qemu.py --soak
	@EVERY=1 $(PYTHON) -m unittest kern.ftrace.tests.test_ring_steps \
	kern.ftrace.tests.test_module_steps kern.tests.test_boards \
	kern.tests.test_make grading.tests.test_line
	$(soaking) --schedules
soak-grade: $(setup) ## [COUNT=n] [JOBS=n] [LAB=n] [ARCH=..] [SEED=..]: grade the solutions n times;
## none may lose a point; goes on where it was ended
	$(soaking) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed '$(SEED)')
bench: $(setup) ## instructions per traced call, beside Linux's; build/bench.json
	@$(PYTHON) kern/ftrace/tests/bench.py
	@$(PYTHON) -m grading.selftest.cost
sizes: $(setup) ## lines of code by cloc, against the design
	@$(PYTHON) .ci/sizes.py
docs: $(setup) ## the book: build/docs/index.html
	@flock build/.lock .ci/install $(call needed_by,docs)
	@$(PYTHON) -m docs.book

.PHONY: format help clean
# A newer git clang-format ends with 1 when it has changed something, with 2 when it could not.
format: $(setup) ## clang-format, in place, the lines that you changed since the last commit
	@git clang-format --extensions c,h,cc --force HEAD || [ $$? = 1 ]
help: ## this list of commands and variables
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p; s/^## /\t/p' $(MAKEFILE_LIST) | \
	expand -t 20
	@echo; sed -nE 's/^#   ( {4}|[A-Z])/  \1/p' $(MAKEFILE_LIST)
fetched := build/qemu-10 build/boards build/linux-selftests
clean: ## remove what was built; what was fetched stays in build/: QEMU, the boards' trees, and
## Linux's selftests
	rm -rf $(filter-out build/. build/.. $(fetched),$(wildcard build/* build/.*))
