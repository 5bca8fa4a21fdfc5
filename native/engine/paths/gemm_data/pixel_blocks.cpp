// Blocks of pixels: the cheapest size by padded columns, halo and balance between threads.
#include "paths/gemm_data/plan_parts.h"
#include "blocking/blocking_numbers.h"
#include "paths.h"

namespace cg {

index_t block_columns(const GatherPass& pass, const Blocks& b, const Spread spread[3], index_t panel) {
    if (!pass.direct) return round_up(b.per[0] * b.per[1] * b.per[2] * b.per[3], panel);
    if (pass.side_by_side) return b.per[1] * b.per[2] * round_up(b.per[3] * b.per[0], panel / pass.nr_vectors);
    const index_t pitch = b.per[3] + spread[2].span - (b.per[3] == b.extent[3] ? pass.shared_columns : 0);
    return b.per[0] * b.per[1] * round_up((b.per[2] - 1) * pitch + b.per[3], panel);
}

// About how many pixels a block should have, before the number of threads is taken into account.
index_t pixels_wanted(const Gather& g, const ClassSet& classes, int path) {
    if (path == PATH_DEPTHWISE_ROWS) return DEPTHWISE_PIXELS;
    if (path != PATH_GEMM_PACKED)
        return clamp(65536 / (min(g.out_channels, 256) * classes.count), 256 / classes.count, 1024);
    index_t taps = 1;  // of a class
    for (int a = 0; a < 3; ++a) taps *= max(1, axis_spread(classes, a, 1, g.source_step[a]).taps);
    taps = min(taps, MAX_TAPS);
    const index_t reduced = min(MAX_TAPS, max(1, REDUCTION_BLOCK / taps) * taps);
    return clamp(65536 / max(1, min(reduced, g.in_channels * taps)), 96, 480);
}

// Pixel blocks: enough tasks for the threads, then the cheapest size near the target by padded columns, halo and
// balance.
void choose_blocks(const Gather& g, const index_t extent[4], index_t target, const Spread spread[3], index_t panel,
                   int threads, GatherPass* pass) {
    const ClassSet& set = pass->classes;
    const index_t wanted = 2 * index_t(threads), pr = pass->mr;
    while (target > 2 * panel && make_blocks(extent, target, 16).total * pass->chunks_at_once < wanted &&
           (pass->chunk_rows < 96 || target > 192))
        target = max(2 * panel, target / 2);
    double best = 0;
    const index_t smallest = max(panel, target * 3 / 8);
    for (index_t size = 2 * target, next; size >= smallest || best == 0; size = next) {
        next = size > target ? max(target, size - panel) : size - panel;
        const Blocks b = make_blocks(extent, size, 16);
        if (best != 0 && b.total == pass->blocks.total && b.per[3] == pass->blocks.per[3] &&
            b.per[2] == pass->blocks.per[2])
            continue;
        const double columns = double(block_columns(*pass, b, spread, panel));
        const double tile = double(tile_floats(b, spread));
        const double sums = columns * double(pass->chunk_rows * set.count);
        const bool cuttable = size > target || b.per[0] > 1;  // images are in no order of a sum
        if (cuttable &&
            (sums > double(ACCUMULATOR_FLOATS) || tile * double(pass->channel_block) > 2.0 * double(TILE_FLOATS)))
            continue;
        double cost = columns + 4 + tile * 6.4 / double(max(1, pass->sum_taps * g.out_channels));
        const double tasks = double(b.total) * double(pass->chunks_at_once);
        cost *= tasks < 16.0 * threads ? double(ceil_div(index_t(tasks), threads)) * threads : tasks;
        if (size > target && sums > 65536) cost *= 1.03;  // they leave L2
        if (best == 0 || cost < best * 0.995) {
            best = cost;
            pass->blocks = b;
        }
        if (b.total > 100000) break;
    }
    // Tasks that share a block pack it again each: only where threads would be idle.
    const auto too_few = [&] {
        const index_t tasks = pass->blocks.total * pass->chunks_at_once * pass->row_splits;
        return tasks < wanted && (pass->direct || tasks % threads != 0);
    };
    while (too_few() && pass->row_splits * 2 * pr <= pass->chunk_rows) pass->row_splits *= 2;
}

// Neighbouring depths read the same planes: a block of several copies each of them less often. As many as fit, and
// leave every thread the same number of tasks, and every task as many depths, within 3 %.
void deepen_blocks(const Spread spread[3], index_t panel, int threads, GatherPass* pass) {
    if (!pass->direct || spread[0].span == 0) return;
    for (index_t depths = 2 * pass->blocks.per[1]; depths <= pass->blocks.extent[1]; depths *= 2) {
        Blocks b = pass->blocks;
        b.per[1] = depths;
        b.count[1] = ceil_div(b.extent[1], depths);
        b.total = b.count[0] * b.count[1] * b.count[2] * b.count[3];
        const index_t tasks = b.total * pass->chunks_at_once;
        if (block_columns(*pass, b, spread, panel) * pass->chunk_rows * pass->classes.count > ACCUMULATOR_FLOATS / 2 ||
            tile_floats(b, spread) * pass->channel_block > TILE_FLOATS / 2 || tasks < 8 * threads ||
            round_up(tasks, threads) * 32 > tasks * 33 || b.count[1] * depths * 32 > b.extent[1] * 33)
            return;
        pass->blocks = b;
    }
}

}  // namespace cg
