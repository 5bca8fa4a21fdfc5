// Depthwise along rows: data gradients one channel at a time, weight gradients summed plane by plane.
#include "paths/depthwise_rows/plan.h"
#include "blocking/blocking_numbers.h"
#include "paths/gemm_data/plan_parts.h"
#include "scratch.h"

namespace cg {

// One channel at a time; tasks take as many as make them worth handing out.
void plan_depthwise_rows(const Gather& g, const Blocks& nominal, const Spread spread[3], GatherPass* pass) {
    const ClassSet& set = pass->classes;
    const index_t all_taps = pass->reduction / max(1, g.in_channels), taps = max(1, pass->sum_taps);
    pass->blocks = nominal;
    pass->tile_channel = tile_floats(nominal, spread);
    pass->columns = nominal.per[0] * nominal.per[1] * nominal.per[2] * round_up(nominal.per[3], 8);
    pass->chunks = 1;
    pass->chunk_rows = clamp(400000 / max(1, pass->columns * all_taps), 1, g.groups);
    pass->row_splits = 1;
    pass->shared_weights = true;
    pass->chunks_at_once = clamp(SHARED_FLOATS / max(1, pass->reduction), 1, g.groups);
    pass->plane_floats = nominal.per[2] * nominal.per[3] * set.per[2] + 64;
    pass->task_bytes = scratch_bytes(pass->tile_channel + 64) + scratch_bytes(pass->columns * set.count) +
                       3 * scratch_bytes(taps) + scratch_bytes(nominal.per[0] * nominal.per[1]) +
                       scratch_bytes(pass->plane_floats);
    pass->shared_bytes = scratch_bytes(pass->chunks_at_once * pass->reduction);
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
    plan->max_taps = spread[0].taps * spread[1].taps * spread[2].taps;
    for (int a = 0; a < 3; ++a) {
        plan->span[a] = spread[a].span;
        plan->slots[a] = spread[a].slots;
    }
    plan->tile_floats = tile_floats(plan->blocks, spread);
    plan->coarse_floats = (plan->blocks.per[2] + 6) * round_up(plan->blocks.per[3], 8);
    plan->sum_floats =
        plan->wide ? spread[0].taps * (spread[1].taps + 3) * round_up(spread[2].taps, 32) : plan->max_taps * 8;
    // Channels that lie side by side are copied together: as many as a cache line has, while two threads have work and
    // what they hold stays near.
    plan->channels_at_once = 1;
    if (channels_touch(p.fine_operand) && channels_touch(p.coarse_operand)) {
        const index_t one = plan->tile_floats + plan->coarse_floats + plan->sum_floats + plan->max_taps;
        plan->channels_at_once = clamp((1 << 17) / one, 1, p.groups >= 64 ? 16 : 8);
    }
    const index_t together = plan->channels_at_once;
    const index_t windows = p.groups * plan->group_count;
    // Few channels: runs of pixels are summed separately, as many as the problem (not the machine) gives.
    plan->partials = 1;
    if (windows < 32)
        plan->partials = clamp(32 / windows, 1, min(plan->blocks.total, SHARED_FLOATS / (windows * plan->max_taps)));
    plan->task_bytes = scratch_bytes(plan->tile_floats * together + 128) +
                       scratch_bytes(plan->coarse_floats * together) + scratch_bytes(plan->sum_floats * together) +
                       scratch_bytes(plan->max_taps) + scratch_bytes(plan->max_taps * together + 16);
    plan->shared_bytes = plan->partials > 1 ? scratch_bytes(plan->partials * windows * plan->max_taps) : 0;
}

}  // namespace cg
