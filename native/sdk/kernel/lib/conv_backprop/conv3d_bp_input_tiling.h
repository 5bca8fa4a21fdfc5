/* The same as tiling/conv_backprop/conv3d_bp_input_tiling.h. */
#ifndef CONVGRAD_LIB_INPUT_TILING_H
#define CONVGRAD_LIB_INPUT_TILING_H
#include "tiling/conv_backprop/conv3d_bp_input_tiling.h"
#endif
