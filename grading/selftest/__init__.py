"""The grader is graded: wrong.py and mutants.py grade wrong code, soak.py right code with many
seeds; cost.py measures a grade."""
