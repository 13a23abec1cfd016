"""What was executed. Begin with truth.py (class Truth), which is built from the observer's log;
returns.py follows each call to its return."""
