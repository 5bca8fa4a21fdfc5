// The weight contraction: C[(f, tap), c] = sum over pixels of fine tile value * coarse value.
//
// Fine values are broadcast straight from the tile (row pointer + pixel offset): no im2col, and strides, dilation or
// three-channel stems are nothing special. Coarse values are packed to [pixel][c].
//
// Where both operands are bfloat16, or have no more bits, every cell is a bf16 pair with the cell after it, every pixel
// with the pixel after it in its line (nothing after the last), and the sum goes in steps of two pixels. Chains begin
// where such a step does, paired or not: the bits are the same.
#pragma once

#include "blocking/blocking_numbers.h"
#include "paths/gemm_weight/pixel.inl.h"
#include "simd/vector.inl.h"

namespace cg {
namespace {

// c += fine * coarse for one pixel. The pixel that begins a chain adds what c held to C first, as gather_step does.
template <int MR, int NV, bool PAIRS, bool BEGINS>
static INLINE void weight_step(const float* const (&x)[MR], index_t at, const float* coarse, vf (&c)[MR][NV], float* C,
                               index_t c_row) {
    vf y[NV];
    UNROLL for (int j = 0; j < NV; ++j) y[j] = load(coarse + j * LANES);
    UNROLL for (int i = 0; i < MR; ++i) {
        const vf a = operand<PAIRS>(x[i] + at);
        UNROLL for (int j = 0; j < NV; ++j) {
            float* p = C + i * c_row + j * LANES;
            if (BEGINS) store(p, load(p) + c[i][j]);
            c[i][j] = BEGINS ? multiply<PAIRS>(a, y[j]) : multiply_add<PAIRS>(a, y[j], c[i][j]);
        }
    }
}

// Which pixels a tap is summed over: all of a block in order, or those listed; pairs are always listed.
enum Pixels { ALL_PIXELS, LISTED_PIXELS, LISTED_PAIRS, PIXEL_LISTS };

// MR rows of the result, c_row being their pitch, each with its own first cell, and the first NV vectors of a panel of
// PANEL. Chains end before the steps `chain_end`.
template <int MR, int NV, int PANEL, int PIXELS>
static void weight_kernel(index_t steps, const int* __restrict chain_end, const float* __restrict tile,
                          const int* __restrict row, index_t next_row, const Pixel* __restrict pixel,
                          const float* __restrict coarse, float* __restrict C, index_t c_row) {
    const bool PAIRS = PIXELS == LISTED_PAIRS;
    vf c[MR][NV];
    const float* x[MR];
    UNROLL for (int i = 0; i < MR; ++i) {
        x[i] = tile + row[i * next_row];
        UNROLL for (int j = 0; j < NV; ++j) c[i][j] = vf{};
        UNROLL for (int j = 0; j < NV * LANES; j += 16) __builtin_prefetch(C + i * c_row + j, 1);
    }
    const auto values = [&](index_t k) {
        return coarse + (PIXELS == ALL_PIXELS ? k : index_t(pixel[k].number)) * (PANEL * LANES);
    };
    index_t k = 0, end = *chain_end;
#pragma GCC unroll 2
    for (; k < end; ++k) weight_step<MR, NV, PAIRS, false>(x, pixel[k].cell, values(k), c, C, c_row);
    while (k < steps) {
        end = *++chain_end;
        weight_step<MR, NV, PAIRS, true>(x, pixel[k].cell, values(k), c, C, c_row);
        ++k;
#pragma GCC unroll 2
        for (; k < end; ++k) weight_step<MR, NV, PAIRS, false>(x, pixel[k].cell, values(k), c, C, c_row);
    }
    UNROLL for (int i = 0; i < MR; ++i) UNROLL for (int j = 0; j < NV; ++j) {
        float* p = C + i * c_row + j * LANES;
        store(p, load(p) + c[i][j]);
    }
}

typedef void (*WeightKernel)(index_t, const int*, const float*, const int*, index_t, const Pixel*, const float*, float*,
                             index_t);

// Of a last panel whose channels fill one vector of two, the other is not multiplied: a quarter of the time of 48.
template <int PIXELS> static WeightKernel weight_kernel_for(index_t rows, int vectors, int panel) {
// clang-format off
#define KERNEL(NV, PANEL, MR) \
    if (rows == MR && vectors == NV && panel == PANEL) return weight_kernel<MR, NV, PANEL, PIXELS>;
#define KERNELS(NV, PANEL) \
    KERNEL(NV, PANEL, 1) KERNEL(NV, PANEL, 2) KERNEL(NV, PANEL, 3) KERNEL(NV, PANEL, 4) \
    KERNEL(NV, PANEL, 5) KERNEL(NV, PANEL, 6) KERNEL(NV, PANEL, 7) KERNEL(NV, PANEL, 8)
    KERNELS(1, 1) KERNELS(2, 2) KERNELS(1, 2)
#undef KERNELS
#undef KERNEL
        // clang-format on
        return nullptr;
}

}  // namespace
}  // namespace cg
