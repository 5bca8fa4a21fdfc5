// One small kernel of each object, right as it stands; an argument names the mistake that is put into it.
#include "conv3d_bp_input.h"
#include "kernel_operator.h"
#include "lib/conv_backprop/conv3d_bp_filter_api.h"
#include "lib/conv_backprop/conv3d_bp_input_api.h"
#include "tikicpulib.h"
#include "tiling/tiling_api.h"

#include <cstdio>
#include <cstring>
#include <initializer_list>

using namespace AscendC;
using ConvCommonApi::ConvFormat;

static const char *mistake = "";
static bool is(const char *name) { return std::strcmp(mistake, name) == 0; }
static uint8_t *freed = nullptr;
static half on_the_host[16];

template <ConvFormat format, class T>
using Gm = ConvBackpropApi::ConvType<TPosition::GM, format, T>;
template <ConvFormat format>
using Dx = ConvBackpropApi::Conv3DBackpropInput<Gm<ConvFormat::FRACTAL_Z_3D, half>, Gm<ConvFormat::ND, int32_t>,
                                                Gm<ConvFormat::NDC1HWC0, half>, Gm<format, half>>;
using Dw = ConvBackpropApi::Conv3DBackpropFilter<Gm<ConvFormat::NDC1HWC0, half>, Gm<ConvFormat::ND, int32_t>,
                                                 Gm<ConvFormat::NDC1HWC0, half>, Gm<ConvFormat::FRACTAL_Z_3D, float>>;
template <Convolution3DBackprop::CubeFormat format, class T>
using Old = Convolution3DBackprop::ConvType<TPosition::GM, format, T>;
using OldFormat = Convolution3DBackprop::CubeFormat;
using OldDx = Convolution3DBackprop::Conv3DBackpropInput<Old<OldFormat::FRACTALZ_3D, half>, Old<OldFormat::ND, int32_t>,
                                                         Old<OldFormat::NDC1HWC0, half>, Old<OldFormat::NDC1HWC0, half>>;

// Two batches of two planes of 6 x 5, 20 channels from 24, a window of 3 x 3: a core takes a plane, two tiles a walk.
template <ConvFormat format>
void input_kernel(GM_ADDR weight, GM_ADDR gradOutput, GM_ADDR gradInput, GM_ADDR tiling) {
    GlobalTensor<half> w, g, y;
    GlobalTensor<uint16_t> zeros;
    if (is("gm.size")) w.SetGlobalBuffer((__gm__ half *)weight, 100);
    else if (is("gm.unknown")) w.SetGlobalBuffer(on_the_host);
    else if (is("gm.freed")) w.SetGlobalBuffer((__gm__ half *)freed);
    else w.SetGlobalBuffer((__gm__ half *)weight);
    g.SetGlobalBuffer((__gm__ half *)gradOutput), y.SetGlobalBuffer((__gm__ half *)gradInput);
    zeros.SetGlobalBuffer((__gm__ uint16_t *)gradInput);
    TConv3DBackpropInputTiling t = reinterpret_cast<Conv3DBackpropInputTilingData *>(tiling)->conv3DDxTiling;
    if (is("shape.planes")) {
        OldDx old;
        old.Init(&t);
        old.SetSingleShape(30, 288, 20, 3);
    }
    Dx<format> dx;
    if (is("order.init_first")) dx.SetWeight(w);
    dx.Init(&t);
    ASSERT(GetBlockNum() != 0 && "block dim can not be zero!");
    assert(GetBlockNum() != 0);
    ascendc_assert(!is("kernel.assert"), "block %d", 0);
    if (is("order.missing_setter")) dx.Iterate();
    if ASCEND_IS_AIV {
        if (is("coverage.zeroed_late")) SyncAll<false>();
        if (is("coverage.zeroed_late") && GetBlockIdx() == 0) Fill<uint16_t>(zeros, 16, 0);
        if (!is("role.vector_store")) return dx.End();
    }
    for (uint64_t batch = 0; batch < 2; ++batch) {
        uint32_t plane = uint32_t(block_idx), M = 30, N = 20;
        uint64_t K = 288, a = batch * 1920, b = 0, c = batch * 1920;
        int32_t row = -1;
        if (is("shape.positive")) M = 0;
        if (is("shape.k_total")) K = 576;
        if (is("shape.m_total")) M = 60;
        if (is("shape.n_total")) N = 40;
        if (is("start.plane")) plane += 2;
        if (is("start.range")) row = 6;
        if (is("start.row")) row = 2, a += 160;
        if (is("pointer.row_start")) a += 1;
        if (is("pointer.cout_range")) a += 480;
        if (is("pointer.weight_block")) b += 1;
        if (is("pointer.cin_range")) b += 4608;
        if (is("pointer.plane_range")) row = 0, c += 80;
        if (is("pointer.batch")) c = 1920 - c;
        if (is("pointer.cin_block")) N = 16, c += 480;
        if (is("pointer.cout_block")) K = 144, a += 480;
        if (is("coverage.two_cores")) plane = 0;
        if ((is("coverage.never_written") || is("coverage.zeroing")) && plane == 1) continue;
        for (int again = 0; again < (is("coverage.twice") ? 2 : 1); ++again) {
            dx.SetSingleShape(M, K, N);
            dx.SetStartPosition(plane, row);
            dx.SetGradOutput(g[a]);
            dx.SetWeight(w[b]);
            if (is("order.no_tile")) dx.GetTensorC(y[c]);
            for (uint64_t tiles = 0; dx.Iterate(); ++tiles) {
                if (is("order.end_mid_walk")) dx.End();
                dx.GetTensorC(y[is("pointer.moved") ? c + 16 * tiles : c], is("coverage.add_unzeroed") ? 1 : 0);
                if (is("order.left_early")) break;
            }
            dx.ctx.isFirstIter_ = true;
        }
    }
    if (is("coverage.zeroed_late")) SyncAll<false>();
    dx.End();
}

void filter_kernel(GM_ADDR input, GM_ADDR gradOutput, GM_ADDR gradWeight, GM_ADDR tiling) {
    GlobalTensor<half> x, g;
    GlobalTensor<float> y;
    x.SetGlobalBuffer((__gm__ half *)input), g.SetGlobalBuffer((__gm__ half *)gradOutput);
    y.SetGlobalBuffer((__gm__ float *)gradWeight);
    if ASCEND_IS_AIV {
        if (GetBlockIdx() == 0) Fill<float>(y, 2 * 9 * 32 * 16, 0.0f);
    }
    SyncAll<false>();
    if ASCEND_IS_AIV return;
    Dw dw;
    dw.Init(&reinterpret_cast<Conv3DBackpropFilterTilingData *>(tiling)->dwTiling);
    for (uint64_t batch = 0; batch < 2; ++batch) {
        const uint64_t plane = batch * 2 + uint64_t(block_idx);
        if (is("coverage.overwritten") && block_idx == 1) continue;
        uint64_t row = 0, a = plane * 960, b = plane * 960;
        if (is("pointer.top_pad")) row = 2, a += 160, b += 160;
        dw.SetSingleShape(32, 32 * 9, 30 - row * 5);
        dw.SetStartPosition(uint32_t(row));
        dw.SetGradOutput(g[a]);
        dw.SetInput(x[b]);
        while (dw.Iterate()) dw.GetTensorC(y, is("coverage.overwritten") ? 0 : 1);
        dw.ctx.isFirstIter_ = true;
    }
    dw.End();
}

template <class T>
uint8_t *zeros_of(size_t count) {
    auto *memory = static_cast<uint8_t *>(GmAlloc(count * sizeof(T)));
    std::memset(memory, 0, count * sizeof(T));
    return memory;
}

int main(int count, char **arguments) {
    mistake = count > 1 ? arguments[1] : "";
    ConvBackpropApi::Conv3DBpInputTiling inputs;
    ConvBackpropApi::Conv3dBpFilterTiling weights;
    inputs.SetWeightShape(24, 20, 1, 3, 3), inputs.SetInputShape(2, 20, 2, 6, 5), inputs.SetGradOutputShape(2, 24, 2, 6, 5);
    weights.SetWeightShape(24, 20, 1, 3, 3), weights.SetInputShape(2, 20, 2, 6, 5), weights.SetGradOutputShape(2, 24, 2, 6, 5);
    inputs.SetPadding(0, 0, 1, 1, 1, 1), weights.SetPadding(0, 0, 1, 1, 1, 1);
    auto *dxTiling = reinterpret_cast<Conv3DBackpropInputTilingData *>(zeros_of<Conv3DBackpropInputTilingData>(1));
    auto *dwTiling = reinterpret_cast<Conv3DBackpropFilterTilingData *>(zeros_of<Conv3DBackpropFilterTilingData>(1));
    if (inputs.GetTiling(*dxTiling) != 0 || weights.GetTiling(*dwTiling) != 0) return 3;
    TConv3DBackpropInputTiling &t = dxTiling->conv3DDxTiling;
    t.baseM = 16, t.baseN = 32, t.baseK = 16, t.stepKa = t.stepKb = 9;
    if (is("tiling.positive")) t.baseM = 0;
    if (is("capacity.L0A")) t.baseM = 512, t.baseK = 144, t.stepKa = t.stepKb = 1, t.baseN = 16;
    if (is("capacity.L0B")) t.baseN = 512, t.baseK = 144, t.stepKa = t.stepKb = 1;
    if (is("capacity.L0C")) t.baseM = 512, t.baseN = 256;
    if (is("capacity.L1")) t.stepKb = 1800;
    if (is("coverage.zeroing")) t.initOutputFlag = 1;
    if (is("pointer.front_pad")) dwTiling->dwTiling.padFront = 1;
    uint8_t *weight = zeros_of<half>(2 * 9 * 32 * 16), *gradOutput = zeros_of<half>(3840);
    auto *gradInput = static_cast<uint8_t *>(GmAlloc(3840 * sizeof(half)));
    auto *gradWeight = static_cast<uint8_t *>(GmAlloc(2 * 9 * 32 * 16 * sizeof(float)));
    uint8_t *tiling = reinterpret_cast<uint8_t *>(dxTiling);
    freed = zeros_of<half>(16);
    GmFree(freed);
    if (is("gm.free")) GmFree(on_the_host);
    if (is("role.vector_store") || is("coverage.zeroed_late")) SetKernelMode(KernelMode::MIX_MODE);
    const uint32_t blocks = is("launch.blocks") ? 0 : 2;
    if (is("launch.null")) ICPU_RUN_KF(input_kernel<ConvFormat::NDC1HWC0>, 2, static_cast<uint8_t *>(nullptr), gradOutput, gradInput, tiling);
    else if (is("launch.many"))
        ICPU_RUN_KF([](auto...) {}, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
                    27, 28, 29, 30, 31, 32, 33);
    else if (is("store.ncdhw")) ICPU_RUN_KF(input_kernel<ConvFormat::NCDHW>, 2, weight, gradOutput, gradInput, tiling);
    else ICPU_RUN_KF(input_kernel<ConvFormat::NDC1HWC0>, blocks, weight, gradOutput, gradInput, tiling);
    SetKernelMode(KernelMode::MIX_MODE);
    ICPU_RUN_KF(filter_kernel, 2, gradOutput, gradOutput, gradWeight, reinterpret_cast<uint8_t *>(dwTiling));
    for (uint8_t *block : {weight, gradOutput, gradInput, gradWeight, tiling, reinterpret_cast<uint8_t *>(dwTiling)}) GmFree(block);
    return 0;
}
