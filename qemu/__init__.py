"""How QEMU is started: the machines, the observer, `make run`."""
