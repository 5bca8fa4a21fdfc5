// Few channels per group: vectors of eight pixels.
#include "paths/few_channels/plan.h"
#include "blocking/blocking_numbers.h"
#include "blocking/tile_size.h"
#include "numbers/formats.h"
#include "paths/bias/plan.h"
#include "scratch.h"

namespace cg {

// Whether the sums of all lanes fit, and the tile of a channel.
bool few_fit(const cg_problem& p) {
    double sums = double(p.coarse_channels) * double(p.fine_channels) * double(p.groups) * 8, tile = 1;
    if (p.coarse_channels > MAX_FEW_CHANNELS || sums == 0 || p.batch == 0) return false;
    for (int a = 0; a < 3; ++a) {
        if (p.fine[a] == 0 || p.coarse[a] == 0 || p.window[a] == 0) return false;
        sums *= double(p.window[a]);
        // Cells between the first and the last tap, and those of a block of one pixel: of every residue.
        tile *= double(p.window[a] - 1) * double(p.dilation[a]) + double(p.stride[a]);
    }
    if (sums > double(SHARED_FLOATS / 2) || tile > double(TILE_FLOATS)) return false;
    FewPlan plan;
    plan_few(p, 1, &plan);
    return plan.tile_floats <= TILE_FLOATS;
}

// Lanes beyond the end of a line are lost; so are those of a panel beyond its channels. Short lines are mostly copying,
// and every thread needs a share. Panels of 16 go in pairs of bfloat16 where a processor has them.
bool few_beat_panels(const cg_problem& p) {
    FewPlan plan;
    plan_few(p, 1, &plan);
    const index_t cells = p.coarse[2], channels = p.coarse_channels, lanes = round_up(channels, 8);
    if (channels > 8 && fits_bfloat(p.fine_operand) && fits_bfloat(p.coarse_operand)) return false;
    return cells >= 5 && 10 * lanes * cells >= 7 * channels * round_up(cells, 8) && plan.partials * p.groups >= 4;
}

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
    const index_t target = shares < 800 ? max(192, index_t(shares)) : 800;
    plan->blocks = make_blocks(extent, target, 16);
    // A line of whole vectors is read in place: it must be cut into whole vectors, too.
    if (extent[3] % 8 == 0 && plan->blocks.per[3] % 8 != 0) plan->blocks = make_blocks(extent, target / 16 * 16, 16);
    const Blocks& b = plan->blocks;
    plan->block_steps = b.per[0] * b.per[1] * b.per[2] * ceil_div(b.per[3], 8);
    plan->coarse_plane = 8 * plan->block_steps;
    const index_t sums = p.groups * c * f * plan->count * 8;
    plan->partials = min(min(16, SHARED_FLOATS / sums), max(min(b.total, ceil_div(8, p.groups)), b.total / 2));
    const index_t tile_channel = tile_floats(b, spread), tile_limit = 40000;
    plan->tile_channels = even_part(f, clamp(tile_limit / tile_channel, 1, f), 1);
    // Channels side by side: groups that share a cache line, unless threads would wait for each other.
    const bool lines_shared = channels_touch(p.fine_operand) || channels_touch(p.coarse_operand);
    index_t groups = lines_shared && plan->tile_channels == f ? clamp(16 / max(f, c), 1, p.groups) : 1;
    while (groups > 1 && (plan->partials * (p.groups / groups) < 2 * threads || groups * f * tile_channel > tile_limit))
        groups /= 2;
    plan->groups_per_task = groups;
    plan->tile_floats = groups * plan->tile_channels * tile_channel + 8;
    plan->task_bytes = scratch_bytes(plan->tile_floats) + scratch_bytes(groups * c * plan->coarse_plane) +
                       scratch_bytes(2 * plan->block_steps) + scratch_bytes(plan->tile_channels * plan->count);
    const index_t biases = plan->partials * p.groups * c;
    plan->bias_sums = sums_bias_beside(p, biases) ? biases : 0;
    plan->shared_bytes = scratch_bytes(plan->partials * sums) + scratch_bytes(2 * plan->bias_sums);
}

}  // namespace cg
