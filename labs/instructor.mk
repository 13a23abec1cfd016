# Only the instructor has this file: both states of a lab, and the tree that students get.
#
# A student file holds both states under `#if LAB_START == n`, inside the bodies
# of the functions that are the lesson; which files those are, the lab's
# rubric.toml says. START=n builds the start of lab n here; `make handout`
# resolves the conditions for good.
#
#   START=n              the start of lab n, as its students get it
#   OUT=dir LABS=0-4     make handout: where to, and which labs
#   NAME=no-sync         make wrong: one of the lab's wrong solutions
#   IN=dir OUT=dir       make grade-class: what the class handed in, and where the results go
#   OUT=file.zip         make gradescope: the file that is written
#   BEFORE=date TAG=tag  make grade-class: of a repository, the last commit before this time
#                        (2030-02-01 23:59); the commit with this tag
#   LATE=10%/day DEADLINE=date  make grade-class: what lateness costs, after the grades
#   PREPARE=1            make grade-class: write the jobs for a cluster, and grade nothing
#   LOAD=80%             make grade-class: start no submission while the host's load is higher
#   HOSTS='a me@b:2222'  make grade-class: grade on these machines, over ssh
#   SSH='ssh -F file'    make grade-class: the command for such a connection
$(call one_of,START,$(STAGES))
ifneq ($(or $(START),$(LAB)),$(or $(LAB),$(START)))
$(error START=$(START) is the start of lab $(START), not of LAB=$(LAB))
endif

# One word for the shell, whatever characters $1 has.
quoted = '$(subst ','\'',$1)'
# An option of a program, if the variable $2 has a value:  --late='10%/day'
given = $(if $($2),$1=$(call quoted,$($2)))
# The program takes only a part, which the seed selects.
part := $(if $(SEED),--part --seed $(SEED))
# Wrong solutions that only some filters, addresses or values of a seed would show.
seeded := always-the-same-function offset-too-short word-in-between hash-counts-again \
	notrace-ignored duration-not-measured filter-not-asked middle-of-a-trampoline \
	one-op-only jump-with-a-post-handler

.PHONY: handout test-labs test-attacks wrong test-mutants grade-class gradescope classroom
.PHONY: test-pages
# The files that only later stages link are left out.
linked := $(foreach n,$(STAGES),--stage $n $(ftrace_lab.$n) $(ftrace_tests.$n))
handout: $(setup) ## OUT=dir [LABS=0-4]: the tree that students get: starts, the staff's objects,
## one commit
	$(if $(OUT),,$(error make handout needs OUT=dir))
	@$(PYTHON) labs/handout.py $(call quoted,$(OUT)) \
	--labs $(call quoted,$(or $(LABS),0-$(LAST_LAB))) $(linked)

test-labs: $(setup) ## [LAB=n] [ARCH=..] [SEED=n]: solutions, starts and wrong solutions get what
## they must, some with ten seeds, and the students' tree can be used (an hour); SEED: what .ci/run
## took
	@$(PYTHON) -m grading.selftest.wrong $(chosen) $(part)
	$(if $(SEED),,@$(PYTHON) -m grading.selftest.wrong $(chosen) --seeds 10 $(seeded))
	$(if $(LAB)$(ARCH),,@$(PYTHON) -m grading.tests.handed_out $(part))

test-attacks: $(setup) ## [LAB=n] [ARCH=..] [SEED=n]: attacks on the grade get what they must;
## SEED: what .ci/run took
	@$(PYTHON) -m grading.selftest.wrong --attacks $(chosen) $(part)

wrong: $(setup) ## LAB=n NAME=..: show a wrong solution as a diff from the solution
	$(if $(and $(LAB),$(NAME)),,$(error make wrong needs LAB=n NAME=..))
	@$(PYTHON) -m grading.selftest.wrong --show --lab $(LAB) -- $(call quoted,$(NAME))

test-mutants: $(setup) ## [LAB=n] [ARCH=..] [COUNT=80] [SEED=..] [JOBS=1]: small mistakes put into
## the solutions must lose points (hours); goes on where it was ended
	@$(PYTHON) -m grading.selftest.mutants $(chosen) $(if $(COUNT),--count $(COUNT)) \
	$(if $(SEED),--seed '$(SEED)') $(if $(JOBS),--jobs $(JOBS))

grade-class: $(setup) ## LAB=n IN=dir OUT=dir [JOBS=n] [SEED=..] [BEFORE=..] [TAG=..] [LATE=..
## DEADLINE=..] [LOAD=..] [HOSTS='a b'] [PREPARE=1]: grade what a class handed in; goes on where it
## was ended
	$(if $(and $(LAB),$(IN),$(OUT)),,$(error make grade-class needs LAB=n IN=dir OUT=dir))
	@$(PYTHON) -m grading.classroom --lab $(LAB) $(call given,--in,IN) $(call given,--out,OUT) \
	$(call given,--jobs,JOBS) $(call given,--seed,SEED) $(call given,--before,BEFORE) \
	$(call given,--tag,TAG) $(if $(PREPARE),--prepare) $(call given,--late,LATE) \
	$(call given,--deadline,DEADLINE) $(call given,--load,LOAD) $(call given,--hosts,HOSTS) \
	$(call given,--ssh,SSH)

gradescope: $(setup) ## LAB=n [OUT=file.zip] [SEED=..]: an autograder for Gradescope
	$(if $(LAB),,$(error make gradescope needs LAB=n))
	@$(PYTHON) -m grading.classroom.platforms --lab $(LAB) $(call given,--seed,SEED) \
	$(call quoted,$(or $(OUT),build/lab$(LAB)-gradescope.zip))

classroom: $(setup) ## LAB=n OUT=dir: a workflow for GitHub Classroom, in a tree that make handout
## wrote
	$(if $(and $(LAB),$(OUT)),,$(error make classroom needs LAB=n OUT=dir))
	@$(PYTHON) -m grading.classroom.platforms --classroom --lab $(LAB) $(call quoted,$(OUT))

test-pages: $(setup) ## a class's pages in Chromium: sorted, searched, opened, and looked at by
## axe-core; installs Chromium first
	@.ci/install $(call needed_by,test-pages)
	@$(PYTHON) -m unittest grading.tests.test_pages
