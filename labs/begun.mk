# Which host tests can be used with the files that were begun, in the student's tree. Part of
# kern/tests/host.mk.

# The objects that make handout has put there for a lab's tests: of the labs before it (STAFF=), and
# of files that students do not get.
define staff_of_test
kern/ftrace/tests/$1.cc.staff_obj := $(wildcard $(foreach n,$(staffed) always, \
	labs/staff/$(host)/$1/$n/kern/ftrace/*/*.o))
kern/ftrace/tests/$1.cc.staff_src = $$(foreach o,$$(kern/ftrace/tests/$1.cc.staff_obj:.o=.c), \
	kern/ftrace/$$(lastword $$(subst /kern/ftrace/, ,$$o)))
build/host/$1: FORCE # with STAFF= and without
endef
$(foreach t,$(notdir $(wildcard labs/staff/$(host)/*_test)),$(eval $(call staff_of_test,$t)))

# $(call begun,tests): the tests for which every needed file was changed. For other tests that were
# asked for, it prints why not. A grade (graded=1) runs the tests of files as handed out, too.
ifneq ($(wildcard labs/staff),)
ifneq ($(filter host-tests build/host/%,$(MAKECMDGOALS)),)
asked_for = $(addsuffix .cc,$(addprefix %/,$(notdir $(filter build/host/%,$(MAKECMDGOALS)))))
begun = $(shell $(PYTHON) labs/begun.py $(if $(graded),--graded) $(staffed:%=--staffed=%) \
	$(if $(filter host-tests,$(MAKECMDGOALS)),$1,$(filter $(asked_for),$1)))
endif
build/host/%_test:
	@echo "$@ is not built"; exit 1
FORCE:
endif
