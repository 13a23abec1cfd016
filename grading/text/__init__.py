"""Parses the `trace` file, in Linux's format: trace_text.py for the function tracer, graph_text.py
for function_graph."""
