/* What both host side tiling objects share: the platform, types, pads, strides and dilations as set. */
#ifndef CONVGRAD_CONV3D_BP_TILING_BASE_H
#define CONVGRAD_CONV3D_BP_TILING_BASE_H

#include "convgrad_tile/enums.h"
#include "convgrad_tile/records.h"
#include "tiling/platform/platform_ascendc.h"

namespace ConvBackpropApi {

struct PlatformInfo {
    platform_ascendc::SocVersion socVersion = platform_ascendc::SocVersion::RESERVED_VERSION;
    uint64_t l1Size = 0;
    uint64_t l0CSize = 0;
    uint64_t ubSize = 0;
    uint64_t l0ASize = 0;
    uint64_t l0BSize = 0;
    uint64_t btSize = 0;
    uint64_t fbSize = 0;
};

/* Shapes are each object's own business. Numbers not set are -1. */
class Conv3DBpTilingBase {
public:
    using TPosition = AscendC::TPosition;
    using ConvFormat = ConvCommonApi::ConvFormat;
    using ConvDtype = ConvCommonApi::ConvDtype;

    Conv3DBpTilingBase() {
        platformInfo.socVersion = platform_ascendc::SocVersion::ASCEND910B;
        platformInfo.l1Size = 524288, platformInfo.l0CSize = 131072, platformInfo.ubSize = 262144;
        platformInfo.l0ASize = platformInfo.l0BSize = 65536, platformInfo.btSize = 1024, platformInfo.fbSize = 2048;
    }
    explicit Conv3DBpTilingBase(const platform_ascendc::PlatformAscendC &platform) {
        using platform_ascendc::CoreMemType;
        platformInfo.socVersion = platform.GetSocVersion();
        platform.GetCoreMemSize(CoreMemType::L1, platformInfo.l1Size);
        platform.GetCoreMemSize(CoreMemType::L0_C, platformInfo.l0CSize);
        platform.GetCoreMemSize(CoreMemType::UB, platformInfo.ubSize);
        platform.GetCoreMemSize(CoreMemType::L0_A, platformInfo.l0ASize);
        platform.GetCoreMemSize(CoreMemType::L0_B, platformInfo.l0BSize);
        platform.GetCoreMemSize(CoreMemType::BT, platformInfo.btSize);
        platform.GetCoreMemSize(CoreMemType::FB, platformInfo.fbSize);
        if (platform.GetCoreNumAic() > 0) coreNum_ = platform.GetCoreNumAic();
    }
    explicit Conv3DBpTilingBase(const PlatformInfo &platform) : platformInfo(platform) {
        platformInfo.btSize = 1024, platformInfo.fbSize = 2048;
    }
    virtual ~Conv3DBpTilingBase() = default;

    void SetWeightType(TPosition, ConvFormat format, ConvDtype dtype) {
        request_.weight_format = static_cast<uint32_t>(format), request_.weight_dtype = static_cast<uint32_t>(dtype);
    }
    void SetInputType(TPosition, ConvFormat format, ConvDtype dtype) {
        request_.input_format = static_cast<uint32_t>(format), request_.input_dtype = static_cast<uint32_t>(dtype);
    }
    void SetGradOutputType(TPosition, ConvFormat format, ConvDtype dtype) {
        request_.grad_output_format = static_cast<uint32_t>(format);
        request_.grad_output_dtype = static_cast<uint32_t>(dtype);
    }
    void SetPadding(int64_t padFront, int64_t padBack, int64_t padUp, int64_t padDown, int64_t padLeft, int64_t padRight) {
        const int64_t pads[] = {padFront, padBack, padUp, padDown, padLeft, padRight};
        for (int at = 0; at < 6; ++at) request_.padding[at] = pads[at];
    }
    void SetStride(int64_t strideD, int64_t strideH, int64_t strideW) { set(request_.stride, strideD, strideH, strideW); }
    void SetDilation(int64_t dilationD, int64_t dilationH, int64_t dilationW) {
        set(request_.dilation, dilationD, dilationH, dilationW);
    }

protected:
    void SetGroup(int64_t group) { request_.groups = group; }
    static void set(int64_t *to, int64_t d, int64_t h, int64_t w) { to[0] = d, to[1] = h, to[2] = w; }
    int64_t get_tiling(int gradient, void *record) {
        request_.l1Size = platformInfo.l1Size, request_.l0ASize = platformInfo.l0ASize;
        request_.l0BSize = platformInfo.l0BSize, request_.l0CSize = platformInfo.l0CSize;
        request_.ubSize = platformInfo.ubSize, request_.cores = coreNum_;
        return cgt_get_tiling(gradient, &request_, record) == CGT_OK ? 0 : -1;
    }

    PlatformInfo platformInfo;
    int64_t coreNum_ = 24;
    cgt_tiling_request request_ = {-1, -1, -1, {-1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0},
                                   {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0}, 1, 0, 0, 0, 0, 0, 0,
                                   static_cast<uint32_t>(ConvFormat::FRACTAL_Z_3D),
                                   static_cast<uint32_t>(ConvFormat::NDC1HWC0), static_cast<uint32_t>(ConvFormat::NDC1HWC0),
                                   0, 0, 0, 0, 0, 0};
};

}  // namespace ConvBackpropApi

#endif
