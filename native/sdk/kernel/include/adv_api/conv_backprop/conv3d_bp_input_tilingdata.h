/* The same as tiling/conv_backprop/conv3d_bp_input_tilingdata.h. */
#ifndef CONVGRAD_ADV_API_INPUT_TILINGDATA_H
#define CONVGRAD_ADV_API_INPUT_TILINGDATA_H
#include "tiling/conv_backprop/conv3d_bp_input_tilingdata.h"
#endif
