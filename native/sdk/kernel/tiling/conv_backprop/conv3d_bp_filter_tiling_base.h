/* What Conv3dBpFilterTiling is told: shapes, the last call wins. */
#ifndef CONVGRAD_CONV3D_BP_FILTER_TILING_BASE_H
#define CONVGRAD_CONV3D_BP_FILTER_TILING_BASE_H

#include "tiling/conv_backprop/conv3d_bp_filter_tilingdata.h"
#include "tiling/conv_backprop/conv3d_bp_tiling_base.h"

namespace ConvBackpropApi {

class Conv3dBpFilterTilingBase : public Conv3DBpTilingBase {
public:
    Conv3dBpFilterTilingBase() = default;
    explicit Conv3dBpFilterTilingBase(const platform_ascendc::PlatformAscendC &platform) : Conv3DBpTilingBase(platform) {}
    explicit Conv3dBpFilterTilingBase(const PlatformInfo &platform) : Conv3DBpTilingBase(platform) {}

    void SetWeightShape(int64_t cout, int64_t cin, int64_t d, int64_t h, int64_t w) {
        request_.cout = cout, request_.cin = cin;
        set(request_.window, d, h, w);
    }
    void SetInputShape(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) {
        request_.batch = n, request_.cin = c;
        set(request_.input, d, h, w);
    }
    void SetGradOutputShape(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) {
        request_.batch = n, request_.cout = c;
        set(request_.out, d, h, w);
    }

protected:
    void SetHF32(bool hf32Flag) { request_.hf32 = hf32Flag; }
};

}  // namespace ConvBackpropApi

#endif
