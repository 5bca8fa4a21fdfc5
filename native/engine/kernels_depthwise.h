// One channel per group: no matrix product, a correlation of planes.
//
// "Rows" paths take planes (width contiguous) and vectorise along the width; "channels" paths take channels that lie
// side by side and vectorise over them.
#pragma once

// ---- data gradients along rows ---------------------------------------------------------------------------------
//
// A correlation: out[y][x] = sum over (i, j) of w[i][j] * tile[y + i][x + j], weights turned so that rows and columns
// of the source rise. BAND output rows are computed together because they share the source rows they read.

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
    UNROLL for (int i = 0; i < BAND; ++i)
        UNROLL for (int j = 0; j < V; ++j) acc[i][j] = v8{};
}

template <int V> static INLINE void end_band(const v8 (&acc)[BAND][V], float* out, index_t out_row, bool add) {
    UNROLL for (int i = 0; i < BAND; ++i)
        UNROLL for (int j = 0; j < V; ++j) {
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
            const index_t first = most(0, r - rows + 1), last = least(BAND, r + 1);
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

// The common small windows with every loop unrolled, from the last source cell to the first: for a gradient that is from
// the first tap to the last. What the first part of more than three rows gave is put aside.
template <int V, int ROWS, int COLUMNS>
static void band_fixed(const Window& window, const float* tile, index_t pitch, float* out, index_t out_row, bool add) {
    v8 acc[BAND][V], aside[BAND][V];
    start_band<V>(acc);
    start_band<V>(aside);
    const float* w = window.w;
    for (index_t z = 0; z < window.planes; ++z, w += ROWS * COLUMNS) {
        const float* source = tile + window.plane[z] + (ROWS + BAND - 2) * pitch;
        const float* from = w;
        UNROLL for (int r = ROWS + BAND - 2; r >= 0; --r) {
            UNROLL for (int k = COLUMNS - 1; k >= 0; --k) {
                v8 x[V];
                UNROLL for (int j = 0; j < V; ++j) x[j] = load8_once(source + k + 8 * j);
                UNROLL for (int i = 0; i < BAND; ++i)
                    if (r - i >= 0 && r - i < ROWS) {
                        const v8 a = broadcast8(from[(r - i) * COLUMNS + k]);
                        const bool second = ROWS > 3 && r - i == ROWS - 1 - ROWS / 2 && k == COLUMNS - 1;
                        UNROLL for (int j = 0; j < V; ++j) {
                            if (second) aside[i][j] += acc[i][j];
                            acc[i][j] = second ? a * x[j] : fma8(a, x[j], acc[i][j]);
                        }
                    }
            }
            if (r > 0) source -= pitch;
            // Otherwise the compiler computes every address and broadcast of the window beforehand, and spills them.
            asm("" : "+r"(source), "+r"(from));
        }
    }
    if (ROWS > 3)
        UNROLL for (int i = 0; i < BAND; ++i)
            UNROLL for (int j = 0; j < V; ++j) acc[i][j] += aside[i][j];
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
                UNROLL for (int i = 0; i < BAND; ++i)
                    if (r - i >= 0 && r - i < ROWS) acc[i][0] = fma8(w[(r - i) * COLUMNS + k], cells, acc[i][0]);
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
    band_columns(width, [&](index_t x) { band_fixed<2, ROWS, COLUMNS>(window, tile + x, pitch, out + x, out_row, add); },
                 [&](index_t x) { band_fixed<1, ROWS, COLUMNS>(window, tile + x, pitch, out + x, out_row, add); });
}

static void band_of_any_window(const Window& window, const float* tile, index_t pitch, index_t width, float* out,
                               index_t out_row, bool add) {
    band_columns(width, [&](index_t x) { band_any<2>(window, tile + x, pitch, out + x, out_row, add); },
                 [&](index_t x) { band_any<1>(window, tile + x, pitch, out + x, out_row, add); });
}

typedef void (*Band)(const Window&, const float*, index_t, index_t, float*, index_t, bool);
static Band band_for(const Window& w) {
#define WINDOW(KERNEL, ROWS, COLUMNS) \
    if (w.rows == ROWS && w.columns == COLUMNS) return KERNEL<ROWS, COLUMNS>;
    if (w.planes == 1) {
        WINDOW(band_held, 3, 3)
        WINDOW(band_held, 1, 1) WINDOW(band_held, 1, 2) WINDOW(band_held, 2, 1) WINDOW(band_held, 2, 2)  // 3 x 3, stride 2
    }
    WINDOW(band_unrolled, 3, 3) WINDOW(band_unrolled, 5, 5) WINDOW(band_unrolled, 7, 7)
    WINDOW(band_unrolled, 1, 1) WINDOW(band_unrolled, 1, 2) WINDOW(band_unrolled, 2, 1) WINDOW(band_unrolled, 2, 2)
#undef WINDOW
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
    bool banded, turned;
    Window window;
    int* offsets;         // of the taps in their own order, for lines outside any band
    index_t first;        // tile offset of the smallest row and column
    AxisTaps axis[3];
};

static void describe_correlation(const Tile& t, const AxisTaps taps[3], int* offsets, int* planes, Correlation* c) {
    for (int a = 0; a < 3; ++a) c->axis[a] = taps[a];
    c->taps = tap_count(taps);
    c->offsets = offsets;
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

static void turn_window(const Correlation& c, const float* w, float* to) {
    const index_t rows = c.axis[1].count, columns = c.axis[2].count;
    const bool y_falls = c.axis[1].offset_step < 0, x_falls = c.axis[2].offset_step < 0;
    for (index_t z = 0; z < c.axis[0].count; ++z)
        for (index_t y = 0; y < rows; ++y)
            for (index_t x = 0; x < columns; ++x)
                *to++ = w[(z * rows + (y_falls ? rows - 1 - y : y)) * columns + (x_falls ? columns - 1 - x : x)];
}

// Planes that will be read and written next, asked for in so many steps.
struct PlanesAhead {
    Ahead source, result;
    index_t source_pace = 0, result_pace = 0;

    PlanesAhead() = default;
    PlanesAhead(const Ahead& read, const Ahead& written, index_t steps)
        : source(read), result(written), source_pace(ceil_div(read.cache_lines(), most(1, steps))),
          result_pace(ceil_div(written.cache_lines(), most(1, steps))) {}
    INLINE void go_on() {
        source.go_on<READS>(source_pace);
        result.go_on<WRITES>(result_pace);
    }
};

static void correlate_plane(const Correlation& c, const float* w, const float* tile, index_t pitch, index_t lines,
                            index_t width, float* out, index_t out_row, bool add, PlanesAhead* ahead) {
    Window window = c.window;
    window.w = w;
    const index_t banded = c.banded ? lines / BAND * BAND : 0;
    const Band band = band_for(window);
    for (index_t y = 0; y < banded; y += BAND) {
        ahead->go_on();
        band(window, tile + c.first + y * pitch, pitch, width, out + y * out_row, out_row, add);
    }
}

// Lines below the last band, or all of them: the taps in their own order.
static void correlate_lines(const Correlation& c, const float* w, const float* tile, index_t pitch, index_t begin,
                            index_t end, index_t width, float* out, index_t out_row, bool add) {
    for (index_t y = begin; y < end; ++y) {
        const float* from = tile + y * pitch;
        float* to = out + y * out_row;
        index_t x = 0;
        for (; x + 32 <= width; x += 32) line_any<4>(from + x, c.offsets, c.taps, w, to + x, add);
        in_columns(width - x, 8, [&](index_t i) { line_any<1>(from + x + i, c.offsets, c.taps, w, to + x + i, add); });
    }
}

static void depthwise_task(GatherRun& run, index_t channel_begin, index_t channel_end, index_t block, char* scratch) {
    const Gather& g = run.g;
    const GatherPass& pass = run.pass;
    Box box;
    block_box(pass.blocks, block, &box);
    Tile t;
    shape_tile(box, pass.span, pass.slots, false, &t);
    const index_t lines = box.end[2] - box.begin[2], cells = box.end[3] - box.begin[3];
    const index_t depths = box.end[1] - box.begin[1], units = (box.end[0] - box.begin[0]) * depths;
    const int classes = pass.classes.count;

    Scratch take{scratch};
    float* tile = take.take<float>(pass.tile_channel + 64);
    float* sums = take.take<float>(pass.columns * classes);
    int* offsets = take.take<int>(most(1, pass.sum_taps));
    float* turned = take.take<float>(most(1, pass.most_taps));
    int* planes = take.take<int>(most(1, pass.sum_taps));
    int* unit_columns = take.take<int>(units);
    float* interleaved = take.take<float>(pass.plane_floats);
    Correlation correlation[MAX_CLASSES];
    zero(tile + t.channel, 64);  // read beside the last row, in lanes nobody keeps

    // A float32 result whose rows are contiguous is written in place; otherwise sums are kept, then stored.
    const index_t* st = g.target->stride;
    const index_t k_blocks = run.k_blocks();
    const bool in_place = run.target.kind == STORE_F32 && k_blocks == 1 && classes == 1 && st[4] == 1 &&
                          g.out_step[2] == 1 && cells >= 8;
    const index_t width = in_place ? cells : ceil_div(cells, 8) * 8;
    const index_t out_row = in_place ? st[3] * g.out_step[1] : width;
    const index_t c_class = units * lines * width;
    for (index_t u = 0; u < units; ++u) unit_columns[u] = int(u * lines * width);

    FillReport report;
    index_t described = -1;
    for (index_t channel = channel_begin; channel < channel_end; ++channel) {
        const float* weights = run.packed + (channel - run.first_chunk) * pass.reduction;
        for (index_t kb = 0; kb < k_blocks; ++kb) {
            if (described != kb) {
                described = kb;
                const KBlock k = k_block(run, kb);
                place_tile(pass, g, k, &t);
                index_t used = 0;
                for (int c = 0; c < classes; ++c) {
                    AxisTaps taps[3];
                    class_taps(pass, k, c, taps);
                    describe_correlation(t, taps, offsets + used, planes + used, &correlation[c]);
                    used += tap_count(taps);
                }
            }
            fill_tile(run.source, g.source_extent, t, box, channel, 1,
                      pass.classes.per[0] == 1 ? &correlation[0].axis[0] : nullptr, tile, &report);
            PlanesAhead ahead;
            if (channel + 1 < channel_end)
                ahead = PlanesAhead(source_ahead(g, pass, box, t, channel + 1, 1),
                                    result_ahead(g, pass, box, channel + 1, 1), classes * units * (lines / BAND));
            for (int c = 0; c < classes; ++c) {
                const Correlation& one = correlation[c];
                float* out = sums + c * c_class;
                if (one.taps == 0) {
                    if (kb == 0) zero(out, c_class);
                    continue;
                }
                if (one.banded) turn_window(one, weights, turned);
                for (index_t u = 0; u < units; ++u) {
                    const float* from = tile + u / depths * t.unit + u % depths * t.plane;
                    float* to = out + unit_columns[u];
                    if (in_place)
                        to = (float*)g.target->data + (box.begin[0] + u / depths) * st[0] + channel * st[1] +
                             (pass.classes.axis[0][0].residue + (box.begin[1] + u % depths) * g.out_step[0]) * st[2] +
                             (pass.classes.axis[1][0].residue + box.begin[2] * g.out_step[1]) * st[3] + box.begin[3];
                    correlate_plane(one, turned, from, t.pitch, lines, width, to, out_row, kb > 0, &ahead);
                    correlate_lines(one, weights, from, t.pitch, one.banded ? lines / BAND * BAND : 0, lines, width, to,
                                    out_row, kb > 0);
                }
                weights += one.taps;
            }
        }
        if (!in_place)
            write_block(run, box, channel, 0, 1, sums, 0, c_class, unit_columns, width, interleaved);
    }
    if (report.padded) raise_flag(&run.padding_met);
}

static int run_depthwise_pass(const Gather& g, const GatherPass& pass, int threads) {
    GatherRun run{g, pass, make_source(*g.source), make_source(*g.weight), make_target(*g.target), false};
    run.packed = (float*)shared_scratch(pass.shared_bytes);
    if (run.packed == nullptr) return CG_OUT_OF_MEMORY;
    for (run.first_chunk = 0; run.first_chunk < g.groups; run.first_chunk += pass.chunks_at_once) {
        const index_t channels = least(pass.chunks_at_once, g.groups - run.first_chunk);
        const index_t k_blocks = run.k_blocks();
        auto compute = [&](index_t task, char* scratch) {
            const index_t part = task / pass.blocks.total;
            const index_t begin = run.first_chunk + part * pass.chunk_rows;
            const index_t end = least(run.first_chunk + channels, begin + pass.chunk_rows);
            depthwise_task(run, begin, end, task % pass.blocks.total, scratch);
        };
        auto pack = [&](index_t task, char*) {
            for (index_t c = task * 16; c < least(channels, task * 16 + 16); ++c) {
                float* to = run.packed + c * pass.reduction;
                for (index_t kb = 0; kb < k_blocks; ++kb)
                    pack_weights(run, run.first_chunk + c, 0, PackedRows{1, 0, 1}, k_block(run, kb),
                                 to + packed_before(run, kb)).note(&run);
            }
        };
        int status = in_parallel(threads, ceil_div(channels, 16), 0, pack);
        if (status == CG_OK)
            status = in_parallel(threads, ceil_div(channels, pass.chunk_rows) * pass.blocks.total, pass.task_bytes, compute);
        if (status != CG_OK) return status;
    }
    return is_raised(&run.weight_broken) && is_raised(&run.padding_met) ? int(STATUS_REDO_PLAIN) : int(CG_OK);
}

// ---- weight gradients along rows -------------------------------------------------------------------------------

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
#define CASE(N) \
    case N: return dot_taps<N, KIND>(lines, cells, coarse, y, y_pitch, x, x_pitch, at, sums);
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#undef CASE
    default: return;
    }
}

// Coarse lines can be converted while they are multiplied, eight values for all taps at once; not where that takes long.
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
    const index_t rows = most(1, WIDE_CHAIN / width);
    for (index_t first = begin; first < end; first += rows) {
        UNROLL for (int i = 0; i < WIDE_ROWS; ++i)
            UNROLL for (int j = 0; j < V; ++j) acc[i][j] = v8{};
        for (index_t r = first; r < least(end, first + rows); ++r) {
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
        UNROLL for (int i = 0; i < WIDE_ROWS; ++i)
            UNROLL for (int j = 0; j < V; ++j) total[i][j] += acc[i][j];
    }
    UNROLL for (int i = 0; i < WIDE_ROWS; ++i)
        UNROLL for (int j = 0; j < V; ++j) {
            float* p = sums + i * sums_row + 8 * j;
            store8(p, load8(p) + total[i][j]);
        }
}

struct DepthwiseWeightRun {
    const cg_problem& p;
    const DepthwiseWeightPlan& plan;
    const Source fine, coarse;
    const Target target;
    const BiasRun* bias;  // sums of the coarse planes, while they are at hand
    bool far;             // planes are worth asking for ahead
    float* partial_sums = nullptr;
    int broken = 0;
};

// Rows of the window sums of one channel go to the weight tensor.
static void write_window(const DepthwiseWeightRun& run, index_t channel, const AxisTaps taps[3], const float* sums) {
    const Target& t = run.target;
    const index_t* st = t.tensor->stride;
    for (index_t z = 0; z < taps[0].count; ++z)
        t.rows(t, channel * st[0] + (taps[0].first_tap + z) * st[2] + taps[1].first_tap * st[3] +
                      taps[2].first_tap * st[4],
               taps[1].count, st[3], taps[2].count, st[4], sums + z * taps[1].count * taps[2].count, taps[2].count);
}

// Sums of a wide window, as vectors of its columns: from one row of them to the next, and how many rows.
static INLINE index_t wide_sums_row(const AxisTaps taps[3]) { return ceil_div(taps[2].count, WIDE_COLUMNS) * WIDE_COLUMNS; }
static INLINE index_t wide_sum_rows(const AxisTaps taps[3]) { return taps[1].count + WIDE_ROWS; }

// One coarse plane, at depth d, of a wide window. Its lines lie `width` apart, zero for WIDE_ROWS lines around.
static void add_wide(const DepthwiseWeightRun& run, const Tile& t, const AxisTaps taps[3], const Box& box, index_t d,
                     const int* offsets, const float* x, const float* y, index_t width, float* sums) {
    const cg_problem& p = run.p;
    const index_t lines = box.end[2] - box.begin[2], cells = box.end[3] - box.begin[3];
    const index_t sums_row = wide_sums_row(taps);
    const Range inside = valid_range(t, 1, 0, box.begin[2], p.fine[1]);
    for (index_t z = 0; z < taps[0].count; ++z) {
        const index_t depth = (d * p.stride[0]) + taps[0].first_offset + z * taps[0].offset_step;
        if (depth < 0 || depth >= p.fine[0]) continue;
        for (index_t k = 0; k < taps[1].count; k += WIDE_ROWS) {
            // x row r meets y row r - k - i, i < 3; rows of padding give nothing.
            const index_t begin = most(inside.begin, k), end = least(inside.end, k + lines + WIDE_ROWS - 1);
            if (begin >= end) continue;
            const float* from = x + offsets[z * taps[1].count * taps[2].count];
            for (index_t c = 0; c < taps[2].count; c += WIDE_COLUMNS) {
                const index_t left = taps[2].count - c;
                const auto rows = left > 24 ? wide_rows<4> : left > 16 ? wide_rows<3> : left > 8 ? wide_rows<2>
                                                                                                 : wide_rows<1>;
                rows(begin, end, cells, from + c, t.pitch, y - k * width, width,
                     sums + (z * wide_sum_rows(taps) + k) * sums_row + c, sums_row);
            }
        }
    }
}

// A few channels, one tap group, one run of pixel blocks; windows receive [depth][row][column] sums, one per channel.
static void depthwise_weight_task(DepthwiseWeightRun& run, index_t channel, index_t channels, index_t number,
                                  index_t partial, char* scratch, float* windows, index_t next_window) {
    const DepthwiseWeightPlan& plan = run.plan;
    const cg_problem& p = run.p;
    AxisTaps taps[3];
    tap_group(plan.taps, plan.tap_groups, number, taps);
    const index_t count = tap_count(taps);
    Scratch take{scratch};
    float* tile = take.take<float>(plan.tile_floats * plan.channels_at_once + 128);
    float* coarse = take.take<float>(plan.coarse_floats * plan.channels_at_once);
    float* all_sums = take.take<float>(plan.sum_floats * plan.channels_at_once);
    int* offsets = take.take<int>(plan.most_taps);
    zero(all_sums, plan.sum_floats * channels);
    bool finite = true;
    BiasSum bias_sum;
    FillReport report;
    const index_t* cs = run.coarse.tensor->stride;
    const index_t blocks = plan.blocks.total;
    for (index_t b = blocks * partial / plan.partials; b < blocks * (partial + 1) / plan.partials; ++b) {
        Box box;
        block_box(plan.blocks, b, &box);
        Tile t;
        shape_tile(box, plan.span, plan.slots, false, &t);
        for (int a = 0; a < 3; ++a) t.axis[a] = tile_axis(taps[a], p.stride[a]);
        // Blocks of whole planes have the same borders: they stay zero.
        const bool bordered = b > blocks * partial / plan.partials && plan.blocks.total == plan.blocks.count[0];
        fill_tile(run.fine, p.fine, t, box, channel, channels, &taps[0], tile, &report, nullptr, bordered);
        zero(tile + channels * t.channel, 128);
        tap_offsets(t, taps, offsets);
        const index_t lines = box.end[2] - box.begin[2], cells = box.end[3] - box.begin[3];
        const index_t width = ceil_div(cells, 8) * 8, depths = box.end[1] - box.begin[1];
        const index_t units = (box.end[0] - box.begin[0]) * depths;
        Ahead fine_ahead, coarse_ahead;  // the planes of the next block, where blocks are whole planes
        if (run.far && box.end[0] < p.batch) {
            const index_t none[3] = {0, 0, 0}, images = least(box.end[0] + plan.blocks.per[0], p.batch);
            fine_ahead.start(*run.fine.tensor, box.end[0], images, channel, channels, none, p.fine);
            coarse_ahead.start(*run.coarse.tensor, box.end[0], images, channel, channels, none, p.coarse);
        }
        const index_t calls = units * channels * ceil_div(lines, DOT_LINES);
        const index_t fine_pace = ceil_div(fine_ahead.cache_lines(), calls);
        const index_t coarse_pace = ceil_div(coarse_ahead.cache_lines(), calls);
        // Coarse lines where they lie, or copied, zero beyond the last cell and for WIDE_ROWS lines around.
        const DotSome as_stored = dot_some_of(run.coarse.kind);
        const bool in_place = !plan.wide && as_stored != nullptr && cs[4] == 1 && cells >= 8;
        const index_t coarse_plane = (lines + 2 * WIDE_ROWS) * width;
        for (index_t u = 0; u < units; ++u) {
            const index_t n = box.begin[0] + u / depths, d = box.begin[1] + u % depths;
            const index_t at = n * cs[0] + channel * cs[1] + d * cs[2] + box.begin[2] * cs[3] + box.begin[3] * cs[4];
            if (run.bias != nullptr) bias_sum.add_line(*run.bias, channel, n * p.coarse[0] + d);
            if (!in_place) {
                if (cells < 8 || plan.wide) zero(coarse, channels * coarse_plane);
                float* to = coarse + WIDE_ROWS * width;
                for (index_t line = 0; channels > 1 && line < lines; ++line)
                    finite &= run.coarse.transposed(run.coarse, at + line * cs[3], cells, cs[4], channels,
                                                    to + line * width, coarse_plane);
                if (channels == 1) finite &= run.coarse.rows(run.coarse, at, lines, cs[3], cells, cs[4], to, width);
            }
            for (index_t c = 0; c < channels; ++c) {
                const float* y = coarse + c * coarse_plane + WIDE_ROWS * width;
                const float* x = tile + c * t.channel + u / depths * t.unit + u % depths * t.plane;
                float* sums = all_sums + c * plan.sum_floats;
                if (plan.wide) {
                    add_wide(run, t, taps, box, d, offsets, x, y, width, sums);
                    continue;
                }
                const index_t parts = ceil_div(count, 10);
                // A few lines at a time, and a few cache lines of the planes to come.
                for (index_t line = 0; line < lines; line += DOT_LINES) {
                    const index_t few = least(DOT_LINES, lines - line);
                    fine_ahead.go_on<READS>(fine_pace);
                    coarse_ahead.go_on<READS>(coarse_pace);
                    for (index_t i = 0; i < parts; ++i) {
                        const index_t first = count * i / parts, last = count * (i + 1) / parts;
                        if (in_place)
                            as_stored(run.coarse.tensor->data, last - first, few, cells, at + line * cs[3], cs[3],
                                      x + line * t.pitch, t.pitch, offsets + first, sums + first * 8);
                        else
                            dot_some<LOAD_F32>(y, last - first, few, most(8, cells), line * width, width,
                                               x + line * t.pitch, t.pitch, offsets + first, sums + first * 8);
                    }
                }
            }
        }
    }
    for (index_t c = 0; c < channels; ++c) {
        const float* sums = all_sums + c * plan.sum_floats;
        float* window = windows + c * next_window;
        if (plan.wide) {
            for (index_t i = 0; i < taps[0].count * taps[1].count; ++i)
                for (index_t x = 0; x < taps[2].count; ++x)
                    window[i * taps[2].count + x] =
                        sums[(i / taps[1].count * wide_sum_rows(taps) + i % taps[1].count) * wide_sums_row(taps) + x];
            continue;
        }
        // Coarse values read in place were not looked at: one that is not finite shows in the sums.
        for (index_t i = 0; i < count; ++i) {
            window[i] = sum8(load8(sums + 8 * i));
            finite &= window[i] - window[i] == 0;
        }
    }
    if (run.bias != nullptr) run.bias->store(channel, bias_sum.total);
    // Zero lanes stand for nothing only next to finite numbers.
    if (!finite || !report.finite) raise_flag(&run.broken);
}

// Whether tasks that sum weights see every coarse plane of a channel once, in order: they sum the bias as well then.
static bool sums_bias(const DepthwiseWeightPlan& plan, const cg_problem& p) {
    return p.bias.data != nullptr && p.bias_source == 0 && plan.partials == 1 && plan.group_count == 1 &&
           plan.channels_at_once == 1 && plan.blocks.total == plan.blocks.count[0] && plan_bias(p).joined;
}

static int run_depthwise_weight(const cg_problem& p, int threads) {
    DepthwiseWeightPlan plan;
    plan_depthwise_weight(p, &plan);
    const BiasRun bias(p);
    const bool whole_planes = plan.blocks.total == plan.blocks.count[0];
    DepthwiseWeightRun run{p, plan, make_source(p.fine_operand), make_source(p.coarse_operand), make_target(p.to_weight),
                           sums_bias(plan, p) ? &bias : nullptr,
                           whole_planes && is_far(p.fine_operand, p.batch * p.groups, p.fine)};
    const index_t windows = p.groups * plan.group_count, channel_parts = ceil_div(p.groups, plan.channels_at_once);
    if (plan.partials > 1) {
        run.partial_sums = (float*)shared_scratch(plan.shared_bytes);
        if (run.partial_sums == nullptr) return CG_OUT_OF_MEMORY;
    }
    auto body = [&](index_t task, char* scratch) {
        const index_t number = task % plan.group_count, partial = task / plan.group_count / channel_parts;
        const index_t channel = task / plan.group_count % channel_parts * plan.channels_at_once;
        const index_t channels = least(plan.channels_at_once, p.groups - channel);
        if (plan.partials > 1) {
            float* to = run.partial_sums + (partial * windows + channel * plan.group_count + number) * plan.most_taps;
            return depthwise_weight_task(run, channel, channels, number, partial, scratch, to,
                                         plan.group_count * plan.most_taps);
        }
        AxisTaps taps[3];
        tap_group(plan.taps, plan.tap_groups, number, taps);
        float* sums = (float*)(scratch + plan.task_bytes) - (plan.most_taps * plan.channels_at_once + 16);
        depthwise_weight_task(run, channel, channels, number, 0, scratch, sums, plan.most_taps);
        for (index_t c = 0; c < channels; ++c) write_window(run, channel + c, taps, sums + c * plan.most_taps);
    };
    const int status = in_parallel(threads, channel_parts * plan.group_count * plan.partials, plan.task_bytes, body);
    if (status != CG_OK) return status;
    if (is_raised(&run.broken)) return STATUS_REDO_PLAIN;
    for (index_t w = 0; plan.partials > 1 && w < windows; ++w) {
        AxisTaps taps[3];
        tap_group(plan.taps, plan.tap_groups, w % plan.group_count, taps);
        float* first = run.partial_sums + w * plan.most_taps;
        for (index_t part = 1; part < plan.partials; ++part)
            for (index_t i = 0; i < tap_count(taps); ++i) first[i] += first[part * windows * plan.most_taps + i];
        write_window(run, w / plan.group_count, taps, first);
    }
    return CG_OK;
}
