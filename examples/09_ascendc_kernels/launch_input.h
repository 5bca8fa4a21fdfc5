// Tiling, memory and launch of a gradInput kernel, and its result against the definition.
#pragma once

#include "lib/conv_backprop/conv3d_bp_input_tiling.h"
#include "problem.h"

template <class Kernel> int launch_input(const char *name, const Problem &p, Kernel kernel) {
    ConvBackpropApi::Conv3DBpInputTiling tiling;
    tiling.SetWeightShape(p.cout, p.cin, p.kd, p.kh, p.kw);
    tiling.SetInputShape(p.n, p.cin, p.d, p.h, p.w);
    tiling.SetGradOutputShape(p.n, p.cout, p.outD(), p.outH(), p.outW());
    tiling.SetPadding(0, 0, p.pad, p.pad, p.pad, p.pad);
    tiling.SetStride(1, p.strideH, 1);
    tiling.SetDilation(1, 1, 1);
    auto *data = static_cast<AscendC::tiling::Conv3DBackpropInputTilingData *>(
        AscendC::GmAlloc(sizeof(AscendC::tiling::Conv3DBackpropInputTilingData)));
    if (tiling.GetTiling(*data) != 0) return 1;

    std::vector<bool> isOutput(p.outputSize()), isWeight(p.weightSize());
    p.products([&](size_t output, size_t weight, size_t) { isOutput[output] = isWeight[weight] = true; });
    half *gradOutput = numbers(p.outputSize(), 1, [&](size_t at) { return isOutput[at]; });
    half *weight = numbers(p.weightSize(), 2, [&](size_t at) { return isWeight[at]; });
    auto *gradInput = static_cast<half *>(AscendC::GmAlloc(p.inputSize() * sizeof(half)));
    auto bytes = [](auto *memory) { return reinterpret_cast<uint8_t *>(memory); };
    ICPU_RUN_KF(kernel, 8, bytes(weight), bytes(gradOutput), bytes(gradInput), bytes(data));

    std::vector<float> right(p.inputSize());
    p.products([&](size_t o, size_t w, size_t i) { right[i] += float(gradOutput[o]) * float(weight[w]); });
    const int code = compared(name, gradInput, right);
    for (void *memory : {(void *)gradOutput, (void *)weight, (void *)gradInput, (void *)data}) AscendC::GmFree(memory);
    return code;
}
