// Weight gradients of two or four channels per group: a coarse line with the rows of the window.
#pragma once

#include "paths/depthwise_channels/weight_kernels.inl.h"
#include "paths/grouped_channels/rotations.inl.h"

namespace cg {
namespace {

// acc[t][r] += v[t] * y rotated by r, which is loaded as it is rotated: sums and v fill the registers.
template <class Channels, int G, int TAPS, int... R>
static INLINE void dot_rotations(const typename Channels::vector (&v)[TAPS], const float* y,
                                 typename Channels::vector (&acc)[TAPS][G], std::integer_sequence<int, R...>) {
    const auto add = [&](int r, typename Channels::vector u) {
        UNROLL for (int t = 0; t < TAPS; ++t) acc[t][r] = Channels::add_product(v[t], u, acc[t][r]);
    };
    (add(R, rotated<Channels, G, R>(anew(y))), ...);
}

// sums[t][r] += sum over cells of x[t] * y rotated by r.
template <class Channels, int G, int TAPS>
static void grouped_dots(index_t cells, const float* y, index_t y_cell, const float* x, index_t x_cell, index_t x_tap,
                         float* sums, index_t sums_row) {
    typedef typename Channels::vector vector;
    vector acc[TAPS][G];
    UNROLL for (int t = 0; t < TAPS; ++t) UNROLL for (int r = 0; r < G; ++r) acc[t][r] = vector{};
    for (index_t i = 0; i < cells; ++i, y += y_cell, x += x_cell) {
        vector v[TAPS];
        UNROLL for (int t = 0; t < TAPS; ++t) v[t] = Channels::read_once(x + t * x_tap);
        dot_rotations<Channels, G>(v, y, acc, std::make_integer_sequence<int, G>());
    }
    UNROLL for (int t = 0; t < TAPS; ++t) UNROLL for (int r = 0; r < G; ++r) {
        float* to = sums + (t * G + r) * sums_row;
        Channels::write(to, Channels::read(to) + acc[t][r]);
    }
}

// So many taps of a row at once: their sums fill twelve registers, or eight.
static constexpr int dot_taps(int channels_per_group) { return channels_per_group == 4 ? 3 : 4; }

template <class Channels, int G>
static void grouped_dots_any(index_t taps, index_t cells, const float* y, index_t y_cell, const float* x,
                             index_t x_cell, index_t x_tap, float* sums, index_t sums_row) {
    const auto dots = taps == 1   ? grouped_dots<Channels, G, 1>
                      : taps == 2 ? grouped_dots<Channels, G, 2>
                      : taps == 3 ? grouped_dots<Channels, G, 3>
                                  : grouped_dots<Channels, G, dot_taps(G)>;
    dots(cells, y, y_cell, x, x_cell, x_tap, sums, sums_row);
}

// One coarse line with every row of the window that meets the source: as three_columns. A cell's channels are taken in
// parts whose lines stay in the first cache.
enum { GROUPED_CHANNELS = 64 };
template <int G>
static void grouped_columns(const cg_problem& p, const ChannelView& x, const ChannelView& y, index_t z, index_t r,
                            index_t begin, index_t end, index_t channels, float* sums, index_t sums_row,
                            LinePrefetch fine, LinePrefetch coarse) {
    const index_t step = p.stride[2] * x.cell, x_tap = p.dilation[2] * x.cell;
    const float* line = y.base + z * y.depth + r * y.row;
    for (index_t part = 0; part < channels; part += GROUPED_CHANNELS)
        for (index_t row = 0; row < p.window[0] * p.window[1]; ++row) {
            const index_t sz = tied_source(p, false, 0, z, row / p.window[1]);
            const index_t sy = tied_source(p, false, 1, r, row % p.window[1]);
            if (sz < 0 || sy < 0) continue;
            const float* from = x.base + sz * x.depth + sy * x.row - p.pad[2] * x.cell;
            for (index_t k = 0; k < p.window[2]; k += dot_taps(G)) {
                const index_t taps = min(dot_taps(G), p.window[2] - k);
                Tied tied[dot_taps(G)];
                index_t low = begin, high = end;  // cells all of these taps have
                for (index_t t = 0; t < taps; ++t) {
                    tied[t] = tied_cells(p.coarse[2], p.fine[2], p.stride[2], (k + t) * p.dilation[2] - p.pad[2]);
                    tied[t].begin = clamp(tied[t].begin, begin, end);
                    tied[t].end = clamp(tied[t].end, tied[t].begin, end);
                    low = max(low, tied[t].begin);
                    high = min(high, tied[t].end);
                }
                if (low > high) low = high = begin;
                for (index_t c = part; c < min(part + GROUPED_CHANNELS, channels);) {
                    const bool wide = LANES > 8 && c + LANES <= channels;
                    const auto dots = wide ? grouped_dots_any<WideChannels, G> : grouped_dots_any<EightChannels, G>;
                    float* to = sums + (row * p.window[2] + k) * G * sums_row + c;
                    const auto add = [&](index_t first, index_t count, index_t cell_begin, index_t cell_end) {
                        if (cell_begin < cell_end)
                            dots(count, cell_end - cell_begin, line + cell_begin * y.cell + c, y.cell,
                                 from + cell_begin * step + (k + first) * x_tap + c, step, x_tap,
                                 to + first * G * sums_row, sums_row);
                    };
                    fine.advance();
                    coarse.advance();
                    add(0, taps, low, high);
                    for (index_t t = 0; t < taps; ++t) {  // what one tap has alone
                        add(t, 1, tied[t].begin, min(low, tied[t].end));
                        add(t, 1, max(high, max(low, tied[t].begin)), tied[t].end);
                    }
                    c += wide ? LANES : 8;
                }
            }
        }
}

typedef void (*ColumnSums)(const cg_problem&, const ChannelView&, const ChannelView&, index_t, index_t, index_t,
                           index_t, index_t, float*, index_t, LinePrefetch, LinePrefetch);
// Null where taps of several rows are summed together instead.
static ColumnSums column_sums_of(index_t channels_per_group, const cg_problem& p) {
    const bool three = p.window[2] == 3 && p.dilation[2] == 1 && p.stride[2] <= 2;
    if (channels_per_group == 1) return three ? three_columns : nullptr;
    return channels_per_group == 2 ? grouped_columns<2> : grouped_columns<4>;
}

}  // namespace
}  // namespace cg
