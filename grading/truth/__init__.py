"""What was executed. Begin with truth.py (class Truth), which is made of the observer's log; returns.py follows each call to its return."""
