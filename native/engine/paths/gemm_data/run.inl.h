// One pass over the output: its kernels, its K blocks, what its tasks share.
#pragma once

#include "blocking/taps.inl.h"
#include "blocking/tile.inl.h"
#include "numbers/store.inl.h"
#include "paths/gemm_data/kernels.inl.h"
#include "paths/gemm_data/plan.h"

namespace cg {
namespace {

struct GatherKernels {
    GatherKernel one[READINGS][MAX_MR + 1] = {};  // by rows
    GatherKernel several[READINGS] = {};          // whole panels

    template <bool PAIRS> void choose(int mr, int vectors) {
        choose_reading<PACKED_BOTH, PAIRS>(mr, vectors);
        choose_reading<ALL_WEIGHTS, PAIRS>(mr, vectors);
        choose_reading<SOME_WEIGHTS, PAIRS>(mr, vectors);
        choose_reading<WEIGHTS_IN_PLACE, false>(mr, vectors);
    }
    template <int READING, bool PAIRS> void choose_reading(int mr, int vectors) {
        for (int rows = 1; rows <= MAX_MR; ++rows)
            one[READING][rows] = gather_kernel_for<READING, PAIRS>(rows, vectors);
        several[READING] = gather_panels_for<READING, PAIRS>(mr, vectors);
    }
};

struct GatherRun {
    const Gather& g;
    const GatherPass& pass;
    const Source source, weight;
    const Target target;
    bool in_pairs;  // two channels are one bf16 pair of the tile and of the packed weights
    int weight_broken = 0, padding_met = 0;
    int smallest_source = LARGEST_EXPONENT, smallest_weight = LARGEST_EXPONENT;
    float* packed = nullptr;                  // shared packed weights of the current chunks
    bool source_in_place = false;             // 1x1 windows over contiguous float32: the source is its own tile
    index_t first_chunk = 0, chunks = 0;      // current
    GatherKernels kernels{}, last_kernels{};  // the latter of a single vector, for the last columns of a line

    index_t panel() const { return index_t(pass.nr_vectors) * LANES; }
    index_t k_blocks() const { return tap_group_count() * ceil_div(g.in_channels, pass.channel_block); }
    index_t tap_group_count() const { return pass.tap_groups[0] * pass.tap_groups[1] * pass.tap_groups[2]; }
};

// A K block: a box of the window and a range of reduced channels.
struct KBlock {
    index_t group[3], begin, end;
};

static KBlock k_block(const GatherRun& run, index_t number) {
    const index_t channel_blocks = ceil_div(run.g.in_channels, run.pass.channel_block);
    KBlock k;
    k.begin = number % channel_blocks * run.pass.channel_block;
    k.end = min(run.g.in_channels, k.begin + run.pass.channel_block);
    index_t group = number / channel_blocks;
    for (int a = 2; a >= 0; --a) {
        k.group[a] = group % run.pass.tap_groups[a];
        group /= run.pass.tap_groups[a];
    }
    return k;
}

static INLINE void class_taps(const GatherPass& pass, const KBlock& k, int number, AxisTaps taps[3]) {
    for (int a = 2; a >= 0; --a) {
        const AxisTaps& all = pass.classes.axis[a][number % pass.classes.per[a]].taps;
        taps[a] = pass.classes.count > 1 ? all : group_taps(all, pass.tap_groups[a], k.group[a]);
        number /= pass.classes.per[a];
    }
}

// Where the tile of a K block begins: at the smallest offset of its taps, over all classes.
static void place_tile(const GatherPass& pass, const Gather& g, const KBlock& k, Tile* t) {
    for (int a = 0; a < 3; ++a) {
        bool any = false;
        t->axis[a] = TileAxis{g.source_step[a], 0, 0, 1, 0, 1};
        for (int c = 0; c < pass.classes.per[a]; ++c) {
            const AxisTaps& all = pass.classes.axis[a][c].taps;
            const AxisTaps taps = pass.classes.count > 1 ? all : group_taps(all, pass.tap_groups[a], k.group[a]);
            if (taps.count == 0) continue;
            const TileAxis one = tile_axis(taps, g.source_step[a]);
            if (any) t->axis[a].low = min(t->axis[a].low, one.low);
            else t->axis[a] = one;
            any = true;
        }
    }
}

// Floats per row of the packed weights before K block `number`.
static index_t packed_before(const GatherRun& run, index_t number) {
    index_t before = 0;
    const index_t channel_blocks = ceil_div(run.g.in_channels, run.pass.channel_block);
    for (index_t group = 0; group <= number / channel_blocks; ++group) {
        const KBlock k = k_block(run, group * channel_blocks);
        index_t taps = 0;
        for (int c = 0; c < run.pass.classes.count; ++c) {
            AxisTaps t[3];
            class_taps(run.pass, k, c, t);
            taps += tap_count(t);
        }
        before += taps * (group < number / channel_blocks ? run.g.in_channels
                                                          : number % channel_blocks * run.pass.channel_block);
    }
    return before;
}

}  // namespace
}  // namespace cg
