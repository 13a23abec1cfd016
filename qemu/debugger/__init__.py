"""gdb's commands for Callsite. start.py loads them inside gdb; they run nowhere else."""
