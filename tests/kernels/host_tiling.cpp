// GetTiling in C++: each line of standard input is a problem, the answer and the record's bytes are printed.
//   input|filter cores l1 l0a l0b l0c dtype mode  weight(5) input(5) gradOutput(5) pads(6) strides(3) dilations(3) outputPads(3)
#define private public
#define protected public
#include "lib/conv_backprop/conv3d_bp_filter_tiling.h"
#include "tiling/conv_backprop/conv3d_bp_input_tiling.h"
#include "tiling/tiling_api.h"

#include <cstdio>
#include <cstring>

template <class Tiling, class Data>
void answer(Tiling &tiling, const long long *n, bool transposed, Data &data) {
    const auto dtype = static_cast<ConvCommonApi::ConvDtype>(n[0]);
    const auto gm = matmul_tiling::TPosition::GM;
    tiling.SetWeightType(gm, ConvCommonApi::ConvFormat::FRACTAL_Z_3D, dtype);
    tiling.SetInputType(gm, ConvCommonApi::ConvFormat::NDC1HWC0, dtype);
    tiling.SetGradOutputType(gm, ConvCommonApi::ConvFormat::NDC1HWC0, dtype);
    tiling.SetPadding(n[16], n[17], n[18], n[19], n[20], n[21]);
    tiling.SetStride(n[22], n[23], n[24]);
    tiling.SetDilation(n[25], n[26], n[27]);
    tiling.SetWeightShape(n[1], n[2], n[3], n[4], n[5]);
    if (!transposed) tiling.SetInputShape(n[6], n[7], n[8], n[9], n[10]);
    tiling.SetGradOutputShape(n[11], n[12], n[13], n[14], n[15]);
    const long long code = tiling.GetTiling(data);
    std::printf("%lld ", code);
    if (code != 0) {
        std::printf("%s\n", convgrad_tile_reason());
        return;
    }
    unsigned char bytes[sizeof(Data)];
    data.SaveToBuffer(bytes, data.GetDataSize());
    if (std::memcmp(bytes, &data, sizeof bytes) != 0) std::printf("other bytes ");
    for (const unsigned char byte : bytes) std::printf("%02x", byte);
    std::printf("\n");
}

int main() {
    char kind[16];
    long long cores, sizes[4], n[32];
    int transposed;
    while (std::scanf("%15s %lld %lld %lld %lld %lld %lld %d", kind, &cores, sizes, sizes + 1, sizes + 2, sizes + 3, n,
                      &transposed) == 8) {
        for (int at = 1; at <= 30; ++at)
            if (std::scanf("%lld", n + at) != 1) return 1;
        ConvBackpropApi::PlatformInfo platform;
        platform.l1Size = sizes[0], platform.l0ASize = sizes[1], platform.l0BSize = sizes[2], platform.l0CSize = sizes[3];
        if (std::strcmp(kind, "input") == 0) {
            ConvBackpropApi::Conv3DBpInputTiling tiling(platform);
            tiling.coreNum_ = cores;
            if (transposed) tiling.SetOutputPadding(n[28], n[29], n[30]);
            AscendC::tiling::Conv3DBackpropInputTilingData data;
            answer(tiling, n, transposed != 0, data);
        } else {
            ConvBackpropApi::Conv3dBpFilterTiling tiling(platform);
            tiling.coreNum_ = cores;
            optiling::Conv3DBackpropFilterTilingData data;
            answer(tiling, n, false, data);
        }
    }
    return 0;
}
