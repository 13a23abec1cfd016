# What U-Boot boots from: boot/card.py makes it.
#
#   OUT=file.img         make sdcard: the card's image, instead of build/<arch>/sdcard.img
.PHONY: sdcard tftp
sdcard: $(WANTED:%=sdcard-%) ## [ARCH=..] [OUT=file.img] [APPEND='..']: an SD card's image for U-Boot: build/<arch>/sdcard.img
tftp: $(WANTED:%=tftp-%) ## [ARCH=..] [APPEND='..']: the same files for a TFTP server: build/<arch>/tftp/

card = $(PYTHON) boot/card.py --arch $1 --image $2 --initrd build/initrd.cpio
$(ARCHS:%=sdcard-%): sdcard-%: build/%/$(variant)/Image build/initrd.cpio FORCE
	$(if $(OUT),$(if $(ARCH),,$(error make sdcard OUT=.. needs ARCH=riscv64 or ARCH=arm64: a card is for one architecture)))
	$(call say,CARD,$(or $(OUT),build/$*/sdcard.img))$(call card,$*,$<) --folder build/$*/card --out '$(or $(OUT),build/$*/sdcard.img)'
$(ARCHS:%=tftp-%): tftp-%: build/%/$(variant)/Image build/initrd.cpio FORCE
	$(call say,TFTP,build/$*/tftp)$(call card,$*,$<) --folder build/$*/tftp
