// What the tasks of a weight contraction share; their pixels and results.
#pragma once

#include "blocking/taps.inl.h"
#include "blocking/tile.inl.h"
#include "blocking/weight_window.inl.h"
#include "numbers/store.inl.h"
#include "paths/bias/kernels.inl.h"
#include "paths/gemm_weight/kernels.inl.h"
#include "paths/gemm_weight/plan.h"

namespace cg {
namespace {

struct WeightRun {
    const cg_problem& p;
    const WeightPlan& plan;
    const Source fine, coarse;
    const Target target;
    index_t taps, panel;
    bool fine_in_place;  // float32 without padding is broadcast from where it lies
    bool in_pairs;       // two pixels are one bf16 pair of the tile and of the packed coarse values
    bool prefetches_fine, prefetches_coarse;  // before they are copied
    const BiasRun& bias;
    float* partial_sums = nullptr;
    double* bias_sums = nullptr;  // [run of pixels][coarse channel]
    int fine_broken = 0, coarse_broken = 0, padding_met = 0;
    int smallest_fine = LARGEST_EXPONENT, smallest_coarse = LARGEST_EXPONENT;
    WeightKernel kernel[PIXEL_LISTS][MAX_MR + 1] = {};       // by rows
    WeightKernel last_kernel[PIXEL_LISTS][MAX_MR + 1] = {};  // of the last panel of a group
};

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
static void transpose_panel(const float* from, index_t panel, index_t rows, float* to, index_t to_row) {
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

// Rows (f, tap) x one panel of coarse channels, written to the weight tensor.
static void write_weights(const WeightRun& run, index_t group, const AxisTaps taps[3], index_t fine, index_t channels,
                          index_t panel_number, const float* sums) {
    const Target& t = run.target;
    const index_t* st = t.tensor->stride;
    const index_t first = panel_number * run.panel;
    const index_t have = min(run.panel, run.p.coarse_channels - first);
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
            const index_t length = min(LINE, rows - begin);
            const float* from = sums + (f * count + begin) * run.panel;
            if (dense) {
                transpose_panel(from, run.panel, length, line, LINE);
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

// Without padding, float32 needs no copy: any strides will do for a broadcast. Strides of a multiple of a page,
// or cells with a round number of channels, would fall on the same cache sets.
static bool fine_is_tile(const cg_problem& p, const WeightPlan& plan) {
    const index_t* st = p.fine_operand.stride;
    double reach =
        double(plan.blocks.per[0]) * double(magnitude(st[0])) + double(plan.tile_channels) * double(magnitude(st[1]));
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
            const index_t together = min(2, count - c);
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
                    const index_t first =
                        stride * box.begin[a + 1] + taps[a].first_offset + at[a] * taps[a].offset_step;
                    from[a] = first >= 0 ? 0 : min(size[a + 1], ceil_div(-first, stride));
                    to[a] = run.p.fine[a] <= first ? 0 : min(size[a + 1], ceil_div(run.p.fine[a] - first, stride));
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

}  // namespace
}  // namespace cg
