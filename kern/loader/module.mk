# How modules are built, and the initrd that has them. Part of kern/kernel.mk.
#
# Modules are compiled for the finished kernel, whichever lab is built. A module of somebody's own
# (MODULE=) is built in the same way, and is in an initrd of its own.
modules_of = $(patsubst %,build/$(ARCH)/$1/%.ko,$(basename $(notdir $2)))
modules := $(call modules_of,modules,$(wildcard kern/samples/*.c))
own_module := $(call modules_of,own-modules,$(MODULE))
test_modules := $(call modules_of,test-modules,$(wildcard kern/tests/modules/*.c))
packed := $(modules) $(own_module) $(if $(TESTS),$(test_modules))
# The proof goes through these with the kernel.
proved_modules := $(if $(has_modules),$(packed))

module_flags := $(filter-out -g -Werror,$(CFLAGS)) -DSTAGE=$(LAST_LAB) -DHOOK_entry=1 -DMODULE=1 \
	$(arch_cflags) $(traced.entry) -iquote kern $(kern_includes) -iquote $(shared)
module = $(call say,MODULE,$@)$(cc) $(module_flags) $(if $(CI),-Werror) $(depends) \
	-MF $@.d -MT $@ -c -o $@.new $< && mv $@.new $@
# $(call keep,words): write the words into $@, unless it has them. The files below depend on it.
keep = mkdir -p $(@D); echo '$1' | cmp -s - $@ || echo '$1' > $@

build/$(ARCH)/modules/flags build/$(ARCH)/test-modules/flags: FORCE
	@$(call keep,$(module_flags))
build/$(ARCH)/own-modules/$(module_name).flags: FORCE # another file of that name is another module
	@$(call keep,$(MODULE) $(module_flags))
build/$(ARCH)/modules/%.ko: kern/samples/%.c build/$(ARCH)/modules/flags $(shared)/.links
	$(module)
build/$(ARCH)/test-modules/%.ko: kern/tests/modules/%.c build/$(ARCH)/test-modules/flags \
		$(shared)/.links
	$(module)
$(own_module): %.ko: $(MODULE) %.flags $(shared)/.links
	$(module)
-include $(wildcard build/$(ARCH)/*modules/*.ko.d)

# The initrd. If the list of modules changes, it is packed again.
initrd := $(call initrd_of,$(ARCH))
unpacked := $(initrd:.cpio=)
$(initrd).list: FORCE
	@$(call keep,$(packed))
$(initrd): $(wildcard kern/apps/initrd/*) README.md LICENSE $(packed) $(initrd).list
	$(call say,CPIO,$@)rm -rf $(unpacked) && mkdir -p $(unpacked)/lib/modules/$(ARCH) && \
	$(PYTHON) kern/apps/initrd/make.py $(unpacked) && \
	cp $(packed) $(unpacked)/lib/modules/$(ARCH) && \
	(cd $(unpacked) && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc) \
	> $@.new && mv $@.new $@
