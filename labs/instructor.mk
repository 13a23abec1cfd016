# The labs' two states: what a student is given to write, and the tree that she gets.
#
# A student file holds both states under `#if LAB_START == n`, inside the bodies
# of the functions that are the lesson. START=n builds the start of lab n here;
# `make handout` resolves the conditions for good.
starts := 1 2 3 4 5 6
both = $(foreach a,$(ARCHS),kern/ftrace/$a/$1)
student.1 := $(call both,mcount.S)
student.2 := kern/ftrace/recordmcount.c kern/ftrace/records.c
student.3 := $(call both,insn.h) $(call both,patch.c) $(call both,mcount_caller.S)
student.4 := $(call both,caller.S) kern/ftrace/ops.c kern/ftrace/hash.c
student.5 := $(call both,graph.S) $(call both,graph_caller.S) kern/ftrace/graph.c kern/ftrace/shadow.h
student.6 := kern/ftrace/fgraph.c kern/ftrace/shadow_walk.c

ifdef START
ifeq ($(filter $(START),$(starts)),)
$(error START=$(START) is not one of: $(starts))
endif
ifneq ($(or $(LAB),$(START)),$(START))
$(error START=$(START) is the start of lab $(START), not of LAB=$(LAB))
endif
endif

# What a lab's stage alone is made of does not go to who has not come so far.
handout_labs := $(or $(LABS),1-4)
.PHONY: handout
handout: build/.setup ## OUT=dir [LABS=1-4]: the tree that students get: starts, no solutions, one commit
	$(if $(OUT),,$(error make handout needs OUT=dir))
	@$(PYTHON) labs/handout.py $(OUT) --labs $(handout_labs) $(foreach n,$(starts),--student $n $(student.$n)) \
	$(foreach n,$(STAGES),--stage $n $(ftrace_lab.$n) $(ftrace_tests.$n))
