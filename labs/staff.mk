# The rules that put the staff's objects into the folder of a kernel. Part of kern/kernel.mk.
staff_folder := labs/staff/$(ARCH)/lab$(stage)
define staff_object
$(out)/$2: $1/$2
	$$(call say,STAFF,$$@)mkdir -p $$(@D) && cp $$< $$@
endef
$(foreach n,$(staffed),$(foreach o,$(shell cd $(staff_folder)/$n && find * -name '*.o'),\
	$(eval $(call staff_object,$(staff_folder)/$n,$o))))
$(foreach o,$(call always,$(ARCH)),$(eval $(call staff_object,$(call always_of,$(ARCH)),$o)))
