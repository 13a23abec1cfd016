"""Graded boots. Begin with session.py (class Session); labs 5 and 6 type more (graph_session.py), and schedules have a boot of their own."""
