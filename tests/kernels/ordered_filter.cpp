// gradWeight summed in a fixed order: cube cores leave tiles densely in a workspace (enSequentialWrite), vector cores
// add them to gradWeight from a queue; zeros come from a buffer. Arguments: cores, then files with the tiling record,
// input, gradOutput; the last is written with gradWeight.
#include "kernel_operator.h"
#include "lib/conv_backprop/conv3d_bp_filter_api.h"
#include "tikicpulib.h"

#ifndef NUMBER
#define NUMBER half
#endif

using namespace AscendC;

constexpr uint16_t TILE_IS_THERE = 3, TILE_IS_TAKEN = 4;
constexpr uint32_t ZEROS = 256;

class OrderedConv3dDw {
public:
    using tensorType = ConvBackpropApi::ConvType<TPosition::GM, ConvCommonApi::ConvFormat::NDC1HWC0, NUMBER>;
    using sizeType = ConvBackpropApi::ConvType<TPosition::GM, ConvCommonApi::ConvFormat::ND, int32_t>;
    using weightType = ConvBackpropApi::ConvType<TPosition::GM, ConvCommonApi::ConvFormat::FRACTAL_Z_3D, float>;

    __aicore__ inline void Init(GM_ADDR input, GM_ADDR gradOutput, GM_ADDR gradWeight, GM_ADDR workspace,
                                const Conv3DBackpropFilterTilingData *data, TPipe *pipe) {
        t = &data->dwTiling;
        inputGm_.SetGlobalBuffer((__gm__ NUMBER *)input);
        gradOutputGm_.SetGlobalBuffer((__gm__ NUMBER *)gradOutput);
        gradWeightGm_.SetGlobalBuffer((__gm__ float *)gradWeight);
        tileGm_.SetGlobalBuffer((__gm__ float *)GetUserWorkspace(workspace));
        object_.Init(t);
        cout_ = AlignUp(t->cout, BLOCK_CUBE), columns_ = AlignUp(t->cin, BLOCK_CUBE) * t->hk * t->wk;
        if ASCEND_IS_AIV {
            pipe->InitBuffer(tiles_, 2, uint32_t(t->baseM * BLOCK_CUBE * sizeof(float)));
            pipe->InitBuffer(zeros_, ZEROS * sizeof(float));
        }
    }

    __aicore__ inline void Process() {
        if ASCEND_IS_AIV {
            Zero();
        }
        SyncAll<false>();
        for (uint64_t kd = block_idx; kd < t->dk; kd += GetBlockNum())
            for (uint64_t plane = 0; plane < uint64_t(t->batch) * t->dout; ++plane) Walk(kd, plane);
        object_.End();
    }

private:
    __aicore__ inline void Zero() {
        LocalTensor<float> zeros = zeros_.Get<float>();
        uint64_t mask[2] = {UINT64_MAX, 0};  // 64 floats a repeat
        Duplicate(zeros, 0.0f, mask, ZEROS / 64, 1, 8);
        const event_t done = static_cast<event_t>(GetTPipePtr()->FetchEventID(HardEvent::V_MTE3));
        SetFlag<HardEvent::V_MTE3>(done);
        WaitFlag<HardEvent::V_MTE3>(done);
        const uint64_t size = t->dk * columns_ * cout_, step = ZEROS * GetBlockNum() * GetTaskRatio();
        for (uint64_t at = GetBlockIdx() * ZEROS; at < size; at += step) DataCopy(gradWeightGm_[at], zeros, ZEROS);
    }

    __aicore__ inline void Walk(uint64_t kd, uint64_t plane) {
        const int64_t din = int64_t(plane % t->dout * t->strideD + kd * t->dilationD) - t->padFront;
        if (din < 0 || din >= t->di) return;
        object_.SetSingleShape(t->cout, columns_, uint64_t(t->ho) * t->wo);
        object_.SetStartPosition(0);
        object_.SetGradOutput(gradOutputGm_[plane * cout_ * t->ho * t->wo]);
        object_.SetInput(inputGm_[(plane / t->dout * t->di + din) * AlignUp(t->cin, BLOCK_CUBE) * t->hi * t->wi]);
        const uint64_t mine = uint64_t(block_idx) * t->baseM * t->baseN;
        while (object_.Iterate()) {
            if ASCEND_IS_AIC {
                object_.GetTensorC(tileGm_[mine], 0, true);
                CrossCoreSetFlag<2, PIPE_FIX>(TILE_IS_THERE);
                CrossCoreWaitFlag(TILE_IS_TAKEN);
            }
            if ASCEND_IS_AIV {
                CrossCoreWaitFlag(TILE_IS_THERE);
                Add(mine, kd * columns_ * cout_);
                CrossCoreSetFlag<2, PIPE_MTE3>(TILE_IS_TAKEN);
            }
        }
        object_.ctx.isFirstIter_ = true;
    }

    // Every other block of sixteen columns on each vector core; blocks are baseM rows apart, tails too.
    __aicore__ inline void Add(uint64_t tile, uint64_t to) {
        const auto &ctx = object_.ctx;
        const uint32_t count = uint32_t(ctx.baseUseM_ * BLOCK_CUBE);
        SetAtomicAdd<float>();
        for (uint64_t block = GetSubBlockIdx(); block < ctx.baseUseN_ / BLOCK_CUBE; block += 2) {
            LocalTensor<float> part;
            tiles_.AllocTensor<float>(part);
            DataCopy(part, tileGm_[tile + block * t->baseM * BLOCK_CUBE], count);
            tiles_.EnQue(part);
            tiles_.DeQue<float>(part);
            const uint64_t column = ctx.curNL0Idx_ * t->baseN + block * BLOCK_CUBE;
            const uint64_t row = uint64_t(ctx.curML0Idx_) * t->baseM;
            DataCopy(gradWeightGm_[to + column * cout_ + row * BLOCK_CUBE], part, count);
            tiles_.FreeTensor(part);
        }
        SetAtomicNone();
    }

    const TConv3DBpFilterTiling *t = nullptr;
    uint64_t cout_ = 0, columns_ = 0;
    ConvBackpropApi::Conv3DBackpropFilter<tensorType, sizeType, tensorType, weightType> object_;
    GlobalTensor<NUMBER> inputGm_, gradOutputGm_;
    GlobalTensor<float> gradWeightGm_, tileGm_;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 2> tiles_;
    TBuf<TPosition::VECCALC> zeros_;
};

extern "C" __global__ __aicore__ __mix__(1, 2) void ordered_dw(GM_ADDR input, GM_ADDR gradOutput, GM_ADDR gradWeight,
                                                               GM_ADDR workspace, GM_ADDR tiling) {
    TPipe pipe;
    GET_TILING_DATA(data, tiling);
    OrderedConv3dDw op;
    op.Init(input, gradOutput, gradWeight, workspace, &data, &pipe);
    op.Process();
}

#include "files.h"

int main(int, char **arguments) {
    const uint32_t cores = uint32_t(std::atoi(arguments[1]));
    uint8_t *tiling = from_file(arguments[2]), *input = from_file(arguments[3]), *gradOutput = from_file(arguments[4]);
    uint8_t *gradWeight = room_for(arguments[5]);
    const auto &t = reinterpret_cast<Conv3DBackpropFilterTilingData *>(tiling)->dwTiling;
    auto *workspace = static_cast<uint8_t *>(GmAlloc(size_t(cores) * t.baseM * t.baseN * sizeof(float)));
    ICPU_RUN_KF(ordered_dw, cores, input, gradOutput, gradWeight, workspace, tiling);
    to_file(arguments[5], gradWeight);
    for (uint8_t *block : {tiling, input, gradOutput, gradWeight, workspace}) GmFree(block);
    return 0;
}
