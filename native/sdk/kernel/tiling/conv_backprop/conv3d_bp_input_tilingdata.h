/* The tiling records, for the host: namespace optiling. */
#ifndef CONVGRAD_TILING_INPUT_TILINGDATA_H
#define CONVGRAD_TILING_INPUT_TILINGDATA_H
#include "convgrad_tile/records.h"
#endif
