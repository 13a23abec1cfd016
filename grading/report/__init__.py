"""Which rungs a lab has and which were reached. Begin with rubric.py and report.py; replay.py repeats a boot up to a finding."""
