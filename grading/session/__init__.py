"""Graded boots. Begin with rubric.py (what a lab is) and session.py (class Session). Other classes
type more: graph_session.py for labs 5 and 6, module_session.py for lab 7, probe_session.py for lab
8. Schedules have a boot of their own (schedule_session.py). A machine at a serial line is driven by
line_session.py, in labs 7 and 8 by line_parts.py."""
