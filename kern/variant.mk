# Which kernel is meant: the variables that a person gives to make, and what follows from them.
# Every make file that builds something includes this one.
#
# A kernel is built in a folder of its own, build/<arch>/<variant>/: two kernels that differ in one
# of these variables never share a file that they write.
MAKEFLAGS += --no-builtin-rules --no-builtin-variables
.SUFFIXES:
.DELETE_ON_ERROR:

ARCHS := $(patsubst kern/arch/%/flags.mk,%,$(wildcard kern/arch/*/flags.mk))
WANTED := $(or $(ARCH),$(ARCHS))
PYTHON := /usr/bin/python3
comma := ,

include kern/ftrace/stages.mk kern/rooms.mk
LAST_LAB := $(lastword $(STAGES))
stage := $(or $(LAB),$(START),$(if $(filter mcount,$(HOOK)),3,$(LAST_LAB)))
hook := $(if $(filter 1 2 3,$(stage)),mcount,entry)
# The stages whose lists in stages.mk have modules, and probes.
has_modules := $(filter ftrace_module.c,$(ftrace_lab.$(stage)))
has_probes := $(filter kprobes.c,$(ftrace_lab.$(stage)))
app_name := $(basename $(notdir $(APP)))
module_name := $(basename $(notdir $(MODULE)))

# $(waiting), of labs/student.mk: the halves of this lab for which the staff's objects are linked,
# because they are not written yet.
-include labs/handed_in.mk labs/student.mk
variant := lab$(stage)$(if $(START),-start)$(if $(STAFF)$(waiting),-staff$(subst \
	$(comma),,$(STAFF))$(waiting))$(if $(TESTS),-tests)$(if $(DEBUG),-debug)$(if \
	$(APP),-$(app_name))$(if $(BENCH_SITES),-$(BENCH_SITES)sites)
# The initrd has the modules, not the kernel; so it is the same for most kernels.
initrd_of = build/$1/initrd$(if $(TESTS),-tests)$(if $(MODULE),-$(module_name)).cpio

# V=1 prints whole commands. Otherwise: $(call say,CC,file) prints one short line, before the recipe
# line that it begins. make prints it by itself, so a recipe of one simple command needs no shell.
Q := $(if $(V),,@)
silent := $(findstring s,$(firstword -$(MAKEFLAGS)))
say = $(if $(V)$(silent),,$(info $1	$2))$(Q)

# Most files are compiled in the same way for every lab, so a cache helps.
CCACHE_DIR ?= $(CURDIR)/build/ccache
export CCACHE_DIR
ccache := $(shell command -v ccache)

CFLAGS := -std=gnu11 -O2 -g -ffreestanding -fno-common -fno-pic -fno-stack-protector \
	-fno-omit-frame-pointer -fno-ipa-ra -fno-asynchronous-unwind-tables -fno-unwind-tables \
	-fno-strict-aliasing -fno-delete-null-pointer-checks -fno-tree-loop-distribute-patterns \
	-Wall -Wextra -Wmissing-prototypes -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers $(if $(CI),-Werror)

# $(call first_lines,WORD,files): for each of the first ten lines of a file that has "// WORD:", the
# file's name and what follows, with | for a space.
first_lines = $(shell awk 'FNR <= 10 && sub("^// $(1): *", "") \
	{gsub(" +", "|"); print FILENAME "=" $$0}' $(2))
