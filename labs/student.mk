# The student's tree: the staff's objects instead of labs that were not
# finished (STAFF=3,4), and which host tests can be used with the files that
# were begun.
#
# `make handout` put the objects into labs/staff/<arch>/lab<stage>/<lab>/, under
# the names that they have in build/; what the build makes itself lies beside.
# A lab with halves has folders for its own halves too: lab4/4.1/, lab4/4.2/.
#
#   STAFF=3,4            the staff's objects in the place of labs that were not finished; 4.1: of a half of lab 4
staffed := $(subst $(comma), ,$(STAFF))
halves := $(notdir $(wildcard labs/staff/riscv64/lab$(stage)/$(stage).*))
# While a file of the second half is as handed out, the kernel is linked with the staff's objects for that half.
waiting := $(if $(halves),$(filter-out $(staffed),$(shell $(PYTHON) labs/begun.py --waiting $(stage))))
staffed += $(waiting)
ifneq ($(strip $(staffed)),)
staff_labs := $(sort $(notdir $(wildcard labs/staff/riscv64/lab$(stage)/*)))
ifeq ($(wildcard labs/staff),)
$(error STAFF=$(STAFF): this tree has no objects of the staff's; make handout puts them into the students')
endif
ifneq ($(filter-out $(filter-out $(stage),$(STAGES)) $(halves),$(staffed)),)
$(error STAFF=$(STAFF): LAB=$(stage) can have the staff's objects of these labs: $(or $(staff_labs),none))
endif
# This kernel has no file of a later lab, and not every earlier lab has a file in it.
staffed := $(filter $(staff_labs),$(staffed))

define staff_object
build/$1/$(variant)/$3: labs/staff/$1/lab$(stage)/$2/$3
	$$(call say,STAFF,$$@)mkdir -p $$(@D) && cp $$< $$@
endef
$(foreach a,$(WANTED),$(foreach n,$(staffed),$(foreach o,$(shell cd labs/staff/$a/lab$(stage)/$n && find * -name '*.o'),\
	$(eval $(call staff_object,$a,$n,$o)))))

ifneq ($(filter 2,$(staffed)),)
staff_recordmcount := labs/staff/$(shell uname -m)/recordmcount
ifeq ($(wildcard $(staff_recordmcount)),)
$(error STAFF=$(STAFF): the staff's recordmcount is not made for this machine, $(shell uname -m))
endif
endif
endif

# Lab 5's host test is linked with labs 2 to 4, and with the hidden objects of lab 5.
graph_test := kern/ftrace/tests/graph_test.cc
$(graph_test).staff_obj := $(foreach n,$(staffed) always,$(wildcard $(addprefix labs/staff/$(shell uname -m)/$n/kern/ftrace/,*/*.o)))
$(graph_test).staff_src := $(foreach o,$($(graph_test).staff_obj:.o=.c),kern/ftrace/$(lastword $(subst /kern/ftrace/, ,$o)))

# Objects of files that students neither write nor get (HIDDEN in the instructor's labs/handout.py).
define always_object
build/$1/$(variant)/$2: labs/staff/$1/always$(stage)/$2
	$$(call say,STAFF,$$@)mkdir -p $$(@D) && cp $$< $$@
endef
always = $(patsubst labs/staff/$1/always$(stage)/%,%,$(wildcard labs/staff/$1/always$(stage)/kern/ftrace/*/*.o))
$(foreach a,$(WANTED),$(foreach o,$(call always,$a),$(eval $(call always_object,$a,$o))))
ftrace_c += $(patsubst %.o,%.c,$(call always,riscv64))

# $(call begun,tests): the tests for which every needed file was changed. For other tests that were asked for, it
# prints why not.
begun = $1
ifneq ($(wildcard labs/staff),)
ifneq ($(filter host-tests build/host/%,$(MAKECMDGOALS)),)
begun = $(shell $(PYTHON) labs/begun.py $(addprefix --staff=,$($(graph_test).staff_src)) $(if $(filter host-tests,$(MAKECMDGOALS)),$1,$(filter \
	$(foreach g,$(filter build/host/%,$(MAKECMDGOALS)),%/$(notdir $g).cc),$1)))
endif
build/host/graph_test: FORCE # with STAFF= and without
build/host/%_test:
	@echo "$@ is not built"; exit 1
endif
