// Channels side by side in memory, one per group or a few: blocks of pixels and of channels.
#include "blocking/blocking_numbers.h"
#include "paths.h"

namespace cg {
namespace {

// Cells of the source under a block.
index_t source_cells(const cg_problem& p, bool to_fine, const Blocks& blocks) {
    index_t box = 1;
    for (int a = 0; a < 3; ++a) {
        const index_t reach = (p.window[a] - 1) * p.dilation[a], cells = blocks.per[a + 1];
        const index_t limit = to_fine ? p.coarse[a] : p.fine[a];
        box *= min(limit, to_fine ? (cells - 1 + reach) / p.stride[a] + 2 : (cells - 1) * p.stride[a] + 1 + reach);
    }
    return box;
}

void plan_channels(const cg_problem& p, int contraction, int threads, ChannelPlan* plan) {
    const bool to_fine = contraction == TO_FINE;
    const index_t taps = p.window[0] * p.window[1] * p.window[2];
    plan->channels_per_group = p.fine_channels;
    plan->channels = p.groups * plan->channels_per_group;
    index_t extent[4] = {p.batch, 0, 0, 0};
    for (int a = 0; a < 3; ++a) extent[a + 1] = to_fine ? p.fine[a] : p.coarse[a];
    // Few taps: float32 is read in place, all channels of a cell together. Many: a buffer without the cache-set
    // collisions of the tensor's own pitch pays, and it should stay in L1.
    plan->copies = taps > MAX_TAPS_IN_PLACE;
    plan->block = clamp(round_up(plan->channels, 16), 16, plan->copies ? 64 : 256);
    // Gradients of the data may be cut as the threads like; the blocks of the weight sum are the problem's.
    index_t target = CHANNEL_BLOCK_PIXELS;
    plan->blocks = make_blocks(extent, target, 16);
    plan->source_fits = source_cells(p, to_fine, plan->blocks) * plan->block <= 4 * ACCUMULATOR_FLOATS;
    while (contraction != TO_WEIGHT && target > 64 &&
           plan->blocks.total * ceil_div(plan->channels, plan->block) < 4 * index_t(threads)) {
        target /= 2;
        plan->blocks = make_blocks(extent, target, 16);
    }
    const index_t source = source_cells(p, to_fine, plan->blocks) * plan->block;
    const index_t line = contraction == TO_WEIGHT ? target * plan->block : plan->blocks.per[3] * plan->block;
    const index_t room = SHARED_FLOATS / (taps * plan->channels_per_group);
    plan->partials = contraction == TO_WEIGHT ? clamp(min(8, plan->blocks.total / 2), 1,
                                                      max(1, room / min(room, round_up(plan->channels, 16))))
                                              : 1;
    const index_t fit = room / plan->partials / plan->block * plan->block;
    plan->channels_at_once = min(round_up(plan->channels, plan->block), max(16, fit));
    plan->block = min(plan->block, plan->channels_at_once);
    plan->task.bytes = plan->shared.bytes = 0;
    plan->source = plan->task.book<float>(source);
    plan->line = plan->task.book<float>(line);
    plan->tied_rows = plan->task.book<float>(p.window[0] * p.window[1] * 4);
    plan->weights = plan->shared.book<float>(plan->partials * plan->channels_at_once * taps * plan->channels_per_group);
}

// Whether the channels of a cell are side by side, and a block fits: the plan tells, and is kept.
bool side_by_side(const Call& call, int path, Plan* draft) {
    const cg_problem& p = call.p;
    const cg_tensor& to = call.contraction == TO_WEIGHT ? p.coarse_operand : result_of(p, call.contraction);
    if (source_of(p, call.contraction).stride[1] != 1 || to.stride[1] != 1) return false;
    const index_t taps = p.window[0] * p.window[1] * p.window[2];
    if (taps > SHARED_FLOATS / 64 / p.fine_channels || (call.contraction == TO_FINE && p.stride[2] > 64)) return false;
    plan_channels(p, call.contraction, call.threads, &draft->channels);
    draft->path = path;
    return draft->channels.source_fits;
}

// Sums of many taps over a plane that stays in cache: copying its channels to planes of their own costs less than it
// saves.
bool rows_beat_channels(const cg_problem& p) {
    const double taps = window_taps(p);
    return taps >= 25 && p.window[2] < taps && p.stride[1] == 1 && p.stride[2] == 1 &&
           double(p.coarse[1]) * double(p.coarse[2]) <= 4096;
}

}  // namespace

bool depthwise_channels::accepts(const Call& call, Plan* draft) {
    return depthwise_rows::accepts(call, draft) && side_by_side(call, PATH_DEPTHWISE_CHANNELS, draft);
}

// With a single channel or a single column both strides may be 1: rows are as good.
bool depthwise_channels::prefers(const Call& call, Plan*) {
    return call.p.groups >= 8 && source_of(call.p, call.contraction).stride[4] != 1 &&
           !(call.contraction == TO_WEIGHT && rows_beat_channels(call.p));
}

bool grouped_channels::accepts(const Call& call, Plan* draft) {
    const index_t channels_per_group = call.p.fine_channels;
    return (channels_per_group == 2 || channels_per_group == 4) && call.p.coarse_channels == channels_per_group &&
           !uses_double(call.p, call.contraction) && side_by_side(call, PATH_GROUPED_CHANNELS, draft);
}

// Lines of at least a few vectors of cells under a window that is not too large; taps of data gradients must be
// neighbours.
bool grouped_channels::prefers(const Call& call, Plan*) {
    const cg_problem& p = call.p;
    const double taps = window_taps(p);
    if (p.groups * p.fine_channels < 16 || source_of(p, call.contraction).stride[4] == 1) return false;
    // Rotations are an order of their own, not that of the plain loops.
    if (call.contraction != TO_WEIGHT && multiplications_of_a_sample(p) < PLAIN_MULTIPLICATIONS) return false;
    if (call.contraction == TO_WEIGHT) return taps >= 2 && taps <= 27 && p.coarse[2] >= 12;
    const index_t line = call.contraction == TO_FINE ? p.fine[2] / p.stride[2] : p.coarse[2];
    return taps <= 12 && line >= 24 && p.dilation[2] == 1 && (call.contraction == TO_FINE || p.stride[2] == 1);
}

void depthwise_channels::plan(const Call& call, Plan* plan) {
    if (plan->path != PATH_DEPTHWISE_CHANNELS && plan->path != PATH_GROUPED_CHANNELS)
        plan_channels(call.p, call.contraction, call.threads, &plan->channels);
}

size_t depthwise_channels::workspace(const Call& call, const Plan& plan) {
    return plan.channels.shared.bytes + size_t(call.threads) * plan.channels.task.bytes;
}

void depthwise_channels::cuts(const Call&, const Plan& whole, int64_t cuts[CG_CUTS]) {
    const ChannelPlan& plan = whole.channels;
    set_block_cuts(plan.blocks, cuts);
    cuts[CG_CUT_GROUPS] = ceil_div(plan.channels, plan.block) * ceil_div(plan.channels, plan.channels_at_once);
    cuts[CG_CUT_PARTIALS] = plan.partials;
}

}  // namespace cg
