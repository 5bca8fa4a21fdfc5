// Call sequences from standard input, each on a kernel object of its own, and what came of them: tiles, findings, bytes.
//
//     S kind number record gradOutput other result seed calls     then so many calls, a letter and its numbers each
//
// kind 0 is Conv3DBackpropInput, 1 Conv3DBackpropFilter; number 0 half, 1 bfloat16_t; the record in hexadecimal digits;
// elements of the three tensors. Values follow from the seed: multiples of 1/16 that both formats hold exactly.
#include <iostream>
#include <string>
#include <vector>

#include "kernel_operator.h"
#include "lib/conv_backprop/conv3d_bp_filter_api.h"
#include "lib/conv_backprop/conv3d_bp_input_api.h"
#include "tikicpulib.h"

using namespace AscendC;
using ConvBackpropApi::ConvType;
using ConvCommonApi::ConvFormat;

struct Call {
    char letter;
    long long one, two, three;
};

struct Sequence {
    int kind = 0, number = 0;
    std::vector<uint8_t> record;
    uint64_t gradOutput = 0, other = 0, result = 0, seed = 0;
    std::vector<Call> calls;
};

template <class T> uint8_t *values(uint64_t count, uint64_t seed) {
    auto *memory = static_cast<T *>(GmAlloc(count * sizeof(T)));
    for (uint64_t at = 0; at < count; ++at) {
        const uint32_t mixed = static_cast<uint32_t>(at * 2654435761u + seed * 40503u) >> 16;
        memory[at] = T(float(int(mixed % 41) - 20) / 16.0f);
    }
    return reinterpret_cast<uint8_t *>(memory);
}

template <class Record, class Object, class T, class R, bool input>
void play(const Sequence &sequence, uint8_t *gradOutput, uint8_t *other, uint8_t *result) {
    GlobalTensor<T> gradOutputGm, otherGm;
    GlobalTensor<R> resultGm;
    gradOutputGm.SetGlobalBuffer(reinterpret_cast<T *>(gradOutput));
    otherGm.SetGlobalBuffer(reinterpret_cast<T *>(other));
    resultGm.SetGlobalBuffer(reinterpret_cast<R *>(result));
    Record record;
    std::memcpy(static_cast<void *>(&record), sequence.record.data(), sizeof record);
    Object object;
    for (const Call &call : sequence.calls) {
        switch (call.letter) {
            case 'I': object.Init(&record); break;
            case 'H':
                if constexpr (input) object.SetSingleShape(call.one, call.two, static_cast<uint32_t>(call.three));
                else object.SetSingleShape(call.one, call.two, call.three);
                break;
            case 'P':
                if constexpr (input) object.SetStartPosition(static_cast<uint32_t>(call.one), static_cast<int32_t>(call.two));
                else object.SetStartPosition(static_cast<uint32_t>(call.one));
                break;
            case 'G': object.SetGradOutput(gradOutputGm[call.one]); break;
            case 'O':
                if constexpr (input) object.SetWeight(otherGm[call.one]);
                else object.SetInput(otherGm[call.one]);
                break;
            case 'T':
                if (object.Iterate())
                    std::cout << "T " << object.ctx.curML0Idx_ << ' ' << object.ctx.curNL0Idx_ << ' ' << object.ctx.curDinIdx_
                              << ' ' << object.ctx.baseUseM_ << ' ' << object.ctx.baseUseN_ << '\n';
                else std::cout << "T end\n";
                break;
            case 'C': object.GetTensorC(resultGm[call.one], static_cast<uint8_t>(call.two), call.three != 0); break;
            case 'F': object.ctx.isFirstIter_ = call.one != 0; break;
            default: object.End();
        }
    }
    std::cout << "whole\n";
}

template <class T> void run(const Sequence &sequence) {
    constexpr auto gm = ConvCommonApi::TPosition::GM;
    using Size = ConvType<gm, ConvFormat::ND, int32_t>;
    using Fractal = ConvType<gm, ConvFormat::FRACTAL_Z_3D, T>;
    using Packed = ConvType<gm, ConvFormat::NDC1HWC0, T>;
    using Sums = ConvType<gm, ConvFormat::FRACTAL_Z_3D, float>;
    uint8_t *gradOutput = values<T>(sequence.gradOutput, sequence.seed), *other = values<T>(sequence.other, sequence.seed + 1);
    const size_t before = convgrad_tile_findings(), bytes = sequence.result * (sequence.kind == 0 ? sizeof(T) : sizeof(float));
    auto *result = static_cast<uint8_t *>(GmAlloc(bytes));
    std::memset(result, sequence.seed % 2 == 0 ? 0 : 0x3C, bytes);  // zeroed before the launch, or not
    if (sequence.kind == 0) {
        using Object = ConvBackpropApi::Conv3DBackpropInput<Fractal, Size, Packed, Packed>;
        auto kernel = play<TConv3DBackpropInputTiling, Object, T, T, true>;
        ICPU_RUN_KF(kernel, 1, sequence, gradOutput, other, result);
    } else {
        using Object = ConvBackpropApi::Conv3DBackpropFilter<Packed, Size, Packed, Sums>;
        auto kernel = play<TConv3DBpFilterTiling, Object, T, float, false>;
        ICPU_RUN_KF(kernel, 1, sequence, gradOutput, other, result);
    }
    for (size_t at = before; at < convgrad_tile_findings(); ++at) std::cout << "found " << convgrad_tile_finding(at) << '\n';
    uint64_t hash = 0;  // of words of 16 bits, each mixed with its place
    for (size_t at = 0; at + 1 < bytes; at += 2) {
        uint64_t mixed = (at / 2 << 16 | result[at] | result[at + 1] << 8) * 0x9E3779B97F4A7C15u;
        mixed ^= mixed >> 32;
        hash += mixed * 0xD6E8FEB86659FD93u;
    }
    std::cout << "bytes " << hash << '\n';
    for (uint8_t *memory : {gradOutput, other, result}) GmFree(memory);
}

int main() {
    std::ios::sync_with_stdio(false);
    std::string letter, digits;
    while (std::cin >> letter) {
        Sequence sequence;
        size_t calls = 0;
        std::cin >> sequence.kind >> sequence.number >> digits >> sequence.gradOutput >> sequence.other >> sequence.result >>
            sequence.seed >> calls;
        for (size_t at = 0; at + 1 < digits.size(); at += 2)
            sequence.record.push_back(static_cast<uint8_t>(std::stoi(digits.substr(at, 2), nullptr, 16)));
        sequence.record.resize(280);
        for (size_t at = 0; at < calls; ++at) {
            Call call{};
            std::cin >> call.letter >> call.one >> call.two >> call.three;
            sequence.calls.push_back(call);
        }
        sequence.number == 0 ? run<half>(sequence) : run<bfloat16_t>(sequence);
    }
    return 0;
}
