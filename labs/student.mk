# The student's side: the staff's objects in the place of labs that were not
# finished (STAFF=3,4), and which host tests speak of a file that was begun.
#
# `make handout` put the objects into labs/staff/<arch>/lab<stage>/<lab>/, under
# the names that they have in build/; what the build makes itself lies beside.
ifdef STAFF
staffed := $(subst $(comma), ,$(STAFF))
staff_labs := $(sort $(notdir $(wildcard labs/staff/riscv64/lab$(stage)/*)))
ifeq ($(wildcard labs/staff),)
$(error STAFF=$(STAFF): this tree has no objects of the staff's; make handout puts them into the students')
endif
ifneq ($(filter-out $(staff_labs),$(staffed)),)
$(error STAFF=$(STAFF): for LAB=$(stage) there are objects of these labs: $(or $(staff_labs),none))
endif

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

# Lab 5's shadow.h has code in it: the staff's is an object, and a header without.
ifneq ($(wildcard $(foreach n,$(staffed),labs/staff/riscv64/lab$(stage)/$n/kern/ftrace/shadow_frames.o)),)
ftrace_lab.$(stage) += shadow_frames.c
ftrace_cflags.riscv64 += -include labs/staff/shadow.h
ftrace_cflags.arm64 += -include labs/staff/shadow.h
endif
endif

# $(call begun,tests): those of them that need no file that is as it was handed out.
begun = $(if $(and $(wildcard labs/staff),$(filter host-tests,$(MAKECMDGOALS))),$(shell $(PYTHON) labs/begun.py $1),$1)
