# make lint: what each of its parts runs. With CI=1 a finding is an error.
cppcheck := cppcheck --quiet --std=c11 --enable=warning,portability --inline-suppr \
	--error-exitcode=$(if $(CI),1,0) --suppress=preprocessorErrorDirective \
	--suppress=comparePointers --suppress=constStatement --suppress=selfAssignment \
	--suppress=subtractPointers --suppress=normalCheckLevelMaxBranches \
	'--suppress=syntaxError:kern/arch/*/firmware_call.c' '--suppress=uninitvar:*/asm/arch.h' \
	--suppress=uninitvar:kern/ftrace/tests/kt.h -i kern/tests/own-program.c \
	-i kern/ftrace/tests/far-program.c --file-filter='*.c'
# Newer packages have types that older ones do not have. So an unused "type: ignore" and a call
# without types are allowed.
mypy := mypy --python-executable $(PYTHON) --strict --no-warn-unused-ignores --allow-untyped-calls

.PHONY: lint cppcheck rooms shellcheck mypy
lint: cppcheck rooms shellcheck mypy sizes ## cppcheck, shellcheck, mypy, sizes, and that rooms
## depend on each other in one direction
cppcheck: $(setup)
	+@$(call build,build/riscv64,kern/kernel.mk ARCH=riscv64 build/riscv64/include/.links)
	@$(cppcheck) -Ikern $(addprefix -I,$(kern_rooms) $(ftrace_rooms) kern/shell) \
	-I build/riscv64/include -D__riscv -D__riscv_xlen=64 kern qemu
# These labs' kernels have all files between them.
rooms := $(foreach lab,2 3 5 8,$(ARCHS:%=build/%/lab$(lab)))
rooms: $(setup)
	+@for lab in 2 3 5 8; do for arch in $(ARCHS); do $(call build,build/$$arch,kern/kernel.mk \
	ARCH=$$arch LAB=$$lab START= STAFF= TESTS= APP= build/$$arch/lab$$lab/callsite.elf) \
	>/dev/null || exit; done; done
	@$(PYTHON) kern/ftrace/tools/rooms.py $(rooms)
	@$(PYTHON) -m grading.selftest.rooms
scripts = $$(git ls-files | xargs grep -slE '^\#!/(bin/|usr/bin/env )(ba)?sh')
shellcheck: $(setup)
	@shellcheck $(scripts) $(if $(CI),,|| true)
mypy: $(setup)
	@$(mypy) grading qemu docs boot $(if $(CI),,|| true)
	@for f in labs/*.py labs/*/checks.py; do $(mypy) $$f || fail=1; done; \
	[ -z "$$fail" ] $(if $(CI),,|| true)
