"""The checks that labs share. Begin with checks.py; align.py pairs printed events with executed
calls; module_checks.py is about modules.

A check of one lab only is in labs/<n>-<name>/checks.py. Checks read the evidence, and never the
machine.
"""
