# Which host tests can be used with the files that were begun, in the student's tree. Part of
# kern/tests/host.mk.

# Lab 5's host test is linked with labs 2 to 4, and with the hidden objects of lab 5.
graph_test := kern/ftrace/tests/graph_test.cc
$(graph_test).staff_obj := $(wildcard $(foreach n,$(staffed) always, \
	labs/staff/$(host)/$n/kern/ftrace/*/*.o))
$(graph_test).staff_src := $(foreach o,$($(graph_test).staff_obj:.o=.c), \
	kern/ftrace/$(lastword $(subst /kern/ftrace/, ,$o)))

# $(call begun,tests): the tests for which every needed file was changed. For other tests that were
# asked for, it prints why not.
ifneq ($(wildcard labs/staff),)
ifneq ($(filter host-tests build/host/%,$(MAKECMDGOALS)),)
asked_for = $(addsuffix .cc,$(addprefix %/,$(notdir $(filter build/host/%,$(MAKECMDGOALS)))))
begun = $(shell $(PYTHON) labs/begun.py $(addprefix --staff=,$($(graph_test).staff_src)) \
	$(if $(filter host-tests,$(MAKECMDGOALS)),$1,$(filter $(asked_for),$1)))
endif
build/host/graph_test: FORCE # with STAFF= and without
build/host/%_test:
	@echo "$@ is not built"; exit 1
FORCE:
endif
