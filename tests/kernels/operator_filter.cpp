// gradWeight as an operator kernel writes it, in the older spelling: columns that run on through all window planes which
// meet the input, IterateAll. Arguments: cores, then files with the tiling record, input, gradOutput; the last is written
// with gradWeight.
#include "kernel_operator.h"

#include "conv3d_bp_filter.h"
#include "tikicpulib.h"

#ifndef NUMBER
#define NUMBER half
#endif

using namespace AscendC;
using ConvolutionBackprop::CubeFormat;

extern "C" __global__ __aicore__ void conv3d_backprop_filter_v2(GM_ADDR x, GM_ADDR out_backprop, GM_ADDR y, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    REGISTER_TILING_DEFAULT(Conv3DBackpropFilterTilingData);
    GET_TILING_DATA(tilingData, tiling);
    const TConv3DDwTiling &t = tilingData.dwTiling;
    using xType = ConvolutionBackprop::ConvType<TPosition::GM, CubeFormat::NDC1HWC0, NUMBER>;
    using sizeType = ConvolutionBackprop::ConvType<TPosition::GM, CubeFormat::ND, int32_t>;
    using yType = ConvolutionBackprop::ConvType<TPosition::GM, CubeFormat::FRACTAL_Z_3D, float>;
    ConvolutionBackprop::Conv3DBackpropFilter<xType, sizeType, xType, yType> dw_;
    GlobalTensor<NUMBER> xGm_, dedyGm_;
    GlobalTensor<float> yGm_;
    xGm_.SetGlobalBuffer((__gm__ NUMBER *)x);
    dedyGm_.SetGlobalBuffer((__gm__ NUMBER *)out_backprop);
    yGm_.SetGlobalBuffer((__gm__ float *)y);
    const uint64_t cout = AlignUp(t.cout, 16), perKd = uint64_t(t.cin1G) * 16 * t.hk * t.wk * cout;
    if ASCEND_IS_AIV {  // zeros through a buffer of the vector core, 4 KiB at a time
        TPipe pipe;
        TBuf<TPosition::VECCALC> buffer;
        pipe.InitBuffer(buffer, 4096);
        LocalTensor<float> zeros = buffer.Get<float>();
        Duplicate<float>(zeros, 0.0f, 1024);
        SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
        WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
        const uint64_t all = t.dk * perKd;
        GlobalTensor<float> mine = yGm_;
        for (uint64_t at = 1024 * GetBlockIdx(); at < all; at += 1024 * GetBlockNum() * GetSubBlockNum()) {
            DataCopyExtParams run(1, uint32_t((all - at < 1024 ? all - at : 1024) * sizeof(float)), 0, 0, 0);
            DataCopyPad(mine[at], zeros, run);
        }
        PipeBarrier<PIPE_ALL>();
    }
    SyncAll<false>();
    if ASCEND_IS_AIV {
        return;
    }
    dw_.Init(&tilingData.dwTiling);
    uint64_t work = 0;
    for (uint64_t n = 0; n < t.batch; ++n)
        for (uint64_t d = 0; d < t.dout; ++d) {
            if (work++ % GetBlockNum() != uint64_t(GetBlockIdx())) continue;
            for (int64_t kd = 0, next; kd < t.dk; kd = next) {
                next = kd + 1;
                const int64_t din = int64_t(d * t.strideD) - t.padFront + kd * t.dilationD;
                if (din < 0 || din >= t.di) continue;
                if (t.dilationD == 1)  // columns run on into the next planes
                    while (next < t.dk && din + next - kd < t.di) ++next;
                dw_.SetOutBackprop(dedyGm_[(n * t.dout + d) * cout * t.ho * t.wo]);
                dw_.SetFmap(xGm_[(n * t.di + uint64_t(din)) * t.cin1G * 16 * t.hi * t.wi]);
                dw_.SetSingleShape(cout, uint64_t(next - kd) * t.cin1G * 16 * t.hk * t.wk, uint64_t(t.ho) * t.wo, 0);
                dw_.IterateAll(yGm_[uint64_t(kd) * perKd], 1);
            }
        }
    dw_.End();
}

#include "files.h"

int main(int, char **arguments) {
    uint8_t *tiling = from_file(arguments[2]), *input = from_file(arguments[3]), *gradOutput = from_file(arguments[4]);
    uint8_t *gradWeight = room_for(arguments[5]);
    ICPU_RUN_KF(conv3d_backprop_filter_v2, std::atoi(arguments[1]), input, gradOutput, gradWeight, tiling);
    to_file(arguments[5], gradWeight);
    for (uint8_t *block : {tiling, input, gradOutput, gradWeight}) GmFree(block);
    return 0;
}
