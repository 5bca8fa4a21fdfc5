/* What Conv3DBpInputTiling is told: shapes whose batch and channels must agree, and the output padding of a transpose. */
#ifndef CONVGRAD_CONV3D_BP_INPUT_TILING_BASE_H
#define CONVGRAD_CONV3D_BP_INPUT_TILING_BASE_H

#include "tiling/conv_backprop/conv3d_bp_input_tilingdata.h"
#include "tiling/conv_backprop/conv3d_bp_tiling_base.h"

namespace ConvBackpropApi {

class Conv3DBpInputTilingBase : public Conv3DBpTilingBase {
public:
    Conv3DBpInputTilingBase() { begin(); }
    explicit Conv3DBpInputTilingBase(const platform_ascendc::PlatformAscendC &platform) : Conv3DBpTilingBase(platform) {
        begin();
    }
    explicit Conv3DBpInputTilingBase(const PlatformInfo &platform) : Conv3DBpTilingBase(platform) { begin(); }

    /* False, and nothing changes, when a number was set to another value before. */
    bool SetWeightShape(int64_t cout, int64_t cin, int64_t d, int64_t h, int64_t w) {
        if (conflicts(cin, request_.cin) || conflicts(cout, request_.cout)) return false;
        request_.cout = cout, request_.cin = cin;
        set(request_.window, d, h, w);
        return true;
    }
    /* Leaves transpose mode for good. */
    bool SetInputShape(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) {
        if (conflicts(c, request_.cin) || conflicts(n, request_.batch)) return false;
        request_.batch = n, request_.cin = c, request_.transposed = 0;
        set(request_.input, d, h, w);
        return true;
    }
    bool SetGradOutputShape(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) {
        if (conflicts(n, request_.batch) || conflicts(c, request_.cout)) return false;
        request_.batch = n, request_.cout = c;
        set(request_.out, d, h, w);
        return true;
    }
    /* False after SetInputShape. */
    bool SetOutputPadding(int64_t outputPadD, int64_t outputPadH, int64_t outputPadW) {
        if (!request_.transposed) return false;
        set(request_.output_padding, outputPadD, outputPadH, outputPadW);
        return true;
    }

protected:
    void SetHF32(uint8_t hf32Flag) { request_.hf32 = hf32Flag; }
    void SetBackpropPadding(int64_t padUp, int64_t padDown, int64_t padLeft, int64_t padRight) {
        const int64_t pads[] = {padUp, padDown, padLeft, padRight};
        for (int at = 0; at < 4; ++at) request_.backprop_padding[at] = pads[at];
    }
    static bool conflicts(int64_t given, int64_t before) { return before > 0 && given != before; }

private:
    void begin() {
        request_.transposed = 1;
        request_.input_format = static_cast<uint32_t>(ConvFormat::NCDHW); /* never checked */
    }
};

}  // namespace ConvBackpropApi

#endif
