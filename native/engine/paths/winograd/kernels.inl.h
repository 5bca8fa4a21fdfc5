// The matrix product of both gradients: C[rows][width] (+)= sum over steps of A[row, step] * B[step][width].
#pragma once

#include <utility>

#include "simd/vector.inl.h"

namespace cg {
namespace {

// Rows of a register tile two vectors wide: 28 of 32 registers for sums where vectors are wide, 12 of 16 elsewhere.
// More rows than gemm_data has: here every tile is a row of its own and there is no panel to fill up.
enum { WINOGRAD_ROWS = LANES == 16 ? 14 : 6, WINOGRAD_PANEL = 2 * LANES };

// One chain of multiply-adds per element.
template <int ROWS, int VECTORS>
static void winograd_kernel(index_t steps, const float* a, index_t a_row, index_t a_step, const float* b,
                            index_t b_step, float* c, index_t c_row, bool add) {
    vf sum[ROWS][VECTORS];
    UNROLL for (int r = 0; r < ROWS; ++r) UNROLL for (int v = 0; v < VECTORS; ++v) sum[r][v] = vf{};
    for (index_t k = 0; k < steps; ++k, a += a_step, b += b_step) {
        vf x[VECTORS];
        UNROLL for (int v = 0; v < VECTORS; ++v) x[v] = load(b + v * LANES);
        const float* at = a;
        UNROLL for (int r = 0; r < ROWS; ++r, at += a_row) {
            const vf y = broadcast(*at);
            UNROLL for (int v = 0; v < VECTORS; ++v) sum[r][v] = fma(y, x[v], sum[r][v]);
        }
    }
    UNROLL for (int r = 0; r < ROWS; ++r, c += c_row) UNROLL for (int v = 0; v < VECTORS; ++v) {
        float* to = c + v * LANES;
        store(to, add ? load(to) + sum[r][v] : sum[r][v]);
    }
}

typedef void (*WinogradKernel)(index_t, const float*, index_t, index_t, const float*, index_t, float*, index_t, bool);
template <int... R>
static WinogradKernel winograd_kernel_for(index_t rows, bool wide, std::integer_sequence<int, R...>) {
    static constexpr WinogradKernel kernels[2][sizeof...(R)] = {{winograd_kernel<R + 1, 1>...},
                                                                {winograd_kernel<R + 1, 2>...}};
    return kernels[wide][rows - 1];
}

// Rows in groups as equal as can be: 28 are two groups of 14, 64 are 13, 13, 13, 13, 12. `width`: one panel at most,
// whole vectors.
static void winograd_multiply(index_t rows, index_t width, index_t steps, const float* a, index_t a_row, index_t a_step,
                              const float* b, index_t b_step, float* c, index_t c_row, bool add) {
    for (index_t groups = ceil_div(rows, WINOGRAD_ROWS); groups > 0; --groups) {
        const index_t some = ceil_div(rows, groups);
        winograd_kernel_for(some, width > LANES, std::make_integer_sequence<int, WINOGRAD_ROWS>{})(
            steps, a, a_row, a_step, b, b_step, c, c_row, add);
        a += some * a_row;
        c += some * c_row;
        rows -= some;
    }
}

}  // namespace
}  // namespace cg
