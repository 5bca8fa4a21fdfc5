// Groups of two or four channels that lie side by side in memory: a vector holds whole groups, and the products of
// every channel with every other of its group are those of a vector with each rotation of another within the groups.
//
//   data    out[i] += sum over r of  source[i + r] * weight[r][i],  weight[r][i] being the one that ties the two
//   weight  sum[r][f] += fine[f] * coarse[f + r]                    i + r and f + r counted round in the group
//
// As with one channel per group (kernels_channels.h) only tied cells are read.
#pragma once

enum { GROUPED_CELLS = 8, GROUPED_TAPS = 3 };  // summed at a time: chains of multiply-adds stay short
enum { GROUPED_PITCH = LANES > 8 ? LANES : 8 };  // weights lie in units of a vector: [tap][rotation][channel]

// Lane i becomes lane i + R of its group of G.
template <int G, int R, class V, int... I> static INLINE V rotate_lanes(V v, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(v, v, (I / G * G + (I % G + R) % G)...);
}
template <class Channels, int G, int R> static INLINE typename Channels::vector rotated(const float* p) {
    return rotate_lanes<G, R>(Channels::read(p), std::make_integer_sequence<int, Channels::COUNT>());
}

// The same address, for all the compiler knows another: what was loaded from it is not kept in a register.
static INLINE const float* anew(const float* p) {
    asm volatile("" : "+r"(p));
    return p;
}

// ---- data gradients --------------------------------------------------------------------------------------------

// CELLS cells and TAPS taps of a row, which lie so far apart in the source, its channels rotated by R: products that go
// to different sums follow each other, one need not wait for the one before.
template <class Channels, int G, int R, int CELLS, int TAPS, bool SLIDE>
static INLINE void add_rotation(const float* x, index_t cell, index_t tap, const float* w, index_t tap_weight,
                                index_t cell_weight, typename Channels::vector (&acc)[CELLS]) {
    w += R * GROUPED_PITCH;
    if (!SLIDE) {
        UNROLL for (int t = 0; t < TAPS; ++t)
            UNROLL for (int i = 0; i < CELLS; ++i)
                acc[i] = Channels::add_product(rotated<Channels, G, R>(x + i * cell + t * tap),
                                               Channels::read(w + t * tap_weight + i * cell_weight), acc[i]);
        return;
    }
    // Value c meets taps t of cells c - t.
    typename Channels::vector a[TAPS];
    UNROLL for (int t = 0; t < TAPS; ++t) a[t] = Channels::read(w + t * tap_weight);
    UNROLL for (int c = 0; c < CELLS + TAPS - 1; ++c) {
        const typename Channels::vector u = rotated<Channels, G, R>(x + c * cell);
        UNROLL for (int t = 0; t < TAPS; ++t)
            if (c - t >= 0 && c - t < CELLS) acc[c - t] = Channels::add_product(u, a[t], acc[c - t]);
    }
}
template <class Channels, int G, int CELLS, int TAPS, bool SLIDE, int... R>
static INLINE void add_rotations(const float* x, index_t cell, index_t tap, const float* w, index_t tap_weight,
                                 index_t cell_weight, typename Channels::vector (&acc)[CELLS],
                                 std::integer_sequence<int, R...>) {
    (add_rotation<Channels, G, R, CELLS, TAPS, SLIDE>(anew(x), cell, tap, w, tap_weight, cell_weight, acc), ...);
}

// CELLS cells and TAPS taps of every tied row. Where both SLIDE by one cell a value is loaded once for all taps that meet
// it. A row's sums are chains of multiply-adds of their own.
// For one cell at an edge these "cells" are its next vectors of channels, whose weights lie `cell_weight` apart.
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
                                                       tap_weight, cell_weight, acc, std::make_integer_sequence<int, G>());
        UNROLL for (int i = 0; i < CELLS; ++i) total[i] += acc[i];
    }
    UNROLL for (int i = 0; i < CELLS; ++i) {
        float* to = out + i * out_cell;
        Channels::write(to, adds ? Channels::read(to) + total[i] : total[i]);
    }
}

// Taps [taps.begin, taps.end), a few at a time; none at all give zero.
template <class Channels, int G, int CELLS, bool SLIDE>
static void grouped_taps(const TiedRow* rows, index_t row_count, TapRange taps, index_t source, index_t cell, index_t tap,
                         index_t weight, index_t tap_weight, index_t cell_weight, float* out, index_t out_cell) {
    if (taps.begin >= taps.end) row_count = 0;
    for (index_t t = taps.begin; t == taps.begin || t < taps.end; t += GROUPED_TAPS) {
        const index_t left = taps.end - t;
        const auto sum = left <= 1   ? grouped_cells<Channels, G, CELLS, 1, SLIDE>
                         : left == 2 ? grouped_cells<Channels, G, CELLS, 2, SLIDE>
                                     : grouped_cells<Channels, G, CELLS, GROUPED_TAPS, SLIDE>;
        sum(rows, row_count, source + t * tap, cell, tap, weight + t * tap_weight, tap_weight, cell_weight, out, out_cell,
            t > taps.begin);
    }
}

// A line of cells of one class: as channel_line, with G weights per channel and tap.
template <class Channels, int G>
static void grouped_line(const AxisClass& c, index_t source_extent, index_t source_step, const TiedRow* rows,
                         index_t row_count, index_t cell_begin, index_t cell_end, index_t channel, index_t channels,
                         const ChannelView& v, const LineWeights& weights, float* out, index_t out_cell,
                         LinesAhead reads, LinesAhead writes) {
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
            const index_t from = least(j, line.whole_end - GROUPED_CELLS), first = backwards ? from + GROUPED_CELLS - 1 : from;
            const auto sum = slide ? grouped_taps<Channels, G, GROUPED_CELLS, true>
                                   : grouped_taps<Channels, G, GROUPED_CELLS, false>;
            for (index_t i = channel; i < channels; i += COUNT) {
                reads.go_on();
                writes.go_on<WRITES>();
                sum(rows, row_count, TapRange{0, line.taps}, first * step + line.offset * v.cell + i, way * step, tap,
                    of_channel(i), tap_weight, 0, out + (first - cell_begin) * out_cell + i, way * out_cell);
            }
            j = from + GROUPED_CELLS;
            continue;
        }
        const TapRange taps = line.tied(j);
        for (index_t i = channel; i < channels;) {
            const bool several = int(COUNT) == int(GROUPED_PITCH) && i + AT_EDGE * COUNT <= channels;
            (several ? grouped_taps<Channels, G, AT_EDGE, false> : grouped_taps<Channels, G, 1, false>)(
                rows, row_count, taps, j * step + line.offset * v.cell + i, COUNT, tap, of_channel(i), tap_weight,
                weights.unit, out + (j - cell_begin) * out_cell + i, COUNT);
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
                             LinesAhead reads, LinesAhead writes) {
    const index_t wide = LANES > 8 ? channels / LANES * LANES : 0;
    if (wide > 0)
        grouped_line<WideChannels, G>(c, source_extent, source_step, rows, row_count, cell_begin, cell_end, 0, wide, v,
                                      weights, out, out_cell, reads, writes);
    if (wide < channels)
        grouped_line<EightChannels, G>(c, source_extent, source_step, rows, row_count, cell_begin, cell_end, wide, channels,
                                       v, weights, out, out_cell, reads, writes);
}

typedef void (*ChannelLine)(const AxisClass&, index_t, index_t, const TiedRow*, index_t, index_t, index_t, index_t,
                            const ChannelView&, const LineWeights&, float*, index_t, LinesAhead, LinesAhead);
static ChannelLine channel_line_of(index_t mates) {
    return mates == 1 ? channel_line : mates == 2 ? grouped_line_any<2> : grouped_line_any<4>;
}

// ---- weight gradients ------------------------------------------------------------------------------------------

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
    UNROLL for (int t = 0; t < TAPS; ++t)
        UNROLL for (int r = 0; r < G; ++r) acc[t][r] = vector{};
    for (index_t i = 0; i < cells; ++i, y += y_cell, x += x_cell) {
        vector v[TAPS];
        UNROLL for (int t = 0; t < TAPS; ++t) v[t] = Channels::read_once(x + t * x_tap);
        dot_rotations<Channels, G>(v, y, acc, std::make_integer_sequence<int, G>());
    }
    UNROLL for (int t = 0; t < TAPS; ++t)
        UNROLL for (int r = 0; r < G; ++r) {
            float* to = sums + (t * G + r) * sums_row;
            Channels::write(to, Channels::read(to) + acc[t][r]);
        }
}

// So many taps of a row at once: their sums fill twelve registers, or eight.
static constexpr int dot_taps(int mates) { return mates == 4 ? 3 : 4; }

template <class Channels, int G>
static void grouped_dots_any(index_t taps, index_t cells, const float* y, index_t y_cell, const float* x, index_t x_cell,
                             index_t x_tap, float* sums, index_t sums_row) {
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
                            LinesAhead fine, LinesAhead coarse) {
    const index_t step = p.stride[2] * x.cell, x_tap = p.dilation[2] * x.cell;
    const float* line = y.base + z * y.depth + r * y.row;
    for (index_t part = 0; part < channels; part += GROUPED_CHANNELS)
        for (index_t row = 0; row < p.window[0] * p.window[1]; ++row) {
            const index_t sz = tied_source(p, false, 0, z, row / p.window[1]);
            const index_t sy = tied_source(p, false, 1, r, row % p.window[1]);
            if (sz < 0 || sy < 0) continue;
            const float* from = x.base + sz * x.depth + sy * x.row - p.pad[2] * x.cell;
            for (index_t k = 0; k < p.window[2]; k += dot_taps(G)) {
                const index_t taps = least(dot_taps(G), p.window[2] - k);
                Tied tied[dot_taps(G)];
                index_t low = begin, high = end;  // cells all of these taps have
                for (index_t t = 0; t < taps; ++t) {
                    tied[t] = tied_cells(p.coarse[2], p.fine[2], p.stride[2], (k + t) * p.dilation[2] - p.pad[2]);
                    tied[t].begin = clamp(tied[t].begin, begin, end);
                    tied[t].end = clamp(tied[t].end, tied[t].begin, end);
                    low = most(low, tied[t].begin);
                    high = least(high, tied[t].end);
                }
                if (low > high) low = high = begin;
                for (index_t c = part; c < least(part + GROUPED_CHANNELS, channels);) {
                    const bool wide = LANES > 8 && c + LANES <= channels;
                    const auto dots = wide ? grouped_dots_any<WideChannels, G> : grouped_dots_any<EightChannels, G>;
                    float* to = sums + (row * p.window[2] + k) * G * sums_row + c;
                    const auto add = [&](index_t first, index_t count, index_t cell_begin, index_t cell_end) {
                        if (cell_begin < cell_end)
                            dots(count, cell_end - cell_begin, line + cell_begin * y.cell + c, y.cell,
                                 from + cell_begin * step + (k + first) * x_tap + c, step, x_tap, to + first * G * sums_row,
                                 sums_row);
                    };
                    fine.go_on();
                    coarse.go_on();
                    add(0, taps, low, high);
                    for (index_t t = 0; t < taps; ++t) {  // what one tap has alone
                        add(t, 1, tied[t].begin, least(low, tied[t].end));
                        add(t, 1, most(high, most(low, tied[t].begin)), tied[t].end);
                    }
                    c += wide ? LANES : 8;
                }
            }
        }
}

typedef void (*ColumnSums)(const cg_problem&, const ChannelView&, const ChannelView&, index_t, index_t, index_t, index_t,
                           index_t, float*, index_t, LinesAhead, LinesAhead);
// Null where taps of several rows are summed together instead.
static ColumnSums column_sums_of(index_t mates, const cg_problem& p) {
    const bool three = p.window[2] == 3 && p.dilation[2] == 1 && p.stride[2] <= 2;
    if (mates == 1) return three ? three_columns : nullptr;
    return mates == 2 ? grouped_columns<2> : grouped_columns<4>;
}
