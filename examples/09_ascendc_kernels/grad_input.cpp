// gradInput by Conv3DBackpropInput: blocks of rows and channels dealt to cores, the five documented steps for each.
#include "kernel_operator.h"
#include "lib/conv_backprop/conv3d_bp_input_api.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void grad_input(GM_ADDR weight, GM_ADDR gradOutput, GM_ADDR gradInput, GM_ADDR tiling) {
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

    ConvBackpropApi::Conv3DBackpropInput<weightType, sizeType, tensorType, tensorType> gradInput_;
    gradInput_.Init(&data.conv3DDxTiling);
    const uint64_t rows = t.singleCoreM / t.wi, mCnt = DivCeil(t.hi, rows), nCnt = DivCeil(t.cin1, t.singleCoreCin1);
    for (uint64_t block = GetBlockIdx(); block < t.batch * t.di * mCnt * nCnt; block += GetBlockNum()) {
        const uint64_t n = block % nCnt, m = block / nCnt % mCnt, plane = block / nCnt / mCnt % t.di;
        const uint64_t batch = block / nCnt / mCnt / t.di, row = m * rows, cin1 = n * t.singleCoreCin1;
        const int32_t hoStart = int32_t(row) - int32_t(t.backpropPadUp);
        const uint64_t firstRow = hoStart < 0 ? 0 : DivCeil(hoStart, t.strideH);
        const uint64_t rowsLeft = t.hi - row < rows ? t.hi - row : rows;
        const uint64_t blocksLeft = t.cin1 - cin1 < t.singleCoreCin1 ? t.cin1 - cin1 : t.singleCoreCin1;

        gradInput_.SetSingleShape(rowsLeft * t.wi, uint64_t(t.dk) * t.cout1 * t.hk * t.wk * t.c0, blocksLeft * t.c0);
        gradInput_.SetStartPosition(plane, hoStart);
        gradInput_.SetGradOutput(gradOutputGm[(batch * t.dout * t.cout1 * t.ho + firstRow) * t.wo * t.c0]);
        gradInput_.SetWeight(weightGm[cin1 * t.hk * t.wk * AlignUp(t.cout, 16) * t.c0]);
        while (gradInput_.Iterate()) {
            gradInput_.GetTensorC(gradInputGm[((batch * t.di * t.cin1 + cin1) * t.hi + row) * t.wi * t.c0]);
        }
        gradInput_.ctx.isFirstIter_ = true;
    }
    gradInput_.End();
}

#ifdef ASCENDC_CPU_DEBUG
#include "launch_input.h"
int main() { return launch_input("grad_input", {1, 20, 24, 4, 12, 10, 2, 3, 3, 1, 1}, grad_input); }
#endif
