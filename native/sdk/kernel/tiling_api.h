/* The same as tiling/tiling_api.h. */
#ifndef CONVGRAD_TILING_API_H
#define CONVGRAD_TILING_API_H
#include "tiling/tiling_api.h"
#endif
