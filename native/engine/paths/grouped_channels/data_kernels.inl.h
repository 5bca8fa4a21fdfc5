// Data gradients of two or four channels per group: a line of cells.
#pragma once

#include "paths/depthwise_channels/data_kernels.inl.h"
#include "paths/grouped_channels/rotations.inl.h"

namespace cg {
namespace {

// CELLS cells and TAPS taps of a row, which step by `cell` and `tap` in the source, its channels rotated by R: products
// that go to different sums follow each other, one need not wait for the one before.
template <class Channels, int G, int R, int CELLS, int TAPS, bool SLIDE>
static INLINE void add_rotation(const float* x, index_t cell, index_t tap, const float* w, index_t tap_weight,
                                index_t cell_weight, typename Channels::vector (&acc)[CELLS]) {
    w += R * GROUPED_PITCH;
    if (!SLIDE) {
        UNROLL for (int t = 0; t < TAPS; ++t) UNROLL for (int i = 0; i < CELLS; ++i) acc[i] =
            Channels::add_product(rotated<Channels, G, R>(x + i * cell + t * tap),
                                  Channels::read(w + t * tap_weight + i * cell_weight), acc[i]);
        return;
    }
    // Value c meets taps t of cells c - t.
    typename Channels::vector a[TAPS];
    UNROLL for (int t = 0; t < TAPS; ++t) a[t] = Channels::read(w + t * tap_weight);
    UNROLL for (int c = 0; c < CELLS + TAPS - 1; ++c) {
        const typename Channels::vector u = rotated<Channels, G, R>(x + c * cell);
        UNROLL for (int t = 0; t < TAPS; ++t) if (c - t >= 0 && c - t < CELLS) acc[c - t] =
            Channels::add_product(u, a[t], acc[c - t]);
    }
}
template <class Channels, int G, int CELLS, int TAPS, bool SLIDE, int... R>
static INLINE void add_rotations(const float* x, index_t cell, index_t tap, const float* w, index_t tap_weight,
                                 index_t cell_weight, typename Channels::vector (&acc)[CELLS],
                                 std::integer_sequence<int, R...>) {
    (add_rotation<Channels, G, R, CELLS, TAPS, SLIDE>(anew(x), cell, tap, w, tap_weight, cell_weight, acc), ...);
}

// CELLS cells and TAPS taps of every tied row. Where both SLIDE by one cell a value is loaded once for all taps that
// meet it. A row's sums are chains of multiply-adds of their own. For one cell at an edge these "cells" are its next
// vectors of channels, whose weights have the stride `cell_weight`.
template <class Channels, int G, int CELLS, int TAPS, bool SLIDE>
static void grouped_cells(const TiedRow* rows, index_t row_count, index_t source, index_t cell, index_t tap,
                          index_t weight, index_t tap_weight, index_t cell_weight, float* out, index_t out_cell,
                          bool adds) {
    typename Channels::vector total[CELLS];
    UNROLL for (int i = 0; i < CELLS; ++i) total[i] = typename Channels::vector{};
    for (index_t row = 0; row < row_count; ++row) {
        typename Channels::vector acc[CELLS];
        UNROLL for (int i = 0; i < CELLS; ++i) acc[i] = typename Channels::vector{};
        add_rotations<Channels, G, CELLS, TAPS, SLIDE>(rows[row].source + source, cell, tap, rows[row].weight + weight,
                                                       tap_weight, cell_weight, acc,
                                                       std::make_integer_sequence<int, G>());
        UNROLL for (int i = 0; i < CELLS; ++i) total[i] += acc[i];
    }
    UNROLL for (int i = 0; i < CELLS; ++i) {
        float* to = out + i * out_cell;
        Channels::write(to, adds ? Channels::read(to) + total[i] : total[i]);
    }
}

// Taps [taps.begin, taps.end), a few at a time; none at all give zero.
template <class Channels, int G, int CELLS, bool SLIDE>
static void grouped_taps(const TiedRow* rows, index_t row_count, TapRange taps, index_t source, index_t cell,
                         index_t tap, index_t weight, index_t tap_weight, index_t cell_weight, float* out,
                         index_t out_cell) {
    if (taps.begin >= taps.end) row_count = 0;
    for (index_t t = taps.begin; t == taps.begin || t < taps.end; t += GROUPED_TAPS) {
        const index_t left = taps.end - t;
        const auto sum = left <= 1   ? grouped_cells<Channels, G, CELLS, 1, SLIDE>
                         : left == 2 ? grouped_cells<Channels, G, CELLS, 2, SLIDE>
                                     : grouped_cells<Channels, G, CELLS, GROUPED_TAPS, SLIDE>;
        sum(rows, row_count, source + t * tap, cell, tap, weight + t * tap_weight, tap_weight, cell_weight, out,
            out_cell, t > taps.begin);
    }
}

// A line of cells of one class: as channel_line, with G weights per channel and tap.
template <class Channels, int G>
static void grouped_line(const AxisClass& c, index_t source_extent, index_t source_step, const TiedRow* rows,
                         index_t row_count, index_t cell_begin, index_t cell_end, index_t channel, index_t channels,
                         const ChannelView& v, const LineWeights& weights, float* out, index_t out_cell,
                         LinePrefetch reads, LinePrefetch writes) {
    enum { AT_EDGE = 4, COUNT = Channels::COUNT };
    const LineTaps line(c, source_extent, source_step, cell_begin, cell_end);
    const index_t weight = c.taps.first_tap * weights.tap, tap_weight = c.taps.tap_step * weights.tap;
    const auto of_channel = [&](index_t i) { return weight + i / GROUPED_PITCH * weights.unit + i % GROUPED_PITCH; };
    const index_t tap = line.step * v.cell, step = source_step * v.cell;
    const bool slide = source_step == 1 && magnitude(line.step) == 1;
    const bool backwards = slide && line.step < 0;  // sliding goes the way the taps go
    const index_t way = backwards ? -1 : 1;
    const bool whole = line.whole_end - line.whole_begin >= GROUPED_CELLS;
    for (index_t j = cell_begin; j < cell_end;) {
        if (whole && j >= line.whole_begin && j < line.whole_end) {
            // The last cells overlap the ones before, which are computed again.
            const index_t from = min(j, line.whole_end - GROUPED_CELLS),
                          first = backwards ? from + GROUPED_CELLS - 1 : from;
            const auto sum = slide ? grouped_taps<Channels, G, GROUPED_CELLS, true>
                                   : grouped_taps<Channels, G, GROUPED_CELLS, false>;
            for (index_t i = channel; i < channels; i += COUNT) {
                reads.advance();
                writes.advance<WRITES>();
                sum(rows, row_count, TapRange{0, line.taps}, first * step + line.offset * v.cell + i, way * step, tap,
                    of_channel(i), tap_weight, 0, out + (first - cell_begin) * out_cell + i, way * out_cell);
            }
            j = from + GROUPED_CELLS;
            continue;
        }
        const TapRange taps = line.tied(j);
        for (index_t i = channel; i < channels;) {
            const bool several = int(COUNT) == int(GROUPED_PITCH) && i + AT_EDGE * COUNT <= channels;
            (several ? grouped_taps<Channels, G, AT_EDGE, false>
                     : grouped_taps<Channels, G, 1, false>)(rows, row_count, taps, j * step + line.offset * v.cell + i,
                                                            COUNT, tap, of_channel(i), tap_weight, weights.unit,
                                                            out + (j - cell_begin) * out_cell + i, COUNT);
            i += several ? AT_EDGE * COUNT : COUNT;
        }
        ++j;
    }
}

// All channels, in the widest vectors that hold them.
template <int G>
static void grouped_line_any(const AxisClass& c, index_t source_extent, index_t source_step, const TiedRow* rows,
                             index_t row_count, index_t cell_begin, index_t cell_end, index_t channels,
                             const ChannelView& v, const LineWeights& weights, float* out, index_t out_cell,
                             LinePrefetch reads, LinePrefetch writes) {
    const index_t wide = LANES > 8 ? channels / LANES * LANES : 0;
    if (wide > 0)
        grouped_line<WideChannels, G>(c, source_extent, source_step, rows, row_count, cell_begin, cell_end, 0, wide, v,
                                      weights, out, out_cell, reads, writes);
    if (wide < channels)
        grouped_line<EightChannels, G>(c, source_extent, source_step, rows, row_count, cell_begin, cell_end, wide,
                                       channels, v, weights, out, out_cell, reads, writes);
}

typedef void (*ChannelLine)(const AxisClass&, index_t, index_t, const TiedRow*, index_t, index_t, index_t, index_t,
                            const ChannelView&, const LineWeights&, float*, index_t, LinePrefetch, LinePrefetch);
static ChannelLine channel_line_of(index_t channels_per_group) {
    return channels_per_group == 1 ? channel_line : channels_per_group == 2 ? grouped_line_any<2> : grouped_line_any<4>;
}

}  // namespace
}  // namespace cg
