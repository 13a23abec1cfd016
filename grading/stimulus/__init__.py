"""What a boot is made to do. workload.py and, in modules, seeded.py work out the calls that follow from the seed; trials.py chooses ops at random; steps.py steps
through a stub; schedules.py forces interleavings. The last two drive the machine, and session/ calls them."""
