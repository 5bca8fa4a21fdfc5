/* Type parameters of both kernel objects. */
#ifndef CONVGRAD_TILE_CONV_TYPES_H
#define CONVGRAD_TILE_CONV_TYPES_H

#include "convgrad_tile/tensor.h"

namespace ConvBackpropApi {

template <AscendC::TPosition POSITION, ConvCommonApi::ConvFormat FORMAT, typename T>
struct ConvType {
    static constexpr AscendC::TPosition pos = POSITION;
    static constexpr ConvCommonApi::ConvFormat format = FORMAT;
    using Type = T;
};

enum class B2Condition : uint8_t { BASEK_LT_HKWK = 0, BASEK_GE_HKWK, HKWK_EQ_ONE };
struct Conv3dConfig {
    B2Condition loadB2Condition = B2Condition::BASEK_LT_HKWK;
    bool enableKernelSplit = false;
};
inline constexpr Conv3dConfig CONV3D_CFG_DEFAULT = {B2Condition::BASEK_GE_HKWK, false};

template <typename T>
struct GetDstType {
    using Type = float;
};
template <>
struct GetDstType<int8_t> {
    using Type = int32_t;
};

#include "convgrad_tile/type_demands.inc"

}  // namespace ConvBackpropApi

#endif
