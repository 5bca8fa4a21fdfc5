// One small convolution on integers: its tensors in the layouts the kernels read, and both gradients by definition.
#pragma once

#include <cstdio>
#include <functional>
#include <vector>

#include "tikicpulib.h"

struct Problem {
    int n, cin, cout, d, h, w, kd, kh, kw, strideH, pad;  // the same pad on every side of rows and columns

    int outD() const { return d - kd + 1; }
    int outH() const { return (h + 2 * pad - kh) / strideH + 1; }
    int outW() const { return w + 2 * pad - kw + 1; }
    static int blocks(int channels) { return (channels + 15) / 16; }

    // Offsets in NDC1HWC0 and FRACTAL_Z_3D.
    size_t inInput(int b, int c, int z, int y, int x) const {
        return ((((size_t(b) * d + z) * blocks(cin) + c / 16) * h + y) * w + x) * 16 + c % 16;
    }
    size_t inOutput(int b, int c, int z, int y, int x) const {
        return ((((size_t(b) * outD() + z) * blocks(cout) + c / 16) * outH() + y) * outW() + x) * 16 + c % 16;
    }
    size_t inWeight(int co, int ci, int z, int y, int x) const {
        return ((((size_t(z) * blocks(cin) + ci / 16) * kh + y) * kw + x) * blocks(cout) * 16 + co) * 16 + ci % 16;
    }
    size_t inputSize() const { return size_t(n) * d * blocks(cin) * h * w * 16; }
    size_t outputSize() const { return size_t(n) * outD() * blocks(cout) * outH() * outW() * 16; }
    size_t weightSize() const { return size_t(kd) * blocks(cin) * kh * kw * blocks(cout) * 256; }

    // Every product of the convolution: which output, which weight, which input.
    void products(const std::function<void(size_t, size_t, size_t)> &each) const {
        for (int b = 0; b < n; ++b)
            for (int co = 0; co < cout; ++co)
                for (int z = 0; z < outD(); ++z)
                    for (int y = 0; y < outH(); ++y)
                        for (int x = 0; x < outW(); ++x)
                            for (int ci = 0; ci < cin; ++ci)
                                for (int tz = 0; tz < kd; ++tz)
                                    for (int ty = 0; ty < kh; ++ty)
                                        for (int tx = 0; tx < kw; ++tx) {
                                            const int row = y * strideH - pad + ty, column = x - pad + tx;
                                            if (row < 0 || row >= h || column < 0 || column >= w) continue;
                                            each(inOutput(b, co, z, y, x), inWeight(co, ci, tz, ty, tx),
                                                 inInput(b, ci, z + tz, row, column));
                                        }
    }
};

// Memory of the simulated device: small integers where the tensor has elements, zeros in the pad lanes.
inline half *numbers(size_t size, unsigned seed, const std::function<bool(size_t)> &isElement) {
    auto *memory = static_cast<half *>(AscendC::GmAlloc(size * sizeof(half)));
    for (size_t at = 0; at < size; ++at) {
        seed = seed * 1664525u + 1013904223u;
        memory[at] = half(isElement(at) ? float(int(seed >> 16) % 5 - 2) : 0.0f);
    }
    return memory;
}

template <class T> int compared(const char *name, const T *got, const std::vector<float> &right) {
    size_t wrong = 0;
    for (size_t at = 0; at < right.size(); ++at) wrong += !(float(got[at]) == right[at]);
    std::printf("%s: %zu of %zu elements differ\n", name, wrong, right.size());
    return wrong == 0 ? 0 : 1;
}
