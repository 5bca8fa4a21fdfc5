// The weight contraction: panels of coarse channels over tiles of fine ones, few of them, or columns of few pixels.
#include "plan_parts.h"

namespace cg {
namespace {

// Tap by tap, rows of a register tile are channels: the last of them may be incomplete, but padding is left out. Chains
// begin at other pixels then, so that the lanes have no say in it.
bool worth_listing(const cg_problem& p, const AxisTaps taps[3]) {
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

// Coarse lines are at hand when they have been copied: no need to read them once more for the bias. Channels last, the
// copy is summed itself; it must not have been shortened. `biases`: of all runs of pixels.
bool sums_bias_beside(const cg_problem& p, index_t biases) {
    const cg_tensor& coarse = p.coarse_operand;
    return p.bias.data != nullptr && p.bias_source == 0 && biases <= 32768 &&
           (coarse.stride[4] == 1 || (coarse.stride[1] == 1 && coarse.cast == coarse.dtype));
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
    // The rows of a tile, (channel, tap), are whole panels where there is room.
    plan->tile_channels = even_part(f, clamp(tile_limit / most(1, plan->tile_channel), 1, f),
                                    plan->panel_rows / gcd(plan->panel_rows, plan->most_taps));
    // Channels last under a single tap: copied as they lie (with more taps rows of one channel are read faster). What a
    // cell takes is an odd number of cache lines, so that neighbours do not fight for the same cache sets.
    plan->channels_inside =
        channels_touch(p.fine_operand) && taps == 1 && p.stride[2] == 1 && plan->tile_channels >= 8;
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
    plan->tile_floats = most(plan->tile_channels * plan->tile_channel + 64,
                             plan->tile_cell * (plan->tile_channel + 1));
    plan->task_bytes = floats(plan->tile_floats) + floats(plan->panel_block * panel * plan->block_pixels) +
                       floats(2 * plan->block_pixels * (plan->by_tap ? plan->most_taps : 1)) +
                       floats(plan->block_pixels * (plan->by_tap ? plan->most_taps : 1)) + floats(plan->most_taps) +
                       floats(plan->tile_channels * plan->most_taps) +
                       (plan->partials > 1 ? 0 : floats(plan->channels_per_task * plan->most_taps *
                                                        plan->panels_per_task * panel)) +
                       floats(plan->most_taps * 2 + 64);
    plan->shared_bytes = plan->partials > 1
        ? floats(plan->partials * p.groups * plan->panels * panel * f * taps) : 0;
    const index_t biases = plan->partials * p.groups * c;
    plan->bias_sums = sums_bias_beside(p, biases) ? biases : 0;
    plan->shared_bytes += plan->bias_sums > 0 ? floats(2 * biases) : 0;
}

// Whether the sums of all lanes fit, and the tile of a channel.
bool few_fit(const cg_problem& p) {
    double sums = double(p.coarse_channels) * double(p.fine_channels) * double(p.groups) * 8, tile = 1;
    if (p.coarse_channels > MOST_FEW_CHANNELS || sums == 0 || p.batch == 0) return false;
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

// Lanes beyond the end of a line are lost; so are those of a panel beyond its channels. Short lines are mostly copying, and
// every thread needs a share. Panels of 16 go in pairs of bfloat16 where a processor has them.
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
    const index_t target = shares < 800 ? most(192, index_t(shares)) : 800;
    plan->blocks = make_blocks(extent, target, 16);
    // A line of whole vectors is read in place: it must be cut into whole vectors, too.
    if (extent[3] % 8 == 0 && plan->blocks.per[3] % 8 != 0)
        plan->blocks = make_blocks(extent, target / 16 * 16, 16);
    const Blocks& b = plan->blocks;
    plan->block_steps = b.per[0] * b.per[1] * b.per[2] * ceil_div(b.per[3], 8);
    plan->coarse_plane = 8 * plan->block_steps;
    const index_t sums = p.groups * c * f * plan->count * 8;
    plan->partials = least(least(16, SHARED_FLOATS / sums), most(least(b.total, ceil_div(8, p.groups)), b.total / 2));
    const index_t tile_channel = tile_floats(b, spread), tile_limit = 40000;
    plan->tile_channels = even_part(f, clamp(tile_limit / tile_channel, 1, f), 1);
    // Channels side by side: groups that share a cache line, unless threads would wait for each other.
    const bool lines_shared = channels_touch(p.fine_operand) || channels_touch(p.coarse_operand);
    index_t groups = lines_shared && plan->tile_channels == f ? clamp(16 / most(f, c), 1, p.groups) : 1;
    while (groups > 1 && (plan->partials * (p.groups / groups) < 2 * threads || groups * f * tile_channel > tile_limit))
        groups /= 2;
    plan->groups_per_task = groups;
    plan->tile_floats = groups * plan->tile_channels * tile_channel + 8;
    plan->task_bytes = floats(plan->tile_floats) + floats(groups * c * plan->coarse_plane) +
                       floats(2 * plan->block_steps) + floats(plan->tile_channels * plan->count);
    const index_t biases = plan->partials * p.groups * c;
    plan->bias_sums = sums_bias_beside(p, biases) ? biases : 0;
    plan->shared_bytes = floats(plan->partials * sums) + floats(2 * plan->bias_sums);
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

}  // namespace cg
