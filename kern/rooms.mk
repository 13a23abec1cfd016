# The rooms of the kernel, in their order: a file includes only headers of its own room and of those
# before it, and uses only names that these define. `make lint` checks it, with both architectures
# (kern/ftrace/tools/rooms.py). kern/README.md says what each room is.
#
# A room is a folder. What all see lies in kern/ itself: app.h, arch.h, errno.h, types.h ...
kern_rooms := kern/base kern/mm kern/sched kern/fs kern/trap kern/console
rooms := $(kern_rooms) $(ftrace_rooms) kern/shell kern/loader kern/apps kern
# What belongs to a room and lies elsewhere. In kern/, only the sources are a room: the last one.
room_too.kern/base := kern/arch/*/firmware_call.c
room_too.kern/mm := kern/arch/*/tlb.c
room_too.kern/sched := $(addprefix kern/arch/*/,switch.S timer.c firmware.c irqchip.c aia.c \
	bcm2836.c)
room_too.kern/trap := $(addprefix kern/arch/*/,entry.S trap.c unwind.c)
room_too.kern/ftrace/core := kern/ftrace/*/islands.S
room_too.kern/ftrace/graph := kern/ftrace/*/graph.S kern/ftrace/*/graph_caller.S
room_too.kern/ftrace/modules := kern/ftrace/*/trampoline.c
room_too.kern/loader := kern/arch/*/reloc.c
room_too.kern/apps := kern/apps/lib/*
room.kern := kern/*.c boot/*/head.S
# In no room: what call sites call. It reads the slots, or the one tracer, of ops/, and core/
# patches calls of it. These files are the only circle of more than three that does not lie inside
# a room.
room_none := $(addprefix kern/ftrace/*/,mcount.S mcount_caller.S caller.S)
room_circle := $(room_none) $(addprefix kern/ftrace/core/,dynamic.c ftrace.c patch.c) \
	$(addprefix kern/ftrace/ops/,ops.c single.c)
room_files = $(or $(room.$1),$1/*) $(room_too.$1)

kern_includes := $(addprefix -iquote ,$(kern_rooms) $(ftrace_rooms) kern/shell)
kern_headers := $(wildcard $(addsuffix /*.h,kern $(kern_rooms) kern/shell kern/loader \
	$(ftrace_rooms) kern/ftrace/riscv64 kern/ftrace/arm64))
