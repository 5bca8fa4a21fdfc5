/* Matrix products are no part of this: the header is here for kernels that include it. */
#ifndef CONVGRAD_MATMUL_INTF_H
#define CONVGRAD_MATMUL_INTF_H
#include "kernel_operator.h"
#endif
