/* The same as tiling/conv_backprop/conv3d_bp_filter_tiling.h. */
#ifndef CONVGRAD_ADV_API_FILTER_TILING_H
#define CONVGRAD_ADV_API_FILTER_TILING_H
#include "tiling/conv_backprop/conv3d_bp_filter_tiling.h"
#endif
