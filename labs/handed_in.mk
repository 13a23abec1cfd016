# What students hand in: the files that each lab's rubric.toml names. The compiler reads them in a
# sandbox, and the objects are checked before they are linked.
handed_in := $(shell sed -n 's/^files = \[\(.*\)\]$$/\1/p' labs/*/rubric.toml | tr -d '",')
handed_in := $(foreach a,$(ARCHS),$(subst <arch>,$a,$(handed_in)))
# No warning about an unused function: the bodies that call it may not be written yet.
handed_in_c := $(patsubst %.c,%.o,$(filter kern/%.c,$(handed_in)))
$(addprefix %/,$(handed_in_c)): ftrace_cflags += -Wno-unused-function
# $(call walled,folders): before a compiler's command; what it may see besides itself. Not with
# TESTS=1, which no class's kernel has.
walled = $(if $(TESTS),,$(if $(filter $<,$(handed_in)), \
	$(PYTHON) kern/ftrace/tools/compile.py $1 --))
