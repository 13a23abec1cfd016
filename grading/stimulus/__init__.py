"""What a boot is made to do. workload.py and, for modules, seeded.py compute the calls that follow
from the seed; trials.py chooses ops at random; schedules.py forces interleavings: it drives the
machine, and session/ calls it."""
