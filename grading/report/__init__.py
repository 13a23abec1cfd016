"""What a grade says. Begin with report.py; replay.py finds the moment of a finding, and repeats the boot up to it."""
