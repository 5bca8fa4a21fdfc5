// The weight contraction of few coarse channels per group: vectors run along the pixels, not along the channels, which
// would leave most of their lanes empty.
//
//   weight[c, f, k] = sum over lanes of  S[(f, k), c][lane],   S[(f, k), c] += fine[f, pixels*stride - pad +
//   k*dilation]
//                                                                              * coarse[c, pixels]   for eight pixels
//
// Lines that are no whole vectors end in zeros of the coarse operand. These meet cells that are not theirs, padding
// meets coarse values: where that made a NaN of an inf or NaN, it shows in the sums, and the plain path computes them
// again.
#pragma once

#include "paths/gemm_weight/pixel.inl.h"
#include "simd/vector.inl.h"

namespace cg {
namespace {

// Rows of the result summed at once, by the coarse channels summed together.
static constexpr int few_rows(int channels) { return channels == 1 ? 8 : 12 / channels; }

// C[MR][NC][8] += sum over steps of eight cells of each row * eight pixels of each coarse channel; c_row is the
// pitch of C.
template <int MR, int NC>
static void few_kernel(index_t steps, const Pixel* __restrict pixel, const float* __restrict tile,
                       const int* __restrict row, const float* __restrict coarse, index_t plane, float* __restrict C,
                       index_t c_row) {
    v8 c[MR][NC];
    const float *x[MR], *y[NC];
    UNROLL for (int j = 0; j < NC; ++j) y[j] = coarse + j * plane;
    UNROLL for (int i = 0; i < MR; ++i) {
        x[i] = tile + row[i];
        UNROLL for (int j = 0; j < NC; ++j) c[i][j] = v8{};
    }
    for (index_t k = 0; k < steps; ++k) {
        const index_t cell = pixel[k].cell, number = pixel[k].number;
        if (MR < NC) {
            v8 a[MR];
            UNROLL for (int i = 0; i < MR; ++i) a[i] = load8_once(x[i] + cell);
            UNROLL for (int j = 0; j < NC; ++j) {
                const v8 b = load8_once(y[j] + number);
                UNROLL for (int i = 0; i < MR; ++i) c[i][j] = fma8(a[i], b, c[i][j]);
            }
        } else {
            v8 b[NC];
            UNROLL for (int j = 0; j < NC; ++j) b[j] = load8_once(y[j] + number);
            UNROLL for (int i = 0; i < MR; ++i) {
                const v8 a = load8_once(x[i] + cell);
                UNROLL for (int j = 0; j < NC; ++j) c[i][j] = fma8(a, b[j], c[i][j]);
            }
        }
    }
    UNROLL for (int i = 0; i < MR; ++i) UNROLL for (int j = 0; j < NC; ++j) {
        float* p = C + i * c_row + j * 8;
        store8(p, load8(p) + c[i][j]);
    }
}

typedef void (*FewKernel)(index_t, const Pixel*, const float*, const int*, const float*, index_t, float*, index_t);

static FewKernel few_kernel_for(index_t rows, index_t channels) {
// clang-format off
#define KERNEL(MR, NC) \
    if (rows == MR && channels == NC) return few_kernel<MR, NC>;
    KERNEL(1, 4) KERNEL(2, 4) KERNEL(3, 4)
    KERNEL(1, 3) KERNEL(2, 3) KERNEL(3, 3) KERNEL(4, 3)
    KERNEL(1, 2) KERNEL(2, 2) KERNEL(3, 2) KERNEL(4, 2) KERNEL(5, 2) KERNEL(6, 2)
    KERNEL(1, 1) KERNEL(2, 1) KERNEL(3, 1) KERNEL(4, 1) KERNEL(5, 1) KERNEL(6, 1) KERNEL(7, 1) KERNEL(8, 1)
#undef KERNEL
        // clang-format on
        return nullptr;
}

}  // namespace
}  // namespace cg
