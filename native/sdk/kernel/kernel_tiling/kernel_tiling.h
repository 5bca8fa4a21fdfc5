/* The plain tiling records. */
#ifndef CONVGRAD_KERNEL_TILING_H
#define CONVGRAD_KERNEL_TILING_H
#include "convgrad_tile/records.h"
#endif
