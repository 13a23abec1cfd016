/* Stage 5: function_graph has no direct path. */
#include "trace_graph_event.h"

const struct fgraph_direct trace_graph_direct = {NULL};
