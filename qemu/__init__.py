"""Starts QEMU: the machines, the observer, `make run`."""
