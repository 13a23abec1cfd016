"""The grading harness: compares what the console prints with what the processor executed."""
