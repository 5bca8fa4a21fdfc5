// Depthwise: weights summed along rows, and all gradients where channels lie side by side, also those of small groups.
#include "plan_parts.h"

namespace cg {

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
    // Channels that lie side by side are copied together: as many as a cache line has, while two threads have work and
    // what they hold stays near.
    plan->channels_at_once = 1;
    if (channels_touch(p.fine_operand) && channels_touch(p.coarse_operand)) {
        const index_t one = plan->tile_floats + plan->coarse_floats + plan->sum_floats + plan->most_taps;
        plan->channels_at_once = clamp((1 << 17) / one, 1, p.groups >= 64 ? 16 : 8);
    }
    const index_t together = plan->channels_at_once;
    const index_t windows = p.groups * plan->group_count;
    // Few channels: runs of pixels are summed apart, as many as the problem (not the machine) gives.
    plan->partials = 1;
    if (windows < 32)
        plan->partials = clamp(32 / windows, 1, least(plan->blocks.total, SHARED_FLOATS / (windows * plan->most_taps)));
    plan->task_bytes = floats(plan->tile_floats * together + 128) + floats(plan->coarse_floats * together) +
                       floats(plan->sum_floats * together) + floats(plan->most_taps) +
                       floats(plan->most_taps * together + 16);
    plan->shared_bytes = plan->partials > 1 ? floats(plan->partials * windows * plan->most_taps) : 0;
}

void plan_channels(const cg_problem& p, int contraction, int threads, ChannelPlan* plan) {
    const bool to_fine = contraction == TO_FINE;
    const index_t taps = p.window[0] * p.window[1] * p.window[2];
    plan->mates = p.fine_channels;
    plan->channels = p.groups * plan->mates;
    index_t extent[4] = {p.batch, 0, 0, 0};
    for (int a = 0; a < 3; ++a) extent[a + 1] = to_fine ? p.fine[a] : p.coarse[a];
    // Few taps: float32 is read in place, all channels of a cell together. Many: a buffer without the cache-set
    // collisions of the tensor's own pitch pays, and it should stay in L1.
    plan->copies = taps > 12;
    plan->block = clamp(round_up(plan->channels, 16), 16, plan->copies ? 64 : 256);
    // Gradients of the data may be cut as the threads like; the blocks of the weight sum are the problem's.
    index_t target = 1024;
    plan->blocks = make_blocks(extent, target, 16);
    while (contraction != TO_WEIGHT && target > 64 &&
           plan->blocks.total * ceil_div(plan->channels, plan->block) < 4 * index_t(threads)) {
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
    const index_t room = SHARED_FLOATS / (taps * plan->mates);
    plan->partials = contraction == TO_WEIGHT
        ? clamp(least(8, plan->blocks.total / 2), 1, most(1, room / least(room, round_up(plan->channels, 16)))) : 1;
    const index_t fit = room / plan->partials / plan->block * plan->block;
    plan->channels_at_once = least(round_up(plan->channels, plan->block), most(16, fit));
    plan->block = least(plan->block, plan->channels_at_once);
    plan->task_bytes = floats(plan->source_floats) + floats(plan->line_floats) +
                       floats(p.window[0] * p.window[1] * 4);
    plan->shared_bytes = floats(plan->partials * plan->channels_at_once * taps * plan->mates);
}

bool channels_fit(const cg_problem& p, int contraction) {
    const index_t taps = p.window[0] * p.window[1] * p.window[2];
    if (taps > SHARED_FLOATS / 64 / p.fine_channels || (contraction == TO_FINE && p.stride[2] > 64)) return false;
    ChannelPlan plan;
    plan_channels(p, contraction, 1, &plan);
    return plan.source_floats <= 4 * ACCUMULATOR_FLOATS;
}

}  // namespace cg
