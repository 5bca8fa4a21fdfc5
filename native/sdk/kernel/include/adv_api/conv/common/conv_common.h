/* Positions, layouts and dtypes of ConvCommonApi. */
#ifndef CONVGRAD_ADV_API_CONV_COMMON_H
#define CONVGRAD_ADV_API_CONV_COMMON_H
#include "convgrad_tile/enums.h"
#endif
