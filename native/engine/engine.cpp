#include "convgrad.h"

extern "C" CG_API int32_t cg_abi_version(void) { return CG_ABI_VERSION; }
