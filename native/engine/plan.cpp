// Where the loops are cut. Sizes only: no data is touched here, and no instruction set is assumed.
//
// Two rules keep results independent of the number of threads. What orders a sum (tap groups, channels per K block,
// runs of pixels of the weight contraction) is computed from the problem alone. What does not (pixel blocks of a
// gather, chunks of output channels, splits of a task) may follow the number of threads.
#include "engine.h"

namespace cg {
namespace {

// Floats. A task holds a tile, a packed block and an output block in a 512 KiB L2 plus some L3.
const index_t TILE_FLOATS = 64 << 10;
const index_t ACCUMULATOR_FLOATS = 256 << 10;
const index_t SHARED_FLOATS = 1100 << 10;    // packed weights, or partial weight gradients, of all threads
const index_t LOCAL_WEIGHT_FLOATS = 45000;   // weights a task walks through per packed block: 180 KB of L2
const index_t REDUCTION_BLOCK = 240;         // K per block: a panel of 240 x 16 floats stays in L1
const index_t MOST_TAPS = 512;
const double IN_PLACE_PIXELS = 256;

index_t least(index_t a, index_t b) { return a < b ? a : b; }
index_t most(index_t a, index_t b) { return a > b ? a : b; }
index_t clamp(index_t v, index_t low, index_t high) { return most(low, least(v, high)); }
index_t ceil_div(index_t a, index_t b) { return (a + b - 1) / b; }
index_t round_up(index_t a, index_t b) { return ceil_div(a, b) * b; }
index_t floor_div(index_t a, index_t b) { return a / b - (a % b < 0 ? 1 : 0); }
index_t magnitude(index_t a) { return a < 0 ? -a : a; }
index_t gcd(index_t a, index_t b) { return b == 0 ? a : gcd(b, a % b); }

// Whether storing a sum errs more than any chain: in 16 bits or less it does, and the sum is not cut into short ones.
bool outweighs_chains(const cg_tensor& result) { return bytes_per_element(result.dtype) <= 2; }

// Cuts `extent` into equal parts of at most `limit`, whole multiples of `multiple` where that is possible.
index_t even_part(index_t extent, index_t limit, index_t multiple) {
    const index_t parts = most(1, ceil_div(extent, most(1, limit)));  // an empty extent is one empty part
    const index_t part = ceil_div(extent, parts);
    const index_t rounded = round_up(part, multiple);
    return rounded <= limit ? rounded : part;
}

// i = o*stride - pad + k*dilation with i = stride*j + residue:
//   k*dilation = residue + pad (mod stride), o = j + (residue + pad - k*dilation)/stride.
// Solutions k are spaced stride/gcd(stride, dilation) apart.
AxisClass fine_class(const cg_problem& p, int axis, index_t residue, index_t first_try = 0) {
    const index_t stride = p.stride[axis], dilation = p.dilation[axis], window = p.window[axis];
    const index_t spacing = stride / gcd(stride, dilation);
    AxisClass c;
    c.residue = residue;
    c.cells = residue < p.fine[axis] ? ceil_div(p.fine[axis] - residue, stride) : 0;
    c.taps = AxisTaps{0, 0, spacing, 0, -(spacing * dilation / stride)};
    for (index_t k = first_try; k < least(window, spacing); ++k) {
        const index_t distance = residue + p.pad[axis] - k * dilation;
        if (distance % stride != 0) continue;
        c.taps.first_tap = k;
        c.taps.count = ceil_div(window - k, spacing);
        c.taps.first_offset = distance / stride;
        break;
    }
    return c;
}

AxisTaps coarse_taps(const cg_problem& p, int axis) {
    return AxisTaps{p.window[axis], 0, 1, -p.pad[axis], p.dilation[axis]};
}

index_t classes_with_taps(const cg_problem& p, int axis) {
    return least(p.window[axis], p.stride[axis] / gcd(p.stride[axis], p.dilation[axis]));
}

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

struct Spread {  // of the tile along one axis, over every class of a set, for the widest tap group
    index_t slots, span, taps;
};

Spread axis_spread(const ClassSet& set, int axis, index_t groups, index_t scale) {
    Spread s{1, 0, 0};
    index_t low = 0, high = 0;
    bool any = false;
    for (int c = 0; c < set.per[axis]; ++c) {
        const AxisTaps& all = set.axis[axis][c].taps;
        if (all.count == 0) continue;
        if (groups > 1) {
            // The largest group, wherever it begins: its offsets reach over at most ceil(distance/scale) quotients.
            const index_t taps = ceil_div(all.count, groups);
            const index_t step = all.offset_step < 0 ? -all.offset_step : all.offset_step;
            return Spread{clamp(taps, 1, scale / gcd(scale, step)), ceil_div((taps - 1) * step, scale), taps};
        }
        const TileAxis t = tile_axis(all, scale);
        s.taps = most(s.taps, all.count);
        s.slots = most(s.slots, t.slots);
        s.span = most(s.span, t.span);
        low = any ? least(low, t.low) : t.low;
        high = any ? most(high, t.low + t.span) : t.low + t.span;
        any = true;
    }
    if (set.per[axis] > 1) s.span = high - low;  // merged classes share one tile
    return s;
}

index_t tile_floats(const Blocks& b, const Spread spread[3]) {
    index_t floats = b.per[0];
    for (int a = 0; a < 3; ++a) floats *= spread[a].slots * (b.per[a + 1] + spread[a].span);
    return floats;
}

// Cuts the window until the tile of one channel fits; outer axes first, they cost the least reuse.
bool cut_window(const ClassSet& set, const index_t scale[3], const Blocks& blocks, index_t tile_limit,
                index_t tap_limit, index_t groups[3], Spread spread[3]) {
    for (;;) {
        index_t taps = 1;
        for (int a = 0; a < 3; ++a) {
            spread[a] = axis_spread(set, a, groups[a], scale[a]);
            taps *= most(1, spread[a].taps);
        }
        const index_t floats = tile_floats(blocks, spread);
        if (floats <= tile_limit && taps <= tap_limit) return true;
        if (set.count > 1) return false;
        int axis = 0;
        while (axis < 3 && spread[axis].taps <= 1) ++axis;
        if (axis == 3) return true;  // a single tap: the tile is the block itself
        const index_t excess = most(ceil_div(floats, tile_limit), ceil_div(taps, tap_limit));
        const index_t count = set.axis[axis][0].taps.count;
        groups[axis] = clamp(groups[axis] * least(excess, 2), groups[axis] + 1, count);
    }
}

int rows_of_two_vectors(int lanes) { return lanes == 16 ? WIDE_PANEL_ROWS : PANEL_ROWS; }

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
    index_t low = MOST_TAPS << 40, high = -low;  // smallest and largest offset of a tap
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

index_t block_columns(const GatherPass& pass, const Spread spread[3], index_t panel) {
    const Blocks& b = pass.blocks;
    if (!pass.direct) return round_up(b.per[0] * b.per[1] * b.per[2] * b.per[3], panel);
    if (pass.side_by_side) return b.per[1] * b.per[2] * round_up(b.per[3] * b.per[0], panel / pass.panel_vectors);
    const index_t pitch = b.per[3] + spread[2].span - (b.per[3] == b.extent[3] ? pass.shared_columns : 0);
    return b.per[0] * b.per[1] * round_up((b.per[2] - 1) * pitch + b.per[3], panel);
}

size_t floats(index_t count) { return size_t(round_up(count, 32) + 32) * 4; }

}  // namespace

// Cell j reads source cell step*j + offset of the tap: which taps find one inside, for some j of [first, last]?
TapRange reaching_taps(const AxisTaps& taps, index_t step, index_t extent, index_t first, index_t last) {
    TapRange in{taps.count, 0};
    for (index_t t = 0; t < taps.count; ++t) {
        const index_t offset = taps.first_offset + t * taps.offset_step;
        if (step * last + offset < 0 || step * first + offset >= extent) continue;
        in.begin = least(in.begin, t);
        in.end = t + 1;
    }
    return in.begin < in.end ? in : TapRange{0, 0};
}

AxisTaps group_taps(const AxisTaps& taps, index_t groups, index_t number) {
    const index_t begin = taps.count * number / groups, end = taps.count * (number + 1) / groups;
    return AxisTaps{end - begin, taps.first_tap + begin * taps.tap_step, taps.tap_step,
                    taps.first_offset + begin * taps.offset_step, taps.offset_step};
}

TileAxis tile_axis(const AxisTaps& taps, index_t scale) {
    TileAxis t;
    t.scale = scale;
    const index_t first = floor_div(taps.first_offset, scale);
    const index_t last = floor_div(taps.first_offset + (taps.count - 1) * taps.offset_step, scale);
    t.low = least(first, last);
    t.span = most(first, last) - t.low;
    t.first = taps.first_offset;
    t.step = taps.offset_step;
    const index_t step = taps.offset_step < 0 ? -taps.offset_step : taps.offset_step;
    t.slots = scale == 1 ? 1 : clamp(taps.count, 1, scale / gcd(scale, step));
    return t;
}

// Blocks of about `target` pixels, whole rows, planes or images where they fit.
Blocks make_blocks(const index_t extent[4], index_t target, index_t column_multiple) {
    Blocks b;
    index_t inner = 1;  // pixels of everything inside the axis being cut
    for (int a = 3; a >= 0; --a) {
        b.extent[a] = extent[a];
        b.per[a] = even_part(extent[a], most(1, target / inner), a == 3 ? column_multiple : 1);
        if (b.per[a] > extent[a]) b.per[a] = extent[a];
        b.count[a] = ceil_div(extent[a], most(1, b.per[a]));
        inner = b.per[a] < extent[a] ? target + 1 : inner * most(1, extent[a]);
    }
    b.total = b.count[0] * b.count[1] * b.count[2] * b.count[3];
    return b;
}

void block_box(const Blocks& b, index_t number, Box* box) {
    for (int a = 3; a >= 0; --a) {
        const index_t index = number % b.count[a];
        number /= b.count[a];
        box->begin[a] = index * b.per[a];
        box->end[a] = least(b.extent[a], box->begin[a] + b.per[a]);
    }
}

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

// Padded columns times the taps they meet: what the classes of one axis cost with `images` side by side (columns) or
// with one image (rows, depths). The first cells of a long axis stand for all.
static index_t reached(const ClassSet& set, const Gather& g, int axis, index_t images) {
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
static double copy_price(index_t images) { return images > 1 ? 40 : 16; }

// Images side by side: as many as waste the fewest columns and are not worth less than their copies cost (one alone when
// its rows fill whole vectors), then as many whole rows as the accumulators hold.
static Blocks image_blocks(const ClassSet& set, const Gather& g, const index_t extent[4]) {
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

// How many lines of images side by side a task takes, and how many tasks share the rows of a chunk: what lets `threads`
// finish together soonest, copies into the tile included (see images_beat_packing for their price).
static void share_lines(const Spread spread[3], index_t panel, int threads, GatherPass* pass) {
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
static index_t groups_at_once(const Gather& g, const GatherPass& pass, int threads) {
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
    // Eight or sixteen images side by side fill two vectors, not three.
    choose_register_tile(pass->side_by_side ? index_t(PANEL_ROWS) : g.rows, lanes, &pass->panel_rows,
                         &pass->panel_vectors);
    const index_t panel = index_t(pass->panel_vectors) * lanes;

    pass->direct = path == PATH_GEMM_DIRECT || pass->side_by_side;

    // Nominal blocks (problem only) fix the tap groups and the K blocks.
    index_t taps_of_class = 1;
    for (int a = 0; a < 3; ++a) taps_of_class *= most(1, axis_spread(set, a, 1, g.source_step[a]).taps);
    const index_t k_guess = least(MOST_TAPS, most(1, REDUCTION_BLOCK / least(taps_of_class, MOST_TAPS)) *
                                                 least(taps_of_class, MOST_TAPS));
    const index_t k_block = least(k_guess, g.depth * least(taps_of_class, MOST_TAPS));
    index_t target = path == PATH_DEPTHWISE_ROWS ? index_t(2048)
                     : pass->direct ? clamp(65536 / (least(g.rows, 256) * set.count), 256 / set.count, 1024)
                                    : clamp(65536 / most(1, k_block), 96, 480);
    Spread spread[3];
    Blocks nominal = pass->side_by_side ? image_blocks(set, g, extent) : make_blocks(extent, target, 16);
    for (int a = 0; a < 3; ++a) pass->tap_groups[a] = 1;
    if (!cut_window(set, g.source_step, nominal, TILE_FLOATS, MOST_TAPS, pass->tap_groups, spread)) return false;
    pass->most_taps = 1;
    for (int a = 0; a < 3; ++a) {
        pass->most_taps *= spread[a].taps;
        pass->span[a] = spread[a].span;
        pass->slots[a] = spread[a].slots;
    }
    pass->shared_columns = shared_columns(*pass, g, extent[3]);
    pass->sum_taps = 0;
    index_t all_taps = 0;
    for (int z = 0; z < set.per[0]; ++z)
        for (int y = 0; y < set.per[1]; ++y)
            for (int x = 0; x < set.per[2]; ++x)
                all_taps += set.axis[0][z].taps.count * set.axis[1][y].taps.count * set.axis[2][x].taps.count;
    pass->sum_taps = set.count > 1 ? all_taps : pass->most_taps;
    pass->reduction = g.depth * all_taps;
    const index_t nominal_tile = tile_floats(nominal, spread);
    index_t depth = clamp(REDUCTION_BLOCK / most(1, pass->most_taps), 1, g.depth);
    depth = clamp(TILE_FLOATS / most(1, nominal_tile), 1, depth);
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

    if (path == PATH_DEPTHWISE_ROWS) {
        // One channel at a time; tasks take as many as make them worth handing out.
        pass->blocks = nominal;
        pass->tile_channel = nominal_tile;
        pass->columns = nominal.per[0] * nominal.per[1] * nominal.per[2] * round_up(nominal.per[3], 8);
        pass->chunks = 1;
        pass->chunk_rows = clamp(400000 / most(1, pass->columns * all_taps), 1, g.groups);
        pass->row_splits = 1;
        pass->shared_weights = true;
        pass->chunks_at_once = clamp(SHARED_FLOATS / most(1, pass->reduction), 1, g.groups);
        const index_t taps = most(1, pass->sum_taps);
        pass->plane_floats = nominal.per[2] * nominal.per[3] * set.per[2] + 64;
        pass->task_bytes = floats(pass->tile_channel + 64) + floats(pass->columns * set.count) + 3 * floats(taps) +
                           floats(nominal.per[0] * nominal.per[1]) + floats(pass->plane_floats);
        pass->shared_bytes = floats(pass->chunks_at_once * pass->reduction);
        return true;
    }

    // Chunks of output channels whose weights are packed together. K x rows beyond the shared memory is packed by
    // each task for itself.
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
    const double reach = double(pass->depth_block) * double(magnitude(g.weight_depth)) +
                         double(p.window[0]) * double(magnitude(g.weight_tap[0])) +
                         double(p.window[1]) * double(magnitude(g.weight_tap[1])) +
                         double(p.window[2]) * double(magnitude(g.weight_tap[2]));
    pass->weights_in_place = pass->direct && load_kind(*g.weight) == LOAD_F32 && reach < double(1 << 30) &&
                             double(g.batch) * double(extent[1]) * double(extent[2]) * double(extent[3]) <= IN_PLACE_PIXELS;

    // Pixel blocks: enough tasks for the threads, then the cheapest size near the target by padded columns, halo and
    // balance.
    const index_t wanted = 2 * index_t(threads);
    while (target > 2 * panel && make_blocks(extent, target, 16).total * pass->chunks_at_once < wanted &&
           (pass->chunk_rows < 96 || target > 192))
        target = most(2 * panel, target / 2);
    double best = 0;
    const index_t smallest = most(panel, target * 3 / 8);
    pass->row_splits = 1;
    if (pass->side_by_side) {
        pass->blocks = nominal;
        share_lines(spread, panel, threads, pass);
    } else for (index_t size = 2 * target, next; size >= smallest || best == 0; size = next) {
        next = size > target ? most(target, size - panel) : size - panel;
        GatherPass trial = *pass;
        trial.blocks = make_blocks(extent, size, 16);
        if (best != 0 && trial.blocks.total == pass->blocks.total && trial.blocks.per[3] == pass->blocks.per[3] &&
            trial.blocks.per[2] == pass->blocks.per[2])
            continue;
        const double columns = double(block_columns(trial, spread, panel));
        const double tile = double(tile_floats(trial.blocks, spread));
        const double sums = columns * double(pass->chunk_rows * set.count);
        if (size > target &&
            (sums > double(ACCUMULATOR_FLOATS) || tile * double(pass->depth_block) > 2.0 * double(TILE_FLOATS)))
            continue;
        double cost = columns + 4 + tile * 6.4 / double(most(1, pass->sum_taps * g.rows));
        const double tasks = double(trial.blocks.total) * double(pass->chunks_at_once);
        cost *= tasks < 16.0 * threads ? double(ceil_div(index_t(tasks), threads)) * threads : tasks;
        if (size > target && sums > 65536) cost *= 1.08;  // they leave L2
        if (best == 0 || cost < best * 0.995) {
            best = cost;
            pass->blocks = trial.blocks;
        }
        if (trial.blocks.total > 100000) break;
    }
    if (pass->blocks.per[3] != pass->blocks.extent[3]) pass->shared_columns = 0;
    pass->columns = block_columns(*pass, spread, panel);
    pass->tile_channel = tile_floats(pass->blocks, spread);
    while (!pass->side_by_side && pass->blocks.total * pass->chunks_at_once * pass->row_splits < wanted &&
           pass->row_splits * 2 * pr <= pass->chunk_rows)
        pass->row_splits *= 2;

    pass->groups_at_once = groups_at_once(g, *pass, threads);

    const index_t k_most = pass->depth_block * most(1, pass->most_taps);
    const Blocks& b = pass->blocks;
    pass->plane_floats = b.per[2] * b.per[3] * set.per[2] + 64;
    if (pass->side_by_side)
        pass->plane_floats = b.per[0] * most((b.per[2] + spread[1].span) * (b.per[3] + spread[2].span),
                                             b.per[2] * b.per[3] * set.per[2] + 16) + 64;
    const index_t block_rows = most(4 * pr, LOCAL_WEIGHT_FLOATS / k_most / pr * pr);
    pass->task_bytes = floats(pass->groups_at_once * pass->depth_block * pass->tile_channel +
                              2 * panel + 64) +                                               // tile
                       floats(pass->groups_at_once * pass->chunk_rows * pass->columns * set.count) +  // accumulators
                       (pass->direct ? 0 : floats(k_most * pass->columns)) +                  // packed panels
                       floats(pass->depth_block * most(1, pass->sum_taps)) +                  // tap offsets
                       floats(2 * k_most) +                                                   // steps
                       floats(4 * pass->columns + 64) +                                       // pixel offsets, vectors
                       floats(pass->blocks.per[0] * pass->blocks.per[1] * pass->blocks.per[2]) +
                       floats(pass->plane_floats) +
                       (pass->shared_weights ? 0 : floats(least(block_rows, pass->chunk_rows) * k_most));
    pass->shared_bytes = pass->shared_weights && !pass->weights_in_place
        ? floats(pass->chunks_at_once * pass->chunk_rows * pass->reduction) : 0;
    return true;
}

// Whole channels, so that leaving out taps that would multiply padding does not move the cuts.
index_t chain_channels(const GatherPass& pass, index_t taps) {
    const index_t limit = most(1, pass.chain / taps);
    const index_t part = even_part(pass.depth_block, limit, 1);
    if (!pass.paired || part % 2 == 0) return part;
    return part < 16 ? most(2, part - 1) : part + 1;  // a few channels more would be a chain much longer
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

// Tap by tap, rows of a register tile are channels: the last of them may be incomplete, but padding is left out. Chains
// begin at other pixels then, so that the lanes have no say in it.
static bool worth_listing(const cg_problem& p, const AxisTaps taps[3]) {
    const index_t panel_rows = p.coarse_channels <= 8 ? MOST_PANEL_ROWS : PANEL_ROWS;
    double met = 1;
    for (int a = 0; a < 3; ++a) {
        index_t pixels = 0;
        if (p.window[a] > 32) return false;
        for (index_t k = 0; k < p.window[a]; ++k) {
            const index_t first = taps[a].first_offset + k * taps[a].offset_step;
            const index_t from = first >= 0 ? 0 : least(p.coarse[a], ceil_div(-first, p.stride[a]));
            const index_t to = p.fine[a] <= first ? 0 : least(p.coarse[a], ceil_div(p.fine[a] - first, p.stride[a]));
            pixels += most(0, to - from);
        }
        met *= double(pixels) / double(p.window[a] * most(1, p.coarse[a]));
    }
    const double filled = double(p.fine_channels) / double(round_up(p.fine_channels, panel_rows));
    return met < 0.97 * filled;
}

void plan_weight(const cg_problem& p, int lanes, int threads, WeightPlan* plan) {
    ClassSet set;
    set.count = 1;
    index_t scale[3], taps = 1;
    for (int a = 0; a < 3; ++a) {
        plan->taps[a] = coarse_taps(p, a);
        set.per[a] = 1;
        set.axis[a][0] = AxisClass{plan->taps[a], 0, p.coarse[a]};
        scale[a] = p.stride[a];
        plan->tap_groups[a] = 1;
        taps *= p.window[a];
    }
    const index_t c = p.coarse_channels, f = p.fine_channels;
    const bool narrow = c <= 8;
    // Counted in panels of 8 or 16 whatever the lanes: the cut of the sum must not depend on the instruction set.
    const index_t result = round_up(c, narrow ? 8 : 16) * f * taps * p.groups;
    const index_t extent[4] = {p.batch, p.coarse[0], p.coarse[1], p.coarse[2]};
    // Large results are worth long runs of pixels; with a single tap the packed coarse block should hold many panels.
    // Wide windows of few taps: most of a small tile would be halo.
    const bool spread_out = (p.window[2] - 1) * p.dilation[2] / p.stride[2] > 256 && taps < 8;
    const bool large = result > (1 << 19) && taps > 1;
    plan->blocks = make_blocks(extent, narrow ? 800 : spread_out ? 1024 : large ? 448 : 256, 16);
    const index_t tile_limit = 40000;
    Spread spread[3];
    cut_window(set, scale, plan->blocks, tile_limit, 2048, plan->tap_groups, spread);
    plan->group_count = plan->tap_groups[0] * plan->tap_groups[1] * plan->tap_groups[2];
    plan->most_taps = spread[0].taps * spread[1].taps * spread[2].taps;
    for (int a = 0; a < 3; ++a) {
        plan->span[a] = spread[a].span;
        plan->slots[a] = spread[a].slots;
    }
    const index_t blocks = plan->blocks.total, pixels = p.batch * p.coarse[0] * p.coarse[1] * p.coarse[2];
    plan->partials = least(least(blocks, 16), least(most(1, SHARED_FLOATS / most(1, result)), most(1, blocks / 2)));
    plan->panel_vectors = c <= lanes ? 1 : 2;
    plan->panel_rows = plan->panel_vectors == 1 ? MOST_PANEL_ROWS : rows_of_two_vectors(lanes);
    const index_t panel = index_t(plan->panel_vectors) * lanes;
    plan->panels = ceil_div(c, panel);
    plan->tile_channel = tile_floats(plan->blocks, spread);
    plan->tile_channels = even_part(f, clamp(tile_limit / most(1, plan->tile_channel), 1, f), 1);
    // Channels last under a single tap: copied as they lie (with more taps rows of one channel are read faster). What a
    // cell takes is an odd number of cache lines, so that neighbours do not fight for the same cache sets.
    const index_t* fine_stride = p.fine_operand.stride;
    plan->channels_inside = fine_stride[1] == 1 && fine_stride[4] != 1 && taps == 1 && p.stride[2] == 1 &&
                            plan->tile_channels >= 8;
    plan->by_tap = worth_listing(p, plan->taps) && plan->most_taps <= 32;
    if (plan->by_tap && plan->tile_channels < f)
        plan->tile_channels = most(plan->panel_rows, plan->tile_channels / plan->panel_rows * plan->panel_rows);
    plan->tile_cell = plan->channels_inside ? ceil_div(plan->tile_channels, 32) * 32 + 16 : 0;
    plan->block_pixels = plan->blocks.per[0] * plan->blocks.per[1] * plan->blocks.per[2] * plan->blocks.per[3];
    // n pixels in chains of L err by about sqrt(L + n/L): a little more than the best length is as good, and faster.
    plan->chain = 48;
    while (plan->chain < 112 && 2 * plan->chain * plan->chain < 5 * least(pixels, 1 << 20)) plan->chain += 8;
    plan->chain = outweighs_chains(p.to_weight) ? plan->block_pixels : even_part(plan->block_pixels, plan->chain, 1);
    plan->channel_split = plan->panel_split = 1;
    const index_t wanted = (plan->partials > 1 ? 2 : 4) * index_t(threads);
    const double pack_price = double(c) * double(pixels);
    // Short rows are copied piece by piece.
    const double fill_price = double(f) * double(plan->tile_channel) * double(blocks) * (p.fine[2] < 8 ? 3 : 1);
    for (;;) {
        plan->channels_per_task = ceil_div(f, plan->channel_split);
        plan->panels_per_task = ceil_div(plan->panels, plan->panel_split);
        const index_t held = plan->channels_per_task * plan->most_taps * plan->panels_per_task * panel;
        const bool fits = plan->partials > 1 || held <= ACCUMULATOR_FLOATS / 2;
        const index_t tasks = plan->partials * p.groups * plan->group_count * plan->channel_split * plan->panel_split;
        if (fits && tasks >= wanted) break;
        if (!fits && plan->panels_per_task * panel > 256) plan->panel_split *= 2;
        // Splitting channels packs the coarse values again, splitting panels fills the tile again: what costs less.
        else if (plan->channels_per_task >= 16 &&
                 (pack_price * double(plan->channel_split) <= fill_price * double(plan->panel_split) ||
                  plan->panels_per_task < 4))
            plan->channel_split *= 2;
        else if (plan->panels_per_task >= 2) plan->panel_split *= 2;
        else if (plan->channels_per_task >= 2) plan->channel_split *= 2;
        else break;
    }
    plan->channel_split = ceil_div(f, plan->channels_per_task);
    plan->panel_split = ceil_div(plan->panels, plan->panels_per_task);
    // Several tiles are filled again for every block of panels: a large one then. Panels wait in L3 for their turn.
    const index_t packed = plan->tile_channels < plan->channels_per_task ? 256 << 10 : 64 << 10;
    plan->panel_block = clamp(packed / most(1, plan->block_pixels * panel), 1, plan->panels_per_task);
    plan->tile_floats = most(plan->tile_channels * plan->tile_channel + 64, plan->tile_cell * (plan->tile_channel + 1));
    plan->task_bytes = floats(plan->tile_floats) +
                       floats(plan->panel_block * panel * plan->block_pixels) +
                       floats(2 * plan->block_pixels * (plan->by_tap ? plan->most_taps : 1)) +
                       floats(plan->block_pixels * (plan->by_tap ? plan->most_taps : 1)) + floats(plan->most_taps) +
                       floats(plan->tile_channels * plan->most_taps) +
                       (plan->partials > 1 ? 0 : floats(plan->channels_per_task * plan->most_taps *
                                                        plan->panels_per_task * panel)) +
                       floats(plan->most_taps * 2 + 64);
    plan->shared_bytes = plan->partials > 1
        ? floats(plan->partials * p.groups * plan->panels * panel * f * taps) : 0;
    // Coarse lines are at hand when they have been packed: no need to read them once more for the bias. Channels last,
    // what was packed is summed itself; it must not have been shortened.
    const index_t biases = plan->partials * p.groups * c;
    const cg_tensor& coarse = p.coarse_operand;
    const bool beside = p.bias.data != nullptr && p.bias_source == 0 && biases <= 32768 &&
                        (coarse.stride[4] == 1 || (coarse.stride[1] == 1 && coarse.cast == coarse.dtype));
    plan->bias_sums = beside ? biases : 0;
    plan->shared_bytes += beside ? floats(2 * biases) : 0;
}

bool columns_fit(const cg_problem& p) {
    double pixels = double(p.batch), cells = double(p.batch), taps = 1;
    for (int a = 0; a < 3; ++a) {
        pixels *= double(p.coarse[a]);
        cells *= double(p.fine[a]);
        taps *= double(p.window[a]);
    }
    return pixels <= MOST_COLUMN_PIXELS && cells <= double(TILE_FLOATS) && taps * pixels <= double(TILE_FLOATS) &&
           (double(p.coarse_channels) + 6) * pixels <= double(SHARED_FLOATS / 2);
}

void plan_columns(const cg_problem& p, ColumnPlan* plan) {
    index_t cells = p.batch;
    plan->pixels = p.batch;
    plan->taps = 1;
    for (int a = 0; a < 3; ++a) {
        plan->pixels *= p.coarse[a];
        cells *= p.fine[a];
        plan->taps *= p.window[a];
    }
    plan->plane_floats = cells;
    plan->row_floats = round_up(p.coarse_channels * plan->pixels, 32);
    // Columns are walked once per six rows of results: they should stay in L2.
    const index_t room = most(TILE_FLOATS * 3 / 2, plan->taps * plan->pixels) / (plan->taps * plan->pixels);
    plan->channels_at_once = even_part(p.fine_channels, room, 16);
    plan->channels_per_task = even_part(plan->channels_at_once, 64, 16);
    const index_t panels = round_up(plan->channels_at_once * plan->taps, 32);
    plan->task_bytes = floats(plan->taps * plan->pixels) + floats(cells + 8) + floats(MOST_PANEL_ROWS * COLUMN_LINE);
    plan->shared_bytes = floats(plan->row_floats) + floats(panels * plan->pixels);
}

void plan_depthwise_weight(const cg_problem& p, DepthwiseWeightPlan* plan) {
    ClassSet set;
    set.count = 1;
    for (int a = 0; a < 3; ++a) {
        plan->taps[a] = coarse_taps(p, a);
        set.per[a] = 1;
        set.axis[a][0] = AxisClass{plan->taps[a], 0, p.coarse[a]};
        plan->tap_groups[a] = 1;
    }
    plan->wide = p.window[2] >= 9 && p.dilation[1] == 1 && p.dilation[2] == 1 && p.stride[1] == 1 && p.stride[2] == 1;
    const index_t extent[4] = {p.batch, p.coarse[0], p.coarse[1], p.coarse[2]};
    plan->blocks = make_blocks(extent, 4096, 16);
    Spread spread[3];
    cut_window(set, p.stride, plan->blocks, TILE_FLOATS, 16384, plan->tap_groups, spread);
    plan->group_count = plan->tap_groups[0] * plan->tap_groups[1] * plan->tap_groups[2];
    plan->most_taps = spread[0].taps * spread[1].taps * spread[2].taps;
    for (int a = 0; a < 3; ++a) {
        plan->span[a] = spread[a].span;
        plan->slots[a] = spread[a].slots;
    }
    plan->tile_floats = tile_floats(plan->blocks, spread);
    plan->coarse_floats = (plan->blocks.per[2] + 6) * round_up(plan->blocks.per[3], 8);
    plan->sum_floats = plan->wide ? spread[0].taps * (spread[1].taps + 3) * round_up(spread[2].taps, 32)
                                  : plan->most_taps * 8;
    const index_t windows = p.groups * plan->group_count;
    // Few channels: runs of pixels are summed apart, as many as the problem (not the machine) gives.
    plan->partials = 1;
    if (windows < 32)
        plan->partials = clamp(32 / windows, 1, least(plan->blocks.total, SHARED_FLOATS / (windows * plan->most_taps)));
    plan->task_bytes = floats(plan->tile_floats + 128) + floats(plan->coarse_floats) + floats(plan->sum_floats) +
                       floats(plan->most_taps) + floats(plan->most_taps + 16);
    plan->shared_bytes = plan->partials > 1 ? floats(plan->partials * windows * plan->most_taps) : 0;
}

AxisClass axis_class(const cg_problem& p, bool to_fine, int axis, index_t residue) {
    return to_fine ? fine_class(p, axis, residue) : AxisClass{coarse_taps(p, axis), 0, p.coarse[axis]};
}

void plan_channels(const cg_problem& p, int contraction, int threads, ChannelPlan* plan) {
    const bool to_fine = contraction == TO_FINE;
    const index_t taps = p.window[0] * p.window[1] * p.window[2];
    index_t extent[4] = {p.batch, 0, 0, 0};
    for (int a = 0; a < 3; ++a) extent[a + 1] = to_fine ? p.fine[a] : p.coarse[a];
    // Few taps: float32 is read in place, all channels of a cell together. Many: a buffer without the cache-set
    // collisions of the tensor's own pitch pays, and it should stay in L1.
    plan->copies = taps > 12;
    plan->block = clamp(round_up(p.groups, 16), 16, plan->copies ? 64 : 256);
    // Gradients of the data may be cut as the threads like; the blocks of the weight sum are the problem's.
    index_t target = 1024;
    plan->blocks = make_blocks(extent, target, 16);
    while (contraction != TO_WEIGHT && target > 64 &&
           plan->blocks.total * ceil_div(p.groups, plan->block) < 4 * index_t(threads)) {
        target /= 2;
        plan->blocks = make_blocks(extent, target, 16);
    }
    index_t box = 1;
    for (int a = 0; a < 3; ++a) {
        const index_t reach = (p.window[a] - 1) * p.dilation[a], cells = plan->blocks.per[a + 1];
        const index_t limit = to_fine ? p.coarse[a] : p.fine[a];
        box *= least(limit, to_fine ? (cells - 1 + reach) / p.stride[a] + 2 : (cells - 1) * p.stride[a] + 1 + reach);
    }
    plan->source_floats = box * plan->block;
    plan->line_floats = contraction == TO_WEIGHT ? target * plan->block : plan->blocks.per[3] * plan->block;
    const index_t room = SHARED_FLOATS / taps;
    plan->partials = contraction == TO_WEIGHT
        ? clamp(least(8, plan->blocks.total / 2), 1, most(1, room / least(room, round_up(p.groups, 16)))) : 1;
    const index_t fit = room / plan->partials / plan->block * plan->block;
    plan->channels_at_once = least(round_up(p.groups, plan->block), most(16, fit));
    plan->block = least(plan->block, plan->channels_at_once);
    plan->task_bytes = floats(plan->source_floats) + floats(plan->line_floats) +
                       floats(p.window[0] * p.window[1] * 4);
    plan->shared_bytes = floats(plan->partials * plan->channels_at_once * taps);
}

bool channels_fit(const cg_problem& p, int contraction) {
    const index_t taps = p.window[0] * p.window[1] * p.window[2];
    if (taps > SHARED_FLOATS / 64 || (contraction == TO_FINE && p.stride[2] > 64)) return false;
    ChannelPlan plan;
    plan_channels(p, contraction, 1, &plan);
    return plan.source_floats <= 4 * ACCUMULATOR_FLOATS;
}

}  // namespace cg
