"""What one boot left. Begin with evidence.py (class Evidence): the printed text, and the Truth that truth.py makes of the observer's log.

trials.py, steps.py and schedules.py make what is observed: random ops, single steps through a stub, forced interleavings.
"""
