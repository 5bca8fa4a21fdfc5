// The data contractions: passes over the output, blocks of the reduction, chunks of output channels.
#include "plan_parts.h"

namespace cg {
namespace {

const index_t LOCAL_WEIGHT_FLOATS = 45000;   // weights a task walks through per packed block: 180 KB of L2
const index_t REDUCTION_BLOCK = 240;         // K per block: a panel of 240 x 16 floats stays in L1
const double IN_PLACE_PIXELS = 256;

void fill_classes(const Gather& g, const cg_problem& p, bool to_fine, const PassList& list, index_t number,
                  ClassSet* set) {
    set->count = 1;
    for (int a = 2; a >= 0; --a) {
        const index_t index = number % list.count[a];
        number /= list.count[a];
        set->per[a] = 1;
        if (!to_fine) {
            set->axis[a][0] = AxisClass{coarse_taps(p, a), 0, g.out[a]};
        } else if (list.merged[a]) {
            set->per[a] = int(p.stride[a]);
            for (int r = 0; r < set->per[a]; ++r) set->axis[a][r] = fine_class(p, a, r);
        } else {
            const index_t remainder = (index * p.dilation[a] - p.pad[a]) % p.stride[a];
            set->axis[a][0] = fine_class(p, a, remainder < 0 ? remainder + p.stride[a] : remainder, index);
        }
        set->count *= set->per[a];
    }
}

void choose_register_tile(index_t rows, int lanes, int* panel_rows, int* panel_vectors) {
    if (rows <= 1) { *panel_rows = 1; *panel_vectors = 8; }
    else if (rows == 2) { *panel_rows = 2; *panel_vectors = 6; }
    else if (rows == 3) { *panel_rows = 3; *panel_vectors = 4; }
    else if (rows == 4 || (lanes < 16 && (rows == 8 || (rows <= 64 && rows % 4 == 0 && rows % 6 != 0)))) {
        *panel_rows = 4; *panel_vectors = lanes == 4 ? 2 : 3;  // panels are packed eight columns at a time
    } else { *panel_rows = rows_of_two_vectors(lanes); *panel_vectors = 2; }
}

// Blocks of whole rows have padding on both sides: the right one of a row can be the left one of the next.
index_t shared_columns(const GatherPass& pass, const Gather& g, index_t width) {
    if (!pass.direct || pass.side_by_side || g.source_step[2] != 1 || pass.tap_groups[2] != 1) return 0;
    index_t low = index_t(MOST_TAPS) << 40, high = -low;  // smallest and largest offset of a tap
    for (int c = 0; c < pass.classes.per[2]; ++c) {
        const AxisTaps& taps = pass.classes.axis[2][c].taps;
        if (taps.count == 0) continue;
        const index_t last = taps.first_offset + (taps.count - 1) * taps.offset_step;
        low = least(low, least(taps.first_offset, last));
        high = most(high, most(taps.first_offset, last));
    }
    // A row of the tile begins at cell `low` and ends `high` beyond the last output cell.
    return clamp(least(-low, width + high - g.source_extent[2]), 0, pass.span[2]);
}

index_t block_columns(const GatherPass& pass, const Blocks& b, const Spread spread[3], index_t panel) {
    if (!pass.direct) return round_up(b.per[0] * b.per[1] * b.per[2] * b.per[3], panel);
    if (pass.side_by_side) return b.per[1] * b.per[2] * round_up(b.per[3] * b.per[0], panel / pass.panel_vectors);
    const index_t pitch = b.per[3] + spread[2].span - (b.per[3] == b.extent[3] ? pass.shared_columns : 0);
    return b.per[0] * b.per[1] * round_up((b.per[2] - 1) * pitch + b.per[3], panel);
}

// Padded columns times the taps they meet: what the classes of one axis cost with `images` side by side (columns) or
// with one image (rows, depths). The first cells of a long axis stand for all.
index_t reached(const ClassSet& set, const Gather& g, int axis, index_t images) {
    index_t sum = 0;
    const index_t cells_at_once = axis == 2 ? 16 : images;
    for (int c = 0; c < set.per[axis]; ++c) {
        const AxisClass& one = set.axis[axis][c];
        for (index_t i = 0; i < least(one.cells, 4096) * images; i += cells_at_once) {
            const index_t last = least(one.cells - 1, (i + cells_at_once - 1) / images);
            const TapRange in = reaching_taps(one.taps, g.source_step[axis], g.source_extent[axis], i / images, last);
            sum += (in.end - in.begin) * cells_at_once;
        }
    }
    return sum;
}

// What copying a cell into the tile costs, in multiplications of one row with one channel.
double copy_price(index_t images) { return images > 1 ? 40 : 16; }

// Images side by side: as many as waste the fewest columns and are not worth less than their copies cost (one alone when
// its rows fill whole vectors), then as many whole rows as the accumulators hold.
Blocks image_blocks(const ClassSet& set, const Gather& g, const index_t extent[4]) {
    const index_t target = clamp((128 << 10) / (least(g.rows, 256) * set.count), 512 / set.count, 1024);
    const index_t cells = even_part(extent[3], 256, 1);
    double taps = double(g.rows);  // multiplications of a column with the other axes' taps
    for (int a = 0; a < 2; ++a)
        taps *= double(reached(set, g, a, 1)) / double(most(1, extent[a + 1]));
    index_t images = 0;
    double best = 0;
    for (index_t at_once = 1; at_once <= 32; at_once *= at_once == 1 ? 4 : 2) {
        if (at_once == 1 && (extent[3] % 16 != 0 || cells < extent[3])) continue;
        const index_t part = even_part(g.batch, at_once, least(at_once, 8));
        const double columns = double(reached(set, g, 2, part)) / double(part) * double(ceil_div(g.batch, part) * part);
        const double cost = columns * taps + copy_price(part) * double(g.batch) * double(extent[3]);
        if (images == 0 || cost < best) {
            images = part;
            best = cost;
        }
    }
    Blocks b;
    for (int a = 0; a < 4; ++a) b.extent[a] = extent[a];
    b.per[0] = least(images, extent[0]);
    b.per[3] = cells;
    b.per[2] = even_part(extent[2], most(1, target / (b.per[0] * cells)), 1);
    b.per[1] = b.per[2] < extent[2] ? 1 : even_part(extent[1], most(1, target / (b.per[0] * cells * b.per[2])), 1);
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
    const index_t line = round_up(nominal.per[3] * nominal.per[0], panel / pass->panel_vectors);
    const index_t held = pass->chunk_rows * line * nominal.per[1] * pass->classes.count;
    const index_t tile_line = tile_floats(nominal, spread) / most(1, nominal.per[2] + spread[1].span);
    double best = 0;
    for (index_t lines = 1; lines <= nominal.extent[2]; ++lines) {
        const bool whole = lines == nominal.extent[2];
        if (lines > 1 && (lines * held > ACCUMULATOR_FLOATS ||
                          pass->depth_block * tile_line * (lines + spread[1].span) > 2 * TILE_FLOATS))
            break;
        if (nominal.per[1] > 1 && !whole) continue;  // several depths only with all of their lines
        Blocks b = nominal;
        b.per[2] = lines;
        b.count[2] = ceil_div(b.extent[2], lines);
        b.total = b.count[0] * b.count[1] * b.count[2] * b.count[3];
        for (index_t splits = 1; splits * pass->panel_rows <= pass->chunk_rows && splits <= 4; splits *= 2) {
            const double tasks = double(b.total) * double(pass->chunks_at_once) * double(splits);
            const index_t rows = round_up(ceil_div(pass->chunk_rows, splits), pass->panel_rows);
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

// Groups of few channels: as many as fill a cache line, or two where channels lie side by side. Blocks, taps and steps
// are described once for all of them. Fewer where threads would wait or the tile would not fit.
index_t groups_at_once(const Gather& g, const GatherPass& pass, int threads) {
    const bool whole = pass.chunks == 1 && pass.depth_block >= g.depth && pass.row_splits == 1 &&
                       pass.tap_groups[0] * pass.tap_groups[1] * pass.tap_groups[2] == 1;
    if (!whole || !pass.shared_weights || pass.weights_in_place || (pass.paired && g.depth % 2 != 0)) return 1;
    const index_t channels = g.source->stride[1] == 1 || g.target->stride[1] == 1 ? 32 : 16;
    index_t groups = clamp(channels / most(g.rows, g.depth), 1, least(g.groups, pass.chunks_at_once));
    const auto too_many = [&](index_t many) {
        return many * pass.depth_block * pass.tile_channel > TILE_FLOATS ||
               many * pass.chunk_rows * pass.columns * pass.classes.count > ACCUMULATOR_FLOATS ||
               pass.blocks.total * (pass.chunks_at_once / many) < 4 * threads;
    };
    while (groups > 1 && too_many(groups)) groups /= 2;
    return groups;
}

// About how many pixels a block should have, before threads are looked at.
index_t pixels_wanted(const Gather& g, const GatherPass& pass, int path) {
    const int classes = pass.classes.count;
    if (path == PATH_DEPTHWISE_ROWS) return 2048;
    if (pass.direct) return clamp(65536 / (least(g.rows, 256) * classes), 256 / classes, 1024);
    index_t taps = 1;  // of a class
    for (int a = 0; a < 3; ++a) taps *= most(1, axis_spread(pass.classes, a, 1, g.source_step[a]).taps);
    taps = least(taps, MOST_TAPS);
    const index_t reduced = least(MOST_TAPS, most(1, REDUCTION_BLOCK / taps) * taps);
    return clamp(65536 / most(1, least(reduced, g.depth * taps)), 96, 480);
}

// Tap groups, K blocks and chains, from nominal blocks that follow from the problem alone. False where classes that
// share a tile do not fit.
bool plan_reduction(const Gather& g, const Blocks& nominal, Spread spread[3], GatherPass* pass) {
    const ClassSet& set = pass->classes;
    for (int a = 0; a < 3; ++a) pass->tap_groups[a] = 1;
    if (!cut_window(set, g.source_step, nominal, TILE_FLOATS, MOST_TAPS, pass->tap_groups, spread)) return false;
    pass->most_taps = 1;
    for (int a = 0; a < 3; ++a) {
        pass->most_taps *= spread[a].taps;
        pass->span[a] = spread[a].span;
        pass->slots[a] = spread[a].slots;
    }
    pass->shared_columns = shared_columns(*pass, g, nominal.extent[3]);
    index_t all_taps = 0;
    for (int z = 0; z < set.per[0]; ++z)
        for (int y = 0; y < set.per[1]; ++y)
            for (int x = 0; x < set.per[2]; ++x)
                all_taps += set.axis[0][z].taps.count * set.axis[1][y].taps.count * set.axis[2][x].taps.count;
    pass->sum_taps = set.count > 1 ? all_taps : pass->most_taps;
    pass->reduction = g.depth * all_taps;
    index_t depth = clamp(REDUCTION_BLOCK / most(1, pass->most_taps), 1, g.depth);
    depth = clamp(TILE_FLOATS / most(1, tile_floats(nominal, spread)), 1, depth);
    pass->depth_block = ceil_div(g.depth, ceil_div(g.depth, depth));
    // Up to three rows are not cut: that would cost a sixth of the time. A small reduction of few rows is mostly copying
    // and can afford short chains.
    const bool brief = g.rows <= 8 && g.depth * pass->most_taps <= CHAIN;
    pass->chain = g.rows <= 3 || outweighs_chains(*g.target) ? index_t(MOST_TAPS) : index_t(brief ? SHORT_CHAIN : CHAIN);
    pass->paired = pass->depth_block > 1 && 2 * pass->most_taps <= pass->chain;
    if (pass->paired) {
        pass->depth_block = round_up(pass->depth_block, 2);
        if (pass->depth_block * pass->most_taps > MOST_TAPS) pass->depth_block -= 2;
    }
    return true;
}

// One channel at a time; tasks take as many as make them worth handing out.
void plan_depthwise_rows(const Gather& g, const Blocks& nominal, const Spread spread[3], GatherPass* pass) {
    const ClassSet& set = pass->classes;
    const index_t all_taps = pass->reduction / most(1, g.depth), taps = most(1, pass->sum_taps);
    pass->blocks = nominal;
    pass->tile_channel = tile_floats(nominal, spread);
    pass->columns = nominal.per[0] * nominal.per[1] * nominal.per[2] * round_up(nominal.per[3], 8);
    pass->chunks = 1;
    pass->chunk_rows = clamp(400000 / most(1, pass->columns * all_taps), 1, g.groups);
    pass->row_splits = 1;
    pass->shared_weights = true;
    pass->chunks_at_once = clamp(SHARED_FLOATS / most(1, pass->reduction), 1, g.groups);
    pass->plane_floats = nominal.per[2] * nominal.per[3] * set.per[2] + 64;
    pass->task_bytes = floats(pass->tile_channel + 64) + floats(pass->columns * set.count) + 3 * floats(taps) +
                       floats(nominal.per[0] * nominal.per[1]) + floats(pass->plane_floats);
    pass->shared_bytes = floats(pass->chunks_at_once * pass->reduction);
}

// Chunks of output channels whose weights are packed together; K x rows beyond the shared memory is packed by each task
// for itself. False where classes that share a tile would need that.
bool plan_chunks(const Gather& g, const cg_problem& p, const Blocks& nominal, const Spread spread[3], index_t panel,
                 GatherPass* pass) {
    const ClassSet& set = pass->classes;
    const index_t pr = pass->panel_rows;
    const index_t nominal_row = nominal.per[3] + (pass->direct && !pass->side_by_side ? spread[2].span : 0);
    const index_t nominal_columns =
        most(panel, nominal.per[0] * nominal.per[1] * round_up(nominal.per[2] * nominal_row, panel));
    index_t chunk = most(pr, ACCUMULATOR_FLOATS / (nominal_columns * set.count) / pr * pr);
    const index_t shareable = SHARED_FLOATS / most(1, pass->reduction) / pr * pr;
    pass->shared_weights = shareable >= least(round_up(g.rows, pr), 4 * pr);
    if (!pass->shared_weights && set.count > 1) return false;
    if (pass->shared_weights) chunk = least(chunk, shareable);
    chunk = least(chunk, round_up(g.rows, pr));
    pass->chunks = ceil_div(g.rows, chunk);
    pass->chunk_rows = round_up(ceil_div(g.rows, pass->chunks), pr);
    pass->chunks = ceil_div(g.rows, pass->chunk_rows);
    const index_t all_chunks = pass->chunks * g.groups;
    pass->chunks_at_once = pass->shared_weights
        ? clamp(SHARED_FLOATS / most(1, pass->chunk_rows * pass->reduction), 1, all_chunks) : all_chunks;

    // Packing a weight costs as much as multiplying it with some dozens of pixels.
    double reach = double(pass->depth_block) * double(magnitude(g.weight_depth)), pixels = double(g.batch);
    for (int a = 0; a < 3; ++a) {
        reach += double(p.window[a]) * double(magnitude(g.weight_tap[a]));
        pixels *= double(nominal.extent[a + 1]);
    }
    pass->weights_in_place = pass->direct && load_kind(*g.weight) == LOAD_F32 && reach < double(1 << 30) &&
                             pixels <= IN_PLACE_PIXELS;
    return true;
}

// Pixel blocks: enough tasks for the threads, then the cheapest size near the target by padded columns, halo and balance.
void choose_blocks(const Gather& g, const index_t extent[4], index_t target, const Spread spread[3], index_t panel,
                   int threads, GatherPass* pass) {
    const ClassSet& set = pass->classes;
    const index_t wanted = 2 * index_t(threads), pr = pass->panel_rows;
    while (target > 2 * panel && make_blocks(extent, target, 16).total * pass->chunks_at_once < wanted &&
           (pass->chunk_rows < 96 || target > 192))
        target = most(2 * panel, target / 2);
    double best = 0;
    const index_t smallest = most(panel, target * 3 / 8);
    for (index_t size = 2 * target, next; size >= smallest || best == 0; size = next) {
        next = size > target ? most(target, size - panel) : size - panel;
        const Blocks b = make_blocks(extent, size, 16);
        if (best != 0 && b.total == pass->blocks.total && b.per[3] == pass->blocks.per[3] &&
            b.per[2] == pass->blocks.per[2])
            continue;
        const double columns = double(block_columns(*pass, b, spread, panel));
        const double tile = double(tile_floats(b, spread));
        const double sums = columns * double(pass->chunk_rows * set.count);
        if (size > target &&
            (sums > double(ACCUMULATOR_FLOATS) || tile * double(pass->depth_block) > 2.0 * double(TILE_FLOATS)))
            continue;
        double cost = columns + 4 + tile * 6.4 / double(most(1, pass->sum_taps * g.rows));
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

// Neighbouring depths read the same planes: a block of several copies each of them less often. As many as fit, and leave
// every thread the same number of tasks, and every task as many depths, within 3 %.
void deepen_blocks(const Spread spread[3], index_t panel, int threads, GatherPass* pass) {
    if (!pass->direct || spread[0].span == 0) return;
    for (index_t depths = 2 * pass->blocks.per[1]; depths <= pass->blocks.extent[1]; depths *= 2) {
        Blocks b = pass->blocks;
        b.per[1] = depths;
        b.count[1] = ceil_div(b.extent[1], depths);
        b.total = b.count[0] * b.count[1] * b.count[2] * b.count[3];
        const index_t tasks = b.total * pass->chunks_at_once;
        if (block_columns(*pass, b, spread, panel) * pass->chunk_rows * pass->classes.count > ACCUMULATOR_FLOATS / 2 ||
            tile_floats(b, spread) * pass->depth_block > TILE_FLOATS / 2 || tasks < 8 * threads ||
            round_up(tasks, threads) * 32 > tasks * 33 || b.count[1] * depths * 32 > b.extent[1] * 33)
            return;
        pass->blocks = b;
    }
}

void count_bytes(const Spread spread[3], index_t panel, GatherPass* pass) {
    const ClassSet& set = pass->classes;
    const Blocks& b = pass->blocks;
    const index_t k_most = pass->depth_block * most(1, pass->most_taps), pr = pass->panel_rows;
    pass->plane_floats = b.per[2] * b.per[3] * set.per[2] + 64;
    if (pass->side_by_side)
        pass->plane_floats = b.per[0] * most((b.per[2] + spread[1].span) * (b.per[3] + spread[2].span),
                                             b.per[2] * b.per[3] * set.per[2] + 16) + 64;
    const index_t block_rows = most(4 * pr, LOCAL_WEIGHT_FLOATS / k_most / pr * pr);
    pass->task_bytes = floats(pass->groups_at_once * pass->depth_block * pass->tile_channel +
                              2 * panel + 64) +                                               // tile
                       floats(pass->groups_at_once * pass->chunk_rows * sums_apart(pass->columns) * set.count) +  // accumulators
                       (pass->direct ? 0 : floats(k_most * pass->columns)) +                  // packed panels
                       floats(pass->depth_block * most(1, pass->sum_taps)) +                  // tap offsets
                       floats(2 * k_most) +                                                   // steps
                       floats(4 * pass->columns + 64) +                                       // pixel offsets, vectors
                       floats(b.per[0] * b.per[1] * b.per[2]) + floats(pass->plane_floats) +
                       (pass->shared_weights ? 0 : floats(least(block_rows, pass->chunk_rows) * k_most));
    pass->shared_bytes = pass->shared_weights && !pass->weights_in_place
        ? floats(pass->chunks_at_once * pass->chunk_rows * pass->reduction) : 0;
}

}  // namespace

Gather make_gather(const cg_problem& p, bool to_fine) {
    Gather g;
    g.batch = p.batch;
    g.groups = p.groups;
    g.rows = to_fine ? p.fine_channels : p.coarse_channels;
    g.depth = to_fine ? p.coarse_channels : p.fine_channels;
    g.source = to_fine ? &p.coarse_operand : &p.fine_operand;
    g.weight = &p.weight_operand;
    g.target = to_fine ? &p.to_fine : &p.to_coarse;
    g.weight_group = p.coarse_channels * p.weight_operand.stride[0];
    g.weight_row = p.weight_operand.stride[to_fine ? 1 : 0];
    g.weight_depth = p.weight_operand.stride[to_fine ? 0 : 1];
    for (int a = 0; a < 3; ++a) {
        g.out[a] = to_fine ? p.fine[a] : p.coarse[a];
        g.source_extent[a] = to_fine ? p.coarse[a] : p.fine[a];
        g.out_step[a] = to_fine ? p.stride[a] : 1;
        g.source_step[a] = to_fine ? 1 : p.stride[a];
        g.weight_tap[a] = p.weight_operand.stride[a + 2];
    }
    return g;
}

bool plan_pass(const Gather& g, const cg_problem& p, bool to_fine, const PassList& list, index_t number, int lanes,
               int threads, int path, GatherPass* pass) {
    ClassSet& set = pass->classes;
    fill_classes(g, p, to_fine, list, number, &set);
    index_t extent[4] = {g.batch, 0, 0, 0};
    for (int a = 0; a < 3; ++a)
        for (int c = 0; c < set.per[a]; ++c) extent[a + 1] = most(extent[a + 1], set.axis[a][c].cells);
    pass->blocks.total = 0;
    for (int a = 0; a < 4; ++a)
        if (extent[a] == 0) {  // a residue beyond the last cell
            pass->task_bytes = pass->shared_bytes = 0;
            return true;
        }
    pass->side_by_side = path == PATH_GEMM_IMAGES;
    pass->direct = path == PATH_GEMM_DIRECT || pass->side_by_side;
    // Eight or sixteen images side by side fill two vectors, not three.
    choose_register_tile(pass->side_by_side ? index_t(PANEL_ROWS) : g.rows, lanes, &pass->panel_rows,
                         &pass->panel_vectors);
    const index_t panel = index_t(pass->panel_vectors) * lanes, target = pixels_wanted(g, *pass, path);
    const Blocks nominal = pass->side_by_side ? image_blocks(set, g, extent) : make_blocks(extent, target, 16);
    Spread spread[3];
    if (!plan_reduction(g, nominal, spread, pass)) return false;
    if (path == PATH_DEPTHWISE_ROWS) {
        plan_depthwise_rows(g, nominal, spread, pass);
        return true;
    }
    if (!plan_chunks(g, p, nominal, spread, panel, pass)) return false;
    pass->row_splits = 1;
    if (pass->side_by_side) {
        pass->blocks = nominal;
        share_lines(spread, panel, threads, pass);
    } else {
        choose_blocks(g, extent, target, spread, panel, threads, pass);
        deepen_blocks(spread, panel, threads, pass);
    }
    if (pass->blocks.per[3] != pass->blocks.extent[3]) pass->shared_columns = 0;
    pass->columns = block_columns(*pass, pass->blocks, spread, panel);
    const index_t planes = pass->blocks.per[0] * spread[0].slots * (pass->blocks.per[1] + spread[0].span) *
                           spread[1].slots * spread[2].slots;
    pass->tile_channel = tile_floats(pass->blocks, spread) + planes * CACHE_LINE;  // planes may lie apart
    pass->groups_at_once = groups_at_once(g, *pass, threads);
    count_bytes(spread, panel, pass);
    return true;
}

// Whole channels, so that leaving out taps that would multiply padding does not move the cuts.
index_t chain_channels(const GatherPass& pass, index_t taps) {
    const index_t limit = most(1, pass.chain / taps);
    const index_t part = even_part(pass.depth_block, limit, 1);
    if (!pass.paired || part % 2 == 0) return part;
    return part < 16 ? most(2, part - 1) : part + 1;  // a few channels more would be a chain much longer
}

PassList list_passes(const cg_problem& p, bool to_fine, int path) {
    PassList list;
    list.zero_first = false;
    const Gather g = make_gather(p, to_fine);
    const index_t* s = p.stride;
    const bool choices[4][3] = {{true, true, true}, {false, true, true}, {false, false, true}, {false, false, false}};
    for (int c = 0; c < 4; ++c) {
        index_t merged_classes = 1;
        for (int a = 0; a < 3; ++a) {
            list.merged[a] = to_fine && (choices[c][a] || s[a] == 1);
            list.count[a] = !to_fine || list.merged[a] ? 1 : classes_with_taps(p, a);
            if (list.merged[a]) merged_classes = merged_classes > MAX_CLASSES ? merged_classes : merged_classes * s[a];
        }
        if (c < 3 && merged_classes > (c == 2 ? MAX_CLASSES : 8)) continue;
        if (c < 3 && merged_classes > 1) {
            // Merged classes share one tile that cannot be cut: all of it must fit.
            GatherPass trial;
            list.total = 1;
            if (!plan_pass(g, p, to_fine, list, 0, 8, 1, path, &trial)) continue;
        }
        break;
    }
    list.total = list.count[0] * list.count[1] * list.count[2];
    for (int a = 0; a < 3 && to_fine; ++a)
        if (!list.merged[a] && list.count[a] < s[a]) list.zero_first = true;
    return list;
}

// A direct panel runs over the padding columns between tile rows, and what it loads is not aligned; packing costs about
// as much as six more rows.
bool reading_beats_packing(const cg_problem& p, bool to_fine) {
    const index_t rows = to_fine ? p.fine_channels : p.coarse_channels;
    const index_t step = to_fine ? p.stride[2] : 1;
    const index_t cells = ceil_div(to_fine ? p.fine[2] : p.coarse[2], step);
    const bool one_line = (to_fine ? p.fine[1] : p.coarse[1]) == 1;
    const index_t span = one_line ? 0 : (p.window[2] - 1) * p.dilation[2] / p.stride[2];
    const double unaligned = one_line && p.window[2] > 1 ? 1.04 : 1.02;
    return unaligned * double(cells + span) / double(most(1, cells)) < 1.0 + 6.0 / double(most(1, rows));
}

// Counted in multiplications of one row with one channel: packing costs about as much as six more rows, copying a cell
// as copy_price says. In return only the taps that meet the source count.
bool images_beat_packing(const cg_problem& p, bool to_fine) {
    const Gather g = make_gather(p, to_fine);
    PassList list;
    index_t extent[4] = {g.batch, 0, 0, 0};
    for (int a = 0; a < 3; ++a) {
        if ((to_fine && p.stride[a] > 4) || g.out[a] > 256 || p.window[a] > 64) return false;
        list.merged[a] = to_fine;
        list.count[a] = 1;
    }
    if (g.rows < 16) return false;
    ClassSet set;
    fill_classes(g, p, to_fine, list, 0, &set);
    double packed = double(g.batch), met = 1, tile = 1, cells = double(g.batch);
    for (int a = 0; a < 3; ++a) {
        index_t taps = 0;
        for (int c = 0; c < set.per[a]; ++c) {
            extent[a + 1] = most(extent[a + 1], set.axis[a][c].cells);
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
    const double rows = double(g.rows);
    const bool reads = reading_beats_packing(p, to_fine);
    const index_t pitch = extent[3] + axis_spread(set, 2, 1, g.source_step[2]).span;
    const double padded = double(round_up(extent[2] * pitch, 16)) / double(extent[2] * extent[3]);
    const double otherwise = packed * (reads ? padded * rows : rows + 6) + 16 * cells;
    return double(b.count[0]) * (met * rows + copy_price(b.per[0]) * tile * double(b.per[0])) < otherwise;
}

}  // namespace cg
