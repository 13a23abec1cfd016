"""A class is graded: `make grade-class`. Begin with __main__.py; layouts.py finds who handed in
what, intake.py takes a lab's files out of it, one.py grades one submission in a sandbox, and
results.py writes what the class gets."""
