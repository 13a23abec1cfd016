"""What the build made. Begin with elf.py (class Kernel). insn.py and names.py say what must be in it, handed_in.py what may be."""
