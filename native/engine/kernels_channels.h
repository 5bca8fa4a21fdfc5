// Depthwise with channels side by side in memory: eight channels per vector, or as many as it has, no padding anywhere.
// Only tied cells are read, so nothing special happens to an inf or NaN.
#pragma once

// The same names for vectors of eight and for the widest: a channel keeps its lane, its sums are the same in both.
struct EightChannels {
    typedef v8 vector;
    enum { COUNT = 8 };
    static INLINE v8 read(const float* p) { return load8(p); }
    static INLINE v8 read_once(const float* p) { return load8_once(p); }
    static INLINE void write(float* p, v8 v) { store8(p, v); }
    static INLINE v8 add_product(v8 a, v8 b, v8 c) { return fma8(a, b, c); }
};
struct WideChannels {
    typedef vf vector;
    enum { COUNT = LANES };
    static INLINE vf read(const float* p) { return load(p); }
    static INLINE vf read_once(const float* p) { return load_once(p); }
    static INLINE void write(float* p, vf v) { store(p, v); }
    static INLINE vf add_product(vf a, vf b, vf c) { return fma(a, b, c); }
};

// Eight channels of a source box. Float32 is read where it lies; anything else is converted into a buffer first.
struct ChannelView {
    const float* base;  // of cell (0, 0, 0), which may lie outside the buffer
    index_t depth, row, cell;
};

struct SourceBox {
    index_t begin[3], end[3];
};

static bool reads_in_place(const Source& s, const ChannelPlan& plan) {
    return s.kind == LOAD_F32 && plan.channels % 8 == 0 && !plan.copies;
}

static ChannelView view_channels(const Source& s, bool in_place, index_t n, index_t channel, index_t channels,
                                 index_t block, const SourceBox& box, float* buffer) {
    const index_t* st = s.tensor->stride;
    const index_t at = n * st[0] + channel;
    if (in_place) return ChannelView{(const float*)s.tensor->data + at, st[2], st[3], st[4]};
    const index_t cells = box.end[2] - box.begin[2], rows = box.end[1] - box.begin[1];
    ChannelView v{buffer, rows * cells * block, cells * block, block};
    for (index_t z = box.begin[0]; z < box.end[0]; ++z)
        for (index_t y = box.begin[1]; y < box.end[1]; ++y)
            s.rows(s, at + z * st[2] + y * st[3] + box.begin[2] * st[4], cells, st[4], channels, 1,
                   buffer + (z - box.begin[0]) * v.depth + (y - box.begin[1]) * v.row, block);
    v.base -= box.begin[0] * v.depth + box.begin[1] * v.row + box.begin[2] * v.cell;
    return v;
}

// Lines that will be read or written next, asked for a few cache lines at a time: what goes a vector of channels at a time
// jumps from cell to cell.
struct LinesAhead {
    const char *at = nullptr, *end = nullptr;
    index_t pace = 0;

    LinesAhead() = default;
    // Lines [first, last) of what is read in place, of `extent`, in about so many steps.
    LinesAhead(const ChannelView& v, index_t depth, index_t first, index_t last, index_t extent, index_t cells,
               index_t channels, index_t steps) {
        first = clamp(first, 0, extent);
        last = clamp(last, first, extent);
        if (first == last || v.cell < channels || v.row < cells * v.cell) return;
        at = (const char*)(v.base + depth * v.depth + first * v.row);
        end = at + ((last - first - 1) * v.row + (cells - 1) * v.cell + channels) * 4;
        pace = ceil_div((end - at) / 64 + 1, most(1, steps));
    }
    template <int FOR = READS> INLINE void go_on() {
        for (index_t i = 0; i < pace && at < end; ++i, at += 64) __builtin_prefetch(at, FOR == WRITES, 2);
    }
};

// ---- data gradients --------------------------------------------------------------------------------------------

struct TiedRow {  // a source row and the weight row that meets it
    const float* source;
    const float* weight;
};

// Weights lie in units of a few channels, a unit as [tap][channel]: from one tap to the next, from one unit to the next.
struct LineWeights {
    index_t tap, unit;
};

// CELLS neighbouring cells of a class and 8*V channels: taps [first, last) of every tied row.
template <int CELLS, int V>
static INLINE void channel_cells(const TiedRow* rows, index_t row_count, index_t first, index_t last, index_t source,
                                 index_t tap_source, index_t cell_source, index_t weight, index_t tap_weight,
                                 float* out, index_t out_cell) {
    v8 acc[CELLS][V];
    UNROLL for (int i = 0; i < CELLS; ++i)
        UNROLL for (int j = 0; j < V; ++j) acc[i][j] = v8{};
    for (index_t r = 0; r < row_count; ++r) {
        const float* x = rows[r].source + source + first * tap_source;
        const float* w = rows[r].weight + weight + first * tap_weight;
        for (index_t t = first; t < last; ++t, x += tap_source, w += tap_weight) {
            v8 a[V];
            UNROLL for (int j = 0; j < V; ++j) a[j] = load8(w + 8 * j);
            UNROLL for (int i = 0; i < CELLS; ++i)
                UNROLL for (int j = 0; j < V; ++j)
                    acc[i][j] = fma8(a[j], load8(x + i * cell_source + 8 * j), acc[i][j]);
        }
    }
    UNROLL for (int i = 0; i < CELLS; ++i)
        UNROLL for (int j = 0; j < V; ++j) store8(out + i * out_cell + 8 * j, acc[i][j]);
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
        UNROLL for (int t = 0; t < TAPS; ++t)
            if (c - t >= 0 && c - t < CELLS) acc[c - t] = Channels::add_product(a[t], v, acc[c - t]);
    }
}

// CELLS neighbouring cells and a vector of channels, all taps: as channel_cells with taps and cells one source cell apart.
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
#define CASE(N) \
    case N: slide_row<Channels, CELLS, N>(acc, x, cell, w, tap_weight); break;
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7)
#undef CASE
        default: break;
        }
    }
    UNROLL for (int i = 0; i < CELLS; ++i) Channels::write(out + i * out_cell, acc[i]);
}

// The taps of a cell, one by one: where their source is and what it is multiplied with.
enum { MOST_TERMS = 9 };
struct Terms {
    const float *source[MOST_TERMS], *weight[MOST_TERMS];
};

template <class Channels, int TERMS> static INLINE void add_terms(const Terms& t, index_t channel, float* out) {
    typename Channels::vector acc = {};
    UNROLL for (int k = 0; k < TERMS; ++k)
        acc = Channels::add_product(Channels::read(t.weight[k] + channel), Channels::read(t.source[k] + channel), acc);
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

static void term_cells_any(index_t terms, const Terms& t, index_t cells, index_t cell_source, index_t channels, float* out,
                           index_t out_cell) {
    switch (terms) {
#define CASE(N) \
    case N: return term_cells<N>(t, cells, cell_source, channels, out, out_cell);
    CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9)
#undef CASE
    default: return;
    }
}

// The taps of a line of cells of one class: tap t of cell j reads source cell j*source_step + offset + t*step.
struct LineTaps {
    const index_t taps, offset, step, source_step, source_extent;
    index_t whole_begin, whole_end;  // cells all of whose taps have a source

    LineTaps(const AxisClass& c, index_t extent, index_t cell_step, index_t cell_begin, index_t cell_end)
        : taps(c.taps.count), offset(c.taps.first_offset), step(c.taps.offset_step), source_step(cell_step),
          source_extent(extent) {
        const index_t last = offset + (taps - 1) * step, low = least(offset, last), high = most(offset, last);
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
                         LinesAhead reads, LinesAhead writes) {
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
    // Cells side by side share what neighbouring taps read. Few taps gain by that where memory is asked for ahead and cells
    // do not fall on the same sets of the cache; otherwise they go cell by cell, all channels of each. Sliding goes the way
    // the taps go: backwards over source and cells where they fall.
    const bool few_terms = channels >= 64 && row_count * taps <= MOST_TERMS;
    const bool shares = !few_terms || (taps >= 3 && whole_end - j >= 24 && reads.at != nullptr && v.cell % 256 != 0);
    const bool slides = source_step == 1 && magnitude(step) == 1 && shares;
    for (; slides && j + 8 <= whole_end; j += 8) {
        const index_t first = j + (step > 0 ? 0 : 7);
        for (index_t i = 0; i < channels;) {
            const bool wide = LANES > 8 && i + LANES <= channels;
            reads.go_on();
            writes.go_on<WRITES>();
            (wide ? slide_cells<WideChannels, 8> : slide_cells<EightChannels, 8>)(
                rows, row_count, taps, (first + offset) * v.cell + i, tap_source, weight + i, tap_weight,
                out + (first - cell_begin) * out_cell + i, step * out_cell);
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

// ---- weight gradients ------------------------------------------------------------------------------------------

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
#define CASE(N) \
    case N: return channel_dots<N>(cells, y, y_cell, x, x_cell, at, sums);
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10)
#undef CASE
    default: return;
    }
}

// Three neighbouring taps, 8*V channels: what a tap reads now its neighbour has read before (STRIDE cells earlier).
template <int V, int STRIDE>
static void three_dots(index_t cells, const float* y, index_t y_cell, const float* x, index_t x_cell, float* sums,
                       index_t sums_tap) {
    v8 acc[3][V], at[3][V];
    UNROLL for (int t = 0; t < 3; ++t)
        UNROLL for (int j = 0; j < V; ++j) {
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
    UNROLL for (int t = 0; t < 3; ++t)
        UNROLL for (int j = 0; j < V; ++j) {
            float* p = sums + t * sums_tap + 8 * j;
            store8(p, load8(p) + acc[t][j]);
        }
}

// One coarse line with every row of the window that meets the source, for windows three columns wide.
static void three_columns(const cg_problem& p, const ChannelView& x, const ChannelView& y, index_t z, index_t r,
                          index_t begin, index_t end, index_t channels, float* sums, index_t sums_tap, LinesAhead fine,
                          LinesAhead coarse) {
    Tied tied[3];
    index_t low = begin, high = end;  // cells all three taps have
    for (int k = 0; k < 3; ++k) {
        tied[k] = tied_cells(p.coarse[2], p.fine[2], p.stride[2], k - p.pad[2]);
        tied[k].begin = clamp(tied[k].begin, begin, end);
        tied[k].end = clamp(tied[k].end, tied[k].begin, end);
        low = most(low, tied[k].begin);
        high = least(high, tied[k].end);
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
                fine.go_on();
                coarse.go_on();
                const float* from = x.base + sz * x.depth + sy * x.row - p.pad[2] * x.cell + c;
                float* to = sums + (kz * p.window[1] + ky) * 3 * sums_tap + c;
                for (int k = 0; k < 3; ++k) {
                    const index_t parts[2][2] = {{tied[k].begin, least(low, tied[k].end)},
                                                 {most(high, most(low, tied[k].begin)), tied[k].end}};
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
