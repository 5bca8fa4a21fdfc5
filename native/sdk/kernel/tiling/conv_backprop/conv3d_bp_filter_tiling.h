/* ConvBackpropApi::Conv3dBpFilterTiling: shapes in, a tiling record of Conv3DBackpropFilter out. */
#ifndef CONVGRAD_CONV3D_BP_FILTER_TILING_H
#define CONVGRAD_CONV3D_BP_FILTER_TILING_H

#include "tiling/conv_backprop/conv3d_bp_filter_tiling_base.h"

namespace ConvBackpropApi {

class Conv3dBpFilterTiling : public Conv3dBpFilterTilingBase {
public:
    Conv3dBpFilterTiling() = default;
    explicit Conv3dBpFilterTiling(const platform_ascendc::PlatformAscendC &platform) : Conv3dBpFilterTilingBase(platform) {}
    explicit Conv3dBpFilterTiling(const PlatformInfo &platform) : Conv3dBpFilterTilingBase(platform) {}

    /* 0; or -1, the record is left alone and convgrad_tile_reason() says why. */
    int64_t GetTiling(AscendC::tiling::Conv3DBackpropFilterTilingData &tiling) { return get_tiling(CGT_FILTER, &tiling); }
};

}  // namespace ConvBackpropApi

#endif
