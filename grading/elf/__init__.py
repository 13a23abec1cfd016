"""What the build made. Begin with elf.py (class Kernel). names.py lists the names that a kernel
must have; handed_in.py says what a handed-in object may have; module.py and link.py read modules.
"""
