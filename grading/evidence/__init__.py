"""What one boot left. Begin with evidence.py (class Evidence): the printed text, and the Truth. finding.py is what a check returns."""
