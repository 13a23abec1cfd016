"""All that is known of one boot. Begin with evidence.py (class Evidence): the printed text, and the
Truth. A check returns a finding.Finding."""
