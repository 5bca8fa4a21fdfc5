// Images side by side in the tile: small planes, or rows that fill whole vectors.
#include "paths/gemm_data/plan_parts.h"
#include "blocking/blocking_numbers.h"

namespace cg {
namespace {

// Padded columns times the taps they meet: what the classes of one axis cost with `images` side by side (columns) or
// with one image (rows, depths). The first cells of a long axis stand for all.
index_t reached(const ClassSet& set, const Gather& g, int axis, index_t images) {
    index_t sum = 0;
    const index_t cells_at_once = axis == 2 ? 16 : images;
    for (int c = 0; c < set.per[axis]; ++c) {
        const AxisClass& one = set.axis[axis][c];
        for (index_t i = 0; i < min(one.cells, 4096) * images; i += cells_at_once) {
            const index_t last = min(one.cells - 1, (i + cells_at_once - 1) / images);
            const TapRange in = reaching_taps(one.taps, g.source_step[axis], g.source_extent[axis], i / images, last);
            sum += (in.end - in.begin) * cells_at_once;
        }
    }
    return sum;
}

// What copying a cell into the tile costs, in multiplications of one row with one channel; and of a result of images
// side by side back to its place, in multiplications of its row.
double copy_price(index_t images) { return images > 1 ? 40 : 16; }
const double RESULT_PRICE = 10;

}  // namespace

// Images side by side: as many as waste the fewest columns and are not worth less than their copies cost (one alone
// when its rows fill whole vectors), then as many whole rows as the accumulators hold.
Blocks image_blocks(const ClassSet& set, const Gather& g, const index_t extent[4]) {
    const index_t target = clamp((128 << 10) / (min(g.out_channels, 256) * set.count), 512 / set.count, 1024);
    const index_t cells = even_part(extent[3], 256, 1);
    double taps = double(g.out_channels);  // multiplications of a column with the other axes' taps
    for (int a = 0; a < 2; ++a) taps *= double(reached(set, g, a, 1)) / double(max(1, extent[a + 1]));
    index_t images = 0;
    double best = 0;
    for (index_t at_once = 1; at_once <= 32; at_once *= at_once == 1 ? 4 : 2) {
        if (at_once == 1 && (extent[3] % 16 != 0 || cells < extent[3])) continue;
        const index_t part = even_part(g.batch, at_once, min(at_once, 8));
        const double columns = double(reached(set, g, 2, part)) / double(part) * double(ceil_div(g.batch, part) * part);
        const double cost = columns * taps + copy_price(part) * double(g.batch) * double(extent[3]);
        if (images == 0 || cost < best) {
            images = part;
            best = cost;
        }
    }
    Blocks b;
    for (int a = 0; a < 4; ++a) b.extent[a] = extent[a];
    b.per[0] = min(images, extent[0]);
    b.per[3] = cells;
    b.per[2] = even_part(extent[2], max(1, target / (b.per[0] * cells)), 1);
    b.per[1] = b.per[2] < extent[2] ? 1 : even_part(extent[1], max(1, target / (b.per[0] * cells * b.per[2])), 1);
    b.total = 1;
    for (int a = 0; a < 4; ++a) {
        b.count[a] = ceil_div(extent[a], b.per[a]);
        b.total *= b.count[a];
    }
    return b;
}

// How many lines of images side by side a task takes, and how many tasks share the rows of a chunk: what lets `threads`
// finish together soonest, copies into the tile included (see images_beat_packing for their price).
void share_lines(const Spread spread[3], index_t panel, int threads, GatherPass* pass) {
    const Blocks nominal = pass->blocks;
    const index_t line = round_up(nominal.per[3] * nominal.per[0], panel / pass->nr_vectors);
    const index_t held = pass->chunk_rows * line * nominal.per[1] * pass->classes.count;
    const index_t tile_line = tile_floats(nominal, spread) / max(1, nominal.per[2] + spread[1].span);
    double best = 0;
    for (index_t lines = 1; lines <= nominal.extent[2]; ++lines) {
        const bool whole = lines == nominal.extent[2];
        if (lines > 1 && (lines * held > ACCUMULATOR_FLOATS ||
                          pass->channel_block * tile_line * (lines + spread[1].span) > 2 * TILE_FLOATS))
            break;
        if (nominal.per[1] > 1 && !whole) continue;  // several depths only with all of their lines
        Blocks b = nominal;
        b.per[2] = lines;
        b.count[2] = ceil_div(b.extent[2], lines);
        b.total = b.count[0] * b.count[1] * b.count[2] * b.count[3];
        for (index_t splits = 1; splits * pass->mr <= pass->chunk_rows && splits <= 4; splits *= 2) {
            const double tasks = double(b.total) * double(pass->chunks_at_once) * double(splits);
            const index_t rows = round_up(ceil_div(pass->chunk_rows, splits), pass->mr);
            const double multiplied = double(lines * line * nominal.per[1]) * double(pass->sum_taps) * double(rows);
            double cost = multiplied + copy_price(nominal.per[0]) * double(tile_line * (lines + spread[1].span));
            if (lines * held > ACCUMULATOR_FLOATS / 2) cost *= 1.03;  // the sums leave L2
            cost *= tasks < 8.0 * threads ? double(ceil_div(index_t(tasks), threads)) : tasks / threads + 0.5;
            if (best == 0 || cost < best * 0.995) {
                best = cost;
                pass->blocks = b;
                pass->row_splits = splits;
            }
        }
    }
}

// Counted in multiplications of one row with one channel: packing costs about as much as six more
// rows, copying a cell as copy_price says. In return only the taps that meet the source count.
bool images_beat_packing(const cg_problem& p, bool to_fine, const VectorCosts& costs) {
    const Gather g = make_gather(p, to_fine);
    PassList list;
    index_t extent[4] = {g.batch, 0, 0, 0};
    for (int a = 0; a < 3; ++a) {
        if ((to_fine && p.stride[a] > 4) || g.out[a] > 256 || p.window[a] > 64) return false;
        list.merged[a] = to_fine;
        list.count[a] = 1;
    }
    if (g.out_channels < 16) return false;
    ClassSet set;
    fill_classes(g, p, to_fine, list, 0, &set);
    double packed = double(g.batch), met = 1, tile = 1, cells = double(g.batch);
    for (int a = 0; a < 3; ++a) {
        index_t taps = 0;
        for (int c = 0; c < set.per[a]; ++c) {
            extent[a + 1] = max(extent[a + 1], set.axis[a][c].cells);
            taps += set.axis[a][c].cells * set.axis[a][c].taps.count;
        }
        packed *= double(taps);
    }
    const Blocks b = image_blocks(set, g, extent);
    if (g.batch < 4 && b.per[0] > 1) return false;
    for (int a = 0; a < 3; ++a) {
        const Spread spread = axis_spread(set, a, 1, g.source_step[a]);
        met *= double(reached(set, g, a, a == 2 ? b.per[0] : 1));
        tile *= double(spread.slots * (b.per[a + 1] + spread.span) * b.count[a + 1]);
        cells *= double(spread.slots * (extent[a + 1] + spread.span));
    }
    const double rows = double(g.out_channels), at_once = double(b.per[0]);
    const bool reads = reading_beats_packing(p, to_fine, costs);
    const index_t pitch = extent[3] + axis_spread(set, 2, 1, g.source_step[2]).span;
    const double padded = double(round_up(extent[2] * pitch, 16)) / double(extent[2] * extent[3]);
    const double otherwise = packed * (reads ? padded * rows : (rows + 6) * costs.packed) + 16 * costs.speed * cells;
    // On wide vectors copies weigh more: those of the results too, which are taken apart again.
    double results = 0;
    if (costs.speed > 1 && b.per[0] > 1) {
        results = rows * RESULT_PRICE * double(g.batch) / double(max(1, g.in_channels));
        for (int a = 0; a < 3; ++a) results *= double(g.out[a]);
    }
    const double copies = copy_price(b.per[0]) * tile * at_once * double(b.count[0]) + results;
    return double(b.count[0]) * met * rows * costs.images + costs.speed * copies < otherwise;
}

}  // namespace cg
