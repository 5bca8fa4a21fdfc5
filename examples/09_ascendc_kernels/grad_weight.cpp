// gradWeight by Conv3DBackpropFilter: vector cores zero it, all cores meet, then each core adds its share of the rows.
#include "kernel_operator.h"
#include "lib/conv_backprop/conv3d_bp_filter_api.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void grad_weight(GM_ADDR input, GM_ADDR gradOutput, GM_ADDR gradWeight, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);
    using ConvBackpropApi::ConvType;
    using ConvCommonApi::ConvFormat;
    constexpr auto GM = ConvCommonApi::TPosition::GM;
    using tensorType = ConvType<GM, ConvFormat::NDC1HWC0, half>;
    using sizeType = ConvType<GM, ConvFormat::ND, int32_t>;
    using weightType = ConvType<GM, ConvFormat::FRACTAL_Z_3D, float>;

    GET_TILING_DATA(data, tiling);
    const auto &t = data.dwTiling;
    GlobalTensor<half> inputGm, gradOutputGm;
    GlobalTensor<float> gradWeightGm;
    inputGm.SetGlobalBuffer((__gm__ half *)input);
    gradOutputGm.SetGlobalBuffer((__gm__ half *)gradOutput);
    gradWeightGm.SetGlobalBuffer((__gm__ float *)gradWeight);
    const uint64_t cout = AlignUp(t.cout, 16), cin = AlignUp(t.cin, 16), perPlane = cin * t.hk * t.wk * cout;

    if ASCEND_IS_AIV {
        const uint64_t size = t.dk * perPlane, share = DivCeil(size, GetBlockNum()), start = share * GetBlockIdx();
        GlobalTensor<float> mine = gradWeightGm[start];
        if (start < size) Fill<float>(mine, size - start < share ? size - start : share, 0.0f);
    }
    SyncAll<false>();
    if ASCEND_IS_AIV {
        return;
    }

    ConvBackpropApi::Conv3DBackpropFilter<tensorType, sizeType, tensorType, weightType> gradWeight_;
    gradWeight_.Init(&data.dwTiling);
    const uint64_t walks = uint64_t(t.batch) * t.dout * t.dk * t.ho;  // one gradOutput row each
    for (uint64_t walk = GetBlockIdx(); walk < walks; walk += GetBlockNum()) {
        const uint64_t row = walk % t.ho, kd = walk / t.ho % t.dk, plane = walk / t.ho / t.dk % t.dout;
        const uint64_t batch = walk / t.ho / t.dk / t.dout;
        const int64_t din = int64_t(plane * t.strideD + kd * t.dilationD) - t.padFront, top = int64_t(row * t.strideH) - t.padUp;
        if (din < 0 || din >= t.di) continue;
        gradWeight_.SetGradOutput(gradOutputGm[((batch * t.dout + plane) * cout / 16 * t.ho + row) * t.wo * 16]);
        gradWeight_.SetInput(inputGm[((batch * t.di + din) * cin / 16 * t.hi + (top > 0 ? top : 0)) * t.wi * 16]);
        gradWeight_.SetSingleShape(cout, cin * t.hk * t.wk, t.wo);
        gradWeight_.SetStartPosition(row);
        while (gradWeight_.Iterate()) {
            gradWeight_.GetTensorC(gradWeightGm[kd * perPlane]);
        }
        gradWeight_.ctx.isFirstIter_ = true;
    }
    gradWeight_.End();
}

#ifdef ASCENDC_CPU_DEBUG
#include "lib/conv_backprop/conv3d_bp_filter_tiling.h"
#include "problem.h"

int main() {
    const Problem p{1, 20, 24, 4, 12, 10, 2, 3, 3, 2, 1};
    ConvBackpropApi::Conv3dBpFilterTiling tiling;
    tiling.SetWeightShape(p.cout, p.cin, p.kd, p.kh, p.kw);
    tiling.SetInputShape(p.n, p.cin, p.d, p.h, p.w);
    tiling.SetGradOutputShape(p.n, p.cout, p.outD(), p.outH(), p.outW());
    tiling.SetPadding(0, 0, p.pad, p.pad, p.pad, p.pad);
    tiling.SetStride(1, p.strideH, 1);
    tiling.SetDilation(1, 1, 1);
    auto *data = static_cast<AscendC::tiling::Conv3DBackpropFilterTilingData *>(
        GmAlloc(sizeof(AscendC::tiling::Conv3DBackpropFilterTilingData)));
    if (tiling.GetTiling(*data) != 0) return 1;

    std::vector<bool> isOutput(p.outputSize()), isInput(p.inputSize());
    p.products([&](size_t output, size_t, size_t input) { isOutput[output] = isInput[input] = true; });
    half *gradOutput = numbers(p.outputSize(), 1, [&](size_t at) { return isOutput[at]; });
    half *input = numbers(p.inputSize(), 2, [&](size_t at) { return isInput[at]; });
    auto *gradWeight = static_cast<float *>(GmAlloc(p.weightSize() * sizeof(float)));
    auto bytes = [](auto *memory) { return reinterpret_cast<uint8_t *>(memory); };
    ICPU_RUN_KF(grad_weight, 8, bytes(input), bytes(gradOutput), bytes(gradWeight), bytes(data));

    std::vector<float> right(p.weightSize());
    p.products([&](size_t o, size_t w, size_t i) { right[w] += float(gradOutput[o]) * float(input[i]); });
    const int code = compared("grad_weight", gradWeight, right);
    for (void *memory : {(void *)gradOutput, (void *)input, (void *)gradWeight, (void *)data}) GmFree(memory);
    return code;
}
#endif
