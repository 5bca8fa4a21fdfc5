// A mixed kernel: with a stride above the window some rows of gradInput belong to no window. Vector cores zero the tensor,
// all cores meet, then cube cores compute what there is.
#include "kernel_operator.h"
#include "lib/conv_backprop/conv3d_bp_input_api.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void grad_input_zeroed(GM_ADDR weight, GM_ADDR gradOutput, GM_ADDR gradInput, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    using ConvBackpropApi::ConvType;
    using ConvCommonApi::ConvFormat;
    constexpr auto GM = ConvCommonApi::TPosition::GM;
    using weightType = ConvType<GM, ConvFormat::FRACTAL_Z_3D, half>;
    using sizeType = ConvType<GM, ConvFormat::ND, int32_t>;
    using tensorType = ConvType<GM, ConvFormat::NDC1HWC0, half>;

    GET_TILING_DATA(data, tiling);
    const auto &t = data.conv3DDxTiling;
    GlobalTensor<half> weightGm, gradOutputGm, gradInputGm;
    weightGm.SetGlobalBuffer((__gm__ half *)weight);
    gradOutputGm.SetGlobalBuffer((__gm__ half *)gradOutput);
    gradInputGm.SetGlobalBuffer((__gm__ half *)gradInput);

    if ASCEND_IS_AIV {
        const uint64_t size = uint64_t(t.batch) * t.di * t.cin1 * t.hi * t.wi * t.c0;
        const uint64_t share = DivCeil(size, 2 * GetBlockNum()), start = share * GetBlockIdx();
        GlobalTensor<half> mine = gradInputGm[start];
        if (start < size) Fill<half>(mine, size - start < share ? size - start : share, half(0.0f));
    }
    SyncAll<false>();
    if ASCEND_IS_AIV {
        return;
    }

    ConvBackpropApi::Conv3DBackpropInput<weightType, sizeType, tensorType, tensorType> gradInput_;
    gradInput_.Init(&data.conv3DDxTiling);
    const uint64_t planes = t.batch * t.di;
    for (uint64_t image = GetBlockIdx(); image < planes; image += GetBlockNum()) {
        // Rows past the last window are left as zeros.
        const int64_t unreached = int64_t(t.backpropPadDown) - int64_t(t.hk - 1) * t.dilationH;
        const uint64_t rows = t.hi - (unreached > 0 ? unreached : 0), batch = image / t.di;
        gradInput_.SetSingleShape(rows * t.wi, uint64_t(t.dk) * t.cout1 * t.hk * t.wk * t.c0, t.cin);
        gradInput_.SetStartPosition(image % t.di, -int32_t(t.backpropPadUp));
        gradInput_.SetGradOutput(gradOutputGm[batch * t.dout * t.cout1 * t.ho * t.wo * t.c0]);
        gradInput_.SetWeight(weightGm);
        while (gradInput_.Iterate()) {
            gradInput_.GetTensorC(gradInputGm[batch * t.di * t.cin1 * t.hi * t.wi * t.c0]);
        }
        gradInput_.ctx.isFirstIter_ = true;
    }
    gradInput_.End();
}

#ifdef ASCENDC_CPU_DEBUG
#include "launch_input.h"
int main() { return launch_input("grad_input_zeroed", {2, 16, 16, 2, 9, 5, 1, 2, 2, 3, 0}, grad_input_zeroed); }
#endif
