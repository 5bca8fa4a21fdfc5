/* The same as tiling/conv_backprop/conv3d_bp_filter_tiling_base.h. */
#ifndef CONVGRAD_ADV_API_FILTER_TILING_BASE_H
#define CONVGRAD_ADV_API_FILTER_TILING_BASE_H
#include "tiling/conv_backprop/conv3d_bp_filter_tiling_base.h"
#endif
