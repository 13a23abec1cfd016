# The rooms of the kernel (kern/README.md): a file uses only what its own room or one before it defines.
kern_rooms := kern/base kern/mm
kern_includes := $(addprefix -iquote ,$(kern_rooms)) $(ftrace_includes)
kern_headers := $(wildcard kern/*.h $(kern_rooms:%=%/*.h)) $(ftrace_headers)
