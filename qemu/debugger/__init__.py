"""What gdb learns about Callsite: loaded by start.py inside gdb, nowhere else."""
