// Channels side by side in memory, one per group or a few: blocks of pixels and of channels.
#include "paths/depthwise_channels/plan.h"
#include "blocking/blocking_numbers.h"
#include "problem.h"
#include "scratch.h"

namespace cg {

void plan_channels(const cg_problem& p, int contraction, int threads, ChannelPlan* plan) {
    const bool to_fine = contraction == TO_FINE;
    const index_t taps = p.window[0] * p.window[1] * p.window[2];
    plan->channels_per_group = p.fine_channels;
    plan->channels = p.groups * plan->channels_per_group;
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
        box *= min(limit, to_fine ? (cells - 1 + reach) / p.stride[a] + 2 : (cells - 1) * p.stride[a] + 1 + reach);
    }
    plan->source_floats = box * plan->block;
    plan->line_floats = contraction == TO_WEIGHT ? target * plan->block : plan->blocks.per[3] * plan->block;
    const index_t room = SHARED_FLOATS / (taps * plan->channels_per_group);
    plan->partials = contraction == TO_WEIGHT ? clamp(min(8, plan->blocks.total / 2), 1,
                                                      max(1, room / min(room, round_up(plan->channels, 16))))
                                              : 1;
    const index_t fit = room / plan->partials / plan->block * plan->block;
    plan->channels_at_once = min(round_up(plan->channels, plan->block), max(16, fit));
    plan->block = min(plan->block, plan->channels_at_once);
    plan->task_bytes = scratch_bytes(plan->source_floats) + scratch_bytes(plan->line_floats) +
                       scratch_bytes(p.window[0] * p.window[1] * 4);
    plan->shared_bytes = scratch_bytes(plan->partials * plan->channels_at_once * taps * plan->channels_per_group);
}

bool channels_fit(const cg_problem& p, int contraction) {
    const index_t taps = p.window[0] * p.window[1] * p.window[2];
    if (taps > SHARED_FLOATS / 64 / p.fine_channels || (contraction == TO_FINE && p.stride[2] > 64)) return false;
    ChannelPlan plan;
    plan_channels(p, contraction, 1, &plan);
    return plan.source_floats <= 4 * ACCUMULATOR_FLOATS;
}

}  // namespace cg
