/* The tiling records: the vendor's field order, packed to 8, every field 0. A kernel reads the fields, the host uses get_,
 * set_ and SaveToBuffer: one type under the kernel's and the host's name, so both may stand in one file. */
#ifndef CONVGRAD_TILE_RECORDS_H
#define CONVGRAD_TILE_RECORDS_H

#include "convgrad_tile/records.inc"
#include "register/tilingdata_base.h"

namespace AscendC {
namespace tiling {
#pragma pack(push, 8)
#define CGT_FIELD_U32(name) TILING_DATA_FIELD_DEF(uint32_t, name);
#define CGT_FIELD_I32(name) TILING_DATA_FIELD_DEF(int32_t, name);
#define CGT_FIELD_U64(name) TILING_DATA_FIELD_DEF(uint64_t, name);
#define CGT_RECORD(type, FIELDS) \
    BEGIN_TILING_DATA_DEF(type) FIELDS(CGT_FIELD_U32, CGT_FIELD_I32, CGT_FIELD_U64) END_TILING_DATA_DEF
CGT_RECORD(TConv3DBackpropInputTiling, CGT_INPUT_FIELDS);
CGT_RECORD(TConv3DBpFilterTiling, CGT_FILTER_FIELDS);
CGT_RECORD(Conv3DBpFilterParams, CGT_PARAMS_FIELDS);
CGT_RECORD(TConv3DBpFilterBasicBlockTiling, CGT_BLOCK_FIELDS);
#undef CGT_RECORD
#undef CGT_FIELD_U64
#undef CGT_FIELD_I32
#undef CGT_FIELD_U32
BEGIN_TILING_DATA_DEF(Conv3DBackpropInputTilingData)
TILING_DATA_FIELD_DEF_STRUCT(TConv3DBackpropInputTiling, conv3DDxTiling);
END_TILING_DATA_DEF;
BEGIN_TILING_DATA_DEF(Conv3DBackpropFilterTilingData)
TILING_DATA_FIELD_DEF_STRUCT(Conv3DBpFilterParams, params);
TILING_DATA_FIELD_DEF_STRUCT(TConv3DBpFilterTiling, dwTiling);
TILING_DATA_FIELD_DEF_STRUCT(TConv3DBpFilterBasicBlockTiling, basicBlockTiling);
END_TILING_DATA_DEF;
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

namespace optiling {
using AscendC::tiling::Conv3DBackpropFilterTilingData;
using AscendC::tiling::Conv3DBackpropInputTilingData;
using AscendC::tiling::Conv3DBpFilterParams;
using AscendC::tiling::TConv3DBackpropInputTiling;
using AscendC::tiling::TConv3DBpFilterBasicBlockTiling;
using AscendC::tiling::TConv3DBpFilterTiling;
using AscendC::tiling::TConv3DDwTiling;
}  // namespace optiling
using AscendC::tiling::Conv3DBackpropFilterTilingData;
using AscendC::tiling::Conv3DBackpropInputTilingData;
using AscendC::tiling::Conv3DBpFilterParams;
using AscendC::tiling::TConv3DBackpropInputTiling;
using AscendC::tiling::TConv3DBpFilterBasicBlockTiling;
using AscendC::tiling::TConv3DBpFilterTiling;
using AscendC::tiling::TConv3DDwTiling;

#endif
