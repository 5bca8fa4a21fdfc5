/* The plain tiling records, as a kernel reads them: the vendor's field order, packed to 8, every field 0. */
#ifndef CONVGRAD_TILE_RECORDS_H
#define CONVGRAD_TILE_RECORDS_H

#include <cstddef>
#include <cstdint>

#include "convgrad_tile/records.inc"

namespace AscendC {
namespace tiling {
#pragma pack(push, 8)
#define CGT_FIELD_U32(name) uint32_t name = 0;
#define CGT_FIELD_I32(name) int32_t name = 0;
#define CGT_FIELD_U64(name) uint64_t name = 0;
#define CGT_RECORD(type, FIELDS) \
    struct type { FIELDS(CGT_FIELD_U32, CGT_FIELD_I32, CGT_FIELD_U64) };
CGT_RECORD(TConv3DBackpropInputTiling, CGT_INPUT_FIELDS)
CGT_RECORD(TConv3DBpFilterTiling, CGT_FILTER_FIELDS)
CGT_RECORD(Conv3DBpFilterParams, CGT_PARAMS_FIELDS)
CGT_RECORD(TConv3DBpFilterBasicBlockTiling, CGT_BLOCK_FIELDS)
#undef CGT_RECORD
#undef CGT_FIELD_U64
#undef CGT_FIELD_I32
#undef CGT_FIELD_U32
struct Conv3DBackpropInputTilingData {
    TConv3DBackpropInputTiling conv3DDxTiling;
};
struct Conv3DBackpropFilterTilingData {
    Conv3DBpFilterParams params;
    TConv3DBpFilterTiling dwTiling;
    TConv3DBpFilterBasicBlockTiling basicBlockTiling;
};
#pragma pack(pop)
using TConv3DDwTiling = TConv3DBpFilterTiling;
static_assert(sizeof(TConv3DBackpropInputTiling) == 280, "66 fields");
static_assert(offsetof(TConv3DBackpropInputTiling, singleCoreBatch) == 256, "the 64-bit fields come last");
static_assert(sizeof(TConv3DBpFilterTiling) == 216, "52 fields");
static_assert(offsetof(TConv3DBpFilterTiling, singleCoreBatch) == 200, "the 64-bit fields come last");
static_assert(sizeof(Conv3DBackpropInputTilingData) == 280, "one member");
static_assert(sizeof(Conv3DBackpropFilterTilingData) == 240, "three members");
static_assert(offsetof(Conv3DBackpropFilterTilingData, dwTiling) == 8, "aligned to 8");
static_assert(offsetof(Conv3DBackpropFilterTilingData, basicBlockTiling) == 224, "after the record");
}  // namespace tiling
}  // namespace AscendC

using AscendC::tiling::Conv3DBackpropFilterTilingData;
using AscendC::tiling::Conv3DBackpropInputTilingData;
using AscendC::tiling::Conv3DBpFilterParams;
using AscendC::tiling::TConv3DBackpropInputTiling;
using AscendC::tiling::TConv3DBpFilterBasicBlockTiling;
using AscendC::tiling::TConv3DBpFilterTiling;

#endif
