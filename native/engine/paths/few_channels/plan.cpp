// Few channels per group: vectors of eight pixels.
#include "blocking/blocking_numbers.h"
#include "numbers/formats.h"
#include "paths.h"

namespace cg {
namespace {

void plan_few(const cg_problem& p, int threads, FewPlan* plan) {
    ClassSet set;
    set.count = 1;
    plan->count = 1;
    Spread spread[3];
    for (int a = 0; a < 3; ++a) {
        plan->taps[a] = coarse_taps(p, a);
        set.per[a] = 1;
        set.axis[a][0] = AxisClass{plan->taps[a], 0, p.coarse[a]};
        spread[a] = axis_spread(set, a, 1, p.stride[a]);
        plan->span[a] = spread[a].span;
        plan->slots[a] = spread[a].slots;
        plan->count *= p.window[a];
    }
    const index_t c = p.coarse_channels, f = p.fine_channels;
    const index_t extent[4] = {p.batch, p.coarse[0], p.coarse[1], p.coarse[2]};
    // Few pixels of few groups in smaller blocks, so that there are tasks for several threads.
    const double pixels = double(p.batch) * double(p.coarse[0]) * double(p.coarse[1]) * double(p.coarse[2]);
    const double shares = pixels * double(p.groups) / 8;
    const index_t target =
        shares < NARROW_BLOCK_PIXELS ? max(index_t(MIN_FEW_PIXELS), index_t(shares)) : index_t(NARROW_BLOCK_PIXELS);
    plan->blocks = make_blocks(extent, target, 16);
    // A line of whole vectors is read in place: it must be cut into whole vectors, too.
    if (extent[3] % 8 == 0 && plan->blocks.per[3] % 8 != 0) plan->blocks = make_blocks(extent, target / 16 * 16, 16);
    const Blocks& b = plan->blocks;
    plan->block_steps = b.per[0] * b.per[1] * b.per[2] * ceil_div(b.per[3], 8);
    plan->coarse_plane = 8 * plan->block_steps;
    const index_t sums = p.groups * c * f * plan->count * 8;
    plan->partials = min(min(16, SHARED_FLOATS / sums), max(min(b.total, ceil_div(8, p.groups)), b.total / 2));
    const index_t tile_channel = tile_floats(b, spread), tile_limit = WEIGHT_TILE_FLOATS;
    plan->tile_channels = even_part(f, clamp(tile_limit / tile_channel, 1, f), 1);
    // Channels side by side: groups that share a cache line, unless threads would wait for each other.
    const bool lines_shared = channels_touch(p.fine_operand) || channels_touch(p.coarse_operand);
    index_t groups = lines_shared && plan->tile_channels == f ? clamp(16 / max(f, c), 1, p.groups) : 1;
    while (groups > 1 && (plan->partials * (p.groups / groups) < 2 * threads || groups * f * tile_channel > tile_limit))
        groups /= 2;
    plan->groups_per_task = groups;
    plan->task.bytes = plan->shared.bytes = 0;
    const index_t tile = groups * plan->tile_channels * tile_channel + 8;
    plan->tile_fits = tile <= TILE_FLOATS;
    plan->tile = plan->task.book<float>(tile);
    plan->coarse = plan->task.book<float>(groups * c * plan->coarse_plane);
    plan->steps = plan->task.book<int>(2 * plan->block_steps);
    plan->rows = plan->task.book<int>(plan->tile_channels * plan->count);
    const index_t biases = plan->partials * p.groups * c;
    plan->bias_sums = sums_bias_beside(p, biases) ? biases : 0;
    plan->bias = plan->shared.book<double>(plan->bias_sums);
    plan->sums = plan->shared.book<float>(plan->partials * sums);
}

}  // namespace

// Whether the sums of all lanes fit, and the tile of a channel. The latter does not depend on the number of threads:
// groups are only copied together where their tile is smaller than that.
bool few_channels::accepts(const Call& call, Plan* draft) {
    const cg_problem& p = call.p;
    if (call.contraction != TO_WEIGHT || uses_double(p, call.contraction)) return false;
    double sums = double(p.coarse_channels) * double(p.fine_channels) * double(p.groups) * 8, tile = 1;
    if (p.coarse_channels > MAX_FEW_CHANNELS || sums == 0 || p.batch == 0) return false;
    for (int a = 0; a < 3; ++a) {
        if (p.fine[a] == 0 || p.coarse[a] == 0 || p.window[a] == 0) return false;
        sums *= double(p.window[a]);
        // Cells between the first and the last tap, and those of a block of one pixel: of every residue.
        tile *= double(p.window[a] - 1) * double(p.dilation[a]) + double(p.stride[a]);
    }
    if (sums > double(SHARED_FLOATS / 2) || tile > double(TILE_FLOATS)) return false;
    plan_few(p, call.threads, &draft->few);
    draft->path = PATH_FEW_CHANNELS;
    return draft->few.tile_fits;
}

// Both layouts waste lanes: this one at the end of each line, gemm_weight in its last panel of channels. Choose the
// smaller waste. Short lines are mostly copying, and every thread needs a share. Panels of 16 go in pairs of bfloat16
// where a processor has them.
bool few_channels::prefers(const Call& call, Plan* draft) {
    const cg_problem& p = call.p;
    const index_t cells = p.coarse[2], channels = p.coarse_channels, lanes = round_up(channels, 8);
    if (channels > 8 && fits_bfloat(p.fine_operand) && fits_bfloat(p.coarse_operand)) return false;
    return cells >= 5 && 10 * lanes * cells >= 7 * channels * round_up(cells, 8) && draft->few.partials * p.groups >= 4;
}

void few_channels::plan(const Call& call, Plan* plan) {
    if (plan->path != PATH_FEW_CHANNELS) plan_few(call.p, call.threads, &plan->few);
    plan->sums_bias = plan->few.bias_sums > 0;
}

size_t few_channels::workspace(const Call& call, const Plan& plan) {
    return plan.few.shared.bytes + size_t(call.threads) * plan.few.task.bytes;
}

void few_channels::cuts(const Call& call, const Plan& plan, int64_t cuts[CG_CUTS]) {
    set_block_cuts(plan.few.blocks, cuts);
    cuts[CG_CUT_REDUCED_CHANNELS] = ceil_div(call.p.fine_channels, plan.few.tile_channels);
    cuts[CG_CUT_RESULT_CHANNELS] = ceil_div(call.p.coarse_channels, MAX_TOGETHER);
    cuts[CG_CUT_GROUPS] = ceil_div(call.p.groups, plan.few.groups_per_task);
    cuts[CG_CUT_PARTIALS] = plan.few.partials;
}

}  // namespace cg
