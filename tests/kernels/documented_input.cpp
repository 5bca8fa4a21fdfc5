// The five steps of the documented Conv3DBackpropInput kernel as a whole program: blocks of work dealt to cores, zeroing by
// vector cores where the record asks for it. Arguments: cores, then files with the tiling record, weight, gradOutput; the
// last is written with gradInput.
#include "kernel_operator.h"
#include "lib/conv_backprop/conv3d_bp_input_api.h"
#include "tikicpulib.h"

#include <cstdlib>
#include <vector>

#ifndef NUMBER
#define NUMBER half
#endif
#ifdef WITH_MISTAKES  // statements that the tests put into the kernel
#include "mistakes.h"
#else
#define MISTAKE(place)
#define mistaken(name) false
#endif

using namespace AscendC;

class Conv3DDx {
public:
    using weightDxType = ConvBackpropApi::ConvType<ConvCommonApi::TPosition::GM, ConvCommonApi::ConvFormat::FRACTAL_Z_3D, NUMBER>;
    using inputSizeDxType = ConvBackpropApi::ConvType<ConvCommonApi::TPosition::GM, ConvCommonApi::ConvFormat::ND, int32_t>;
    using gradOutputDxType = ConvBackpropApi::ConvType<ConvCommonApi::TPosition::GM, ConvCommonApi::ConvFormat::NDC1HWC0, NUMBER>;
    using gradInputDxType = ConvBackpropApi::ConvType<ConvCommonApi::TPosition::GM, ConvCommonApi::ConvFormat::NDC1HWC0, NUMBER>;
    ConvBackpropApi::Conv3DBackpropInput<weightDxType, inputSizeDxType, gradOutputDxType, gradInputDxType> gradInput_;

    __aicore__ inline void Init(GM_ADDR weight, GM_ADDR gradOutput, GM_ADDR gradInput, const Conv3DBackpropInputTilingData *tilingData) {
        t = tilingData->conv3DDxTiling;
        weightGm_.SetGlobalBuffer((__gm__ NUMBER *)weight);
        gradOutputGm_.SetGlobalBuffer((__gm__ NUMBER *)gradOutput);
        gradInputGm_.SetGlobalBuffer((__gm__ NUMBER *)gradInput);
        zeros_.SetGlobalBuffer((__gm__ uint16_t *)gradInput);
        if ASCEND_IS_AIC {
            gradInput_.Init(&(tilingData->conv3DDxTiling));
            MISTAKE(init)
        }
    }

    __aicore__ inline void Zero() {
        const uint64_t size = uint64_t(t.batch) * t.di * t.cin1 * t.hi * t.wi * t.c0, cores = 2 * GetBlockNum();
        const uint64_t share = DivCeil(size, cores), start = share * GetBlockIdx();
        GlobalTensor<uint16_t> mine = zeros_[start];
        if (start < size) Fill<uint16_t>(mine, size - start < share ? size - start : share, 0);
    }

    __aicore__ inline void Process() {
        if (t.initOutputFlag) {
            KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
            if ASCEND_IS_AIV {
                Zero();
            }
            MISTAKE(sync)
            SyncAll<false>();
        }
        if ASCEND_IS_AIV {
            return;
        }
        const uint64_t rows = t.singleCoreM / t.wi, mCnt = DivCeil(t.hi, rows), nCnt = DivCeil(t.cin1, t.singleCoreCin1);
        const uint64_t total = uint64_t(t.batch) * t.di * mCnt * nCnt;
        for (uint64_t b = GetBlockIdx(); b < total; b += GetBlockNum()) {
            const uint64_t mi = b / (t.batch * t.di * nCnt), rest = b % (t.batch * t.di * nCnt), ni = rest % nCnt;
            const uint64_t batch = rest / nCnt / t.di, firstRow = mi * rows;
            uint32_t dinStartIdx_ = rest / nCnt % t.di;
            int32_t curHoStartIdx_ = int32_t(firstRow) - int32_t(t.backpropPadUp);
            const uint64_t first = curHoStartIdx_ < 0 ? 0 : DivCeil(curHoStartIdx_, t.strideH);
            uint64_t left = t.hi - firstRow < rows ? t.hi - firstRow : rows;
            const int64_t unreached = int64_t(t.backpropPadDown) - int64_t(t.hk - 1) * t.dilationH;
            if (firstRow + left == t.hi && unreached > 0) left = left > uint64_t(unreached) ? left - unreached : 0;
            if (first >= t.ho || left == 0) continue;
            uint64_t singleShapeM_ = left * t.wi, singleShapeK_ = uint64_t(t.dk) * t.cout1 * t.hk * t.wk * t.c0;
            const uint64_t firstChannel = ni * t.singleCoreCin1 * t.c0, channels = uint64_t(t.singleCoreCin1) * t.c0;
            uint32_t singleShapeN_ = t.cin - firstChannel < channels ? t.cin - firstChannel : channels;
            uint64_t offsetA_ = (batch * t.dout * t.cout1 * t.ho + first) * t.wo * t.c0;
            uint64_t offsetB_ = ni * t.singleCoreCin1 * t.hk * t.wk * AlignUp(t.cout, 16) * t.c0;
            uint64_t offsetC_ = ((batch * t.di * t.cin1 + ni * t.singleCoreCin1) * t.hi + firstRow) * t.wi * t.c0;
            MISTAKE(offsets)
            gradInput_.SetSingleShape(singleShapeM_, singleShapeK_, singleShapeN_);
            gradInput_.SetStartPosition(dinStartIdx_, curHoStartIdx_);
            gradInput_.SetGradOutput(gradOutputGm_[offsetA_]);
            gradInput_.SetWeight(weightGm_[offsetB_]);
            while (gradInput_.Iterate(mistaken("partial_sum"))) {
                MISTAKE(tile)
                gradInput_.GetTensorC(gradInputGm_[offsetC_]);
            }
            gradInput_.ctx.isFirstIter_ = true;
            MISTAKE(walk)
        }
        MISTAKE(end)
        gradInput_.End();
    }

private:
    TConv3DBackpropInputTiling t;
    GlobalTensor<NUMBER> weightGm_, gradOutputGm_, gradInputGm_;
    GlobalTensor<uint16_t> zeros_;
};

extern "C" __global__ __aicore__ void conv3d_dx(GM_ADDR weight, GM_ADDR gradOutput, GM_ADDR gradInput, GM_ADDR tiling) {
    GET_TILING_DATA(tilingData, tiling);
    Conv3DDx op;
    op.Init(weight, gradOutput, gradInput, &tilingData);
    op.Process();
}

#include "files.h"

int main(int, char **arguments) {
    uint8_t *tiling = from_file(arguments[2]), *weight = from_file(arguments[3]), *gradOutput = from_file(arguments[4]);
    uint8_t *gradInput = room_for(arguments[5]);
    ICPU_RUN_KF(conv3d_dx, std::atoi(arguments[1]), weight, gradOutput, gradInput, tiling);
    to_file(arguments[5], gradInput);
    for (uint8_t *block : {tiling, weight, gradOutput, gradInput}) GmFree(block);
    return 0;
}
