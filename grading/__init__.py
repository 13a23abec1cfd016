"""The grading harness: holds what the console prints against what the processor executed."""
