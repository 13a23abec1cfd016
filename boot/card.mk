# What U-Boot boots from: boot/card.py makes it.
#
#   OUT=file.img         make sdcard: the card's image, instead of build/<arch>/sdcard.img
.PHONY: sdcard tftp $(ARCHS:%=sdcard-%) $(ARCHS:%=tftp-%)
sdcard: $(WANTED:%=sdcard-%) ## [ARCH=..] [OUT=file.img] [APPEND='..']: an SD card's image for U-Boot: build/<arch>/sdcard.img
tftp: $(WANTED:%=tftp-%) ## [ARCH=..] [APPEND='..']: the same files for a TFTP server: build/<arch>/tftp/

# OUT and APPEND are read from the environment, so that quotes in them do no harm.
card = flock build/$1/.lock $(PYTHON) boot/card.py --arch $1 --image $2 --initrd $(call initrd_of,$1)
$(ARCHS:%=sdcard-%): sdcard-%: kernel-%
	$(if $(OUT),$(if $(ARCH),,$(error make sdcard OUT=.. needs ARCH=riscv64 or ARCH=arm64: a card is for one architecture)))
	$(call say,CARD,$(or $(OUT),build/$*/sdcard.img))$(call card,$*,build/$*/$(variant)/Image) --folder build/$*/card --out "$${OUT:-build/$*/sdcard.img}"
$(ARCHS:%=tftp-%): tftp-%: kernel-%
	$(call say,TFTP,build/$*/tftp)$(call card,$*,build/$*/$(variant)/Image) --folder build/$*/tftp
