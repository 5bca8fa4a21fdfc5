// The weight contraction: panels of coarse channels over tiles of fine ones.
#include "blocking/blocking_numbers.h"
#include "numbers/formats.h"
#include "paths.h"

namespace cg {
namespace {

// Tap by tap, rows of a register tile are channels: the last of them may be incomplete, but padding is left out. Chains
// begin at other pixels then, so that the lanes have no say in it.
bool worth_listing(const cg_problem& p, const AxisTaps taps[3]) {
    const index_t mr = p.coarse_channels <= 8 ? MAX_MR : MR_OF_16_REGISTERS;
    double met = 1;
    for (int a = 0; a < 3; ++a) {
        index_t pixels = 0;
        if (p.window[a] > 32) return false;
        for (index_t k = 0; k < p.window[a]; ++k) {
            const index_t first = taps[a].first_offset + k * taps[a].offset_step;
            const index_t from = first >= 0 ? 0 : min(p.coarse[a], ceil_div(-first, p.stride[a]));
            const index_t to = p.fine[a] <= first ? 0 : min(p.coarse[a], ceil_div(p.fine[a] - first, p.stride[a]));
            pixels += max(0, to - from);
        }
        met *= double(pixels) / double(p.window[a] * max(1, p.coarse[a]));
    }
    const double filled = double(p.fine_channels) / double(round_up(p.fine_channels, mr));
    return met < 0.97 * filled;
}

}  // namespace

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
    plan->blocks = make_blocks(extent,
                               narrow       ? NARROW_BLOCK_PIXELS
                               : spread_out ? WIDE_WINDOW_BLOCK_PIXELS
                               : large      ? LARGE_RESULT_BLOCK_PIXELS
                                            : WEIGHT_BLOCK_PIXELS,
                               16);
    const index_t tile_limit = WEIGHT_TILE_FLOATS;
    Spread spread[3];
    plan->by_tap = worth_listing(p, plan->taps);
    cut_window(set, scale, plan->blocks, tile_limit, plan->by_tap ? LISTED_TAPS : MAX_WEIGHT_TAPS, plan->tap_groups,
               spread);
    plan->group_count = plan->tap_groups[0] * plan->tap_groups[1] * plan->tap_groups[2];
    plan->max_taps = spread[0].taps * spread[1].taps * spread[2].taps;
    for (int a = 0; a < 3; ++a) {
        plan->span[a] = spread[a].span;
        plan->slots[a] = spread[a].slots;
    }
    const index_t blocks = plan->blocks.total, pixels = p.batch * p.coarse[0] * p.coarse[1] * p.coarse[2];
    plan->partials = min(min(blocks, 16), min(max(1, SHARED_FLOATS / max(1, result)), max(1, blocks / 2)));
    plan->nr_vectors = c <= lanes ? 1 : 2;
    plan->mr = plan->nr_vectors == 1 ? MAX_MR : mr_of_two_vectors(lanes);
    const index_t panel = index_t(plan->nr_vectors) * lanes;
    plan->panels = ceil_div(c, panel);
    plan->tile_channel = tile_floats(plan->blocks, spread);
    // The rows of a tile, (channel, tap), are whole panels where there is room.
    plan->tile_channels =
        even_part(f, clamp(tile_limit / max(1, plan->tile_channel), 1, f), plan->mr / gcd(plan->mr, plan->max_taps));
    // Channels last under a single tap: copied as they lie (with more taps rows of one channel are read faster). What a
    // cell takes is an odd number of cache lines, so that neighbours do not fall on the same cache sets.
    plan->channels_inside = channels_touch(p.fine_operand) && taps == 1 && p.stride[2] == 1 && plan->tile_channels >= 8;
    if (plan->by_tap && plan->tile_channels < f)
        plan->tile_channels = max(plan->mr, plan->tile_channels / plan->mr * plan->mr);
    plan->tile_cell = plan->channels_inside ? ceil_div(plan->tile_channels, 32) * 32 + 16 : 0;
    plan->block_pixels = plan->blocks.per[0] * plan->blocks.per[1] * plan->blocks.per[2] * plan->blocks.per[3];
    // n pixels in chains of L err by about sqrt(L + n/L): a little more than the best length is as good, and faster.
    plan->chain = 48;
    while (plan->chain < 112 && 2 * plan->chain * plan->chain < 5 * min(pixels, 1 << 20)) plan->chain += 8;
    plan->chain =
        result_rounding_dominates(p.to_weight) ? plan->block_pixels : even_part(plan->block_pixels, plan->chain, 1);
    plan->channel_split = plan->panel_split = 1;
    const index_t wanted = (plan->partials > 1 ? 2 : 4) * index_t(threads);
    const double pack_price = double(c) * double(pixels);
    // Short rows are copied piece by piece.
    const double fill_price = double(f) * double(plan->tile_channel) * double(blocks) * (p.fine[2] < 8 ? 3 : 1);
    for (;;) {
        plan->channels_per_task = ceil_div(f, plan->channel_split);
        plan->panels_per_task = ceil_div(plan->panels, plan->panel_split);
        const index_t held = plan->channels_per_task * plan->max_taps * plan->panels_per_task * panel;
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
    plan->panel_block = clamp(packed / max(1, plan->block_pixels * panel), 1, plan->panels_per_task);
    const index_t lists = plan->by_tap ? plan->max_taps : 1;
    plan->task.bytes = plan->shared.bytes = 0;
    plan->tile = plan->task.book<float>(
        max(plan->tile_channels * plan->tile_channel + 64, plan->tile_cell * (plan->tile_channel + 1)));
    plan->coarse = plan->task.book<float>(plan->panel_block * panel * plan->block_pixels);
    plan->pixels = plan->task.book<int>(2 * plan->block_pixels * lists);
    plan->chain_ends = plan->task.book<int>(plan->block_pixels * lists);
    plan->listed = plan->task.book<int>(plan->max_taps);
    plan->rows = plan->task.book<int>(plan->tile_channels * plan->max_taps);
    plan->task.book<float>(plan->max_taps * 2 + 64);  // nobody's: what cg_workspace_bytes says must not change
    const index_t biases = plan->partials * p.groups * c;
    plan->bias_sums = sums_bias_beside(p, biases) ? biases : 0;
    plan->sums = plan->partial_sums = Piece<float>{0, 0};
    plan->bias = Piece<double>{0, 0};
    if (plan->bias_sums > 0) plan->bias = plan->shared.book<double>(biases);
    if (plan->partials > 1)
        plan->partial_sums = plan->shared.book<float>(plan->partials * p.groups * plan->panels * panel * f * taps);
    else plan->sums = plan->task.book<float>(plan->channels_per_task * plan->max_taps * plan->panels_per_task * panel);
}

bool gemm_packed::accepts(const Call& call, Plan*) { return !uses_double(call.p, call.contraction); }
bool gemm_packed::prefers(const Call&, Plan*) { return true; }

void gemm_packed::plan(const Call& call, Plan* plan) {
    if (call.contraction != TO_WEIGHT) return gemm_data::plan(call, PATH_GEMM_PACKED, plan);
    plan_weight(call.p, call.lanes, call.threads, &plan->weight);
    plan->sums_bias = plan->weight.bias_sums > 0;
}

size_t gemm_packed::workspace(const Call& call, const Plan& plan) {
    if (call.contraction != TO_WEIGHT) return gemm_data::workspace(call, plan);
    return plan.weight.shared.bytes + size_t(call.threads) * plan.weight.task.bytes;
}

void gemm_packed::cuts(const Call& call, const Plan& whole, int64_t cuts[CG_CUTS]) {
    if (call.contraction != TO_WEIGHT) return gemm_data::cuts(call, whole, cuts);
    const WeightPlan& plan = whole.weight;
    set_block_cuts(plan.blocks, cuts);
    cuts[CG_CUT_WINDOW] = plan.group_count;
    cuts[CG_CUT_REDUCED_CHANNELS] = ceil_div(call.p.fine_channels, plan.tile_channels) * plan.channel_split;
    cuts[CG_CUT_RESULT_CHANNELS] = plan.panels * ceil_div(plan.panels, plan.panel_block);
    cuts[CG_CUT_PARTIALS] = plan.partials;
}

}  // namespace cg
