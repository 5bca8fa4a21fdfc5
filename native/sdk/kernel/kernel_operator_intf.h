/* The same as kernel_operator.h. */
#ifndef CONVGRAD_KERNEL_OPERATOR_INTF_H
#define CONVGRAD_KERNEL_OPERATOR_INTF_H
#include "kernel_operator.h"
#endif
