// Depthwise along rows: data gradients one channel at a time, weight gradients summed plane by plane.
#include "blocking/blocking_numbers.h"
#include "paths.h"

namespace cg {

// One channel at a time; tasks take as many as make them worth handing out.
void plan_depthwise_rows(const Gather& g, const Blocks& nominal, const Spread spread[3], GatherPass* pass) {
    const ClassSet& set = pass->classes;
    const index_t all_taps = pass->reduction / max(1, g.in_channels), taps = max(1, pass->sum_taps);
    pass->blocks = nominal;
    pass->tile_channel = tile_floats(nominal, spread);
    pass->columns = nominal.per[0] * nominal.per[1] * nominal.per[2] * round_up(nominal.per[3], 8);
    pass->chunks = 1;
    pass->chunk_rows = clamp(DEPTHWISE_TASK_PRODUCTS / max(1, pass->columns * all_taps), 1, g.groups);
    pass->row_splits = 1;
    pass->shared_weights = true;
    pass->chunks_at_once = clamp(SHARED_FLOATS / max(1, pass->reduction), 1, g.groups);
    Booking& task = pass->task;
    task.bytes = pass->shared.bytes = 0;
    pass->tile = task.book<float>(pass->tile_channel + 64);
    pass->accumulators = task.book<float>(pass->columns * set.count);
    pass->offsets = task.book<int>(taps);
    pass->flipped = task.book<float>(taps);
    pass->planes = task.book<int>(taps);
    pass->strips = task.book<int>(nominal.per[0] * nominal.per[1]);
    pass->plane = task.book<float>(nominal.per[2] * nominal.per[3] * set.per[2] + 64);
    pass->packed = pass->shared.book<float>(pass->chunks_at_once * pass->reduction);
}

static void plan_depthwise_weight(const cg_problem& p, DepthwiseWeightPlan* plan) {
    ClassSet set;
    set.count = 1;
    for (int a = 0; a < 3; ++a) {
        plan->taps[a] = coarse_taps(p, a);
        set.per[a] = 1;
        set.axis[a][0] = AxisClass{plan->taps[a], 0, p.coarse[a]};
        plan->tap_groups[a] = 1;
    }
    plan->wide =
        p.window[2] >= WIDE_WINDOW && p.dilation[1] == 1 && p.dilation[2] == 1 && p.stride[1] == 1 && p.stride[2] == 1;
    const index_t extent[4] = {p.batch, p.coarse[0], p.coarse[1], p.coarse[2]};
    plan->blocks = make_blocks(extent, DEPTHWISE_WEIGHT_PIXELS, 16);
    Spread spread[3];
    cut_window(set, p.stride, plan->blocks, TILE_FLOATS, MAX_DEPTHWISE_TAPS, plan->tap_groups, spread);
    plan->group_count = plan->tap_groups[0] * plan->tap_groups[1] * plan->tap_groups[2];
    plan->max_taps = spread[0].taps * spread[1].taps * spread[2].taps;
    for (int a = 0; a < 3; ++a) {
        plan->span[a] = spread[a].span;
        plan->slots[a] = spread[a].slots;
    }
    const index_t tile = tile_floats(plan->blocks, spread);
    const index_t coarse = (plan->blocks.per[2] + 6) * round_up(plan->blocks.per[3], 8);
    plan->sum_floats =
        plan->wide ? spread[0].taps * (spread[1].taps + 3) * round_up(spread[2].taps, 32) : plan->max_taps * 8;
    // Channels that lie side by side are copied together: as many as a cache line has, while two threads have work and
    // what they hold stays near.
    plan->channels_at_once = 1;
    if (channels_touch(p.fine_operand) && channels_touch(p.coarse_operand)) {
        const index_t one = tile + coarse + plan->sum_floats + plan->max_taps;
        plan->channels_at_once = clamp(DEPTHWISE_TASK_FLOATS / one, 1, p.groups >= 64 ? 16 : 8);
    }
    const index_t together = plan->channels_at_once;
    const index_t windows = p.groups * plan->group_count;
    // Few channels: runs of pixels are summed separately, as many as the problem (not the machine) gives.
    plan->partials = 1;
    if (windows < 32)
        plan->partials = clamp(32 / windows, 1, min(plan->blocks.total, SHARED_FLOATS / (windows * plan->max_taps)));
    plan->sums_bias = p.bias.data != nullptr && p.bias_source == 0 && plan->partials == 1 && plan->group_count == 1 &&
                      together == 1 && plan->blocks.total == plan->blocks.count[0] && plan_bias(p).joined;
    // The padding of a tile stays zero from one channel to the next: a quarter of the time of planes of 14 x 14.
    plan->in_turn = 1;
    if (plan->partials == 1 && plan->group_count == 1 && together == 1 && plan->blocks.total == plan->blocks.count[0])
        plan->in_turn = clamp(p.groups / DEPTHWISE_TASKS, 1, 16);
    plan->task.bytes = plan->shared.bytes = 0;
    plan->tile = plan->task.book<float>(tile * together + 128);
    plan->coarse = plan->task.book<float>(coarse * together);
    plan->sums = plan->task.book<float>(plan->sum_floats * together);
    plan->offsets = plan->task.book<int>(plan->max_taps);
    plan->windows = plan->task.book<float>(plan->max_taps * together + 16);
    plan->partial_sums = Piece<float>{0, 0};
    if (plan->partials > 1) plan->partial_sums = plan->shared.book<float>(plan->partials * windows * plan->max_taps);
}

// Data gradients hold the window of a channel whole: beyond this the other paths cut it.
bool depthwise_rows::accepts(const Call& call, Plan*) {
    return is_depthwise(call.p) && !uses_double(call.p, call.contraction) &&
           (call.contraction == TO_WEIGHT || window_taps(call.p) <= 1 << 20);
}

bool depthwise_rows::prefers(const Call&, Plan*) { return true; }

void depthwise_rows::plan(const Call& call, Plan* plan) {
    if (call.contraction != TO_WEIGHT) return gemm_data::plan(call, PATH_DEPTHWISE_ROWS, plan);
    plan_depthwise_weight(call.p, &plan->depthwise_weight);
    plan->sums_bias = plan->depthwise_weight.sums_bias;
}

size_t depthwise_rows::workspace(const Call& call, const Plan& plan) {
    if (call.contraction != TO_WEIGHT) return gemm_data::workspace(call, plan);
    return plan.depthwise_weight.shared.bytes + size_t(call.threads) * plan.depthwise_weight.task.bytes;
}

void depthwise_rows::cuts(const Call& call, const Plan& whole, int64_t cuts[CG_CUTS]) {
    if (call.contraction != TO_WEIGHT) return gemm_data::cuts(call, whole, cuts);
    const DepthwiseWeightPlan& plan = whole.depthwise_weight;
    set_block_cuts(plan.blocks, cuts);
    cuts[CG_CUT_WINDOW] = plan.group_count;
    cuts[CG_CUT_GROUPS] = ceil_div(call.p.groups, plan.channels_at_once * plan.in_turn);
    cuts[CG_CUT_PARTIALS] = plan.partials;
}

}  // namespace cg
