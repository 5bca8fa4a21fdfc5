/* Positions, layouts and dtypes: one enumeration under each name that kernel and host code know it by. */
#ifndef CONVGRAD_TILE_ENUMS_H
#define CONVGRAD_TILE_ENUMS_H

#include <cstdint>

#include "convgrad_tile/enums.inc"

namespace AscendC {
enum class TPosition : uint8_t { CGT_TPOSITION_ENUMERATORS };
using QuePosition = TPosition;
}  // namespace AscendC
namespace matmul_tiling {
using AscendC::TPosition;
}
namespace ConvCommonApi {
using AscendC::TPosition;
enum class ConvFormat : uint32_t { CGT_CONVFORMAT_ENUMERATORS };
enum class ConvDtype : uint32_t { CGT_CONVDTYPE_ENUMERATORS };
}  // namespace ConvCommonApi

#endif
