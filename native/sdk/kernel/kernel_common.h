/* The same as kernel_operator.h. */
#ifndef CONVGRAD_KERNEL_COMMON_H
#define CONVGRAD_KERNEL_COMMON_H
#include "kernel_operator.h"
#endif
