"""The `trace` file as Linux prints it, parsed: trace_text.py for the function tracer, graph_text.py for function_graph."""
