/* The same as kernel_operator.h. */
#ifndef CONVGRAD_KERNEL_TYPE_H
#define CONVGRAD_KERNEL_TYPE_H
#include "kernel_operator.h"
#endif
