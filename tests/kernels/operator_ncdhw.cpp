// gradInput in NCDHW by a mixed kernel: the cube core leaves raw tiles in a workspace, its two vector cores turn them
// (queues, copies, TransDataTo5HD) and store channel rows; flags go both ways. Arguments: cores, then files with the tiling
// record, weight, gradOutput; the last is written with gradInput.
#include "kernel_operator.h"

#include "conv3d_bp_input.h"
#include "tikicpulib.h"

#ifndef NUMBER
#define NUMBER half
#endif

using namespace AscendC;
using Convolution3DBackprop::CubeFormat;

constexpr uint16_t TILE_IS_THERE = 5, TILE_IS_TAKEN = 6;

template <typename T>
class Conv3dDxNcdhw {
public:
    using filterType = Convolution3DBackprop::ConvType<TPosition::GM, CubeFormat::FRACTALZ_3D, T>;
    using inputSizeType = Convolution3DBackprop::ConvType<TPosition::GM, CubeFormat::ND, int32_t>;
    using dedyType = Convolution3DBackprop::ConvType<TPosition::GM, CubeFormat::NDC1HWC0, T>;
    using yType = Convolution3DBackprop::ConvType<TPosition::GM, CubeFormat::NCDHW, T>;

    __aicore__ inline void Init(GM_ADDR filter, GM_ADDR dedy, GM_ADDR y, GM_ADDR workspace, const Conv3DBackpropInputTilingData *data) {
        t = &data->conv3DDxTiling;
        filterGm_.SetGlobalBuffer((__gm__ T *)filter);
        dedyGm_.SetGlobalBuffer((__gm__ T *)dedy);
        yGm_.SetGlobalBuffer((__gm__ T *)y);
        tileGm_.SetGlobalBuffer((__gm__ T *)GetUserWorkspace(workspace));
        dedx_.Init(t);
        if ASCEND_IS_AIV {
            dedx_.ctx.pipe_.InitBuffer(in_, 1, uint32_t(t->baseM * BLOCK_CUBE * sizeof(T)));
            dedx_.ctx.pipe_.InitBuffer(out_, 1, uint32_t(t->baseM * BLOCK_CUBE * sizeof(T)));
        }
    }

    __aicore__ inline void Process() {
        if (t->initOutputFlag) {
            if ASCEND_IS_AIV {
                const uint64_t size = uint64_t(t->batch) * t->cin * t->di * t->hi * t->wi;
                GlobalTensor<uint16_t> zeros;
                zeros.SetGlobalBuffer((__gm__ uint16_t *)yGm_.GetPhyAddr());
                if (GetBlockIdx() == 0) Fill<uint16_t>(zeros, size, 0);
            }
            SyncAll<false>();
        }
        const uint64_t rows = t->singleCoreM / t->wi;
        int64_t work = 0;
        for (uint64_t batch = 0; batch < t->batch; ++batch)
            for (uint32_t d = 0; d < t->di; ++d)
                for (uint64_t row = 0; row < t->hi; row += rows)
                    for (uint64_t c1 = 0; c1 < t->cin1; c1 += t->singleCoreCin1)
                        if (work++ % GetBlockNum() == block_idx) Walk(batch, d, row, t->hi - row < rows ? t->hi - row : rows, c1);
        dedx_.End();
    }

private:
    __aicore__ inline void Walk(uint64_t batch, uint32_t d, uint64_t row, uint64_t rows, uint64_t c1) {
        const int32_t hoStart = int32_t(row) - int32_t(t->backpropPadUp);
        const uint64_t first = hoStart < 0 ? 0 : DivCeil(hoStart, t->strideH);
        const int64_t unreached = int64_t(t->backpropPadDown) - int64_t(t->hk - 1) * t->dilationH;
        if (row + rows == t->hi && unreached > 0) rows = rows > uint64_t(unreached) ? rows - unreached : 0;
        if (first >= t->ho || rows == 0) return;
        const uint64_t channels = t->cin - c1 * t->c0, most = uint64_t(t->singleCoreCin1) * t->c0;
        dedx_.SetSingleShape(rows * t->wi, uint64_t(t->dk) * t->cout1 * t->hk * t->wk * t->c0,
                             uint32_t(channels < most ? channels : most), 1);
        dedx_.SetStartIdx(d, hoStart);
        dedx_.SetOutBackprop(dedyGm_[(batch * t->dout * t->cout1 * t->ho + first) * t->wo * t->c0]);
        dedx_.SetWeight(filterGm_[c1 * t->hk * t->wk * AlignUp(t->cout, 16) * t->c0]);
        while (dedx_.Iterate()) {
            if ASCEND_IS_AIC {
                dedx_.GetTensorC(tileGm_);
                CrossCoreSetFlag<2, PIPE_FIX>(TILE_IS_THERE);
                CrossCoreWaitFlag(TILE_IS_TAKEN);
            }
            if ASCEND_IS_AIV {
                CrossCoreWaitFlag(TILE_IS_THERE);
                if (dedx_.ctx.needComputeFlag_) Store(batch, row, c1);
                CrossCoreSetFlag<2, PIPE_MTE3>(TILE_IS_TAKEN);
            }
        }
        dedx_.ctx.isFirstIter_ = true;
    }

    // Every other block of sixteen channels on each vector core.
    __aicore__ inline void Store(uint64_t batch, uint64_t row, uint64_t c1) {
        const uint32_t um = dedx_.ctx.baseUseM_, un = dedx_.ctx.baseUseN_, um16 = uint32_t(AlignUp(um, 16));
        const uint64_t tile = uint64_t(block_idx) * t->baseM * t->baseN, plane = uint64_t(t->hi) * t->wi;
        for (uint32_t nb = uint32_t(GetSubBlockIdx()); nb < un / 16; nb += 2) {
            LocalTensor<T> raw = in_.template AllocTensor<T>();
            DataCopy(raw, tileGm_[tile + uint64_t(nb) * um * 16], um * 16);
            in_.EnQue(raw);
            raw = in_.template DeQue<T>();
            LocalTensor<T> turned = out_.template AllocTensor<T>(), from[16], to[16];
            for (uint32_t i = 0; i < 16; ++i) from[i] = raw[i * 16], to[i] = turned[i * um16];
            TransDataTo5HDParams params;
            params.repeatTimes = uint8_t(um16 / 16);
            params.srcRepStride = params.repeatTimes > 1 ? 16 : 0, params.dstRepStride = params.repeatTimes > 1 ? 1 : 0;
            TransDataTo5HD<T>(to, from, params);
            in_.FreeTensor(raw);
            out_.EnQue(turned);
            turned = out_.template DeQue<T>();
            for (uint32_t lane = 0; lane < 16; ++lane) {
                const uint64_t channel = c1 * t->c0 + dedx_.ctx.curNL0Idx_ * t->baseN + nb * 16 + lane;
                if (channel >= t->cin) break;
                const uint64_t at = ((batch * t->cin + channel) * t->di + dedx_.ctx.curDinIdx_) * plane + row * t->wi +
                                    uint64_t(dedx_.ctx.curML0Idx_) * t->baseM;
                DataCopyPad(yGm_[at], turned[lane * um16], DataCopyParams(1, uint16_t(um * sizeof(T)), 0, 0));
            }
            out_.FreeTensor(turned);
        }
    }

    const TConv3DBackpropInputTiling *t = nullptr;
    Convolution3DBackprop::Conv3DBackpropInput<filterType, inputSizeType, dedyType, yType> dedx_;
    GlobalTensor<T> filterGm_, dedyGm_, yGm_, tileGm_;
    TQue<QuePosition::VECIN, 1> in_;
    TQue<QuePosition::VECOUT, 1> out_;
};

extern "C" __global__ __aicore__ void conv3d_dx_ncdhw(GM_ADDR filter, GM_ADDR dedy, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    GET_TILING_DATA(tilingData, tiling);
    Conv3dDxNcdhw<NUMBER> op;
    op.Init(filter, dedy, y, workspace, &tilingData);
    op.Process();
}

#include "files.h"

int main(int, char **arguments) {
    const uint32_t cores = uint32_t(std::atoi(arguments[1]));
    uint8_t *tiling = from_file(arguments[2]), *weight = from_file(arguments[3]), *gradOutput = from_file(arguments[4]);
    uint8_t *gradInput = room_for(arguments[5]);
    const auto &t = reinterpret_cast<Conv3DBackpropInputTilingData *>(tiling)->conv3DDxTiling;
    uint8_t *workspace = static_cast<uint8_t *>(GmAlloc(size_t(cores) * t.baseM * t.baseN * 2));
    ICPU_RUN_KF(conv3d_dx_ncdhw, cores, weight, gradOutput, gradInput, workspace, tiling);
    to_file(arguments[5], gradInput);
    for (uint8_t *block : {tiling, weight, gradOutput, gradInput, workspace}) GmFree(block);
    return 0;
}
