// The data contractions: passes over the output, blocks of the reduction, chunks of output channels.
#include "paths/gemm_data/plan_parts.h"
#include "blocking/blocking_numbers.h"
#include "numbers/formats.h"
#include "paths.h"

namespace cg {
namespace {

void choose_register_tile(index_t rows, int lanes, int* mr, int* nr_vectors) {
    if (rows <= 1) {
        *mr = 1;
        *nr_vectors = 8;
    } else if (rows == 2) {
        *mr = 2;
        *nr_vectors = 6;
    } else if (rows == 3) {
        *mr = 3;
        *nr_vectors = 4;
    } else if (rows == 4 || (lanes < 16 && (rows == 8 || (rows <= 64 && rows % 4 == 0 && rows % 6 != 0)))) {
        *mr = 4;
        *nr_vectors = lanes == 4 ? 2 : 3;  // panels are packed eight columns at a time
    } else {
        *mr = mr_of_two_vectors(lanes);
        *nr_vectors = 2;
    }
}

// Blocks of whole rows have padding on both sides: the right one of a row can be the left one of the next.
index_t shared_columns(const GatherPass& pass, const Gather& g, index_t width) {
    if (!pass.direct || pass.side_by_side || g.source_step[2] != 1 || pass.tap_groups[2] != 1) return 0;
    index_t low = index_t(MAX_TAPS) << 40, high = -low;  // smallest and largest offset of a tap
    for (int c = 0; c < pass.classes.per[2]; ++c) {
        const AxisTaps& taps = pass.classes.axis[2][c].taps;
        if (taps.count == 0) continue;
        const index_t last = taps.first_offset + (taps.count - 1) * taps.offset_step;
        low = min(low, min(taps.first_offset, last));
        high = max(high, max(taps.first_offset, last));
    }
    // A row of the tile begins at cell `low` and ends `high` beyond the last output cell.
    return clamp(min(-low, width + high - g.source_extent[2]), 0, pass.span[2]);
}

// Groups of few channels: as many as fill a cache line, or two where channels lie side by side. Blocks, taps and steps
// are described once for all of them. Fewer where threads would wait or the tile would not fit.
index_t groups_at_once(const Gather& g, const GatherPass& pass, int threads) {
    const bool whole = pass.chunks == 1 && pass.channel_block >= g.in_channels && pass.row_splits == 1 &&
                       pass.tap_groups[0] * pass.tap_groups[1] * pass.tap_groups[2] == 1;
    if (!whole || !pass.shared_weights || pass.weights_in_place || (pass.paired && g.in_channels % 2 != 0)) return 1;
    const index_t channels = g.source->stride[1] == 1 || g.target->stride[1] == 1 ? 32 : 16;
    index_t groups = clamp(channels / max(g.out_channels, g.in_channels), 1, min(g.groups, pass.chunks_at_once));
    const auto too_many = [&](index_t many) {
        return many * pass.channel_block * pass.tile_channel > TILE_FLOATS ||
               many * pass.chunk_rows * pass.columns * pass.classes.count > ACCUMULATOR_FLOATS ||
               pass.blocks.total * (pass.chunks_at_once / many) < 4 * threads;
    };
    while (groups > 1 && too_many(groups)) groups /= 2;
    return groups;
}

// Tap groups, K blocks and chains, all that orders a sum, from the nominal blocks of one sample: a batch cannot show.
// False where classes that share a tile do not fit.
bool plan_reduction(const Gather& g, const cg_problem& p, bool to_fine, const Blocks& nominal, Spread spread[3],
                    GatherPass* pass) {
    const ClassSet& set = pass->classes;
    for (int a = 0; a < 3; ++a) pass->tap_groups[a] = 1;
    if (!cut_window(set, g.source_step, nominal, TILE_FLOATS, MAX_TAPS, pass->tap_groups, spread)) return false;
    pass->max_taps = 1;
    for (int a = 0; a < 3; ++a) {
        pass->max_taps *= spread[a].taps;
        pass->span[a] = spread[a].span;
        pass->slots[a] = spread[a].slots;
    }
    pass->shared_columns = shared_columns(*pass, g, nominal.extent[3]);
    index_t all_taps = 0;
    for (int z = 0; z < set.per[0]; ++z)
        for (int y = 0; y < set.per[1]; ++y)
            for (int x = 0; x < set.per[2]; ++x)
                all_taps += set.axis[0][z].taps.count * set.axis[1][y].taps.count * set.axis[2][x].taps.count;
    pass->sum_taps = set.count > 1 ? all_taps : pass->max_taps;
    pass->reduction = g.in_channels * all_taps;
    // Up to three rows are not cut: that would cost a sixth of the time. A small reduction of few rows is mostly
    // copying and can afford short chains.
    const bool brief = g.out_channels <= 8 && g.in_channels * pass->max_taps <= CHAIN;
    pass->chain = g.out_channels <= 3 || result_rounding_dominates(*g.target) ? index_t(MAX_TAPS)
                                                                              : index_t(brief ? SHORT_CHAIN : CHAIN);
    // Two channels where they can be pairs, however many taps they have.
    const index_t least = 2 * pass->max_taps <= pass->chain ? 2 : 1;
    index_t depth = clamp(max(least, REDUCTION_BLOCK / max(1, pass->max_taps)), 1, g.in_channels);
    depth = clamp(TILE_FLOATS / max(1, tile_floats(nominal, spread)), 1, depth);
    pass->channel_block = ceil_div(g.in_channels, ceil_div(g.in_channels, depth));
    pass->paired = pass->channel_block > 1 && 2 * pass->max_taps <= pass->chain;
    pass->plain_chain = sums_as_plain(p, to_fine) ? plain_chain(p) : 0;
    if (pass->plain_chain > 0) {
        // A pair of channels goes tap by tap: with a single tap that is channel after channel.
        pass->paired &= window_taps(p) == 1;
        pass->channel_block = pass->channel_block < g.in_channels
                                  ? max(1, pass->channel_block / pass->plain_chain) * pass->plain_chain
                                  : g.in_channels;
    }
    if (pass->paired) {
        pass->channel_block = round_up(pass->channel_block, 2);
        if (pass->channel_block * pass->max_taps > MAX_TAPS) pass->channel_block -= 2;
    }
    return true;
}

// Chunks of output channels whose weights are packed together; K x rows beyond the shared memory is packed by each task
// for itself. False where classes that share a tile would need that.
bool plan_chunks(const Gather& g, const cg_problem& p, const Blocks& nominal, const Spread spread[3], index_t panel,
                 GatherPass* pass) {
    const ClassSet& set = pass->classes;
    const index_t pr = pass->mr;
    const index_t nominal_row = nominal.per[3] + (pass->direct && !pass->side_by_side ? spread[2].span : 0);
    const index_t nominal_columns =
        max(panel, nominal.per[0] * nominal.per[1] * round_up(nominal.per[2] * nominal_row, panel));
    index_t chunk = max(pr, ACCUMULATOR_FLOATS / (nominal_columns * set.count) / pr * pr);
    const index_t shareable = SHARED_FLOATS / max(1, pass->reduction) / pr * pr;
    // Whether classes are merged follows from this: not from the rows of a register tile, which the machine gives.
    const index_t few = min(round_up(g.out_channels, MAX_MR), 4 * MAX_MR);
    pass->shared_weights = SHARED_FLOATS / max(1, pass->reduction) >= few;
    if (!pass->shared_weights && set.count > 1) return false;
    if (pass->shared_weights) chunk = min(chunk, shareable);
    chunk = min(chunk, round_up(g.out_channels, pr));
    pass->chunks = ceil_div(g.out_channels, chunk);
    pass->chunk_rows = round_up(ceil_div(g.out_channels, pass->chunks), pr);
    pass->chunks = ceil_div(g.out_channels, pass->chunk_rows);
    const index_t all_chunks = pass->chunks * g.groups;
    pass->chunks_at_once = pass->shared_weights
                               ? clamp(SHARED_FLOATS / max(1, pass->chunk_rows * pass->reduction), 1, all_chunks)
                               : all_chunks;

    // Packing a weight costs as much as multiplying it with some dozens of pixels.
    double reach = double(pass->channel_block) * double(magnitude(g.weight_in)), pixels = double(g.batch);
    for (int a = 0; a < 3; ++a) {
        reach += double(p.window[a]) * double(magnitude(g.weight_tap[a]));
        pixels *= double(nominal.extent[a + 1]);
    }
    pass->weights_in_place =
        pass->direct && load_kind(*g.weight) == LOAD_F32 && reach < double(1 << 30) && pixels <= IN_PLACE_PIXELS;
    return true;
}

void book_scratch(const Spread spread[3], index_t panel, GatherPass* pass) {
    const ClassSet& set = pass->classes;
    const Blocks& b = pass->blocks;
    const index_t max_k = pass->channel_block * max(1, pass->max_taps), pr = pass->mr;
    index_t plane = b.per[2] * b.per[3] * set.per[2] + 64;
    if (pass->side_by_side)
        plane = b.per[0] * max((b.per[2] + spread[1].span) * (b.per[3] + spread[2].span),
                               b.per[2] * b.per[3] * set.per[2] + 16) +
                64;
    const index_t block_rows = max(4 * pr, LOCAL_WEIGHT_FLOATS / max_k / pr * pr);
    Booking& task = pass->task;
    task.bytes = pass->shared.bytes = 0;
    pass->panels = pass->weights = pass->packed = Piece<float>{0, 0};
    pass->tile = task.book<float>(pass->groups_at_once * pass->channel_block * pass->tile_channel + 2 * panel + 64);
    pass->accumulators =
        task.book<float>(pass->groups_at_once * pass->chunk_rows * sums_pitch(pass->columns) * set.count);
    if (!pass->direct) pass->panels = task.book<float>(max_k * pass->columns);
    pass->offsets = task.book<int>(pass->channel_block * max(1, pass->sum_taps));
    pass->steps = task.book<int>(2 * max_k);
    pass->pixels = task.book<int>(4 * pass->columns + 64);
    pass->strips = task.book<int>(b.per[0] * b.per[1] * b.per[2]);
    pass->plane = task.book<float>(plane);
    if (!pass->shared_weights) pass->weights = task.book<float>(min(block_rows, pass->chunk_rows) * max_k);
    if (pass->shared_weights && !pass->weights_in_place)
        pass->packed = pass->shared.book<float>(pass->chunks_at_once * pass->chunk_rows * pass->reduction);
}

}  // namespace

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

static bool reading_orders(const cg_problem& p, bool to_fine);

// What orders a sum follows the problem alone, so not the path: that is chosen for the machine and the batch.
static int ordering_path(const cg_problem& p, bool to_fine, int path) {
    if (path == PATH_DEPTHWISE_ROWS) return path;
    return reading_orders(p, to_fine) ? PATH_GEMM_DIRECT : PATH_GEMM_PACKED;
}

static void set_images(index_t images, Blocks* b) {
    b->per[0] = images;
    b->count[0] = ceil_div(b->extent[0], images);
    b->total = b->count[0] * b->count[1] * b->count[2] * b->count[3];
}

// Fewer images in a block, where the tile of a K block would not fit.
static void fit_images(const Spread spread[3], index_t channels, Blocks* b) {
    const index_t one = max(1, tile_floats(*b, spread) / max(1, b->per[0]) * channels);
    set_images(clamp(TILE_FLOATS / one, 1, b->per[0]), b);
}

// What follows from the blocks of a task: columns, tile, groups at once, scratch memory.
static void book_task(const Gather& g, const Spread spread[3], index_t panel, int threads, GatherPass* pass) {
    const Blocks& b = pass->blocks;
    pass->columns = block_columns(*pass, b, spread, panel);
    const index_t planes = b.per[0] * spread[0].slots * (b.per[1] + spread[0].span) * spread[1].slots * spread[2].slots;
    pass->tile_channel = tile_floats(b, spread) + planes * CACHE_LINE;  // planes may be padded
    pass->groups_at_once = groups_at_once(g, *pass, threads);
    book_scratch(spread, panel, pass);
}

bool plan_pass(const Gather& g, const cg_problem& p, bool to_fine, const PassList& list, index_t number, int lanes,
               int threads, int path, GatherPass* pass) {
    ClassSet& set = pass->classes;
    fill_classes(g, p, to_fine, list, number, &set);
    index_t extent[4] = {g.batch, 0, 0, 0};
    for (int a = 0; a < 3; ++a)
        for (int c = 0; c < set.per[a]; ++c) extent[a + 1] = max(extent[a + 1], set.axis[a][c].cells);
    pass->blocks.total = 0;
    for (int a = 0; a < 4; ++a)
        if (extent[a] == 0) {  // a residue beyond the last cell
            pass->task.bytes = pass->shared.bytes = 0;
            return true;
        }
    pass->side_by_side = path == PATH_GEMM_IMAGES;
    pass->direct = path == PATH_GEMM_DIRECT || pass->side_by_side;
    // Eight or sixteen images side by side fill two vectors, not three.
    choose_register_tile(pass->side_by_side ? index_t(MR_OF_16_REGISTERS) : g.out_channels, lanes, &pass->mr,
                         &pass->nr_vectors);
    const index_t panel = index_t(pass->nr_vectors) * lanes, target = pixels_wanted(g, set, path);
    const index_t sample[4] = {1, extent[1], extent[2], extent[3]};
    Spread spread[3];
    const index_t sample_target = pixels_wanted(g, set, ordering_path(p, to_fine, path));
    if (!plan_reduction(g, p, to_fine, make_blocks(sample, sample_target, 16), spread, pass)) return false;
    Blocks nominal = pass->side_by_side ? image_blocks(set, g, extent) : make_blocks(extent, target, 16);
    if (!pass->side_by_side) fit_images(spread, pass->channel_block, &nominal);
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
    book_task(g, spread, panel, threads, pass);
    // Wide halos and planes of a few cells, all of them padded, can make the tile of many images several times as large
    // as its cells say. What orders a sum does not see how many images a block has.
    while (pass->task.bytes > TASK_BYTES && pass->blocks.per[0] > 1) {
        set_images((pass->blocks.per[0] + 1) / 2, &pass->blocks);
        book_task(g, spread, panel, threads, pass);
    }
    return true;
}

// Whole channels, so that leaving out taps that would multiply padding does not move the cuts.
index_t chain_channels(const GatherPass& pass, index_t taps) {
    if (pass.plain_chain > 0) return pass.plain_chain;
    const index_t limit = max(1, pass.chain / taps);
    const index_t part = even_part(pass.channel_block, limit, 1);
    if (!pass.paired || part % 2 == 0) return part;
    return part < 16 ? max(2, part - 1) : part + 1;  // a few channels more would be a chain much longer
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
            if (!plan_pass(g, p, to_fine, list, 0, 8, 1, ordering_path(p, to_fine, path), &trial)) continue;
        }
        break;
    }
    list.total = list.count[0] * list.count[1] * list.count[2];
    for (int a = 0; a < 3 && to_fine; ++a)
        if (!list.merged[a] && list.count[a] < s[a]) list.zero_first = true;
    return list;
}

// A direct panel runs over the padding columns between tile rows, and what it loads is not aligned; packing costs about
// as much as six more rows. What orders the sums of either follows this, whatever the machine's vectors are.
static bool reading_orders(const cg_problem& p, bool to_fine) {
    const index_t rows = to_fine ? p.fine_channels : p.coarse_channels;
    const index_t step = to_fine ? p.stride[2] : 1;
    const index_t cells = ceil_div(to_fine ? p.fine[2] : p.coarse[2], step);
    const bool one_line = (to_fine ? p.fine[1] : p.coarse[1]) == 1;
    const index_t span = one_line ? 0 : (p.window[2] - 1) * p.dilation[2] / p.stride[2];
    const double unaligned = one_line && p.window[2] > 1 ? 1.04 : 1.02;
    return unaligned * double(cells + span) / double(max(1, cells)) < 1.0 + 6.0 / double(max(1, rows));
}

VectorCosts vector_costs(const Call& call) {
    const cg_tensor& source = source_of(call.p, call.contraction);
    const bool pairs = fits_bfloat(source) && fits_bfloat(call.p.weight_operand);
    return call.lanes < 16 ? VectorCosts{call.lanes, 1, 1, 1} : VectorCosts{call.lanes, pairs ? 2.3 : 1.8, 1.07, 1.1};
}

// Two lines share their padding: as many columns as a window reaches to one side lie between them, and the last vectors
// of a plane go beyond it.
bool reading_beats_packing(const cg_problem& p, bool to_fine, const VectorCosts& costs) {
    const index_t *out = to_fine ? p.fine : p.coarse, *step = p.stride;
    if (costs.lanes < 16 || window_taps(p) == 1 || out[1] == 1 || step[1] > 1 || step[2] > 1)
        return reading_orders(p, to_fine);
    const index_t pitch = out[2] + (p.window[2] - 1) * p.dilation[2] / 2;
    const double columns = double(round_up((out[1] - 1) * pitch + out[2], 2 * costs.lanes));
    const double rows = double(to_fine ? p.fine_channels : p.coarse_channels);
    return 1.02 * columns / (double(out[1]) * double(max(1, out[2]))) < costs.packed + 6.0 / (rows > 1 ? rows : 1);
}

bool gemm_data::accepts(const Call& call, Plan*) {
    return !uses_double(call.p, call.contraction) && call.contraction != TO_WEIGHT;
}

bool gemm_data::prefers_images(const Call& call, Plan*) {
    const cg_tensor &from = source_of(call.p, call.contraction), &to = result_of(call.p, call.contraction);
    return (from.stride[4] == 1 || from.stride[1] == 1) && (to.stride[4] == 1 || to.stride[1] == 1) &&
           images_beat_packing(call.p, call.contraction == TO_FINE, vector_costs(call));
}

bool gemm_data::prefers_direct(const Call& call, Plan*) {
    return reading_beats_packing(call.p, call.contraction == TO_FINE, vector_costs(call));
}

void gemm_data::plan(const Call& call, int path, Plan* plan) {
    const bool to_fine = call.contraction == TO_FINE;
    plan->data.g = make_gather(call.p, to_fine);
    plan->data.list = list_passes(call.p, to_fine, path);
    plan_pass(plan->data.g, call.p, to_fine, plan->data.list, 0, call.lanes, call.threads, path, &plan->data.first);
}
void gemm_data::plan_images(const Call& call, Plan* plan) { gemm_data::plan(call, PATH_GEMM_IMAGES, plan); }
void gemm_data::plan_direct(const Call& call, Plan* plan) { gemm_data::plan(call, PATH_GEMM_DIRECT, plan); }

// Passes differ by one cell or tap at most: the first few tell.
size_t gemm_data::workspace(const Call& call, const Plan& plan) {
    const DataPlan& data = plan.data;
    size_t largest = 0;
    for (index_t i = 0; i < min(data.list.total, 64); ++i) {
        GatherPass other;
        if (i > 0)
            plan_pass(data.g, call.p, call.contraction == TO_FINE, data.list, i, call.lanes, call.threads, plan.path,
                      &other);
        const GatherPass& pass = i > 0 ? other : data.first;
        const size_t bytes = pass.shared.bytes + size_t(call.threads) * pass.task.bytes;
        if (bytes > largest) largest = bytes;
    }
    return largest;
}

void gemm_data::cuts(const Call&, const Plan& plan, int64_t cuts[CG_CUTS]) {
    const Gather& g = plan.data.g;
    const GatherPass& pass = plan.data.first;
    const bool by_channel = plan.path == PATH_DEPTHWISE_ROWS;
    if (pass.blocks.total == 0) return;
    set_block_cuts(pass.blocks, cuts);
    cuts[CG_CUT_WINDOW] = pass.tap_groups[0] * pass.tap_groups[1] * pass.tap_groups[2];
    cuts[CG_CUT_REDUCED_CHANNELS] = ceil_div(g.in_channels, pass.channel_block);
    cuts[CG_CUT_RESULT_CHANNELS] = by_channel ? 1 : pass.chunks * ceil_div(g.out_channels, pass.mr);
    cuts[CG_CUT_GROUPS] = ceil_div(g.groups, by_channel ? pass.chunk_rows : pass.groups_at_once);
}

}  // namespace cg
