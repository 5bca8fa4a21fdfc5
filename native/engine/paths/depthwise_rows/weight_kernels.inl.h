// One channel per group, weight gradients: sums of products of planes, vectors along the width.
#pragma once

#include "numbers/load.inl.h"

namespace cg {
namespace {

// sums[t] += sum over lines of y * x[at[t]]: TAPS running sums share each y. The last vector of a line of `cells`
// (at least eight) overlaps the one before; what that one has counted is masked.
template <int TAPS, int KIND>
static INLINE void dot_taps(index_t lines, index_t cells, const Loader<KIND>& coarse, index_t y, index_t y_pitch,
                            const float* x, index_t x_pitch, const int* at, float* sums) {
    v8 acc[TAPS];
    UNROLL for (int t = 0; t < TAPS; ++t) acc[t] = v8{};
    u8 fresh;
    for (int j = 0; j < 8; ++j) fresh[j] = j >= 8 - cells % 8 ? ~0u : 0u;
    const index_t whole = cells / 8 * 8;
    for (index_t r = 0; r < lines; ++r, y += y_pitch, x += x_pitch) {
        for (index_t v = 0; v < whole; v += 8) {
            const v8 a = coarse.narrowed(kept(coarse.stored_eight(y + v)));  // the loads are what this waits for
            UNROLL for (int t = 0; t < TAPS; ++t) acc[t] = fma8(a, load8(x + v + at[t]), acc[t]);
        }
        if (whole < cells) {
            const v8 a = (v8)((u8)coarse.eight(y + cells - 8) & fresh);
            UNROLL for (int t = 0; t < TAPS; ++t) acc[t] = fma8(a, load8(x + cells - 8 + at[t]), acc[t]);
        }
    }
    UNROLL for (int t = 0; t < TAPS; ++t) store8(sums + 8 * t, load8(sums + 8 * t) + acc[t]);
}

template <int KIND>
static void dot_some(const void* data, index_t taps, index_t lines, index_t cells, index_t y, index_t y_pitch,
                     const float* x, index_t x_pitch, const int* at, float* sums) {
    const Loader<KIND> coarse{(const char*)data, nullptr, 0, 0};
    switch (taps) {
// clang-format off
#define CASE(N) \
    case N: return dot_taps<N, KIND>(lines, cells, coarse, y, y_pitch, x, x_pitch, at, sums);
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#undef CASE
            // clang-format on
            default : return;
    }
}

// Coarse lines can be converted while they are multiplied, eight values for all taps at once; not where that takes
// long.
typedef void (*DotSome)(const void*, index_t, index_t, index_t, index_t, index_t, const float*, index_t, const int*,
                        float*);
static DotSome dot_some_of(int kind) {
    switch (kind) {
    case LOAD_F32: return dot_some<LOAD_F32>;
    case LOAD_F16: return dot_some<LOAD_F16>;
    case LOAD_BF16: return dot_some<LOAD_BF16>;
    case LOAD_HF32_11: return dot_some<LOAD_HF32_11>;
    case LOAD_HF32_10: return dot_some<LOAD_HF32_10>;
    default: return nullptr;
    }
}

enum { DOT_LINES = 8, WIDE_ROWS = 3, WIDE_COLUMNS = 32, WIDE_CHAIN = 32 };

// Wide windows: vectors along the window's columns. Rows [begin, end) of x meet window rows first .. first + 2:
//   sums[i][k] += sum_q x[r][q + k] * y[r - first - i][q]
// Chains of multiply-adds are a few rows long; what they give is added up here before it goes to `sums`.
template <int V>
static void wide_rows(index_t begin, index_t end, index_t width, const float* x, index_t x_pitch, const float* y,
                      index_t y_pitch, float* sums, index_t sums_row) {
    v8 acc[WIDE_ROWS][V], total[WIDE_ROWS][V] = {};
    const index_t rows = max(1, WIDE_CHAIN / width);
    for (index_t first = begin; first < end; first += rows) {
        UNROLL for (int i = 0; i < WIDE_ROWS; ++i) UNROLL for (int j = 0; j < V; ++j) acc[i][j] = v8{};
        for (index_t r = first; r < min(end, first + rows); ++r) {
            const float *from = x + r * x_pitch, *with = y + r * y_pitch;
            for (index_t q = 0; q < width; ++q) {
                v8 a[WIDE_ROWS];
                UNROLL for (int i = 0; i < WIDE_ROWS; ++i) a[i] = broadcast8(with[q - i * y_pitch]);
                UNROLL for (int j = 0; j < V; ++j) {
                    const v8 v = load8(from + q + 8 * j);
                    UNROLL for (int i = 0; i < WIDE_ROWS; ++i) acc[i][j] = fma8(a[i], v, acc[i][j]);
                }
            }
        }
        UNROLL for (int i = 0; i < WIDE_ROWS; ++i) UNROLL for (int j = 0; j < V; ++j) total[i][j] += acc[i][j];
    }
    UNROLL for (int i = 0; i < WIDE_ROWS; ++i) UNROLL for (int j = 0; j < V; ++j) {
        float* p = sums + i * sums_row + 8 * j;
        store8(p, load8(p) + total[i][j]);
    }
}

}  // namespace
}  // namespace cg
