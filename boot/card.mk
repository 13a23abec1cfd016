# What U-Boot boots from: boot/card.py makes it.
#
#   OUT=file.img         make sdcard: the card's image, instead of build/<arch>/sdcard.img
.PHONY: sdcard tftp $(ARCHS:%=sdcard-%) $(ARCHS:%=tftp-%)
sdcard: $(WANTED:%=sdcard-%) ## [ARCH=..] [OUT=file.img] [APPEND='..']: an SD card's image for
## U-Boot: build/<arch>/sdcard.img
tftp: $(WANTED:%=tftp-%) ## [ARCH=..] [APPEND='..']: the same files for a TFTP server:
## build/<arch>/tftp/

# OUT and APPEND are read from the environment, so that quotes in them do no harm.
# $(call card,folder): write the files into build/<arch>/<folder>/.
card = flock build/$*/.lock $(PYTHON) boot/card.py --arch $* --image build/$*/$(variant)/Image \
	--initrd $(call initrd_of,$*) --folder build/$*/$1
sd_image = build/$*/sdcard.img
$(ARCHS:%=sdcard-%): sdcard-%: kernel-%
	$(if $(OUT),$(call needs_arch,sdcard OUT=..,: a card is for one architecture))
	$(call say,CARD,$(or $(OUT),$(sd_image)))$(call card,card) --out "$${OUT:-$(sd_image)}"
$(ARCHS:%=tftp-%): tftp-%: kernel-%
	$(call say,TFTP,build/$*/tftp)$(call card,tftp)
