// Depthwise with channels side by side in memory: eight channels per vector, or as many as it has, no padding anywhere.
// Only tied cells are read, so nothing special happens to an inf or NaN.
#pragma once

// The same names for vectors of eight and for the widest: a channel keeps its lane, its sums are the same in both.
struct EightChannels {
    typedef v8 vector;
    enum { COUNT = 8 };
    static INLINE v8 read(const float* p) { return load8(p); }
    static INLINE void write(float* p, v8 v) { store8(p, v); }
    static INLINE v8 add_product(v8 a, v8 b, v8 c) { return fma8(a, b, c); }
};
struct WideChannels {
    typedef vf vector;
    enum { COUNT = LANES };
    static INLINE vf read(const float* p) { return load(p); }
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

static bool reads_in_place(const Source& s, const ChannelPlan& plan, index_t channels) {
    return s.kind == LOAD_F32 && channels % 8 == 0 && !plan.copies;
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

// ---- data gradients --------------------------------------------------------------------------------------------

struct TiedRow {  // a source row and the weight row that meets it
    const float* source;
    const float* weight;
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

// A line of cells of one class.
static void channel_line(const AxisClass& c, index_t source_extent, index_t source_step, const TiedRow* rows,
                         index_t row_count, index_t cell_begin, index_t cell_end, index_t channels,
                         const ChannelView& v, index_t weight_pitch, float* out, index_t out_cell) {
    const index_t taps = c.taps.count, step = c.taps.offset_step, offset = c.taps.first_offset;
    const index_t last_offset = offset + (taps - 1) * step;
    const index_t low = least(offset, last_offset), high = most(offset, last_offset);
    const index_t weight = c.taps.first_tap * weight_pitch, tap_weight = c.taps.tap_step * weight_pitch;
    const index_t tap_source = step * v.cell, cell_source = source_step * v.cell;
    // Cells all of whose taps have a source: 0 <= j*step + offset < extent.
    const index_t whole_begin = clamp(low >= 0 ? 0 : ceil_div(-low, source_step), cell_begin, cell_end);
    const index_t whole_end = clamp(floor_div(source_extent - 1 - high, source_step) + 1, whole_begin, cell_end);
    const auto one_cell = [&](index_t j) {
        index_t first = 0, last = taps;
        const index_t start = j * source_step + offset;
        const auto inside = [&](index_t t) { return start + t * step >= 0 && start + t * step < source_extent; };
        while (first < last && !inside(first)) ++first;
        while (last > first && !inside(last - 1)) --last;
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
    for (; j < whole_begin; ++j) one_cell(j);
    if (channels >= 64 && row_count * taps <= MOST_TERMS && j < whole_end) {
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
    // Sliding goes the way the taps go: backwards over source and cells where they fall.
    for (; source_step == 1 && magnitude(step) == 1 && j + 8 <= whole_end; j += 8) {
        const index_t first = j + (step > 0 ? 0 : 7);
        for (index_t i = 0; i < channels;) {
            const bool wide = LANES > 8 && i + LANES <= channels;
            (wide ? slide_cells<WideChannels, 8> : slide_cells<EightChannels, 8>)(
                rows, row_count, taps, (first + offset) * v.cell + i, tap_source, weight + i, tap_weight,
                out + (first - cell_begin) * out_cell + i, step * out_cell);
            i += wide ? LANES : 8;
        }
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

struct ChannelRun {
    const cg_problem& p;
    const ChannelPlan& plan;
    const Source fine, coarse, weight;
    const Target target;
    float* shared = nullptr;
};

static SourceBox source_box(const cg_problem& p, bool to_fine, const Box& box) {
    SourceBox s;
    for (int a = 0; a < 3; ++a) {
        const index_t begin = box.begin[a + 1], last = box.end[a + 1] - 1;
        const index_t reach = (p.window[a] - 1) * p.dilation[a];
        const index_t low = to_fine ? floor_div(begin + p.pad[a] - reach, p.stride[a]) : begin * p.stride[a] - p.pad[a];
        const index_t high = to_fine ? floor_div(last + p.pad[a], p.stride[a])
                                     : last * p.stride[a] - p.pad[a] + reach;
        s.begin[a] = most(0, low);
        s.end[a] = most(s.begin[a], least(to_fine ? p.coarse[a] : p.fine[a], high + 1));
    }
    return s;
}

static void channel_gather_task(ChannelRun& run, const Gather& g, bool to_fine, index_t channel, index_t block_number,
                                const float* weights, char* scratch) {
    const ChannelPlan& plan = run.plan;
    const cg_problem& p = run.p;
    const index_t channels = least(plan.block, p.groups - channel), padded = ceil_div(channels, 8) * 8;
    Box box;
    block_box(plan.blocks, block_number, &box);
    const Source& source = to_fine ? run.coarse : run.fine;
    const bool in_place = reads_in_place(source, plan, p.groups);
    const bool store_in_place = run.target.kind == STORE_F32 && p.groups % 8 == 0;
    Scratch take{scratch};
    float* buffer = take.take<float>(plan.source_floats);
    float* line = take.take<float>(plan.line_floats);
    TiedRow* rows = (TiedRow*)take.take<float>(p.window[0] * p.window[1] * 4);
    const index_t* st = g.target->stride;
    const SourceBox inside = source_box(p, to_fine, box);
    for (index_t n = box.begin[0]; n < box.end[0]; ++n) {
        const ChannelView v = view_channels(source, in_place, n, channel, channels, plan.block, inside, buffer);
        for (index_t z = box.begin[1]; z < box.end[1]; ++z)
            for (index_t y = box.begin[2]; y < box.end[2]; ++y) {
                index_t count = 0;
                for (index_t kz = 0; kz < p.window[0]; ++kz) {
                    const index_t sz = tied_source(p, to_fine, 0, z, kz);
                    for (index_t ky = 0; sz >= 0 && ky < p.window[1]; ++ky) {
                        const index_t sy = tied_source(p, to_fine, 1, y, ky);
                        if (sy < 0) continue;
                        rows[count].source = v.base + sz * v.depth + sy * v.row;
                        rows[count++].weight = weights + (kz * p.window[1] + ky) * p.window[2] * plan.block;
                    }
                }
                const index_t at = n * st[0] + channel + z * st[2] + y * st[3];
                const index_t cells = box.end[3] - box.begin[3];
                for (index_t residue = 0; residue < g.out_step[2]; ++residue) {
                    const AxisClass c = axis_class(p, to_fine, 2, residue);
                    const index_t first = ceil_div(most(0, box.begin[3] - residue), g.out_step[2]);
                    const index_t last = least(c.cells, ceil_div(most(0, box.end[3] - residue), g.out_step[2]));
                    if (first >= last) continue;
                    const index_t begin = residue + first * g.out_step[2];
                    float* out = store_in_place ? (float*)g.target->data + at + begin * st[4]
                                                : line + (begin - box.begin[3]) * plan.block;
                    const index_t out_cell = g.out_step[2] * (store_in_place ? st[4] : plan.block);
                    const index_t step = g.source_step[2], extent = g.source_extent[2];
                    channel_line(c, extent, step, rows, count, first, last, padded, v, plan.block, out, out_cell);
                }
                if (!store_in_place)
                    run.target.rows(run.target, at + box.begin[3] * st[4], cells, st[4], channels, 1, line, plan.block);
            }
    }
}

static int run_channel_gather(const cg_problem& p, bool to_fine, int threads) {
    const Gather g = make_gather(p, to_fine);
    ChannelPlan plan;
    plan_channels(p, to_fine ? TO_FINE : TO_COARSE, threads, &plan);
    ChannelRun run{p, plan, make_source(p.fine_operand), make_source(p.coarse_operand), make_source(p.weight_operand),
                   make_target(*g.target)};
    run.shared = (float*)shared_scratch(plan.shared_bytes);
    if (run.shared == nullptr) return CG_OUT_OF_MEMORY;
    const index_t taps = p.window[0] * p.window[1] * p.window[2];
    // Weights as [tap][channel] of every block, for as many channels at a time as the shared memory takes.
    for (index_t first = 0; first < p.groups; first += plan.channels_at_once) {
        const index_t now = least(plan.channels_at_once, p.groups - first);
        auto pack = [&](index_t tap, char*) {
            const index_t kx = tap % p.window[2], ky = tap / p.window[2] % p.window[1];
            const index_t kz = tap / (p.window[2] * p.window[1]);
            const index_t* st = p.weight_operand.stride;
            for (index_t c = 0; c < now; c += plan.block) {
                const index_t channels = least(plan.block, now - c);
                float* to = run.shared + c * taps + tap * plan.block;
                run.weight.rows(run.weight, (first + c) * st[0] + kz * st[2] + ky * st[3] + kx * st[4], 1, 0, channels,
                                st[0], to, 0);
                for (index_t i = channels; i < ceil_div(channels, 8) * 8; ++i) to[i] = 0;
            }
        };
        const index_t parts = ceil_div(now, plan.block);
        auto compute = [&](index_t task, char* scratch) {
            const index_t part = task % parts;
            channel_gather_task(run, g, to_fine, first + part * plan.block, task / parts,
                                run.shared + part * plan.block * taps, scratch);
        };
        int status = in_parallel(taps * now > 20000 ? threads : 1, taps, 0, pack);
        if (status == CG_OK) status = in_parallel(threads, parts * plan.blocks.total, plan.task_bytes, compute);
        if (status != CG_OK) return status;
    }
    return CG_OK;
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

// Lines that will be read next, asked for a few cache lines at a time: the sums below jump from cell to cell.
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
    INLINE void go_on() {
        for (index_t i = 0; i < pace && at < end; ++i, at += 64) __builtin_prefetch(at, 0, 2);
    }
};

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

// A run of pixel blocks for one block of channels; sums[tap][channel of the block].
static void channel_weight_task(ChannelRun& run, index_t channel, index_t partial, float* sums, index_t sums_tap,
                                char* scratch) {
    const ChannelPlan& plan = run.plan;
    const cg_problem& p = run.p;
    const index_t channels = least(plan.block, p.groups - channel);
    const index_t taps = p.window[0] * p.window[1] * p.window[2];
    const bool fine_in_place = reads_in_place(run.fine, plan, p.groups);
    const bool coarse_in_place = reads_in_place(run.coarse, plan, p.groups);
    Scratch take{scratch};
    float* fine_buffer = take.take<float>(plan.source_floats);
    float* coarse_buffer = take.take<float>(plan.line_floats);
    const index_t padded = ceil_div(channels, 8) * 8;
    for (index_t t = 0; t < taps; ++t) zero(sums + t * sums_tap, padded);
    const index_t blocks = plan.blocks.total;
    for (index_t b = blocks * partial / plan.partials; b < blocks * (partial + 1) / plan.partials; ++b) {
        Box box;
        block_box(plan.blocks, b, &box);
        const SourceBox inside = source_box(p, false, box);
        for (index_t n = box.begin[0]; n < box.end[0]; ++n) {
            const ChannelView x = view_channels(run.fine, fine_in_place, n, channel, channels, plan.block, inside,
                                                fine_buffer);
            const SourceBox here{{box.begin[1], box.begin[2], box.begin[3]}, {box.end[1], box.end[2], box.end[3]}};
            const ChannelView y = view_channels(run.coarse, coarse_in_place, n, channel, channels, plan.block, here,
                                                coarse_buffer);
            const bool three = p.window[2] == 3 && p.dilation[2] == 1 && p.stride[2] <= 2;
            for (index_t z = box.begin[1]; three && z < box.end[1]; ++z)
                for (index_t r = box.begin[2]; r < box.end[2]; ++r) {
                    const index_t steps = ceil_div(padded, 16) * p.window[0] * p.window[1];
                    const index_t above = r * p.stride[1] - p.pad[1] + (p.window[1] - 1) * p.dilation[1] + 1;
                    LinesAhead fine, coarse;
                    if (fine_in_place)
                        fine = LinesAhead(x, clamp(z * p.stride[0] - p.pad[0], 0, p.fine[0] - 1), above,
                                          above + p.stride[1], p.fine[1], p.fine[2], padded, steps);
                    if (coarse_in_place) coarse = LinesAhead(y, z, r + 1, r + 2, p.coarse[1], p.coarse[2], padded, steps);
                    three_columns(p, x, y, z, r, box.begin[3], box.end[3], padded, sums, sums_tap, fine, coarse);
                }
            for (index_t z = box.begin[1]; !three && z < box.end[1]; ++z)
                for (index_t r = box.begin[2]; r < box.end[2]; ++r)
                    for (index_t c8 = 0; c8 < padded; c8 += 8) {
                        const float* line = y.base + z * y.depth + r * y.row + c8;
                        const float* from = x.base + c8;
                        index_t at[10];
                        float* to[10];
                        index_t held = 0, begin = 0, end = 0;
                        const auto flush = [&] {
                            if (held > 0 && begin < end)
                                channel_dots_any(held, end - begin, line + begin * y.cell, y.cell,
                                                 from + begin * p.stride[2] * x.cell, p.stride[2] * x.cell, at, to);
                            held = 0;
                        };
                        for (index_t kz = 0; kz < p.window[0]; ++kz) {
                            const index_t sz = tied_source(p, false, 0, z, kz);
                            for (index_t ky = 0; sz >= 0 && ky < p.window[1]; ++ky) {
                                const index_t sy = tied_source(p, false, 1, r, ky);
                                if (sy < 0) continue;
                                for (index_t kx = 0; kx < p.window[2]; ++kx) {
                                    const index_t shift = kx * p.dilation[2] - p.pad[2];
                                    Tied o = tied_cells(p.coarse[2], p.fine[2], p.stride[2], shift);
                                    o.begin = most(o.begin, box.begin[3]);
                                    o.end = least(o.end, box.end[3]);
                                    if (o.begin >= o.end) continue;
                                    const index_t offset = sz * x.depth + sy * x.row + shift * x.cell;
                                    float* sum = sums + ((kz * p.window[1] + ky) * p.window[2] + kx) * sums_tap + c8;
                                    if (held == 10) flush();
                                    if (held > 0) {
                                        // Share the cells all held taps have; do the rest of each alone.
                                        const index_t low = most(begin, o.begin), high = least(end, o.end);
                                        if (low >= high) flush();
                                        else {
                                            for (index_t i = 0; i < held; ++i) {
                                                channel_dots<1>(low - begin, line + begin * y.cell, y.cell,
                                                                from + begin * p.stride[2] * x.cell,
                                                                p.stride[2] * x.cell, at + i, to + i);
                                                channel_dots<1>(end - high, line + high * y.cell, y.cell,
                                                                from + high * p.stride[2] * x.cell,
                                                                p.stride[2] * x.cell, at + i, to + i);
                                            }
                                            begin = low;
                                            end = high;
                                        }
                                    }
                                    if (held == 0) {
                                        begin = o.begin;
                                        end = o.end;
                                    }
                                    at[held] = offset;
                                    to[held] = sum;
                                    channel_dots<1>(begin - o.begin, line + o.begin * y.cell, y.cell,
                                                    from + o.begin * p.stride[2] * x.cell, p.stride[2] * x.cell,
                                                    at + held, to + held);
                                    channel_dots<1>(o.end - end, line + end * y.cell, y.cell,
                                                    from + end * p.stride[2] * x.cell, p.stride[2] * x.cell, at + held,
                                                    to + held);
                                    ++held;
                                }
                            }
                        }
                        flush();
                    }
        }
    }
}

static int run_channel_weight(const cg_problem& p, int threads) {
    ChannelPlan plan;
    plan_channels(p, TO_WEIGHT, threads, &plan);
    ChannelRun run{p, plan, make_source(p.fine_operand), make_source(p.coarse_operand), make_source(p.weight_operand),
                   make_target(p.to_weight)};
    const index_t taps = p.window[0] * p.window[1] * p.window[2];
    run.shared = (float*)shared_scratch(plan.shared_bytes);
    if (run.shared == nullptr) return CG_OUT_OF_MEMORY;
    const index_t* st = p.to_weight.stride;
    for (index_t first = 0; first < p.groups; first += plan.channels_at_once) {
        const index_t now = least(plan.channels_at_once, p.groups - first), parts = ceil_div(now, plan.block);
        const index_t partial_floats = taps * plan.channels_at_once;
        auto compute = [&](index_t task, char* scratch) {
            const index_t part = task % parts, partial = task / parts;
            channel_weight_task(run, first + part * plan.block, partial,
                                run.shared + partial * partial_floats + part * plan.block, plan.channels_at_once, scratch);
        };
        auto add = [&](index_t tap, char*) {
            float* sums = run.shared + tap * plan.channels_at_once;
            for (index_t partial = 1; partial < plan.partials; ++partial)
                for (index_t c = 0; c < now; ++c) sums[c] += sums[partial * partial_floats + c];
            const index_t kx = tap % p.window[2], ky = tap / p.window[2] % p.window[1];
            const index_t kz = tap / (p.window[2] * p.window[1]);
            run.target.rows(run.target, first * st[0] + kz * st[2] + ky * st[3] + kx * st[4], 1, 0, now, st[0], sums, 0);
        };
        int status = in_parallel(threads, parts * plan.partials, plan.task_bytes, compute);
        if (status == CG_OK) status = in_parallel(taps * now > 20000 ? threads : 1, taps, 0, add);
        if (status != CG_OK) return status;
    }
    return CG_OK;
}
