/* The host side tiling objects. */
#ifndef CONVGRAD_TILING_TILING_API_H
#define CONVGRAD_TILING_TILING_API_H
#include "tiling/conv_backprop/conv3d_bp_filter_tiling.h"
#include "tiling/conv_backprop/conv3d_bp_input_tiling.h"
#include "tiling/platform/platform_ascendc.h"
#endif
