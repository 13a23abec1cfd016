# The student's tree: the staff's objects instead of labs that were not finished (STAFF=3,4).
#
# `make handout` put the objects into labs/staff/<arch>/lab<stage>/<lab>/, under the names that they
# have in build/; what the build makes itself lies beside. A lab with halves has folders for its own
# halves too: lab4/4.1/, lab4/4.2/.
#
#   STAFF=3,4            the staff's objects in the place of labs that were not finished; 4.1: of a
#                        half of lab 4
# The machine on which make runs.
host = $(shell uname -m)
staffed := $(subst $(comma), ,$(STAFF))
halves := $(notdir $(wildcard labs/staff/$(firstword $(ARCHS))/lab$(stage)/$(stage).*))
# While a file of the second half is as handed out, the kernel is linked with the staff's objects
# for that half.
waiting := $(if $(halves),$(filter-out $(staffed), \
	$(shell $(PYTHON) labs/begun.py --waiting $(stage))))
staffed += $(waiting)
ifneq ($(strip $(staffed)),)
staff_labs := $(sort $(notdir $(wildcard labs/staff/$(firstword $(ARCHS))/lab$(stage)/*)))
$(if $(wildcard labs/staff),,$(error STAFF=$(STAFF): this tree has no objects of the staff's; \
	make handout puts them into the students'))
$(if $(filter-out $(filter-out $(stage),$(STAGES)) $(halves),$(staffed)),$(error STAFF=$(STAFF): \
	LAB=$(stage) can have the staff's objects of these labs: $(or $(staff_labs),none)))
# This kernel has no file of a later lab, and not every earlier lab has a file in it.
staffed := $(filter $(staff_labs),$(staffed))

ifneq ($(filter 2,$(staffed)),)
staff_recordmcount := labs/staff/$(host)/recordmcount
$(if $(wildcard $(staff_recordmcount)),,$(error STAFF=$(STAFF): the staff's recordmcount is not \
	made for this machine, $(host)))
endif
endif

# Objects of files that students neither write nor get (HIDDEN in the instructor's labs/handout.py).
always_of = labs/staff/$1/always$(stage)
always = $(patsubst $(always_of)/%,%,$(wildcard $(always_of)/kern/ftrace/*/*.o))
ftrace_c += $(patsubst %.o,%.c,$(call always,$(firstword $(ARCHS))))
