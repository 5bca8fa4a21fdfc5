// Data gradients of one channel per group: a line of cells, all channels.
#pragma once

#include "paths/depthwise_channels/channels.inl.h"

namespace cg {
namespace {

struct TiedRow {  // a source row and the weight row that meets it
    const float* source;
    const float* weight;
};

// Weights lie in units of a few channels, a unit as [tap][channel]: from one tap to the next, from one unit to the
// next.
struct LineWeights {
    index_t tap, unit;
};

// CELLS neighbouring cells of a class and 8*V channels: taps [first, last) of every tied row.
template <int CELLS, int V>
static INLINE void channel_cells(const TiedRow* rows, index_t row_count, index_t first, index_t last, index_t source,
                                 index_t tap_source, index_t cell_source, index_t weight, index_t tap_weight,
                                 float* out, index_t out_cell) {
    v8 acc[CELLS][V];
    UNROLL for (int i = 0; i < CELLS; ++i) UNROLL for (int j = 0; j < V; ++j) acc[i][j] = v8{};
    for (index_t r = 0; r < row_count; ++r) {
        const float* x = rows[r].source + source + first * tap_source;
        const float* w = rows[r].weight + weight + first * tap_weight;
        for (index_t t = first; t < last; ++t, x += tap_source, w += tap_weight) {
            v8 a[V];
            UNROLL for (int j = 0; j < V; ++j) a[j] = load8(w + 8 * j);
            UNROLL for (int i = 0; i < CELLS; ++i) UNROLL for (int j = 0; j < V; ++j) acc[i][j] =
                fma8(a[j], load8(x + i * cell_source + 8 * j), acc[i][j]);
        }
    }
    UNROLL for (int i = 0; i < CELLS; ++i) UNROLL for (int j = 0; j < V; ++j)
        store8(out + i * out_cell + 8 * j, acc[i][j]);
}

// TAPS neighbouring taps of a row: what a tap reads for a cell its neighbour reads for the next cell, so every value is
// loaded once.
template <class Channels, int CELLS, int TAPS>
static INLINE void slide_row(typename Channels::vector (&acc)[CELLS], const float* x, index_t cell, const float* w,
                             index_t tap_weight) {
    typename Channels::vector a[TAPS];
    UNROLL for (int t = 0; t < TAPS; ++t) a[t] = Channels::read(w + t * tap_weight);
    UNROLL for (int c = 0; c < CELLS + TAPS - 1; ++c) {
        const typename Channels::vector v = Channels::read(x + c * cell);
        UNROLL for (int t = 0; t < TAPS; ++t) if (c - t >= 0 && c - t < CELLS) acc[c - t] =
            Channels::add_product(a[t], v, acc[c - t]);
    }
}

// CELLS neighbouring cells and a vector of channels, all taps: as channel_cells where taps and cells step by one source
// cell.
template <class Channels, int CELLS>
static void slide_cells(const TiedRow* rows, index_t row_count, index_t taps, index_t source, index_t cell,
                        index_t weight, index_t tap_weight, float* out, index_t out_cell) {
    typename Channels::vector acc[CELLS];
    UNROLL for (int i = 0; i < CELLS; ++i) acc[i] = typename Channels::vector{};
    for (index_t r = 0; r < row_count; ++r) {
        const float* x = rows[r].source + source;
        const float* w = rows[r].weight + weight;
        index_t left = taps;
        for (; left > 7; left -= 7, x += 7 * cell, w += 7 * tap_weight)
            slide_row<Channels, CELLS, 7>(acc, x, cell, w, tap_weight);
        switch (left) {
// clang-format off
#define CASE(N) \
    case N: slide_row<Channels, CELLS, N>(acc, x, cell, w, tap_weight); break;
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7)
#undef CASE
                // clang-format on
                default : break;
        }
    }
    UNROLL for (int i = 0; i < CELLS; ++i) Channels::write(out + i * out_cell, acc[i]);
}

// The taps of a cell, one by one: where their source is and what it is multiplied with.
enum { MAX_TERMS = 9 };
struct Terms {
    const float *source[MAX_TERMS], *weight[MAX_TERMS];
};

template <class Channels, int TERMS> static INLINE void add_terms(const Terms& t, index_t channel, float* out) {
    typename Channels::vector acc = {};
    UNROLL for (int k = 0; k < TERMS; ++k) acc =
        Channels::add_product(Channels::read(t.weight[k] + channel), Channels::read(t.source[k] + channel), acc);
    Channels::write(out + channel, acc);
}

// Cells one after the other, all channels of each: memory is read and written in a few long streams.
template <int TERMS>
static void term_cells(Terms t, index_t cells, index_t cell_source, index_t channels, float* out, index_t out_cell) {
    for (index_t j = 0; j < cells; ++j, out += out_cell) {
        index_t i = 0;
        for (; i + LANES <= channels; i += LANES) add_terms<WideChannels, TERMS>(t, i, out);
        for (; i < channels; i += 8) add_terms<EightChannels, TERMS>(t, i, out);
        UNROLL for (int k = 0; k < TERMS; ++k) t.source[k] += cell_source;
    }
}

static void term_cells_any(index_t terms, const Terms& t, index_t cells, index_t cell_source, index_t channels,
                           float* out, index_t out_cell) {
    switch (terms) {
// clang-format off
#define CASE(N) \
    case N: return term_cells<N>(t, cells, cell_source, channels, out, out_cell);
    CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9)
#undef CASE
            // clang-format on
            default : return;
    }
}

// The taps of a line of cells of one class: tap t of cell j reads source cell j*source_step + offset + t*step.
struct LineTaps {
    const index_t taps, offset, step, source_step, source_extent;
    index_t whole_begin, whole_end;  // cells all of whose taps have a source

    LineTaps(const AxisClass& c, index_t extent, index_t cell_step, index_t cell_begin, index_t cell_end)
        : taps(c.taps.count),
          offset(c.taps.first_offset),
          step(c.taps.offset_step),
          source_step(cell_step),
          source_extent(extent) {
        const index_t last = offset + (taps - 1) * step, low = min(offset, last), high = max(offset, last);
        whole_begin = clamp(low >= 0 ? 0 : ceil_div(-low, source_step), cell_begin, cell_end);
        whole_end = clamp(floor_div(source_extent - 1 - high, source_step) + 1, whole_begin, cell_end);
    }
    INLINE bool inside(index_t j, index_t t) const {
        const index_t source = j * source_step + offset + t * step;
        return source >= 0 && source < source_extent;
    }
    INLINE TapRange tied(index_t j) const {
        TapRange range{0, taps};
        while (range.begin < range.end && !inside(j, range.begin)) ++range.begin;
        while (range.end > range.begin && !inside(j, range.end - 1)) --range.end;
        return range;
    }
};

// A line of cells of one class.
static void channel_line(const AxisClass& c, index_t source_extent, index_t source_step, const TiedRow* rows,
                         index_t row_count, index_t cell_begin, index_t cell_end, index_t channels,
                         const ChannelView& v, const LineWeights& weights, float* out, index_t out_cell,
                         LinePrefetch reads, LinePrefetch writes) {
    const LineTaps line(c, source_extent, source_step, cell_begin, cell_end);
    const index_t taps = line.taps, step = line.step, offset = line.offset, whole_end = line.whole_end;
    const index_t weight = c.taps.first_tap * weights.tap, tap_weight = c.taps.tap_step * weights.tap;
    const index_t tap_source = step * v.cell, cell_source = source_step * v.cell;
    const auto one_cell = [&](index_t j) {
        const TapRange tied = line.tied(j);
        const index_t first = tied.begin, last = tied.end, start = j * source_step + offset;
        float* to = out + (j - cell_begin) * out_cell;
        index_t i = 0;
        for (; i + 64 <= channels; i += 64)  // eight sums at once: one alone would wait for each addition
            channel_cells<1, 8>(rows, row_count, first, last, start * v.cell + i, tap_source, 0, weight + i, tap_weight,
                                to + i, out_cell);
        for (; i + 32 <= channels; i += 32)
            channel_cells<1, 4>(rows, row_count, first, last, start * v.cell + i, tap_source, 0, weight + i, tap_weight,
                                to + i, out_cell);
        for (; i < channels; i += 8)
            channel_cells<1, 1>(rows, row_count, first, last, start * v.cell + i, tap_source, 0, weight + i, tap_weight,
                                to + i, out_cell);
    };
    index_t j = cell_begin;
    for (; j < line.whole_begin; ++j) one_cell(j);
    // Cells side by side share what neighbouring taps read. Few taps gain by that where memory is prefetched and cells
    // do not fall on the same sets of the cache; otherwise they go cell by cell, all channels of each. Sliding goes the
    // way the taps go: backwards over source and cells where they fall.
    const bool few_terms = channels >= 64 && row_count * taps <= MAX_TERMS;
    const bool shares = !few_terms || (taps >= 3 && whole_end - j >= 24 && reads.at != nullptr && v.cell % 256 != 0);
    const bool slides = source_step == 1 && magnitude(step) == 1 && shares;
    for (; slides && j + 8 <= whole_end; j += 8) {
        const index_t first = j + (step > 0 ? 0 : 7);
        for (index_t i = 0; i < channels;) {
            const bool wide = LANES > 8 && i + LANES <= channels;
            reads.advance();
            writes.advance<WRITES>();
            (wide ? slide_cells<WideChannels, 8>
                  : slide_cells<EightChannels, 8>)(rows, row_count, taps, (first + offset) * v.cell + i, tap_source,
                                                   weight + i, tap_weight, out + (first - cell_begin) * out_cell + i,
                                                   step * out_cell);
            i += wide ? LANES : 8;
        }
    }
    if (few_terms && j < whole_end) {
        Terms terms;
        index_t count = 0;
        for (index_t r = 0; r < row_count; ++r)
            for (index_t k = 0; k < taps; ++k, ++count) {
                terms.source[count] = rows[r].source + (j * source_step + offset) * v.cell + k * tap_source;
                terms.weight[count] = rows[r].weight + weight + k * tap_weight;
            }
        term_cells_any(count, terms, whole_end - j, cell_source, channels, out + (j - cell_begin) * out_cell, out_cell);
        j = whole_end;
    }
    for (; j + 4 <= whole_end; j += 4) {
        const index_t source = (j * source_step + offset) * v.cell;
        float* to = out + (j - cell_begin) * out_cell;
        index_t i = 0;
        for (; i + 16 <= channels; i += 16)
            channel_cells<4, 2>(rows, row_count, 0, taps, source + i, tap_source, cell_source, weight + i, tap_weight,
                                to + i, out_cell);
        for (; i < channels; i += 8)
            channel_cells<4, 1>(rows, row_count, 0, taps, source + i, tap_source, cell_source, weight + i, tap_weight,
                                to + i, out_cell);
    }
    for (; j < cell_end; ++j) one_cell(j);
}

}  // namespace
}  // namespace cg
