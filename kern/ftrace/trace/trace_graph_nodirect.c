/* Stage 5: function_graph has no way of its own for a single user. */
#include "trace_graph_event.h"

const struct fgraph_direct trace_graph_direct = {NULL};
