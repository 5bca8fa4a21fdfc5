// gradInput as an operator kernel writes it, in the older spelling: a grid of batches, groups of planes, rows and channels
// dealt to cores, several planes a walk, IterateAll. Arguments: cores, then files with the tiling record, weight,
// gradOutput; the last is written with gradInput. ZEROS_BY says who zeroes: vector cores (0), or cube cores with copies from
// L1 (1) or with a product of zeros (2), after which they meet by a flag.
#include "conv3d_bp_input.h"
#include "kernel_operator.h"
#include "tikicpulib.h"

#include "ascendc/host_api/tiling/template_argument.h"

#ifndef NUMBER
#define NUMBER half
#endif
#ifndef ZEROS_BY
#define ZEROS_BY 0
#endif

using namespace AscendC;
using Convolution3DBackprop::CubeFormat;

ASCENDC_TPL_ARGS_DECL(Conv3DBackpropInput, ASCENDC_TPL_UINT_DECL(loadB2Condition, ASCENDC_TPL_2_BW, ASCENDC_TPL_UI_LIST, 0, 1));

// A record of the operator's own: the fields by name, and more of them.
struct TConv3DInputV2Tiling : TConv3DBackpropInputTiling {
    uint32_t coreNum = 0;
};
constexpr Convolution3DBackprop::Conv3dConfig CONFIG = {Convolution3DBackprop::B2Condition::HKWK_EQ_ONE, false};

template <typename T>
class Conv3dDx {
public:
    using filterType = Convolution3DBackprop::ConvType<TPosition::GM, CubeFormat::FRACTALZ_3D, T>;
    using inputSizeType = Convolution3DBackprop::ConvType<TPosition::GM, CubeFormat::ND, int32_t>;
    using dedyType = Convolution3DBackprop::ConvType<TPosition::GM, CubeFormat::NDC1HWC0, T>;
    using yType = Convolution3DBackprop::ConvType<TPosition::GM, CubeFormat::NDC1HWC0, T>;

    __aicore__ inline void Init(GM_ADDR filter, GM_ADDR dedy, GM_ADDR y, const TConv3DInputV2Tiling *tiling) {
        t = tiling;
        filterGm_.SetGlobalBuffer((__gm__ T *)filter);
        dedyGm_.SetGlobalBuffer((__gm__ T *)dedy);
        yGm_.SetGlobalBuffer((__gm__ T *)y);
        zeroGm_.SetGlobalBuffer((__gm__ uint16_t *)y);
        dedx_.Init(t);
    }

    __aicore__ inline void Process() {
        const uint64_t size = uint64_t(t->batch) * t->di * t->cin1 * t->hi * t->wi * t->c0;
        if (t->initOutputFlag == 1 && ZEROS_BY != 0) {
            if ASCEND_IS_AIC {
                TPipe pipe;
                if constexpr (ZEROS_BY == 1) ZerosFromL1(pipe, size);
                else ZerosFromL0C(pipe, size);
                pipe.Destroy();
                CrossCoreSetFlag<0, PIPE_FIX>(9);
                CrossCoreWaitFlag(9);
            }
        } else if (t->initOutputFlag == 1) {
            if ASCEND_IS_AIV {
                const uint64_t share = DivCeil(size, GetBlockNum() * GetTaskRation()), start = share * GetBlockIdx();
                GlobalTensor<uint16_t> mine = zeroGm_[start];
                if (start < size) InitGlobalMemory<uint16_t>(mine, size - start < share ? size - start : share, 0);
            }
            SyncAll<false>();
        }
        if ASCEND_IS_AIC {
            const uint32_t planes = t->di > 2 ? 2 : 1, rows = t->hi > 3 ? DivCeil(t->hi, 2) : t->hi;
            uint32_t work = 0;
            for (uint32_t batch = 0; batch < t->batch; ++batch)
                for (uint32_t d = 0; d < t->di; d += planes)
                    for (uint32_t row = 0; row < t->hi; row += rows)
                        for (uint32_t c1 = 0; c1 < t->cin1; c1 += t->singleCoreCin1)
                            if (work++ % GetBlockNum() == GetBlockIdx())
                                Walk(batch, d, t->di - d < planes ? t->di - d : planes, row, t->hi - row < rows ? t->hi - row : rows, c1);
        }
        dedx_.End();
    }

private:
    __aicore__ inline void ZerosFromL1(TPipe &pipe, uint64_t size) {
        TBuf<TPosition::TSCM> buffer;
        pipe.InitBuffer(buffer, TOTAL_L1_SIZE);
        LocalTensor<T> zeros = buffer.Get<T>();
        constexpr uint16_t BLOCKS = 64;
        InitConstValue(zeros, {1, BLOCKS, 0, 0U});
        const TEventID event = GetTPipePtr()->FetchEventID<HardEvent::MTE2_MTE3>();
        SetFlag<HardEvent::MTE2_MTE3>(event);
        WaitFlag<HardEvent::MTE2_MTE3>(event);
        constexpr uint64_t PIECE = BLOCKS * ONE_BLK_SIZE / sizeof(T);
        for (uint64_t at = PIECE * block_idx; at < size; at += PIECE * GetBlockNum()) {
            DataCopyParams run;
            run.blockLen = uint16_t((size - at < PIECE ? size - at : PIECE) * sizeof(T) / ONE_BLK_SIZE);
            DataCopy(yGm_[at], zeros, run);
        }
    }
    __aicore__ inline void ZerosFromL0C(TPipe &pipe, uint64_t size) {
        TBuf<TPosition::A2> left;
        TBuf<TPosition::B2> right;
        TBuf<TPosition::CO1> tile;
        pipe.InitBuffer(left, TOTAL_L0A_SIZE), pipe.InitBuffer(right, TOTAL_L0B_SIZE), pipe.InitBuffer(tile, TOTAL_L0C_SIZE);
        LocalTensor<T> a = left.Get<T>(), b = right.Get<T>();
        LocalTensor<float> c = tile.Get<float>();
        InitConstValue(a, {1, 4, 0, 0U});
        InitConstValue(b, {1, 1, 0, 0U});
        MmadParams product;
        product.m = 64, product.n = 16, product.k = 16, product.cmatrixInitVal = true;
        MmadImpl(c, a, b, product);
        for (uint64_t at = 1024 * block_idx; at < size; at += 1024 * GetBlockNum()) {
            FixpipeParamsV220 store;
            store.nSize = 16, store.mSize = uint16_t((size - at < 1024 ? size - at : 1024) / 16), store.srcStride = 64;
            store.quantPre = std::is_same<T, half>::value ? QuantMode_t::F322F16 : QuantMode_t::F322BF16;
            Fixpipe<T, float, CFG_NZ>(yGm_[at], c, store);
        }
    }

    __aicore__ inline void Walk(uint64_t batch, uint32_t d, uint32_t planes, uint32_t row, uint32_t rows, uint64_t c1) {
        const int32_t hoStart = int32_t(row) - int32_t(t->backpropPadUp);
        const uint64_t first = hoStart < 0 ? 0 : DivCeil(hoStart, t->strideH);
        const int64_t unreached = int64_t(t->backpropPadDown) - int64_t(t->hk - 1) * t->dilationH;
        if (row + rows == t->hi && unreached > 0) rows = rows > unreached ? rows - uint32_t(unreached) : 0;
        if (unlikely(first >= t->ho || rows == 0)) return;
        const uint64_t channels = t->cin - c1 * t->c0, most = uint64_t(t->singleCoreCin1) * t->c0;
        dedx_.SetOutBackprop(dedyGm_[(batch * t->dout * t->cout1 * t->ho + first) * t->wo * t->c0]);
        dedx_.SetWeight(filterGm_[c1 * t->hk * t->wk * AlignUp(t->cout, BLOCK_CUBE) * t->c0]);
        dedx_.SetSingleShape(uint64_t(rows) * t->wi, uint64_t(t->dk) * t->cout1 * t->hk * t->wk * t->c0,
                             uint32_t(channels < most ? channels : most), planes);
        dedx_.SetStartIdx(d, hoStart);
        dedx_.IterateAll(yGm_[((batch * t->di * t->cin1 + c1) * t->hi + row) * t->wi * t->c0], 0);
    }

    const TConv3DInputV2Tiling *t = nullptr;
    Convolution3DBackprop::Conv3DBackpropInput<filterType, inputSizeType, dedyType, yType, CONFIG> dedx_;
    GlobalTensor<T> filterGm_, dedyGm_, yGm_;
    GlobalTensor<uint16_t> zeroGm_;
};

extern "C" __global__ __aicore__ void conv3d_backprop_input_v2(GM_ADDR filter, GM_ADDR out_backprop, GM_ADDR y, GM_ADDR tiling) {
    KERNEL_TASK_TYPE(1, KERNEL_TYPE_MIX_AIC_1_2);
    if (TILING_KEY_IS(1)) {
        GET_TILING_DATA_WITH_STRUCT(TConv3DInputV2Tiling, tilingData, tiling);
        Conv3dDx<NUMBER> op;
        op.Init(filter, out_backprop, y, &tilingData);
        op.Process();
    }
}

#include "files.h"

int main(int, char **arguments) {
    uint8_t *record = from_file(arguments[2]), *weight = from_file(arguments[3]), *gradOutput = from_file(arguments[4]);
    uint8_t *tiling = static_cast<uint8_t *>(GmAlloc(sizeof(TConv3DInputV2Tiling))), *gradInput = room_for(arguments[5]);
    std::memcpy(tiling, record, 280);
    ICPU_SET_TILING_KEY(1);
    ICPU_RUN_KF(conv3d_backprop_input_v2, std::atoi(arguments[1]), weight, gradOutput, gradInput, tiling);
    to_file(arguments[5], gradInput);
    for (uint8_t *block : {record, tiling, weight, gradOutput, gradInput}) GmFree(block);
    return 0;
}
