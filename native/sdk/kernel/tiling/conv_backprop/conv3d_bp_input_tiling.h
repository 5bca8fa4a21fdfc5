/* ConvBackpropApi::Conv3DBpInputTiling: shapes in, a tiling record of Conv3DBackpropInput out. */
#ifndef CONVGRAD_CONV3D_BP_INPUT_TILING_H
#define CONVGRAD_CONV3D_BP_INPUT_TILING_H

#include "tiling/conv_backprop/conv3d_bp_input_tiling_base.h"

namespace ConvBackpropApi {

class Conv3DBpInputTiling : public Conv3DBpInputTilingBase {
public:
    Conv3DBpInputTiling() = default;
    explicit Conv3DBpInputTiling(const platform_ascendc::PlatformAscendC &platform) : Conv3DBpInputTilingBase(platform) {}
    explicit Conv3DBpInputTiling(const PlatformInfo &platform) : Conv3DBpInputTilingBase(platform) {}

    /* 0; or -1, the record is left alone and convgrad_tile_reason() says why. */
    int64_t GetTiling(AscendC::tiling::Conv3DBackpropInputTilingData &tiling) {
        if (get_tiling(CGT_INPUT, &tiling) != 0) return -1;
        request_.zeroed_before = tiling.conv3DDxTiling.initOutputFlag;
        return 0;
    }
};

}  // namespace ConvBackpropApi

#endif
