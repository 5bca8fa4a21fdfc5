// One channel per group, data gradients: no matrix product, a correlation of planes, vectors along the width.
//
// A correlation: out[y][x] = sum over (i, j) of w[i][j] * tile[y + i][x + j], weights flipped so that rows and columns
// of the source rise. BAND output rows are computed together because they share the source rows they read.
#pragma once

#include "blocking/taps.inl.h"
#include "blocking/tile.inl.h"
#include "simd/vector.inl.h"

namespace cg {
namespace {

enum { BAND = 4 };

// Rows [FROM, TO) of the band meet this source row; w points at the weight row of band row 0.
template <int V, int FROM, int TO>
static INLINE void band_row(v8 (&acc)[BAND][V], const float* source, index_t columns, const float* w) {
    for (index_t k = 0; k < columns; ++k) {
        v8 x[V];
        UNROLL for (int j = 0; j < V; ++j) x[j] = load8(source + k + 8 * j);
        UNROLL for (int i = FROM; i < TO; ++i) {
            const v8 a = broadcast8(w[k - i * columns]);
            UNROLL for (int j = 0; j < V; ++j) acc[i][j] = fma8(a, x[j], acc[i][j]);
        }
    }
}

template <int V> static INLINE void start_band(v8 (&acc)[BAND][V]) {
    UNROLL for (int i = 0; i < BAND; ++i) UNROLL for (int j = 0; j < V; ++j) acc[i][j] = v8{};
}

template <int V> static INLINE void end_band(const v8 (&acc)[BAND][V], float* out, index_t out_row, bool add) {
    UNROLL for (int i = 0; i < BAND; ++i) UNROLL for (int j = 0; j < V; ++j) {
        float* p = out + i * out_row + 8 * j;
        store8(p, add ? load8(p) + acc[i][j] : acc[i][j]);
    }
}

// A window as the band kernels take it: planes of rows x columns weights, source planes at plane[z].
struct Window {
    const float* w;
    const int* plane;
    index_t planes, rows, columns;
};

template <int V>
static void band_any(const Window& window, const float* tile, index_t pitch, float* out, index_t out_row, bool add) {
    v8 acc[BAND][V];
    start_band<V>(acc);
    const float* w = window.w;
    const index_t rows = window.rows, columns = window.columns;
    for (index_t z = 0; z < window.planes; ++z, w += rows * columns)
        for (index_t r = 0; r < rows + BAND - 1; ++r) {
            const float* source = tile + window.plane[z] + r * pitch;
            const float* from = w + r * columns;
            const index_t first = max(0, r - rows + 1), last = min(BAND, r + 1);
            switch (first * 8 + last) {
            case 4: band_row<V, 0, 4>(acc, source, columns, from); break;
            case 1: band_row<V, 0, 1>(acc, source, columns, from); break;
            case 2: band_row<V, 0, 2>(acc, source, columns, from); break;
            case 3: band_row<V, 0, 3>(acc, source, columns, from); break;
            case 10: band_row<V, 1, 2>(acc, source, columns, from); break;
            case 11: band_row<V, 1, 3>(acc, source, columns, from); break;
            case 12: band_row<V, 1, 4>(acc, source, columns, from); break;
            case 19: band_row<V, 2, 3>(acc, source, columns, from); break;
            case 20: band_row<V, 2, 4>(acc, source, columns, from); break;
            case 28: band_row<V, 3, 4>(acc, source, columns, from); break;
            default: break;
            }
        }
    end_band<V>(acc, out, out_row, add);
}

// The common small windows with every loop unrolled, from the last source cell to the first: for a gradient that is
// from the first tap to the last. What the first part of more than three rows gave is spilled to a second set of sums:
// chains stay short.
template <int V, int ROWS, int COLUMNS>
static void band_fixed(const Window& window, const float* tile, index_t pitch, float* out, index_t out_row, bool add) {
    v8 acc[BAND][V], spilled[BAND][V];
    start_band<V>(acc);
    start_band<V>(spilled);
    const float* w = window.w;
    for (index_t z = 0; z < window.planes; ++z, w += ROWS * COLUMNS) {
        const float* source = tile + window.plane[z] + (ROWS + BAND - 2) * pitch;
        const float* from = w;
        UNROLL for (int r = ROWS + BAND - 2; r >= 0; --r) {
            UNROLL for (int k = COLUMNS - 1; k >= 0; --k) {
                v8 x[V];
                UNROLL for (int j = 0; j < V; ++j) x[j] = load8_once(source + k + 8 * j);
                UNROLL for (int i = 0; i < BAND; ++i) if (r - i >= 0 && r - i < ROWS) {
                    const v8 a = broadcast8(from[(r - i) * COLUMNS + k]);
                    const bool second = ROWS > 3 && r - i == ROWS - 1 - ROWS / 2 && k == COLUMNS - 1;
                    UNROLL for (int j = 0; j < V; ++j) {
                        if (second) spilled[i][j] += acc[i][j];
                        acc[i][j] = second ? a * x[j] : fma8(a, x[j], acc[i][j]);
                    }
                }
            }
            if (r > 0) source -= pitch;
            // Otherwise the compiler computes every address and broadcast of the window beforehand, and spills them.
            asm("" : "+r"(source), "+r"(from));
        }
    }
    if (ROWS > 3) UNROLL for (int i = 0; i < BAND; ++i) UNROLL for (int j = 0; j < V; ++j) acc[i][j] += spilled[i][j];
    end_band<V>(acc, out, out_row, add);
}

// Columns of a row in steps of 8*V. The last vector may overlap its neighbour: it computes the same numbers, so it
// may only be stored, never added.
template <class F> static INLINE void in_columns(index_t width, index_t step, F each) {
    for (index_t x = 0; x < width; x += step) each(x + step <= width ? x : width - step);
}

// Windows of up to nine taps in one plane: the weights stay in registers while a band is walked through.
template <int ROWS, int COLUMNS>
static void band_held(const Window& window, const float* tile, index_t pitch, index_t width, float* out,
                      index_t out_row, bool add) {
    v8 w[ROWS * COLUMNS];
    UNROLL for (int i = 0; i < ROWS * COLUMNS; ++i) w[i] = broadcast8(window.w[i]);
    const float* last = tile + window.plane[0] + (ROWS + BAND - 2) * pitch;
    in_columns(width, 8, [&](index_t x) {
        v8 acc[BAND][1];
        start_band<1>(acc);
        const float* source = last + x;
        UNROLL for (int r = ROWS + BAND - 2; r >= 0; --r) {
            UNROLL for (int k = COLUMNS - 1; k >= 0; --k) {
                const v8 cells = load8_once(source + k);
                UNROLL for (int i = 0; i < BAND; ++i) if (r - i >= 0 && r - i < ROWS) acc[i][0] =
                    fma8(w[(r - i) * COLUMNS + k], cells, acc[i][0]);
            }
            if (r > 0) source -= pitch;
        }
        end_band<1>(acc, out + x, out_row, add);
    });
}

// The columns of a band two vectors at a time, then one.
template <class Two, class One> static INLINE void band_columns(index_t width, Two two, One one) {
    index_t x = 0;
    for (; x + 16 <= width; x += 16) two(x);
    in_columns(width - x, 8, [&](index_t i) { one(x + i); });
}

template <int ROWS, int COLUMNS>
static void band_unrolled(const Window& window, const float* tile, index_t pitch, index_t width, float* out,
                          index_t out_row, bool add) {
    band_columns(
        width, [&](index_t x) { band_fixed<2, ROWS, COLUMNS>(window, tile + x, pitch, out + x, out_row, add); },
        [&](index_t x) { band_fixed<1, ROWS, COLUMNS>(window, tile + x, pitch, out + x, out_row, add); });
}

static void band_of_any_window(const Window& window, const float* tile, index_t pitch, index_t width, float* out,
                               index_t out_row, bool add) {
    band_columns(
        width, [&](index_t x) { band_any<2>(window, tile + x, pitch, out + x, out_row, add); },
        [&](index_t x) { band_any<1>(window, tile + x, pitch, out + x, out_row, add); });
}

typedef void (*Band)(const Window&, const float*, index_t, index_t, float*, index_t, bool);
static Band band_for(const Window& w) {
// clang-format off
#define WINDOW(KERNEL, ROWS, COLUMNS) \
    if (w.rows == ROWS && w.columns == COLUMNS) return KERNEL<ROWS, COLUMNS>;
    if (w.planes == 1) {
        WINDOW(band_held, 3, 3)
        WINDOW(band_held, 1, 1) WINDOW(band_held, 1, 2) WINDOW(band_held, 2, 1) WINDOW(band_held, 2, 2)  // 3 x 3, stride 2
    }
    WINDOW(band_unrolled, 3, 3) WINDOW(band_unrolled, 5, 5) WINDOW(band_unrolled, 7, 7)
    WINDOW(band_unrolled, 1, 1) WINDOW(band_unrolled, 1, 2) WINDOW(band_unrolled, 2, 1) WINDOW(band_unrolled, 2, 2)
#undef WINDOW
        // clang-format on
        return band_of_any_window;
}

// One row of 8*V columns, taps at any offsets.
template <int V>
static void line_any(const float* tile, const int* at, index_t taps, const float* w, float* out, bool add) {
    v8 acc[V];
    UNROLL for (int j = 0; j < V; ++j) acc[j] = v8{};
    for (index_t k = 0; k < taps; ++k) {
        const v8 a = broadcast8(w[k]);
        UNROLL for (int j = 0; j < V; ++j) acc[j] = fma8(a, load8(tile + at[k] + 8 * j), acc[j]);
    }
    UNROLL for (int j = 0; j < V; ++j) store8(out + 8 * j, add ? load8(out + 8 * j) + acc[j] : acc[j]);
}

// Everything one class of one K block needs, for any channel.
struct Correlation {
    index_t taps;
    bool banded;
    Window window;
    int* offsets;   // of the taps in their own order, for lines outside any band
    index_t first;  // tile offset of the smallest row and column
    AxisTaps axis[3];
};

static void describe_correlation(const Tile& t, const AxisTaps taps[3], int* offsets, int* planes, Correlation* c) {
    for (int a = 0; a < 3; ++a) c->axis[a] = taps[a];
    c->taps = tap_count(taps);
    c->offsets = offsets;
    c->banded = false;
    if (c->taps == 0) return;
    tap_offsets(t, taps, offsets);
    const auto neighbours = [&](int a) {
        return t.axis[a].scale == 1 && (taps[a].count == 1 || taps[a].offset_step == 1 || taps[a].offset_step == -1);
    };
    c->banded = neighbours(1) && neighbours(2);
    const index_t rows = taps[1].count, columns = taps[2].count;
    const index_t y = taps[1].offset_step < 0 ? rows - 1 : 0, x = taps[2].offset_step < 0 ? columns - 1 : 0;
    c->first = offsets[y * columns + x];
    for (index_t z = 0; z < taps[0].count; ++z) planes[z] = int(offsets[(z * rows + y) * columns + x] - c->first);
    c->window = Window{nullptr, planes, taps[0].count, rows, columns};
}

// Whether bands add up the taps in their own order, as lines do: the unrolled windows go from the last source cell to
// the first, which is that order where offsets fall, unless a part of the sum is spilled.
static bool bands_follow_taps(const Correlation& c) {
    const auto falls = [&](int a) { return c.axis[a].count == 1 || c.axis[a].offset_step < 0; };
    const index_t rows = c.window.rows, columns = c.window.columns;
    return falls(1) && falls(2) && ((rows == 3 && columns == 3) || (rows <= 2 && columns <= 2));
}

static void flip_window(const Correlation& c, const float* w, float* to) {
    const index_t rows = c.axis[1].count, columns = c.axis[2].count;
    const bool y_falls = c.axis[1].offset_step < 0, x_falls = c.axis[2].offset_step < 0;
    for (index_t z = 0; z < c.axis[0].count; ++z)
        for (index_t y = 0; y < rows; ++y)
            for (index_t x = 0; x < columns; ++x)
                *to++ = w[(z * rows + (y_falls ? rows - 1 - y : y)) * columns + (x_falls ? columns - 1 - x : x)];
}

}  // namespace
}  // namespace cg
