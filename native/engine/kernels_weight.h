// The weight contraction: C[(f, tap), c] = sum over pixels of fine tile value * coarse value.
//
// Fine values are broadcast straight from the tile (row pointer + pixel offset): no im2col, and strides, dilation or
// three-channel stems are nothing special. Coarse values are packed to [pixel][c].
//
// Where both operands are bfloat16, or have no more bits, every cell is a word with the cell after it, every pixel with
// the pixel after it in its line (nothing after the last), and the sum goes in steps of two pixels. Chains begin where
// such a step does, paired or not: the bits are the same.
#pragma once

// A pixel, or a pair beginning with it: its cell in the tile of the tap at offset 0, and its number among the packed
// coarse values.
struct Pixel {
    int cell, number;
};

// c += fine * coarse for one pixel. The pixel that begins a chain adds what c held to C first, as gather_step does.
template <int MR, int NV, bool PAIRS, bool BEGINS>
static INLINE void weight_step(const float* const (&x)[MR], index_t at, const float* coarse, vf (&c)[MR][NV], float* C,
                               index_t c_row) {
    vf y[NV];
    UNROLL for (int j = 0; j < NV; ++j) y[j] = load(coarse + j * LANES);
    UNROLL for (int i = 0; i < MR; ++i) {
        const vf a = operand<PAIRS>(x[i] + at);
        UNROLL for (int j = 0; j < NV; ++j) {
            float* p = C + i * c_row + j * LANES;
            if (BEGINS) store(p, load(p) + c[i][j]);
            c[i][j] = BEGINS ? multiply<PAIRS>(a, y[j]) : multiply_add<PAIRS>(a, y[j], c[i][j]);
        }
    }
}

// Which pixels a tap is summed over: all of a block in order, or those listed; pairs are always listed.
enum Pixels { ALL_PIXELS, LISTED_PIXELS, LISTED_PAIRS, PIXEL_LISTS };

// MR rows of the result, c_row floats apart, each with its own first cell. Chains end before the steps `chain_end`.
template <int MR, int NV, int PIXELS>
static void weight_kernel(index_t steps, const int* __restrict chain_end, const float* __restrict tile,
                          const int* __restrict row, index_t next_row, const Pixel* __restrict pixel,
                          const float* __restrict coarse, float* __restrict C, index_t c_row) {
    const bool PAIRS = PIXELS == LISTED_PAIRS;
    vf c[MR][NV];
    const float* x[MR];
    UNROLL for (int i = 0; i < MR; ++i) {
        x[i] = tile + row[i * next_row];
        UNROLL for (int j = 0; j < NV; ++j) c[i][j] = vf{};
        UNROLL for (int j = 0; j < NV * LANES; j += 16) __builtin_prefetch(C + i * c_row + j, 1);
    }
    const auto values = [&](index_t k) {
        return coarse + (PIXELS == ALL_PIXELS ? k : index_t(pixel[k].number)) * (NV * LANES);
    };
    index_t k = 0, end = *chain_end;
#pragma GCC unroll 2
    for (; k < end; ++k) weight_step<MR, NV, PAIRS, false>(x, pixel[k].cell, values(k), c, C, c_row);
    while (k < steps) {
        end = *++chain_end;
        weight_step<MR, NV, PAIRS, true>(x, pixel[k].cell, values(k), c, C, c_row);
        ++k;
#pragma GCC unroll 2
        for (; k < end; ++k) weight_step<MR, NV, PAIRS, false>(x, pixel[k].cell, values(k), c, C, c_row);
    }
    UNROLL for (int i = 0; i < MR; ++i)
        UNROLL for (int j = 0; j < NV; ++j) {
            float* p = C + i * c_row + j * LANES;
            store(p, load(p) + c[i][j]);
        }
}

typedef void (*WeightKernel)(index_t, const int*, const float*, const int*, index_t, const Pixel*, const float*, float*,
                             index_t);

template <int PIXELS> static WeightKernel weight_kernel_for(index_t rows, int vectors) {
#define KERNEL(MR, NV) \
    if (rows == MR && vectors == NV) return weight_kernel<MR, NV, PIXELS>;
    KERNEL(1, 1) KERNEL(2, 1) KERNEL(3, 1) KERNEL(4, 1) KERNEL(5, 1) KERNEL(6, 1) KERNEL(7, 1) KERNEL(8, 1)
    KERNEL(1, 2) KERNEL(2, 2) KERNEL(3, 2) KERNEL(4, 2) KERNEL(5, 2) KERNEL(6, 2) KERNEL(7, 2) KERNEL(8, 2)
#undef KERNEL
    return nullptr;
}

// to = panels of [pixel][panel channels], zero beyond `channels`. Says whether all values were finite.
static bool pack_coarse(const Source& s, const Box& box, index_t channel, index_t channels, index_t panel,
                        index_t pixels, float* to) {
    const index_t* st = s.tensor->stride;
    const index_t cells = box.end[3] - box.begin[3], lines = box.end[2] - box.begin[2];
    const bool along = st[4] == 1;  // pixels of a line lie side by side
    // Whole contiguous planes are one long row.
    const bool joined = st[3] == cells * st[4];
    const index_t runs = joined ? 1 : lines, length = joined ? lines * cells : cells;
    // Channels side by side: a few pixels at a time go to every panel while their cache lines are at hand.
    const index_t at_once = channels_touch(*s.tensor) ? 16 : most(1, length);
    if (channels % panel != 0) zero(to + channels / panel * panel * pixels, pixels * panel);
    bool finite = true;
    float* out = to;
    for (index_t n = box.begin[0]; n < box.end[0]; ++n)
        for (index_t d = box.begin[1]; d < box.end[1]; ++d)
            for (index_t r = 0; r < runs; ++r, out += length * panel) {
                const index_t line = n * st[0] + channel * st[1] + d * st[2] + (box.begin[2] + r) * st[3] +
                                     box.begin[3] * st[4];
                for (index_t i = 0; i < length; i += at_once)
                    for (index_t c = 0; c < channels; c += panel) {
                        const index_t have = least(panel, channels - c), count = least(at_once, length - i);
                        const index_t from = line + c * st[1] + i * st[4];
                        float* first = out + c * pixels + i * panel;
                        finite &= along ? s.transposed(s, from, have, st[1], count, first, panel)
                                        : s.rows(s, from, count, st[4], have, st[1], first, panel);
                    }
            }
    return finite;
}

// Pixels become words with the one after them in their line of `cells`: every one, or every second of a line.
static void pair_pixels(index_t pixels, index_t cells, index_t panel, bool every, float* values, PairCheck* check) {
    PairCheck seen = *check;
    for (index_t j = 0; j < panel; j += LANES)
        for (index_t begin = 0; begin < pixels; begin += cells) {
            float* line = values + begin * panel + j;
            vf next = load(line);
            for (index_t c = 0; c < cells; ++c) {
                const vf here = next;
                next = c + 1 < cells ? load(line + (c + 1) * panel) : vf{};
                seen.see((uf)here);
                if (every || c % 2 == 0) store(line + c * panel, pair_of(here, next));
            }
        }
    *check = seen;
}

struct WeightRun {
    const cg_problem& p;
    const WeightPlan& plan;
    const Source fine, coarse;
    const Target target;
    index_t taps, panel;
    bool fine_in_place;  // float32 without padding is broadcast from where it lies
    bool in_pairs;       // two pixels are one word of the tile and of the packed coarse values
    bool asks_for_fine, asks_for_coarse;  // before they are copied
    const BiasRun& bias;
    float* partial_sums = nullptr;
    double* bias_sums = nullptr;  // [run of pixels][coarse channel]
    int fine_broken = 0, coarse_broken = 0, padding_met = 0;
    int smallest_fine = LARGEST_EXPONENT, smallest_coarse = LARGEST_EXPONENT;
    WeightKernel kernel[PIXEL_LISTS][MOST_PANEL_ROWS + 1] = {};  // by rows
};

// Part `number` of a window cut into groups of taps.
static INLINE void tap_group(const AxisTaps all[3], const index_t groups[3], index_t number, AxisTaps taps[3]) {
    for (int a = 2; a >= 0; --a) {
        taps[a] = group_taps(all[a], groups[a], number % groups[a]);
        number /= groups[a];
    }
}

static index_t taps_before(const WeightRun& run, index_t number) {
    index_t before = 0;
    for (index_t i = 0; i < number; ++i) {
        AxisTaps taps[3];
        tap_group(run.plan.taps, run.plan.tap_groups, i, taps);
        before += tap_count(taps);
    }
    return before;
}

// to[c*to_row + r] = from[r*panel + c]
static void turn_panel(const float* from, index_t panel, index_t rows, float* to, index_t to_row) {
    index_t r = 0;
    if (panel % 8 == 0)
        for (; r + 8 <= rows; r += 8)
            for (index_t c = 0; c < panel; c += 8) {
                v8 v[8];
                UNROLL for (int k = 0; k < 8; ++k) v[k] = load8(from + (r + k) * panel + c);
                transpose8(v);
                UNROLL for (int k = 0; k < 8; ++k) store8(to + (c + k) * to_row + r, v[k]);
            }
    for (; r < rows; ++r)
        for (index_t c = 0; c < panel; ++c) to[c * to_row + r] = from[r * panel + c];
}

// Whether the taps of a window follow each other in memory; the stride of a single tap means nothing.
static bool dense_window(const cg_problem& p) {
    index_t next = 1;
    for (int a = 2; a >= 0; --a) {
        if (p.window[a] > 1 && p.to_weight.stride[a + 2] != next) return false;
        next *= p.window[a];
    }
    return true;
}

// Where a tap of the window is in a weight tensor of these strides, from the first one.
static index_t tap_place(const cg_problem& p, index_t tap, const index_t* st) {
    const index_t x = tap % p.window[2], y = tap / p.window[2] % p.window[1];
    return tap / (p.window[2] * p.window[1]) * st[2] + y * st[3] + x * st[4];
}

// Rows (f, tap) x one panel of coarse channels, written to the weight tensor.
static void write_weights(const WeightRun& run, index_t group, const AxisTaps taps[3], index_t fine,
                          index_t channels, index_t panel_number, const float* sums) {
    const Target& t = run.target;
    const index_t* st = t.tensor->stride;
    const index_t first = panel_number * run.panel;
    const index_t have = least(run.panel, run.p.coarse_channels - first);
    const index_t count = tap_count(taps);
    const index_t base = (group * run.p.coarse_channels + first) * st[0] + fine * st[1];
    // A dense window is one run of taps; several fine channels too when they follow each other.
    const bool dense = count == run.taps && dense_window(run.p);
    const index_t run_channels = dense && st[1] == count ? channels : 1;
    enum { LINE = 256 };
    float line[32 * LINE];
    for (index_t f = 0; f < channels; f += run_channels) {
        const index_t rows = run_channels * count;
        for (index_t begin = 0; begin < rows; begin += LINE) {
            const index_t length = least(LINE, rows - begin);
            const float* from = sums + (f * count + begin) * run.panel;
            if (dense) {
                turn_panel(from, run.panel, length, line, LINE);
                t.rows(t, base + f * st[1] + begin, have, st[0], length, 1, line, LINE);
            } else {
                for (index_t r = 0; r < length; ++r) {
                    const index_t tap = begin + r;
                    const index_t x = tap % taps[2].count, y = tap / taps[2].count % taps[1].count,
                                  z = tap / (taps[2].count * taps[1].count);
                    const index_t at = base + f * st[1] + (taps[0].first_tap + z) * st[2] +
                                       (taps[1].first_tap + y) * st[3] + (taps[2].first_tap + x) * st[4];
                    t.rows(t, at, 1, 0, have, st[0], from + r * run.panel, 0);
                }
            }
        }
    }
}

// Without padding, float32 needs no copy: any strides will do for a broadcast. Planes a multiple of a page apart, or
// cells with a round number of channels, would fight for the same cache sets.
static bool fine_is_tile(const cg_problem& p, const WeightPlan& plan) {
    const index_t* st = p.fine_operand.stride;
    double reach = double(plan.blocks.per[0]) * double(magnitude(st[0])) +
                   double(plan.tile_channels) * double(magnitude(st[1]));
    for (int a = 0; a < 3; ++a) {
        const index_t last = (p.coarse[a] - 1) * p.stride[a] + (p.window[a] - 1) * p.dilation[a] - p.pad[a];
        if (p.pad[a] > 0 || last >= p.fine[a]) return false;
        reach += double(p.fine[a]) * double(magnitude(st[a + 2]));
    }
    return load_kind(p.fine_operand) == LOAD_F32 && plan.group_count == 1 && p.stride[2] == 1 &&
           reach < double(1 << 30) && (st[1] % 1024 != 0 || st[1] == 0) && (st[4] % 32 != 0 || st[4] == 0);
}

// The steps of a sum over pixels, line by line: single pixels or pairs, and where its chains end.
struct PixelLister {
    Pixel* at;
    int* chain_end;
    index_t chain;
    bool in_pairs;
    index_t in_chain = 0;
    int steps = 0;

    INLINE void line(index_t cell, index_t column, index_t number, index_t count) {
        for (index_t c = 0; c < count; c += 2) {
            const index_t together = least(2, count - c);
            if (in_chain > 0 && in_chain + together > chain) {
                *chain_end++ = steps;
                in_chain = 0;
            }
            in_chain += together;
            for (index_t i = 0; i < (in_pairs ? 1 : together); ++i)
                at[steps++] = Pixel{int(cell + (c + i) * column), int(number + c + i)};
        }
    }
    int end() {
        *chain_end = steps;
        return steps;
    }
};

static int list_pixels(const Box& box, const Tile& t, PixelLister list) {
    const index_t cells = box.end[3] - box.begin[3];
    index_t number = 0;
    for (index_t n = 0; n < box.end[0] - box.begin[0]; ++n)
        for (index_t d = 0; d < box.end[1] - box.begin[1]; ++d)
            for (index_t r = 0; r < box.end[2] - box.begin[2]; ++r, number += cells)
                list.line(n * t.unit + d * t.plane + r * t.pitch, t.column, number, cells);
    return list.end();
}

// For every tap the pixels from which it meets the source: pixel o reads source cell stride*o + offset.
static void list_by_tap(const WeightRun& run, const Box& box, const Tile& t, const AxisTaps taps[3], index_t pixels,
                        Pixel* pixel, int* chain_end, int* listed) {
    index_t size[4], tap = 0;
    for (int a = 0; a < 4; ++a) size[a] = box.end[a] - box.begin[a];
    for (index_t z = 0; z < taps[0].count; ++z)
        for (index_t y = 0; y < taps[1].count; ++y)
            for (index_t x = 0; x < taps[2].count; ++x, ++tap) {
                const index_t at[3] = {z, y, x};
                index_t from[3], to[3];  // pixels of the block
                for (int a = 0; a < 3; ++a) {
                    const index_t stride = run.p.stride[a];
                    const index_t first = stride * box.begin[a + 1] + taps[a].first_offset + at[a] * taps[a].offset_step;
                    from[a] = first >= 0 ? 0 : least(size[a + 1], ceil_div(-first, stride));
                    to[a] = run.p.fine[a] <= first ? 0 : least(size[a + 1], ceil_div(run.p.fine[a] - first, stride));
                }
                PixelLister list{pixel + tap * pixels, chain_end + tap * pixels, run.plan.chain, run.in_pairs};
                for (index_t n = 0; n < size[0]; ++n)
                    for (index_t d = from[0]; d < to[0]; ++d)
                        for (index_t r = from[1]; r < to[1]; ++r)
                            list.line(n * t.unit + d * t.plane + r * t.pitch + from[2] * t.column, t.column,
                                      ((n * size[1] + d) * size[2] + r) * size[3] + from[2], to[2] - from[2]);
                listed[tap] = list.end();
            }
}

// Adds the lines of a block to the sums of channels [begin, end).
static void add_bias(const BiasRun& bias, const Box& box, index_t begin, index_t end, double* sums) {
    const index_t* st = bias.stored.stride;
    const index_t cells = box.end[3] - box.begin[3], lines = box.end[2] - box.begin[2];
    const bool joined = st[3] == cells;
    for (index_t c = begin; c < end; ++c)
        for (index_t n = box.begin[0]; n < box.end[0]; ++n)
            for (index_t d = box.begin[1]; d < box.end[1]; ++d) {
                const index_t at = n * st[0] + c * st[1] + d * st[2] + box.begin[2] * st[3] + box.begin[3];
                for (index_t r = 0; r < (joined ? 1 : lines); ++r)
                    sums[c] += line_sum_any(bias.source, at + r * st[3], joined ? lines * cells : cells, 1);
            }
}

// Adds the sums of `partials` runs of pixels in their order.
static void store_bias(const BiasRun& bias, const double* sums, index_t partials) {
    const index_t channels = bias.p.groups * bias.p.coarse_channels;
    for (index_t c = 0; c < channels; ++c) {
        double total = sums[c];
        for (index_t s = 1; s < partials; ++s) total += sums[s * channels + c];
        bias.store(c, total);
    }
}

// sums[c] += values[k][c] for all k: pixels by twos, so that one addition need not wait for the other.
template <int WIDTH> static void add_pixels(const float* values, index_t pixels, double* sums) {
    double even[WIDTH] = {}, odd[WIDTH] = {};
    index_t k = 0;
    for (; k + 2 <= pixels; k += 2) {
        UNROLL for (int c = 0; c < WIDTH; ++c) even[c] += values[k * WIDTH + c];
        UNROLL for (int c = 0; c < WIDTH; ++c) odd[c] += values[(k + 1) * WIDTH + c];
    }
    for (int c = 0; c < WIDTH; ++c) sums[c] += even[c] + odd[c] + (k < pixels ? values[k * WIDTH + c] : 0);
}

// The same from packed values of one panel, [pixel][channel].
static void add_packed_bias(index_t panel, index_t pixels, const float* values, index_t begin, index_t end,
                            double* sums) {
    double total[2 * LANES] = {};
    if (panel == LANES) add_pixels<LANES>(values, pixels, total);
    else add_pixels<2 * LANES>(values, pixels, total);
    for (index_t c = begin; c < end; ++c) sums[c] += total[c - begin];
}
