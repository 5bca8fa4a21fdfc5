/* Graph builds have no part here: only the name. */
#ifndef CONVGRAD_GRAPH_TENSOR_H
#define CONVGRAD_GRAPH_TENSOR_H

#endif
