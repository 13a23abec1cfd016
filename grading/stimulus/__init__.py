"""What a boot is made to do. workload.py and, for modules, seeded.py compute the calls that follow
from the seed; trials.py chooses ops at random; steps.py steps through _mcount; schedules.py forces
interleavings. The last two drive the machine, and session/ calls them."""
