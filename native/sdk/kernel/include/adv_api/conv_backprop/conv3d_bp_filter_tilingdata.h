/* The same as tiling/conv_backprop/conv3d_bp_filter_tilingdata.h. */
#ifndef CONVGRAD_ADV_API_FILTER_TILINGDATA_H
#define CONVGRAD_ADV_API_FILTER_TILINGDATA_H
#include "tiling/conv_backprop/conv3d_bp_filter_tilingdata.h"
#endif
