"""A running machine. Begin with machine.py (class Run): it owns QEMU, the console, the debugger
stub and the observer's log."""
