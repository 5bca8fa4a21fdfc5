/* The same as tikicpulib.h. */
#ifndef CONVGRAD_CPU_DEBUG_LAUNCH_H
#define CONVGRAD_CPU_DEBUG_LAUNCH_H
#include "tikicpulib.h"
#endif
