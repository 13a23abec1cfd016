"""Graded boots. Begin with rubric.py (what a lab is) and session.py (class Session). Labs 5 and 6 type more (graph_session.py), lab 7
loads modules (module_session.py), and schedules have a boot of their own (schedule_session.py)."""
