// Weight gradients of one channel per group: a coarse line with the rows of the window.
#pragma once

#include "blocking/ties.inl.h"
#include "paths/depthwise_channels/channels.inl.h"

namespace cg {
namespace {

// sums[t] += sum over cells of y * x[at[t]]: TAPS running sums share each y; eight channels.
template <int TAPS>
static void channel_dots(index_t cells, const float* y, index_t y_cell, const float* x, index_t x_cell,
                         const index_t* at, float* const* sums) {
    v8 acc[TAPS];
    UNROLL for (int t = 0; t < TAPS; ++t) acc[t] = v8{};
    for (index_t i = 0; i < cells; ++i, y += y_cell, x += x_cell) {
        const v8 a = load8(y);
        UNROLL for (int t = 0; t < TAPS; ++t) acc[t] = fma8(a, load8(x + at[t]), acc[t]);
    }
    UNROLL for (int t = 0; t < TAPS; ++t) store8(sums[t], load8(sums[t]) + acc[t]);
}

static void channel_dots_any(index_t taps, index_t cells, const float* y, index_t y_cell, const float* x,
                             index_t x_cell, const index_t* at, float* const* sums) {
    switch (taps) {
// clang-format off
#define CASE(N) \
    case N: return channel_dots<N>(cells, y, y_cell, x, x_cell, at, sums);
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10)
#undef CASE
            // clang-format on
            default : return;
    }
}

// Three neighbouring taps, 8*V channels: what a tap reads now its neighbour has read before (STRIDE cells earlier).
template <int V, int STRIDE>
static void three_dots(index_t cells, const float* y, index_t y_cell, const float* x, index_t x_cell, float* sums,
                       index_t sums_tap) {
    v8 acc[3][V], at[3][V];
    UNROLL for (int t = 0; t < 3; ++t) UNROLL for (int j = 0; j < V; ++j) {
        acc[t][j] = v8{};
        at[t][j] = t < 3 - STRIDE ? load8(x + t * x_cell + 8 * j) : v8{};
    }
    for (index_t i = 0; i < cells; ++i, y += y_cell, x += STRIDE * x_cell) {
        UNROLL for (int j = 0; j < V; ++j) {
            const v8 a = load8(y + 8 * j);
            UNROLL for (int t = 3 - STRIDE; t < 3; ++t) at[t][j] = load8(x + t * x_cell + 8 * j);
            UNROLL for (int t = 0; t < 3; ++t) acc[t][j] = fma8(a, at[t][j], acc[t][j]);
            UNROLL for (int t = 0; t < 3 - STRIDE; ++t) at[t][j] = at[t + STRIDE][j];
        }
    }
    UNROLL for (int t = 0; t < 3; ++t) UNROLL for (int j = 0; j < V; ++j) {
        float* p = sums + t * sums_tap + 8 * j;
        store8(p, load8(p) + acc[t][j]);
    }
}

// One coarse line with every row of the window that meets the source, for windows three columns wide.
static void three_columns(const cg_problem& p, const ChannelView& x, const ChannelView& y, index_t z, index_t r,
                          index_t begin, index_t end, index_t channels, float* sums, index_t sums_tap,
                          LinePrefetch fine, LinePrefetch coarse) {
    Tied tied[3];
    index_t low = begin, high = end;  // cells all three taps have
    for (int k = 0; k < 3; ++k) {
        tied[k] = tied_cells(p.coarse[2], p.fine[2], p.stride[2], k - p.pad[2]);
        tied[k].begin = clamp(tied[k].begin, begin, end);
        tied[k].end = clamp(tied[k].end, tied[k].begin, end);
        low = max(low, tied[k].begin);
        high = min(high, tied[k].end);
    }
    if (low > high) low = high = begin;
    const index_t step = p.stride[2] * x.cell;
    for (index_t c = 0; c < channels;) {
        const index_t width = channels - c >= 16 ? 16 : 8;
        const float* line = y.base + z * y.depth + r * y.row + c;
        for (index_t kz = 0; kz < p.window[0]; ++kz) {
            const index_t sz = tied_source(p, false, 0, z, kz);
            for (index_t ky = 0; sz >= 0 && ky < p.window[1]; ++ky) {
                const index_t sy = tied_source(p, false, 1, r, ky);
                if (sy < 0) continue;
                fine.advance();
                coarse.advance();
                const float* from = x.base + sz * x.depth + sy * x.row - p.pad[2] * x.cell + c;
                float* to = sums + (kz * p.window[1] + ky) * 3 * sums_tap + c;
                for (int k = 0; k < 3; ++k) {
                    const index_t parts[2][2] = {{tied[k].begin, min(low, tied[k].end)},
                                                 {max(high, max(low, tied[k].begin)), tied[k].end}};
                    for (const auto& part : parts)
                        for (index_t j = 0; j < width && part[0] < part[1]; j += 8) {
                            const index_t at = k * x.cell + j;
                            float* sum = to + k * sums_tap + j;
                            channel_dots<1>(part[1] - part[0], line + part[0] * y.cell + j, y.cell,
                                            from + part[0] * step, step, &at, &sum);
                        }
                }
                if (low == high) continue;
                const auto dots = width == 16 ? (p.stride[2] == 1 ? three_dots<2, 1> : three_dots<2, 2>)
                                              : (p.stride[2] == 1 ? three_dots<1, 1> : three_dots<1, 2>);
                dots(high - low, line + low * y.cell, y.cell, from + low * step, x.cell, to, sums_tap);
            }
        }
        c += width;
    }
}

}  // namespace
}  // namespace cg
