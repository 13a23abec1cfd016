# What only the instructor has: both states of a lab, and the tree that students get.
#
# A student file holds both states under `#if LAB_START == n`, inside the bodies
# of the functions that are the lesson; which files those are, the lab's
# rubric.toml says. START=n builds the start of lab n here; `make handout`
# resolves the conditions for good.
#
#   START=n              the start of lab n, as its students get it
#   OUT=dir LABS=0-4     make handout: where to, and which labs
ifdef START
ifeq ($(filter $(START),$(STAGES)),)
$(error START=$(START) is not one of: $(STAGES))
endif
ifneq ($(or $(LAB),$(START)),$(START))
$(error START=$(START) is the start of lab $(START), not of LAB=$(LAB))
endif
endif

# What a lab's stage alone is made of does not go to who has not come so far.
.PHONY: handout
handout: build/.setup ## OUT=dir [LABS=0-4]: the tree that students get: starts, the staff's objects, one commit
	$(if $(OUT),,$(error make handout needs OUT=dir))
	@$(PYTHON) labs/handout.py '$(OUT)' --labs '$(or $(LABS),0-$(last_graded))' $(foreach n,$(STAGES),--stage $n $(ftrace_lab.$n) $(ftrace_tests.$n))

.PHONY: test-labs
test-labs: $(setup) ## [LAB=n] [ARCH=..] [SEED=n]: solutions, starts and wrong solutions get what they must (half an hour); SEED: what .ci/run took
	@$(PYTHON) -m grading.selftest.wrong $(if $(LAB),--lab $(LAB)) $(if $(ARCH),--arch $(ARCH)) $(if $(SEED),--third --seed $(SEED))

.PHONY: test-mutants
test-mutants: $(setup) ## [LAB=n] [ARCH=..] [COUNT=60] [SEED=..] [JOBS=1]: small mistakes put into the solutions must lose points (hours); goes on where it was ended
	@$(PYTHON) -m grading.selftest.mutants $(if $(LAB),--lab $(LAB)) $(if $(ARCH),--arch $(ARCH)) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed '$(SEED)') $(if $(JOBS),--jobs $(JOBS))
