// Conv3DBackpropFilter as a whole program: zeroing by vector cores, a meeting, then rows of gradOutput dealt to cores, three
// rows a walk, added up. Arguments: cores, then files with the tiling record, input, gradOutput; the last is written with
// gradWeight.
#include "kernel_operator.h"
#include "lib/conv_backprop/conv3d_bp_filter_api.h"
#include "tikicpulib.h"

#ifndef NUMBER
#define NUMBER half
#endif

using namespace AscendC;

extern "C" __global__ __aicore__ void conv3d_dw(GM_ADDR input, GM_ADDR gradOutput, GM_ADDR gradWeight, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);
    GET_TILING_DATA(data, tiling);
    const auto &t = data.dwTiling;
    GlobalTensor<float> gradWeightGm_;
    gradWeightGm_.SetGlobalBuffer((__gm__ float *)gradWeight);
    const uint64_t cout = AlignUp(t.cout, 16), cin = AlignUp(t.cin, 16), perKd = cin * t.hk * t.wk * cout;
    if ASCEND_IS_AIV {
        const uint64_t all = t.dk * perKd, share = DivCeil(all, GetBlockNum()), from = share * GetBlockIdx();
        GlobalTensor<float> mine = gradWeightGm_[from];
        if (from < all) Fill<float>(mine, all - from < share ? all - from : share, 0.0f);
    }
    SyncAll<false>();
    if ASCEND_IS_AIV {
        return;
    }
    using inputType = ConvBackpropApi::ConvType<ConvCommonApi::TPosition::GM, ConvCommonApi::ConvFormat::NDC1HWC0, NUMBER>;
    using sizeType = ConvBackpropApi::ConvType<ConvCommonApi::TPosition::GM, ConvCommonApi::ConvFormat::ND, int32_t>;
    using weightType = ConvBackpropApi::ConvType<ConvCommonApi::TPosition::GM, ConvCommonApi::ConvFormat::FRACTAL_Z_3D, float>;
    ConvBackpropApi::Conv3DBackpropFilter<inputType, sizeType, inputType, weightType> gradWeight_;
    GlobalTensor<NUMBER> inputGm_, gradOutputGm_;
    inputGm_.SetGlobalBuffer((__gm__ NUMBER *)input);
    gradOutputGm_.SetGlobalBuffer((__gm__ NUMBER *)gradOutput);
    gradWeight_.Init(&(data.dwTiling));
    uint64_t index = 0;
    for (uint64_t n = 0; n < t.batch; ++n)
        for (uint64_t d = 0; d < t.dout; ++d)
            for (uint64_t kd = 0; kd < t.dk; ++kd)
                for (uint64_t row = 0; row < t.ho; row += 3, ++index) {
                    const int64_t din = int64_t(d * t.strideD + kd * t.dilationD) - t.padFront;
                    if (index % GetBlockNum() != uint64_t(GetBlockIdx()) || din < 0 || din >= t.di) continue;
                    const int64_t top = int64_t(row) * t.strideH - t.padUp;
                    const uint64_t rows = t.ho - row < 3 ? t.ho - row : 3;
                    uint64_t offsetA_ = ((n * t.dout + d) * cout / 16 * t.ho + row) * t.wo * 16;
                    uint64_t offsetB_ = ((n * t.di + din) * cin / 16 * t.hi + (top > 0 ? top : 0)) * t.wi * 16;
                    uint64_t offsetC_ = kd * perKd;
                    gradWeight_.SetGradOutput(gradOutputGm_[offsetA_]);
                    gradWeight_.SetInput(inputGm_[offsetB_]);
                    gradWeight_.SetSingleShape(cout, cin * t.hk * t.wk, rows * t.wo);
                    gradWeight_.SetStartPosition(row);
                    while (gradWeight_.Iterate()) {
                        gradWeight_.GetTensorC(gradWeightGm_[offsetC_]);
                    }
                    gradWeight_.ctx.isFirstIter_ = true;
                }
    gradWeight_.End();
}

#include "files.h"

int main(int, char **arguments) {
    uint8_t *tiling = from_file(arguments[2]), *input = from_file(arguments[3]), *gradOutput = from_file(arguments[4]);
    uint8_t *gradWeight = room_for(arguments[5]);
    ICPU_RUN_KF(conv3d_dw, std::atoi(arguments[1]), input, gradOutput, gradWeight, tiling);
    to_file(arguments[5], gradWeight);
    for (uint8_t *block : {tiling, input, gradOutput, gradWeight}) GmFree(block);
    return 0;
}
