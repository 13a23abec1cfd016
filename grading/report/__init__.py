"""The report of a grade. Begin with report.py; replay.py finds the moment at which a finding
happened, and repeats the boot up to it."""
